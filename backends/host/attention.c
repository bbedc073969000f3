/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The forward pass of attention on the host backend. include/yoke/ops/attention.h has the maths, types and
 * bounds.
 *
 * A unit is a chunk of CHUNK_BLOCKS blocks of queries of one (b, h). The thread that takes the unit
 * transposes these queries once. Then it goes through the keys and values block by block. Each block is
 * converted to the format of its product once for the whole chunk. Running maxima, sums and outputs stay in
 * the cache.
 */
#include "backends/host/attention.h"

enum { CHUNK_BLOCKS = 4, CHUNK_QUERIES = CHUNK_BLOCKS * QUERIES };

struct forward {
    const struct yoke_attention_forward_args *a;
    int64_t Dp, n_chunks;
    float *scratch;
    size_t thread_floats;
};

/*
 * The buffers of one thread. The formats of the operands (left, across, along, by pair) are described in
 * attention_blocks.h.
 */
struct buffers {
    float *qt;                 /* queries across, CHUNK_BLOCKS blocks */
    float *o;                  /* [CHUNK_QUERIES][Dp]: outputs before normalisation */
    float *k, *v;              /* k left and v along, KEYS rows each */
    float *s;                  /* [KEYS][QUERIES]: scores */
    float *p;                  /* P by pairs; the same buffer as s in f32 */
    float *max, *sum, *factor; /* [CHUNK_QUERIES] each, max as an exponent of 2; factor [QUERIES] */
    float *wide; /* KEYS rows of [Dp]: values as f32, for blocks with masked operands that are not finite */
    bool v_special;
    struct drop drop;
};

static size_t thread_floats(int64_t D)
{
    const int64_t Dp = attention_padded(D);
    return (size_t)(CHUNK_QUERIES * D + CHUNK_QUERIES * Dp + 3 * KEYS * Dp + 2 * KEYS * QUERIES
                    + 2 * CHUNK_QUERIES + QUERIES);
}

static struct buffers place_buffers(yoke_dtype dtype, float *p, int64_t D, int64_t Dp)
{
    struct buffers b = { 0 };
    b.o = p, p += CHUNK_QUERIES * Dp;
    b.k = p, p += KEYS * Dp;
    b.v = p, p += KEYS * Dp;
    b.wide = p, p += KEYS * Dp;
    b.s = p, p += KEYS * QUERIES;
    b.p = in_pairs(dtype) ? p : b.s, p += KEYS * QUERIES;
    b.max = p, p += CHUNK_QUERIES;
    b.sum = p, p += CHUNK_QUERIES;
    b.factor = p, p += QUERIES;
    b.qt = p, p += CHUNK_QUERIES * D;
    return b;
}

enum { GROUP = 2 }; /* number of vectors of queries that go through the softmax side by side */

/*
 * The greatest scores of the columns of a group (GROUP vectors of queries), s [n_keys][QUERIES]. With
 * `masked`, the scores of keys behind the query become -infinity.
 */
INLINE void greatest(float *s, int64_t n_keys, bool masked, int64_t j0, int64_t t0, vf most[GROUP])
{
    for (int g = 0; g < GROUP; g++) most[g] = vset(-INFINITY);
    for (int64_t j = 0; j < n_keys; j++)
        for (int g = 0; g < GROUP; g++) {
            vf x = vload(YOKE_F32, s, j * QUERIES + g * VL);
            if (masked) {
                x = vselect(vless_i(query_numbers(t0, g), vset_i((int32_t)(j0 + j))), vset(-INFINITY), x);
                vstore(YOKE_F32, s, j * QUERIES + g * VL, x);
            }
            most[g] = vatleast(most[g], x); /* a NaN is ignored here; it comes back through the sum */
        }
}

/* Compute the P of two keys for a group, store it, and add it to l. */
INLINE void exponentials(const yoke_dtype t, const float *s, float *p, int64_t j, float c,
                         const vf base[GROUP], vf l[GROUP][2], const bool has_second)
{
    for (int g = 0; g < GROUP; g++) {
        const int64_t at = j * QUERIES + g * VL;
        const vf first = vexp2(vfma(vload(YOKE_F32, s, at), vset(c), -base[g]));
        vf second = { 0 };
        if (has_second) second = vexp2(vfma(vload(YOKE_F32, s, at + QUERIES), vset(c), -base[g]));
        l[g][0] += first, l[g][1] += second;
        store_by_pair(t, p, j, g * VL, first, second, has_second);
    }
}

/*
 * Turn a group's scores into P, rounded and by pairs. With `raw`, P is not rounded and replaces the scores.
 * max and sum are updated, and factor = exp(old max - new max). All pointers are to the group's first column.
 */
INLINE void softmax_group(const yoke_dtype t, const bool raw, float *s, float *p, int64_t n_keys, float c,
                          bool masked, int64_t j0, int64_t t0, float *max, float *sum, float *factor)
{
    vf base[GROUP], l[GROUP][2];
    if (masked)
        greatest(s, n_keys, true, j0, t0, base);
    else
        greatest(s, n_keys, false, j0, t0, base);
    for (int g = 0; g < GROUP; g++) {
        const vf old = vload(YOKE_F32, max, g * VL), m = vatleast(old, base[g] * c);
        /* all keys so far are masked, and exp(-inf - -inf) would be NaN */
        base[g] = vselect(vless(vset(-INFINITY), m), m, vset(0));
        const vf keep = vexp2(old - base[g]);
        l[g][0] = vload(YOKE_F32, sum, g * VL) * keep, l[g][1] = (vf){ 0 };
        vstore(YOKE_F32, max, g * VL, m);
        vstore(YOKE_F32, factor, g * VL, keep);
    }
    int64_t j = 0;
    for (; j + 2 <= n_keys; j += 2) exponentials(raw ? YOKE_F32 : t, s, raw ? s : p, j, c, base, l, true);
    if (j < n_keys) exponentials(raw ? YOKE_F32 : t, s, raw ? s : p, j, c, base, l, false);
    for (int g = 0; g < GROUP; g++) vstore(YOKE_F32, sum, g * VL, l[g][0] + l[g][1]);
}

/* Drop pairs out of the raw P of a group, and store the result rounded and by pairs. */
INLINE void drop_group(const yoke_dtype t, const struct drop *d, float *s, float *p, int64_t n_keys,
                       int64_t j0, int64_t t0)
{
    for (int g = 0; g < GROUP; g++)
        for (int i = 0; i < 16 && i < n_keys; i++) {
            vu words[4];
            pair_words(d, j0, i, t0, g, words);
            for (int k = 0; k < 4 && i + 16 * k < n_keys; k++) {
                const int64_t at = (i + 16 * k) * QUERIES + g * VL;
                vstore(YOKE_F32, s, at, vdrop(vload(YOKE_F32, s, at), words[k], d->by.threshold));
            }
        }
    for (int64_t j = 0; j < n_keys; j += 2)
        for (int g = 0; g < GROUP; g++) {
            const bool has_second = j + 1 < n_keys;
            const vf first = vload(YOKE_F32, s, j * QUERIES + g * VL);
            store_by_pair(t, p, j, g * VL, first,
                          has_second ? vload(YOKE_F32, s, (j + 1) * QUERIES + g * VL) : (vf){ 0 },
                          has_second);
        }
}

/* Process one part of a block of queries with one block of keys. */
INLINE void attend_part(const yoke_dtype t, const struct forward *f, const struct buffers *b, int64_t block,
                        struct part part, int64_t t0, int64_t j0)
{
    const int64_t D = f->a->D, Dp = f->Dp, first = block * QUERIES + part.first;
    const bool edge = f->a->causal && j0 == t0;
    const enum tile_start start = j0 == 0 ? TILE_ZERO : TILE_SCALE;
    float *o = b->o + first * Dp, *s = b->s + part.first, *p = b->p + part.first;
    scores(t, part.n_keys, part.count, D, b->k, b->qt + block * QUERIES * D + part.first, s);
    if (f->a->scale < 0) negate(s, part.n_keys, part.count);
    for (int64_t i = 0; i < part.count; i += GROUP * VL) {
        const float c = exponent_factor(f->a->scale);
        float *max = b->max + first + i, *sum = b->sum + first + i, *factor = b->factor + i;
        const int64_t query = t0 + part.first + i;
        if (!b->drop.by.threshold) {
            softmax_group(t, false, s + i, p + i, part.n_keys, c, edge, j0, query, max, sum, factor);
            continue;
        }
        softmax_group(t, true, s + i, p + i, part.n_keys, c, edge, j0, query, max, sum, factor);
        drop_group(t, &b->drop, s + i, p + i, part.n_keys, j0, query);
    }
    if (edge && b->v_special) {
        add_to_queries(t, start, part.count, 0, p, b->v, Dp, o, b->factor);
        masked_product((struct masked){ true, t0 + part.first, j0 }, part.count, Dp, part.n_keys,
                       widen_by_pair(t, b->p, part.n_keys, b->s) + part.first, 1, QUERIES, b->wide, Dp, o,
                       Dp);
        return;
    }
    add_to_queries(t, start, part.count, part.n_keys, p, b->v, Dp, o, b->factor);
}

INLINE void store_outputs(const yoke_dtype t, const struct forward *f, const struct buffers *b, int64_t batch,
                          int64_t head, int64_t t0, int64_t n)
{
    const struct yoke_attention_forward_args *a = f->a;
    const int64_t D = a->D, Dp = f->Dp, ld = a->ldo;
    const float *sums = b->sum, *rows = b->o, scale = b->drop.by.scale;
    void *o = at_mut(t, a->o, (batch * a->T + t0) * ld + head * D);
    for (int64_t i = 0; i < n; i++) store_row(t, rows + i * Dp, scale / sums[i], D, at_mut(t, o, i * ld));
    if (!a->lse) return;
    float *lse = (float *)a->lse + (batch * a->H + head) * a->T + t0;
    for (int64_t i = 0; i < n; i += VL) {
        const vf max = vload(YOKE_F32, b->max, i), log_sum = vlog(vload(YOKE_F32, sums, i));
        vstore_n(YOKE_F32, lse, i, n - i, vfma(max, vset(LN2_HIGH), vfma(max, vset(LN2_LOW), log_sum)));
    }
}

/* Begin a chunk: bring its queries into the format `across`, with no keys seen yet. */
INLINE void begin_chunk(const yoke_dtype t, const struct forward *f, struct buffers *b, int64_t batch,
                        int64_t head, int64_t t0, int64_t n)
{
    const struct yoke_attention_forward_args *a = f->a;
    const int64_t n_blocks = host_ceil_div(n, QUERIES);
    b->drop = (struct drop){ yokei_dropout(a->p, a->key), a->sample_start + batch, a->head_start + head };
    memset(b->sum, 0, (size_t)(n_blocks * QUERIES) * sizeof(float));
    for (int64_t i = 0; i < n_blocks * QUERIES; i++) b->max[i] = -INFINITY;
    for (int64_t i = 0; i < n_blocks; i++)
        pack_across(t, at(t, a->q, (batch * a->T + t0 + i * QUERIES) * a->ldq + head * a->D), a->ldq,
                    YOKE_MIN(n - i * QUERIES, QUERIES), a->D, b->qt + i * QUERIES * a->D);
}

/* Load a block of keys and values. `edge`: the mask may run through the block. */
INLINE void load_keys(const yoke_dtype t, const struct forward *f, struct buffers *b, int64_t row,
                      int64_t kv_head, int64_t n_keys, bool edge)
{
    const struct yoke_attention_forward_args *a = f->a;
    const void *v = at(t, a->v, row * a->ldv + kv_head * a->D);
    pack_left(t, at(t, a->k, row * a->ldk + kv_head * a->D), a->ldk, n_keys, a->D, b->k);
    pack_along(t, v, a->ldv, n_keys, a->D, f->Dp, b->v);
    b->v_special = edge
                   && has_special(t, b->v, along_words(t, host_round_up(n_keys, in_pairs(t) ? 2 : 1), f->Dp));
    if (b->v_special) widen_rows(t, v, a->ldv, n_keys, a->D, b->wide, f->Dp, f->Dp);
}

INLINE void forward_chunk(const yoke_dtype t, const struct forward *f, int64_t batch, int64_t head,
                          int64_t t0, struct buffers *b)
{
    const struct yoke_attention_forward_args *a = f->a;
    const int64_t n = YOKE_MIN(a->T - t0, CHUNK_QUERIES), end = a->causal ? t0 + n : a->T;
    const int64_t kv_head = yokei_kv_head(YOKEI_GROUPS_OF_HEADS(a), head);
    begin_chunk(t, f, b, batch, head, t0, n);
    for (int64_t j0 = 0; j0 < end; j0 += KEYS) {
        const int64_t n_keys = YOKE_MIN(end - j0, KEYS);
        load_keys(t, f, b, batch * a->T + j0, kv_head, n_keys, a->causal && j0 >= t0);
        for (int64_t i = a->causal ? YOKE_MAX(0, j0 - t0) : 0; i < n; i += QUERIES) {
            const bool edge = a->causal && j0 == t0 + i;
            const int64_t n_queries = YOKE_MIN(n - i, QUERIES);
            for (struct part part = part_of(edge, n_queries, n_keys, 0);;
                 part = part_of(edge, n_queries, n_keys, part.first + part.count)) {
                attend_part(t, f, b, i / QUERIES, part, t0 + i, j0);
                if (part.first + part.count >= n_queries) break;
            }
        }
    }
    store_outputs(t, f, b, batch, head, t0, n);
}

static void forward_unit(const void *context, int64_t unit, int thread)
{
    const struct forward *f = context;
    const struct yoke_attention_forward_args *a = f->a;
    struct buffers b = place_buffers(a->dtype, f->scratch + (size_t)thread * f->thread_floats, a->D, f->Dp);
    /* the last chunks come first, because they see the most keys */
    const int64_t heads = a->B * a->H, chunk = f->n_chunks - 1 - unit / heads;
    HOST_BY_TYPE(a->dtype, forward_chunk, f, unit % heads / a->H, unit % a->H, chunk * CHUNK_QUERIES, &b);
}

static yoke_status host_attention_forward_can(const yoke_device *device, const struct yokei_call *call,
                                              size_t *scratch_bytes_out)
{
    const struct yoke_attention_forward_args *a = call->args;
    YOKE_TRY(attention_check(call->op, a->T, a->D));
    *scratch_bytes_out = (size_t)host_n_threads(device) * thread_floats(a->D) * sizeof(float);
    return YOKE_OK;
}

static yoke_status host_attention_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_forward_args *a = call->args;
    struct forward f = { .a = a, .Dp = attention_padded(a->D), .thread_floats = thread_floats(a->D) };
    void *scratch;
    if (!a->B || !a->T || !a->H) return YOKE_OK;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_forward,
                           (size_t)host_n_threads(stream->device) * f.thread_floats * sizeof(float),
                           &scratch));
    f.scratch = scratch;
    f.n_chunks = host_ceil_div(a->T, CHUNK_QUERIES);
    if (f.n_chunks == 1)
        host_for_equal_units(stream, a->B * a->H, forward_unit, &f);
    else
        host_for_units(stream, a->B * a->H * f.n_chunks, forward_unit, &f);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_attention_forward) = { .can = host_attention_forward_can,
                                                           .run = host_attention_forward_run };
