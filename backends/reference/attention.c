/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attention on the reference backend, one row of scores at a time. include/yoke/ops/attention.h has the
 * maths.
 */
#include "backends/reference/reference.h"

/* Element (b, t, h, d) of a matrix [B, T, heads, D] with leading dimension ld. */
#define AT(matrix, ld, b, t, h, d) yokei_load(a->dtype, (matrix), ((b)*a->T + (t)) * (ld) + (h)*a->D + (d))

static yoke_status reference_attention_forward_can(const yoke_device *device, const struct yokei_call *call,
                                                   size_t *scratch_bytes_out)
{
    const struct yoke_attention_forward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = (size_t)a->T * sizeof(double);
    return YOKE_OK;
}

/* Compute row t of one head. scores [n_keys] has all keys that t may see, and no others. */
static void forward_row(const struct yoke_attention_forward_args *a, int64_t b, int64_t t, int64_t h,
                        double *scores)
{
    const struct yokei_dropout drop = yokei_dropout(a->p, a->key);
    const int64_t hkv = yokei_kv_head(YOKEI_GROUPS_OF_HEADS(a), h);
    const int64_t n_keys = a->causal ? t + 1 : a->T;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n_keys; j++) {
        double dot = 0;
        for (int64_t d = 0; d < a->D; d++)
            dot += AT(a->q, a->ldq, b, t, h, d) * AT(a->k, a->ldk, b, j, hkv, d);
        scores[j] = a->scale * dot;
        max = reference_max(max, scores[j]);
    }
    for (int64_t j = 0; j < n_keys; j++) {
        const double p = exp(scores[j] - max);
        sum += p;
        scores[j] = yokei_dropout_keeps(&drop, j, t, a->sample_start + b, a->head_start + h)
                        ? reference_round(a->dtype, p)
                        : 0;
    }
    for (int64_t d = 0; d < a->D; d++) {
        double o = 0;
        for (int64_t j = 0; j < n_keys; j++) o += scores[j] * AT(a->v, a->ldv, b, j, hkv, d);
        yokei_store(a->dtype, a->o, (b * a->T + t) * a->ldo + h * a->D + d, (double)drop.scale * o / sum);
    }
    if (a->lse) yokei_store(yoke_dtype_wide(a->dtype), a->lse, (b * a->H + h) * a->T + t, max + log(sum));
}

static yoke_status reference_attention_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_forward_args *a = call->args;
    void *scores;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_forward, (size_t)a->T * sizeof(double), &scores));
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t h = 0; h < a->H; h++)
            for (int64_t t = 0; t < a->T; t++) forward_row(a, b, t, h, scores);
    return YOKE_OK;
}
const struct yoke_op reference_attention_forward = { .can = reference_attention_forward_can,
                                                     .run = reference_attention_forward_run };

/*
 * Scratch: dk and dv of one K/V head in float64, because they are sums over rows and heads that are rounded
 * at the end; and the dq of one row.
 */
static size_t backward_scratch(const struct yoke_attention_backward_args *a)
{
    return ((size_t)a->T * 2 + 1) * (size_t)a->D * sizeof(double);
}

static yoke_status reference_attention_backward_can(const yoke_device *device, const struct yokei_call *call,
                                                    size_t *scratch_bytes_out)
{
    const struct yoke_attention_backward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = backward_scratch(a);
    return YOKE_OK;
}

/* Compute row t of one head: its dq, and its contribution to dk and dv [T, D] of its K/V head. */
static void backward_row(const struct yoke_attention_backward_args *a, int64_t b, int64_t t, int64_t h,
                         double *dk, double *dv, double *dq)
{
    const struct yokei_dropout drop = yokei_dropout(a->p, a->key);
    const int64_t hkv = yokei_kv_head(YOKEI_GROUPS_OF_HEADS(a), h);
    const int64_t n_keys = a->causal ? t + 1 : a->T;
    const double lse = yokei_load(yoke_dtype_wide(a->dtype), a->lse, (b * a->H + h) * a->T + t);
    double delta = 0;
    for (int64_t d = 0; d < a->D; d++) {
        delta += AT(a->d_o, a->lddo, b, t, h, d) * AT(a->o, a->ldo, b, t, h, d);
        dq[d] = 0;
    }
    for (int64_t j = 0; j < n_keys; j++) {
        double dot = 0, dp = 0;
        for (int64_t d = 0; d < a->D; d++) {
            dot += AT(a->q, a->ldq, b, t, h, d) * AT(a->k, a->ldk, b, j, hkv, d);
            dp += AT(a->d_o, a->lddo, b, t, h, d) * AT(a->v, a->ldv, b, j, hkv, d);
        }
        const double p = exp(a->scale * dot - lse);
        const double keep = yokei_dropout_keeps(&drop, j, t, a->sample_start + b, a->head_start + h)
                                ? (double)drop.scale
                                : 0;
        const double p_rounded = keep > 0 ? keep * reference_round(a->dtype, p) : 0;
        const double ds = reference_round(a->dtype, p * ((keep > 0 ? keep * dp : 0) - delta));
        for (int64_t d = 0; d < a->D; d++) {
            dv[j * a->D + d] += p_rounded * AT(a->d_o, a->lddo, b, t, h, d);
            dk[j * a->D + d] += a->scale * ds * AT(a->q, a->ldq, b, t, h, d);
            dq[d] += a->scale * ds * AT(a->k, a->ldk, b, j, hkv, d);
        }
    }
    for (int64_t d = 0; d < a->D; d++)
        yokei_store(a->dtype, a->dq, (b * a->T + t) * a->lddq + h * a->D + d, dq[d]);
}

static yoke_status reference_attention_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_backward_args *a = call->args;
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_backward, backward_scratch(a), &scratch));
    double *dk = scratch, *dv = dk + a->T * a->D, *dq = dv + a->T * a->D;
    const struct yokei_groups_of_heads groups = YOKEI_GROUPS_OF_HEADS(a);
    for (int64_t b = 0; b < a->B; b++)
        for (int64_t hkv = 0; hkv < a->Hkv; hkv++) {
            for (int64_t i = 0; i < a->T * a->D; i++) dk[i] = dv[i] = 0;
            for (int64_t h = yokei_first_head(groups, hkv); h < yokei_first_head(groups, hkv + 1); h++)
                for (int64_t t = 0; t < a->T; t++) backward_row(a, b, t, h, dk, dv, dq);
            for (int64_t t = 0; t < a->T; t++)
                for (int64_t d = 0; d < a->D; d++) {
                    yokei_store(a->dtype, a->dk, (b * a->T + t) * a->lddk + hkv * a->D + d, dk[t * a->D + d]);
                    yokei_store(a->dtype, a->dv, (b * a->T + t) * a->lddv + hkv * a->D + d, dv[t * a->D + d]);
                }
        }
    return YOKE_OK;
}
const struct yoke_op reference_attention_backward = { .can = reference_attention_backward_can,
                                                      .run = reference_attention_backward_run };
