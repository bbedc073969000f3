/* SPDX-License-Identifier: Apache-2.0 */
/** Conversion between element types. */
#ifndef YOKE_OPS_CAST_H
#define YOKE_OPS_CAST_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_CAST_OPS(OP) OP(cast)

/**
 * Conversion of n elements from one type to another.
 * Maths:  y[i] = round(x[i]), to nearest even. NaN stays NaN (made quiet if the result is narrower). Overflow
 *         gives infinity. Subnormals are kept.
 * Shapes: x, y [n]       Types: from, to in {f32, f16, bf16} (f64 too on the reference backend)
 * Writes: y; may alias x only if both types have the same size
 * Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED         Bound: exact: the correctly rounded value
 */
struct yoke_cast_args {
    size_t size;
    yoke_dtype from, to;
    int64_t n;
    const void *x;
    void *y;
};
yoke_status yoke_cast(yoke_stream *stream, const struct yoke_cast_args *args);
yoke_status yoke_cast_can(const yoke_device *device, const struct yoke_cast_args *args,
                          struct yoke_cost *cost_out);

#ifdef __cplusplus
}
#endif
#endif
