/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How the work of a run is divided: declarations shared by four files. divide_work.c knows which parts are
 * given, division.c chooses the others, division_text.c reports the choice, cuts.c reads it.
 */
#ifndef TRAIN_RUN_DIVISION_H
#define TRAIN_RUN_DIVISION_H

#include "train/run/loop.h"

/** Which parts of the division are given by the user or by a plan. */
struct yokei_given {
    bool layers, tensor_shares, shares;
};

/** The data from which the division of the work is chosen, for all ranks that work. */
struct yokei_division {
    struct yokei_run_state *s;
    struct yokei_layer_times *times; /* [n_ranks] */
    double *part;                    /* [n_ranks] the rank's part of each layer's tensors */
    /* [n_ranks] seconds per sequence; seconds per step that do not depend on the number of sequences */
    double *seconds, *fixed;
    double *cost, *replica_fixed; /* [mesh.data] the same for the slowest rank of each replica */
    int64_t *shares;              /* [mesh.data] */
    bool *done;                   /* [n_ranks] scratch memory */
    bool *used;                   /* [mesh.data] which replicas work */
    double step_seconds, sums_seconds;
};

/* ---- cuts.c ---- */
/**
 * Parse the plan's blocks of each stage and its tensor shares into numbers of the run's state. YOKE_ECONFIG,
 * YOKE_ENOMEM.
 */
yoke_status yokei_run_read_cuts(struct yokei_run_state *s);
/** The number of the model's blocks. A block is an attention layer and an MLP layer. */
int yokei_run_n_blocks(const yoke_model *model);
/** The blocks of one stage, cut in the same way as by yokei_mesh_chunks. */
int64_t yokei_run_blocks_of_stage(const struct yokei_run_state *s, int stage);

/* ---- division.c ---- */
/** Whether some part of the division is not given and can be chosen. */
bool yokei_run_is_open(const struct yokei_run_state *s, const struct yokei_given *given);
/**
 * Measure the devices, choose the parts that are not given, write the choice into the plan, and report it.
 * Collective. YOKE_ENOMEM is the same on all ranks.
 */
yoke_status yokei_run_choose(struct yokei_run_state *s, const struct yokei_given *given);

/* ---- division_text.c ---- */
/**
 * Write the numbers with the character `between` between them. If `out` is too small, the text is empty,
 * which means equal numbers.
 */
void yokei_run_numbers_text(const int64_t *list, int n, char between, char *out, size_t bytes);
void yokei_run_write_division(struct yokei_run_state *s, const struct yokei_division *c);
void yokei_run_report_division(const struct yokei_run_state *s, const struct yokei_division *c);

#endif
