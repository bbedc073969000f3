/* SPDX-License-Identifier: Apache-2.0 */
/** What a run of many ranks would be, planned by one process without them: places, layers, memory, work and waiting. */
#ifndef TRAIN_RUN_FORECAST_H
#define TRAIN_RUN_FORECAST_H

#include "train/run/loop.h"
#include "train/trainer/memory.h"

struct yokei_forecast_rank {
    struct yokei_mesh at;
    int64_t samples, micro_batch;
    int n_micro_batches;
    char layers[128];       /* first and last of each chunk: "embedding .. h.1.mlp" */
    int n_layers;
    int64_t n_elements;     /* of parameters that it holds */
    double flops;           /* of its forward and backward passes in a step, as the ops count them, recomputation included */
    double recomputed;      /* of these */
};
struct yokei_forecast {
    int n_ranks;
    struct yokei_mesh mesh;
    int *widths;            /* the mesh's */
    struct yokei_forecast_rank *rank;
    struct yokei_memory_rank *memory; /* [n_ranks] */
    char schedule[32];
    int64_t n_elements;     /* of the model */
    double model_flops;     /* of a step: tokens (6 (12 L h^2 + h V) + 12 L h T), attention counted without its mask (Korthikanti et al. 2022, appendix A) */
    double bubble;          /* of replica 0, by the simulator */
    bool fits;
    char why[4096];         /* not: what yoke train would say */
};

/** F, B and W of a stage's micro-batch, and a message to the next stage, in one unit of time. */
struct yokei_forecast_costs {
    double F, B, W, hop;
};
/**
 * Plan t->plan for n_ranks ranks, rank r on device[r % n_devices]; t->device and communicators are not looked at. t->plan is completed with
 * equal shares, where it has none, and the ranks' memory. A run that does not fit is no error here. YOKE_ECONFIG, YOKE_EUNSUPPORTED, YOKE_ENOMEM.
 */
yoke_status yokei_forecast(struct yokei_training *t, int n_ranks, yoke_device *const device[], int n_devices,
                           const struct yokei_forecast_costs *costs, struct yokei_forecast *forecast_out);
void yokei_forecast_free(struct yokei_forecast *forecast);

#endif
