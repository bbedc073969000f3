/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the functions that backends/gpu/prelude/common.yk computes by formula with double precision. They
 * are compiled as C with a prelude that is below. Each must keep the bound that common.yk states, over every
 * 509th float (YOKE_SOAK=1: every float). Prints TAP.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the dialect in C: a vector is GCC's, an fma is a sum in double, rounded once more ---- */
#define YK_DTYPE 0
#define YK_OUT_DTYPE 0
#define YK_L 1
#define YK_W 16
#define YK_G 1
#define YK_CPU 1
#define YK_FN static inline __attribute__((unused))
#define YK_GLOBAL
typedef int64_t yk_long;
typedef uint32_t yk_uint, yk_uvec1;
typedef uint64_t yk_ulong;
typedef float yk_f32;
typedef uint16_t yk_f16, yk_bf16;
typedef float yk_vec16 __attribute__((vector_size(64)));
typedef uint32_t yk_uvec16 __attribute__((vector_size(64)));
typedef int32_t yk_ivec16 __attribute__((vector_size(64)));
typedef uint64_t yk_ulvec16 __attribute__((vector_size(128)));
typedef double yk_dvec16 __attribute__((vector_size(128)));

YK_FN uint32_t yk_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
YK_FN float yk_unbits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
YK_FN float yk_splat1(float x) { return x; }
YK_FN float yk_fma1(float a, float b, float c) { return (float)((double)a * b + c); }
YK_FN float yk_abs1(float x) { return fabsf(x); }
YK_FN float yk_less1(float a, float b, float x, float y) { return a < b ? x : y; }
YK_FN float yk_max1(float a, float b) { return a > b || a != a ? a : b; }
YK_FN float yk_shifted_power21(float t) { return yk_unbits(yk_bits(t) << 23); }
YK_FN float yk_exponent1(float x) { return (float)((int)(yk_bits(x) >> 23) - 126); }
YK_FN float yk_fraction1(float x) { return yk_unbits((yk_bits(x) & 0x7fffffu) | 0x3f000000u); }
YK_FN yk_vec16 yk_splat16(float x) { return x - (yk_vec16){ 0 }; }
YK_FN yk_vec16 yk_fma16(yk_vec16 a, yk_vec16 b, yk_vec16 c)
{
    return __builtin_convertvector(__builtin_convertvector(a, yk_dvec16)
                                           * __builtin_convertvector(b, yk_dvec16)
                                       + __builtin_convertvector(c, yk_dvec16),
                                   yk_vec16);
}
YK_FN yk_vec16 yk_abs16(yk_vec16 x) { return (yk_vec16)((yk_uvec16)x & 0x7fffffffu); }
YK_FN yk_vec16 yk_less16(yk_vec16 a, yk_vec16 b, yk_vec16 x, yk_vec16 y)
{
    const yk_ivec16 m = a < b;
    return (yk_vec16)((m & (yk_ivec16)x) | (~m & (yk_ivec16)y));
}
YK_FN yk_vec16 yk_shifted_power216(yk_vec16 t) { return (yk_vec16)((yk_uvec16)t << 23); }
YK_FN yk_vec16 yk_exponent16(yk_vec16 x)
{
    return __builtin_convertvector((yk_ivec16)((yk_uvec16)x >> 23) - 126, yk_vec16);
}
YK_FN yk_vec16 yk_fraction16(yk_vec16 x) { return (yk_vec16)(((yk_uvec16)x & 0x7fffffu) | 0x3f000000u); }
YK_FN yk_vec16 yk_from16(const float *t)
{
    yk_vec16 v;
    memcpy(&v, t, 64);
    return v;
}
YK_FN void yk_to16(yk_vec16 v, float *t) { memcpy(t, &v, 64); }
#define yk_widen_u1(x) ((uint64_t)(x))
#define yk_narrow_u1(x) ((uint32_t)(x))
#define yk_lower1(x) ((x)&0xffffffffu)
#define yk_splat_u1(x) (x)
#define yk_widen_u16(x) __builtin_convertvector(x, yk_ulvec16)
#define yk_narrow_u16(x) __builtin_convertvector(x, yk_uvec16)
#define yk_lower16(x) ((x)&0xffffffffu)
#define yk_splat_u16(x) ((x) - (yk_uvec16){ 0 })
#define NO_STORAGE(S)                                                                            \
    YK_FN float yk_load1_##S(const yk_##S *p, yk_long i) { return (float)p[i]; }                 \
    YK_FN void yk_store1_##S(yk_##S *p, yk_long i, float x) { p[i] = (yk_##S)x; }                \
    YK_FN yk_vec16 yk_load16_##S(const yk_##S *p, yk_long i) { return yk_splat16((float)p[i]); } \
    YK_FN void yk_store16_##S(yk_##S *p, yk_long i, yk_vec16 v) { p[i] = (yk_##S)v[0]; }
NO_STORAGE(f32) /* loads and stores are not looked at here */
NO_STORAGE(f16)
NO_STORAGE(bf16)
#include "backends/gpu/prelude/common.yk"

/* ---- functions, what they should be, and how far they may be off ---- */
static const double u32 = 0x1p-24;
static float shift_c; /* the shift of the row functions */

static yk_vec16 row_term(yk_vec16 x) { return yk_row_term16(x, shift_c); }
static double row_exact(double x) { return exp(x - shift_c / (double)YK_LOG2_E); }
static double exp_bound(double x, double wanted)
{
    (void)x;
    return wanted > 0x1p127 * 1.414 ? INFINITY : 3 * u32 * wanted + 0x1p-126;
}
static double row_bound(double x, double wanted)
{
    return wanted > 0x1p127 * 1.414
               ? INFINITY
               : (3 + 0.23 * fabs(x - shift_c / (double)YK_LOG2_E)) * u32 * wanted + 0x1p-126;
}
static double log_bound(double x, double wanted)
{
    (void)x;
    return 2 * u32 * fabs(wanted);
}
static yk_vec16 exp_16(yk_vec16 x) { return yk_exp16(x); }
static yk_vec16 exp2_16(yk_vec16 x) { return yk_exp216(x); }
static yk_vec16 log_16(yk_vec16 x) { return yk_log16(x); }

struct function {
    const char *name;
    yk_vec16 (*function)(yk_vec16 x);
    double (*exact)(double x);
    double (*bound)(double x, double wanted);
    float least, most, c; /* finite arguments that are looked at */
};
static const struct function functions[] = {
    { "exp", exp_16, exp, exp_bound, -3.4e38f, 3.4e38f, 0 },
    { "exp2", exp2_16, exp2, exp_bound, -3.4e38f, 3.4e38f, 0 },
    { "log", log_16, log, log_bound, 0, 3.4e38f, 0 },
    { "row_term, c = 0", row_term, row_exact, row_bound, -3.4e38f, 3.4e38f, 0 },
    { "row_term, c = 17", row_term, row_exact, row_bound, -3.4e38f, 3.4e38f, 17 },
    { "row_term, c = -1000", row_term, row_exact, row_bound, -3.4e38f, 3.4e38f, -1000 },
    { "row_term, c = 94548", row_term, row_exact, row_bound, -3.4e38f, 3.4e38f, 94548 },
    { "row_term, c = -94548", row_term, row_exact, row_bound, -3.4e38f, 3.4e38f, -94548 },
};

static int n_lines, n_bad;
static void report(bool ok, const char *what, const char *name, double worst)
{
    n_bad += !ok;
    printf("%sok %d - %s: %s, at most %.3f of the bound\n", ok ? "" : "not ", ++n_lines, name, what, worst);
}

static void bounded(const struct function *f, uint64_t step)
{
    double worst = 0;
    shift_c = f->c;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 16 * step) {
        float x[16], y[16];
        for (int j = 0; j < 16; j++) x[j] = yk_unbits((uint32_t)(u + (uint64_t)j * step));
        yk_to16(f->function(yk_from16(x)), y);
        for (int j = 0; j < 16; j++) {
            if (!(x[j] >= f->least && x[j] <= f->most)) continue;
            const double wanted = f->exact(x[j]), error = y[j] == wanted ? 0 : fabs(y[j] - wanted),
                         bound = f->bound(x[j], wanted);
            if (isinf(bound)
                || isinf(wanted)) { /* too great for f32: infinity, or nearly; or the logarithm of 0 */
                if (wanted < 0 ? y[j] != wanted : !(y[j] > 0x1p126f)) worst = INFINITY;
            } else if (error > 0) {
                worst = fmax(worst, error / bound);
            }
        }
    }
    report(worst <= 1 && worst > 0.05, "floats", f->name, worst);
}

static void special(const struct function *f)
{
    static const uint32_t nans[16] = { 0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff,
                                       0x7fc00081, 0x7fc000ff, 0x7f80007f, 0x7fc00100, 0x7fc00001, 0xff8000ff,
                                       0x7fd55555, 0x7faaaaaa, 0xffc00181, 0x7fc0017f };
    float x[16], y[16];
    memcpy(x, nans, sizeof x);
    yk_to16(f->function(yk_from16(x)), y);
    bool ok = true;
    for (int j = 0; j < 16; j++) ok &= isnan(y[j]);
    report(ok, "NaN stays NaN", f->name, 0);
    shift_c = f->c;
    const float low = f->function(yk_splat16(f->exact == log ? 0.0f : -INFINITY))[0],
                high = f->function(yk_splat16(INFINITY))[0];
    report(f->exact == log ? low == -INFINITY && high == INFINITY : low == 0 && high == INFINITY,
           "infinities", f->name, 0);
}

/* One by one, and c's reference. */
static void others(void)
{
    bool same = true, reference = true;
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 65521) {
        const float x = yk_unbits((uint32_t)u);
        same &= yk_bits(yk_exp1(x)) == yk_bits(yk_exp16(yk_splat16(x))[0]) || isnan(x);
        same &= yk_bits(yk_exp21(x)) == yk_bits(yk_exp216(yk_splat16(x))[0]) || isnan(x);
        same &= x < 0 || isnan(x) || yk_bits(yk_log1(x)) == yk_bits(yk_log16(yk_splat16(x))[0]);
    }
    report(same, "one and sixteen have the same bits", "exp, exp2, log", 0);
    double worst = 0;
    for (int r = -65536; r <= 65536; r += 7) {
        const float c = yk_row_shift((float)r), x = (float)(r % 13) * 0.77f;
        const double wanted = c / (double)YK_LOG2_E + x;
        reference &= c == rintf(c) && fabs(c / (double)YK_LOG2_E - r) < 0.36;
        worst = fmax(worst, fabs(yk_row_plus1(c, x) - wanted) / (1.01 * u32 * fabs(wanted) + 1e-12));
    }
    report(reference && worst <= 1, "whole, near, rounded once", "row_shift, row_plus", worst);
}

int main(void)
{
    const uint64_t step = getenv("YOKE_SOAK") ? 1 : 509;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        bounded(&functions[i], step);
        special(&functions[i]);
    }
    others();
    printf("1..%d\n", n_lines);
    return n_bad != 0;
}
