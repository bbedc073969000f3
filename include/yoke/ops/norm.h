/* SPDX-License-Identifier: Apache-2.0 */
/** Normalisation: LayerNorm and RMSNorm. */
#ifndef YOKE_OPS_NORM_H
#define YOKE_OPS_NORM_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_NORM_OPS(OP) \
    OP(layernorm_forward) OP(layernorm_backward) OP(rmsnorm_forward) OP(rmsnorm_backward)

/**
 * Layer normalisation, forward: y, mean, rstd from x.
 * Maths:  mean = avg(x);  rstd = 1 / sqrt(avg((x - mean)^2) + eps);  y = (x - mean) * rstd * gamma + beta
 * Shapes: x, y [N, C], ldx, ldy >= C; mean, rstd [N]; gamma, beta [C]
 * Types:  x and y have the same type, one of {f32, f16, bf16}. The others are wide. Sums are in f32, and the
 *         variance is computed from centred values. y is rounded once.
 * Writes: y, mean, rstd are overwritten. y may alias x (same ld). mean and rstd may both be NULL.
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type), YOKE_ENOMEM
 * Bound:  |y - ref| <= u |ref| + |gamma| (rstd dm + |xhat| (r + 3 u32)) + u32 (|xhat gamma| + |beta| + |y|)
 *         + eta,
 *         dm = gamma(C + 1) avg|x|,  r = gamma(C + 4) / 2 + (rstd dm)^2 / 2 + 4 u32;  |mean - ref| <= dm,
 *         |rstd - ref| <= r rstd
 * Source: Ba et al. 2016, arXiv:1607.06450, eq. 4
 */
struct yoke_layernorm_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C;
    const void *x;
    int64_t ldx;
    const void *gamma, *beta;
    float eps;
    void *y;
    int64_t ldy;
    void *mean, *rstd;
};
yoke_status yoke_layernorm_forward(yoke_stream *stream, const struct yoke_layernorm_forward_args *args);
yoke_status yoke_layernorm_forward_can(const yoke_device *device,
                                       const struct yoke_layernorm_forward_args *args,
                                       struct yoke_cost *cost_out);

/**
 * Layer normalisation, backward: dx, dgamma, dbeta from dy.
 * Maths:  xhat = (x - mean) * rstd;  g = dy * gamma;
 *         dx = rstd * (g - avg(g) - xhat * avg(g * xhat))  [+ dresidual]
 *         dgamma += sum over rows of dy * xhat;
 *         dbeta += sum over rows of dy. The order of the sums is fixed.
 * Shapes: dy, x, dx, dresidual [N, C], each with ld >= C; mean, rstd [N]; gamma, dgamma, dbeta [C]
 * Types:  dy, x, dx and dresidual have the same type, one of {f32, f16, bf16}. The others are wide. Sums are
 *         in f32. dx is rounded once.
 * Writes: dx is overwritten. dgamma and dbeta are accumulated (+=). dx may be NULL, or dgamma and dbeta both,
 *         if they are not wanted. So the input's gradient and the weights' gradients can be two calls. dx may
 *         alias dy or dresidual (same ld). If dresidual is NULL, nothing is added.
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type), YOKE_ENOMEM
 * Bound:  |dx - ref| <= (u + u32) |ref|
 *         + rstd (gamma(6) |g| + gamma(C + 6) avg|g| + gamma(C + 12) |xhat| avg|g xhat|) + eta
 *         dgamma: gamma(N + 4) (sum |dy xhat| + |dgamma0|);  dbeta: gamma(N + 1) (sum |dy| + |dbeta0|)
 * Source: Ba et al. 2016, arXiv:1607.06450, eq. 4
 */
struct yoke_layernorm_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C;
    const void *dy;
    int64_t lddy;
    const void *x;
    int64_t ldx;
    const void *gamma, *mean, *rstd;
    const void *dresidual;
    int64_t lddresidual;
    void *dx;
    int64_t lddx;
    void *dgamma, *dbeta;
};
yoke_status yoke_layernorm_backward(yoke_stream *stream, const struct yoke_layernorm_backward_args *args);
yoke_status yoke_layernorm_backward_can(const yoke_device *device,
                                        const struct yoke_layernorm_backward_args *args,
                                        struct yoke_cost *cost_out);

/**
 * Root-mean-square normalisation, forward: y, rstd from x.
 * Maths:  rstd = 1 / sqrt(avg(x^2) + eps);  y = x * rstd * gamma
 * Shapes: x, y [N, C], ldx, ldy >= C; rstd [N]; gamma [C]
 * Types:  x and y have the same type, one of {f32, f16, bf16}. The others are wide. Sums are in f32. y is
 *         rounded once.
 * Writes: y, rstd are overwritten. y may alias x (same ld). rstd may be NULL.
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type)
 * Bound:  |y - ref| <= u |ref| + |x rstd gamma| (r + 3 u32) + eta,  r = gamma(C + 4) / 2 + 4 u32;
 *         |rstd - ref| <= r rstd
 * Source: Zhang and Sennrich 2019, arXiv:1910.07467, eq. 4
 */
struct yoke_rmsnorm_forward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C;
    const void *x;
    int64_t ldx;
    const void *gamma;
    float eps;
    void *y;
    int64_t ldy;
    void *rstd;
};
yoke_status yoke_rmsnorm_forward(yoke_stream *stream, const struct yoke_rmsnorm_forward_args *args);
yoke_status yoke_rmsnorm_forward_can(const yoke_device *device, const struct yoke_rmsnorm_forward_args *args,
                                     struct yoke_cost *cost_out);

/**
 * Root-mean-square normalisation, backward: dx, dgamma from dy.
 * Maths:  xhat = x * rstd;  g = dy * gamma;  dx = rstd * (g - xhat * avg(g * xhat))  [+ dresidual]
 *         dgamma += sum over rows of dy * xhat. The order of the sum is fixed.
 * Shapes: dy, x, dx, dresidual [N, C], each with ld >= C; rstd [N]; gamma, dgamma [C]
 * Types:  dy, x, dx and dresidual have the same type, one of {f32, f16, bf16}. The others are wide. Sums are
 *         in f32. dx is rounded once.
 * Writes: dx is overwritten. dgamma is accumulated (+=). Either may be NULL if it is not wanted. dx may alias
 *         dy or dresidual (same ld). If dresidual is NULL, nothing is added.
 * Errors: YOKE_EINVAL (shape, alias), YOKE_EUNSUPPORTED (type), YOKE_ENOMEM
 * Bound:  |dx - ref| <= (u + u32) |ref| + rstd (gamma(6) |g| + gamma(C + 10) |xhat| avg|g xhat|) + eta
 *         dgamma: gamma(N + 4) (sum |dy xhat| + |dgamma0|)
 * Source: Zhang and Sennrich 2019, arXiv:1910.07467, eq. 8
 */
struct yoke_rmsnorm_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C;
    const void *dy;
    int64_t lddy;
    const void *x;
    int64_t ldx;
    const void *gamma, *rstd;
    const void *dresidual;
    int64_t lddresidual;
    void *dx;
    int64_t lddx;
    void *dgamma;
};
yoke_status yoke_rmsnorm_backward(yoke_stream *stream, const struct yoke_rmsnorm_backward_args *args);
yoke_status yoke_rmsnorm_backward_can(const yoke_device *device,
                                      const struct yoke_rmsnorm_backward_args *args,
                                      struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
