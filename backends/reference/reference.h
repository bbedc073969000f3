/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The reference backend. The results of all other backends are compared with it. Each op computes the maths
 * of its public comment in float64, without regard to speed. Every output is rounded once, to its storage
 * type. If the public comment states that an intermediate value is rounded, data of 32 or 16 bits is rounded
 * there, and f64 data is not. So with f64 storage this backend gives the exact values.
 */
#ifndef BACKENDS_REFERENCE_REFERENCE_H
#define BACKENDS_REFERENCE_REFERENCE_H

#include "core/backend.h"
#include "core/base/base.h"

#include <math.h>

#define REFERENCE_DECLARE(op) YOKE_DECLARE_OP(reference_##op)
YOKE_ALL_OPS(REFERENCE_DECLARE)
#undef REFERENCE_DECLARE

/** GELU in its tanh form, for act.c and for the epilogue of gemm. */
double reference_gelu(double x);

/** Round an intermediate value, where an op's public comment states that it is rounded. */
static inline double reference_round(yoke_dtype dtype, double x)
{
    if (dtype == YOKE_F64) return x;
    uint32_t element;
    yokei_store(dtype, &element, 0, x);
    return yokei_load(dtype, &element, 0);
}

/** The greater of two numbers, or NaN if one is NaN. */
static inline double reference_max(double a, double b)
{
    if (isnan(a) || isnan(b)) return a + b;
    return a > b ? a : b;
}

#endif
