/* SPDX-License-Identifier: Apache-2.0 */
/** Rotary position embedding. */
#ifndef YOKE_OPS_ROPE_H
#define YOKE_OPS_ROPE_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_ROPE_OPS(OP) OP(rope)

/**
 * Rotate the heads of queries or keys by their position, in place. With `inverse` they are rotated back,
 * which is the backward pass.
 * Maths:  For row n, head h and each i in [0, D / 2), with a = x[i] and b = x[i + D / 2]
 *         (these are the pairs of Hugging Face's Llama):
 *         x[i] = a cos(w) - b sin(w),  x[i + D / 2] = b cos(w) + a sin(w),  w = position theta^(-2 i / D);
 *         inverse: -w
 * Shapes: x [N, H, D]. Element (n, h, d) is at x + n ldx + h D + d, ldx >= H D, so the heads of a fused QKV
 *         matrix are rotated in place. D is even. Row n has position pos_start + n mod T.
 * Types:  one of {f32, f16, bf16}; computed in f32, rounded once. On every device the angle, in turns, is a
 *         whole number of 2^-64. It is the position times (2 pi)^-1 theta^(-2 i / D), and this power is made
 *         of products that are cut to 64 bits. So no argument is reduced in floating point.
 * theta:  above 1 (10000 in the paper). Positions are below 2^32.
 * Writes: x                          Errors: YOKE_EINVAL (shape, theta), YOKE_EUNSUPPORTED (type, D)
 * Bound:  |x - ref| <= u |ref| + (|a| + |b|) (8 u32 + 2 pi (2^-32 + position (D / 2 + 32) 2^-64)) + eta
 * Source: Su et al. 2021, arXiv:2104.09864, eq. 34
 */
struct yoke_rope_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, T, H, D;
    int64_t pos_start;
    double theta;
    bool inverse;
    void *x;
    int64_t ldx;
};
yoke_status yoke_rope(yoke_stream *stream, const struct yoke_rope_args *args);
yoke_status yoke_rope_can(const yoke_device *device, const struct yoke_rope_args *args,
                          struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
