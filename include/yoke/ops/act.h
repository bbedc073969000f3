/* SPDX-License-Identifier: Apache-2.0 */
/** Activations: GELU (tanh form). */
#ifndef YOKE_OPS_ACT_H
#define YOKE_OPS_ACT_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_ACT_OPS(OP) OP(gelu_forward) OP(gelu_backward)

/**
 * GELU, tanh form, forward.
 * Maths:  y = 0.5 x (1 + tanh(k (x + 0.044715 x^3))),  k = sqrt(2 / pi); evaluated as x * s, s = 1 / (1 + exp(-2 k (x + 0.044715 x^3)))
 * Shapes: x, y [n]        Types: {f32, f16, bf16}, the same; computed in f32; rounded once
 * Writes: y; may alias x  Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |y - ref| <= u |ref| + 16 u32 |x| s (1 + |z| (1 - s)) + eta,  z = 2 k (x + 0.044715 x^3);  where s < 2^-125
 *         the result may be 0. At infinite x the formula is 0 times infinity: what comes out is not specified.
 * Source: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2
 */
struct yoke_gelu_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x;
    void *y;
};

/**
 * GELU, tanh form, backward: dx = dy * gelu'(x).
 * Maths:  with s as above,  gelu'(x) = s + x s (1 - s) 2 k (1 + 0.134145 x^2)
 * Shapes: x, dy, dx [n]   Types: {f32, f16, bf16}, the same; computed in f32; rounded once
 * Writes: dx; may alias dy or x      Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |dx - ref| <= u |ref| + 32 u32 |dy| (s + w (1 + |z|)) + eta,  w = |x| s (1 - s) 2 k (1 + 0.134145 x^2);  where
 *         s or 1 - s is below 2^-125 the terms that hold it may be 0. Finite x of any size give a finite factor of dy.
 */
struct yoke_gelu_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x, *dy;
    void *dx;
};

YOKE_ACT_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
