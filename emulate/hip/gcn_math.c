/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of single lanes that no vector of the host has: approximations and the parts of a division. */
#include "emulate/gpu/floats.h"
#include "emulate/hip/gcn_run.h"

#include <math.h>

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static bool is_subnormal(uint32_t x) { return !(x & 0x7f800000) && x & 0x7fffff; }

static double exact(double x, enum gcn_approximation what)
{
    switch (what) {
    case GCN_RCP: return 1 / x;
    case GCN_RSQ: return 1 / sqrt(x);
    case GCN_SQRT: return sqrt(x);
    case GCN_EXP: return exp2(x);
    case GCN_LOG: return log2(x);
    /* the operand is in turns */
    case GCN_SIN: return sin((x - floor(x)) * 6.283185307179586);
    default: return cos((x - floor(x)) * 6.283185307179586);
    }
}

/*
 * The error is at most one unit in the last place: the result is one of the two numbers between which the
 * exact one lies. `side` says where the exact number lies from the rounded one: nearer to 0 (-1), farther
 * (1), or in the same place (0), where either neighbour is drawn. Results without a neighbour (0, infinity,
 * NaN) stay.
 */
static uint32_t disturb(uint32_t result, int side, uint32_t x, enum gcn_approximation what, uint64_t seed,
                        uint32_t infinity)
{
    const uint32_t magnitude = result & (infinity | (infinity - 1));
    if (!seed || magnitude == 0 || magnitude >= infinity) return result;
    const uint64_t drawn = mix(mix(seed + (uint64_t)what) ^ x) % 4;
    if (drawn < 2) return result;
    if (side > 0 || (side == 0 && drawn == 2)) return magnitude + 1 < infinity ? result + 1 : result;
    return magnitude > 1 ? result - 1 : result;
}

/* Where x lies from y, as `disturb` wants it. */
static int side_of(double x, double y) { return (fabs(x) > fabs(y)) - (fabs(x) < fabs(y)); }

uint32_t gcn_approximate(uint32_t x, enum gcn_approximation what, uint64_t seed)
{
    /*
     * v_exp and v_log take subnormal numbers for zeros. Of the others LLVM says that they do not handle them,
     * and no text says what they do, so the seed draws it.
     */
    const bool flushes = what == GCN_EXP || what == GCN_LOG || (seed && mix(seed) & 1);
    if (flushes && is_subnormal(x)) x &= 0x80000000;
    if ((x & 0x7fffffff) > 0x7f800000) return x | 0x400000;
    /*
     * LLVM's divisions come out right whatever this error is, except where the denominator's mantissa has
     * only ones: Newton's step cannot mend that reciprocal (Markstein). AMD says that divisions come out
     * right.
     */
    if (what == GCN_RCP && (x & 0x7fffff) == 0x7fffff) seed = 0;
    const double wanted = exact((double)float_of(x), what);
    const float r = (float)wanted;
    if (r != r) return 0x7fc00000;
    uint32_t bits = bits_of(r);
    if (flushes && is_subnormal(bits)) bits &= 0x80000000;
    const uint32_t result = disturb(bits, side_of(wanted, (double)r), x, what, seed, 0x7f800000);
    return flushes && is_subnormal(result) ? bits : result;
}

static uint32_t from_half(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
    if (rest >= 0x0f800000) return sign | rest | 0x7f800000 | (rest > 0x0f800000 ? 0x400000 : 0);
    return bits_of(float_of(rest) * float_of(0x77800000)) | sign;
}

/* To nearest, from a double. */
static uint32_t to_half(double x)
{
    const uint32_t sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs(x);
    if (a != a) return sign | 0x7e00;
    if (a >= 65520) return sign | 0x7c00;
    int e;
    frexp(a, &e);
    const int unit = (e < -13 ? -13 : e) - 11; /* the exponent of the last place */
    const uint32_t n = (uint32_t)nearbyint(ldexp(a, -unit));
    if (n < 1024) return sign | n;
    return sign | (((uint32_t)(unit + 24) << 10) + n);
}

uint32_t gcn_approximate_16(uint32_t x, enum gcn_approximation what, uint64_t seed)
{
    x &= 0xffff;
    if ((x & 0x7fff) > 0x7c00) return x | 0x200;
    const double r = exact((double)float_of(from_half(x)), what);
    const uint32_t rounded = r != r ? 0x7e00 : to_half(r);
    return disturb(rounded, side_of(r, (double)float_of(from_half(rounded))), x, what, seed, 0x7c00);
}

/* ---- sums that are rounded twice ---- */

/* p + q, rounded to odd: a second rounding, to a shorter number, is then right. */
static double odd_sum(double p, double q)
{
    union {
        double d;
        uint64_t w;
    } u = { p + q };
    const double sum = u.d, t = sum - p, lost = (p - (sum - t)) + (q - t);
    if (isfinite(sum) && lost != 0 && !(u.w & 1)) u.w += (lost > 0) == (sum > 0) ? 1 : (uint64_t)-1;
    return u.d;
}

/* The product is exact in f64. */
uint32_t gcn_fused_16(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t x = from_half(a & 0xffff), y = from_half(b & 0xffff), z = from_half(c & 0xffff);
    const uint32_t all[3] = { x, y, z };
    for (int i = 0; i < 3; i++)
        if ((all[i] & 0x7fffffff) > 0x7f800000)
            return (all[i] >> 16 & 0x8000) | (all[i] >> 13 & 0x3ff) | 0x7e00;
    const double sum = odd_sum((double)float_of(x) * (double)float_of(y), (double)float_of(z));
    return sum != sum ? 0x7e00 : to_half(sum);
}

/* ---- divisions ---- */

static int exponent(uint32_t x) { return (int)(x >> 23 & 255); }

/* Whether a number is subnormal as an f32, or too small for that. */
static bool is_tiny(double x) { return x != 0 && fabs(x) < 0x1p-126; }

/*
 * AMD's description has 64 in place of -64 where both the inverse and the quotient are tiny, and 2^32 in
 * v_div_fmas_f32. Neither gives a right quotient. Here a quotient that was scaled up by 2^64, which is below
 * 2^0, is scaled down again, and the other way round.
 */
/* v_div_scale_f32. `s0` is the numerator or the denominator, s1 the denominator, s2 the numerator. */
uint32_t gcn_division_scale(uint32_t s0, uint32_t s1, uint32_t s2, uint32_t *scaled)
{
    const float denominator = float_of(s1), numerator = float_of(s2), x = float_of(s0);
    const float up = ldexpf(x, 64), down = ldexpf(x, -64);
    *scaled = 0;
    if (numerator == 0 || denominator == 0) return 0x7fc00000;
    const bool tiny_inverse = is_tiny(1.0 / (double)denominator);
    const bool tiny_quotient = is_tiny((double)numerator / (double)denominator);
    if (exponent(s2) - exponent(s1) >= 96) {
        *scaled = 1;
        return s0 == s1 ? bits_of(up) : s0;
    }
    if (is_subnormal(s1)) return bits_of(up);
    /* the documents scale up here, but then no large denominator would have a quotient */
    if (tiny_inverse && tiny_quotient) {
        *scaled = 1;
        return s0 == s1 ? bits_of(down) : s0;
    }
    if (tiny_inverse) return bits_of(down);
    if (tiny_quotient) {
        *scaled = 1;
        return s0 == s2 ? bits_of(up) : s0;
    }
    return exponent(s2) <= 23 ? bits_of(up) : s0;
}

/*
 * v_div_fmas_f32, where v_div_scale_f32 has scaled: a b + c times 2^64, or 2^-64 if the quotient c was made
 * large. It is rounded once, also if it is subnormal.
 */
float gcn_division_end(float a, float b, float c)
{
    return (float)(odd_sum((double)a * (double)b, (double)c)
                   * (exponent(bits_of(c)) > 127 ? 0x1p64 : 0x1p-64));
}

/* v_div_fixup_f32: the quotient s0 of the numerator s2 and the denominator s1, with the unusual cases. */
uint32_t gcn_division_fixup(uint32_t s0, uint32_t s1, uint32_t s2)
{
    const uint32_t sign = (s1 ^ s2) & 0x80000000, denominator = s1 & 0x7fffffff, numerator = s2 & 0x7fffffff;
    if (numerator > 0x7f800000) return s2 | 0x400000;
    if (denominator > 0x7f800000) return s1 | 0x400000;
    if ((!denominator && !numerator) || (denominator == 0x7f800000 && numerator == 0x7f800000))
        return 0xffc00000;
    if (!denominator || numerator == 0x7f800000) return sign | 0x7f800000;
    if (denominator == 0x7f800000 || !numerator) return sign;
    if (exponent(s2) - exponent(s1) < -150) return sign;
    /* AMD's text lets a NaN through. The estimate of a quotient that overflows is one; it is infinity. */
    if ((s0 & 0x7fffffff) > 0x7f800000) return sign | 0x7f800000;
    return sign | (s0 & 0x7fffffff);
}
