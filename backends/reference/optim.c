/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer on the reference backend. include/yoke/ops/optim.h has the maths. */
#include "backends/reference/reference.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(reference, op)
YOKE_OPTIM_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(reference, op)
const struct yoke_optim_ops reference_optim_ops = { YOKE_OPTIM_OPS(ENTRY) };

static yoke_status reference_adamw_can(const yoke_device *device, const struct yoke_adamw_args *a,
                                       size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    if (a->dtype != YOKE_F32 && a->dtype != YOKE_F64)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "adamw: dtype = %s is not offered: weights and moments are f32, or f64 on the "
                         "reference device; ask for a 16-bit copy by copy_dtype",
                         yoke_dtype_name(a->dtype));
    if (a->copy) YOKE_TRY(reference_check(YOKE_OP_adamw, "copy_dtype", a->copy_dtype));
    return YOKE_OK;
}

static yoke_status reference_adamw_run(yoke_stream *stream, const struct yoke_adamw_args *a)
{
    YOKE_TRY(reference_adamw_can(stream->device, a, NULL));
    const double correction1 = reference_round(a->dtype, 1 - pow(a->beta1, (double)a->step));
    const double correction2 = reference_round(a->dtype, 1 - pow(a->beta2, (double)a->step));
    for (int64_t i = 0; i < a->n; i++) {
        const double g = a->grad_scale * yokei_load(a->dtype, a->grad, i);
        const double m = a->beta1 * yokei_load(a->dtype, a->m, i) + (1 - (double)a->beta1) * g;
        const double v = a->beta2 * yokei_load(a->dtype, a->v, i) + (1 - (double)a->beta2) * g * g;
        const double w = yokei_load(a->dtype, a->w, i);
        const double update = (m / correction1) / (sqrt(v / correction2) + a->eps);
        yokei_store(a->dtype, a->m, i, m);
        yokei_store(a->dtype, a->v, i, v);
        yokei_store(a->dtype, a->w, i, w - (double)a->lr * a->weight_decay * w - a->lr * update);
        if (a->copy) yokei_store(a->copy_dtype, a->copy, i, yokei_load(a->dtype, a->w, i));
    }
    return YOKE_OK;
}

static yoke_status reference_grad_norm_can(const yoke_device *device, const struct yoke_grad_norm_args *a,
                                           size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_grad_norm, "dtype", a->dtype);
}

static yoke_status reference_grad_norm_run(yoke_stream *stream, const struct yoke_grad_norm_args *a)
{
    YOKE_TRY(reference_grad_norm_can(stream->device, a, NULL));
    const int64_t block = a->block ? a->block : a->n, n_sums = a->block ? (a->n + block - 1) / block : 1;
    for (int64_t b = 0; b < n_sums; b++) {
        double sum = 0, n_bad = 0;
        for (int64_t i = b * block; i < YOKE_MIN((b + 1) * block, a->n); i++) {
            const double g = a->scale * yokei_load(a->dtype, a->grad, i);
            if (isfinite(g))
                sum += g * g;
            else
                n_bad += 1;
        }
        yokei_store(yoke_dtype_wide(a->dtype), a->out, 2 * b, sum);
        yokei_store(yoke_dtype_wide(a->dtype), a->out, 2 * b + 1, n_bad);
    }
    return YOKE_OK;
}
