/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise sums and products, and dropout, on the reference backend. include/yoke/ops/elementwise.h has
 * the maths.
 */
#include "backends/reference/reference.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(reference, op)
YOKE_ELEMENTWISE_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(reference, op)
const struct yoke_elementwise_ops reference_elementwise_ops = { YOKE_ELEMENTWISE_OPS(ENTRY) };

static yoke_status reference_add_can(const yoke_device *device, const struct yoke_add_args *a,
                                     size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_add, "dtype", a->dtype);
}

static yoke_status reference_add_run(yoke_stream *stream, const struct yoke_add_args *a)
{
    YOKE_TRY(reference_add_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->z, i, yokei_load(a->dtype, a->x, i) + yokei_load(a->dtype, a->y, i));
    return YOKE_OK;
}

static yoke_status reference_scale_can(const yoke_device *device, const struct yoke_scale_args *a,
                                       size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_scale, "dtype", a->dtype);
}

static yoke_status reference_scale_run(yoke_stream *stream, const struct yoke_scale_args *a)
{
    YOKE_TRY(reference_scale_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++)
        yokei_store(a->dtype, a->y, i, a->alpha * yokei_load(a->dtype, a->x, i));
    return YOKE_OK;
}

static yoke_status reference_dropout_can(const yoke_device *device, const struct yoke_dropout_args *a,
                                         size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return reference_check(YOKE_OP_dropout, "dtype", a->dtype);
}

static yoke_status reference_dropout_run(yoke_stream *stream, const struct yoke_dropout_args *a)
{
    YOKE_TRY(reference_dropout_can(stream->device, a, NULL));
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
