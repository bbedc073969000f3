/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters are collected by name, cut into shards by ranges, and drawn by a counter-based generator. */
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/parameters.h"

int yokei_parameter_find(const struct yokei_parameters *ps, const char *name)
{
    const uint64_t hash = yokei_hash(name, strlen(name), 0);
    for (int i = 0; i < ps->n; i++)
        if (ps->hash[i] == hash && strcmp(ps->item[i].name, name) == 0) return i;
    return -1;
}

/* Make room for one more parameter. */
static yoke_status grow(struct yokei_parameters *ps)
{
    if (ps->n < ps->capacity) return YOKE_OK;
    const int capacity = 2 * ps->capacity + 64;
    struct yoke_parameter *item = realloc(ps->item, (size_t)capacity * sizeof *item);
    if (item) ps->item = item;
    int *first = realloc(ps->first_layer, (size_t)capacity * sizeof *first);
    if (first) ps->first_layer = first;
    uint64_t *hash = realloc(ps->hash, (size_t)capacity * sizeof *hash);
    if (hash) ps->hash = hash;
    if (!item || !first || !hash)
        return yoke_fail(YOKE_ENOMEM, "the model's parameters: no host memory for %d of them", capacity);
    ps->capacity = capacity;
    return YOKE_OK;
}

static yoke_status add(struct yokei_parameters *ps, int layer, const struct yoke_parameter *p)
{
    int i = yokei_parameter_find(ps, p->name);
    if (i >= 0) {
        const struct yoke_parameter *q = &ps->item[i];
        const bool same_shape = q->n_dims == p->n_dims && !memcmp(q->shape, p->shape, sizeof q->shape);
        if (!same_shape || q->matrix != p->matrix)
            return yoke_fail(YOKE_ECONFIG,
                             "parameter %s is declared twice, %s: give one of them another name", p->name,
                             same_shape ? "once as a matrix and once not" : "with different shapes");
        if (layer < ps->first_layer[i]) ps->first_layer[i] = layer;
    } else {
        YOKE_TRY(grow(ps));
        i = ps->n++;
        ps->item[i] = *p;
        ps->hash[i] = yokei_hash(p->name, strlen(p->name), 0);
        ps->first_layer[i] = layer;
    }
    ps->of_layer[layer][ps->n_of_layer[layer]++] = i;
    return YOKE_OK;
}

yoke_status yokei_parameters_create(const yoke_layer *const *layers, int n_layers, const bool *held,
                                    const struct yoke_place *place, struct yokei_parameters *out)
{
    yoke_status status = YOKE_OK;
    struct yokei_parameters ps = { .n_layers = n_layers };
    ps.of_layer = calloc((size_t)n_layers + 1, sizeof *ps.of_layer);
    ps.n_of_layer = calloc((size_t)n_layers + 1, sizeof *ps.n_of_layer);
    if (!ps.of_layer || !ps.n_of_layer) {
        status = yoke_fail(YOKE_ENOMEM, "the model's parameters: no host memory for %d layers", n_layers);
        goto free_parameters;
    }
    for (int l = 0; l < n_layers; l++) {
        struct yoke_parameter p;
        if (held && !held[l]) continue;
        for (int i = 0; layers[l]->type->parameter && layers[l]->type->parameter(layers[l], place, i, &p);
             i++) {
            if (i == YOKE_MAX_PARAMETERS) {
                status = yoke_fail(YOKE_ECONFIG, "layer %s declares more than %d parameters: split it",
                                   layers[l]->name, YOKE_MAX_PARAMETERS);
                goto free_parameters;
            }
            YOKE_TRY_GOTO(add(&ps, l, &p), free_parameters);
        }
    }
    *out = ps;
    return YOKE_OK;
free_parameters:
    yokei_parameters_free(&ps);
    return status;
}

void yokei_parameters_free(struct yokei_parameters *ps)
{
    free(ps->item);
    free(ps->first_layer);
    free(ps->hash);
    free(ps->of_layer);
    free(ps->n_of_layer);
    memset(ps, 0, sizeof *ps);
}

int64_t yokei_logical_count(const struct yoke_parameter *p)
{
    int64_t n = 1;
    for (int d = 0; d < p->n_dims; d++) n *= p->shape[d];
    return n;
}

/* The extent of one dimension of this rank's shard. */
static int64_t local_extent(const struct yoke_parameter *p, int dim)
{
    const struct yoke_ranges *r = &p->shard[dim];
    if (r->n == 0) return p->shape[dim];
    int64_t n = 0;
    for (int i = 0; i < r->n; i++) n += r->range[i].end - r->range[i].begin;
    return n;
}

int64_t yokei_local_count(const struct yoke_parameter *p)
{
    int64_t n = 1;
    for (int d = 0; d < p->n_dims; d++) n *= local_extent(p, d);
    return n;
}

struct walk {
    const struct yoke_parameter *p;
    void (*visit)(void *context, int64_t logical, int64_t local, int64_t n);
    void *context;
    int64_t local;
};

/*
 * Walk through dimension `dim` and those after it. `logical` is the index, in the whole parameter, of the
 * first element of the sub-array that the dimensions before `dim` have selected.
 */
static void walk_dimension(struct walk *w, int dim, int64_t logical)
{
    const struct yoke_parameter *p = w->p;
    if (dim >= YOKE_MAX_DIMS) return;
    const struct yoke_ranges whole = { 1, { { 0, p->shape[dim] } } };
    const struct yoke_ranges *r = p->shard[dim].n ? &p->shard[dim] : &whole;
    int64_t stride = 1;
    for (int d = dim + 1; d < p->n_dims; d++) stride *= p->shape[d];
    for (int i = 0; i < r->n; i++) {
        int64_t begin = r->range[i].begin, end = r->range[i].end;
        /* The second condition is for the compiler, which does not know n_dims. */
        if (dim == p->n_dims - 1 || dim == YOKE_MAX_DIMS - 1) {
            w->visit(w->context, logical + begin, w->local, end - begin);
            w->local += end - begin;
        } else {
            for (int64_t j = begin; j < end; j++) walk_dimension(w, dim + 1, logical + j * stride);
        }
    }
}

void yokei_shard_runs(const struct yoke_parameter *p,
                      void (*visit)(void *context, int64_t logical, int64_t local, int64_t n), void *context)
{
    struct walk w = { p, visit, context, 0 };
    bool whole = true;
    for (int d = 0; d < p->n_dims; d++) whole = whole && p->shard[d].n == 0;
    if (whole)
        visit(context, 0, 0, yokei_logical_count(p));
    else
        walk_dimension(&w, 0, 0);
}

struct copy {
    const float *from;
    float *to;
};

static void slice_run(void *context, int64_t logical, int64_t local, int64_t n)
{
    struct copy *c = context;
    memcpy(c->to + local, c->from + logical, (size_t)n * sizeof(float));
}

static void place_run(void *context, int64_t logical, int64_t local, int64_t n)
{
    struct copy *c = context;
    memcpy(c->to + logical, c->from + local, (size_t)n * sizeof(float));
}

void yokei_shard_slice(const struct yoke_parameter *p, const float *whole, float *local)
{
    yokei_shard_runs(p, slice_run, &(struct copy){ whole, local });
}

void yokei_shard_place(const struct yoke_parameter *p, const float *local, float *whole)
{
    yokei_shard_runs(p, place_run, &(struct copy){ local, whole });
}

struct draw {
    const struct yoke_parameter *p;
    struct yokei_philox_key key;
    int64_t first, end; /* the elements of the shard to draw */
    float *to;
};

static void draw_run(void *context, int64_t logical, int64_t local, int64_t n)
{
    struct draw *d = context;
    for (int64_t i = YOKE_MAX(d->first - local, 0); i < YOKE_MIN(n, d->end - local); i++)
        d->to[local + i - d->first] = d->p->init == YOKE_INIT_ZEROS ? 0.0f
                                      : d->p->init == YOKE_INIT_ONES
                                          ? 1.0f
                                          : (float)(d->p->init_std
                                                    * yokei_normal(d->key, (uint64_t)(logical + i)));
}

void yokei_parameter_draw_piece(const struct yoke_parameter *p, uint64_t seed, int64_t first, int64_t n,
                                float *out)
{
    yokei_shard_runs(p, draw_run,
                     &(struct draw){ p, yokei_philox_named(seed, p->name), first, first + n, out });
}
