/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Angles of rotary embeddings, in turns, as whole numbers of 2^-64. The product with a position in 64 bits
 * drops whole turns by itself, and the rest is as exact as the frequency is. In f32 without this method, the
 * angle of position 100000 would be off by 0.004. The power by squaring takes at most 2 log2(i) products,
 * each cut to 64 bits. So it is off by less than i + 2 log2(i) units.
 */
#include "core/base/base.h"

#include <math.h>

uint64_t yokei_turns_ratio(double theta, int64_t D)
{
    const long double ratio = ldexpl(powl((long double)theta, -2.0L / (long double)D), 64);
    return ratio >= 0x1p64L ? UINT64_MAX : (uint64_t)ratio;
}

static uint64_t multiply_high(uint64_t a, uint64_t b)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

uint64_t yokei_turns(uint64_t ratio, int64_t i)
{
    uint64_t turns = YOKEI_TURNS_RADIAN;
    for (; i > 0; i /= 2) {
        if (i % 2) turns = multiply_high(turns, ratio);
        ratio = multiply_high(ratio, ratio);
    }
    return turns;
}
