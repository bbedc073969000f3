/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The operands of attention's products, and the products. bf16 operands are made of pairs if the instruction
 * set can multiply pairs (tile_bf16.h). All other operands are f32 (tile.h). The type is a constant, so each
 * kernel contains one of the two.
 *
 * Buffers are counted in words of 32 bits (a float or a pair), and have room for either. There are three
 * formats:
 *   left:   rows that are read element by element; the sum runs over channels           [n][left_words()]
 *   across: transposed; a vector is one channel (or a pair of channels) of VL queries   [D or D / 2][QUERIES]
 *   along:  rows that a sum runs over; a vector is VL channels of a row (or a pair)     [n or n / 2][Dp]
 * Weights (P, dS) have two formats. In `by_key` the weights of one key are side by side, [KEYS][QUERIES]
 * elements. In `by_pair` the weights of two keys form pairs, for sums over keys, [KEYS / 2][QUERIES] words.
 * In f32, left and along are the same, and by_key and by_pair are the same.
 */
#ifndef BACKENDS_HOST_ATTENTION_BLOCKS_H
#define BACKENDS_HOST_ATTENTION_BLOCKS_H

#include "backends/host/tile_bf16.h"

enum {
    QUERIES = 64, /* queries of a block */
    /*
     * keys of a block; where the mask's edge runs through a block, its queries and keys begin at the same
     * position
     */
    KEYS = 64,
    /* queries or keys of half a block; a block on the edge leaves out the halves beyond the edge */
    HALF = 32,
};

#ifdef HOST_BF16
INLINE bool in_pairs(const yoke_dtype t) { return t == YOKE_BF16; }
#define IN_PAIRS(t, ...) \
    if (in_pairs(t)) {   \
        __VA_ARGS__;     \
        return;          \
    }
#else
INLINE bool in_pairs(const yoke_dtype t) { return (void)t, false; }
#define IN_PAIRS(t, ...) (void)(t);
#endif

/* The number of words in a row of left. */
INLINE int64_t left_words(const yoke_dtype t, int64_t D)
{
    return in_pairs(t) ? host_round_up(D, 2 * VL) / 2 : host_round_up(D, VL);
}
/*
 * The number of words before row `row` of along, and before a key's weight of a column of by_key. `row` and
 * `column` are even.
 */
INLINE int64_t along_words(const yoke_dtype t, int64_t row, int64_t Dp)
{
    return (in_pairs(t) ? row / 2 : row) * Dp;
}
INLINE int64_t by_key_words(const yoke_dtype t, int64_t key, int64_t column)
{
    return (key * QUERIES + column) / (in_pairs(t) ? 2 : 1);
}

/* ---- operands: `n` rows of x; words that are not written are never read, or zeroed by the caller ---- */

#ifdef HOST_BF16
INLINE void copy_rows(const uint16_t *x, int64_t ld, int64_t n, int64_t D, uint32_t *to)
{
    const int64_t words = host_round_up(D, 2 * VL) / 2;
    for (int64_t i = 0; i < n; i++, x += ld, to += words) {
        int64_t d = 0;
        for (; d + 2 * VL <= D; d += 2 * VL) memcpy(to + d / 2, x + d, sizeof(vu));
        if (d < D) store_pairs(to + d / 2, load_elements(x + d, D - d));
    }
}
#endif

INLINE void pack_left(const yoke_dtype t, const void *x, int64_t ld, int64_t n, int64_t D, float *to)
{
    IN_PAIRS(t, copy_rows(x, ld, n, D, (uint32_t *)(void *)to))
    const int64_t Dp = left_words(t, D);
    widen_rows(t, x, ld, n, D, to, Dp, Dp);
}

INLINE void pack_across(const yoke_dtype t, const void *x, int64_t ld, int64_t n, int64_t D, float *to)
{
    if (n < QUERIES) memset(to, 0, (size_t)(D * QUERIES) * sizeof(float));
    IN_PAIRS(t, pair_transposed(x, ld, n, D, (uint32_t *)(void *)to, QUERIES))
    widen_transposed(t, x, ld, n, D, to, QUERIES);
}

INLINE void pack_along(const yoke_dtype t, const void *x, int64_t ld, int64_t n, int64_t D, int64_t Dp,
                       float *to)
{
    IN_PAIRS(t, pair_rows(x, ld, n, D, (uint32_t *)(void *)to, Dp, Dp))
    widen_rows(t, x, ld, n, D, to, Dp, Dp);
}

/* ---- products; each is a function that is not inlined ---- */
#define PRODUCT static __attribute__((noinline, unused)) void

/*
 * S^T [m][columns], with rows of QUERIES, = X Y^T. x is left, yt is across. m is a multiple of TILE_M,
 * columns a multiple of VL.
 */
PRODUCT scores_f32(int64_t m, int64_t columns, int64_t D, const float *x, const float *yt, float *s)
{
    product(TILE_ZERO, m, columns / VL, D, x, host_round_up(D, VL), 1, yt, QUERIES, s, QUERIES, NULL);
}
/*
 * y [m][Dp] = start y + W^T X. The weights of m queries (whole vectors) are by_pair, and x is along its k
 * keys.
 */
PRODUCT add_to_queries_f32(enum tile_start start, int64_t m, int64_t k, const float *weights, const float *x,
                           int64_t Dp, float *y, const float *factor)
{
    product(start, m, Dp / VL, k, weights, 1, QUERIES, x, Dp, y, Dp, factor);
}
/* y [m][Dp] = start y + W X. The weights of m keys are by_key, and x is along its k queries. */
PRODUCT add_to_keys_f32(enum tile_start start, int64_t m, int64_t k, const float *weights, const float *x,
                        int64_t Dp, float *y)
{
    product(start, m, Dp / VL, k, weights, QUERIES, 1, x, Dp, y, Dp, NULL);
}

#ifdef HOST_BF16
INLINE const uint16_t *halves(const float *x) { return (const uint16_t *)(const void *)x; }
INLINE const uint32_t *pairs(const float *x) { return (const uint32_t *)(const void *)x; }

PRODUCT scores_bf16(int64_t m, int64_t columns, int64_t D, const float *x, const float *yt, float *s)
{
    product_bf16(TILE_ZERO, m, columns / VL, host_ceil_div(D, 2), halves(x), host_round_up(D, 2 * VL), 2,
                 pairs(yt), QUERIES, s, QUERIES, NULL);
}
PRODUCT add_to_queries_bf16(enum tile_start start, int64_t m, int64_t k, const float *weights, const float *x,
                            int64_t Dp, float *y, const float *factor)
{
    product_bf16(start, m, Dp / VL, host_ceil_div(k, 2), halves(weights), 2, 2 * QUERIES, pairs(x), Dp, y, Dp,
                 factor);
}
PRODUCT add_to_keys_bf16(enum tile_start start, int64_t m, int64_t k, const float *weights, const float *x,
                         int64_t Dp, float *y)
{
    product_bf16(start, m, Dp / VL, host_ceil_div(k, 2), halves(weights), QUERIES, 2, pairs(x), Dp, y, Dp,
                 NULL);
}
#endif

INLINE void scores(const yoke_dtype t, int64_t n_keys, int64_t columns, int64_t D, const float *x,
                   const float *yt, float *s)
{
    IN_PAIRS(t, scores_bf16(host_round_up(n_keys, TILE_M), columns, D, x, yt, s))
    scores_f32(host_round_up(n_keys, TILE_M), columns, D, x, yt, s);
}
INLINE void add_to_queries(const yoke_dtype t, enum tile_start start, int64_t m, int64_t k,
                           const float *weights, const float *x, int64_t Dp, float *y, const float *factor)
{
    IN_PAIRS(t, add_to_queries_bf16(start, m, k, weights, x, Dp, y, factor))
    add_to_queries_f32(start, m, k, weights, x, Dp, y, factor);
}
INLINE void add_to_keys(const yoke_dtype t, enum tile_start start, int64_t n_keys, int64_t k,
                        const float *weights, const float *x, int64_t Dp, float *y)
{
    IN_PAIRS(t, add_to_keys_bf16(start, host_round_up(n_keys, TILE_M), k, weights, x, Dp, y))
    add_to_keys_f32(start, host_round_up(n_keys, TILE_M), k, weights, x, Dp, y);
}

/*
 * ---- weights ----
 * The weights of two keys for one vector of queries, rounded to the type. The last key may have no `second`.
 */

#ifdef HOST_BF16
/*
 * pair_up: the rounded weights of two keys, which lie one behind the other, as pairs. store_rows_of: the same
 * as two rows of QUERIES elements.
 */
INLINE vu pair_up(vu both)
{
    uint16_t turns[32];
    for (int i = 0; i < 32; i++)
        turns[i] = (uint16_t)(i / 2 + 16 * (i & 1)); /* the compiler folds this to a constant */
    __m512i index;
    memcpy(&index, turns, sizeof index);
    return (vu)_mm512_permutexvar_epi16(index, (__m512i)both);
}
INLINE void store_rows_of(uint16_t *row, vu both)
{
    const __m256i first = _mm512_castsi512_si256((__m512i)both),
                  second = _mm512_extracti64x4_epi64((__m512i)both, 1);
    memcpy(row, &first, sizeof first);
    memcpy(row + QUERIES, &second, sizeof second);
}
#endif

INLINE void store_by_pair(const yoke_dtype t, float *weights, int64_t key, int64_t column, vf first,
                          vf second, bool has_second)
{
    IN_PAIRS(t, store_pairs((uint32_t *)(void *)weights + key / 2 * QUERIES + column,
                            pair_up(round_both(first, second))))
    vstore(YOKE_F32, weights, key * QUERIES + column, vround(t, first));
    if (has_second) vstore(YOKE_F32, weights, (key + 1) * QUERIES + column, vround(t, second));
}

INLINE void store_by_key(const yoke_dtype t, float *weights, int64_t key, int64_t column, vf first, vf second,
                         bool has_second)
{
    IN_PAIRS(t,
             store_rows_of((uint16_t *)(void *)weights + key * QUERIES + column, round_both(first, second)))
    store_by_pair(t, weights, key, column, first, second, has_second);
}

/* In f32, by_key and by_pair are the same, and by_pair is not written. */
INLINE void store_both_ways(const yoke_dtype t, float *by_key, float *by_pair, int64_t key, int64_t column,
                            vf first, vf second, bool has_second)
{
    IN_PAIRS(t, const vu both = round_both(first, second);
             store_rows_of((uint16_t *)(void *)by_key + key * QUERIES + column, both);
             store_pairs((uint32_t *)(void *)by_pair + key / 2 * QUERIES + column, pair_up(both)))
    (void)by_pair;
    store_by_pair(t, by_key, key, column, first, second, has_second);
}

/* The weights as f32 [n_keys][QUERIES], for the rare products that must not multiply masked elements. */
INLINE const float *widen_by_pair(const yoke_dtype t, const float *weights, int64_t n_keys, float *to)
{
    if (!in_pairs(t)) return weights;
    for (int64_t j = 0; j < n_keys; j++)
        for (int64_t i = 0; i < QUERIES; i++)
            to[j * QUERIES + i] = load_one(YOKE_BF16, weights, (j / 2 * QUERIES + i) * 2 + j % 2);
    return to;
}
INLINE const float *widen_by_key(const yoke_dtype t, const float *weights, int64_t n_keys, float *to)
{
    if (!in_pairs(t)) return weights;
    widen_rows(YOKE_BF16, weights, QUERIES, n_keys, QUERIES, to, QUERIES, QUERIES);
    return to;
}

#endif
