/* SPDX-License-Identifier: Apache-2.0 */
/* Activations on the reference backend. include/yoke/ops/act.h has the maths. */
#include "backends/reference/reference.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(reference, op)
YOKE_ACT_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(reference, op)
const struct yoke_act_ops reference_act_ops = { YOKE_ACT_OPS(ENTRY) };

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

static yoke_status reference_gelu_forward_can(const yoke_device *device,
                                              const struct yoke_gelu_forward_args *a,
                                              size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_gelu_forward, "dtype", a->dtype);
}

static yoke_status reference_gelu_forward_run(yoke_stream *stream, const struct yoke_gelu_forward_args *a)
{
    YOKE_TRY(reference_gelu_forward_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->y, i, reference_gelu(yokei_load(a->dtype, a->x, i)));
    return YOKE_OK;
}

static yoke_status reference_gelu_backward_can(const yoke_device *device,
                                               const struct yoke_gelu_backward_args *a,
                                               size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_gelu_backward, "dtype", a->dtype);
}

static yoke_status reference_gelu_backward_run(yoke_stream *stream, const struct yoke_gelu_backward_args *a)
{
    YOKE_TRY(reference_gelu_backward_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->dx, i,
                    yokei_load(a->dtype, a->dy, i) * gelu_derivative(yokei_load(a->dtype, a->x, i)));
    return YOKE_OK;
}

/* ---- GELU by the normal distribution ---- */

static double normal_distribution(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static yoke_status reference_gelu_erf_forward_can(const yoke_device *device,
                                                  const struct yoke_gelu_erf_forward_args *a,
                                                  size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_gelu_erf_forward, "dtype", a->dtype);
}

static yoke_status reference_gelu_erf_forward_run(yoke_stream *stream,
                                                  const struct yoke_gelu_erf_forward_args *a)
{
    YOKE_TRY(reference_gelu_erf_forward_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++) {
        const double x = yokei_load(a->dtype, a->x, i);
        yokei_store(a->dtype, a->y, i, x * normal_distribution(x));
    }
    return YOKE_OK;
}

static yoke_status reference_gelu_erf_backward_can(const yoke_device *device,
                                                   const struct yoke_gelu_erf_backward_args *a,
                                                   size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_gelu_erf_backward, "dtype", a->dtype);
}

static yoke_status reference_gelu_erf_backward_run(yoke_stream *stream,
                                                   const struct yoke_gelu_erf_backward_args *a)
{
    YOKE_TRY(reference_gelu_erf_backward_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++) {
        const double x = yokei_load(a->dtype, a->x, i), density = 0.39894228040143267794 * exp(-0.5 * x * x);
        yokei_store(a->dtype, a->dx, i,
                    yokei_load(a->dtype, a->dy, i) * (normal_distribution(x) + x * density));
    }
    return YOKE_OK;
}

/* ---- SwiGLU ---- */

static yoke_status reference_swiglu_forward_can(const yoke_device *device,
                                                const struct yoke_swiglu_forward_args *a,
                                                size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_swiglu_forward, "dtype", a->dtype);
}

static yoke_status reference_swiglu_forward_run(yoke_stream *stream, const struct yoke_swiglu_forward_args *a)
{
    YOKE_TRY(reference_swiglu_forward_can(stream->device, a, NULL));
    for (int64_t n = 0; n < a->N; n++)
        for (int64_t f = 0; f < a->F; f++) {
            const double gate = yokei_load(a->dtype, a->gate, n * a->ldgate + f),
                         up = yokei_load(a->dtype, a->up, n * a->ldup + f);
            yokei_store(a->dtype, a->y, n * a->ldy + f, gate / (1 + exp(-gate)) * up);
        }
    return YOKE_OK;
}

static yoke_status reference_swiglu_backward_can(const yoke_device *device,
                                                 const struct yoke_swiglu_backward_args *a,
                                                 size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_swiglu_backward, "dtype", a->dtype);
}

static yoke_status reference_swiglu_backward_run(yoke_stream *stream,
                                                 const struct yoke_swiglu_backward_args *a)
{
    YOKE_TRY(reference_swiglu_backward_can(stream->device, a, NULL));
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
