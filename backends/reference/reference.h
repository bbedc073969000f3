/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The reference backend: what the other backends are held to. Each op is the maths of its public comment written down
 * in float64, with no thought of speed; every output is rounded once, to its storage type. Where the public comment
 * states a rounding of an intermediate value, data of 32 or 16 bits is rounded there and f64 data is not: with f64
 * storage the backend is the exact oracle.
 */
#ifndef BACKENDS_REFERENCE_REFERENCE_H
#define BACKENDS_REFERENCE_REFERENCE_H

#include "core/backend.h"
#include "core/base/base.h"

#include <math.h>

extern const struct yoke_gemm_ops reference_gemm_ops;
extern const struct yoke_norm_ops reference_norm_ops;
extern const struct yoke_act_ops reference_act_ops;
extern const struct yoke_attention_ops reference_attention_ops;
extern const struct yoke_embed_ops reference_embed_ops;
extern const struct yoke_loss_ops reference_loss_ops;
extern const struct yoke_optim_ops reference_optim_ops;
extern const struct yoke_cast_ops reference_cast_ops;
extern const struct yoke_elementwise_ops reference_elementwise_ops;
extern const struct yoke_rope_ops reference_rope_ops;

/** GELU in its tanh form, for act.c and gemm's epilogue. */
double reference_gelu(double x);

/** YOKE_EUNSUPPORTED unless `dtype`, which the argument struct calls `field`, is one of the four floating types. */
yoke_status reference_check(enum yoke_op_id op, const char *field, yoke_dtype dtype);

/** Fill what `can` answers; `cost` may be NULL. */
static inline yoke_status reference_cost(struct yoke_cost *cost, size_t scratch_bytes, double flops, double bytes)
{
    if (cost) {
        cost->scratch_bytes = scratch_bytes;
        cost->flops = flops;
        cost->bytes = bytes;
    }
    return YOKE_OK;
}

/** A rounding that an op's public comment states for an intermediate value. */
static inline double reference_round(yoke_dtype dtype, double x)
{
    if (dtype == YOKE_F64) return x;
    uint32_t element;
    yokei_store(dtype, &element, 0, x);
    return yokei_load(dtype, &element, 0);
}

/** The greater of two numbers; NaN when one is NaN. */
static inline double reference_max(double a, double b)
{
    if (isnan(a) || isnan(b)) return a + b;
    return a > b ? a : b;
}

#endif
