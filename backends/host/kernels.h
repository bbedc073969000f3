/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The declarations that the files share that are compiled once per instruction set: their ops, and formulas
 * that two families use.
 */
#ifndef BACKENDS_HOST_KERNELS_H
#define BACKENDS_HOST_KERNELS_H

#include "backends/host/exp.h"
#include "backends/host/vec.h"

#define DECLARE(op) YOKE_DECLARE_OP(HOST_NAME(host_##op))
YOKE_ALL_OPS(DECLARE)
#undef DECLARE

void HOST_NAME(host_gelu_rows)(yoke_stream *stream, yoke_dtype dtype, int64_t rows, int64_t columns,
                               const void *x, int64_t ldx, void *y, int64_t ldy);

enum { ELEMENT_GRAIN = 4096 }; /* in elements; a multiple of every vector length and of a cache line */

/*
 * GELU: z = 2 k (x + 0.044715 x^3), k = sqrt(2 / pi). e = exp(-|z|) is at most 1, so nothing overflows or
 * cancels. With q = 1 / (1 + e), the smaller of sigma(z) and sigma(-z) is e q, and the other one is q. Beyond
 * |x| = 12, e is 0 in f32.
 */
struct gelu {
    vf a; /* |x|, at most 12 */
    vf e, q;
};
INLINE struct gelu gelu_of(vf x)
{
    const vf a = vatmost(vabs(x), vset(12.0f));
    const vf e = vexp2_product(a, vfma(a * a, vset(-0.102943240f),
                                       vset(-2.30220820f))); /* the factors include log2(e) */
    return (struct gelu){ a, e, vreciprocal(e + 1.0f) };
}

/** x sigma(z) = max(x, 0) - |x| sigma(-|z|). */
INLINE vf gelu(vf x)
{
    const struct gelu g = gelu_of(x);
    return vfnma(g.a, g.e * g.q, vatleast(x, vset(0)));
}

#endif
