/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Philox4x32-10: counter-based random numbers. They are the same on every device and in every layout.
 * Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", section 3.3.
 */
#include "core/base/base.h"

#include <math.h>
#include <string.h>

void yokei_philox(struct yokei_philox_key key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key.k[0], k1 = key.k[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

struct yokei_philox_key yokei_philox_named(uint64_t seed, const char *name)
{
    const uint64_t h = yokei_hash(name, strlen(name), seed);
    return (struct yokei_philox_key){ { (uint32_t)h, (uint32_t)(h >> 32) } };
}

/*
 * Make two doubles in (0, 1) with 52 random bits each: (r + 0.5) 2^-52, where r is the upper 52 of 64 bits.
 * They are exact in f64.
 */
static void uniform_pair(struct yokei_philox_key key, uint64_t pair, double out[2])
{
    const uint32_t counter[4] = { (uint32_t)pair, (uint32_t)(pair >> 32), 0, 0 };
    uint32_t r[4];
    yokei_philox(key, counter, r);
    for (int i = 0; i < 2; i++) {
        const uint64_t u = ((uint64_t)r[2 * i + 1] << 32) | r[2 * i];
        out[i] = ((double)(u >> 12) + 0.5) * 0x1p-52;
    }
}

double yokei_uniform(struct yokei_philox_key key, uint64_t index)
{
    double u[2];
    uniform_pair(key, index / 2, u);
    return u[index & 1];
}

double yokei_normal(struct yokei_philox_key key, uint64_t index)
{
    double u[2];
    uniform_pair(key, index / 2, u);
    const double radius = sqrt(-2.0 * log(u[0])), angle = 6.283185307179586476925286766559 * u[1];
    return radius * (index & 1 ? sin(angle) : cos(angle));
}

struct yokei_dropout yokei_dropout(float p, uint64_t key)
{
    const double threshold = rint((double)p * 0x1p32);
    return (struct yokei_dropout){ { { (uint32_t)key, (uint32_t)(key >> 32) } },
                                   threshold > UINT32_MAX ? UINT32_MAX : (uint32_t)threshold,
                                   (float)(1.0 / (1.0 - (double)p)) };
}

bool yokei_dropout_keeps(const struct yokei_dropout *drop, int64_t column, int64_t row, int64_t sample,
                         int64_t head)
{
    const uint32_t counter[4] = { (uint32_t)(column / 64 * 16 + column % 16), (uint32_t)row, (uint32_t)sample,
                                  (uint32_t)head };
    uint32_t words[4];
    yokei_philox(drop->key, counter, words);
    return words[column / 16 % 4] >= drop->threshold;
}
