/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of elementwise sums and products: one f32 operation, u32 |ref|, and one rounding to the stored type. A sum
 * of two stored numbers is exact below the normal range; a product is not, and is allowed eta.
 */
#include "conform/trial.h"

struct shape {
    int64_t n;
    enum flavour flavour;
    int aliased; /* 1: with x, 2: with y */
    float alpha;
};

static const struct shape shapes[] = {
    { 1, ORDINARY, 0, 2 },           { 2, ORDINARY, 1, 0.1f },        { 15, ORDINARY, 2, -3.7f },
    { 16, ORDINARY, 0, 1 / 3.0f },   { 17, ORDINARY, 1, 1e-3f },      { 127, ORDINARY, 2, 1 },
    { 1031, ORDINARY, 0, 65536 },    { 100003, ORDINARY, 0, 0.7f },   { 0, ORDINARY, 0, 1 },
    { 515, WIDE, 0, -1.5f },         { 515, SUBNORMAL, 0, 0.3f },     { 515, ZEROS, 1, -1 },
    { 515, NANS, 0, 2 },             { 515, INFS, 2, 2 },
};

static struct shape shape_of(const struct trial *t)
{
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .n = 1 + trial_random(t, "n", 0, 9000), .alpha = 0.01f * (float)(1 + trial_random(t, "alpha", 0, 500)) };
}

enum { X, Y, Z };

static void setup_x(struct trial *t, const struct shape *s)
{
    t->flavour = s->flavour;
    trial_vector(t, X, "x", IN, t->dtype, s->n);
    trial_flavoured(t, X, 1, 120);
    trial_describe(t, "n %d alpha %g%s", (int)s->n, (double)s->alpha, s->aliased ? " aliased" : "");
}

static void add_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    trial_vector(t, Y, "y", IN, t->dtype, s.n);
    trial_flavoured(t, Y, 1, 120);
    if (s.aliased) trial_alias(t, Z, "z", s.aliased == 1 ? X : Y);
    else trial_vector(t, Z, "z", OUT, t->dtype, s.n);
}

static yoke_status add_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(add, side, cost, .dtype = side_dtype(side, t->dtype), .n = shape_of(t).n, .x = trial_at(t, side, X, 0),
                        .y = trial_at(t, side, Y, 0), .z = trial_at(t, side, Z, 0));
}

static void add_bound(struct trial *t)
{
    const double u = t->dtype == YOKE_F16 || t->dtype == YOKE_BF16 ? yokei_unit_roundoff(t->dtype) : 0;
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double size = fabs(exact_of(t, Z)[i]);
        t->tensor[Z].bound[i] = u32 * size + u * (1 + u32) * size;
    }
}

const struct conform_row conform_row_add = { CONFORM_FLOATS, YOKE_COUNT(shapes), add_setup, add_call, add_bound };

static void scale_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    if (s.aliased) trial_alias(t, Z, "y", X);
    else trial_vector(t, Z, "y", OUT, t->dtype, s.n);
}

static yoke_status scale_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(scale, side, cost, .dtype = side_dtype(side, t->dtype), .n = s.n, .alpha = s.alpha,
                        .x = trial_at(t, side, X, 0), .y = trial_at(t, side, Z, 0));
}

static void scale_bound(struct trial *t)
{
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double wanted = exact_of(t, Z)[i];
        t->tensor[Z].bound[i] = bound_rounded(t->dtype, wanted, u32 * fabs(wanted));
    }
}

const struct conform_row conform_row_scale = { CONFORM_FLOATS, YOKE_COUNT(shapes), scale_setup, scale_call, scale_bound };
