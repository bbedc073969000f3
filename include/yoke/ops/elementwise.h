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
 * Elementwise sum.
 * Maths:  z[i] = x[i] + y[i]       Shapes: [n]
 * Types:  all the same, one of {f32, f16, bf16}; computed in f32, rounded once
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
yoke_status yoke_add(yoke_stream *stream, const struct yoke_add_args *args);
yoke_status yoke_add_can(const yoke_device *device, const struct yoke_add_args *args,
                         struct yoke_cost *cost_out);

/**
 * Multiplication with a constant.
 * Maths:  y[i] = alpha * x[i]      Shapes: [n]
 * Types:  both the same, one of {f32, f16, bf16}; computed in f32, rounded once
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
yoke_status yoke_scale(yoke_stream *stream, const struct yoke_scale_args *args);
yoke_status yoke_scale_can(const yoke_device *device, const struct yoke_scale_args *args,
                           struct yoke_cost *cost_out);

/**
 * The key of the random draws with the name `name` in step `step` of a run with this seed. Keys with another
 * name, step or seed give independent draws. A layer adds the purpose of the draws to its own name:
 * "h.0.attn/residual".
 */
uint64_t yoke_random_key(uint64_t seed, int64_t step, const char *name);

/**
 * Dropout, forward. For backward, pass dy as x and dx as y. No mask is stored, because the same key draws the
 * same elements again.
 * Maths:  y[n, c] = (kept(n, c) ? s x[n, c] : 0) [+ residual[n, c]],  s = 1 / (1 - p), rounded to f32.
 *         Row n is row r = first_row + n of a batch of whole sequences of T tokens each. Its sample is
 *         sample_start + r / T, and its position is pos_start + r mod T. Column c is channel channel_start +
 *         c. Each element has one random word of 32 bits. It is word (channel / 16) mod 4 of Philox4x32-10
 *         under `key` at counter (16 (channel / 64) + channel mod 16, position, sample, 0). An element is
 *         kept if its word is at least p 2^32, rounded to a whole number. So the choice depends on the
 *         element alone, not on the rank, device or piece of the matrix that holds it.
 * Shapes: x, residual, y [N, C], each with ld >= C
 * Types:  all the same, one of {f32, f16, bf16}; computed in f32, rounded once
 * Writes: y; may alias x or residual (same ld). If residual is NULL, nothing is added. The value of a dropped
 *         element is not used, so a NaN there does not pass.
 * p:      in [0, 1); 0 keeps all elements. T is at least 1. Samples, positions and channels are below 2^32.
 * Errors: YOKE_EINVAL (shape, alias, range), YOKE_EUNSUPPORTED (type)
 * Bound:  the same elements are kept on every device;  |y - ref| <= u |ref| + u32 (|s x| + |ref|) + eta
 * Source: Srivastava et al. 2014, JMLR 15; Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3",
 *         section 3.3
 */
struct yoke_dropout_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C, T;
    float p;
    uint64_t key; /* from yoke_random_key() */
    int64_t first_row, sample_start, pos_start, channel_start;
    const void *x;
    int64_t ldx;
    const void *residual;
    int64_t ldresidual;
    void *y;
    int64_t ldy;
};
yoke_status yoke_dropout(yoke_stream *stream, const struct yoke_dropout_args *args);
yoke_status yoke_dropout_can(const yoke_device *device, const struct yoke_dropout_args *args,
                             struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
