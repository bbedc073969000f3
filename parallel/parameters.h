/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The parameters of a model, each name once, and the part of each parameter that a rank holds (its shard).
 */
#ifndef PARALLEL_PARAMETERS_H
#define PARALLEL_PARAMETERS_H

#include <yoke/train.h>

struct yokei_parameters {
    int n, capacity;
    struct yoke_parameter *item; /* in the order of first declaration */
    uint64_t *hash;              /* of the names, by which they are found */
    int *first_layer; /* the lowest layer that uses the parameter; it is the last to add to its gradient */
    int n_layers;
    int (*of_layer)[YOKE_MAX_PARAMETERS]; /* a layer's parameters as indices into `item` */
    int *n_of_layer;
};

/**
 * Collect the parameters of all layers l with held[l]. held [n_layers]; NULL: all layers. Free the result
 * with yokei_parameters_free. YOKE_ECONFIG if a name is declared twice with different shapes.
 */
yoke_status yokei_parameters_create(const yoke_layer *const *layers, int n_layers, const bool *held,
                                    const struct yoke_place *place, struct yokei_parameters *out);
void yokei_parameters_free(struct yokei_parameters *parameters);

/** The index of the parameter with this name, or -1. */
int yokei_parameter_find(const struct yokei_parameters *parameters, const char *name);
/** The number of elements of the whole parameter, and of this rank's shard. */
int64_t yokei_logical_count(const struct yoke_parameter *p);
int64_t yokei_local_count(const struct yoke_parameter *p);

/**
 * Walk through the shard in order, in runs of elements that are contiguous in the whole parameter. For each
 * run it calls visit(context, index in the whole parameter, index in the shard, length of the run).
 */
void yokei_shard_runs(const struct yoke_parameter *p,
                      void (*visit)(void *context, int64_t logical, int64_t local, int64_t n), void *context);
/**
 * Copy this rank's shard from `whole` to `local`, or back from `local` to its place in `whole`. Both are f32.
 */
void yokei_shard_slice(const struct yoke_parameter *p, const float *whole, float *local);
void yokei_shard_place(const struct yoke_parameter *p, const float *local, float *whole);
/**
 * Draw the initial values of elements [first, first + n) of this rank's shard. The value of element i of the
 * whole parameter depends on (seed, name, i) alone, so all layouts start with the same values.
 */
void yokei_parameter_draw_piece(const struct yoke_parameter *p, uint64_t seed, int64_t first, int64_t n,
                                float *out);

#endif
