/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of products. NVIDIA does not document how matrix units add. Measurements from outside
 * are in Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021: the units add a
 * few exact products and the sum at a time. They shift all of them to the greatest exponent, cut off what is
 * below the last bit of f32, and cut the sum off in the same way. Newer units keep a few more bits. The
 * stand-in keeps none, which is the least exact of the units that were measured.
 */
#include <math.h>
#include <string.h>

#include "emulate/gpu/product.h"

/* 2^e for -1022 <= e <= 1023. */
static double power(int e)
{
    const uint64_t bits = (uint64_t)(e + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The exponent of x: 2^e <= |x| < 2^(e+1). That of 0 is -1023. */
static int exponent(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (int)(bits >> 52 & 2047) - 1023;
}

/* x rounded towards zero to an f32. */
static float cut(double x)
{
    const int e = exponent(x);
    const double unit = power((e < -126 ? -126 : e) - 23);
    return (float)((double)(int64_t)(x / unit) * unit);
}

/* The sum and up to 16 products, added as a matrix unit does. */
static float add_block(float sum, const float *a, const float *b, int n)
{
    double terms[17], most = fabs((double)sum);
    terms[n] = sum;
    for (int i = 0; i < n; i++) {
        terms[i] = (double)a[i] * (double)b[i];
        most = fmax(most, fabs(terms[i]));
    }
    double plain = 0;
    for (int i = 0; i <= n; i++) plain += terms[i];
    if (!isfinite(plain) || most == 0) return (float)plain;
    const int e = exponent(most), last = (e < -126 ? -126 : e) - 23;
    const double unit = power(last), per_unit = power(-last);
    int64_t total = 0;
    for (int i = 0; i <= n; i++) total += (int64_t)(terms[i] * per_unit);
    return cut((double)total * unit);
}

/* Sums that round to nearest: 16 of them side by side, so that they are computed in vectors. */
static float add_rounded(const float *a, const float *b, int64_t n)
{
    enum { SIDE = 16 };
    float sums[SIDE] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + SIDE <= n; i += SIDE)
        for (int j = 0; j < SIDE; j++) sums[j] += a[i + j] * b[i + j];
    for (int j = 0; j < SIDE; j++) sum += sums[j];
    for (; i < n; i++) sum += a[i] * b[i];
    return sum;
}

float product_dot(const float *a, const float *b, int64_t n, int block)
{
    float sum = 0;
    if (!block)
        sum = add_rounded(a, b, n);
    else
        for (int64_t i = 0; i < n; i += block)
            sum = add_block(sum, a + i, b + i, (int)(n - i < block ? n - i : block));
    return sum;
}
