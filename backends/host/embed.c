/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings on the host backend. include/yoke/ops/embed.h has the maths, types and bounds. */
#include "backends/host/kernels.h"

/* ---- forward ---- */
INLINE void forward_rows(const yoke_dtype t, const struct yoke_embed_forward_args *a, int64_t from,
                         int64_t to)
{
    const int64_t C = a->C;
    for (int64_t n = from; n < to; n++) {
        const int64_t token = a->tokens[n] - a->vocab_start;
        const void *token_row = token >= 0 && token < a->V ? at(t, a->wte, token * C) : NULL;
        const void *position_row = a->wpe ? at(t, a->wpe, (a->pos_start + n % a->T) * C) : NULL;
        void *y = at_mut(t, a->y, n * C);
        VECTOR_LOOP(c, m, 0, C, {
            vf s = { 0 };
            if (token_row) s = vload_n(t, token_row, c, m);
            if (position_row) s += vload_n(t, position_row, c, m);
            vstore_n(t, y, c, m, s);
        });
    }
}

static void forward_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_embed_forward_args *a = context;
    HOST_BY_TYPE(a->dtype, forward_rows, a, from, to);
}

static yoke_status host_embed_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_forward_args *a = call->args;
    if (a->C) host_for(stream, a->N, host_row_grain(a->C), forward_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_embed_forward) = { .run = host_embed_forward_run };

/*
 * ---- backward ----
 * A counting sort lists the positions of each token in ascending order. A row of the gradient then belongs to
 * one thread, which adds the positions in this order. A unit is a range of rows by a range of columns,
 * because the frequencies of tokens in a text are very unequal.
 */
enum { COLUMNS = 128, TOKENS = 256 };

struct backward {
    const struct yoke_embed_backward_args *a;
    int64_t *begin;     /* [V + 1]: where the positions of each token begin */
    int64_t *positions; /* [N] */
    int64_t column_units;
};

static void sort_tokens(struct backward *b)
{
    const struct yoke_embed_backward_args *a = b->a;
    memset(b->begin, 0, (size_t)(a->V + 1) * sizeof *b->begin);
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t token = a->tokens[n] - a->vocab_start;
        if (token >= 0 && token < a->V) b->begin[token + 1]++;
    }
    for (int64_t v = 0; v < a->V; v++) b->begin[v + 1] += b->begin[v];
    for (int64_t n = 0; n < a->N; n++) {
        const int64_t token = a->tokens[n] - a->vocab_start;
        if (token >= 0 && token < a->V) b->positions[b->begin[token]++] = n;
    }
    memmove(b->begin + 1, b->begin,
            (size_t)a->V * sizeof *b->begin); /* each entry has moved to the start of the next token */
    b->begin[0] = 0;
}

INLINE void add_token_rows(const yoke_dtype t, const struct backward *b, int64_t unit)
{
    const struct yoke_embed_backward_args *a = b->a;
    const int64_t C = a->C, c0 = unit % b->column_units * COLUMNS, c1 = YOKE_MIN(c0 + COLUMNS, C);
    const int64_t v0 = unit / b->column_units * TOKENS, v1 = YOKE_MIN(v0 + TOKENS, a->V);
    for (int64_t v = v0; v < v1; v++) {
        if (b->begin[v] == b->begin[v + 1]) continue;
        VECTOR_LOOP(c, m, c0, c1, {
            vf s = vload_n(YOKE_F32, a->dwte, v * C + c, m);
            for (int64_t i = b->begin[v]; i < b->begin[v + 1]; i++)
                s += vload_n(t, a->dy, b->positions[i] * C + c, m);
            vstore_n(YOKE_F32, a->dwte, v * C + c, m, s);
        });
    }
}

static void token_unit(const void *context, int64_t unit, int thread)
{
    (void)thread;
    const struct backward *b = context;
    HOST_BY_TYPE(b->a->dtype, add_token_rows, b, unit);
}

INLINE void add_position_rows(const yoke_dtype t, const struct backward *b, int64_t from, int64_t to)
{
    const struct yoke_embed_backward_args *a = b->a;
    for (int64_t position = from; position < to; position++) {
        float *sum = (float *)a->dwpe + (a->pos_start + position) * a->C; /* [C] */
        VECTOR_LOOP(c, m, 0, a->C, {
            vf s = vload_n(YOKE_F32, sum, c, m);
            for (int64_t n = position; n < a->N; n += a->T) s += vload_n(t, a->dy, n * a->C + c, m);
            vstore_n(YOKE_F32, sum, c, m, s);
        });
    }
}

static void position_range(const void *context, int64_t from, int64_t to)
{
    const struct backward *b = context;
    HOST_BY_TYPE(b->a->dtype, add_position_rows, b, from, to);
}

static yoke_status host_embed_backward_can(const yoke_device *device, const struct yokei_call *call,
                                           size_t *scratch_bytes_out)
{
    const struct yoke_embed_backward_args *a = call->args;
    (void)device;
    *scratch_bytes_out = (size_t)(a->V + 1 + a->N) * sizeof(int64_t);
    return YOKE_OK;
}

static yoke_status host_embed_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_backward_args *a = call->args;
    if (!a->N || !a->C) return YOKE_OK;
    struct backward b = { .a = a, .column_units = host_ceil_div(a->C, COLUMNS) };
    if (a->dwte && a->V) {
        void *scratch;
        YOKE_TRY(yokei_scratch(stream, YOKE_OP_embed_backward, (size_t)(a->V + 1 + a->N) * sizeof(int64_t),
                               &scratch));
        b.begin = scratch;
        b.positions = b.begin + a->V + 1;
        sort_tokens(&b);
        host_for_units(stream, host_ceil_div(a->V, TOKENS) * b.column_units, token_unit, &b);
    }
    if (a->dwpe) host_for(stream, YOKE_MIN(a->T, a->N), 1, position_range, &b);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_embed_backward) = { .can = host_embed_backward_can,
                                                        .run = host_embed_backward_run };
