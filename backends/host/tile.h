/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The register tile that gemm's panels and attention's blocks share. It computes small f32 products of
 * operands in the cache.
 *
 *   C[i, :] = start[i] C[i, :] + sum over p of A(i, p) B[p, :],   A(i, p) = a[i ra + p ca]
 *
 * C and B are rows of whole vectors. A tile is TILE_M rows by up to TILE_N vectors of C, held in registers:
 * 24 of 32 registers with AVX-512, and 12 of 16 elsewhere. Elements of A are broadcast from memory in place,
 * so A may be row-major (ca = 1) or column-major (ra = 1) without packing. The sum over p runs in order, so
 * its result depends neither on the tile nor on the thread.
 */
#ifndef BACKENDS_HOST_TILE_H
#define BACKENDS_HOST_TILE_H

#include "backends/host/vec.h"

#ifdef HOST_AVX512
enum { TILE_M = 8 };
#else
enum { TILE_M = 4 };
#endif
enum { TILE_N = 3 };

/* The start value of C: zeros, C itself, or each row of C times a factor. */
enum tile_start { TILE_ZERO, TILE_ADD, TILE_SCALE };

INLINE void tile(const int n_vectors, const enum tile_start start, int64_t k, const float *a, int64_t ra,
                 int64_t ca, const float *b, int64_t ldb, float *c, int64_t ldc, const float *factor)
{
    vf s[TILE_M][TILE_N];
#pragma GCC unroll 8
    for (int i = 0; i < TILE_M; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) {
            s[i][j] = start == TILE_ZERO ? (vf){ 0 } : vload(YOKE_F32, c, i * ldc + j * VL);
            if (start == TILE_SCALE) s[i][j] *= factor[i];
        }
    for (int64_t p = 0; p < k; p++) {
        vf row[TILE_N];
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) row[j] = vload(YOKE_F32, b, p * ldb + j * VL);
#pragma GCC unroll 8
        for (int i = 0; i < TILE_M; i++) {
            const vf x = vset(a[i * ra + p * ca]);
#pragma GCC unroll 3
            for (int j = 0; j < n_vectors; j++) s[i][j] = vfma(x, row[j], s[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < TILE_M; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n_vectors; j++) vstore(YOKE_F32, c, i * ldc + j * VL, s[i][j]);
}

/*
 * The number of vectors in the next tile, if n are left. 4 vectors become 2 and 2, because a tile of one
 * vector has too few sums to hide their latency.
 */
INLINE int64_t tile_width(int64_t n) { return n == 4 ? 2 : YOKE_MIN(n, TILE_N); }

/**
 * The product of m rows (a multiple of TILE_M) by n_vectors vectors. start, ra and ca should be constants.
 */
INLINE void product(const enum tile_start start, int64_t m, int64_t n_vectors, int64_t k, const float *a,
                    int64_t ra, int64_t ca, const float *b, int64_t ldb, float *c, int64_t ldc,
                    const float *factor)
{
    for (int64_t j = 0, width; j < n_vectors; j += width) {
        width = tile_width(n_vectors - j);
        for (int64_t i = 0; i < m; i += TILE_M) {
            const float *const ai = a + i * ra, *const bj = b + j * VL,
                               *const fi = factor ? factor + i : NULL;
            float *const cij = c + i * ldc + j * VL;
            switch (width) {
            case 1: tile(1, start, k, ai, ra, ca, bj, ldb, cij, ldc, fi); break;
            case 2: tile(2, start, k, ai, ra, ca, bj, ldb, cij, ldc, fi); break;
            default: tile(3, start, k, ai, ra, ca, bj, ldb, cij, ldc, fi); break;
            }
        }
    }
}

/**
 * Convert rows of any storage type to f32 rows with leading dimension ldt. The elements from `columns` to
 * `padded`, a multiple of VL, become zero.
 */
INLINE void widen_rows(const yoke_dtype t, const void *x, int64_t ld, int64_t rows, int64_t columns,
                       float *target, int64_t ldt, int64_t padded)
{
    for (int64_t i = 0; i < rows; i++) {
        const void *row = at(t, x, i * ld);
        VECTOR_LOOP(j, n, 0, columns, vstore(YOKE_F32, target, i * ldt + j, vload_n(t, row, j, n)););
        for (int64_t j = host_round_up(columns, VL); j < padded; j += VL)
            vstore(YOKE_F32, target, i * ldt + j, (vf){ 0 });
    }
}

/* Interleave the elements of a and b: either their lower halves, or their upper halves. */
#ifdef HOST_AVX512
#define ZIP(a, b, o)                                                                                     \
    __builtin_shufflevector(a, b, o, o + 16, o + 1, o + 17, o + 2, o + 18, o + 3, o + 19, o + 4, o + 20, \
                            o + 5, o + 21, o + 6, o + 22, o + 7, o + 23)
#elif defined(HOST_AVX2)
#define ZIP(a, b, o) __builtin_shufflevector(a, b, o, o + 8, o + 1, o + 9, o + 2, o + 10, o + 3, o + 11)
#else
#define ZIP(a, b, o) __builtin_shufflevector(a, b, o, o + 4, o + 1, o + 5)
#endif

/*
 * Transpose VL x VL values in registers. Interleaving row i with row i + VL / 2, log2(VL) times, gives the
 * transpose.
 */
INLINE void transpose_square(vf x[VL])
{
#pragma GCC unroll 4
    for (int stage = 1; stage < VL; stage *= 2) {
        vf y[VL];
#pragma GCC unroll 8
        for (int i = 0; i < VL / 2; i++) {
            y[2 * i] = ZIP(x[i], x[i + VL / 2], 0);
            y[2 * i + 1] = ZIP(x[i], x[i + VL / 2], VL / 2);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) x[i] = y[i];
    }
}

/**
 * Convert and transpose: target[j ldt + i] = x[i, j]. Elements between the rows of the target are not
 * changed.
 */
INLINE void widen_transposed(const yoke_dtype t, const void *x, int64_t ld, int64_t rows, int64_t columns,
                             float *target, int64_t ldt)
{
    for (int64_t i = 0; i < rows; i += VL)
        for (int64_t j = 0; j < columns; j += VL) {
            const int64_t m = YOKE_MIN(rows - i, VL), n = YOKE_MIN(columns - j, VL);
            vf square[VL];
            if (m == VL && n == VL) {
#pragma GCC unroll 16
                for (int k = 0; k < VL; k++) square[k] = vload(t, x, (i + k) * ld + j);
                transpose_square(square);
#pragma GCC unroll 16
                for (int k = 0; k < VL; k++) vstore(YOKE_F32, target, (j + k) * ldt + i, square[k]);
                continue;
            }
            for (int64_t k = 0; k < m; k++)
                for (int64_t l = 0; l < n; l++)
                    target[(j + l) * ldt + i + k] = load_one(t, x, (i + k) * ld + j + l);
        }
}

#endif
