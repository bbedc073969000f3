/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Philox4x32-10 on vectors, and dropout with it. include/yoke/ops/elementwise.h says which word belongs to
 * which element.
 */
#ifndef BACKENDS_HOST_RANDOM_H
#define BACKENDS_HOST_RANDOM_H

#include "backends/host/vec.h"

/*
 * Lanes of 64 bits, of which only the lower halves are used. The product of two words is then where the next
 * product needs it.
 */
typedef uint64_t vq __attribute__((vector_size(4 * VL)));

INLINE vq vmul_words(vq a, uint32_t m)
{
#if defined(HOST_AVX512)
    return (vq)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(m));
#elif defined(HOST_AVX2)
    return (vq)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(m));
#else
    return (a & 0xffffffffu) * m;
#endif
}

/* The result is (upper half of product) ^ b ^ k. */
INLINE vq vmix_words(vq product, vq b, uint32_t k)
{
#ifdef HOST_AVX512
    const __m512i upper = _mm512_shuffle_epi32((__m512i)product, 0xf5);
    return (vq)_mm512_ternarylogic_epi64(upper, (__m512i)b, _mm512_set1_epi64(k), 0x96);
#else
    return product >> 32 ^ b ^ k;
#endif
}

/**
 * The four words of each lane's counter. The even lanes and the odd lanes are computed separately, and put
 * together at the end.
 */
INLINE void vphilox(struct yokei_philox_key key, vu c0, vu c1, vu c2, vu c3, vu words[4])
{
    vq half[2][4] = { { (vq)c0, (vq)c1, (vq)c2, (vq)c3 },
                      { (vq)c0 >> 32, (vq)c1 >> 32, (vq)c2 >> 32, (vq)c3 >> 32 } };
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int round = 0; round < 10; round++) {
        for (int h = 0; h < 2; h++) {
            vq *const c = half[h];
            const vq p0 = vmul_words(c[0], 0xD2511F53u), p1 = vmul_words(c[2], 0xCD9E8D57u);
            c[0] = vmix_words(p1, c[1], k0), c[1] = p1;
            c[2] = vmix_words(p0, c[3], k1), c[3] = p0;
        }
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    for (int k = 0; k < 4; k++) words[k] = (vu)((half[0][k] & 0xffffffffu) | half[1][k] << 32);
}

INLINE vu vset_u(uint32_t x) { return x - (vu){ 0 }; }

/** x in the lanes whose word is at least the threshold, 0 in the others. */
INLINE vf vdrop(vf x, vu word, uint32_t threshold)
{
    return vselect(vless_i((vi)(word ^ 0x80000000u), vset_i((int32_t)(threshold ^ 0x80000000u))), vset(0), x);
}

/** The words of columns [64 group, 64 group + 64) of one row. */
INLINE void dropout_words(struct yokei_philox_key key, int64_t group, int64_t row, int64_t sample,
                          uint32_t words[64])
{
    for (int i = 0; i < 16; i += VL) {
        vu w[4];
        vphilox(key, (vu)vlanes() + (uint32_t)(16 * group + i), vset_u((uint32_t)row),
                vset_u((uint32_t)sample), vset_u(0), w);
        for (int k = 0; k < 4; k++) memcpy(words + 16 * k + i, &w[k], sizeof w[k]);
    }
}

#endif
