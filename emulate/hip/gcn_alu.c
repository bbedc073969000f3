/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each lane computes alone, from the list of gcn_ops_vector.h. The compiler makes vectors of the lanes.
 *
 * A NaN result of f32 arithmetic is the first operand that is a NaN, made quiet, or 0x7fc00000. The host
 * might keep another operand's bits.
 */
#include "emulate/gpu/floats.h"
#include "emulate/hip/gcn_run.h"

#include <math.h>
#include <string.h>

#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define MOST(a, b) ((a) > (b) ? (a) : (b))

static inline double double_of(uint64_t bits)
{
    union {
        uint64_t w;
        double f;
    } u = { bits };
    return u.f;
}

static inline uint64_t bits_of_64(double x)
{
    union {
        double f;
        uint64_t w;
    } u = { x };
    return u.w;
}

static inline bool is_nan(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }

/* Results of f32 arithmetic with 1, 2 or 3 operands, as bits. */
static inline uint32_t result_1(float x, uint32_t a)
{
    const uint32_t nan = is_nan(a) ? a | 0x400000 : 0x7fc00000;
    return x != x ? nan : bits_of(x);
}
static inline uint32_t result_2(float x, uint32_t a, uint32_t b)
{
    uint32_t nan = is_nan(b) ? b | 0x400000 : 0x7fc00000;
    nan = is_nan(a) ? a | 0x400000 : nan;
    return x != x ? nan : bits_of(x);
}
static inline uint32_t result_3(float x, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t nan = is_nan(c) ? c | 0x400000 : 0x7fc00000;
    nan = is_nan(b) ? b | 0x400000 : nan;
    nan = is_nan(a) ? a | 0x400000 : nan;
    return x != x ? nan : bits_of(x);
}

static inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* v_min_f32 and v_max_f32 of an IEEE wave: a signalling NaN becomes quiet, otherwise the number wins. */
static inline uint32_t choose(uint32_t a, uint32_t b, uint32_t chosen)
{
    const bool signals_a = is_nan(a) && !(a & 0x400000), signals_b = is_nan(b) && !(b & 0x400000);
    uint32_t r = is_nan(b) ? a : chosen;
    r = is_nan(a) ? b : r;
    r = signals_b ? b | 0x400000 : r;
    return signals_a ? a | 0x400000 : r;
}
static inline uint32_t least(uint32_t a, uint32_t b)
{
    const float x = float_of(a), y = float_of(b);
    uint32_t r = x < y ? a : b;
    r = x == y ? a | b : r; /* -0 is less than +0 */
    return choose(a, b, r);
}
static inline uint32_t most(uint32_t a, uint32_t b)
{
    const float x = float_of(a), y = float_of(b);
    uint32_t r = x > y ? a : b;
    r = x == y ? a & b : r;
    return choose(a, b, r);
}
static inline uint32_t middle(uint32_t a, uint32_t b, uint32_t c)
{
    if (is_nan(a) || is_nan(b) || is_nan(c)) return least(least(a, b), c);
    return most(least(a, b), least(most(a, b), c));
}

/* v_mad_f32 and v_mac_f32 flush subnormal operands and results, and round twice. */
static inline uint32_t flushed(uint32_t x) { return x & 0x7f800000 ? x : x & 0x80000000; }
static inline uint32_t flushed_mad(uint32_t a, uint32_t b, uint32_t c)
{
    const float product = float_of(flushed(bits_of(float_of(flushed(a)) * float_of(flushed(b)))));
    return flushed(result_3(product + float_of(flushed(c)), a, b, c));
}

static inline float from_u32(uint32_t x) { return (float)x; }

/* Conversions to integers saturate, and a NaN becomes 0. */
static inline uint32_t to_i32(float x)
{
    const float bounded = x > -2147483648.0f ? x < 2147483520.0f ? x : 2147483520.0f : -2147483648.0f;
    const int32_t i = (int32_t)(x == x ? bounded : 0);
    return x >= 2147483648.0f ? 0x7fffffff : (uint32_t)i;
}
static inline uint32_t to_u32(float x)
{
    const float bounded = x > 0 ? x < 4294967040.0f ? x : 4294967040.0f : 0;
    return x >= 4294967296.0f ? 0xffffffff : (uint32_t)bounded;
}
static inline uint32_t to_i32_64(double x)
{
    return x != x
               ? 0
               : (uint32_t)(int32_t)(x > -2147483648.0 ? x < 2147483647.0 ? x : 2147483647.0 : -2147483648.0);
}
static inline uint32_t to_u32_64(double x)
{
    return (uint32_t)(x > 0 ? x < 4294967295.0 ? x : 4294967295.0 : 0);
}
static inline uint32_t to_u16(float x)
{
    return (uint32_t)(int32_t)(x > 0 ? x < 65535.0f ? x : 65535.0f : 0);
}
static inline uint32_t to_i16(float x)
{
    return (uint32_t)(int32_t)(x == x ? x > -32768.0f ? x < 32767.0f ? x : 32767.0f : -32768.0f : 0);
}

static inline float from_f16(uint32_t h)
{
    const uint32_t sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
    /* the exponent's bias is greater by 112; a product also makes subnormal numbers normal */
    uint32_t bits = bits_of(float_of(rest) * float_of(0x77800000));
    bits = rest >= 0x0f800000 ? rest | 0x7f800000 : bits;
    bits = rest > 0x0f800000 ? bits | 0x400000 : bits;
    return float_of(bits | sign);
}

static inline uint32_t to_f16(float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, u = bits & 0x7fffffff;
    const uint32_t normal = (u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13;
    /* one unit of the sum is one unit of a subnormal f16, so the addition rounds */
    const uint32_t small = bits_of(float_of(u) + 0.5f) - 0x3f000000;
    uint32_t h = u < 0x38800000 ? small : normal;
    h = u >= 0x477ff000 ? 0x7c00 : h;
    h = u > 0x7f800000 ? 0x7e00 | (u >> 13 & 0x3ff) : h;
    return h | sign;
}

/* v_cvt_pkrtz_f16_f32 */
static inline uint32_t toward_zero_16(uint32_t x)
{
    const uint32_t sign = x >> 16 & 0x8000, u = x & 0x7fffffff;
    if (u > 0x7f800000) return sign | 0x7e00 | (u >> 13 & 0x3ff);
    if (u == 0x7f800000) return sign | 0x7c00;
    if (u >= 0x477fe000) return sign | 0x7bff;
    if (u >= 0x38800000) return sign | (u - 0x38000000) >> 13;
    return sign | (uint32_t)(int32_t)(float_of(u) * 16777216.0f);
}

static inline uint32_t half_nan_2(uint32_t a, uint32_t b)
{
    return (a & 0x7fff) > 0x7c00   ? (a & 0xffff) | 0x200
           : (b & 0x7fff) > 0x7c00 ? (b & 0xffff) | 0x200
                                   : 0x7e00;
}
static inline uint32_t add_16(uint32_t a, uint32_t b)
{
    const float x = from_f16(a & 0xffff) + from_f16(b & 0xffff);
    return x != x ? half_nan_2(a, b) : to_f16(x);
}
static inline uint32_t mul_16(uint32_t a, uint32_t b)
{
    const float x = from_f16(a & 0xffff) * from_f16(b & 0xffff);
    return x != x ? half_nan_2(a, b) : to_f16(x);
}
static inline uint32_t choose_16(uint32_t a, uint32_t b, bool want_less)
{
    a &= 0xffff;
    b &= 0xffff;
    const bool nan_a = (a & 0x7fff) > 0x7c00, nan_b = (b & 0x7fff) > 0x7c00;
    const float x = from_f16(a), y = from_f16(b);
    if (nan_a && !(a & 0x200)) return a | 0x200;
    if (nan_b && !(b & 0x200)) return b | 0x200;
    if (nan_a) return b;
    if (nan_b) return a;
    if (x == y) return want_less ? a | b : a & b;
    return (x < y) == want_less ? a : b;
}
static inline uint32_t least_16(uint32_t a, uint32_t b) { return choose_16(a, b, true); }
static inline uint32_t most_16(uint32_t a, uint32_t b) { return choose_16(a, b, false); }
#define fused_16(a, b, c) gcn_fused_16(a, b, c)

static inline float fraction(float x)
{
    const float r = x - floorf(x);
    return r < 1 ? r : x == x && x - x == 0 ? 0x1.fffffep-1f : r;
}

static double scaled_by(double x, int32_t n) { return ldexp(x, n > 4000 ? 4000 : n < -4000 ? -4000 : n); }

static inline uint32_t reverse_32(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
static inline uint32_t sign_bits(uint32_t x)
{
    const uint32_t y = x ^ (uint32_t)((int32_t)x >> 31);
    return y ? (uint32_t)__builtin_clz(y) : ~0u;
}
static inline int64_t signed_24(uint32_t x) { return (int32_t)(x << 8) >> 8; }
static inline uint32_t field_i32(uint32_t x, uint32_t at, uint32_t n)
{
    if (n == 0) return 0;
    const uint32_t r = x >> at & ((1u << n) - 1);
    return (uint32_t)((int32_t)(r << (32 - n)) >> (32 - n));
}
static inline uint32_t saturate_i16(uint32_t x)
{
    const int32_t i = (int32_t)x;
    return (uint32_t)(i > 32767 ? 32767 : i < -32768 ? -32768 : i);
}

static uint32_t frexp_exponent(uint32_t x)
{
    int e = 0;
    if ((x & 0x7f800000) != 0x7f800000) frexpf(float_of(x), &e);
    return (uint32_t)e;
}
static uint32_t frexp_mantissa(uint32_t x)
{
    int e;
    if ((x & 0x7f800000) == 0x7f800000) return is_nan(x) ? x | 0x400000 : x;
    return bits_of(frexpf(float_of(x), &e));
}

static uint32_t permute_bytes(uint32_t a, uint32_t b, uint32_t selection)
{
    const uint64_t both = (uint64_t)a << 32 | b;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t pick = selection >> 8 * i & 255;
        uint32_t byte;
        if (pick >= 13)
            byte = 255;
        else if (pick == 12)
            byte = 0;
        else if (pick >= 8)
            byte = both >> (16 * (pick - 8) + 15) & 1 ? 255 : 0;
        else
            byte = (uint32_t)(both >> 8 * pick) & 255;
        r |= byte << 8 * i;
    }
    return r;
}

/* The bit of v_cmp_class for a number. */
static inline uint32_t class_in(uint32_t magnitude, bool negative, uint32_t infinity, uint32_t quiet)
{
    if (magnitude > infinity) return magnitude & quiet ? 1 : 0;
    if (magnitude == infinity) return negative ? 2 : 9;
    if (magnitude & infinity) return negative ? 3 : 8;
    if (magnitude) return negative ? 4 : 7;
    return negative ? 5 : 6;
}
static inline uint32_t class_of(uint32_t x)
{
    return class_in(x & 0x7fffffff, x >> 31, 0x7f800000, 0x400000);
}
static inline uint32_t class_of_16(uint32_t x) { return class_in(x & 0x7fff, x >> 15 & 1, 0x7c00, 0x200); }

static inline uint32_t approximate(const struct gcn_rows *r, uint32_t x, enum gcn_approximation what)
{
    return gcn_approximate(x, what, r->seed);
}
static inline uint32_t approximate_16(const struct gcn_rows *r, uint32_t x, enum gcn_approximation what)
{
    return gcn_approximate_16(x, what, r->seed);
}

/* Most divisions have operands of ordinary size, and change nothing. */
static inline uint32_t division_scale(uint32_t a, uint32_t b, uint32_t c, uint32_t *scaled)
{
    const int denominator = (int)(b >> 23 & 255), numerator = (int)(c >> 23 & 255);
    const int distance = numerator - denominator;
    if (denominator > 0 && denominator < 252 && numerator > 23 && numerator < 255 && distance < 96
        && distance > -125)
        return a;
    return gcn_division_scale(a, b, c, scaled);
}
static inline uint32_t division_fixup(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t denominator = b >> 23 & 255, numerator = c >> 23 & 255;
    if (denominator - 1 < 254 && numerator - 1 < 254 && numerator + 150 >= denominator
        && (a & 0x7fffffff) <= 0x7f800000)
        return ((b ^ c) & 0x80000000) | (a & 0x7fffffff);
    return gcn_division_fixup(a, b, c);
}

/* ---- the functions ---- */

#define A (r->s[0][l])
#define B (r->s[1][l])
#define C (r->s[2][l])
#define AH (r->s[0][KERNEL_LANES + l])
#define BH (r->s[1][KERNEL_LANES + l])
#define CH (r->s[2][KERNEL_LANES + l])
#define AQ ((uint64_t)AH << 32 | A)
#define BQ ((uint64_t)BH << 32 | B)
#define CQ ((uint64_t)CH << 32 | C)
#define FA float_of(A)
#define FB float_of(B)
#define FC float_of(C)
#define FAH float_of(AH)
#define FBH float_of(BH)
#define FCH float_of(CH)
#define HA from_f16(A & 0xffff)
#define HB from_f16(B & 0xffff)
#define DA double_of(AQ)
#define DB double_of(BQ)
#define DC double_of(CQ)
#define R1(x) result_1(x, A)
#define R2(x) result_2(x, A, B)
#define R3(x) result_3(x, A, B, C)
#define RH2(x) result_2(x, AH, BH)
#define RH3(x) result_3(x, AH, BH, CH)
/* of f16 arithmetic that is computed in f32 */
#define N1(x) float_of(result_1(x, bits_of(HA)))
#define N2(x) float_of(result_2(x, bits_of(HA), bits_of(HB)))
/* a mask is the last source */
#define CIN C
#define CIN_LAST (r->s[3][l])

#define OP(name, signature, kind, ...) OP_##kind(name, signature, __VA_ARGS__)
#define OP_WORD(name, signature, ...)              \
    static void f_##name(const struct gcn_rows *r) \
    {                                              \
        uint32_t *const d = r->d;                  \
        GCN_EACH_LANE                              \
        {                                          \
            uint32_t D;                            \
            __VA_ARGS__;                           \
            d[l] = D;                              \
        }                                          \
    }
#define OP_PAIR(name, signature, ...)                  \
    static void f_##name(const struct gcn_rows *r)     \
    {                                                  \
        uint32_t *const d = r->d;                      \
        GCN_EACH_LANE                                  \
        {                                              \
            uint64_t Q;                                \
            __VA_ARGS__;                               \
            d[l] = (uint32_t)Q;                        \
            d[KERNEL_LANES + l] = (uint32_t)(Q >> 32); \
        }                                              \
    }
#define OP_CARRY(name, signature, ...)             \
    static void f_##name(const struct gcn_rows *r) \
    {                                              \
        uint32_t *const d = r->d;                  \
        unsigned char *const bits = r->bits;       \
        GCN_EACH_LANE                              \
        {                                          \
            uint32_t D, COUT;                      \
            __VA_ARGS__;                           \
            d[l] = D;                              \
            bits[l] = (unsigned char)COUT;         \
        }                                          \
    }
#define OP_PAIR_CARRY(name, signature, ...)            \
    static void f_##name(const struct gcn_rows *r)     \
    {                                                  \
        uint32_t *const d = r->d;                      \
        unsigned char *const bits = r->bits;           \
        GCN_EACH_LANE                                  \
        {                                              \
            uint64_t Q;                                \
            uint32_t COUT;                             \
            __VA_ARGS__;                               \
            d[l] = (uint32_t)Q;                        \
            d[KERNEL_LANES + l] = (uint32_t)(Q >> 32); \
            bits[l] = (unsigned char)COUT;             \
        }                                              \
    }
#define OP_TEST(name, signature, ...)              \
    static void f_##name(const struct gcn_rows *r) \
    {                                              \
        unsigned char *const bits = r->bits;       \
        GCN_EACH_LANE                              \
        {                                          \
            bool T;                                \
            __VA_ARGS__;                           \
            bits[l] = T;                           \
        }                                          \
    }
#include "emulate/hip/gcn_ops_vector.h"
#undef OP

gcn_function *const gcn_functions[GCN_OPS] = {
#define OP(name, ...) [GCN_OP_##name] = f_##name,
#include "emulate/hip/gcn_ops_vector.h"
#undef OP
};
