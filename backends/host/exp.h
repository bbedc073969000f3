/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exponentials and reciprocals of vectors.
 *
 * Some instruction sets can look words up in a register (AVX2: 8 words, AVX-512: 16 words). There
 *   2^y = 2^n T 2^f,  T = 2^(i / S),  n + i / S = y rounded to a multiple of 1 / S, S = 8 or 16,
 *   2^f = 1 + f q(f),  |f| <= 1 / (2 S)
 * with q of degree 2 (absolute error of f q: S = 8: 2.6e-8, S = 16: 1.7e-9). y + MAGIC has n S + i in the low
 * bits of the sum. Elsewhere n is y rounded, T = 1, and q has degree 5 (relative error 3.0e-9).
 *
 * The products of y's factors are taken exactly into f, by fma. Without fma, a constant in two parts is used.
 * tests/unit/host_exp proves the bounds below over the floats.
 */
#ifndef BACKENDS_HOST_EXP_H
#define BACKENDS_HOST_EXP_H

#include "backends/host/vec.h"

#define LOG2_E 0x1.715476p0f        /* less than log2(e) by 0.22 u32 */
#define LOG2_E_REST 0x1.4ae0c0p-26f /* the rest of log2(e) */

#if defined(HOST_AVX512)
#define HOST_POWERS 16
#define MAGIC 0x1.8p19f
#elif defined(HOST_AVX2)
#define HOST_POWERS 8
#define MAGIC 0x1.8p20f
#endif

#ifdef HOST_POWERS

/*
 * 2^(i / HOST_POWERS), where i is the low bits of `steps`. `less` times i is subtracted from the bits of the
 * result.
 */
INLINE vf power_of_steps(vi steps, const uint32_t less)
{
#ifdef HOST_AVX512
    static const float powers[] = { 0x1.000000p0f, 0x1.0b5586p0f, 0x1.172b84p0f, 0x1.2387a6p0f,
                                    0x1.306fe0p0f, 0x1.3dea64p0f, 0x1.4bfdaep0f, 0x1.5ab07ep0f,
                                    0x1.6a09e6p0f, 0x1.7a1148p0f, 0x1.8ace54p0f, 0x1.9c4918p0f,
                                    0x1.ae89fap0f, 0x1.c199bep0f, 0x1.d5818ep0f, 0x1.ea4afap0f };
    __m512 table;
    memcpy(&table, powers, sizeof table);
    table = (__m512)((vu)table - (vu)vlanes() * less); /* the compiler folds this to constants */
    return (vf)_mm512_permutexvar_ps((__m512i)steps, table);
#else
    static const float powers[] = { 0x1.000000p0f, 0x1.172b84p0f, 0x1.306fe0p0f, 0x1.4bfdaep0f,
                                    0x1.6a09e6p0f, 0x1.8ace54p0f, 0x1.ae89fap0f, 0x1.d5818ep0f };
    __m256 table;
    memcpy(&table, powers, sizeof table);
    table = (__m256)((vu)table - (vu)vlanes() * less);
    return (vf)_mm256_permutevar8x32_ps(table, (__m256i)steps);
#endif
}

/* power 2^f, where power is 2^(i / S), or this times a power of two. */
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

/* x 2^n, where n is the steps of y + MAGIC without their fraction. A subnormal result is rounded once. */
INLINE vf scale_steps(vf x, vf y_magic)
{
#ifdef HOST_AVX512
    /* the instruction takes the floor of its argument */
    return (vf)_mm512_scalef_ps((__m512)x, (__m512)(y_magic - MAGIC));
#else
    /* two steps, because 2^n may not be a normal number */
    const vi whole = ((vi)y_magic - (vi)vset(MAGIC)) >> 3, half = whole >> 1;
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
    y = vatmost(vatleast(y, vset(-151.0f)),
                vset(129.0f)); /* beyond this range the result is 0 or infinity in f32 */
    const vf t = y + MAGIC;
    return scale_steps(power_times(power_of_steps((vi)t, 0), y - (t - MAGIC)), t);
}

/**
 * e^x.
 * Bound: |vexp(x) - e^x| <= 3 u32 e^x + eta. e^-inf = 0, e^inf = inf, NaN stays NaN.
 */
INLINE vf vexp(vf x)
{
    x = vatmost(vatleast(x, vset(-104.0f)),
                vset(89.0f)); /* beyond this range the result is 0 or infinity in f32 */
    const vf t = vfma(x, vset(LOG2_E), vset(MAGIC)),
             f = vfma(x, vset(LOG2_E_REST), vfma(x, vset(LOG2_E), MAGIC - t));
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

/* x 2^n for a whole number n in [-252, 252]. A subnormal result is rounded once. */
INLINE vf scale_exponent(vf x, vf n)
{
    const vi whole = __builtin_convertvector(n, vi),
             half = whole >> 1; /* two steps, because 2^n may not be a normal number */
    return x * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
}

/* Round to the nearest whole number, for |x| < 2^22. */
INLINE vf vrint(vf x)
{
    const vf magic = vset(0x1.8p23f);
    return (x + magic) - magic;
}

/* As vexp2_product above, but the product is rounded, which adds |a b| u32 to the error. */
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

/* As vexp above, with ln 2 as the sum of two parts. The first part times n is exact. */
INLINE vf vexp(vf x)
{
    x = vatmost(vatleast(x, vset(-104.0f)), vset(89.0f));
    const vf n = vrint(x * LOG2_E);
    const vf r = vfma(n, vset(2.12194440e-4f), vfma(n, vset(-0.693359375f), x));
    return scale_exponent(exp2_fraction(r * LOG2_E), n);
}
#endif

/*
 * ---- a row of exponentials against one number ----
 * e^(x - r) is computed for a whole row. r is replaced by a number nearby, c / LOG2_E with a whole number c,
 * so x LOG2_E - c loses nothing on its way into f. The caller that owns the row puts the difference into the
 * row's factor, or into the logarithm of its sum.
 */

/** The number c for r; |r| is at most ROW_MOST. */
#define ROW_MOST 65536.0f
INLINE float row_shift(float r)
{
#ifdef HOST_POWERS
    return rintf(r * LOG2_E);
#else
    return r;
#endif
}

/** The reference that row_shift chose for r: the terms are e^(x - row_reference(c)). */
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
 * Bound: |error| <= (3 + 0.23 |x - r|) u32 term + eta; without fma (3 + |x - r|) u32. NaN stays NaN, and
 * -infinity gives 0.
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

/**
 * As row_term, for sums of terms, where x - r is at most 80. It is cheaper. A term below 2^-124 may come out
 * as any value in [0, 2^-124].
 */
INLINE vf row_summand(vf x, float c)
{
#ifdef HOST_POWERS
    enum { STEP_BITS = HOST_POWERS == 16 ? 19 : 20 };
    const float shifted = MAGIC - c;
    x = vatleast(x, vset((c - 125) * (1 / LOG2_E)));
    const vf t = vfma(x, vset(LOG2_E), vset(shifted)), f = vfma(x, vset(LOG2_E), shifted - t);
    /* Shifting the steps puts n into the exponent, and i below it, where the table lacks it. */
    return power_times((vf)((vu)power_of_steps((vi)t, 1u << STEP_BITS) + ((vu)t << STEP_BITS)), f);
#else
    return row_term(x, c);
#endif
}

/** 1 / x, rounded or within 1.1 u32 of it, for x in [1, 2^125]. NaN stays NaN. */
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
