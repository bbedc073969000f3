/* SPDX-License-Identifier: Apache-2.0 */
/* Activations on the host backend. include/yoke/ops/act.h has the maths, types and bounds. */
#if defined(__GNUC__) && !defined(__clang__)
/* chains of 20 dependent operations; the compiler must interleave those of several elements */
#pragma GCC optimize("schedule-insns")
#endif
#include "backends/host/kernels.h"
#include "backends/host/normal.h"

/* ---- forward ---- */
INLINE void gelu_elements(const yoke_dtype t, const void *x, void *y, int64_t from, int64_t to)
{
    MAP_1(t, 2, from, to, y, x, v, gelu(v));
}

static void gelu_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_elements, a->x, a->y, from, to);
}

static yoke_status host_gelu_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_forward_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_forward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_gelu_forward) = { .run = host_gelu_forward_run };

/* ---- forward over rows, for gemm's epilogue ---- */
struct rows {
    yoke_dtype dtype;
    int64_t columns, ldx, ldy;
    const void *x;
    void *y;
};

INLINE void gelu_row_range(const yoke_dtype t, const struct rows *r, int64_t from, int64_t to)
{
    for (int64_t row = from; row < to; row++)
        gelu_elements(t, at(t, r->x, row * r->ldx), at_mut(t, r->y, row * r->ldy), 0, r->columns);
}

static void gelu_rows_range(const void *context, int64_t from, int64_t to)
{
    const struct rows *r = context;
    HOST_BY_TYPE(r->dtype, gelu_row_range, r, from, to);
}

void HOST_NAME(host_gelu_rows)(yoke_stream *stream, yoke_dtype dtype, int64_t rows, int64_t columns,
                               const void *x, int64_t ldx, void *y, int64_t ldy)
{
    const struct rows r = { dtype, columns, ldx, ldy, x, y };
    host_for(stream, rows, host_row_grain(columns), gelu_rows_range, &r);
}

/* ---- backward ---- */
INLINE vf gelu_derivative(vf x)
{
    const struct gelu g = gelu_of(x);
    const vf small = g.e * g.q, slope = vfma(g.a * g.a, vset(0.214064448818f), vset(1.59576912161f));
    return vfma(x * small * g.q, slope, vselect(vless(x, vset(0)), small, g.q));
}

INLINE void gelu_backward_elements(const yoke_dtype t, const struct yoke_gelu_backward_args *a, int64_t from,
                                   int64_t to)
{
    MAP_2(t, from, to, a->dx, a->x, x, a->dy, dy, dy * gelu_derivative(x));
}

static void gelu_backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_backward_elements, a, from, to);
}

static yoke_status host_gelu_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_backward_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_backward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_gelu_backward) = { .run = host_gelu_backward_run };

/* ---- GELU in its exact form (erf) ---- */
/** x Phi(x) = max(x, 0) - |x| Phi(-|x|). */
INLINE vf gelu_erf(vf x)
{
    const struct normal n = normal_of(x);
    return vfnma(n.a, n.tail, vatleast(x, vset(0)));
}

INLINE vf gelu_erf_slope(vf x)
{
    const struct normal n = normal_of(x);
    return vfma(x * n.density, vset(0.39894228f), vselect(vless(x, vset(0)), n.tail, 1.0f - n.tail));
}

INLINE void gelu_erf_elements(const yoke_dtype t, const void *x, void *y, int64_t from, int64_t to)
{
    MAP_1(t, 1, from, to, y, x, v, gelu_erf(v));
}

static void gelu_erf_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_erf_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_erf_elements, a->x, a->y, from, to);
}

static yoke_status host_gelu_erf_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_erf_forward_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_erf_forward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_gelu_erf_forward) = { .run = host_gelu_erf_forward_run };

INLINE void gelu_erf_backward_elements(const yoke_dtype t, const struct yoke_gelu_erf_backward_args *a,
                                       int64_t from, int64_t to)
{
    MAP_2(t, from, to, a->dx, a->x, x, a->dy, dy, dy * gelu_erf_slope(x));
}

static void gelu_erf_backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_erf_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_erf_backward_elements, a, from, to);
}

static yoke_status host_gelu_erf_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_erf_backward_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_erf_backward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_gelu_erf_backward) = { .run = host_gelu_erf_backward_run };

/* ---- SwiGLU ---- */
struct sigmoid {
    vf s, rest; /* s and 1 - s. The smaller one is exp(-|x|) / (1 + exp(-|x|)), so nothing cancels. */
};

INLINE struct sigmoid sigmoid_of(vf x)
{
    const vf e = vexp(-vabs(x)), q = vreciprocal(e + 1.0f), small = e * q;
    const vmask negative = vless(x, vset(0));
    return (struct sigmoid){ vselect(negative, small, q), vselect(negative, q, small) };
}

INLINE void swiglu_rows(const yoke_dtype t, const struct yoke_swiglu_forward_args *a, int64_t from,
                        int64_t to)
{
    for (int64_t row = from; row < to; row++)
        MAP_2(t, 0, a->F, at_mut(t, a->y, row * a->ldy), at(t, a->gate, row * a->ldgate), g,
              at(t, a->up, row * a->ldup), up, g * sigmoid_of(g).s * up);
}

static void swiglu_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_swiglu_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, swiglu_rows, a, from, to);
}

static yoke_status host_swiglu_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_forward_args *a = call->args;
    if (a->F) host_for(stream, a->N, host_row_grain(a->F), swiglu_forward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_swiglu_forward) = { .run = host_swiglu_forward_run };

struct swiglu_slopes {
    vf gate, up;
};
INLINE struct swiglu_slopes swiglu_slopes(vf g, vf up, vf dy)
{
    const struct sigmoid z = sigmoid_of(g);
    return (struct swiglu_slopes){ dy * up * vfma(g * z.s, z.rest, z.s), dy * (g * z.s) };
}

INLINE void swiglu_backward_rows(const yoke_dtype t, const struct yoke_swiglu_backward_args *a, int64_t from,
                                 int64_t to)
{
    for (int64_t row = from; row < to; row++) {
        const void *gate = at(t, a->gate, row * a->ldgate), *up = at(t, a->up, row * a->ldup),
                   *dy = at(t, a->dy, row * a->lddy);
        void *dgate = at_mut(t, a->dgate, row * a->lddgate), *dup = at_mut(t, a->dup, row * a->lddup);
        int64_t f = 0;
        for (; f + 2 * VL <= a->F; f += 2 * VL) {
            /* five streams in pieces of a row are too many for the CPU's own prefetch */
            vprefetch_pair(t, gate, f + a->ldgate, false);
            vprefetch_pair(t, up, f + a->ldup, false);
            vprefetch_pair(t, dy, f + a->lddy, false);
            const struct pair g = vload_pair(t, gate, f), u = vload_pair(t, up, f), d = vload_pair(t, dy, f);
            const struct swiglu_slopes low = swiglu_slopes(g.a, u.a, d.a),
                                       high = swiglu_slopes(g.b, u.b, d.b);
            vstore_pair(t, dgate, f, low.gate, high.gate);
            vstore_pair(t, dup, f, low.up, high.up);
        }
        VECTOR_LOOP(j, n, f, a->F, {
            const struct swiglu_slopes s = swiglu_slopes(vload_n(t, gate, j, n), vload_n(t, up, j, n),
                                                         vload_n(t, dy, j, n));
            vstore_n(t, dgate, j, n, s.gate);
            vstore_n(t, dup, j, n, s.up);
        });
    }
}

static void swiglu_backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_swiglu_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, swiglu_backward_rows, a, from, to);
}

static yoke_status host_swiglu_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_backward_args *a = call->args;
    if (a->F) host_for(stream, a->N, host_row_grain(a->F), swiglu_backward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_swiglu_backward) = { .run = host_swiglu_backward_run };
