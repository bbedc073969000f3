/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One process plans a run of many ranks without starting the ranks. The plan has the place, the layers, the
 * memory, the work and the waiting time of each rank.
 */
#ifndef TRAIN_RUN_FORECAST_H
#define TRAIN_RUN_FORECAST_H

#include "train/run/loop.h"
#include "train/trainer/memory.h"

struct yokei_forecast_rank {
    struct yokei_mesh at;
    int64_t samples, micro_batch;
    int n_micro_batches;
    char layers[128]; /* names of the first and the last layer of each chunk: "embedding .. h.1.mlp" */
    int n_layers;
    int64_t n_elements; /* elements of the parameters that the rank holds */
    /*
     * operations of its forward and backward passes in a step, as the ops count them, recomputation included
     */
    double flops;
    double recomputed; /* the part of `flops` that is recomputation */
};
struct yokei_forecast {
    int n_ranks;
    struct yokei_mesh mesh;
    int *widths; /* ranks of each stage, as in the mesh */
    struct yokei_forecast_rank *rank;
    struct yokei_memory_rank *memory; /* [n_ranks] */
    char schedule[32];
    int64_t n_elements; /* elements of the model's parameters */
    /* operations of a step: tokens (6 (12 L h^2 + h V) + 12 L h T), with attention counted without its mask
     * (Korthikanti et al. 2022, appendix A) */
    double model_flops;
    double bubble; /* bubble (idle fraction) of replica 0, computed by the simulator */
    bool fits;
    char why[4096]; /* if it does not fit: the error text that yoke train would print */
};

/**
 * The costs of F, B and W of one micro-batch on one stage, and of a message to the next stage, all in the
 * same unit of time.
 */
struct yokei_forecast_costs {
    double F, B, W, hop;
};
/**
 * Plan t->plan for n_ranks ranks. Rank r runs on device[r % n_devices]; t->device and the communicators are
 * not used. If t->plan has no shares, it gets equal ones. It also gets the ranks' memory. A run that does not
 * fit is not an error here. YOKE_ECONFIG, YOKE_EUNSUPPORTED, YOKE_ENOMEM.
 */
yoke_status yokei_forecast(struct yokei_training *t, int n_ranks, yoke_device *const device[], int n_devices,
                           const struct yokei_forecast_costs *costs, struct yokei_forecast *forecast_out);
void yokei_forecast_free(struct yokei_forecast *forecast);

#endif
