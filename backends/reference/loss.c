/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy on the reference backend. include/yoke/ops/loss.h has the maths. */
#include "backends/reference/reference.h"

/*
 * log sum exp of n elements of x, from element `from` on, `stride` apart. If all elements are -infinity, the
 * result is -infinity; max - max would be NaN there.
 */
static double log_sum_exp(yoke_dtype dtype, const void *x, int64_t from, int64_t n, int64_t stride)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = reference_max(max, yokei_load(dtype, x, from + i * stride));
    if (isinf(max) && max < 0) return max;
    for (int64_t i = 0; i < n; i++) sum += exp(yokei_load(dtype, x, from + i * stride) - max);
    return max + log(sum);
}

static yoke_status reference_xent_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_forward_args *a = call->args;
    (void)stream;
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; n < a->N; n++) {
        const double lse = log_sum_exp(a->dtype, a->logits, n * a->ld, a->V, 1);
        const int64_t target = a->targets[n] - a->vocab_start;
        const bool ignored = a->targets[n] < 0, here = !ignored && target >= 0 && target < a->V;
        const double picked = here ? yokei_load(a->dtype, a->logits, n * a->ld + target) : 0;
        yokei_store(wide, a->lse, n, lse);
        if (a->picked) yokei_store(wide, a->picked, n, picked);
        if (a->losses) yokei_store(wide, a->losses, n, ignored ? 0 : lse - picked);
    }
    return YOKE_OK;
}
const struct yoke_op reference_xent_forward = { .run = reference_xent_forward_run };

static yoke_status reference_xent_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_backward_args *a = call->args;
    (void)stream;
    for (int64_t n = 0; n < a->N; n++) {
        const double lse = yokei_load(yoke_dtype_wide(a->dtype), a->lse, n);
        const int64_t target = a->targets[n] - a->vocab_start;
        const bool ignored = a->targets[n] < 0;
        for (int64_t v = 0; v < a->V; v++) {
            const double p = exp(yokei_load(a->dtype, a->logits, n * a->ld + v) - lse);
            yokei_store(a->dtype, a->dlogits, n * a->lddlogits + v,
                        ignored ? 0 : a->scale * (p - (v == target)));
        }
    }
    return YOKE_OK;
}
const struct yoke_op reference_xent_backward = { .run = reference_xent_backward_run };

static yoke_status reference_xent_join_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_join_args *a = call->args;
    (void)stream;
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t n = 0; n < a->N; n++) {
        const double lse = log_sum_exp(wide, a->lse_parts, n, a->P, a->ld);
        yokei_store(wide, a->lse, n, lse);
        if (!a->losses) continue;
        double picked = 0;
        for (int64_t p = 0; p < a->P; p++) picked += yokei_load(wide, a->picked_parts, p * a->ld + n);
        yokei_store(wide, a->losses, n, a->targets[n] < 0 ? 0 : lse - picked);
    }
    return YOKE_OK;
}
const struct yoke_op reference_xent_join = { .run = reference_xent_join_run };
