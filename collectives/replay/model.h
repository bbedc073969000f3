/* SPDX-License-Identifier: Apache-2.0 */
/** Ranks of a modelled cluster, as replay.c and formulas.c need them: model.c. */
#ifndef COLLECTIVES_REPLAY_MODEL_H
#define COLLECTIVES_REPLAY_MODEL_H

#include "collectives/ground/comm.h"
#include "collectives/operation/operation.h"
#include "collectives/replay/replay.h"

/** A rank's all_reduce, with the algorithm, chunks and lanes that choice.c chose for it. */
struct yokei_model_rank {
    yoke_comm comm;
    struct yokei_op op;
    struct yokei_lane *lane_list[YOKEI_LANES]; /* empty: for the choice, which counts lanes alone */
    void *segment;                             /* with data: memory that the rank shares; else NULL */
};

/** YOKE_EINVAL: see yokei_replay. */
yoke_status yokei_model_check(const struct yokei_links *links, int group, size_t count);
/** Groups of `group` ranks in sequence, as seen by rank 0. YOKE_ENOMEM. End them in any case. */
yoke_status yokei_model_hosts_begin(int size, int group, struct yokei_hosts *hosts_out);
void yokei_model_hosts_end(struct yokei_hosts *hosts);
/** The rank refers to `hosts`. YOKE_ENOMEM, YOKE_ECONFIG for a bad variable. End it in any case. */
yoke_status yokei_model_rank_begin(struct yokei_model_rank *model, int rank, int size,
                                   const struct yokei_hosts *hosts, size_t count,
                                   const struct yokei_replay_data *data);
/** Let rank r of `model` see the memory of another rank of its group. */
void yokei_model_rank_see(struct yokei_model_rank *model, const struct yokei_model_rank *other);
void yokei_model_rank_end(struct yokei_model_rank *model);

#endif
