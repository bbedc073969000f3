/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The loss of a model in f64, computed from the formulas of the model's kind and from its configuration. This
 * computation shares nothing with the layers, the operations and the devices of Yoke. So it finds a fault
 * that a replay repeats, such as a wrong epsilon or scores that are not scaled. It is slow, and has no
 * dropout.
 */
#ifndef TRAIN_POSTMORTEM_FORMULAS_H
#define TRAIN_POSTMORTEM_FORMULAS_H

#include "train/models/model_files.h"

struct yokei_formulas;

/** YOKE_ENOMEM. All weights are 0 at first. `model` must outlive the result. */
yoke_status yokei_formulas_create(struct yokei_model model, struct yokei_formulas **out);
/** NULL is allowed. */
void yokei_formulas_free(struct yokei_formulas *f);
/** The elements of a weight, for the caller to fill in. NULL: there is no weight of this name. */
double *yokei_formulas_weight(struct yokei_formulas *f, const char *name, int64_t *n_out);
/** The layers whose outputs are computed: the embedding, two for each block, and the last norm. */
int yokei_formulas_n_outputs(const struct yokei_formulas *f);
/**
 * Add the losses of the tokens of one sequence to *sum. Targets below 0 do not count. largest
 * [yokei_formulas_n_outputs] becomes the largest output of each layer in absolute value, if it is larger;
 * NULL: not wanted. The output of a block's layer is the residual stream behind it. YOKE_ENOMEM.
 */
yoke_status yokei_formulas_loss(const struct yokei_formulas *f, const int32_t *inputs, const int32_t *targets,
                                int64_t T, double *sum, double *largest);

#endif
