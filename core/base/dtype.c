/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types and conversions of single values: round to nearest even, NaN stays NaN, and subnormals are
 * kept.
 */
#include "core/base/base.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name, *alias;
    size_t bytes;
} table[YOKE_N_DTYPES] = {
    [YOKE_F32] = { "f32", "fp32", 4 },       [YOKE_F16] = { "f16", "fp16", 2 },
    [YOKE_BF16] = { "bf16", "bfloat16", 2 }, [YOKE_F64] = { "f64", "fp64", 8 },
    [YOKE_I32] = { "i32", "int32", 4 },      [YOKE_I64] = { "i64", "int64", 8 },
    [YOKE_I8] = { "i8", "int8", 1 },         [YOKE_U8] = { "u8", "uint8", 1 },
};

size_t yoke_dtype_bytes(yoke_dtype dtype) { return (unsigned)dtype < YOKE_N_DTYPES ? table[dtype].bytes : 0; }

const char *yoke_dtype_name(yoke_dtype dtype)
{
    return (unsigned)dtype < YOKE_N_DTYPES ? table[dtype].name : "?";
}

yoke_status yoke_dtype_parse(const char *name, yoke_dtype *dtype_out)
{
    if (!name || !dtype_out) return yoke_fail(YOKE_EINVAL, "yoke_dtype_parse: a NULL argument");
    for (int d = 0; d < YOKE_N_DTYPES; d++)
        if (!strcasecmp(name, table[d].name) || !strcasecmp(name, table[d].alias)) {
            *dtype_out = (yoke_dtype)d;
            return YOKE_OK;
        }
    return yoke_fail(YOKE_EINVAL, "unknown data type '%s': one of f32, f16, bf16, f64, i32, i64, i8, u8",
                     name);
}

static uint64_t f64_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/*
 * Round a double to a 16-bit format with `mantissa` stored bits and exponent bias `bias`, to nearest even, in
 * one rounding.
 */
static uint16_t narrow(double x, int mantissa, int bias)
{
    const uint64_t u = f64_bits(x);
    const uint16_t sign = (uint16_t)((u >> 63) << 15);
    const int exponent_bits = 15 - mantissa;
    const uint16_t infinity = (uint16_t)(((1u << exponent_bits) - 1u) << mantissa);
    if (isnan(x)) /* make NaN quiet; the upper bits of the payload stay */
        return (uint16_t)(sign | infinity | (1u << (mantissa - 1))
                          | ((u >> (52 - mantissa)) & ((1u << (mantissa - 1)) - 1u)));
    if (isinf(x)) return (uint16_t)(sign | infinity);
    const int e = (int)((u >> 52) & 0x7ff);
    if (e == 0) return sign; /* the subnormals of a double are far below half of any subnormal here */
    const int exponent = e - 1023 + bias;
    const uint64_t significand = (u & 0xfffffffffffffULL) | (1ULL << 52);
    int drop = 52 - mantissa;
    uint64_t base = 0;
    if (exponent <= 0)
        drop += 1 - exponent; /* a subnormal result keeps fewer bits */
    else
        base = (uint64_t)(exponent - 1) << mantissa; /* the implicit bit adds the last 1 to the exponent */
    if (drop > 54) return sign;
    const uint64_t half = 1ULL << (drop - 1), rest = significand & ((1ULL << drop) - 1);
    uint64_t kept = significand >> drop;
    if (rest > half || (rest == half && (kept & 1))) kept++;
    const uint64_t result = base + kept;
    return (uint16_t)(sign | (result >= infinity ? infinity : result));
}

static uint16_t f64_to_f16(double x) { return narrow(x, 10, 15); }
static uint16_t f64_to_bf16(double x) { return narrow(x, 7, 127); }
uint16_t yokei_f32_to_f16(float x) { return narrow((double)x, 10, 15); }

float yokei_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = (h >> 10) & 31u;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 31)
        return yokei_bits_f32(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
    if (exponent) return yokei_bits_f32(sign | ((exponent + 112u) << 23) | (mantissa << 13));
    if (!mantissa) return yokei_bits_f32(sign);
    const float value = (float)mantissa * 0x1p-24f;
    return sign ? -value : value;
}

double yokei_load(yoke_dtype dtype, const void *array, int64_t index)
{
    switch (dtype) {
    case YOKE_F32: return ((const float *)array)[index];
    case YOKE_F16: return yokei_f16_to_f32(((const uint16_t *)array)[index]);
    case YOKE_BF16: return yokei_bf16_to_f32(((const uint16_t *)array)[index]);
    case YOKE_F64: return ((const double *)array)[index];
    case YOKE_I32: return ((const int32_t *)array)[index];
    case YOKE_I64: return (double)((const int64_t *)array)[index];
    case YOKE_I8: return ((const int8_t *)array)[index];
    case YOKE_U8: return ((const uint8_t *)array)[index];
    default: return NAN;
    }
}

void yokei_store(yoke_dtype dtype, void *array, int64_t index, double value)
{
    switch (dtype) {
    case YOKE_F32: ((float *)array)[index] = (float)value; break;
    case YOKE_F16: ((uint16_t *)array)[index] = f64_to_f16(value); break;
    case YOKE_BF16: ((uint16_t *)array)[index] = f64_to_bf16(value); break;
    case YOKE_F64: ((double *)array)[index] = value; break;
    case YOKE_I32: ((int32_t *)array)[index] = (int32_t)value; break;
    case YOKE_I64: ((int64_t *)array)[index] = (int64_t)value; break;
    case YOKE_I8: ((int8_t *)array)[index] = (int8_t)value; break;
    case YOKE_U8: ((uint8_t *)array)[index] = (uint8_t)value; break;
    default: break;
    }
}

double yokei_unit_roundoff(yoke_dtype dtype)
{
    switch (dtype) {
    case YOKE_F32: return 0x1p-24;
    case YOKE_F16: return 0x1p-11;
    case YOKE_BF16: return 0x1p-8;
    case YOKE_F64: return 0x1p-53;
    default: return 0;
    }
}

double yokei_underflow(yoke_dtype dtype)
{
    switch (dtype) {
    case YOKE_F32: return 0x1p-150;
    case YOKE_F16: return 0x1p-25;
    case YOKE_BF16: return 0x1p-134;
    case YOKE_F64: return 0x1p-1074;
    default: return 0;
    }
}

static void widen_f32(yoke_dtype from, const void *source, float *target, size_t n)
{
    const uint16_t *h = source;
    if (from == YOKE_BF16)
        for (size_t i = 0; i < n; i++) target[i] = yokei_bf16_to_f32(h[i]);
    else
        for (size_t i = 0; i < n; i++) target[i] = yokei_f16_to_f32(h[i]);
}

void yoke_convert(yoke_dtype from, const void *source, yoke_dtype to, void *target, size_t n)
{
    if (from == to) {
        memmove(target, source, n * yoke_dtype_bytes(from));
    } else if (to == YOKE_F32 && (from == YOKE_BF16 || from == YOKE_F16)) {
        widen_f32(from, source, target, n);
    } else if (from == YOKE_F32 && to == YOKE_BF16) {
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)target)[i] = yokei_f32_to_bf16(((const float *)source)[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            yokei_store(to, target, (int64_t)i, yokei_load(from, source, (int64_t)i));
    }
}
