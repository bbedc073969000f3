/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is rare or moves data: conversions (PTX ISA, "cvt"), registers in braces, parameters, and one lane's
 * elements between registers and memory.
 */
#include "emulate/cuda/ptx_run.h"

#include <math.h>
#include <string.h>

uint64_t ptx_register(char *const bases[2], ptx_operand operand, bool wide, int lane)
{
    const union ptx_slot *slot = ptx_at(bases, operand);
    return wide ? slot->q[lane] : slot->w[lane];
}

/* Write bits that are already extended to 64. */
static void put(char *const bases[2], ptx_operand operand, bool wide, bool is_16, int lane, uint64_t bits)
{
    union ptx_slot *slot = ptx_at(bases, operand);
    if (wide)
        slot->q[lane] = bits;
    else
        slot->w[lane] = is_16 ? (uint16_t)bits : (uint32_t)bits;
}

/* The lower bits that a type has, with zeros or its sign in front. */
static uint64_t extend(uint64_t bits, enum ptx_type type)
{
    const uint32_t n = 64 - 8 * ptx_type_bytes(type);
    return ptx_type_signed(type) ? (uint64_t)((int64_t)(bits << n) >> n) : bits << n >> n;
}

static __int128 greatest(enum ptx_type type)
{
    return ((__int128)1 << (8 * ptx_type_bytes(type) - ptx_type_signed(type))) - 1;
}
static __int128 smallest(enum ptx_type type) { return ptx_type_signed(type) ? -greatest(type) - 1 : 0; }

static __int128 value_of(uint64_t bits, enum ptx_type type)
{
    return ptx_type_signed(type) ? (__int128)(int64_t)bits : (__int128)bits;
}

static float integral_of(float x, enum ptx_rounding mode)
{
    switch (mode) {
    case PTX_RN: return rintf(x);
    case PTX_RZ: return truncf(x);
    case PTX_RM: return floorf(x);
    default: return ceilf(x);
    }
}

/* Too large values become the nearest that the type has. */
static uint64_t integer_of_float(float x, enum ptx_type type, enum ptx_rounding mode)
{
    if (x != x) return ptx_type_bytes(type) == 8 ? (uint64_t)1 << 63 : 0;
    x = integral_of(x, mode);
    if (x >= 0x1p64f) return (uint64_t)greatest(type);
    if (x < -0x1p63f) return (uint64_t)smallest(type);
    const __int128 value = (__int128)x;
    if (value > greatest(type)) return (uint64_t)greatest(type);
    return value < smallest(type) ? (uint64_t)smallest(type) : (uint64_t)value;
}

static float float_of_integer(__int128 value, enum ptx_rounding mode)
{
    float x = (float)value;
    const __int128 rounded = (__int128)x;
    const bool down = mode == PTX_RM || (mode == PTX_RZ && value > 0);
    const bool up = mode == PTX_RP || (mode == PTX_RZ && value < 0);
    if (down && rounded > value) x = nextafterf(x, -INFINITY);
    if (up && rounded < value) x = nextafterf(x, INFINITY);
    return x;
}

void ptx_cvt(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes)
{
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        const uint64_t bits = ptx_register(bases, I->a, I->wide_from, lane);
        float x;
        memcpy(&x, &(uint32_t){ (uint32_t)bits }, sizeof x);
        uint64_t result;
        if (I->type == PTX_F32) {
            if (I->from == PTX_F32)
                x = I->integral ? integral_of(x, I->mode) : x;
            else
                x = float_of_integer(value_of(extend(bits, I->from), I->from), I->mode);
            if (I->saturate) x = x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f;
            uint32_t w = 0x7fffffff;
            if (x == x) memcpy(&w, &x, sizeof w);
            result = w;
        } else if (I->from == PTX_F32) {
            result = extend(integer_of_float(x, I->type, I->mode), I->type);
        } else {
            __int128 value = value_of(extend(bits, I->from), I->from);
            if (I->saturate && value > greatest(I->type)) value = greatest(I->type);
            if (I->saturate && value < smallest(I->type)) value = smallest(I->type);
            result = extend((uint64_t)value, I->type);
        }
        put(bases, I->d[0], I->wide, I->has_q, lane, result);
    }
}

void ptx_pack(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes)
{
    const uint32_t bits = 8 * ptx_type_bytes(I->type);
    for (int lane = 0; lane < PTX_LANES; lane++) {
        uint64_t all = 0;
        for (int i = I->vector - 1; i >= 0; i--)
            all = all << bits | ptx_register(bases, I->d[i], false, lane);
        if (lanes >> lane & 1) put(bases, I->a, I->wide, false, lane, all);
    }
}

void ptx_unpack(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes)
{
    const uint32_t bits = 8 * ptx_type_bytes(I->type);
    for (int lane = 0; lane < PTX_LANES; lane++) {
        if (!(lanes >> lane & 1)) continue;
        uint64_t all = ptx_register(bases, I->a, I->wide, lane);
        for (int i = 0; i < I->vector; i++, all >>= bits) put(bases, I->d[i], false, bits == 16, lane, all);
    }
}

static uint64_t read_bits(const unsigned char *memory, uint32_t bytes)
{
    uint64_t bits = 0;
    memcpy(&bits, memory, bytes); /* the host is little-endian, as a GPU is */
    return bits;
}

void ptx_load_parameter(const struct ptx_instruction *I, char *const bases[2], uint32_t lanes,
                        const unsigned char *parameters)
{
    const uint32_t bytes = ptx_type_bytes(I->type);
    for (int i = 0; i < I->vector; i++) {
        const uint64_t bits = extend(read_bits(parameters + I->offset + i * (int64_t)bytes, bytes), I->type);
        union ptx_slot *slot = ptx_at(bases, I->d[i]);
        if (I->wide) {
            PTX_EACH_LANE slot->q[l] = lanes >> l & 1 ? bits : slot->q[l];
        } else {
            const uint32_t w = I->wide_from ? (uint16_t)bits : (uint32_t)bits;
            PTX_EACH_LANE slot->w[l] = lanes >> l & 1 ? w : slot->w[l];
        }
    }
}

static uint64_t combine(enum ptx_atom what, enum ptx_type type, uint64_t old, uint64_t b, uint64_t c)
{
    const bool less = value_of(extend(b, type), type) < value_of(extend(old, type), type);
    switch (what) {
    case PTX_A_ADD: return old + b;
    case PTX_A_MIN: return less ? b : old;
    case PTX_A_MAX: return less ? old : b;
    case PTX_A_AND: return old & b;
    case PTX_A_OR: return old | b;
    case PTX_A_XOR: return old ^ b;
    case PTX_A_EXCH: return b;
    default: return old == b ? c : old;
    }
}

static uint64_t add_floats(uint64_t old, uint64_t b)
{
    const uint32_t words[2] = { (uint32_t)old, (uint32_t)b };
    float x[2], sum;
    uint32_t bits = 0x7fffffff;
    memcpy(x, words, sizeof x);
    sum = x[0] + x[1];
    if (sum == sum) memcpy(&bits, &sum, sizeof bits);
    return bits;
}

void ptx_move(const struct ptx_instruction *I, char *const bases[2], int lane, uint32_t bytes,
              unsigned char *memory)
{
    if (I->kind == PTX_ATOM) {
        const uint64_t old = read_bits(memory, bytes), b = ptx_register(bases, I->b, I->wide, lane);
        const uint64_t c = ptx_register(bases, I->c, I->wide, lane);
        const uint64_t now = I->type == PTX_F32 ? add_floats(old, b) : combine(I->mode, I->type, old, b, c);
        memcpy(memory, &now, bytes);
        if (I->has_d) put(bases, I->d[0], I->wide, false, lane, old);
        return;
    }
    for (int i = 0; i < I->vector; i++, memory += bytes) {
        if (I->kind == PTX_STORE) {
            const uint64_t bits = ptx_register(bases, I->d[i], I->wide, lane);
            memcpy(memory, &bits, bytes);
        } else {
            put(bases, I->d[i], I->wide, I->wide_from, lane, extend(read_bits(memory, bytes), I->type));
        }
    }
}
