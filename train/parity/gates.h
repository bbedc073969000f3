/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Gates: the tolerances within which two sets of gradients, or the losses of two runs, count as the same.
 * Each check is the ratio of a difference to the allowed difference. A ratio of at most 1 passes, and a ratio
 * that is not a number fails.
 */
#ifndef TRAIN_PARITY_GATES_H
#define TRAIN_PARITY_GATES_H

#include <float.h>
#include <math.h>
#include <string.h>
#include <yoke/base.h>

enum { YOKEI_GATE_PARTS = 3 };

/**
 * Sums of squares over the parts of a tensor: of the difference, and of the expected values. The sums of a
 * tensor's shards add up to the sums of the tensor.
 */
struct yokei_gate_squares {
    double difference[YOKEI_GATE_PARTS], expected[YOKEI_GATE_PARTS];
};

/**
 * The fused bias of attention is checked by thirds, every other tensor as a whole. The true gradient of the K
 * third is 0, because a constant added to all keys changes no probability. So the K third has an absolute
 * tolerance: 1e-5 of the Q third's norm in f32, 1e-2 in 16 bits.
 */
static inline size_t yokei_gate_parts(const char *name)
{
    return strstr(name, "attn.c_attn.bias") ? YOKEI_GATE_PARTS : 1;
}

/** Add n elements of a tensor, or of a shard that holds an equal share of each part. */
static inline void yokei_gate_add(const char *name, const float *got, const float *expected, size_t n,
                                  struct yokei_gate_squares *s)
{
    const size_t parts = yokei_gate_parts(name), each = n / parts;
    for (size_t part = 0; part < parts; part++)
        for (size_t i = part * each; i < (part + 1) * each; i++) {
            const double off = (double)got[i] - (double)expected[i];
            s->difference[part] += off * off;
            s->expected[part] += (double)expected[i] * (double)expected[i];
        }
}

/**
 * Whether the tensor is a bias of K that the keys' rotation follows (Qwen2). Without the rotation its true
 * gradient would be 0, as above. With it, the gradient is what is left of a sum of much larger numbers, and
 * has the rounding errors of these numbers. So its difference is divided by the norm of the bias of Q if that
 * is larger. The bias of Q is the parameter before it.
 */
static inline bool yokei_gate_is_k_bias(const char *name) { return strstr(name, ".k_proj.bias") != NULL; }
/** Do this. `squares_of_q` is the sum of the squares of the expected gradient of the bias of Q. */
static inline void yokei_gate_lean(const char *name, double squares_of_q, struct yokei_gate_squares *s)
{
    if (yokei_gate_is_k_bias(name)) s->expected[0] = fmax(s->expected[0], squares_of_q);
}

/** difference / allowed. Infinity if either is not a number, or if `allowed` is 0. */
static inline double yokei_gate_off(double difference, double allowed)
{
    if (difference == 0) return 0;
    const double ratio = difference / allowed;
    return ratio <= DBL_MAX ? ratio : INFINITY;
}

/** The largest ratio of all parts. `gate` is relative to the expected norm. */
static inline double yokei_gate_ratio(const char *name, const struct yokei_gate_squares *s, yoke_dtype dtype,
                                      double gate)
{
    const size_t parts = yokei_gate_parts(name);
    double worst = 0;
    for (size_t part = 0; part < parts; part++) {
        const bool is_k = parts > 1 && part == 1;
        const double allowed = is_k ? (dtype == YOKE_F32 ? 1e-5 : 1e-2) * sqrt(s->expected[0])
                                    : gate * sqrt(s->expected[part]);
        worst = fmax(worst, yokei_gate_off(sqrt(s->difference[part]), allowed));
    }
    return worst;
}

/**
 * The gate for gradients, per tensor ||difference|| / ||expected||. f32: 5e-6; 16-bit: 1e-2 against the same
 * precision, 2e-2 against f32.
 */
static inline double yokei_gate_gradient(yoke_dtype dtype, bool against_f32)
{
    return dtype == YOKE_F32 ? 5e-6 : against_f32 ? 2e-2 : 1e-2;
}

/** The gate for the loss of a free run, relative. f32: 2e-6; 16-bit: 1e-5 at step 1, then 1.2e-3. */
static inline double yokei_gate_loss(yoke_dtype dtype, int64_t step)
{
    return dtype == YOKE_F32 ? 2e-6 : step == 1 ? 1e-5 : 1.2e-3;
}

/** The number of steps for which the loss gates hold, because rounding errors grow as a run continues. */
static inline int64_t yokei_gate_steps(yoke_dtype dtype) { return dtype == YOKE_F32 ? 20 : 12; }

#endif
