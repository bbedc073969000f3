/* SPDX-License-Identifier: Apache-2.0 */
/* The gates by which two gradients count as the same, for every test that compares whole models. */
#ifndef TESTS_GOLDEN_GATES_H
#define TESTS_GOLDEN_GATES_H

#include <math.h>
#include <string.h>
#include <yoke/base.h>

static inline double gates_norm(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

static inline double gates_distance(const float *x, const float *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    return sqrt(sum);
}

/*
 * The largest ratio of a tensor's difference to its gate; at most 1 passes. Per tensor the difference is relative to
 * the expected one's norm, `gate` as stated. The K third of an attention bias has a true gradient of 0 (a constant
 * added to all keys moves no probability): it is held absolutely, to 1e-5 of the Q third's norm in f32, 1e-2 in 16 bits.
 */
static inline double gates_gradient(const char *name, const float *got, const float *expected, size_t n, yoke_dtype dtype,
                                    double gate)
{
    size_t third = n / 3;
    if (!strstr(name, "attn.c_attn.bias")) return gates_distance(got, expected, n) / (gate * gates_norm(expected, n));
    double q = gates_norm(expected, third), worst = 0;
    for (size_t part = 0; part < 3; part++) {
        const float *g = got + part * third, *e = expected + part * third;
        double allowed = part == 1 ? (dtype == YOKE_F32 ? 1e-5 : 1e-2) * q : gate * gates_norm(e, third);
        worst = fmax(worst, gates_distance(g, e, third) / allowed);
    }
    return worst;
}

/** Gate (a): f32 5e-6; 16-bit 1e-2 against the same precision, 2e-2 against f32. */
static inline double gates_tolerance(yoke_dtype dtype, bool against_f32)
{
    return dtype == YOKE_F32 ? 5e-6 : against_f32 ? 2e-2 : 1e-2;
}

#endif
