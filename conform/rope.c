/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of rotary position embedding: the derivation of the bounds.
 * An angle is a whole number of units of 2^-64 turns. Its frequency has an error of at most D / 2 + 32 units.
 * This is the rounding of the ratio, i times, and a truncated product for each of at most 2 log2(i) steps.
 * The angle is truncated to 2^-32 turns. So the error of the angle is 2 pi (2^-32 + position (D / 2 + 32)
 * 2^-64). Cosine and sine are polynomials with an error of 3 u32. The two products and their sum add u32
 * each. The oracle computes its angles in long double, by another method.
 */
#include "conform/gradient_pairs.h"

#include <string.h>

struct shape {
    int64_t N, T, H, D, position, pad;
    double theta;
    bool inverse;
    enum flavour flavour;
};

static const struct shape shapes[] = {
    { 1, 1, 1, 2, 0, 0, 10000 },
    { 4, 2, 3, 8, 0, 5, 10000 },
    { 9, 4, 2, 16, 3, 0, 10000, true },
    { 33, 33, 1, 64, 0, 1, 500000 },
    { 5, 5, 2, 34, 100000, 3, 10000 },
    { 3, 3, 1, 128, 4000000000, 0, 1000000, true },
    { 6, 3, 2, 256, 1000000, 0, 1.5 },
    { 130, 65, 5, 24, 7, 0, 10000 },
    { 0, 4, 2, 8, 0, 0, 10000 },
    { 6, 6, 2, 32, 50, 0, 10000, false, WIDE },
    { 6, 6, 2, 32, 50, 0, 10000, false, SUBNORMAL },
    { 6, 6, 2, 32, 50, 2, 10000, true, NANS },
    { 6, 6, 2, 32, 50, 0, 10000, false, INFS },
};

static struct shape shape_of(const struct trial *t)
{
    if (t->dims)
        return (struct shape){
            .N = t->dims[0] * t->dims[1], .T = t->dims[1], .H = t->dims[2], .D = t->dims[3], .theta = 10000
        };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .N = 1 + trial_random(t, "N", 0, 60),
                           .T = 1 + trial_random(t, "T", 0, 40),
                           .H = 1 + trial_random(t, "H", 0, 5),
                           .D = 2 + 2 * trial_random(t, "D", 0, 60),
                           .position = trial_random(t, "position", 0, 5000),
                           .pad = trial_random(t, "pad", 0, 9),
                           .theta = 10000,
                           .inverse = trial_random(t, "inverse", 0, 2) };
}

enum { X };

static void rope_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    t->flavour = s.flavour;
    trial_matrix(t, X, "x", SUM, t->dtype, s.N, s.H * s.D, s.H * s.D + s.pad);
    trial_flavoured(t, X, 1, 60);
    trial_describe(t, "N %d T %d H %d D %d from %lld theta %g%s", (int)s.N, (int)s.T, (int)s.H, (int)s.D,
                   (long long)s.position, s.theta, s.inverse ? " inverse" : "");
}

static yoke_status rope_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(rope, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .T = s.T, .H = s.H,
                        .D = s.D, .pos_start = s.position, .theta = s.theta, .inverse = s.inverse,
                        .x = trial_at(t, side, X, 0), .ldx = t->tensor[X].ld);
}

static void rope_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double D = (double)s.D;
    for (int64_t n = 0; n < s.N; n++) {
        const double position = (double)(s.position + n % s.T);
        const double angle = 6.2831853071795865 * (0x1p-32 + position * (D / 2 + 32) * 0x1p-64);
        for (int64_t i = 0; i < s.H * s.D; i++) {
            const int64_t at = n * t->tensor[X].ld + i,
                          other = i % s.D < s.D / 2 ? at + s.D / 2 : at - s.D / 2;
            const double size = fabs(t->tensor[X].initial[at]) + fabs(t->tensor[X].initial[other]);
            /* 0 times infinity, for some angles. */
            const bool open = isinf(t->tensor[X].initial[at]) || isinf(t->tensor[X].initial[other]);
            t->tensor[X].bound[at] = open ? BOUND_ANY
                                          : bound_rounded(t->dtype, exact_of(t, X)[at],
                                                          size * (8 * u32 + angle) + 2 * eta32);
        }
    }
}

static const struct conform_sizes rope_sizes = {
    { "B", "T", "H", "D" },
    { { "tiny", { 1, 32, 2, 32 } }, { "micro", { 8, 64, 4, 64 } }, { "124m", { 8, 1024, 12, 64 } } },
    .least = { 1, 16 }
};

/* ---- gradient of rope: the gradient is turned back ---- */

static void rope_pair_setup(struct gradient_check *c)
{
    const int64_t n = c->shape.N * c->shape.H * c->shape.D;
    gradient_input(c, "x", n);
    gradient_output(c, n, 0);
}

#define ROPE(s) \
    .N = (s)->N, .T = (s)->T, .H = (s)->H, .D = (s)->D, .pos_start = 3, .theta = 100, .ldx = (s)->H * (s)->D

static yoke_status rope_pair_forward(struct gradient_check *c)
{
    memcpy(c->y, INPUT(0), (size_t)c->n_y * sizeof(double));
    GRADIENT_CALL(rope, ROPE(&c->shape), .x = c->y);
    return YOKE_OK;
}

static yoke_status rope_pair_backward(struct gradient_check *c)
{
    memcpy(GRADIENT_OF(0), c->w, (size_t)c->n_y * sizeof(double));
    GRADIENT_CALL(rope, ROPE(&c->shape), .x = GRADIENT_OF(0), .inverse = true);
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair rope_pairs[] = {
    { { .N = 10, .T = 5, .H = 3, .D = 6 }, rope_pair_setup, rope_pair_forward, rope_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_rope = CONFORM_ROW(rope, AT_POSITION, CONFORM_FLOATS, shapes, rope_sizes,
                                                        GRADIENTS(rope_pairs), rope_setup, rope_call,
                                                        rope_bound);
