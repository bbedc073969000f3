/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise sums and products, and dropout, on the host backend. include/yoke/ops/elementwise.h has the
 * maths, types and bounds.
 */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("schedule-insns") /* Philox is a chain of ten rounds; the compiler must interleave \
                                          those of several words */
#endif
#include "backends/host/kernels.h"
#include "backends/host/random.h"

INLINE void add_elements(const yoke_dtype t, const struct yoke_add_args *a, int64_t from, int64_t to)
{
    MAP_2(t, from, to, a->z, a->x, x, a->y, y, x + y);
}

static void add_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_add_args *a = context;
    HOST_BY_TYPE(a->dtype, add_elements, a, from, to);
}

static yoke_status host_add_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_add_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, add_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_add) = { .run = host_add_run };

INLINE void scale_elements(const yoke_dtype t, const struct yoke_scale_args *a, int64_t from, int64_t to)
{
    const vf alpha = vset(plain_nan(a->alpha));
    MAP_1(t, 2, from, to, a->y, a->x, x, alpha * x);
}

static void scale_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_scale_args *a = context;
    HOST_BY_TYPE(a->dtype, scale_elements, a, from, to);
}

static yoke_status host_scale_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_scale_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, scale_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_scale) = { .run = host_scale_run };

/* ---- dropout ---- */
/* Process columns [from, to) of a row. words[0] is the random word of column `from`. */
INLINE void drop_columns(const yoke_dtype t, const struct yokei_dropout *drop, const uint32_t *words,
                         const void *x, const void *residual, void *y, int64_t from, int64_t to)
{
    VECTOR_LOOP(c, n, from, to, {
        vu word = { 0 };
        memcpy(&word, words + (c - from), (size_t)n * sizeof *words);
        vf r = vdrop(vload_n(t, x, c, n) * drop->scale, word, drop->threshold);
        if (residual) r += vload_n(t, residual, c, n);
        vstore_plain_n(t, y, c, n, r);
    });
}

INLINE void dropout_rows(const yoke_dtype t, const struct yoke_dropout_args *a, int64_t from, int64_t to)
{
    const struct yokei_dropout drop = yokei_dropout(a->p, a->key);
    const int64_t first = a->channel_start, end = first + a->C;
    uint32_t words[64];
    for (int64_t n = from; n < to; n++) {
        const int64_t row = a->first_row + n, sample = a->sample_start + row / a->T,
                      position = a->pos_start + row % a->T;
        const void *x = at(t, a->x, n * a->ldx),
                   *residual = a->residual ? at(t, a->residual, n * a->ldresidual) : NULL;
        void *y = at_mut(t, a->y, n * a->ldy);
        for (int64_t group = first / 64; group * 64 < end; group++) {
            const int64_t low = YOKE_MAX(first, 64 * group), high = YOKE_MIN(end, 64 * group + 64);
            for (int64_t c = low - first; c < high - first; c += 2 * VL) {
                vprefetch_pair(t, x, c + AHEAD / (int64_t)type_bytes(t), false);
                if (residual) vprefetch_pair(t, residual, c + AHEAD / (int64_t)type_bytes(t), false);
                vprefetch_pair(t, y, c + AHEAD / (int64_t)type_bytes(t), true);
            }
            dropout_words(drop.key, group, position, sample, words);
            drop_columns(t, &drop, words + (low - 64 * group), x, residual, y, low - first, high - first);
        }
    }
}

static void dropout_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_dropout_args *a = context;
    HOST_BY_TYPE(a->dtype, dropout_rows, a, from, to);
}

static yoke_status host_dropout_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_dropout_args *a = call->args;
    if (a->C) host_for(stream, a->N, host_row_grain(a->C), dropout_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_dropout) = { .run = host_dropout_run };
