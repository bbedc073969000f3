/* SPDX-License-Identifier: Apache-2.0 */
/** Philox4x32-10 over vectors, and what dropout makes of it. Which word belongs to which element: include/yoke/ops/elementwise.h */
#ifndef BACKENDS_HOST_RANDOM_H
#define BACKENDS_HOST_RANDOM_H

#include "backends/host/vec.h"

/** The upper halves of a * m; the lower ones are a * m itself. */
INLINE vu vmul_high(vu a, uint32_t m)
{
#if defined(HOST_AVX512)
    const __m512i factor = _mm512_set1_epi64(m);
    const __m512i even = _mm512_mul_epu32((__m512i)a, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), factor);
    return (vu)_mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
#elif defined(HOST_AVX2)
    const __m256i factor = _mm256_set1_epi64x(m);
    const __m256i even = _mm256_mul_epu32((__m256i)a, factor), odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), factor);
    return (vu)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#else
    vu high;
    for (int i = 0; i < VL; i++) high[i] = (uint32_t)((uint64_t)a[i] * m >> 32);
    return high;
#endif
}

/** The four words of each lane's counter. */
INLINE void vphilox(struct yokei_philox_key key, vu c0, vu c1, vu c2, vu c3, vu words[4])
{
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int round = 0; round < 10; round++) {
        const vu high0 = vmul_high(c0, 0xD2511F53u), high1 = vmul_high(c2, 0xCD9E8D57u);
        const vu low0 = c0 * 0xD2511F53u, low1 = c2 * 0xCD9E8D57u;
        c0 = high1 ^ c1 ^ k0, c1 = low1;
        c2 = high0 ^ c3 ^ k1, c3 = low0;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

INLINE vu vset_u(uint32_t x) { return x - (vu){ 0 }; }

/** x where its word is at least the threshold, else 0. */
INLINE vf vdrop(vf x, vu word, uint32_t threshold)
{
    return vselect(vless_i((vi)(word ^ 0x80000000u), vset_i((int32_t)(threshold ^ 0x80000000u))), vset(0), x);
}

/** The words of columns [64 group, 64 group + 64) of one row. */
INLINE void dropout_words(struct yokei_philox_key key, int64_t group, int64_t row, int64_t sample, uint32_t words[64])
{
    for (int i = 0; i < 16; i += VL) {
        vu w[4];
        vphilox(key, (vu)vlanes() + (uint32_t)(16 * group + i), vset_u((uint32_t)row), vset_u((uint32_t)sample), vset_u(0), w);
        for (int k = 0; k < 4; k++) memcpy(words + 16 * k + i, &w[k], sizeof w[k]);
    }
}

#endif
