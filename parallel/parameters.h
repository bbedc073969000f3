/* SPDX-License-Identifier: Apache-2.0 */
/** The parameters of a model, each name once, and what of them a rank holds. */
#ifndef PARALLEL_PARAMETERS_H
#define PARALLEL_PARAMETERS_H

#include <yoke/train.h>

struct yokei_parameters {
    int n;
    struct yoke_parameter *item;             /* in the order of first declaration */
    int *first_layer;                        /* the lowest layer that uses it: the last to add to its gradient */
    int n_layers;
    int (*of_layer)[YOKE_MAX_PARAMETERS];    /* a layer's parameters as indices of `item` */
    int *n_of_layer;
};

/** Collect, of the layers that are `held` [n_layers] (NULL: all). YOKE_ECONFIG when a name is declared twice with different shapes. */
yoke_status yokei_parameters_create(const yoke_layer *const *layers, int n_layers, const bool *held, const struct yoke_place *place,
                                    struct yokei_parameters *out);
void yokei_parameters_free(struct yokei_parameters *parameters);

/** Index of the parameter of that name, or -1. */
int yokei_parameter_find(const struct yokei_parameters *parameters, const char *name);
/** Elements of the whole parameter, and of what this rank holds. */
int64_t yokei_logical_count(const struct yoke_parameter *p);
int64_t yokei_local_count(const struct yoke_parameter *p);

/**
 * Walk the held elements in order, in runs that are contiguous in the whole parameter:
 * visit(context, logical index, local index, length of the run).
 */
void yokei_shard_runs(const struct yoke_parameter *p, void (*visit)(void *context, int64_t logical, int64_t local, int64_t n),
                      void *context);
/** local = the held elements of `whole` (f32 both); and back. */
void yokei_shard_slice(const struct yoke_parameter *p, const float *whole, float *local);
void yokei_shard_place(const struct yoke_parameter *p, const float *local, float *whole);
/** Draw what this rank holds: element i of the whole parameter by (seed, name, i), so every layout starts alike. */
void yokei_parameter_draw(const struct yoke_parameter *p, uint64_t seed, float *local);
/** Elements [first, first + n) of it. */
void yokei_parameter_draw_piece(const struct yoke_parameter *p, uint64_t seed, int64_t first, int64_t n, float *out);

#endif
