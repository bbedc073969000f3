/* SPDX-License-Identifier: Apache-2.0 */
/** Modelled ranks, as replay.c and formulas.c need them: model.c. */
#ifndef COLLECTIVES_REPLAY_MODEL_H
#define COLLECTIVES_REPLAY_MODEL_H

#include "collectives/ground/comm.h"
#include "collectives/replay/replay.h"

/** A rank, and its operation of the call that is replayed. comm.work has its lanes. */
struct yokei_model_rank {
    bool begun;
    yoke_comm comm; /* as model->base, except for what a rank knows of itself and of the ranks near it */
    struct yokei_op op;
    /* Only with data: the memory that the rank shares, and buffers of its lanes. */
    void *segment;
    char *lane_room;
};

struct yokei_model {
    int size;
    bool staged;
    yoke_comm base;
    struct yokei_model_rank *ranks; /* [size] */
    uint64_t *sent;                 /* [size] */
    yoke_device *device;            /* With `staged`: a stream of the host copies from and to the buffers. */
    yoke_stream *stream;
};

/** YOKE_EINVAL: see yokei_replay. */
yoke_status yokei_model_check(const struct yokei_links *links, int group, size_t count);
/** Ranks in groups of `group` ranks in sequence. End the model in any case. YOKE_ENOMEM, YOKE_ECONFIG. */
yoke_status yokei_model_of_groups(int size, int group, struct yokei_model **model_out);
/** Make rank q's operation, with the algorithm, chunks and lanes that choice.c chooses. YOKE_ENOMEM. */
yoke_status yokei_model_prepare(struct yokei_model *model, int q, const struct yokei_replay_call *call);
/** For a call with data: let each rank see the memory of its group alone. All ranks are prepared. */
void yokei_model_show_memory(struct yokei_model *model);

#endif
