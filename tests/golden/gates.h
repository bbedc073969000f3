/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the gates (tolerances) of train/parity/gates.h to whole tensors, for every test that compares
 * models.
 */
#ifndef TESTS_GOLDEN_GATES_H
#define TESTS_GOLDEN_GATES_H

#include "train/parity/gates.h"

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
 * The largest ratio of a tensor's difference to its gate. The tensor passes if it is at most 1. norm_of_q is
 * for yokei_gate_lean.
 */
static inline double gates_gradient(const char *name, const float *got, const float *expected, size_t n,
                                    double norm_of_q, yoke_dtype dtype, double gate)
{
    struct yokei_gate_squares s = { { 0 }, { 0 } };
    yokei_gate_add(name, got, expected, n, &s);
    yokei_gate_lean(name, norm_of_q * norm_of_q, &s);
    return yokei_gate_ratio(name, &s, dtype, gate);
}

static inline double gates_tolerance(yoke_dtype dtype, bool against_f32)
{
    return yokei_gate_gradient(dtype, against_f32);
}

#endif
