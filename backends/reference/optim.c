/* SPDX-License-Identifier: Apache-2.0 */
/* The optimizer on the reference backend. include/yoke/ops/optim.h has the maths. */
#include "backends/reference/reference.h"

static yoke_status reference_adamw_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_adamw_args *a = call->args;
    (void)stream;
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
const struct yoke_op reference_adamw = { .run = reference_adamw_run };

static yoke_status reference_grad_norm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_grad_norm_args *a = call->args;
    (void)stream;
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
const struct yoke_op reference_grad_norm = { .run = reference_grad_norm_run };
