/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is checked by central differences: pairs of a forward and a backward op. The pairs of an op are in the
 * file of its family, beside its row. gradients.c checks them.
 */
#ifndef CONFORM_GRADIENT_PAIRS_H
#define CONFORM_GRADIENT_PAIRS_H

#include "conform/trial.h"

enum { GRADIENT_MAX_INPUTS = 3 };

/*
 * One pair of forward and backward op: its inputs, the loss as a function of them, and the analytic
 * gradients. All arrays are f64 in host memory.
 */
struct gradient_check {
    yoke_stream *stream;
    uint64_t seed;
    int n_inputs;
    struct {
        const char *name;
        int64_t n;
        double *x, *dx; /* dx: the analytic gradient from the backward op */
    } input[GRADIENT_MAX_INPUTS];
    double *y, *w; /* y: output of the forward op; w: the weights of the loss, which are dY */
    int64_t n_y;
    double *extra; /* other outputs of the forward op */
    int32_t *tokens;
    struct gradient_shape {
        int64_t B, T, H, Hkv, D, C, V, M, N, K;
        bool causal, ta, tb;
        int64_t head_start, group;
        float p;
    } shape;
    yoke_status status;
};

struct gradient_pair {
    struct gradient_shape shape;
    void (*setup)(struct gradient_check *c);
    yoke_status (*forward)(struct gradient_check *c);
    yoke_status (*run_backward)(struct gradient_check *c);
};

/* ---- for setup: gradients.c frees all that they allocate ---- */
/** Declare an input of n random numbers. */
void gradient_input(struct gradient_check *c, const char *name, int64_t n);
/** Declare the output of n numbers, and n_extra numbers of other outputs. */
void gradient_output(struct gradient_check *c, int64_t n, int64_t n_extra);
/** Draw n tokens below `vocabulary`. With `some_ignored`, every fourth token is -1. */
void gradient_tokens(struct gradient_check *c, int64_t n, int64_t vocabulary, bool some_ignored);

/** Input i, and its gradient. */
#define INPUT(i) c->input[i].x
#define GRADIENT_OF(i) c->input[i].dx

/** Run an op with the scratch memory that it asks for. */
#define GRADIENT_CALL(op, ...)                                                              \
    do {                                                                                    \
        const struct yoke_##op##_args args = YOKE_ARGS(op, .dtype = YOKE_F64, __VA_ARGS__); \
        struct yoke_cost cost = { .size = sizeof cost };                                    \
        YOKE_TRY(yoke_##op##_can(yoke_stream_device(c->stream), &args, &cost));             \
        YOKE_TRY(yoke_stream_reserve(c->stream, cost.scratch_bytes));                       \
        YOKE_TRY(yoke_##op(c->stream, &args));                                              \
    } while (0)

#endif
