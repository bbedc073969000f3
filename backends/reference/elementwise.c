/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise sums and products, and dropout, on the reference backend. include/yoke/ops/elementwise.h has
 * the maths.
 */
#include "backends/reference/reference.h"

static yoke_status reference_add_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_add_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->z, i, yokei_load(a->dtype, a->x, i) + yokei_load(a->dtype, a->y, i));
    return YOKE_OK;
}
const struct yoke_op reference_add = { .run = reference_add_run };

static yoke_status reference_scale_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_scale_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->y, i, a->alpha * yokei_load(a->dtype, a->x, i));
    return YOKE_OK;
}
const struct yoke_op reference_scale = { .run = reference_scale_run };

static yoke_status reference_dropout_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_dropout_args *a = call->args;
    (void)stream;
    const struct yokei_dropout drop = yokei_dropout(a->p, a->key);
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t row = a->first_row + n, sample = a->sample_start + row / a->T,
                      position = a->pos_start + row % a->T;
        for (int64_t c = 0; c < a->C; c++) {
            const bool kept = yokei_dropout_keeps(&drop, a->channel_start + c, position, sample, 0);
            double y = kept ? (double)drop.scale * yokei_load(a->dtype, a->x, n * a->ldx + c) : 0;
            if (a->residual) y += yokei_load(a->dtype, a->residual, n * a->ldresidual + c);
            yokei_store(a->dtype, a->y, n * a->ldy + c, y);
        }
    }
    return YOKE_OK;
}
const struct yoke_op reference_dropout = { .run = reference_dropout_run };
