/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Histograms of a step's gradients, for groups of parameters: one group for each block of the model, and one
 * for each parameter, or pair of weight and bias, outside the blocks. Each element of the model is counted on
 * one rank, and the counts are summed.
 */
#ifndef TRAIN_DASHBOARDS_GRADIENTS_H
#define TRAIN_DASHBOARDS_GRADIENTS_H

#include "train/dashboards/tfevents.h"
#include "train/trainer/trainer.h"

struct yokei_gradients {
    struct yoke_trainer *trainer;
    int n_groups;
    char (*name)[64];                  /* [n_groups] such as h.3 or ln_f */
    struct yokei_histogram *histogram; /* [n_groups] on rank 0: of the newest call of yokei_gradients_count */
    int *group;                        /* [logical parameters] the group of each parameter */
    int64_t *mine, *sum;               /* [n_groups, YOKEI_HISTOGRAM_BUCKETS] */
    double *range, *ranges;            /* [n_groups, 4] and that of all ranks: min, max, sum, squares */
    float *piece;
};

/** Prepare histograms. The trainer must outlive them. Each rank calls this function. YOKE_ENOMEM. */
yoke_status yokei_gradients_create(struct yoke_trainer *trainer, struct yokei_gradients **gradients_out);
/**
 * Count the gradients after a backward pass without an overflow, and before the optimizer. They are without
 * the loss scale, and before clipping. Collective; no rank waits for another one without the verdicts of
 * docs/FAULTS.md. Errors: those of devices and of comm.h.
 */
yoke_status yokei_gradients_count(struct yokei_gradients *gradients);
/** NULL is allowed. */
void yokei_gradients_free(struct yokei_gradients *gradients);

#endif
