/* SPDX-License-Identifier: Apache-2.0 */
/** Elementwise sums and products, and dropout. */
#ifndef YOKE_OPS_ELEMENTWISE_H
#define YOKE_OPS_ELEMENTWISE_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_ELEMENTWISE_OPS(OP) OP(add) OP(scale) OP(dropout)

/**
 * Maths:  z[i] = x[i] + y[i]       Shapes: [n]     Types: {f32, f16, bf16}, the same; in f32, rounded once
 * Writes: z; may alias x or y      Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |z - ref| <= u |ref| + u32 |ref|
 */
struct yoke_add_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x, *y;
    void *z;
};

/**
 * Maths:  y[i] = alpha * x[i]      Shapes: [n]     Types: {f32, f16, bf16}, the same; in f32, rounded once
 * Writes: y; may alias x           Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |y - ref| <= u |ref| + u32 |ref| + eta
 */
struct yoke_scale_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    float alpha;
    const void *x;
    void *y;
};

/**
 * The key of the random draws that are called `name` in step `step` of a run with this seed; keys of other names, steps or seeds draw
 * independently. A layer adds what it draws for to its name: "h.0.attn/residual".
 */
uint64_t yoke_random_key(uint64_t seed, int64_t step, const char *name);

/**
 * Dropout, forward; and backward, where x is dy and y is dx: nothing is kept, the same key draws the same elements again.
 * Maths:  y[n, c] = (kept(n, c) ? s x[n, c] : 0) [+ residual[n, c]],  s = 1 / (1 - p), rounded to f32
 *         Row n is row r = first_row + n of whole sequences of T tokens: sample sample_start + r / T, position pos_start + r mod T;
 *         column c is channel channel_start + c. An element is kept where its word is at least p 2^32, rounded to a whole number: word
 *         (channel / 16) mod 4 of Philox4x32-10 under `key` at counter (16 (channel / 64) + channel mod 16, position, sample, 0).
 *         So the choice depends on the element alone, and not on which rank, device or piece of the matrix holds it.
 * Shapes: x, residual, y [N, C], ld >= C each     Types: {f32, f16, bf16}, the same; in f32, rounded once
 * Writes: y; may alias x or residual (same ld). residual NULL adds nothing. What is dropped is not looked at: NaN does not pass.
 * p:      in [0, 1); 0 keeps all. T at least 1. Samples, positions and channels are below 2^32.
 * Errors: YOKE_EINVAL (shape, alias, range), YOKE_EUNSUPPORTED (type)
 * Bound:  the same elements everywhere;  |y - ref| <= u |ref| + u32 (|s x| + |ref|) + eta
 * Source: Srivastava et al. 2014, JMLR 15; Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3
 */
struct yoke_dropout_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C, T;
    float p;
    uint64_t key; /* yoke_random_key() */
    int64_t first_row, sample_start, pos_start, channel_start;
    const void *x;
    int64_t ldx;
    const void *residual;
    int64_t ldresidual;
    void *y;
    int64_t ldy;
};

YOKE_ELEMENTWISE_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
