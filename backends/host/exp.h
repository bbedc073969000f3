/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exponentials and reciprocals of vectors.
 *
 * Where the instruction set can look words up in a register (AVX2: 8, AVX-512: 16 of them):
 *   2^y = 2^n T 2^f,  T = 2^(i / S),  n + i / S = y rounded to a multiple of 1 / S, S = 8 or 16,  2^f = 1 + f q(f),  |f| <= 1 / (2 S)
 * with q of degree 2 (absolute error of f q: S = 8: 2.6e-8, S = 16: 1.7e-9). y + MAGIC leaves n S + i in the low bits of the sum.
 * Elsewhere n is y rounded, T = 1, and q has degree 5 (relative error 3.0e-9).
 * The products of y's factors are taken exactly into f, by fma; without it, by a constant in two parts.
 * The bounds below are proven by tests/unit/host_exp over the floats.
 */
#ifndef BACKENDS_HOST_EXP_H
#define BACKENDS_HOST_EXP_H

#include "backends/host/vec.h"

#define LOG2_E 0x1.715476p0f        /* 0.22 u32 below log2(e) */
#define LOG2_E_REST 0x1.4ae0c0p-26f /* what it lacks */

#if defined(HOST_AVX512)
#define HOST_POWERS 16
#define MAGIC 0x1.8p19f
#elif defined(HOST_AVX2)
#define HOST_POWERS 8
#define MAGIC 0x1.8p20f
#endif

#ifdef HOST_POWERS

/* 2^(i / HOST_POWERS), i the low bits of `steps`; what lies `less` below it, times i, is taken off the words. */
INLINE vf power_of_steps(vi steps, const uint32_t less)
{
#ifdef HOST_AVX512
    static const float powers[] = { 0x1.000000p0f, 0x1.0b5586p0f, 0x1.172b84p0f, 0x1.2387a6p0f, 0x1.306fe0p0f, 0x1.3dea64p0f, 0x1.4bfdaep0f, 0x1.5ab07ep0f,
                                    0x1.6a09e6p0f, 0x1.7a1148p0f, 0x1.8ace54p0f, 0x1.9c4918p0f, 0x1.ae89fap0f, 0x1.c199bep0f, 0x1.d5818ep0f, 0x1.ea4afap0f };
    __m512 table;
    memcpy(&table, powers, sizeof table);
    table = (__m512)((vu)table - (vu)vlanes() * less); /* folds to constants */
    return (vf)_mm512_permutexvar_ps((__m512i)steps, table);
#else
    static const float powers[] = { 0x1.000000p0f, 0x1.172b84p0f, 0x1.306fe0p0f, 0x1.4bfdaep0f, 0x1.6a09e6p0f, 0x1.8ace54p0f, 0x1.ae89fap0f, 0x1.d5818ep0f };
    __m256 table;
    memcpy(&table, powers, sizeof table);
    table = (__m256)((vu)table - (vu)vlanes() * less);
    return (vf)_mm256_permutevar8x32_ps(table, (__m256i)steps);
#endif
}

/* power 2^f, where power is 2^(i / S) or that times a power of two. */
INLINE vf power_times(vf power, vf f)
{
#ifdef HOST_AVX512
    vf q = vset(0x1.c6b2d0p-5f);
    q = vfma(q, f, vset(0x1.ebfff4p-3f));
#else
    vf q = vset(0x1.c6b99ap-5f);
    q = vfma(q, f, vset(0x1.ec0c32p-3f));
#endif
    q = vfma(q, f, vset(0x1.62e430p-1f));
    return vfma(power, q * f, power);
}

/* x 2^n, n the steps of y + MAGIC without their fraction, rounded once where the result is subnormal. */
INLINE vf scale_steps(vf x, vf y_magic)
{
#ifdef HOST_AVX512
    return (vf)_mm512_scalef_ps((__m512)x, (__m512)(y_magic - MAGIC)); /* takes its floor */
#else
    const vi whole = ((vi)y_magic - (vi)vset(MAGIC)) >> 3, half = whole >> 1; /* two steps: 2^n may not be a normal number */
    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
#endif
}

/**
 * 2^(a b), the product not rounded.
 * Bound: |error| <= 3 u32 2^(ab) + eta, for |a b| <= 250; NaN stays NaN.
 */
INLINE vf vexp2_product(vf a, vf b)
{
    const vf t = vfma(a, b, vset(MAGIC)), f = vfma(a, b, MAGIC - t);
    return scale_steps(power_times(power_of_steps((vi)t, 0), f), t);
}

/**
 * 2^y.
 * Bound: |vexp2(y) - 2^y| <= 2.5 u32 2^y + eta. 2^-inf = 0, 2^inf = inf, NaN stays NaN.
 */
INLINE vf vexp2(vf y)
{
    y = vatmost(vatleast(y, vset(-151.0f)), vset(129.0f)); /* beyond: 0 and infinity in f32 */
    const vf t = y + MAGIC;
    return scale_steps(power_times(power_of_steps((vi)t, 0), y - (t - MAGIC)), t);
}

/**
 * e^x.
 * Bound: |vexp(x) - e^x| <= 3 u32 e^x + eta. e^-inf = 0, e^inf = inf, NaN stays NaN.
 */
INLINE vf vexp(vf x)
{
    x = vatmost(vatleast(x, vset(-104.0f)), vset(89.0f)); /* beyond: 0 and infinity in f32 */
    const vf t = vfma(x, vset(LOG2_E), vset(MAGIC)), f = vfma(x, vset(LOG2_E_REST), vfma(x, vset(LOG2_E), MAGIC - t));
    return scale_steps(power_times(power_of_steps((vi)t, 0), f), t);
}

#else /* no table */

/* 2^f = 1 + f q(f) on |f| <= 1/2, q of degree 5 (minimax, relative error 3.0e-9). */
INLINE vf exp2_fraction(vf f)
{
    vf q = vset(0x1.417872p-13f);
    q = vfma(q, f, vset(0x1.5f0952p-10f));
    q = vfma(q, f, vset(0x1.3b2dd4p-7f));
    q = vfma(q, f, vset(0x1.c6af7ap-5f));
    q = vfma(q, f, vset(0x1.ebfbdcp-3f));
    q = vfma(q, f, vset(0x1.62e43p-1f));
    return vfma(q, f, vset(1.0f));
}

/* x 2^n for a whole n in [-252, 252], rounded once where the result is subnormal. */
INLINE vf scale_exponent(vf x, vf n)
{
    const vi whole = __builtin_convertvector(n, vi), half = whole >> 1; /* two steps: 2^n may not be a normal number */
    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

/* To the nearest whole number, |x| < 2^22. */
INLINE vf vrint(vf x)
{
    const vf magic = vset(0x1.8p23f);
    return (x + magic) - magic;
}

/* The same; the product is rounded: |a b| u32 more. */
INLINE vf vexp2_product(vf a, vf b)
{
    const vf y = a * b, n = vrint(y);
    return scale_exponent(exp2_fraction(y - n), n);
}

INLINE vf vexp2(vf y)
{
    y = vatmost(vatleast(y, vset(-151.0f)), vset(129.0f));
    const vf n = vrint(y);
    return scale_exponent(exp2_fraction(y - n), n);
}

/* The same, with ln 2 in two parts, the first times n exact. */
INLINE vf vexp(vf x)
{
    x = vatmost(vatleast(x, vset(-104.0f)), vset(89.0f));
    const vf n = vrint(x * LOG2_E);
    const vf r = vfma(n, vset(2.12194440e-4f), vfma(n, vset(-0.693359375f), x));
    return scale_exponent(exp2_fraction(r * LOG2_E), n);
}
#endif

/* ---- a row of exponentials against one number ----
 * e^(x - r) for a whole row: r is replaced by a number nearby, c / LOG2_E with a whole c, so that x LOG2_E - c loses nothing on its way
 * into f. Whoever owns the row puts what that leaves out into the row's factor, or into the logarithm of its sum. */

/** c for r; |r| at most ROW_MOST. */
#define ROW_MOST 65536.0f
INLINE float row_shift(float r)
{
#ifdef HOST_POWERS
    return rintf(r * LOG2_E);
#else
    return r;
#endif
}

/** What row_shift made of r: the terms are e^(x - row_reference(c)). */
INLINE double row_reference(float c)
{
#ifdef HOST_POWERS
    return c / (double)LOG2_E;
#else
    return c;
#endif
}

/**
 * e^(x - row_reference(c)).
 * Bound: |error| <= (3 + 0.23 |x - r|) u32 term + eta; without fma (3 + |x - r|) u32. NaN stays NaN, -infinity gives 0.
 */
INLINE vf row_term(vf x, float c)
{
#ifdef HOST_POWERS
    const float shifted = MAGIC - c;
    x = vatmost(vatleast(x, vset((c - 160) * (1 / LOG2_E))), vset((c + 130) * (1 / LOG2_E)));
    const vf t = vfma(x, vset(LOG2_E), vset(shifted)), f = vfma(x, vset(LOG2_E), shifted - t);
    return scale_steps(power_times(power_of_steps((vi)t, 0), f), t);
#else
    return vexp(x - c);
#endif
}

/** The same for sums of terms, where x - r is at most 80: cheaper; what is below 2^-124 may come out as anything in [0, 2^-124]. */
INLINE vf row_summand(vf x, float c)
{
#ifdef HOST_POWERS
    enum { STEP_BITS = HOST_POWERS == 16 ? 19 : 20 };
    const float shifted = MAGIC - c;
    x = vatleast(x, vset((c - 125) * (1 / LOG2_E)));
    const vf t = vfma(x, vset(LOG2_E), vset(shifted)), f = vfma(x, vset(LOG2_E), shifted - t);
    /* the steps, shifted: n comes into the exponent, and i below it, where the table lacks it */
    return power_times((vf)((vu)power_of_steps((vi)t, 1u << STEP_BITS) + ((vu)t << STEP_BITS)), f);
#else
    return row_term(x, c);
#endif
}

/** 1 / x rounded, or within 1.1 u32 of it; x in [1, 2^125], NaN stays NaN. */
INLINE vf vreciprocal(vf x)
{
#ifdef HOST_AVX512
    const vf r = (vf)_mm512_rcp14_ps((__m512)x);
    return vfma(r, vfnma(x, r, vset(1.0f)), r);
#else
    return 1.0f / x;
#endif
}

#endif
