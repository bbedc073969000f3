/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Optimizer: AdamW in one pass, and in another pass the gradient's norm with the check for non-finite
 * elements.
 */
#ifndef YOKE_OPS_OPTIM_H
#define YOKE_OPS_OPTIM_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_OPTIM_OPS(OP) OP(adamw) OP(grad_norm)

/**
 * One AdamW step with decoupled weight decay.
 * Maths:  g = grad_scale * grad;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2;
 *         w = w - lr weight_decay w - lr (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + eps);
 *         copy = round(w)
 *         The host computes the two corrections 1 - beta^step in f64 and passes them on as f32.
 * Shapes: all [n]        Types: w, m, v, grad wide; copy in {f32, f16, bf16} or NULL
 * Writes: w, m, v, copy  Errors: YOKE_EINVAL (step < 1, range), YOKE_EUNSUPPORTED
 * Bound:  |m - ref| <= dm = gamma(4) (beta1 |m0| + (1 - beta1) |g|);  |v - ref| <= gamma(6) v;
 *         copy is exactly round(w);
 *         |w - ref| <= gamma(4) (|w0| (1 + lr weight_decay) + lr |update|)
 *         + lr (dm / (c1 d) + 16 u32 |update|) + eta,
 *         c1 = 1 - beta1^step,  d = sqrt(v / (1 - beta2^step)) + eps,  update = m / (c1 d)
 * Source: Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2
 */
struct yoke_adamw_args {
    size_t size;
    yoke_dtype dtype;      /* wide: f32, or f64 on the reference backend */
    yoke_dtype copy_dtype; /* ignored if copy is NULL */
    int64_t n;
    void *w, *m, *v;
    const void *grad;
    void *copy;
    float lr, beta1, beta2, eps, weight_decay;
    float grad_scale; /* 1 / loss scale, times the clipping coefficient; must not be 0 (an unset field) */
    int64_t step;     /* 1 for the first step */
};
yoke_status yoke_adamw(yoke_stream *stream, const struct yoke_adamw_args *args);
yoke_status yoke_adamw_can(const yoke_device *device, const struct yoke_adamw_args *args,
                           struct yoke_cost *cost_out);

/**
 * The sum of squares of a scaled gradient, and the number of elements that are not finite. Both are for all
 * elements together, or for each block of elements.
 * Maths:  out[0] = sum of (scale * grad[i])^2 in a fixed order;  out[1] = number of i for which scale *
 *         grad[i] is NaN or infinite. If block > 0, out[2 b] and out[2 b + 1] are the same for the elements
 *         [b * block, (b + 1) * block). They depend on these elements alone.
 * Shapes: grad [n]; out [2], or [ceil(n / block), 2] if block > 0
 * Types:  grad in {f32, f16, bf16}; out wide; squares and sums in f32, in blocks (pairwise)
 * Writes: out is overwritten. out[0] counts finite elements only. scale must not be 0 (an unset field).
 * Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED, YOKE_ENOMEM (scratch)
 * Bound:  |out0 - ref| <= gamma(min(n + 3, 64 + log2(n) + n / 4096)) ref,
 *         for blocks gamma(min(block + 3, 64 + log2(block) + block / 32));  out[1] is exact up to 2^24
 */
struct yoke_grad_norm_args {
    size_t size;
    yoke_dtype dtype;
    int64_t n;
    const void *grad;
    float scale;
    int64_t block; /* 0: one sum of all elements */
    void *out;
};
yoke_status yoke_grad_norm(yoke_stream *stream, const struct yoke_grad_norm_args *args);
yoke_status yoke_grad_norm_can(const yoke_device *device, const struct yoke_grad_norm_args *args,
                               struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
