/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The register tile for bf16. It does for bf16 what tile.h does for f32, with the dot products of
 * AVX512-BF16. It exists only if HOST_BF16 is defined. Elsewhere bf16 is widened to f32 and tile.h is used.
 *
 *   C[i, :] = start[i] C[i, :] + sum over p of A(i, p) B[p, :],   C in f32
 *
 * The sum goes by pairs of p. A pair is two bf16 in one 32-bit word, with the smaller p in the lower half. B
 * is rows of pairs, [k / 2][n]. A may be plain rows of bf16, or pairs. If K is odd, both A and B are padded
 * with zeros (a zero times a value that is not finite would be NaN).
 *
 * Numbers: vdpbf16ps adds the two products of a pair one after the other. Each addition is rounded once to
 * nearest even, whatever the rounding mode. The instruction takes subnormal inputs for zero and flushes
 * subnormal results. So each product may lose 2^-126, and also 2^-126 of the other factor if an element was
 * taken for zero. NaN and infinities are as in f32. The sum of each element runs in the order of p, so it
 * depends neither on the tile nor on the thread. The CPU's own conversion rounds f32 to pairs, to nearest
 * even. The conversion takes subnormals for zero, as the product would do with them anyway.
 */
#ifndef BACKENDS_HOST_TILE_BF16_H
#define BACKENDS_HOST_TILE_BF16_H

#include "backends/host/tile.h"

#ifdef HOST_BF16

INLINE vf vdot(vf s, vu a, vu b) { return (vf)_mm512_dpbf16_ps((__m512)s, (__m512bh)a, (__m512bh)b); }

/* The pair at p, in all lanes. p may be any address. */
INLINE vu broadcast_pair(const uint16_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return pair + (vu){ 0 };
}

INLINE vu load_pairs(const uint32_t *p)
{
    vu v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store_pairs(uint32_t *p, vu v) { memcpy(p, &v, sizeof v); }

/* The first n of 32 elements, which are 16 pairs of neighbours. The other elements are 0. */
INLINE vu load_elements(const uint16_t *x, int64_t n)
{
    return (vu)_mm512_maskz_loadu_epi16(n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1, x);
}

/*
 * The sum over k2 pairs. A's pair (i, p) is at a + i ra + p ca, in elements of 16 bits. n_vectors and start
 * are constants.
 */
INLINE void tile_bf16(const int n_vectors, const enum tile_start start, int64_t k2, const uint16_t *a,
                      int64_t ra, int64_t ca, const uint32_t *b, int64_t ldb, float *c, int64_t ldc,
                      const float *factor)
{
    vf s[TILE_M][TILE_N];
#pragma GCC unroll 8
    for (int i = 0; i < TILE_M; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) {
            s[i][j] = start == TILE_ZERO ? (vf){ 0 } : vload(YOKE_F32, c, i * ldc + j * VL);
            if (start == TILE_SCALE) s[i][j] *= factor[i];
        }
    for (int64_t p = 0; p < k2; p++) {
        vu row[TILE_N];
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) row[j] = load_pairs(b + p * ldb + j * VL);
#pragma GCC unroll 8
        for (int i = 0; i < TILE_M; i++) {
            const vu x = broadcast_pair(a + i * ra + p * ca);
#pragma GCC unroll 3
            for (int j = 0; j < n_vectors; j++) s[i][j] = vdot(s[i][j], x, row[j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < TILE_M; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) vstore(YOKE_F32, c, i * ldc + j * VL, s[i][j]);
}

/**
 * The product of m rows (a multiple of TILE_M) by n_vectors vectors. start, ra and ca should be constants.
 * There are two formats of A:
 *  - rows of bf16: ra is the distance of the rows, ca = 2;
 *  - pairs [k / 2][lda], as pair_rows makes them: ra = 2, ca = 2 lda.
 */
INLINE void product_bf16(const enum tile_start start, int64_t m, int64_t n_vectors, int64_t k2,
                         const uint16_t *a, int64_t ra, int64_t ca, const uint32_t *b, int64_t ldb, float *c,
                         int64_t ldc, const float *factor)
{
    for (int64_t j = 0, width; j < n_vectors; j += width) {
        width = tile_width(n_vectors - j);
        for (int64_t i = 0; i < m; i += TILE_M) {
            const uint16_t *const ai = a + i * ra;
            const uint32_t *const bj = b + j * VL;
            const float *const fi = factor ? factor + i : NULL;
            float *const cij = c + i * ldc + j * VL;
            switch (width) {
            case 1: tile_bf16(1, start, k2, ai, ra, ca, bj, ldb, cij, ldc, fi); break;
            case 2: tile_bf16(2, start, k2, ai, ra, ca, bj, ldb, cij, ldc, fi); break;
            default: tile_bf16(3, start, k2, ai, ra, ca, bj, ldb, cij, ldc, fi); break;
            }
        }
    }
}

/* Interleave the elements of two rows: their first halves (upper 0), or their second halves (upper 16). */
INLINE vu interleave(vu even, vu odd, const int upper)
{
    uint16_t turns[32];
    for (int i = 0; i < 32; i++)
        turns[i] = (uint16_t)(upper + i / 2 + 32 * (i & 1)); /* the compiler folds this to a constant */
    __m512i index;
    memcpy(&index, turns, sizeof index);
    return (vu)_mm512_permutex2var_epi16((__m512i)even, index, (__m512i)odd);
}

/**
 * Convert k rows of n bf16 to pairs [k / 2 rounded up][ldt]. The words from n to `padded` (a multiple of VL,
 * at most ldt) become zero.
 */
INLINE void pair_rows(const uint16_t *x, int64_t ld, int64_t k, int64_t n, uint32_t *target, int64_t ldt,
                      int64_t padded)
{
    for (int64_t p = 0; p < k; p += 2, target += ldt) {
        const uint16_t *row = x + p * ld;
        for (int64_t j = 0; j < padded; j += 2 * VL) {
            const int64_t left = YOKE_MAX(n - j, 0);
            const vu even = load_elements(row + j, left),
                     odd = p + 1 < k ? load_elements(row + ld + j, left) : (vu){ 0 };
            store_pairs(target + j, interleave(even, odd, 0));
            if (j + VL < padded) store_pairs(target + j + VL, interleave(even, odd, VL));
        }
    }
}

/**
 * Convert n rows of k bf16, and transpose them, to pairs [k / 2 rounded up][ldt]: target[p][j] = (x[j, 2p],
 * x[j, 2p + 1]). The words from n to the next multiple of VL become zero.
 */
INLINE void pair_transposed(const uint16_t *x, int64_t ld, int64_t n, int64_t k, uint32_t *target,
                            int64_t ldt)
{
    for (int64_t j = 0; j < n; j += VL)
        for (int64_t p = 0; p < k; p += 2 * VL) {
            const int64_t rows = YOKE_MIN(n - j, VL), pairs = YOKE_MIN((k - p + 1) / 2, VL);
            vf square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                square[i] = i < rows ? (vf)load_elements(x + (j + i) * ld + p, k - p) : (vf){ 0 };
            transpose_square(square);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                if (i < pairs) store_pairs(target + (p / 2 + i) * ldt + j, (vu)square[i]);
        }
}

/* Round 32 numbers to bf16: those of `first`, then those of `second`. */
INLINE vu round_both(vf first, vf second) { return (vu)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first); }

/**
 * Round rows of f32 to rows of bf16, with zeros up to the next multiple of 2 VL. product_bf16 takes the
 * result as A with ca = 2.
 */
INLINE void round_rows(const float *x, int64_t ld, int64_t rows, int64_t columns, uint16_t *target,
                       int64_t ldt)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += 2 * VL) {
            const vf first = vload_n(YOKE_F32, x, i * ld + j, columns - j);
            const vf second = columns - j > VL ? vload_n(YOKE_F32, x, i * ld + j + VL, columns - j - VL)
                                               : (vf){ 0 };
            const vu both = round_both(first, second);
            memcpy(target + i * ldt + j, &both, sizeof both);
        }
}

/** Round k rows of n f32 to pairs [k / 2 rounded up][ldt], with zeros from n to the next multiple of VL. */
INLINE void round_to_pairs(const float *x, int64_t ld, int64_t k, int64_t n, uint32_t *target, int64_t ldt)
{
    for (int64_t p = 0; p < k; p += 2, target += ldt)
        for (int64_t j = 0; j < n; j += VL) {
            const vf even = vload_n(YOKE_F32, x, p * ld + j, n - j);
            const vf odd = p + 1 < k ? vload_n(YOKE_F32, x, (p + 1) * ld + j, n - j) : (vf){ 0 };
            const vu both = round_both(even, odd);
            uint16_t turns[32];
            for (int i = 0; i < 32; i++)
                turns[i] = (uint16_t)(i / 2 + 16 * (i & 1)); /* the compiler folds this to a constant */
            __m512i index;
            memcpy(&index, turns, sizeof index);
            store_pairs(target + j, (vu)_mm512_permutexvar_epi16(index, (__m512i)both));
        }
}

#endif
#endif
