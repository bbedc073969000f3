/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed-point number of 320 bits. Additions to it do not round, so their order does not matter (Kulisch
 * 2013).
 */
#include "core/base/exact.h"

#include <math.h>
#include <string.h>

enum { LEAST = -149, LIMB = 32 };

/* x = m 2^e with 24 bits in m. */
static void add_f32(struct yokei_exact *s, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t exponent = bits >> 23 & 0xff, mantissa = (bits & 0x7fffff) | (exponent ? 0x800000u : 0);
    const int at = exponent ? (int)exponent - 1 : 0; /* position of its lowest bit, counted from 2^-149 */
    const uint64_t shifted = (uint64_t)mantissa << at % LIMB;
    s->limb[at / LIMB] += shifted & 0xffffffffu;
    s->limb[at / LIMB + 1] += shifted >> LIMB;
    /* Each addition puts less than 2^32 into a limb. */
    if (s->limb[at / LIMB] >> 62 || s->limb[at / LIMB + 1] >> 62) yokei_exact_carry(s);
}

void yokei_exact_add(struct yokei_exact *s, double x)
{
    for (int piece = 0; piece < 3 && x > 0; piece++) { /* an f64 is the sum of three f32 */
        float some = (float)x;
        if (some > x) some = nextafterf(some, 0);
        if (!isfinite(some)) break;
        add_f32(s, some);
        x -= some;
    }
    if (!isfinite(x) || x > 1) s->is_infinite = true;
}

void yokei_exact_carry(struct yokei_exact *s)
{
    for (int i = 0; i + 1 < YOKEI_EXACT_LIMBS; i++) {
        s->limb[i + 1] += s->limb[i] >> LIMB;
        s->limb[i] &= 0xffffffffu;
    }
}

void yokei_exact_join(struct yokei_exact *s, const double limbs[YOKEI_EXACT_LIMBS])
{
    for (int i = 0; i < YOKEI_EXACT_LIMBS; i++) s->limb[i] += (uint64_t)limbs[i];
    yokei_exact_carry(s);
}

double yokei_exact_value(const struct yokei_exact *s)
{
    struct yokei_exact carried = *s;
    double value = 0;
    if (s->is_infinite) return INFINITY;
    yokei_exact_carry(&carried);
    for (int i = YOKEI_EXACT_LIMBS - 1; i >= 0; i--)
        value += ldexp((double)carried.limb[i], i * LIMB + LEAST);
    return value;
}
