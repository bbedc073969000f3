/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations that the files of parity share: run.c (which rank works when), reference.c (the reference
 * computed by one rank), judge.c (one layout compared with the reference).
 */
#ifndef TRAIN_PARITY_INSIDE_H
#define TRAIN_PARITY_INSIDE_H

#include "train/parity/parity.h"
#include "train/trainer/trainer.h"

enum { YOKEI_PARITY_CHECKS = 3 };
extern const int yokei_parity_checks[YOKEI_PARITY_CHECKS]; /* steps at which gradients are compared */

/** The reference: the numbers that one host rank computes in one precision. */
struct yokei_parity_expected {
    bool there;
    /* whole tensors one after the other; NULL: after the last step */
    float *weights[YOKEI_PARITY_CHECKS], *gradients[YOKEI_PARITY_CHECKS];
    bool finite[YOKEI_PARITY_CHECKS]; /* false: that step overflowed, so there is nothing to compare */
    double losses[YOKEI_PARITY_STEPS], norms[YOKEI_PARITY_STEPS];
};

struct yokei_parity_seat; /* communicators of some of the ranks: run.c */

struct yokei_parity {
    struct yokei_parity_config config;
    struct yoke_trainer_config world; /* all ranks, for the communication between trainers */
    int rank, n_ranks;
    int64_t steps; /* steps of the reference: the most steps of any layout */
    yoke_model *model;
    int64_t n_elements;
    char (*devices)[64];       /* [n_ranks] names of the ranks' devices */
    int32_t *tokens, *targets; /* [batch * sequence] of the current step */
    struct yokei_parity_expected expected[YOKE_N_DTYPES];
    struct yokei_parity_seat *seats;
};

/**
 * Make the tokens of a step. They are similar to text: words of a small vocabulary, drawn by position, so
 * that a model can learn something.
 */
void yokei_parity_fill_batch(struct yokei_parity *p, int64_t step);
/** The learning rate: warm-up over 10 steps to 1e-3. */
double yokei_parity_rate(int64_t step);
/** The configuration of a trainer, and the arrays to which it points. */
struct yokei_parity_setup {
    struct yoke_trainer_config config;
    int64_t shares[YOKEI_PARITY_MOST];
    int widths[YOKEI_PARITY_MOST];
};
/** Fill in the common configuration of all trainers, and the layout; layout NULL: one rank. */
void yokei_parity_set_up(const struct yokei_parity *p, const struct yokei_parity_layout *layout,
                         yoke_dtype precision, struct yokei_parity_setup *out);

/**
 * Compute the reference of each precision on a host rank, and send it to all ranks. Collective. YOKE_ENUMERIC
 * if no checked step has finite gradients.
 */
yoke_status yokei_parity_reference(struct yokei_parity *p, const bool precisions[YOKE_N_DTYPES]);
void yokei_parity_expected_free(struct yokei_parity_expected *e);

/**
 * Train with one layout on the ranks of comm and control (NULL: this rank alone), and compare with the
 * reference. The first of these ranks is the job's rank r->from. The results of the gates go to r. A layout
 * that cannot be created is left out (r->state).
 */
yoke_status yokei_parity_judge(struct yokei_parity *p, const struct yokei_parity_layout *l, yoke_comm *comm,
                               yoke_comm *control, struct yokei_parity_result *r);

#endif
