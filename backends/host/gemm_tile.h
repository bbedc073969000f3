/* SPDX-License-Identifier: Apache-2.0 */
/**
 * gemm's register tile over packed panels, and the steps that follow it. The panels hold f32, or pairs of
 * bf16 ("words" of 32 bits).
 *
 * A comes in strips of STRIP_M rows, and B in panels of up to TILE_N vectors. rows x n_vectors sums fill the
 * registers. With fewer vectors a tile has more rows, so a narrow panel loses little. A tile sums one piece
 * of K, starting from zero.
 */
#ifndef BACKENDS_HOST_GEMM_TILE_H
#define BACKENDS_HOST_GEMM_TILE_H

#include "backends/host/tile_bf16.h"

enum { STRIP_M = TILE_M * TILE_N, PANEL_N = TILE_N * VL };

/** The number of rows of a tile with n_vectors vectors. It divides STRIP_M. */
INLINE int tile_rows(const int64_t n_vectors)
{
    return n_vectors >= 3 ? TILE_M : n_vectors == 2 ? STRIP_M / 2 : STRIP_M;
}

INLINE vf multiply_words(const bool pairs, vf s, const void *a, vf row)
{
#ifdef HOST_BF16
    if (pairs) return vdot(s, broadcast_pair(a), (vu)row);
#endif
    (void)pairs;
    float x;
    memcpy(&x, a, sizeof x);
    return vfma(vset(x), row, s);
}

/* The target of the sums: they are stored to rows of f32 or bf16, or added to rows of f32. */
enum ending { END_F32, END_BF16, END_ADD };

/**
 * out[i, :] = sum over p < k of A(i, p) b[p, :]. A(i, p) is at a + i ra + p ca bytes. b is rows of n_vectors
 * vectors. The rows of out are ldo elements apart.
 */
INLINE void tile_words(const bool pairs, const int n_vectors, const enum ending end, int64_t k, const char *a,
                       const int64_t ra, const int64_t ca, const float *b, void *out, const int64_t ldo)
{
    const int rows = tile_rows(n_vectors);
    vf s[STRIP_M];
#pragma GCC unroll 24
    for (int i = 0; i < STRIP_M; i++) s[i] = (vf){ 0 };
    for (int64_t p = 0; p < k; p++) {
        vf row[TILE_N];
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) row[j] = vload(YOKE_F32, b, (p * n_vectors + j) * VL);
#pragma GCC unroll 24
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int j = 0; j < n_vectors; j++)
                s[i * n_vectors + j] = multiply_words(pairs, s[i * n_vectors + j], a + i * ra + p * ca,
                                                      row[j]);
    }
#pragma GCC unroll 24
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) {
            const int64_t at_out = i * ldo + j * VL;
            const vf sum = s[i * n_vectors + j];
            vstore(end == END_BF16 ? YOKE_BF16 : YOKE_F32, out, at_out,
                   end == END_ADD ? vload(YOKE_F32, out, at_out) + sum : sum);
        }
}

/* ---- packing ---- */
/*
 * The format of a strip of A: rows as they are, each STRIP_LD words after the one before; or, for a
 * transposed A, [words of K][STRIP_M].
 */
enum { CHUNK_K = 512, STRIP_LD = CHUNK_K + VL };

/**
 * The number of words from one strip to the next. It is never a multiple of 4 KiB, because the strips of a
 * transposed A are written in turn.
 */
INLINE int64_t strip_stride(bool transposed, int64_t chunk_k)
{
    return STRIP_M * (transposed ? chunk_k : STRIP_LD) + 2 * VL;
}

/* The number of elements of K in k words, from word k0 on. */
INLINE int64_t elements(const bool pairs, int64_t K, int64_t k0, int64_t k)
{
    return pairs ? YOKE_MIN(K - 2 * k0, 2 * k) : k;
}

/**
 * Pack the rows of A, [m][k words], into strips. The last strip is filled up with rows of zeros. `a` points
 * to the first word.
 */
INLINE void pack_rows(const yoke_dtype t, const bool pairs, const void *a, int64_t lda, int64_t m,
                      int64_t n_elements, float *strips, int64_t stride)
{
    for (int64_t i = 0; i < m; i++) {
        const void *row = at(t, a, i * lda);
        float *target = strips + i / STRIP_M * stride + i % STRIP_M * STRIP_LD;
#ifdef HOST_BF16
        if (pairs) {
            for (int64_t p = 0; p < n_elements; p += 2 * VL)
                store_pairs((uint32_t *)(void *)target + p / 2,
                            load_elements((const uint16_t *)row + p, n_elements - p));
            continue;
        }
#endif
        VECTOR_LOOP(p, n, 0, n_elements, vstore(YOKE_F32, target, p, vload_n(t, row, p, n)););
    }
    for (int64_t i = m; i < host_round_up(m, STRIP_M); i++)
        memset(strips + i / STRIP_M * stride + i % STRIP_M * STRIP_LD, 0, STRIP_LD * sizeof(float));
    (void)pairs;
}

/* Pack one word of K of a strip of a transposed A, with n of its STRIP_M columns. */
INLINE void pack_word(const yoke_dtype t, const bool pairs, const void *even, const void *odd, int64_t n,
                      float *target)
{
#ifdef HOST_BF16
    if (pairs) {
        const vu e = load_elements(even, n), o = odd ? load_elements(odd, n) : (vu){ 0 },
                 rest = interleave(e, o, VL);
        store_pairs((uint32_t *)(void *)target, interleave(e, o, 0));
        memcpy(target + VL, &rest, (STRIP_M - VL) * sizeof(float));
        return;
    }
#endif
    (void)pairs, (void)odd;
    for (int64_t i = 0; i < STRIP_M; i += VL) {
        const vf v = n > i ? vload_n(t, even, i, n - i) : (vf){ 0 };
        memcpy(target + i, &v, (size_t)YOKE_MIN(STRIP_M - i, VL) * sizeof(float));
    }
}

/** As pack_rows, for a transposed A, which is stored [elements][m]. */
INLINE void pack_columns(const yoke_dtype t, const bool pairs, const void *a, int64_t lda, int64_t m,
                         int64_t n_elements, float *strips, int64_t stride)
{
    enum { TOGETHER = 8 }; /* number of words of K that go to one strip while their rows are in the cache */
    const int64_t step = pairs ? 2 : 1, words = host_ceil_div(n_elements, step);
    for (int64_t p0 = 0; p0 < words; p0 += TOGETHER)
        for (int64_t i = 0; i < m; i += STRIP_M) {
            float *target = strips + i / STRIP_M * stride;
            for (int64_t r = (p0 + TOGETHER) * step; r < YOKE_MIN((p0 + 2 * TOGETHER) * step, n_elements);
                 r++)
                __builtin_prefetch(at(t, a, r * lda + i));
            for (int64_t p = p0; p < YOKE_MIN(p0 + TOGETHER, words); p++) {
                const void *even = at(t, a, p * step * lda + i),
                           *odd = pairs && 2 * p + 1 < n_elements ? at(t, a, (2 * p + 1) * lda + i) : NULL;
                if (m - i >= STRIP_M)
                    pack_word(t, pairs, even, odd, STRIP_M, target + p * STRIP_M);
                else
                    pack_word(t, pairs, even, odd, m - i, target + p * STRIP_M);
            }
        }
}

/** Pack n columns of B, [elements][n], into a panel [words][width], with zeros from n to width. */
INLINE void pack_panel(const yoke_dtype t, const bool pairs, const void *b, int64_t ldb, int64_t n,
                       int64_t width, int64_t n_elements, float *panel)
{
#ifdef HOST_BF16
    if (pairs) {
        if (n == PANEL_N)
            pair_rows(b, ldb, n_elements, PANEL_N, (uint32_t *)(void *)panel, PANEL_N, PANEL_N);
        else
            pair_rows(b, ldb, n_elements, n, (uint32_t *)(void *)panel, width, width);
        return;
    }
#endif
    (void)pairs;
    if (n == PANEL_N)
        widen_rows(t, b, ldb, n_elements, PANEL_N, panel, PANEL_N, PANEL_N);
    else
        widen_rows(t, b, ldb, n_elements, n, panel, width, width);
}

/** As pack_panel, for a transposed B, which is stored [n][elements]. */
INLINE void pack_panel_transposed(const yoke_dtype t, const bool pairs, const void *b, int64_t ldb, int64_t n,
                                  int64_t width, int64_t n_elements, float *panel)
{
#ifdef HOST_BF16
    if (pairs) {
        pair_transposed(b, ldb, n, n_elements, (uint32_t *)(void *)panel, width);
        return;
    }
#endif
    (void)pairs;
    if (n < width)
        for (int64_t p = 0; p < n_elements; p++) vstore(YOKE_F32, panel, (p + 1) * width - VL, (vf){ 0 });
    widen_transposed(t, b, ldb, n, n_elements, panel, width);
}

#endif
