/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host: attention, backward. Maths, types and bounds: include/yoke/ops/attention.h
 *
 * A unit is one (b, key/value head): nothing is shared between units, so every sum has one order. The thread widens the
 * head's keys and values once; for each query head of the group, in order, it widens queries and output gradients
 * (also transposed) and walks over the blocks of keys and, within, of queries, recomputing P from lse.
 */
#include "backends/host/attention.h"

struct backward {
    const struct yoke_attention_backward_args *a;
    int64_t Dp, Tq, Tk; /* T padded to whole blocks of queries and of keys */
    float *scratch;
    size_t thread_floats;
};

struct buffers {
    float *k, *v, *dk, *dv;     /* [Tk][Dp] */
    float *q, *d_o, *dq;        /* [Tq][Dp] */
    float *qt, *d_ot;           /* [blocks][D][QUERIES] */
    float *lse, *delta;         /* [Tq] */
    float *p, *ds;              /* [KEYS][QUERIES] */
    bool special;               /* an operand of a product with P or dS is not finite */
    struct drop drop;           /* of the query head in hand */
};

static size_t thread_floats(int64_t T, int64_t D)
{
    const int64_t Dp = attention_padded(D), Tq = host_round_up(T, QUERIES), Tk = host_round_up(T, KEYS);
    return (size_t)(4 * Tk * Dp + 3 * Tq * Dp + 2 * Tq * D + 2 * Tq + 2 * KEYS * QUERIES);
}

static struct buffers place_buffers(const struct backward *w, int thread)
{
    const int64_t D = w->a->D, Dp = w->Dp;
    float *p = w->scratch + (size_t)thread * w->thread_floats;
    struct buffers b = { 0 };
    b.k = p, p += w->Tk * Dp;
    b.v = p, p += w->Tk * Dp;
    b.dk = p, p += w->Tk * Dp;
    b.dv = p, p += w->Tk * Dp;
    b.q = p, p += w->Tq * Dp;
    b.d_o = p, p += w->Tq * Dp;
    b.dq = p, p += w->Tq * Dp;
    b.p = p, p += KEYS * QUERIES;
    b.ds = p, p += KEYS * QUERIES;
    b.lse = p, p += w->Tq;
    b.delta = p, p += w->Tq;
    b.qt = p, p += w->Tq * D;
    b.d_ot = p, p += w->Tq * D;
    return b;
}

/* What one vector of queries has for all keys of a block. */
struct queries {
    vf lse, delta;
    vi number;
    float scale;
};

/* One key against a vector of queries: s to P and dp to dS, rounded. drop NULL: none is dropped out. */
INLINE void gradient_pair(const yoke_dtype t, float *s, float *dp, const struct queries *q, bool masked, int64_t key, const struct drop *drop,
                          vu word)
{
    vf p = vexp(vload(YOKE_F32, s, 0) * q->scale - q->lse), slope = vload(YOKE_F32, dp, 0);
    if (drop) slope = vdrop(slope * drop->by.scale, word, drop->by.threshold);
    vf ds = p * (slope - q->delta);
    if (drop) p = vdrop(p, word, drop->by.threshold);
    if (masked) {
        const vmask unseen = vless_i(q->number, vset_i((int32_t)key));
        p = vselect(unseen, vset(0), p);
        ds = vselect(unseen, vset(0), ds);
    }
    vstore(YOKE_F32, s, 0, vround(t, p));
    vstore(YOKE_F32, dp, 0, vround(t, ds));
}

/*
 * s = S^T and dp = dP^T of one block to P and dS, in place and rounded; drop NULL: nothing is dropped out. Pairs that are masked
 * become 0 whatever stood there.
 */
INLINE void gradient_block(const yoke_dtype t, float *s, float *dp, int64_t n_keys, float scale, bool masked, int64_t j0, int64_t t0,
                           const float *lse, const float *delta, const struct drop *drop)
{
    for (int v = 0; v < QUERY_VECTORS; v++) {
        const struct queries q = { vload(YOKE_F32, lse, v * VL), vload(YOKE_F32, delta, v * VL), query_numbers(t0, v), scale };
        if (!drop) {
            for (int64_t j = 0; j < n_keys; j++)
                gradient_pair(t, s + j * QUERIES + v * VL, dp + j * QUERIES + v * VL, &q, masked, j0 + j, NULL, vset_u(0));
            continue;
        }
        for (int i = 0; i < 16 && i < n_keys; i++) {
            vu words[4];
            pair_words(drop, j0, i, t0, v, words);
            for (int k = 0; k < 4 && i + 16 * k < n_keys; k++) {
                const int64_t j = i + 16 * k, at = j * QUERIES + v * VL;
                gradient_pair(t, s + at, dp + at, &q, masked, j0 + j, drop, words[k]);
            }
        }
    }
}

/* y [m][Dp] += W X with W [m][QUERIES], x [QUERIES][Dp]; and y [QUERIES][Dp] += W^T X with W [k][QUERIES], x [k][Dp]. */
static __attribute__((noinline)) void add_to_keys(int64_t m, const float *weights, const float *x, int64_t Dp, float *y)
{
    product(TILE_ADD, m, Dp / VL, QUERIES, weights, QUERIES, 1, x, Dp, y, Dp, NULL);
}
static __attribute__((noinline)) void add_to_queries(int64_t k, const float *weights, const float *x, int64_t Dp, float *y)
{
    product(TILE_ADD, QUERIES, Dp / VL, k, weights, 1, QUERIES, x, Dp, y, Dp, NULL);
}

/* One block of keys against one block of queries: adds to dk, dv and dq. */
INLINE void differentiate(const yoke_dtype t, const struct backward *w, const struct buffers *b, int64_t j0, int64_t t0)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t n = YOKE_MIN(a->T - j0, KEYS);
    const int64_t n_keys = a->causal ? YOKE_MIN(n, t0 + QUERIES - j0) : n; /* none that all queries of the block mask */
    const int64_t D = a->D, Dp = w->Dp, m_keys = host_round_up(n_keys, TILE_M);
    const bool masked = a->causal && j0 + n_keys - 1 > t0;
    const float *k = b->k + j0 * Dp, *v = b->v + j0 * Dp, *q = b->q + t0 * Dp, *d_o = b->d_o + t0 * Dp;
    float *dk = b->dk + j0 * Dp, *dv = b->dv + j0 * Dp, *dq = b->dq + t0 * Dp;
    score_block(m_keys, D, k, Dp, b->qt + t0 * D, b->p);
    score_block(m_keys, D, v, Dp, b->d_ot + t0 * D, b->ds);
    gradient_block(t, b->p, b->ds, m_keys, a->scale, masked, j0, t0, b->lse + t0, b->delta + t0,
                   b->drop.by.threshold ? &b->drop : NULL);
    if (masked && b->special) {
        masked_product((struct masked){ false, j0, t0 }, n_keys, Dp, QUERIES, b->p, QUERIES, 1, d_o, Dp, dv, Dp);
        masked_product((struct masked){ false, j0, t0 }, n_keys, Dp, QUERIES, b->ds, QUERIES, 1, q, Dp, dk, Dp);
        masked_product((struct masked){ true, t0, j0 }, QUERIES, Dp, n_keys, b->ds, 1, QUERIES, k, Dp, dq, Dp);
        return;
    }
    add_to_keys(m_keys, b->p, d_o, Dp, dv);
    add_to_keys(m_keys, b->ds, q, Dp, dk);
    add_to_queries(n_keys, b->ds, k, Dp, dq);
}

/* Widen one query head's q and dO, both ways, with lse and delta; what lies past T is zero. */
INLINE void load_head(const yoke_dtype t, const struct backward *w, struct buffers *b, int64_t batch, int64_t head)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t T = a->T, D = a->D, Dp = w->Dp, row = batch * T;
    const void *q = at(t, a->q, row * a->ldq + head * D), *d_o = at(t, a->d_o, row * a->lddo + head * D);
    widen_rows(t, q, a->ldq, T, D, b->q, Dp, Dp);
    widen_rows(t, d_o, a->lddo, T, D, b->d_o, Dp, Dp);
    memset(b->q + T * Dp, 0, (size_t)((w->Tq - T) * Dp) * sizeof(float));
    memset(b->d_o + T * Dp, 0, (size_t)((w->Tq - T) * Dp) * sizeof(float));
    memset(b->dq, 0, (size_t)(w->Tq * Dp) * sizeof(float));
    for (int64_t t0 = 0; t0 < w->Tq; t0 += QUERIES) {
        widen_transposed(YOKE_F32, b->q + t0 * Dp, Dp, QUERIES, D, b->qt + t0 * D, QUERIES);
        widen_transposed(YOKE_F32, b->d_o + t0 * Dp, Dp, QUERIES, D, b->d_ot + t0 * D, QUERIES);
    }
    memcpy(b->lse, (const float *)a->lse + (batch * a->H + head) * T, (size_t)T * sizeof(float));
    for (int64_t i = 0; i < T; i++) {
        const void *o = at(t, a->o, (row + i) * a->ldo + head * D);
        vf s = { 0 };
        for (int64_t d = 0; d < D; d += VL) s = vfma(vload(YOKE_F32, b->d_o, i * Dp + d), vload_n(t, o, d, D - d), s);
        b->delta[i] = vsum(s);
    }
    for (int64_t i = T; i < w->Tq; i++) b->lse[i] = 0, b->delta[i] = 0;
}

/* Rounded rows of a sum times a factor. */
INLINE void store_rows(const yoke_dtype t, const float *sum, int64_t Dp, float factor, int64_t T, int64_t D, void *x, int64_t ld)
{
    for (int64_t i = 0; i < T; i++)
        for (int64_t d = 0; d < D; d += VL) vstore_n(t, at_mut(t, x, i * ld), d, D - d, vload(YOKE_F32, sum, i * Dp + d) * factor);
}

INLINE void backward_kv_head(const yoke_dtype t, const struct backward *w, int64_t batch, int64_t kv_head, struct buffers *b)
{
    const struct yoke_attention_backward_args *a = w->a;
    const int64_t T = a->T, D = a->D, Dp = w->Dp, row = batch * T;
    const struct yokei_groups_of_heads groups = YOKEI_GROUPS_OF_HEADS(a);
    widen_rows(t, at(t, a->k, row * a->ldk + kv_head * D), a->ldk, T, D, b->k, Dp, Dp);
    widen_rows(t, at(t, a->v, row * a->ldv + kv_head * D), a->ldv, T, D, b->v, Dp, Dp);
    for (float *const *x = (float *const[]){ b->k, b->v, NULL }; *x; x++)
        memset(*x + T * Dp, 0, (size_t)((w->Tk - T) * Dp) * sizeof(float));
    memset(b->dk, 0, (size_t)(w->Tk * Dp) * sizeof(float));
    memset(b->dv, 0, (size_t)(w->Tk * Dp) * sizeof(float));
    b->drop = (struct drop){ yokei_dropout(a->p, a->key), a->sample_start + batch, 0 };
    for (int64_t head = yokei_first_head(groups, kv_head); head < yokei_first_head(groups, kv_head + 1); head++) {
        b->drop.head = a->head_start + head;
        load_head(t, w, b, batch, head);
        b->special = a->causal && (has_special(b->k, T, Dp, Dp) || has_special(b->q, T, Dp, Dp) || has_special(b->d_o, T, Dp, Dp));
        for (int64_t j0 = 0; j0 < T; j0 += KEYS)
            for (int64_t t0 = a->causal ? j0 / QUERIES * QUERIES : 0; t0 < T; t0 += QUERIES) differentiate(t, w, b, j0, t0);
        store_rows(t, b->dq, Dp, a->scale, T, D, at_mut(t, a->dq, row * a->lddq + head * D), a->lddq);
    }
    store_rows(t, b->dk, Dp, a->scale, T, D, at_mut(t, a->dk, row * a->lddk + kv_head * D), a->lddk);
    store_rows(t, b->dv, Dp, b->drop.by.scale, T, D, at_mut(t, a->dv, row * a->lddv + kv_head * D), a->lddv);
}

static void backward_unit(const void *context, int64_t unit, int thread)
{
    const struct backward *w = context;
    struct buffers b = place_buffers(w, thread);
    HOST_BY_TYPE(w->a->dtype, backward_kv_head, w, unit / w->a->Hkv, unit % w->a->Hkv, &b);
}

yoke_status HOST_NAME(host_attention_backward_can)(const yoke_device *device, const struct yoke_attention_backward_args *a,
                                                   struct yoke_cost *cost)
{
    YOKE_TRY(attention_check(YOKE_OP_attention_backward, a->dtype, a->T, a->D));
    const double pairs = (double)a->B * (double)a->H * (double)a->T * (double)a->T * (a->causal ? 0.5 : 1);
    const double elements = (double)a->B * (double)a->T * (double)a->D * (double)(4 * a->H + 4 * a->Hkv);
    const size_t threads = (size_t)YOKE_MIN(host_n_threads(device), YOKE_MAX(1, a->B * a->Hkv));
    return host_cost(cost, threads * thread_floats(a->T, a->D) * sizeof(float), 10 * pairs * (double)a->D,
                     elements * (double)yoke_dtype_bytes(a->dtype));
}

yoke_status HOST_NAME(host_attention_backward_run)(yoke_stream *stream, const struct yoke_attention_backward_args *a)
{
    struct backward w = { .a = a, .Dp = attention_padded(a->D), .thread_floats = thread_floats(a->T, a->D) };
    struct yoke_cost cost;
    void *scratch;
    if (!a->B || !a->T || !a->H) return YOKE_OK;
    YOKE_TRY(HOST_NAME(host_attention_backward_can)(stream->device, a, &cost));
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_backward, cost.scratch_bytes, &scratch));
    w.scratch = scratch;
    w.Tq = host_round_up(a->T, QUERIES), w.Tk = host_round_up(a->T, KEYS);
    host_for_units(stream, a->B * a->Hkv, backward_unit, &w);
    return YOKE_OK;
}
