/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What is checked by central differences: pairs of a forward and a backward op (gradient_pairs.c).
 * gradients.c checks them.
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

/** The pairs that check an op. An op without a gradient of its own has none. */
struct gradient_pairs {
    const struct gradient_pair *list;
    size_t n;
};
struct gradient_pairs conform_gradient_pairs(enum yoke_op_id op);

#endif
