/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A rank of a replay that has the ranks, the devices and the layout of its run. The post-mortem writes an
 * order, and starts a job. Each rank of the job reads the order, opens its device and its communicators, and
 * trains.
 */
#ifndef TRAIN_POSTMORTEM_LAYOUT_H
#define TRAIN_POSTMORTEM_LAYOUT_H

#include "train/run/loop.h"

/** What the ranks repeat. A text that is not needed is NULL. */
struct yokei_replay_order {
    char *plan;       /* the plan.json of the run */
    char *checkpoint; /* where the steps begin; NULL: at the beginning of the run */
    char *init;       /* the weights with which the run began; NULL: drawn */
    char *data, *tokenizer;
    char *skip_samples;
    char *folder; /* for the black boxes */
    char *save;   /* for a checkpoint behind the last step */
    bool is_llmc;
    int64_t last; /* the replay ends behind this step */
};
yoke_status yokei_replay_order_write(const char *path, const struct yokei_replay_order *order);
/** YOKE_EDATA, YOKE_ECONFIG. Free the order with yokei_replay_order_free. */
yoke_status yokei_replay_order_read(const char *path, struct yokei_replay_order *order_out);
void yokei_replay_order_free(struct yokei_replay_order *order);
/**
 * Fill the training of this rank, but for its device and its communicators. The order must outlive it. The
 * rank gets as many host threads as in the run. `checkpoint` is memory for a path. YOKE_ECONFIG, YOKE_EDATA.
 */
yoke_status yokei_replay_prepare(const struct yokei_replay_order *order, int job_rank, char *checkpoint,
                                 size_t bytes, struct yokei_training *t);
/** Repeat the steps. Collective. Errors are those of yokei_training_run. */
yoke_status yokei_replay_run(struct yokei_training *t);

#endif
