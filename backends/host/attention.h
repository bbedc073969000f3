/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The code that the two directions of attention share: exponents from scores, the parts of a block, dropout,
 * and products that leave masked terms out.
 *
 * Scores are held transposed, S^T [keys][queries], so the lanes of a vector are queries. The softmax's
 * maximum and sum over keys then need no work across lanes. All products read their left operand in place
 * (see attention_blocks.h).
 */
#ifndef BACKENDS_HOST_ATTENTION_H
#define BACKENDS_HOST_ATTENTION_H

#include "backends/host/attention_blocks.h"
#include "backends/host/kernels.h"
#include "backends/host/log.h"
#include "backends/host/random.h"

enum { MOST_D = 1024 };

/** The number of channels, rounded up to whole vectors. */
static inline int64_t attention_padded(int64_t D) { return host_round_up(D, VL); }

/** vspecial: the lanes that are infinite or NaN. any_lane: whether a mask has any lane set. */
INLINE vmask vspecial(vf x)
{
#ifdef HOST_AVX512
    return _mm512_cmpeq_epi32_mask((__m512i)((vi)x & 0x7f800000), _mm512_set1_epi32(0x7f800000));
#else
    return ((vi)x & 0x7f800000) == 0x7f800000;
#endif
}
INLINE bool any_lane(vmask m)
{
#ifdef HOST_AVX512
    return m != 0;
#else
    int32_t any = 0;
    for (int lane = 0; lane < VL; lane++) any |= m[lane];
    return any != 0;
#endif
}

/**
 * Exponentials are computed as powers of 2: exp(scale s - m) = 2^(c s - m'), c = scale log2(e) rounded, m' =
 * m log2(e). c is above 0. If scale is negative, the scores change their sign first.
 */
INLINE float exponent_factor(float scale) { return (float)(fabs((double)scale) * 1.44269504088896340736); }
INLINE void negate(float *s, int64_t n_keys, int64_t columns)
{
    for (int64_t j = 0; j < n_keys; j++)
        for (int64_t i = 0; i < columns; i += VL)
            vstore(YOKE_F32, s, j * QUERIES + i, -vload(YOKE_F32, s, j * QUERIES + i));
}

/**
 * A part of a block that is computed by itself: `count` queries from `first` on, with `n_keys` keys. A block
 * on the mask's edge has one part for each half of its queries, because the first half sees no key of the
 * second. Any other block is one part.
 */
struct part {
    int64_t first, count, n_keys;
};
INLINE struct part part_of(bool edge, int64_t n_queries, int64_t n_keys, int64_t first)
{
    const int64_t count = host_round_up(n_queries - first, HALF);
    if (!edge) return (struct part){ first, count, n_keys };
    return (struct part){ first, YOKE_MIN(count, HALF), YOKE_MIN(n_keys, first + HALF) };
}

/** Store a row of f32 times a factor, rounded. */
INLINE void store_row(const yoke_dtype t, const float *x, float factor, int64_t D, void *to)
{
    const vf f = vset(factor);
    VECTOR_LOOP(d, n, 0, D, vstore_n(t, to, d, n, vload(YOKE_F32, x, d) * f););
}

/** The query number of each lane of vector v of the block that begins at query t0. */
INLINE vi query_numbers(int64_t t0, int v) { return vlanes() + (int32_t)(t0 + v * VL); }

/** Decides which (query, key) pairs of one head are dropped out. */
struct drop {
    struct yokei_dropout by;
    int64_t sample, head;
};

/**
 * The random words of pairs, for the queries [t0 + v VL, …) with the keys j0 + i, j0 + i + 16, j0 + i + 32
 * and j0 + i + 48. j0 is a multiple of 64.
 */
INLINE void pair_words(const struct drop *d, int64_t j0, int i, int64_t t0, int v, vu words[4])
{
    vphilox(d->by.key, vset_u((uint32_t)(j0 / 4 + i)), (vu)query_numbers(t0, v), vset_u((uint32_t)d->sample),
            vset_u((uint32_t)d->head), words);
}

/**
 * Whether any of the first `words` words of an operand is infinite or NaN, or holds a bf16 that is. 0 times
 * the operand is then not always 0.
 */
INLINE bool has_special(const yoke_dtype t, const float *x, int64_t words)
{
    vmask special = { 0 };
    for (int64_t i = 0; i < words; i += VL) {
        const vf v = vload(YOKE_F32, x, i);
        special |= vspecial(v);
        if (in_pairs(t)) special |= vspecial((vf)((vi)v << 16));
    }
    return any_lane(special);
}

/**
 * C[i, :] += A(i, p) B[p, :] over the pairs that causality allows. It is for diagonal blocks in which a
 * masked operand is not finite: there product() would turn its zero weight into NaN. A pair is (query t, key
 * j), and is allowed if j <= t.
 */
struct masked {
    bool rows_are_queries; /* true: i counts queries and p counts keys; false: the other way round */
    int64_t i0, p0;        /* numbers of the first query and the first key */
};

static inline void masked_product(struct masked mask, int64_t m, int64_t n, int64_t k, const float *a,
                                  int64_t ra, int64_t ca, const float *b, int64_t ldb, float *c, int64_t ldc)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            const int64_t row = mask.i0 + i, term = mask.p0 + p;
            if (mask.rows_are_queries ? term > row : row > term) continue;
            const vf x = vset(a[i * ra + p * ca]);
            for (int64_t j = 0; j < n; j += VL)
                vstore(YOKE_F32, c, i * ldc + j,
                       vfma(x, vload(YOKE_F32, b, p * ldb + j), vload(YOKE_F32, c, i * ldc + j)));
        }
}

/** The limits on the shape for both directions. */
static inline yoke_status attention_check(enum yoke_op_id op, int64_t T, int64_t D)
{
    if (D > MOST_D || T > INT32_MAX - QUERIES)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s on host: T %lld, D %lld; at most %d and %d are offered",
                         yokei_op_names[op], (long long)T, (long long)D, INT32_MAX - QUERIES, MOST_D);
    return YOKE_OK;
}

#endif
