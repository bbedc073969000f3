/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the bounds share. */
#ifndef TRAIN_SEARCH_BOUNDS_INSIDE_H
#define TRAIN_SEARCH_BOUNDS_INSIDE_H

#include "train/search/bounds.h"

static inline double all(const struct yokei_layer_seconds *x) { return x->F + x->B + x->W + x->R; }
/* The part that must come before, or after, all work of the stages behind it. R may come at any time. */
static inline double chain(const struct yokei_layer_seconds *x, bool sends_early)
{
    return sends_early ? x->F : x->F + x->B + x->W;
}

/* F as a part of this chain. */
static inline double part_of_forward(const struct yokei_layer_seconds *x, bool sends_early)
{
    const double whole = chain(x, sends_early);
    return whole > 0 ? x->F / whole : 1;
}

static inline double back(const struct yokei_layer_seconds *x) { return x->B + x->W + x->R; }

/*
 * How long before the end of the last pass the sums of a layer can begin, by (3). Only W is left if B was
 * sent early.
 */
static inline double yokei_bound_back(const struct yokei_layout *l, int s,
                                      const struct yokei_layer_seconds *x)
{
    return l->schedule == YOKEI_PIPELINE_ZB_H1 && s > 0 ? x->W : back(x);
}

/** The least seconds for each byte of a stage's gradients, by the bound (3). */
double yokei_bound_byte(const struct yokei_predict_config *config, const struct yokei_layout *layout,
                        const struct yokei_slot_place *slots, int stage);
/** The least time of a message of a replica from a stage to the next one, and of its bytes alone. */
double yokei_bound_hop(const struct yokei_predict_config *config, const struct yokei_layout *layout,
                       const struct yokei_slot_place *slots, int stage, int replica, double *bytes_seconds);
/** Whether two replicas have the same kinds in the same stages. */
bool yokei_same_kinds(const struct yokei_layout *layout, const struct yokei_slot_place *slots, int a, int b);

#endif
