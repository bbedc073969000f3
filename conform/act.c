/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of activations: the derivation of the bounds.
 *
 * GELU by tanh. Let z = 2 k (x + 0.044715 x^3) and s = 1 / (1 + exp(-z)). z has no cancellation, so its error
 * is relative: 6 roundings. s gets |z| (1 - s) of this error. It also gets the errors of exp (4 u32), and of
 * sum and quotient, at most 6 u32 together. Hence |ds| <= 8 u32 s (1 + |z| (1 - s)). This is doubled for
 * devices whose exp and division are accurate only to 3 ulp.
 *   Forward:  16 u32 |x| s (1 + |z| (1 - s)).
 * Backward: the term w = x s (1 - s) 2 k (1 + 0.134145 x^2) has the factors s and 1 - s once each, and 6 more
 * operations. Its sum with s may cancel, so the bound is that of the terms:
 *   32 u32 |dy| (s + |w| (1 + |z|)).
 * If s or 1 - s is below 2^-125, an f32 evaluation may lose it completely, because exp overflows to infinity
 * or gives a subnormal number. Then the terms that contain it are allowed as error.
 *
 * GELU by the normal distribution (erf). The argument -x^2 / 2 of exp has one rounding, which becomes an
 * error of u32 x^2 / 2 in the result. exp adds 4 u32. t, Q and the products add 12 u32, and Q its own error
 * of 1.7e-7. So the error of E is at most 24 u32 E (1 + x^2), and 1 - E has u32 more. The same holds for phi.
 *
 * SwiGLU. -|g| is exact. exp adds 4 u32, and sum, quotient and product add 3 u32. So s and 1 - s are accurate
 * to 8 u32. This is doubled for devices whose exp and division are accurate only to 3 ulp. Each product adds
 * a rounding.
 * The products with an infinite x are 0 times infinity, and any result of them passes. NaN must stay NaN.
 */
#include "conform/gradient_pairs.h"

static const double k = 0.79788456080286535588;

struct shape {
    int64_t n;
    enum flavour flavour;
    int aliased; /* 1: the output is at the address of x; 2: of dy */
    double scale;
    bool grid; /* x goes evenly from -14 to 14 */
};

static const struct shape shapes[] = {
    { 1, ORDINARY, 0, 1 },     { 2, ORDINARY, 0, 2 },  { 7, ORDINARY, 1, 1 },   { 15, ORDINARY, 2, 3 },
    { 16, ORDINARY, 0, 1 },    { 17, ORDINARY, 1, 5 }, { 129, ORDINARY, 2, 1 }, { 4001, .grid = true },
    { 70001, ORDINARY, 0, 3 }, { 0, ORDINARY, 0, 1 },  { 257, WIDE, 0, 1 },     { 257, SUBNORMAL, 1, 1 },
    { 257, ZEROS, 0, 1 },      { 1031, NANS, 0, 1 },   { 1031, INFS, 0, 1 },
};

static struct shape shape_of(const struct trial *t)
{
    if (t->dims) return (struct shape){ .n = t->dims[0], .scale = 1 };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .n = 1 + trial_random(t, "n", 0, 5000), .scale = 4 };
}

enum { X, DY, Y };

static void setup_x(struct trial *t, const struct shape *s)
{
    t->flavour = s->flavour;
    trial_vector(t, X, "x", IN, t->dtype, s->n);
    trial_flavoured(t, X, s->scale, 100);
    for (int64_t i = 0; i < s->n && s->grid; i++)
        trial_set(t, X, i, -14 + 28 * (double)i / (double)(s->n - 1));
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

/* a * b, but 0 if a factor is 0, even if the other is infinite: a term that has vanished has no error. */
static double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

/* ---- forward ---- */

static void gelu_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    if (s.aliased)
        trial_alias(t, Y, "y", X);
    else
        trial_vector(t, Y, "y", OUT, t->dtype, s.n);
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

const struct conform_row conform_row_gelu_forward = CONFORM_ROW(gelu_forward, AT_ACTIVATION, CONFORM_FLOATS,
                                                                shapes, conform_elements_sizes, NO_GRADIENTS,
                                                                gelu_forward_setup, gelu_forward_call,
                                                                gelu_forward_bound);

/* ---- backward ---- */

static void gelu_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    trial_vector(t, DY, "dy", IN, t->dtype, s.n);
    trial_fill(t, DY, 1);
    if (s.aliased)
        trial_alias(t, Y, "dx", s.aliased == 1 ? X : DY);
    else
        trial_vector(t, Y, "dx", OUT, t->dtype, s.n);
}

static yoke_status gelu_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(gelu_backward, side, cost, .dtype = side_dtype(side, t->dtype), .n = shape_of(t).n,
                        .x = trial_at(t, side, X, 0), .dy = trial_at(t, side, DY, 0),
                        .dx = trial_at(t, side, Y, 0));
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

/* ---- gradient of gelu ---- */

static void gelu_pair_setup(struct gradient_check *c)
{
    gradient_input(c, "x", c->shape.N);
    for (int64_t i = 0; !c->status && i < c->shape.N; i++) INPUT(0)[i] *= 2;
    gradient_output(c, c->shape.N, 0);
}

static yoke_status gelu_pair_forward(struct gradient_check *c)
{
    GRADIENT_CALL(gelu_forward, .n = c->shape.N, .x = INPUT(0), .y = c->y);
    return YOKE_OK;
}

static yoke_status gelu_pair_backward(struct gradient_check *c)
{
    GRADIENT_CALL(gelu_backward, .n = c->shape.N, .x = INPUT(0), .dy = c->w, .dx = GRADIENT_OF(0));
    return YOKE_OK;
}

static yoke_status gelu_erf_pair_forward(struct gradient_check *c)
{
    GRADIENT_CALL(gelu_erf_forward, .n = c->shape.N, .x = INPUT(0), .y = c->y);
    return YOKE_OK;
}

static yoke_status gelu_erf_pair_backward(struct gradient_check *c)
{
    GRADIENT_CALL(gelu_erf_backward, .n = c->shape.N, .x = INPUT(0), .dy = c->w, .dx = GRADIENT_OF(0));
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair gelu_pairs[] = {
    { { .N = 300 }, gelu_pair_setup, gelu_pair_forward, gelu_pair_backward },
};
static const struct gradient_pair gelu_erf_pairs[] = {
    { { .N = 300 }, gelu_pair_setup, gelu_erf_pair_forward, gelu_erf_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_gelu_backward = CONFORM_ROW(
    gelu_backward, BACK_ACTIVATION, CONFORM_FLOATS, shapes, conform_elements_sizes, GRADIENTS(gelu_pairs),
    gelu_backward_setup, gelu_backward_call, gelu_backward_bound);

/* ---- GELU by the normal distribution: the same cases ---- */

static yoke_status gelu_erf_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(gelu_erf_forward, side, cost, .dtype = side_dtype(side, t->dtype), .n = shape_of(t).n,
                        .x = trial_at(t, side, X, 0), .y = trial_at(t, side, Y, 0));
}

static void gelu_erf_forward_bound(struct trial *t)
{
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double x = exact_of(t, X)[i], size = fabs(x), tail = 0.5 * erfc(size / M_SQRT2),
                     phi = x < 0 ? tail : 1 - tail;
        double e = u32 * size * (2 * phi + 24 * times(tail, 1 + x * x)) + 2 * eta32;
        if (tail < 0x1p-125) e += times(tail, size);
        t->tensor[Y].bound[i] = isinf(x) ? BOUND_ANY : bound_rounded(t->dtype, exact_of(t, Y)[i], e);
    }
}

const struct conform_row conform_row_gelu_erf_forward = CONFORM_ROW(
    gelu_erf_forward, AT_ACTIVATION, CONFORM_FLOATS, shapes, conform_elements_sizes, NO_GRADIENTS,
    gelu_forward_setup, gelu_erf_forward_call, gelu_erf_forward_bound);

static yoke_status gelu_erf_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(gelu_erf_backward, side, cost, .dtype = side_dtype(side, t->dtype),
                        .n = shape_of(t).n, .x = trial_at(t, side, X, 0), .dy = trial_at(t, side, DY, 0),
                        .dx = trial_at(t, side, Y, 0));
}

static void gelu_erf_backward_bound(struct trial *t)
{
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double x = exact_of(t, X)[i], dy = fabs(exact_of(t, DY)[i]),
                     tail = 0.5 * erfc(fabs(x) / M_SQRT2), phi = x < 0 ? tail : 1 - tail;
        const double all = tail + times(fabs(x), 0.4 * exp(-0.5 * x * x));
        double e = u32 * dy * (4 * phi + 24 * times(all, 1 + x * x)) + 2 * eta32 * (1 + dy);
        if (tail < 0x1p-125) e += dy * all;
        t->tensor[Y].bound[i] = isinf(x) ? BOUND_ANY : bound_rounded(t->dtype, exact_of(t, Y)[i], e);
    }
}

const struct conform_row conform_row_gelu_erf_backward = CONFORM_ROW(
    gelu_erf_backward, BACK_ACTIVATION, CONFORM_FLOATS, shapes, conform_elements_sizes,
    GRADIENTS(gelu_erf_pairs), gelu_backward_setup, gelu_erf_backward_call, gelu_erf_backward_bound);

/* ---- SwiGLU ---- */

struct rows {
    int64_t N, F, pad;
    bool fused; /* gate and up lie side by side in one matrix */
    /*
     * Forward: 1: y is at gate's address, 2: at up's. backward, if not 0: dgate is at gate's address and dup
     * at up's.
     */
    int aliased;
    enum flavour flavour;
};

/* clang-format off */
static const struct rows rows_list[] = {
    { 1, 1 }, { 3, 2, 1 }, { 4, 16, 0, true }, { 5, 17, 2, false, 1 }, { 2, 129, 3, false, 2 }, { 33, 100,
      0, true }, { 7, 257, 5 },
    { 0, 16 }, { 60, 1031, 0, true }, { 3, 90, 1, false, 0, WIDE }, { 3, 90, 1, true, 0, SUBNORMAL }, { 3,
      90, 0, false, 1, ZEROS },
    { 5, 211, 0, true, 0, NANS }, { 5, 211, 2, false, 0, INFS },
};
/* clang-format on */

static struct rows rows_of(const struct trial *t)
{
    if (t->dims) return (struct rows){ .N = t->dims[0], .F = t->dims[1], .fused = true };
    if ((size_t)t->index < YOKE_COUNT(rows_list)) return rows_list[t->index];
    return (struct rows){ .N = 1 + trial_random(t, "N", 0, 30),
                          .F = 1 + trial_random(t, "F", 0, 300),
                          .pad = trial_random(t, "pad", 0, 9),
                          .fused = trial_random(t, "fused", 0, 2) };
}

enum { GATE, UP, ROWS_DY, DGATE, DUP };

/*
 * The tensor and the first element of an operand. `up` lies beside `gate` in one matrix, or in a matrix of
 * its own.
 */
static void *rows_at(const struct trial *t, const struct rows *s, const struct side *side, int id)
{
    return s->fused && (id == UP || id == DUP) ? trial_at(t, side, id - 1, s->F) : trial_at(t, side, id, 0);
}
static int64_t rows_ld(const struct trial *t, const struct rows *s, int id)
{
    return t->tensor[s->fused && (id == UP || id == DUP) ? id - 1 : id].ld;
}
static double rows_exact(const struct trial *t, const struct rows *s, int id, int64_t n, int64_t f)
{
    const bool second = s->fused && id == UP;
    return exact_of(t, second ? GATE : id)[n * rows_ld(t, s, id) + f + (second ? s->F : 0)];
}
static double *rows_bound(struct trial *t, const struct rows *s, int id, int64_t n, int64_t f)
{
    const bool second = s->fused && id == DUP;
    return &t->tensor[second ? DGATE : id].bound[n * rows_ld(t, s, id) + f + (second ? s->F : 0)];
}

static void rows_setup(struct trial *t, const struct rows *s)
{
    t->flavour = s->flavour;
    trial_matrix(t, GATE, s->fused ? "gate_up" : "gate", IN, t->dtype, s->N, (s->fused ? 2 : 1) * s->F,
                 (s->fused ? 2 : 1) * s->F + s->pad);
    trial_flavoured(t, GATE, 3, 40);
    t->flavour = ORDINARY;
    if (!s->fused) {
        trial_matrix(t, UP, "up", IN, t->dtype, s->N, s->F, s->F + 2 * s->pad);
        trial_fill(t, UP, 1);
    }
    t->flavour = s->flavour;
    trial_describe(t, "N %d F %d pad %d%s%s", (int)s->N, (int)s->F, (int)s->pad, s->fused ? " fused" : "",
                   s->aliased ? " aliased" : "");
}

static void swiglu_forward_setup(struct trial *t)
{
    const struct rows s = rows_of(t);
    rows_setup(t, &s);
    if (s.aliased)
        trial_alias(t, DGATE, "y", s.aliased == 1 ? GATE : UP);
    else
        trial_matrix(t, DGATE, "y", OUT, t->dtype, s.N, s.F, s.F + 3 * s.pad);
}

static yoke_status swiglu_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct rows s = rows_of(t);
    return CONFORM_CALL(swiglu_forward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .F = s.F,
                        .gate = rows_at(t, &s, side, GATE), .ldgate = rows_ld(t, &s, GATE),
                        .up = rows_at(t, &s, side, UP), .ldup = rows_ld(t, &s, UP),
                        .y = trial_at(t, side, DGATE, 0), .ldy = t->tensor[DGATE].ld);
}

struct logistic {
    double s, rest;
};
static struct logistic logistic_of(double g)
{
    return (struct logistic){ 1 / (1 + exp(-g)), 1 / (1 + exp(g)) };
}

static void swiglu_forward_bound(struct trial *t)
{
    const struct rows s = rows_of(t);
    for (int64_t n = 0; n < s.N; n++)
        for (int64_t f = 0; f < s.F; f++) {
            const int64_t at = n * t->tensor[DGATE].ld + f;
            const double g = rows_exact(t, &s, GATE, n, f), u = fabs(rows_exact(t, &s, UP, n, f)),
                         z = logistic_of(g).s;
            double e = 16 * u32 * times(fabs(g), z) * u + 2 * eta32 * (1 + u);
            if (z < 0x1p-125) e += times(fabs(g), z) * u;
            t->tensor[DGATE].bound[at] = isinf(g) || isinf(u)
                                             ? BOUND_ANY
                                             : bound_rounded(t->dtype, exact_of(t, DGATE)[at], e);
        }
}

static const struct conform_sizes gated_sizes = {
    { "N", "F" },
    { { "tiny", { 32, 172 } }, { "micro", { 512, 688 } }, { "124m", { 4096, 2048 } } },
    .least = { 16 }
};

const struct conform_row conform_row_swiglu_forward = CONFORM_ROW(swiglu_forward, AT_ACTIVATION,
                                                                  CONFORM_FLOATS, rows_list, gated_sizes,
                                                                  NO_GRADIENTS, swiglu_forward_setup,
                                                                  swiglu_forward_call, swiglu_forward_bound);

static void swiglu_backward_setup(struct trial *t)
{
    const struct rows s = rows_of(t);
    rows_setup(t, &s);
    trial_matrix(t, ROWS_DY, "dy", IN, t->dtype, s.N, s.F, s.F + s.pad);
    trial_fill(t, ROWS_DY, 1);
    if (s.aliased) {
        trial_alias(t, DGATE, "dgate", GATE);
        trial_alias(t, DUP, "dup", UP);
        return;
    }
    trial_matrix(t, DGATE, s.fused ? "dgate_up" : "dgate", OUT, t->dtype, s.N, (s.fused ? 2 : 1) * s.F,
                 (s.fused ? 2 : 1) * s.F + 2 * s.pad);
    if (!s.fused) trial_matrix(t, DUP, "dup", OUT, t->dtype, s.N, s.F, s.F + s.pad);
}

static yoke_status swiglu_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct rows s = rows_of(t);
    return CONFORM_CALL(swiglu_backward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .F = s.F,
                        .gate = rows_at(t, &s, side, GATE), .ldgate = rows_ld(t, &s, GATE),
                        .up = rows_at(t, &s, side, UP), .ldup = rows_ld(t, &s, UP),
                        .dy = trial_at(t, side, ROWS_DY, 0), .lddy = t->tensor[ROWS_DY].ld,
                        .dgate = rows_at(t, &s, side, DGATE), .lddgate = rows_ld(t, &s, DGATE),
                        .dup = rows_at(t, &s, side, DUP), .lddup = rows_ld(t, &s, DUP));
}

static void swiglu_backward_bound(struct trial *t)
{
    const struct rows s = rows_of(t);
    for (int64_t n = 0; n < s.N; n++)
        for (int64_t f = 0; f < s.F; f++) {
            const double g = rows_exact(t, &s, GATE, n, f), size = fabs(g),
                         u = fabs(rows_exact(t, &s, UP, n, f));
            const double dy = fabs(rows_exact(t, &s, ROWS_DY, n, f));
            const struct logistic z = logistic_of(g);
            const double slope = z.s + times(times(size, z.s), z.rest);
            double up = 16 * u32 * dy * times(size, z.s) + 2 * eta32 * (1 + dy),
                   gate = 32 * u32 * dy * u * slope + 2 * eta32 * (1 + dy) * (1 + u);
            if (z.s < 0x1p-125) up += dy * times(size, z.s), gate += dy * u * slope;
            if (z.rest < 0x1p-125) gate += dy * u * times(times(size, z.s), z.rest);
            const bool open = isinf(g) || isinf(u);
            double *const dgate = rows_bound(t, &s, DGATE, n, f), *const dup = rows_bound(t, &s, DUP, n, f);
            const struct tensor *const d = &t->tensor[DGATE], *const second =
                                                                  &t->tensor[s.fused ? DGATE : DUP];
            *dgate = open ? BOUND_ANY : bound_rounded(t->dtype, d->exact[dgate - d->bound], gate);
            *dup = open ? BOUND_ANY : bound_rounded(t->dtype, second->exact[dup - second->bound], up);
        }
}

/* ---- gradient of swiglu ---- */

static void swiglu_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "gate", s->N * s->C);
    gradient_input(c, "up", s->N * s->C);
    for (int64_t i = 0; !c->status && i < s->N * s->C; i++) INPUT(0)[i] *= 3;
    gradient_output(c, s->N * s->C, 0);
}

#define SWIGLU(s) .N = (s)->N, .F = (s)->C, .gate = INPUT(0), .ldgate = (s)->C, .up = INPUT(1), .ldup = (s)->C

static yoke_status swiglu_pair_forward(struct gradient_check *c)
{
    GRADIENT_CALL(swiglu_forward, SWIGLU(&c->shape), .y = c->y, .ldy = c->shape.C);
    return YOKE_OK;
}

static yoke_status swiglu_pair_backward(struct gradient_check *c)
{
    const int64_t C = c->shape.C;
    GRADIENT_CALL(swiglu_backward, SWIGLU(&c->shape), .dy = c->w, .lddy = C, .dgate = GRADIENT_OF(0),
                  .lddgate = C, .dup = GRADIENT_OF(1), .lddup = C);
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair swiglu_pairs[] = {
    { { .N = 7, .C = 11 }, swiglu_pair_setup, swiglu_pair_forward, swiglu_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_swiglu_backward = CONFORM_ROW(
    swiglu_backward, BACK_ACTIVATION, CONFORM_FLOATS, rows_list, gated_sizes, GRADIENTS(swiglu_pairs),
    swiglu_backward_setup, swiglu_backward_call, swiglu_backward_bound);
