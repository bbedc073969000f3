/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Plans of many ranks by one process. Many ranks of a run are alike: they get the same list of instructions
 * and need the same memory. Each distinct rank is planned once.
 */
#ifndef TRAIN_TRAINER_PLANNED_H
#define TRAIN_TRAINER_PLANNED_H

#include "train/trainer/trainer.h"

/** The numbers that a rank's plan has. A plain value. */
struct yokei_planned {
    struct yoke_memory_report report;
    int64_t samples, micro_batch;
    int n_micro_batches;
    /* bytes of moments and masters, if replicas divide them: this rank's part, and the whole */
    size_t divided, undivided;
    int64_t n_elements; /* elements of the parameters that the rank holds */
    /*
     * operations of its forward and backward passes in a step, as the ops count them, recomputation included
     */
    double flops;
    double recomputed; /* the part of `flops` that is recomputation */
    /* The ops of its step; NULL: the plan has programs. They live until yokei_planned_free. */
    const struct yokei_counted *counts;
    const struct yokei_counted_once *once;
};
/** The numbers of a plan that exists. */
void yokei_planned_of(const struct yokei_trainer_plan *plan, struct yokei_planned *out);

/** The distinct ranks that were planned. All fields 0: none yet. */
struct yokei_planned_ranks {
    void *known, *segments, *counts; /* trees of <search.h>: plans, segment lengths, and counts (counted.h) */
    int n_planned;                   /* the number of distinct ranks */
};
void yokei_planned_free(struct yokei_planned_ranks *ranks);
/**
 * Plan rank `rank` of n_ranks, as yokei_trainer_plan_as does, unless a rank that is alike is known. Two ranks
 * are alike if they have the same configuration, the same device, the same position among the stages, layers
 * of the same types and configurations, parts of the same extents, and the same sequences. Ranks whose steps
 * are divided by ZeRO-1 must also belong to the same replica. Without ZeRO-1 the ranks of different replicas
 * may differ in the number of partial sums of the norm, which is a few bytes. The errors are those of
 * yokei_trainer_plan_as. `at` gets the rank's place and layers: its fields mesh, place, chunk, held,
 * stage_of, shares and micro_batch. The rest is there only if the rank was not like a known one. The caller
 * frees `at` with yokei_trainer_plan_free.
 */
yoke_status yokei_planned_rank(struct yokei_planned_ranks *ranks, const yoke_model *model,
                               yoke_device *device, const struct yoke_trainer_config *config, int rank,
                               int n_ranks, struct yokei_trainer_plan *at, struct yokei_planned *out);
/** The same numbers, without the rank's place. This is faster if many ranks are at alike places. */
yoke_status yokei_planned_numbers(struct yokei_planned_ranks *ranks, const yoke_model *model,
                                  yoke_device *device, const struct yoke_trainer_config *config, int rank,
                                  int n_ranks, struct yokei_planned *out);

#endif
