/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The register tile of bf16: what tile.h is for f32, by the dot products of AVX512-BF16. There is it only where HOST_BF16
 * is defined; elsewhere bf16 is widened and goes through tile.h.
 *
 *   C[i, :] = start[i] C[i, :] + sum over p of A(i, p) B[p, :],   C in f32
 *
 * The sum goes by pairs of p, which lie in one 32-bit word, the smaller p in its lower half ("pairs"). B is rows of pairs,
 * [k / 2][n]; A may be rows of bf16 as they are, or pairs. An odd K is padded with zeros, in A and in B (a zero times what
 * is not finite would be NaN).
 *
 * Numbers: vdpbf16ps adds the two products of a pair one after the other, each rounded once to nearest even, whatever the
 * rounding mode. It takes subnormal inputs for zero and flushes subnormal results: each product may lose 2^-126 and, of
 * an element that was taken for zero, 2^-126 of the other factor. NaN and infinities are as in f32. Each element's sum
 * runs in the order of p: it depends neither on the tile nor on the thread.
 * Rounding f32 to pairs is to nearest even by the CPU's own conversion, which takes subnormals for zero: nothing
 * that the product would not do with them.
 */
#ifndef BACKENDS_HOST_TILE_BF16_H
#define BACKENDS_HOST_TILE_BF16_H

#include "backends/host/tile.h"

#ifdef HOST_BF16

INLINE vf vdot(vf s, vu a, vu b) { return (vf)_mm512_dpbf16_ps((__m512)s, (__m512bh)a, (__m512bh)b); }

/* The pair at p in all lanes; it may lie at any address. */
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

/* The first n of 32 elements, which are 16 pairs of neighbours; the others are 0. */
INLINE vu load_elements(const uint16_t *x, int64_t n)
{
    return (vu)_mm512_maskz_loadu_epi16(n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1, x);
}

/* k2 pairs; A's pair (i, p) at a + i ra + p ca elements of 16 bits. n_vectors and start are constants. */
INLINE void tile_bf16(const int n_vectors, const enum tile_start start, int64_t k2, const uint16_t *a, int64_t ra, int64_t ca,
                      const uint32_t *b, int64_t ldb, float *c, int64_t ldc, const float *factor)
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
 * m rows (a multiple of TILE_M) by n_vectors vectors; start, ra and ca are best constants.
 * A: rows of bf16: ra their distance, ca = 2; pairs [k / 2][lda], as pair_rows makes them: ra = 2, ca = 2 lda.
 */
INLINE void product_bf16(const enum tile_start start, int64_t m, int64_t n_vectors, int64_t k2, const uint16_t *a, int64_t ra, int64_t ca,
                         const uint32_t *b, int64_t ldb, float *c, int64_t ldc, const float *factor)
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

/* Elements of two rows by turns: of their first halves (upper 0), or their second ones (16). */
INLINE vu interleave(vu even, vu odd, const int upper)
{
    uint16_t turns[32];
    for (int i = 0; i < 32; i++) turns[i] = (uint16_t)(upper + i / 2 + 32 * (i & 1)); /* folds to a constant */
    __m512i index;
    memcpy(&index, turns, sizeof index);
    return (vu)_mm512_permutex2var_epi16((__m512i)even, index, (__m512i)odd);
}

/** k rows of n bf16 to pairs [k / 2 rounded up][ldt]; zeros from n to `padded` (a multiple of VL, at most ldt). */
INLINE void pair_rows(const uint16_t *x, int64_t ld, int64_t k, int64_t n, uint32_t *target, int64_t ldt, int64_t padded)
{
    for (int64_t p = 0; p < k; p += 2, target += ldt) {
        const uint16_t *row = x + p * ld;
        for (int64_t j = 0; j < padded; j += 2 * VL) {
            const int64_t left = YOKE_MAX(n - j, 0);
            const vu even = load_elements(row + j, left), odd = p + 1 < k ? load_elements(row + ld + j, left) : (vu){ 0 };
            store_pairs(target + j, interleave(even, odd, 0));
            if (j + VL < padded) store_pairs(target + j + VL, interleave(even, odd, VL));
        }
    }
}

/** n rows of k bf16, transposed: pairs [k / 2 rounded up][ldt], target[p][j] = (x[j, 2p], x[j, 2p + 1]); zeros from n to the
 *  next multiple of VL. */
INLINE void pair_transposed(const uint16_t *x, int64_t ld, int64_t n, int64_t k, uint32_t *target, int64_t ldt)
{
    for (int64_t j = 0; j < n; j += VL)
        for (int64_t p = 0; p < k; p += 2 * VL) {
            const int64_t rows = YOKE_MIN(n - j, VL), pairs = YOKE_MIN((k - p + 1) / 2, VL);
            vf square[VL];
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++) square[i] = i < rows ? (vf)load_elements(x + (j + i) * ld + p, k - p) : (vf){ 0 };
            transpose_square(square);
#pragma GCC unroll 16
            for (int i = 0; i < VL; i++)
                if (i < pairs) store_pairs(target + (p / 2 + i) * ldt + j, (vu)square[i]);
        }
}

/* 32 numbers to bf16: first's, then second's. */
INLINE vu round_both(vf first, vf second) { return (vu)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first); }

/** Rows of f32 to rows of bf16, zeros up to the next multiple of 2 VL: A as product_bf16 takes it, ca = 2. */
INLINE void round_rows(const float *x, int64_t ld, int64_t rows, int64_t columns, uint16_t *target, int64_t ldt)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += 2 * VL) {
            const vf first = vload_n(YOKE_F32, x, i * ld + j, columns - j);
            const vf second = columns - j > VL ? vload_n(YOKE_F32, x, i * ld + j + VL, columns - j - VL) : (vf){ 0 };
            const vu both = round_both(first, second);
            memcpy(target + i * ldt + j, &both, sizeof both);
        }
}

/** k rows of n f32 to pairs [k / 2 rounded up][ldt], zeros from n to the next multiple of VL. */
INLINE void round_to_pairs(const float *x, int64_t ld, int64_t k, int64_t n, uint32_t *target, int64_t ldt)
{
    for (int64_t p = 0; p < k; p += 2, target += ldt)
        for (int64_t j = 0; j < n; j += VL) {
            const vf even = vload_n(YOKE_F32, x, p * ld + j, n - j);
            const vf odd = p + 1 < k ? vload_n(YOKE_F32, x, (p + 1) * ld + j, n - j) : (vf){ 0 };
            const vu both = round_both(even, odd);
            uint16_t turns[32];
            for (int i = 0; i < 32; i++) turns[i] = (uint16_t)(i / 2 + 16 * (i & 1)); /* folds to a constant */
            __m512i index;
            memcpy(&index, turns, sizeof index);
            store_pairs(target + j, (vu)_mm512_permutexvar_epi16(index, (__m512i)both));
        }
}

#endif
#endif
