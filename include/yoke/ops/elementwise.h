/* SPDX-License-Identifier: Apache-2.0 */
/** Elementwise sums and products. */
#ifndef YOKE_OPS_ELEMENTWISE_H
#define YOKE_OPS_ELEMENTWISE_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_ELEMENTWISE_OPS(OP) OP(add) OP(scale)

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

YOKE_ELEMENTWISE_OPS(YOKE_OP_DECLARE)

#ifdef __cplusplus
}
#endif
#endif
