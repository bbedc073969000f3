/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backward pass of attention on the host backend. include/yoke/ops/attention.h has the maths, types and
 * bounds.
 *
 * A unit is a chunk of the keys of one (b, key/value head). Its dk and dv are sums over all query heads of
 * the group, in order, and over the blocks of queries, the last block first. For each block of queries, the
 * unit recomputes P from lse against the blocks of keys of the chunk. It also adds to the queries' dq, so dq
 * is a sum over the chunks in order.
 *
 * One thread takes the chunks of a head one after the other. If there are too few heads for the threads, each
 * thread takes a chunk, and the threads wait for each other's part of dq (see wait_for). The order of every
 * sum is the same in both cases.
 */
#include "backends/host/attention.h"

#include <sched.h>
#include <stdatomic.h>

enum { CHUNK_BLOCKS = 4, CHUNK_KEYS = CHUNK_BLOCKS * KEYS };

struct backward {
    const struct yoke_attention_backward_args *a;
    struct yokei_groups_of_heads groups;
    int64_t Dp, Tq; /* Dp: channels, padded to whole vectors; Tq: T, padded to whole blocks of queries */
    int64_t n_chunks, n_blocks; /* number of chunks of keys, and of blocks of queries */
    int64_t group;              /* most query heads of one key/value head */
    size_t thread_floats, slot_floats;
    /*
     * slots: number of key/value heads in work at a time if threads share heads, else the number of threads
     */
    int n_threads, n_slots;
    bool by_chunks; /* true: threads share heads */
    float *threads, *slots;
    atomic_llong *done; /* [n_slots][n_chunks]: number of steps that a chunk has done; see wait_for */
    atomic_llong *next; /* number of the next unit */
};

/* The buffers of one thread. attention_blocks.h describes the formats of operands and weights. */
struct buffers {
    float *k, *k_along, *v;     /* keys and values of the chunk: k and v left, k_along along */
    float *dk, *dv;             /* [CHUNK_KEYS][Dp] */
    float *qt, *d_ot, *q, *d_o; /* a block of queries: qt and d_ot across, q and d_o along */
    float *s, *dp;              /* [KEYS][QUERIES] */
    float *p, *ds, *ds_by_pair; /* P and dS by key, dS by pair; in f32 the same buffers as s and dp */
    /* three times 64 rows of [Dp]: operands as f32, for blocks with masked operands that are not finite */
    float *wide;
    /* a score or a slope (element of dP) of the block is not finite, so an operand may be too */
    bool special;
    struct drop drop; /* dropout of the current query head */
    /* The data of a slot, one for each query head of the group. */
    float *dq;                       /* [Tq][Dp]; one block if there is a single chunk */
    float *lse, *correction, *delta; /* [Tq] */
};

static struct backward describe(const yoke_device *device, const struct yoke_attention_backward_args *a)
{
    struct backward w = { .a = a,
                          .groups = YOKEI_GROUPS_OF_HEADS(a),
                          .Dp = attention_padded(a->D),
                          .Tq = host_round_up(a->T, QUERIES) };
    const int64_t heads = a->B * a->Hkv, D = a->D;
    w.n_threads = host_n_threads(device);
    w.n_chunks = host_ceil_div(a->T, CHUNK_KEYS);
    w.n_blocks = host_ceil_div(a->T, QUERIES);
    for (int64_t h = 0; h < a->Hkv; h++)
        w.group = YOKE_MAX(w.group, yokei_first_head(w.groups, h + 1) - yokei_first_head(w.groups, h));
    w.by_chunks = w.n_chunks > 1 && heads < 4 * w.n_threads && heads % w.n_threads != 0;
    w.n_slots = w.by_chunks ? (int)YOKE_MIN(w.n_threads, heads) : w.n_threads;
    w.thread_floats = (size_t)(5 * CHUNK_KEYS * w.Dp + 2 * QUERIES * D + 2 * QUERIES * w.Dp
                               + 5 * KEYS * QUERIES + 3 * QUERIES * w.Dp);
    w.slot_floats = (size_t)host_round_up(
        (w.n_chunks > 1 ? w.group * w.Tq : QUERIES) * w.Dp + 3 * w.group * w.Tq, 16);
    return w;
}

/* The bytes of scratch: the threads' buffers, the slots, and the counters, each on cache lines of its own. */
static size_t scratch_bytes(const struct backward *w)
{
    return ((size_t)w->n_threads * w->thread_floats + (size_t)w->n_slots * w->slot_floats) * sizeof(float)
           + (w->by_chunks ? (size_t)(w->n_slots * w->n_chunks + 1) * sizeof(atomic_llong) : 0);
}

static void place_scratch(struct backward *w, void *scratch)
{
    w->threads = scratch;
    w->slots = w->threads + (size_t)w->n_threads * w->thread_floats;
    if (!w->by_chunks) return;
    w->next = (void *)(w->slots + (size_t)w->n_slots * w->slot_floats);
    w->done = w->next + 1;
    for (int64_t i = 0; i <= w->n_slots * w->n_chunks; i++) atomic_init(w->next + i, 0);
}

static struct buffers place_buffers(const struct backward *w, int thread, int64_t slot)
{
    const int64_t D = w->a->D, Dp = w->Dp, n_weights = KEYS * QUERIES;
    const bool narrow = in_pairs(w->a->dtype);
    float *p = w->threads + (size_t)thread * w->thread_floats;
    struct buffers b = { 0 };
    b.k = p, p += CHUNK_KEYS * Dp;
    b.k_along = narrow ? p : b.k, p += CHUNK_KEYS * Dp;
    b.v = p, p += CHUNK_KEYS * Dp;
    b.dk = p, p += CHUNK_KEYS * Dp;
    b.dv = p, p += CHUNK_KEYS * Dp;
    b.qt = p, p += QUERIES * D;
    b.d_ot = p, p += QUERIES * D;
    b.q = p, p += QUERIES * Dp;
    b.d_o = p, p += QUERIES * Dp;
    b.s = p, p += n_weights;
    b.dp = p, p += n_weights;
    b.p = narrow ? p : b.s, p += n_weights;
    b.ds = narrow ? p : b.dp, p += n_weights;
    b.ds_by_pair = narrow ? p : b.dp, p += n_weights;
    b.wide = p;
    b.lse = w->slots + (size_t)slot * w->slot_floats;
    b.correction = b.lse + w->group * w->Tq;
    b.delta = b.correction + w->group * w->Tq;
    b.dq = b.delta + w->group * w->Tq;
    return b;
}

/* ---- P and dS ---- */

/*
 * The values of one vector of queries for all keys of a block. P = 2^(c s - lse) correction. lse as an
 * exponent of 2 needs more precision than an f32 has, and the correction, which is near 1, holds the rest.
 */
struct queries {
    vf lse, correction, delta;
    vi number;
    float c;
};

/*
 * Turn the score and the slope of one key, against a vector of queries, into P and dS. If drop is NULL, no
 * pair is dropped out.
 */
INLINE void gradient_pair(vf s, vf slope, const struct queries *q, bool masked, int64_t key,
                          const struct drop *drop, vu word, vf *p_out, vf *ds_out)
{
    vf p = vexp2(vfma(s, vset(q->c), -q->lse)) * q->correction;
    if (drop) slope = vdrop(slope * drop->by.scale, word, drop->by.threshold);
    vf ds = p * (slope - q->delta);
    if (drop) p = vdrop(p, word, drop->by.threshold);
    if (masked) {
        const vmask unseen = vless_i(q->number, vset_i((int32_t)key));
        p = vselect(unseen, vset(0), p);
        ds = vselect(unseen, vset(0), ds);
    }
    *p_out = p, *ds_out = ds;
}

/* Store P and dS of two keys, rounded, for the products. */
INLINE void store_gradients(const yoke_dtype t, const struct buffers *b, int64_t j, int64_t column,
                            const vf p[2], const vf ds[2], bool has_second)
{
    store_by_key(t, b->p, j, column, p[0], p[1], has_second);
    store_both_ways(t, b->ds, b->ds_by_pair, j, column, ds[0], ds[1], has_second);
}

/* Process key j, and key j + 1 if n is 2, against a vector of queries. */
INLINE void gradient_keys(const yoke_dtype t, const struct buffers *b, int64_t column, int64_t j, const int n,
                          const struct queries *q, bool masked, int64_t j0, vmask *special)
{
    vf p[2] = { { 0 }, { 0 } }, ds[2] = { { 0 }, { 0 } };
    for (int e = 0; e < n; e++) {
        const int64_t at = (j + e) * QUERIES + column;
        const vf s = vload(YOKE_F32, b->s, at), slope = vload(YOKE_F32, b->dp, at);
        if (masked) *special |= vspecial(s) | vspecial(slope);
        gradient_pair(s, slope, q, masked, j0 + j + e, NULL, vset_u(0), &p[e], &ds[e]);
    }
    store_gradients(t, b, j, column, p, ds, n == 2);
}

/*
 * Process one vector of queries against a block of keys: columns of s and dp become P and dS. With `masked`,
 * returns the lanes in which a value was not finite.
 */
INLINE vmask gradient_vector(const yoke_dtype t, const struct buffers *b, int64_t column, int64_t n_keys,
                             const struct queries *q, bool masked, int64_t j0)
{
    vmask special = { 0 };
    int64_t j = 0;
    for (; j + 2 <= n_keys; j += 2) gradient_keys(t, b, column, j, 2, q, masked, j0, &special);
    if (j < n_keys) gradient_keys(t, b, column, j, 1, q, masked, j0, &special);
    return special;
}

/*
 * As gradient_vector, with dropout. The first pass works in place, because one draw serves four keys that are
 * not neighbours. The second pass takes two keys at a time.
 */
INLINE vmask gradient_vector_dropped(const yoke_dtype t, const struct buffers *b, int64_t column,
                                     int64_t n_keys, const struct queries *q, bool masked, int64_t j0,
                                     int64_t query)
{
    vmask special = { 0 };
    for (int i = 0; i < 16 && i < n_keys; i++) {
        vu words[4];
        pair_words(&b->drop, j0, i, query, 0, words);
        for (int k = 0; k < 4 && i + 16 * k < n_keys; k++) {
            const int64_t j = i + 16 * k, at = j * QUERIES + column;
            const vf s = vload(YOKE_F32, b->s, at), slope = vload(YOKE_F32, b->dp, at);
            vf p, ds;
            special |= vspecial(s) | vspecial(slope);
            gradient_pair(s, slope, q, masked, j0 + j, &b->drop, words[k], &p, &ds);
            vstore(YOKE_F32, b->s, at, p);
            vstore(YOKE_F32, b->dp, at, ds);
        }
    }
    for (int64_t j = 0; j < n_keys; j += 2) {
        vf p[2] = { { 0 }, { 0 } }, ds[2] = { { 0 }, { 0 } };
        for (int e = 0; e < 2 && j + e < n_keys; e++) {
            p[e] = vload(YOKE_F32, b->s, (j + e) * QUERIES + column);
            ds[e] = vload(YOKE_F32, b->dp, (j + e) * QUERIES + column);
        }
        store_gradients(t, b, j, column, p, ds, j + 1 < n_keys);
    }
    return special;
}

/*
 * A block of queries of one head: its first query, its number of queries, and its vectors of lse, correction
 * and delta.
 */
struct block {
    int64_t t0, n, head; /* head: index in the group */
    const float *lse, *correction, *delta;
    float *dq;
};

/* Compute the scores and slopes of one part of a block, then P and dS. */
INLINE void gradient_part(const yoke_dtype t, const struct backward *w, struct buffers *b,
                          const struct block *q, struct part part, int64_t j0, const float *k, const float *v)
{
    const struct yoke_attention_backward_args *a = w->a;
    const bool edge = a->causal && j0 == q->t0;
    vmask special = { 0 };
    scores(t, part.n_keys, part.count, a->D, k, b->qt + part.first, b->s + part.first);
    scores(t, part.n_keys, part.count, a->D, v, b->d_ot + part.first, b->dp + part.first);
    if (a->scale < 0) negate(b->s + part.first, part.n_keys, part.count);
    for (int64_t i = part.first; i < part.first + part.count; i += VL) {
        const struct queries lanes = { vload(YOKE_F32, q->lse, i), vload(YOKE_F32, q->correction, i),
                                       vload(YOKE_F32, q->delta, i), query_numbers(q->t0 + i, 0),
                                       exponent_factor(a->scale) };
        if (b->drop.by.threshold)
            special |= gradient_vector_dropped(t, b, i, part.n_keys, &lanes, edge, j0, q->t0 + i);
        else if (edge)
            special |= gradient_vector(t, b, i, part.n_keys, &lanes, true, j0);
        else
            gradient_vector(t, b, i, part.n_keys, &lanes, false, j0);
    }
    b->special |= edge && any_lane(special);
}

/* ---- products ---- */

/* Rows as f32 [64][Dp], for differentiate_masked. */
INLINE const float *rows_as_f32(const yoke_dtype t, const struct backward *w, const void *x, int64_t ld,
                                int64_t row, int64_t head, int64_t n, float *to)
{
    widen_rows(t, at(t, x, row * ld + head * w->a->D), ld, n, w->a->D, to, w->Dp, w->Dp);
    return to;
}

/*
 * The rare case: a block on the mask's edge that has an operand that is not finite. Sums begin with zeros if
 * `start` says so.
 */
static void differentiate_masked(const yoke_dtype t, const struct backward *w, const struct buffers *b,
                                 const struct block *q, int64_t batch, int64_t kv_head, int64_t j0,
                                 int64_t n_keys, float *dk, float *dv)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t Dp = w->Dp, row = batch * a->T, head = yokei_first_head(w->groups, kv_head) + q->head;
    const float *queries = rows_as_f32(t, w, a->q, a->ldq, row + q->t0, head, q->n, b->wide);
    const float *d_o = rows_as_f32(t, w, a->d_o, a->lddo, row + q->t0, head, q->n, b->wide + QUERIES * Dp);
    const float *keys = rows_as_f32(t, w, a->k, a->ldk, row + j0, kv_head, n_keys,
                                    b->wide + 2 * QUERIES * Dp);
    const float *p = widen_by_key(t, b->p, n_keys, b->s), *ds = widen_by_key(t, b->ds, n_keys, b->dp);
    masked_product((struct masked){ false, j0, q->t0 }, n_keys, Dp, q->n, p, QUERIES, 1, d_o, Dp, dv, Dp);
    masked_product((struct masked){ false, j0, q->t0 }, n_keys, Dp, q->n, ds, QUERIES, 1, queries, Dp, dk,
                   Dp);
    masked_product((struct masked){ true, q->t0, j0 }, q->n, Dp, n_keys, ds, 1, QUERIES, keys, Dp, q->dq, Dp);
}

/*
 * Process one block of keys of the chunk with one block of queries: add to dk, dv and dq. fresh: dk and dv
 * are overwritten, not added to.
 */
INLINE void differentiate(const yoke_dtype t, const struct backward *w, struct buffers *b,
                          const struct block *q, int64_t batch, int64_t kv_head, int64_t j0, bool fresh)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t n_keys = YOKE_MIN(a->T - j0, KEYS), Dp = w->Dp, at_chunk = j0 % CHUNK_KEYS,
                  n_queries = host_round_up(q->n, HALF);
    const bool edge = a->causal && j0 == q->t0;
    const float *k = b->k + at_chunk * left_words(t, a->D), *v = b->v + at_chunk * left_words(t, a->D);
    const float *k_along = b->k_along + along_words(t, at_chunk, Dp);
    float *dk = b->dk + at_chunk * Dp, *dv = b->dv + at_chunk * Dp;
    const enum tile_start keys_start = fresh ? TILE_ZERO : TILE_ADD,
                          queries_start = j0 == 0 ? TILE_ZERO : TILE_ADD;
    b->special = false;
    for (int64_t first = 0; first < n_queries; first += part_of(edge, q->n, n_keys, first).count)
        gradient_part(t, w, b, q, part_of(edge, q->n, n_keys, first), j0, k, v);
    if (b->special) {
        if (fresh)
            memset(dk, 0, (size_t)(KEYS * Dp) * sizeof *dk), memset(dv, 0, (size_t)(KEYS * Dp) * sizeof *dv);
        if (j0 == 0) memset(q->dq, 0, (size_t)(QUERIES * Dp) * sizeof *dk);
        differentiate_masked(t, w, b, q, batch, kv_head, j0, n_keys, dk, dv);
        return;
    }
    /* on the edge, no key of the second half has a query of the first half */
    for (int64_t first = 0; first < n_keys; first += edge ? HALF : KEYS) {
        const int64_t n = edge ? YOKE_MIN(n_keys - first, HALF) : n_keys,
                      weights = by_key_words(t, first, first), row = along_words(t, first, Dp);
        add_to_keys(t, keys_start, n, n_queries - first, b->p + weights, b->d_o + row, Dp, dv + first * Dp);
        add_to_keys(t, keys_start, n, n_queries - first, b->ds + weights, b->q + row, Dp, dk + first * Dp);
    }
    for (int64_t first = 0; first < n_queries;) {
        const struct part part = part_of(edge, q->n, n_keys, first);
        add_to_queries(t, queries_start, part.count, part.n_keys, b->ds_by_pair + first, k_along, Dp,
                       q->dq + first * Dp, NULL);
        first += part.count;
    }
}

/* ---- blocks and chunks ---- */

/* Compute delta of n queries: the row sums of dO * O, VL rows at a time. */
INLINE void row_sums(const yoke_dtype t, const struct backward *w, int64_t row, int64_t head, int64_t n,
                     float *delta)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t D = a->D;
    for (int64_t i = 0; i < n; i += VL) {
        vf sums[VL];
        for (int64_t k = 0; k < VL; k++) {
            const int64_t r = row + YOKE_MIN(i + k, n - 1);
            const void *d_o = at(t, a->d_o, r * a->lddo + head * a->D),
                       *o = at(t, a->o, r * a->ldo + head * a->D);
            sums[k] = (vf){ 0 };
            VECTOR_LOOP(d, m, 0, D, sums[k] = vfma(vload_n(t, d_o, d, m), vload_n(t, o, d, m), sums[k]););
        }
        transpose_square(sums);
        for (int half = VL / 2; half; half /= 2)
            for (int k = 0; k < half; k++) sums[k] += sums[k + half];
        vstore_n(YOKE_F32, delta, i, n - i, sums[0]);
    }
}

/*
 * Load the values of the queries that P and dS need, once for all chunks. For queries past T, P is 1 and dS
 * is 0, and their rows of q and dO are zeros.
 */
INLINE void load_statistics(const yoke_dtype t, const struct backward *w, int64_t batch, int64_t head,
                            const struct block *q, float *lse, float *correction, float *delta)
{
    const struct yoke_attention_backward_args *a = w->a;
    memset(delta, 0, QUERIES * sizeof *delta);
    row_sums(t, w, batch * a->T + q->t0, head, q->n, delta);
    const float *natural = (const float *)a->lse + (batch * a->H + head) * a->T + q->t0;
    for (int64_t i = 0; i < QUERIES; i++) {
        const double exact = i < q->n ? 1.44269504088896340736 * (double)natural[i] : 0;
        lse[i] = (float)exact;
        correction[i] = isfinite(lse[i]) ? (float)(1 - 0.69314718055994530942 * (exact - (double)lse[i])) : 1;
    }
}

/* Store rows of a sum times a factor, rounded. */
INLINE void store_rows(const yoke_dtype t, const float *sum, int64_t Dp, float factor, int64_t n, int64_t D,
                       void *x, int64_t ld)
{
    for (int64_t i = 0; i < n; i++) store_row(t, sum + i * Dp, factor, D, at_mut(t, x, i * ld));
}

/* Load the keys and values of the chunk. */
INLINE void load_chunk(const yoke_dtype t, const struct backward *w, struct buffers *b, int64_t batch,
                       int64_t kv_head, int64_t chunk)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t j0 = chunk * CHUNK_KEYS, n = YOKE_MIN(a->T - j0, CHUNK_KEYS), row = batch * a->T + j0;
    const void *k = at(t, a->k, row * a->ldk + kv_head * a->D);
    pack_left(t, k, a->ldk, n, a->D, b->k);
    if (b->k_along != b->k) pack_along(t, k, a->ldk, n, a->D, w->Dp, b->k_along);
    pack_left(t, at(t, a->v, row * a->ldv + kv_head * a->D), a->ldv, n, a->D, b->v);
}

/* Load a block of queries and their output gradients, both across and along. Rows past T are zeros. */
INLINE void load_queries(const yoke_dtype t, const struct backward *w, struct buffers *b,
                         const struct block *q, int64_t batch, int64_t head)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t row = batch * a->T + q->t0;
    const void *x = at(t, a->q, row * a->ldq + head * a->D),
               *d_o = at(t, a->d_o, row * a->lddo + head * a->D);
    if (q->n < QUERIES) {
        memset(b->q, 0, (size_t)(QUERIES * w->Dp) * sizeof(float));
        memset(b->d_o, 0, (size_t)(QUERIES * w->Dp) * sizeof(float));
    }
    pack_along(t, x, a->ldq, q->n, a->D, w->Dp, b->q);
    pack_along(t, d_o, a->lddo, q->n, a->D, w->Dp, b->d_o);
    pack_across(t, x, a->ldq, q->n, a->D, b->qt);
    pack_across(t, d_o, a->lddo, q->n, a->D, b->d_ot);
}

/*
 * From scores to dq, dk and dv, for one block of queries and one chunk. fresh: this is the first block of the
 * chunk.
 */
INLINE void backward_block(const yoke_dtype t, const struct backward *w, struct buffers *b,
                           const struct block *q, int64_t batch, int64_t kv_head, int64_t chunk, bool fresh)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t head = yokei_first_head(w->groups, kv_head) + q->head,
                  seen = a->causal ? q->t0 + q->n : a->T;
    const int64_t end = YOKE_MIN(seen, (chunk + 1) * CHUNK_KEYS);
    load_queries(t, w, b, q, batch, head);
    for (int64_t j0 = chunk * CHUNK_KEYS; j0 < end; j0 += KEYS)
        differentiate(t, w, b, q, batch, kv_head, j0, fresh);
    if (end == seen)
        store_rows(t, q->dq, w->Dp, a->scale, q->n, a->D,
                   at_mut(t, a->dq, (batch * a->T + q->t0) * a->lddq + head * a->D), a->lddq);
}

/*
 * Wait until *done is at least `count`. It is used if threads share a head.
 *
 * `done` counts the steps of a chunk. A step is one block of queries of one query head, and all chunks do the
 * steps in the same order. A chunk does a step only after the chunk before it has done it, so each dq is
 * summed in the order of the chunks. Slots are reused, so their counts continue. A head begins with the count
 * `base`, and its first chunk waits until all chunks of the slot's previous head have ended. Units are taken
 * in order, and each waits only for earlier ones. A thread works on each of those, so there is no deadlock.
 */
static void wait_for(const atomic_llong *done, int64_t count)
{
    for (int spins = 0; atomic_load_explicit(done, memory_order_acquire) < count; spins++)
        if (spins > 64) sched_yield();
}

/* If done is NULL, one thread takes all chunks of the head. */
INLINE void backward_chunk(const yoke_dtype t, const struct backward *w, struct buffers *b, int64_t batch,
                           int64_t kv_head, int64_t chunk, atomic_llong *done, int64_t base)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t first_head = yokei_first_head(w->groups, kv_head),
                  n_heads = yokei_first_head(w->groups, kv_head + 1) - first_head;
    const int64_t j0 = chunk * CHUNK_KEYS, n = YOKE_MIN(a->T - j0, CHUNK_KEYS), row = batch * a->T + j0;
    b->drop = (struct drop){ yokei_dropout(a->p, a->key), a->sample_start + batch, 0 };
    load_chunk(t, w, b, batch, kv_head, chunk);
    if (done && chunk == 0)
        for (int64_t c = 0; c < w->n_chunks; c++) wait_for(done + c, base);
    for (int64_t head = 0; head < n_heads; head++)
        for (int64_t i = w->n_blocks - 1; i >= (a->causal ? chunk * CHUNK_BLOCKS : 0); i--) {
            const int64_t t0 = i * QUERIES, at = head * w->Tq + t0,
                          step = base + (head + 1) * w->n_blocks - i;
            const struct block q = { t0,
                                     YOKE_MIN(a->T - t0, QUERIES),
                                     head,
                                     b->lse + at,
                                     b->correction + at,
                                     b->delta + at,
                                     b->dq + (w->n_chunks > 1 ? at * w->Dp : 0) };
            b->drop.head = a->head_start + first_head + head;
            if (chunk == 0)
                load_statistics(t, w, batch, first_head + head, &q, b->lse + at, b->correction + at,
                                b->delta + at);
            if (done && chunk > 0) wait_for(done + chunk - 1, step);
            backward_block(t, w, b, &q, batch, kv_head, chunk, head == 0 && i == w->n_blocks - 1);
            if (done) atomic_store_explicit(done + chunk, step, memory_order_release);
        }
    if (done) atomic_store_explicit(done + chunk, base + w->group * w->n_blocks, memory_order_release);
    store_rows(t, b->dk, w->Dp, a->scale, n, a->D, at_mut(t, a->dk, row * a->lddk + kv_head * a->D), a->lddk);
    store_rows(t, b->dv, w->Dp, b->drop.by.scale, n, a->D, at_mut(t, a->dv, row * a->lddv + kv_head * a->D),
               a->lddv);
}

static void chunk_of_any_type(const struct backward *w, struct buffers *b, int64_t head, int64_t chunk,
                              atomic_llong *done, int64_t base)
{
    HOST_BY_TYPE(w->a->dtype, backward_chunk, w, b, head / w->a->Hkv, head % w->a->Hkv, chunk, done, base);
}

static void backward_head(const void *context, int64_t head, int thread)
{
    const struct backward *w = context;
    struct buffers b = place_buffers(w, thread, thread);
    for (int64_t chunk = 0; chunk < w->n_chunks; chunk++) chunk_of_any_type(w, &b, head, chunk, NULL, 0);
}

/* The work of one thread if threads share heads. */
static void backward_units(const void *context, int64_t unit, int thread)
{
    const struct backward *w = context;
    const int64_t n_units = w->a->B * w->a->Hkv * w->n_chunks;
    (void)unit;
    for (int64_t i; (i = atomic_fetch_add(w->next, 1)) < n_units;) {
        const int64_t head = i / w->n_chunks, slot = head % w->n_slots;
        struct buffers b = place_buffers(w, thread, slot);
        chunk_of_any_type(w, &b, head, i % w->n_chunks, w->done + slot * w->n_chunks,
                          head / w->n_slots * w->group * w->n_blocks);
    }
}

static yoke_status host_attention_backward_can(const yoke_device *device, const struct yokei_call *call,
                                               size_t *scratch_bytes_out)
{
    const struct yoke_attention_backward_args *a = call->args;
    YOKE_TRY(attention_check(call->op, a->T, a->D));
    const struct backward w = describe(device, a);
    *scratch_bytes_out = scratch_bytes(&w);
    return YOKE_OK;
}

static yoke_status host_attention_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_backward_args *a = call->args;
    struct backward w = describe(stream->device, a);
    void *scratch;
    if (!a->B || !a->T || !a->H) return YOKE_OK;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_backward, scratch_bytes(&w), &scratch));
    place_scratch(&w, scratch);
    if (w.by_chunks)
        host_for_units(stream, w.n_threads, backward_units, &w);
    else if (w.n_chunks == 1)
        host_for_equal_units(stream, a->B * a->Hkv, backward_head, &w);
    else
        host_for_units(stream, a->B * a->Hkv, backward_head, &w);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_attention_backward) = { .can = host_attention_backward_can,
                                                            .run = host_attention_backward_run };
