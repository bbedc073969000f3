/* SPDX-License-Identifier: Apache-2.0 */
/* Host: activations. Maths, types and bounds: include/yoke/ops/act.h */
#include "backends/host/kernels.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(host, op)
YOKE_ACT_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(host, op)
const struct yoke_act_ops HOST_NAME(host_act_ops) = { YOKE_ACT_OPS(ENTRY) };

/* ---- forward ---- */
INLINE void gelu_elements(const yoke_dtype t, const void *x, void *y, int64_t from, int64_t to)
{
    VECTOR_LOOP(i, n, from, to, vstore_n(t, y, i, n, gelu(vload_n(t, x, i, n))););
}

static void gelu_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_elements, a->x, a->y, from, to);
}

static yoke_status host_gelu_forward_can(const yoke_device *device, const struct yoke_gelu_forward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_gelu_forward, "dtype", a->dtype));
    const double n = (double)a->n;
    return host_cost(cost, 0, 20 * n, 2 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_gelu_forward_run(yoke_stream *stream, const struct yoke_gelu_forward_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_forward_range, a);
    return YOKE_OK;
}

/* ---- forward over rows, for gemm's epilogue ---- */
struct rows {
    yoke_dtype dtype;
    int64_t columns, ldx, ldy;
    const void *x;
    void *y;
};

INLINE void gelu_row_range(const yoke_dtype t, const struct rows *r, int64_t from, int64_t to)
{
    for (int64_t row = from; row < to; row++) gelu_elements(t, at(t, r->x, row * r->ldx), at_mut(t, r->y, row * r->ldy), 0, r->columns);
}

static void gelu_rows_range(const void *context, int64_t from, int64_t to)
{
    const struct rows *r = context;
    HOST_BY_TYPE(r->dtype, gelu_row_range, r, from, to);
}

void HOST_NAME(host_gelu_rows)(yoke_stream *stream, yoke_dtype dtype, int64_t rows, int64_t columns, const void *x, int64_t ldx,
                               void *y, int64_t ldy)
{
    const struct rows r = { dtype, columns, ldx, ldy, x, y };
    host_for(stream, rows, host_row_grain(columns), gelu_rows_range, &r);
}

/* ---- backward ---- */
INLINE vf gelu_derivative(vf x)
{
    const vf e = gelu_exp(x), s = 1.0f / (e + 1.0f);
    const vf rest = vatmost(e, vset(0x1p126f)) * s; /* 1 - s without cancellation; e may be infinite where s is 0 */
    const vf capped = vatmost(vabs(x), vset(1e4f)); /* x^2 stays finite; beyond, s (1 - s) is 0 */
    const vf slope = vfma(capped * capped, vset(0.214064448818f), vset(1.59576912161f));
    return vfma(x * s * rest, slope, s);
}

INLINE void gelu_backward_elements(const yoke_dtype t, const struct yoke_gelu_backward_args *a, int64_t from, int64_t to)
{
    const void *x = a->x, *dy = a->dy;
    void *dx = a->dx;
    VECTOR_LOOP(i, n, from, to, vstore_n(t, dx, i, n, vload_n(t, dy, i, n) * gelu_derivative(vload_n(t, x, i, n))););
}

static void gelu_backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_backward_elements, a, from, to);
}

static yoke_status host_gelu_backward_can(const yoke_device *device, const struct yoke_gelu_backward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_gelu_backward, "dtype", a->dtype));
    const double n = (double)a->n;
    return host_cost(cost, 0, 30 * n, 3 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_gelu_backward_run(yoke_stream *stream, const struct yoke_gelu_backward_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_backward_range, a);
    return YOKE_OK;
}

/* ---- GELU by the normal distribution ---- */
struct normal {
    vf tail;    /* Phi(-|x|) */
    vf density; /* exp(-x^2 / 2) */
};

INLINE struct normal normal_of(vf x)
{
    const vf density = vexp(x * x * -0.5f), t = 1.0f / vfma(vabs(x), vset(0.31f), vset(1.0f));
    vf q = vset(0.035889998f);
    q = vfma(q, t, vset(-0.14181633f));
    q = vfma(q, t, vset(0.15545374f));
    q = vfma(q, t, vset(-0.015280824f));
    q = vfma(q, t, vset(0.110323295f));
    q = vfma(q, t, vset(0.10770187f));
    q = vfma(q, t, vset(0.12407225f));
    q = vfma(q, t, vset(0.12365607f));
    return (struct normal){ density * t * q, density };
}

INLINE vf distribution(vf x, vf tail) { return vselect(vless(x, vset(0)), tail, 1.0f - tail); }

INLINE vf gelu_erf_slope(vf x)
{
    const struct normal n = normal_of(x);
    return distribution(x, n.tail) + x * n.density * 0.39894228f;
}

INLINE void gelu_erf_elements(const yoke_dtype t, const void *x, void *y, int64_t from, int64_t to)
{
    VECTOR_LOOP(i, n, from, to, {
        const vf v = vload_n(t, x, i, n);
        vstore_n(t, y, i, n, v * distribution(v, normal_of(v).tail));
    });
}

static void gelu_erf_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_erf_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_erf_elements, a->x, a->y, from, to);
}

static yoke_status host_gelu_erf_forward_can(const yoke_device *device, const struct yoke_gelu_erf_forward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_gelu_erf_forward, "dtype", a->dtype));
    const double n = (double)a->n;
    return host_cost(cost, 0, 30 * n, 2 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_gelu_erf_forward_run(yoke_stream *stream, const struct yoke_gelu_erf_forward_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_erf_forward_range, a);
    return YOKE_OK;
}

INLINE void gelu_erf_backward_elements(const yoke_dtype t, const struct yoke_gelu_erf_backward_args *a, int64_t from, int64_t to)
{
    const void *x = a->x, *dy = a->dy;
    void *dx = a->dx;
    VECTOR_LOOP(i, n, from, to, vstore_n(t, dx, i, n, vload_n(t, dy, i, n) * gelu_erf_slope(vload_n(t, x, i, n))););
}

static void gelu_erf_backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_gelu_erf_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, gelu_erf_backward_elements, a, from, to);
}

static yoke_status host_gelu_erf_backward_can(const yoke_device *device, const struct yoke_gelu_erf_backward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_gelu_erf_backward, "dtype", a->dtype));
    const double n = (double)a->n;
    return host_cost(cost, 0, 40 * n, 3 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_gelu_erf_backward_run(yoke_stream *stream, const struct yoke_gelu_erf_backward_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, gelu_erf_backward_range, a);
    return YOKE_OK;
}

/* ---- SwiGLU ---- */
struct sigmoid {
    vf s, rest; /* s and 1 - s: the smaller is exp(-|x|) / (1 + exp(-|x|)), so that nothing cancels */
};

INLINE struct sigmoid sigmoid_of(vf x)
{
    const vf e = vexp(-vabs(x)), q = 1.0f / (e + 1.0f);
    const vmask negative = vless(x, vset(0));
    return (struct sigmoid){ vselect(negative, e * q, q), vselect(negative, q, e * q) };
}

INLINE void swiglu_rows(const yoke_dtype t, const struct yoke_swiglu_forward_args *a, int64_t from, int64_t to)
{
    for (int64_t row = from; row < to; row++) {
        const void *gate = at(t, a->gate, row * a->ldgate), *up = at(t, a->up, row * a->ldup);
        void *y = at_mut(t, a->y, row * a->ldy);
        VECTOR_LOOP(f, n, 0, a->F, {
            const vf g = vload_n(t, gate, f, n);
            vstore_n(t, y, f, n, g * sigmoid_of(g).s * vload_n(t, up, f, n));
        });
    }
}

static void swiglu_forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_swiglu_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, swiglu_rows, a, from, to);
}

static yoke_status host_swiglu_forward_can(const yoke_device *device, const struct yoke_swiglu_forward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_swiglu_forward, "dtype", a->dtype));
    const double n = (double)a->N * (double)a->F;
    return host_cost(cost, 0, 20 * n, 3 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_swiglu_forward_run(yoke_stream *stream, const struct yoke_swiglu_forward_args *a)
{
    if (a->F) host_for(stream, a->N, host_row_grain(a->F), swiglu_forward_range, a);
    return YOKE_OK;
}

INLINE void swiglu_backward_rows(const yoke_dtype t, const struct yoke_swiglu_backward_args *a, int64_t from, int64_t to)
{
    for (int64_t row = from; row < to; row++) {
        const void *gate = at(t, a->gate, row * a->ldgate), *up = at(t, a->up, row * a->ldup), *dy = at(t, a->dy, row * a->lddy);
        void *dgate = at_mut(t, a->dgate, row * a->lddgate), *dup = at_mut(t, a->dup, row * a->lddup);
        VECTOR_LOOP(f, n, 0, a->F, {
            const vf g = vload_n(t, gate, f, n), d = vload_n(t, dy, f, n), u = vload_n(t, up, f, n);
            const struct sigmoid z = sigmoid_of(g);
            vstore_n(t, dgate, f, n, d * u * vfma(g * z.s, z.rest, z.s));
            vstore_n(t, dup, f, n, d * (g * z.s));
        });
    }
}

static void swiglu_backward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_swiglu_backward_args *a = context;
    HOST_BY_TYPE(a->dtype, swiglu_backward_rows, a, from, to);
}

static yoke_status host_swiglu_backward_can(const yoke_device *device, const struct yoke_swiglu_backward_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_swiglu_backward, "dtype", a->dtype));
    const double n = (double)a->N * (double)a->F;
    return host_cost(cost, 0, 30 * n, 5 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_swiglu_backward_run(yoke_stream *stream, const struct yoke_swiglu_backward_args *a)
{
    if (a->F) host_for(stream, a->N, host_row_grain(a->F), swiglu_backward_range, a);
    return YOKE_OK;
}
