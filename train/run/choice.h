/* SPDX-License-Identifier: Apache-2.0 */
/** How the work of a run is divided: what the files of it share. balance.c knows what is given, choice.c chooses the rest, choice_text.c says it. */
#ifndef TRAIN_RUN_CHOICE_H
#define TRAIN_RUN_CHOICE_H

#include "train/run/loop.h"

/** Which parts of the division the user or a plan gives. */
struct yokei_given {
    bool layers, tensor_shares, shares;
};

/** What the division of the work is chosen from, for all ranks that work. */
struct yokei_choice {
    struct yokei_run_state *s;
    struct yokei_layer_times *times;      /* [n_ranks] */
    double *part;                   /* [n_ranks] of each layer's tensors */
    double *seconds, *fixed;        /* [n_ranks] per sequence; per step, whatever the sequences */
    double *cost, *replica_fixed;   /* [mesh.data] of its slowest rank */
    int64_t *shares;                /* [mesh.data] */
    bool *done;                     /* [n_ranks] room */
    double step_seconds, sums_seconds;
};

/* ---- balance.c ---- */
/** The plan's blocks of each stage and tensor shares as numbers, into the run's state. YOKE_ECONFIG, YOKE_ENOMEM. */
yoke_status yokei_run_read_cuts(struct yokei_run_state *s);

/* ---- choice.c ---- */
/** The model's blocks: an attention layer and an MLP layer each. */
int yokei_run_n_blocks(const yoke_model *model);
/** Blocks of one stage, cut as yokei_mesh_chunks cuts. */
int64_t yokei_run_blocks_of_stage(const struct yokei_run_state *s, int stage);
/** Whether anything can be chosen beside what is given. */
bool yokei_run_is_open(const struct yokei_run_state *s, const struct yokei_given *given);
/** Measure the devices, choose what is not given, write it into the plan, and say it. Collective. YOKE_ENOMEM is the same on all ranks. */
yoke_status yokei_run_choose(struct yokei_run_state *s, const struct yokei_given *given);

/* ---- choice_text.c ---- */
/** The numbers with `between` between them. Where the field has no room the text is empty, which means equal numbers. */
void yokei_run_numbers_text(const int64_t *list, int n, char between, char *out, size_t bytes);
void yokei_run_write_choice(struct yokei_run_state *s, const struct yokei_choice *c);
void yokei_run_tell_choice(const struct yokei_run_state *s, const struct yokei_choice *c);

#endif
