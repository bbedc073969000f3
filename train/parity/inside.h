/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of parity share: run.c (who works when), reference.c (what one rank computes), judge.c (one layout against it). */
#ifndef TRAIN_PARITY_INSIDE_H
#define TRAIN_PARITY_INSIDE_H

#include "train/parity/parity.h"
#include "train/trainer/trainer.h"

enum { YOKEI_PARITY_CHECKS = 3 };
extern const int yokei_parity_checks[YOKEI_PARITY_CHECKS]; /* steps at which gradients are compared */

/** What one host rank computes in one precision. */
struct yokei_parity_expected {
    bool there;
    float *weights[YOKEI_PARITY_CHECKS], *gradients[YOKEI_PARITY_CHECKS]; /* whole tensors one after the other; NULL: beyond the last step */
    bool finite[YOKEI_PARITY_CHECKS];  /* else that step overflowed: there is nothing to compare with */
    double losses[YOKEI_PARITY_STEPS], norms[YOKEI_PARITY_STEPS];
};

struct yokei_parity_seat; /* communicators of some of the ranks: run.c */

struct yokei_parity {
    struct yokei_parity_config config;
    struct yoke_trainer_config world; /* all ranks, for what trainers ask of each other */
    int rank, n_ranks;
    int64_t steps;                    /* of the reference: the most that any layout takes */
    yoke_model *model;
    int64_t n_elements;
    char (*devices)[64];              /* of all ranks */
    int32_t *tokens, *targets;        /* [batch * sequence] of the step at hand */
    struct yokei_parity_expected expected[YOKE_N_DTYPES];
    struct yokei_parity_seat *seats;
};

/** Text-like tokens of a step: words of a small vocabulary, drawn by position, so that there is something to learn. */
void yokei_parity_fill_batch(struct yokei_parity *p, int64_t step);
/** Warm-up over 10 steps to 1e-3. */
double yokei_parity_rate(int64_t step);
/** A trainer's configuration, and what it points to. */
struct yokei_parity_setup {
    struct yoke_trainer_config config;
    int64_t shares[YOKEI_PARITY_MOST];
    int widths[YOKEI_PARITY_MOST];
};
/** What all trainers have in common, and a layout; NULL: one rank. */
void yokei_parity_set_up(const struct yokei_parity *p, const struct yokei_parity_layout *layout, yoke_dtype precision, struct yokei_parity_setup *out);

/** Compute, each precision on a host rank, and tell all. Collective. YOKE_ENUMERIC where no checked step has finite gradients. */
yoke_status yokei_parity_reference(struct yokei_parity *p, const bool precisions[YOKE_N_DTYPES]);
void yokei_parity_expected_free(struct yokei_parity_expected *e);

/**
 * Train by one layout on the ranks of comm and control (NULL: this rank alone), the first of which is the job's rank r->from; what the
 * gates say goes to r. A layout that cannot be created is left out (r->state).
 */
yoke_status yokei_parity_judge(struct yokei_parity *p, const struct yokei_parity_layout *l, yoke_comm *comm, yoke_comm *control,
                               struct yokei_parity_result *r);

#endif
