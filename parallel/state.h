/* SPDX-License-Identifier: Apache-2.0 */
/** What lives on the device across steps, and where: weights, gradients in buckets, moments, and a step's input and output. */
#ifndef PARALLEL_STATE_H
#define PARALLEL_STATE_H

#include "parallel/parameters.h"

/** Where one parameter's tensors lie, as offsets into the rank's one allocation. */
struct yokei_slot {
    int64_t n;               /* elements held */
    size_t master, moment1, moment2, gradient;
    size_t weight;           /* what layers are given: the working copy, or the master */
    bool has_copy;
};

/** A contiguous piece of the gradients that is summed over the ranks in one go. */
struct yokei_bucket {
    size_t offset;
    int64_t n;               /* elements, padding included */
    int layer;               /* complete once W of this layer is done in the last micro-batch */
};

struct yokei_state {
    yoke_dtype dtype, wide;
    int n;
    struct yokei_slot *slot; /* as in yokei_parameters */
    int n_buckets;
    struct yokei_bucket *bucket;
    size_t gradients, gradients_bytes;
    size_t tokens, targets;  /* i32 [tokens of the rank's share] */
    size_t losses;           /* wide, the same */
    size_t norms;            /* wide [2 n] */
    size_t bytes;            /* all of it; what a program needs comes behind */
    struct yoke_memory_report report;
};

/** Lay out. `n_tokens`: of the rank's share of a step, or of an evaluation, whichever is more. */
yoke_status yokei_state_create(const struct yokei_parameters *parameters, yoke_dtype dtype, int64_t n_tokens,
                               size_t bucket_bytes, struct yokei_state *state_out);
void yokei_state_free(struct yokei_state *state);

#endif
