/* SPDX-License-Identifier: Apache-2.0 */
/* Activations on the reference backend. include/yoke/ops/act.h has the maths. */
#include "backends/reference/reference.h"

static const double k = 0.79788456080286535588; /* sqrt(2 / pi) */

double reference_gelu(double x)
{
    const double z = 2 * k * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-z));
}

static double gelu_derivative(double x)
{
    const double z = 2 * k * (x + 0.044715 * x * x * x);
    const double s = 1 / (1 + exp(-z)), one_minus_s = 1 / (1 + exp(z));
    return s + x * s * one_minus_s * 2 * k * (1 + 0.134145 * x * x);
}

static yoke_status reference_gelu_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_forward_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->y, i, reference_gelu(yokei_load(a->dtype, a->x, i)));
    return YOKE_OK;
}
const struct yoke_op reference_gelu_forward = { .run = reference_gelu_forward_run };

static yoke_status reference_gelu_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_backward_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->dx, i,
                    yokei_load(a->dtype, a->dy, i) * gelu_derivative(yokei_load(a->dtype, a->x, i)));
    return YOKE_OK;
}
const struct yoke_op reference_gelu_backward = { .run = reference_gelu_backward_run };

/* ---- GELU by the normal distribution ---- */

static double normal_distribution(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static yoke_status reference_gelu_erf_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_erf_forward_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = yokei_load(a->dtype, a->x, i);
        yokei_store(a->dtype, a->y, i, x * normal_distribution(x));
    }
    return YOKE_OK;
}
const struct yoke_op reference_gelu_erf_forward = { .run = reference_gelu_erf_forward_run };

static yoke_status reference_gelu_erf_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_erf_backward_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = yokei_load(a->dtype, a->x, i), density = 0.39894228040143267794 * exp(-0.5 * x * x);
        yokei_store(a->dtype, a->dx, i,
                    yokei_load(a->dtype, a->dy, i) * (normal_distribution(x) + x * density));
    }
    return YOKE_OK;
}
const struct yoke_op reference_gelu_erf_backward = { .run = reference_gelu_erf_backward_run };

/* ---- SwiGLU ---- */

static yoke_status reference_swiglu_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_forward_args *a = call->args;
    (void)stream;
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t f = 0; f < a->F; f++) {
            const double gate = yokei_load(a->dtype, a->gate, n * a->ldgate + f),
                         up = yokei_load(a->dtype, a->up, n * a->ldup + f);
            yokei_store(a->dtype, a->y, n * a->ldy + f, gate / (1 + exp(-gate)) * up);
        }
    return YOKE_OK;
}
const struct yoke_op reference_swiglu_forward = { .run = reference_swiglu_forward_run };

static yoke_status reference_swiglu_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_backward_args *a = call->args;
    (void)stream;
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t f = 0; f < a->F; f++) {
            const double gate = yokei_load(a->dtype, a->gate, n * a->ldgate + f),
                         up = yokei_load(a->dtype, a->up, n * a->ldup + f);
            const double dy = yokei_load(a->dtype, a->dy, n * a->lddy + f), s = 1 / (1 + exp(-gate)),
                         one_minus_s = 1 / (1 + exp(gate));
            yokei_store(a->dtype, a->dgate, n * a->lddgate + f, dy * up * (s + gate * s * one_minus_s));
            yokei_store(a->dtype, a->dup, n * a->lddup + f, dy * (gate * s));
        }
    return YOKE_OK;
}
const struct yoke_op reference_swiglu_backward = { .run = reference_swiglu_backward_run };
