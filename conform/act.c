/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of activations. With z = 2 k (x + 0.044715 x^3) and s = 1 / (1 + exp(-z)):
 * z has no cancellation, so its error is relative, 6 roundings; s takes |z| (1 - s) of it, and of exp (4 u32), sum and
 * quotient at most 6 u32 more. Hence |ds| <= 8 u32 s (1 + |z| (1 - s)), doubled for devices whose exp and division are
 * good to 3 ulp.   Forward:  16 u32 |x| s (1 + |z| (1 - s)).
 * Backward: the term w = x s (1 - s) 2 k (1 + 0.134145 x^2) takes s and 1 - s once each and 6 operations more; its sum
 * with s may cancel, so the bound is of the terms:  32 u32 |dy| (s + |w| (1 + |z|)).
 * Where s or 1 - s is below 2^-125 an f32 evaluation may lose it altogether (exp overflows to infinity, or gives a
 * subnormal): the terms that hold it are allowed as error.
 * The products with an infinite x are 0 times infinity; what they give is left open. NaN must stay NaN.
 */
#include "conform/trial.h"

static const double k = 0.79788456080286535588;

struct shape {
    int64_t n;
    enum flavour flavour;
    int aliased; /* 1: with x, 2: with dy */
    double scale;
    bool grid;   /* x evenly from -14 to 14 */
};

static const struct shape shapes[] = {
    { 1, ORDINARY, 0, 1 },     { 2, ORDINARY, 0, 2 },   { 7, ORDINARY, 1, 1 },    { 15, ORDINARY, 2, 3 },
    { 16, ORDINARY, 0, 1 },    { 17, ORDINARY, 1, 5 },  { 129, ORDINARY, 2, 1 },  { 4001, .grid = true },
    { 70001, ORDINARY, 0, 3 }, { 0, ORDINARY, 0, 1 },   { 257, WIDE, 0, 1 },      { 257, SUBNORMAL, 1, 1 },
    { 257, ZEROS, 0, 1 },      { 1031, NANS, 0, 1 },    { 1031, INFS, 0, 1 },
};

static struct shape shape_of(const struct trial *t)
{
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .n = 1 + trial_random(t, "n", 0, 5000), .scale = 4 };
}

enum { X, DY, Y };

static void setup_x(struct trial *t, const struct shape *s)
{
    t->flavour = s->flavour;
    trial_vector(t, X, "x", IN, t->dtype, s->n);
    trial_flavoured(t, X, s->scale, 100);
    for (int64_t i = 0; i < s->n && s->grid; i++) trial_set(t, X, i, -14 + 28 * (double)i / (double)(s->n - 1));
    trial_describe(t, "n %d%s%s", (int)s->n, s->grid ? " grid" : "", s->aliased ? " aliased" : "");
}

struct sigmoid {
    double s, one_minus_s, z;
};

static struct sigmoid sigmoid_of(double x)
{
    const double z = 2 * k * (x + 0.044715 * x * x * x);
    return (struct sigmoid){ 1 / (1 + exp(-z)), 1 / (1 + exp(z)), fabs(z) };
}

/* a * b where 0 times infinity is 0: a term that has vanished brings no error. */
static double times(double a, double b)
{
    return a == 0 || b == 0 ? 0 : a * b;
}

/* ---- forward ---- */

static void gelu_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    if (s.aliased) trial_alias(t, Y, "y", X);
    else trial_vector(t, Y, "y", OUT, t->dtype, s.n);
}

static yoke_status gelu_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(gelu_forward, side, cost, .dtype = side_dtype(side, t->dtype), .n = shape_of(t).n,
                        .x = trial_at(t, side, X, 0), .y = trial_at(t, side, Y, 0));
}

static void gelu_forward_bound(struct trial *t)
{
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double x = exact_of(t, X)[i], wanted = exact_of(t, Y)[i];
        const struct sigmoid g = sigmoid_of(x);
        double e = 16 * u32 * fabs(x) * g.s * (1 + times(g.z, g.one_minus_s)) + 2 * eta32;
        if (g.s < 0x1p-125) e += fabs(x) * g.s;
        t->tensor[Y].bound[i] = isinf(x) ? BOUND_ANY : bound_rounded(t->dtype, wanted, e);
    }
}

const struct conform_row conform_row_gelu_forward = {
    CONFORM_FLOATS, YOKE_COUNT(shapes), gelu_forward_setup, gelu_forward_call, gelu_forward_bound,
};

/* ---- backward ---- */

static void gelu_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    trial_vector(t, DY, "dy", IN, t->dtype, s.n);
    trial_fill(t, DY, 1);
    if (s.aliased) trial_alias(t, Y, "dx", s.aliased == 1 ? X : DY);
    else trial_vector(t, Y, "dx", OUT, t->dtype, s.n);
}

static yoke_status gelu_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(gelu_backward, side, cost, .dtype = side_dtype(side, t->dtype), .n = shape_of(t).n,
                        .x = trial_at(t, side, X, 0), .dy = trial_at(t, side, DY, 0), .dx = trial_at(t, side, Y, 0));
}

static void gelu_backward_bound(struct trial *t)
{
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double x = exact_of(t, X)[i], dy = fabs(exact_of(t, DY)[i]), wanted = exact_of(t, Y)[i];
        const struct sigmoid g = sigmoid_of(x);
        const double w = fabs(x) * g.s * g.one_minus_s * 2 * k * (1 + 0.134145 * x * x);
        double e = 32 * u32 * dy * (g.s + times(w, 1 + g.z)) + 2 * eta32 * (1 + dy);
        if (g.s < 0x1p-125) e += dy * (g.s + w);
        if (g.one_minus_s < 0x1p-125) e += dy * w;
        t->tensor[Y].bound[i] = isinf(x) ? BOUND_ANY : bound_rounded(t->dtype, wanted, e);
    }
}

const struct conform_row conform_row_gelu_backward = {
    CONFORM_FLOATS, YOKE_COUNT(shapes), gelu_backward_setup, gelu_backward_call, gelu_backward_bound,
};
