/* SPDX-License-Identifier: Apache-2.0 */
/** Activations: GELU in its tanh form, GELU in its exact form (erf), and SwiGLU. */
#ifndef YOKE_OPS_ACT_H
#define YOKE_OPS_ACT_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define YOKE_ACT_OPS(OP) \
    OP(gelu_forward) OP(gelu_backward) OP(gelu_erf_forward) OP(gelu_erf_backward) OP(swiglu_forward) \
    OP(swiglu_backward)
/* clang-format on */

/**
 * GELU, tanh form, forward.
 * Maths:  y = 0.5 x (1 + tanh(k (x + 0.044715 x^3))),  k = sqrt(2 / pi).
 *         It is evaluated as x * s, s = 1 / (1 + exp(-2 k (x + 0.044715 x^3))).
 * Shapes: x, y [n]        Types: both the same, one of {f32, f16, bf16}; computed in f32; rounded once
 * Writes: y; may alias x  Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |y - ref| <= u |ref| + 16 u32 |x| s (1 + |z| (1 - s)) + eta,  z = 2 k (x + 0.044715 x^3).
 *         If s < 2^-125, the result may be 0. For infinite x the formula is 0 times infinity, and the result
 *         is not specified.
 * Source: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2
 */
struct yoke_gelu_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x;
    void *y;
};
yoke_status yoke_gelu_forward(yoke_stream *stream, const struct yoke_gelu_forward_args *args);
yoke_status yoke_gelu_forward_can(const yoke_device *device, const struct yoke_gelu_forward_args *args,
                                  struct yoke_cost *cost_out);

/**
 * GELU, tanh form, backward: dx = dy * gelu'(x).
 * Maths:  with s as in forward,  gelu'(x) = s + x s (1 - s) 2 k (1 + 0.134145 x^2)
 * Shapes: x, dy, dx [n]   Types: all the same, one of {f32, f16, bf16}; computed in f32; rounded once
 * Writes: dx; may alias dy or x      Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |dx - ref| <= u |ref| + 32 u32 |dy| (s + w (1 + |z|)) + eta,
 *         w = |x| s (1 - s) 2 k (1 + 0.134145 x^2).
 *         If s or 1 - s is below 2^-125, the terms that contain it may be 0.
 *         Every finite x, of any size, gives a finite factor of dy.
 */
struct yoke_gelu_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x, *dy;
    void *dx;
};
yoke_status yoke_gelu_backward(yoke_stream *stream, const struct yoke_gelu_backward_args *args);
yoke_status yoke_gelu_backward_can(const yoke_device *device, const struct yoke_gelu_backward_args *args,
                                   struct yoke_cost *cost_out);

/**
 * GELU, forward: y = x Phi(x), where Phi is the normal distribution function.
 * Maths:  E = Phi(-|x|) = exp(-x^2 / 2) t Q(t),  t = 1 / (1 + 0.31 |x|),
 *         Q of degree 7 (relative error 1.7e-7).
 *         Phi(x) is E for negative x, and 1 - E for all other x, so no digits cancel.
 * Shapes: x, y [n]        Types: both the same, one of {f32, f16, bf16}; computed in f32; rounded once
 * Writes: y; may alias x  Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |y - ref| <= u |ref| + u32 |x| (2 Phi + 24 E (1 + x^2)) + eta.  If E < 2^-125, E may be taken as 0.
 *         For infinite x the result is not specified.
 * Source: Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2
 */
struct yoke_gelu_erf_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x;
    void *y;
};
yoke_status yoke_gelu_erf_forward(yoke_stream *stream, const struct yoke_gelu_erf_forward_args *args);
yoke_status yoke_gelu_erf_forward_can(const yoke_device *device,
                                      const struct yoke_gelu_erf_forward_args *args,
                                      struct yoke_cost *cost_out);

/**
 * GELU, backward: dx = dy * (Phi(x) + x phi(x)), phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
 * Shapes: x, dy, dx [n]   Types: all the same, one of {f32, f16, bf16}; computed in f32; rounded once
 * Writes: dx; may alias dy or x      Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED
 * Bound:  |dx - ref| <= u |ref| + u32 |dy| (4 Phi + 24 (E + |x| phi) (1 + x^2)) + eta.
 *         If E < 2^-125, E and phi may be taken as 0.
 */
struct yoke_gelu_erf_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *x, *dy;
    void *dx;
};
yoke_status yoke_gelu_erf_backward(yoke_stream *stream, const struct yoke_gelu_erf_backward_args *args);
yoke_status yoke_gelu_erf_backward_can(const yoke_device *device,
                                       const struct yoke_gelu_erf_backward_args *args,
                                       struct yoke_cost *cost_out);

/**
 * SwiGLU, forward: y = silu(gate) * up.
 * Maths:  silu(g) = g s,  s = 1 / (1 + exp(-g))
 * Shapes: gate, up, y [N, F], each with ld >= F, so gate and up may lie side by side in one matrix [N, 2 F]
 * Types:  all the same, one of {f32, f16, bf16}; computed in f32; rounded once
 * Writes: y; may alias gate or up (same ld)      Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type)
 * Bound:  |y - ref| <= u |ref| + 16 u32 |gate s up| + eta.  If s < 2^-125, s may be taken as 0.
 *         For infinite gate the result is not specified.
 * Source: Shazeer 2020, arXiv:2002.05202, eq. 6
 */
struct yoke_swiglu_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, F;
    const void *gate;
    int64_t ldgate;
    const void *up;
    int64_t ldup;
    void *y;
    int64_t ldy;
};
yoke_status yoke_swiglu_forward(yoke_stream *stream, const struct yoke_swiglu_forward_args *args);
yoke_status yoke_swiglu_forward_can(const yoke_device *device, const struct yoke_swiglu_forward_args *args,
                                    struct yoke_cost *cost_out);

/**
 * SwiGLU, backward: dgate, dup from dy.
 * Maths:  dup = dy * gate s;  dgate = dy * up * (s + gate s (1 - s))
 * Shapes: gate, up, dy, dgate, dup [N, F], each with ld >= F
 * Types:  all the same, one of {f32, f16, bf16}; computed in f32; each output is rounded once
 * Writes: dgate, dup. dgate may alias gate, and dup may alias up (same ld).
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type)
 * Bound:  dup: u |ref| + 16 u32 |dy gate s| + eta;
 *         dgate: u |ref| + 32 u32 |dy up| (s + |gate| s (1 - s)) + eta.
 *         If s or 1 - s is below 2^-125, the terms that contain it may be 0.
 */
struct yoke_swiglu_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, F;
    const void *gate;
    int64_t ldgate;
    const void *up;
    int64_t ldup;
    const void *dy;
    int64_t lddy;
    void *dgate;
    int64_t lddgate;
    void *dup;
    int64_t lddup;
};
yoke_status yoke_swiglu_backward(yoke_stream *stream, const struct yoke_swiglu_backward_args *args);
yoke_status yoke_swiglu_backward_can(const yoke_device *device, const struct yoke_swiglu_backward_args *args,
                                     struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
