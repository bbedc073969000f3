/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host: attention, forward. Maths, types and bounds: include/yoke/ops/attention.h
 *
 * A unit is a chunk of CHUNK_BLOCKS blocks of queries of one (b, h). The thread that takes it widens and transposes
 * these queries once, then goes through the keys and values block by block, each widened once for the whole chunk;
 * running maxima, sums and outputs stay in the cache.
 */
#include "backends/host/attention.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(host, op)
PROTOTYPES(attention_forward)
const struct yoke_attention_ops HOST_NAME(host_attention_ops) = {
    .attention_forward = { host_attention_forward_can, host_attention_forward_run },
    .attention_backward = { HOST_NAME(host_attention_backward_can), HOST_NAME(host_attention_backward_run) },
};

enum { CHUNK_BLOCKS = 6, CHUNK_QUERIES = CHUNK_BLOCKS * QUERIES };

struct forward {
    const struct yoke_attention_forward_args *a;
    int64_t Dp, n_chunks;
    float *scratch;
    size_t thread_floats;
};

/* One thread's buffers. */
struct buffers {
    float *qt;     /* [CHUNK_BLOCKS][D][QUERIES]: queries, transposed */
    float *o;      /* [CHUNK_QUERIES][Dp]: unnormalised outputs */
    float *k, *v;  /* [KEYS][Dp] */
    float *s;      /* [KEYS][QUERIES]: scores, then P */
    float *max, *sum, *factor; /* [CHUNK_QUERIES] each; factor [QUERIES] */
    bool v_special;
    struct drop drop;
};

static size_t thread_floats(int64_t D)
{
    const int64_t Dp = attention_padded(D);
    return (size_t)(CHUNK_QUERIES * D + CHUNK_QUERIES * Dp + 2 * KEYS * Dp + KEYS * QUERIES + 2 * CHUNK_QUERIES + host_round_up(QUERIES, 16));
}

static struct buffers place_buffers(float *p, int64_t D, int64_t Dp)
{
    struct buffers b = { 0 };
    b.o = p, p += CHUNK_QUERIES * Dp;
    b.k = p, p += KEYS * Dp;
    b.v = p, p += KEYS * Dp;
    b.s = p, p += KEYS * QUERIES;
    b.max = p, p += CHUNK_QUERIES;
    b.sum = p, p += CHUNK_QUERIES;
    b.factor = p, p += host_round_up(QUERIES, 16);
    b.qt = p, p += CHUNK_QUERIES * D;
    return b;
}

/*
 * Scores of one block to P: s [n_keys][QUERIES] in place, max and sum carried on, factor = exp(old max - new max).
 * j0, t0: the first key and query; masked: some pairs here have j > t.
 */
INLINE void softmax_block(const yoke_dtype t, float *s, int64_t n_keys, float scale, bool masked, int64_t j0, int64_t t0, float *max,
                          float *sum, float *factor)
{
    for (int v = 0; v < QUERY_VECTORS; v++) {
        const vf old = vload(YOKE_F32, max, v * VL);
        const vi query = query_numbers(t0, v);
        vf m = old;
        for (int64_t j = 0; j < n_keys; j++) {
            vf x = vload(YOKE_F32, s, j * QUERIES + v * VL) * scale;
            if (masked) x = vselect(vless_i(query, vset_i((int32_t)(j0 + j))), vset(-INFINITY), x);
            vstore(YOKE_F32, s, j * QUERIES + v * VL, x);
            m = vatleast(m, x); /* a NaN is passed over here; it comes back through the sum */
        }
        const vf base = vselect(vless(vset(-INFINITY), m), m, vset(0)); /* all masked so far: exp(-inf - -inf) would be NaN */
        const vf keep = vexp(old - base);
        vf l[2] = { vload(YOKE_F32, sum, v * VL) * keep, { 0 } };
        for (int64_t j = 0; j < n_keys; j++) {
            const vf p = vexp(vload(YOKE_F32, s, j * QUERIES + v * VL) - base);
            l[j & 1] += p;
            vstore(YOKE_F32, s, j * QUERIES + v * VL, vround(t, p));
        }
        vstore(YOKE_F32, max, v * VL, m);
        vstore(YOKE_F32, sum, v * VL, l[0] + l[1]);
        vstore(YOKE_F32, factor, v * VL, keep);
    }
}

/* P [n_keys][QUERIES] of one block without the pairs that are dropped out. */
INLINE void drop_block(const struct drop *d, float *p, int64_t n_keys, int64_t j0, int64_t t0)
{
    for (int v = 0; v < QUERY_VECTORS; v++)
        for (int i = 0; i < 16 && i < n_keys; i++) {
            vu words[4];
            pair_words(d, j0, i, t0, v, words);
            for (int k = 0; k < 4 && i + 16 * k < n_keys; k++) {
                const int64_t at = (i + 16 * k) * QUERIES + v * VL;
                vstore(YOKE_F32, p, at, vdrop(vload(YOKE_F32, p, at), words[k], d->by.threshold));
            }
        }
}

/* O [QUERIES][Dp] = factor O + P V over n_keys keys. */
static __attribute__((noinline)) void add_values(int64_t n_keys, const struct buffers *b, int64_t Dp, float *o)
{
    product(TILE_SCALE, QUERIES, Dp / VL, n_keys, b->s, 1, QUERIES, b->v, Dp, o, Dp, b->factor);
}

/* One block of queries against one block of keys. */
INLINE void attend(const yoke_dtype t, const struct forward *f, struct buffers *b, int64_t block, int64_t t0, int64_t j0, int64_t n)
{
    const int64_t D = f->a->D, Dp = f->Dp, queries = block * QUERIES;
    const int64_t n_keys = f->a->causal ? YOKE_MIN(n, t0 + QUERIES - j0) : n; /* none that all queries of the block mask */
    const bool masked = f->a->causal && j0 + n_keys - 1 > t0;
    float *o = b->o + queries * Dp;
    score_block(host_round_up(n_keys, TILE_M), D, b->k, Dp, b->qt + queries * D, b->s);
    softmax_block(t, b->s, n_keys, f->a->scale, masked, j0, t0, b->max + queries, b->sum + queries, b->factor);
    if (b->drop.by.threshold) drop_block(&b->drop, b->s, n_keys, j0, t0);
    if (masked && b->v_special) {
        add_values(0, b, Dp, o);
        masked_product((struct masked){ true, t0, j0 }, QUERIES, Dp, n_keys, b->s, 1, QUERIES, b->v, Dp, o, Dp);
        return;
    }
    add_values(n_keys, b, Dp, o);
}

INLINE void store_outputs(const yoke_dtype t, const struct forward *f, const struct buffers *b, int64_t batch, int64_t head, int64_t t0,
                          int64_t n)
{
    const struct yoke_attention_forward_args *a = f->a;
    for (int64_t i = 0; i < n; i++) {
        void *o = at_mut(t, a->o, (batch * a->T + t0 + i) * a->ldo + head * a->D);
        const vf sum = vset(b->sum[i]);
        for (int64_t d = 0; d < a->D; d += VL) vstore_n(t, o, d, a->D - d, vload(YOKE_F32, b->o, i * f->Dp + d) * b->drop.by.scale / sum);
        if (a->lse) ((float *)a->lse)[(batch * a->H + head) * a->T + t0 + i] = b->max[i] + logf(b->sum[i]);
    }
}

INLINE void forward_chunk(const yoke_dtype t, const struct forward *f, int64_t batch, int64_t head, int64_t t0, struct buffers *b)
{
    const struct yoke_attention_forward_args *a = f->a;
    const int64_t n = YOKE_MIN(a->T - t0, CHUNK_QUERIES), n_blocks = host_ceil_div(n, QUERIES);
    const int64_t kv_head = yokei_kv_head(YOKEI_GROUPS_OF_HEADS(a), head);
    b->drop = (struct drop){ yokei_dropout(a->p, a->key), a->sample_start + batch, a->head_start + head };
    memset(b->o, 0, (size_t)(n_blocks * QUERIES * f->Dp) * sizeof(float));
    memset(b->sum, 0, CHUNK_QUERIES * sizeof(float));
    for (int64_t i = 0; i < CHUNK_QUERIES; i++) b->max[i] = -INFINITY;
    if (n % QUERIES) memset(b->qt + (n_blocks - 1) * QUERIES * a->D, 0, (size_t)(QUERIES * a->D) * sizeof(float));
    for (int64_t i = 0; i < n_blocks; i++)
        widen_transposed(t, at(t, a->q, (batch * a->T + t0 + i * QUERIES) * a->ldq + head * a->D), a->ldq,
                         YOKE_MIN(n - i * QUERIES, QUERIES), a->D, b->qt + i * QUERIES * a->D, QUERIES);
    const int64_t end = a->causal ? t0 + n : a->T;
    for (int64_t j0 = 0; j0 < end; j0 += KEYS) {
        const int64_t n_keys = YOKE_MIN(end - j0, KEYS), row = batch * a->T + j0;
        widen_rows(t, at(t, a->k, row * a->ldk + kv_head * a->D), a->ldk, n_keys, a->D, b->k, f->Dp, f->Dp);
        widen_rows(t, at(t, a->v, row * a->ldv + kv_head * a->D), a->ldv, n_keys, a->D, b->v, f->Dp, f->Dp);
        b->v_special = a->causal && j0 + n_keys > t0 && has_special(b->v, n_keys, f->Dp, f->Dp);
        for (int64_t i = a->causal ? YOKE_MAX(0, (j0 - t0) / QUERIES) : 0; i < n_blocks; i++)
            attend(t, f, b, i, t0 + i * QUERIES, j0, n_keys);
    }
    store_outputs(t, f, b, batch, head, t0, n);
}

static void forward_unit(const void *context, int64_t unit, int thread)
{
    const struct forward *f = context;
    const struct yoke_attention_forward_args *a = f->a;
    struct buffers b = place_buffers(f->scratch + (size_t)thread * f->thread_floats, a->D, f->Dp);
    const int64_t heads = a->B * a->H, chunk = f->n_chunks - 1 - unit / heads; /* the last chunks see the most keys */
    HOST_BY_TYPE(a->dtype, forward_chunk, f, unit % heads / a->H, unit % a->H, chunk * CHUNK_QUERIES, &b);
}

static yoke_status host_attention_forward_can(const yoke_device *device, const struct yoke_attention_forward_args *a,
                                              struct yoke_cost *cost)
{
    YOKE_TRY(attention_check(YOKE_OP_attention_forward, a->dtype, a->T, a->D));
    const double pairs = (double)a->B * (double)a->H * (double)a->T * (double)a->T * (a->causal ? 0.5 : 1);
    const double elements = (double)a->B * (double)a->T * (double)a->D * (double)(2 * a->H + 2 * a->Hkv);
    return host_cost(cost, (size_t)host_n_threads(device) * thread_floats(a->D) * sizeof(float), 4 * pairs * (double)a->D,
                     elements * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_attention_forward_run(yoke_stream *stream, const struct yoke_attention_forward_args *a)
{
    struct forward f = { .a = a, .Dp = attention_padded(a->D), .thread_floats = thread_floats(a->D) };
    void *scratch;
    if (!a->B || !a->T || !a->H) return YOKE_OK;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_forward, (size_t)host_n_threads(stream->device) * f.thread_floats * sizeof(float), &scratch));
    f.scratch = scratch;
    f.n_chunks = host_ceil_div(a->T, CHUNK_QUERIES);
    host_for_units(stream, a->B * a->H * f.n_chunks, forward_unit, &f);
    return YOKE_OK;
}
