/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each lane computes alone. The compiler makes vectors of the lanes. NaN results of f32 arithmetic are
 * 0x7fffffff (PTX ISA, "Floating Point Instructions"), where the host would keep a NaN operand's bits.
 */
#include "emulate/cuda/ptx_float.h"
#include "emulate/cuda/ptx_run.h"

#include <string.h>

#define LEAST(a, b) ((a) < (b) ? (a) : (b))
#define PAIR(high, low) ((uint64_t)(high) << 32 | (low))

/* The operand that is a number, if only one is; -0 is less than +0. */
static inline float least(float a, float b)
{
    float less = a < b ? a : b;
    less = a == b ? float_of(bits_of(a) | bits_of(b)) : less;
    less = b != b ? a : less;
    return canonical(a != a ? b : less);
}

static inline float most(float a, float b)
{
    float more = a > b ? a : b;
    more = a == b ? float_of(bits_of(a) & bits_of(b)) : more;
    more = b != b ? a : more;
    return canonical(a != a ? b : more);
}

static inline float or_nan(float a, float b, float x) { return a != a || b != b ? float_of(0x7fffffff) : x; }

static inline uint16_t to_f16(float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, u = bits & 0x7fffffff;
    const uint32_t normal = (u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13;
    /* one unit of the sum is one unit of a subnormal f16, so the addition rounds */
    const uint32_t small = bits_of(float_of(u) + 0.5f) - 0x3f000000;
    uint32_t h = u < 0x38800000 ? small : normal;
    h = u >= 0x477ff000 ? 0x7c00 : h;
    return (uint16_t)(u > 0x7f800000 ? 0x7fff : h | sign);
}

static inline uint32_t bf16_bits(uint32_t h) { return h << 16; }
static inline uint32_t to_bf16(uint32_t u)
{
    const uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded;
}

static inline uint64_t insert_64(uint64_t a, uint64_t b, uint32_t position, uint32_t length)
{
    if (position > 63 || length == 0) return b;
    const uint64_t mask = (length > 63 ? ~(uint64_t)0 : ((uint64_t)1 << length) - 1) << position;
    return (b & ~mask) | (a << position & mask);
}
static inline uint32_t insert_32(uint32_t a, uint32_t b, uint32_t position, uint32_t length)
{
    return (uint32_t)insert_64(a, b, position, length);
}

static inline uint64_t extract_u(uint64_t a, uint32_t width, uint32_t position, uint32_t length)
{
    if (position >= width || length == 0) return 0;
    const uint64_t field = a >> position;
    return length > 63 ? field : field & (((uint64_t)1 << length) - 1);
}

static inline uint64_t extract_s(uint64_t a, uint32_t width, uint32_t position, uint32_t length)
{
    if (length == 0) return 0;
    uint32_t sign_at = position + length - 1;
    if (sign_at > width - 1) sign_at = width - 1;
    const uint64_t sign = a >> sign_at & 1, field = extract_u(a, width, position, length);
    const uint32_t kept = position >= width ? 0 : LEAST(length, width - position);
    const uint64_t above = kept > 63 ? 0 : ~(uint64_t)0 << kept;
    return sign ? field | above : field;
}

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t selection)
{
    const uint64_t both = PAIR(b, a);
    uint32_t d = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t pick = selection >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(both >> (8 * (pick & 7))) & 255;
        if (pick & 8) byte = byte & 0x80 ? 255 : 0;
        d |= byte << (8 * i);
    }
    return d;
}

static inline uint32_t table_of_3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t d = 0;
    for (uint32_t i = 0; i < 8; i++)
        if (table >> i & 1) d |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return d;
}

/* Swap halves, then the halves of those, down to single bits. */
static inline uint64_t reverse(uint64_t a)
{
    a = a >> 32 | a << 32;
    a = (a >> 16 & 0x0000ffff0000ffff) | (a & 0x0000ffff0000ffff) << 16;
    a = (a >> 8 & 0x00ff00ff00ff00ff) | (a & 0x00ff00ff00ff00ff) << 8;
    a = (a >> 4 & 0x0f0f0f0f0f0f0f0f) | (a & 0x0f0f0f0f0f0f0f0f) << 4;
    a = (a >> 2 & 0x3333333333333333) | (a & 0x3333333333333333) << 2;
    return (a >> 1 & 0x5555555555555555) | (a & 0x5555555555555555) << 1;
}

#define P(C) (predicate >> l & 1)
#define OP(name, text, signature, field, expression)                                        \
    static void name(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes) \
    {                                                                                       \
        union ptx_slot *D = ptx_at(bases, I->d[0]);                                         \
        const union ptx_slot *A = ptx_at(bases, I->a), *B = ptx_at(bases, I->b);            \
        const union ptx_slot *C = ptx_at(bases, I->c), *E = ptx_at(bases, I->e);            \
        const uint32_t predicate = *(const uint32_t *)ptx_at(bases, I->c);                  \
        (void)B, (void)C, (void)E, (void)predicate;                                         \
        if (lanes == PTX_ALL_LANES) {                                                       \
            PTX_EACH_LANE D->field[l] = (expression);                                       \
        } else {                                                                            \
            PTX_EACH_LANE D->field[l] = lanes >> l & 1 ? (expression) : D->field[l];        \
        }                                                                                   \
    }
#include "emulate/cuda/ptx_ops.h"
#undef OP

ptx_alu_function *const ptx_alu[PTX_N_OPS] = {
#define OP(name, ...) name,
#include "emulate/cuda/ptx_ops.h"
#undef OP
};

#define COMPARE(name, T, field, holds)                                     \
    static uint32_t name(const union ptx_slot *A, const union ptx_slot *B) \
    {                                                                      \
        uint32_t r = 0;                                                    \
        for (int l = 0; l < PTX_LANES; l++) {                              \
            const T a = (T)A->field[l], b = (T)B->field[l];                \
            r |= (uint32_t)(holds) << l;                                   \
        }                                                                  \
        return r;                                                          \
    }
#define COMPARE_INTEGERS(type, T, field) \
    COMPARE(eq_##type, T, field, a == b) \
    COMPARE(ne_##type, T, field, a != b) \
    COMPARE(lt_##type, T, field, a < b)  \
    COMPARE(le_##type, T, field, a <= b) \
    COMPARE(gt_##type, T, field, a > b)  \
    COMPARE(ge_##type, T, field, a >= b)
COMPARE_INTEGERS(u16, uint16_t, w)
COMPARE_INTEGERS(s16, int16_t, w)
COMPARE_INTEGERS(u32, uint32_t, w)
COMPARE_INTEGERS(s32, int32_t, i)
COMPARE_INTEGERS(u64, uint64_t, q)
COMPARE_INTEGERS(s64, int64_t, l)
COMPARE(eq_f32, float, f, a == b)
COMPARE(ne_f32, float, f, a<b || a> b)
COMPARE(lt_f32, float, f, a < b)
COMPARE(le_f32, float, f, a <= b)
COMPARE(gt_f32, float, f, a > b)
COMPARE(ge_f32, float, f, a >= b)
COMPARE(equ_f32, float, f, !(a < b || a > b))
COMPARE(neu_f32, float, f, a != b)
COMPARE(ltu_f32, float, f, !(a >= b))
COMPARE(leu_f32, float, f, !(a > b))
COMPARE(gtu_f32, float, f, !(a <= b))
COMPARE(geu_f32, float, f, !(a < b))
COMPARE(num_f32, float, f, a == a && b == b)
COMPARE(nan_f32, float, f, a != a || b != b)

uint32_t ptx_compare(const struct ptx_instruction *I, char *const bases[2])
{
#define ORDER(type)                                                      \
    {                                                                    \
        eq_##type, ne_##type, lt_##type, le_##type, gt_##type, ge_##type \
    }
    static uint32_t (*const functions[PTX_N_TYPES][PTX_N_COMPARES])(const union ptx_slot *,
                                                                    const union ptx_slot *) = {
        [PTX_U16] = ORDER(u16),
        [PTX_S16] = ORDER(s16),
        [PTX_U32] = ORDER(u32),
        [PTX_S32] = ORDER(s32),
        [PTX_U64] = ORDER(u64),
        [PTX_S64] = ORDER(s64),
        [PTX_F32] = { eq_f32, ne_f32, lt_f32, le_f32, gt_f32, ge_f32, equ_f32, neu_f32, ltu_f32, leu_f32,
                      gtu_f32, geu_f32, num_f32, nan_f32 }
    };
    return functions[I->type][I->mode](ptx_at(bases, I->a), ptx_at(bases, I->b));
}
