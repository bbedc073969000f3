/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings on the reference backend. include/yoke/ops/embed.h has the maths. */
#include "backends/reference/reference.h"

static yoke_status reference_embed_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_forward_args *a = call->args;
    (void)stream;
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t row = a->tokens[n] - a->vocab_start, position = a->pos_start + n % a->T;
        for (int64_t c = 0; c < a->C; c++) {
            double y = 0;
            if (row >= 0 && row < a->V) y = yokei_load(a->dtype, a->wte, row * a->C + c);
            if (a->wpe) y += yokei_load(a->dtype, a->wpe, position * a->C + c);
            yokei_store(a->dtype, a->y, n * a->C + c, y);
        }
    }
    return YOKE_OK;
}
const struct yoke_op reference_embed_forward = { .run = reference_embed_forward_run };

/* Scratch: one column of dwte and of dwpe in float64, because each output is rounded once. */
static size_t backward_scratch(const struct yoke_embed_backward_args *a)
{
    return (size_t)(a->V + a->T) * sizeof(double);
}

static yoke_status reference_embed_backward_can(const yoke_device *device, const struct yokei_call *call,
                                                size_t *scratch_bytes_out)
{
    const struct yoke_embed_backward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = backward_scratch(a);
    return YOKE_OK;
}

/* Compute column c of both gradients. dwte [V] and dwpe [T] are scratch. */
static void backward_column(const struct yoke_embed_backward_args *a, int64_t c, double *dwte, double *dwpe)
{
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    for (int64_t v = 0; a->dwte && v < a->V; v++) dwte[v] = yokei_load(wide, a->dwte, v * a->C + c);
    for (int64_t t = 0; a->dwpe && t < a->T; t++)
        dwpe[t] = yokei_load(wide, a->dwpe, (a->pos_start + t) * a->C + c);
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t row = a->tokens[n] - a->vocab_start;
        const double dy = yokei_load(a->dtype, a->dy, n * a->C + c);
        if (a->dwte && row >= 0 && row < a->V) dwte[row] += dy;
        if (a->dwpe) dwpe[n % a->T] += dy;
    }
    for (int64_t v = 0; a->dwte && v < a->V; v++) yokei_store(wide, a->dwte, v * a->C + c, dwte[v]);
    for (int64_t t = 0; a->dwpe && t < a->T; t++)
        yokei_store(wide, a->dwpe, (a->pos_start + t) * a->C + c, dwpe[t]);
}

static yoke_status reference_embed_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_backward_args *a = call->args;
    if (a->N == 0) return YOKE_OK; /* T may be 0 in this case */
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_embed_backward, backward_scratch(a), &scratch));
    for (int64_t c = 0; c < a->C; c++) backward_column(a, c, scratch, (double *)scratch + a->V);
    return YOKE_OK;
}
const struct yoke_op reference_embed_backward = { .can = reference_embed_backward_can,
                                                  .run = reference_embed_backward_run };
