/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of elementwise sums and products: the derivation of the bounds.
 * The bound is one f32 operation, u32 |ref|, and one rounding to the stored type. A sum of two stored numbers
 * is exact below the normal range. A product is not, so it is allowed eta.
 * Dropout is a product, u32 |s x|, and the sum with the residual, u32 |ref|. If an element is dropped that
 * should be kept, or kept that should be dropped, its error is |s x|. No bound of a case of ordinary numbers
 * allows that.
 */
#include "conform/gradient_pairs.h"

#include <string.h>

struct shape {
    int64_t n;
    enum flavour flavour;
    int aliased; /* 1: the output is at the address of x; 2: of y */
    float alpha;
};

static const struct shape shapes[] = {
    { 1, ORDINARY, 0, 2 },         { 2, ORDINARY, 1, 0.1f },      { 15, ORDINARY, 2, -3.7f },
    { 16, ORDINARY, 0, 1 / 3.0f }, { 17, ORDINARY, 1, 1e-3f },    { 127, ORDINARY, 2, 1 },
    { 1031, ORDINARY, 0, 65536 },  { 100003, ORDINARY, 0, 0.7f }, { 0, ORDINARY, 0, 1 },
    { 515, WIDE, 0, -1.5f },       { 515, SUBNORMAL, 0, 0.3f },   { 515, ZEROS, 1, -1 },
    { 515, NANS, 0, 2 },           { 515, INFS, 2, 2 },
};

static struct shape shape_of(const struct trial *t)
{
    if (t->dims) return (struct shape){ .n = t->dims[0], .alpha = 0.7f };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .n = 1 + trial_random(t, "n", 0, 9000),
                           .alpha = 0.01f * (float)(1 + trial_random(t, "alpha", 0, 500)) };
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
    if (s.aliased)
        trial_alias(t, Z, "z", s.aliased == 1 ? X : Y);
    else
        trial_vector(t, Z, "z", OUT, t->dtype, s.n);
}

static yoke_status add_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    return CONFORM_CALL(add, side, cost, .dtype = side_dtype(side, t->dtype), .n = shape_of(t).n,
                        .x = trial_at(t, side, X, 0), .y = trial_at(t, side, Y, 0),
                        .z = trial_at(t, side, Z, 0));
}

static void add_bound(struct trial *t)
{
    const double u = t->dtype == YOKE_F16 || t->dtype == YOKE_BF16 ? yokei_unit_roundoff(t->dtype) : 0;
    for (int64_t i = 0; i < shape_of(t).n; i++) {
        const double size = fabs(exact_of(t, Z)[i]);
        t->tensor[Z].bound[i] = u32 * size + u * (1 + u32) * size;
    }
}

const struct conform_row conform_row_add = CONFORM_ROW(add, AT_RESIDUAL, CONFORM_FLOATS, shapes,
                                                       conform_elements_sizes, NO_GRADIENTS, add_setup,
                                                       add_call, add_bound);

static void scale_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    setup_x(t, &s);
    if (s.aliased)
        trial_alias(t, Z, "y", X);
    else
        trial_vector(t, Z, "y", OUT, t->dtype, s.n);
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

const struct conform_row conform_row_scale = CONFORM_ROW(scale, AT_SCALING, CONFORM_FLOATS, shapes,
                                                         conform_elements_sizes, NO_GRADIENTS, scale_setup,
                                                         scale_call, scale_bound);

/* ---- dropout ---- */

struct piece {
    int64_t N, C, T, first_row, sample, position, channel, pad;
    float p;
    enum flavour flavour;
    int aliased; /* 1: the output is at the address of x; 2: of the residual */
    bool residual;
};

static const struct piece pieces[] = {
    { 1, 1, 1, .p = 0.5f },
    { 3, 16, 2, .p = 0.1f, .residual = true },
    { 5, 64, 5, .p = 0.1f, .pad = 3 },
    { 7, 130, 4, .first_row = 3, .sample = 11, .position = 2, .p = 0.25f, .pad = 1, .aliased = 1 },
    { 4, 77, 4, .channel = 16, .p = 0.5f, .residual = true },
    { 4, 77, 4, .channel = 61, .p = 0.5f, .residual = true, .aliased = 2 },
    { 3, 9, 3, .channel = 7, .p = 0.9f },
    { 2, 200, 1, .first_row = 5, .channel = 1000, .sample = 4000000000, .position = 3000000000, .p = 0.3f },
    { 66, 257, 33, .p = 0.1f, .residual = true, .pad = 5 },
    { 6, 48, 6, .p = 0, .residual = true },
    { 0, 48, 6, .p = 0.1f },
    { 9, 100, 5, .p = 0.4f, .flavour = WIDE },
    { 9, 100, 5, .p = 0.4f, .flavour = SUBNORMAL },
    { 9, 100, 5, .p = 0.4f, .flavour = NANS, .residual = true },
    { 9, 100, 5, .p = 0.4f, .flavour = INFS },
};

static struct piece piece_of(const struct trial *t)
{
    if (t->dims)
        return (struct piece){ .N = t->dims[0], .C = t->dims[1], .T = 64, .p = 0.1f, .residual = true };
    if ((size_t)t->index < YOKE_COUNT(pieces)) return pieces[t->index];
    return (struct piece){ .N = 1 + trial_random(t, "N", 0, 40),
                           .C = 1 + trial_random(t, "C", 0, 300),
                           .T = 1 + trial_random(t, "T", 0, 20),
                           .first_row = trial_random(t, "row", 0, 30),
                           .channel = trial_random(t, "channel", 0, 200),
                           .pad = trial_random(t, "pad", 0, 9),
                           .p = 0.05f * (float)trial_random(t, "p", 0, 20),
                           .residual = trial_random(t, "residual", 0, 2) };
}

enum { DX, DRESIDUAL, DY };

static void dropout_setup(struct trial *t)
{
    const struct piece s = piece_of(t);
    t->flavour = s.flavour;
    trial_matrix(t, DX, "x", IN, t->dtype, s.N, s.C, s.C + s.pad);
    trial_flavoured(t, DX, 1, 100);
    if (s.residual) {
        trial_matrix(t, DRESIDUAL, "residual", IN, t->dtype, s.N, s.C, s.C + 2 * s.pad);
        trial_fill(t, DRESIDUAL, 1);
    }
    if (s.aliased)
        trial_alias(t, DY, "y", s.aliased == 1 ? DX : DRESIDUAL);
    else
        trial_matrix(t, DY, "y", OUT, t->dtype, s.N, s.C, s.C + 3 * s.pad);
    trial_describe(t, "N %d C %d T %d row %d channel %d p %g%s%s", (int)s.N, (int)s.C, (int)s.T,
                   (int)s.first_row, (int)s.channel, (double)s.p, s.residual ? " residual" : "",
                   s.aliased ? " aliased" : "");
}

static yoke_status dropout_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct piece s = piece_of(t);
    return CONFORM_CALL(dropout, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .C = s.C,
                        .T = s.T, .p = s.p, .key = yoke_random_key(t->seed, t->index, "conformance"),
                        .first_row = s.first_row, .sample_start = s.sample, .pos_start = s.position,
                        .channel_start = s.channel, .x = trial_at(t, side, DX, 0), .ldx = t->tensor[DX].ld,
                        .residual = trial_at(t, side, DRESIDUAL, 0), .ldresidual = t->tensor[DRESIDUAL].ld,
                        .y = trial_at(t, side, DY, 0), .ldy = t->tensor[DY].ld);
}

static void dropout_bound(struct trial *t)
{
    const struct piece s = piece_of(t);
    const double scale = 1 / (1 - (double)s.p);
    for (int64_t n = 0; n < s.N; n++)
        for (int64_t c = 0; c < s.C; c++) {
            const double x = exact_of(t, DX)[n * t->tensor[DX].ld + c],
                         wanted = exact_of(t, DY)[n * t->tensor[DY].ld + c];
            /* An element that is dropped and has no residual is exactly 0. */
            const double e = wanted == 0 && !s.residual
                                 ? 0
                                 : u32 * (isfinite(x) ? scale * fabs(x) : 0) + u32 * fabs(wanted);
            t->tensor[DY].bound[n * t->tensor[DY].ld + c] = bound_rounded(t->dtype, wanted, e);
        }
}

static const struct conform_sizes dropout_sizes = {
    { "N", "C" },
    { { "tiny", { 32, 64 } }, { "micro", { 512, 256 } }, { "124m", { 8192, 768 } } },
    .least = { 16 }
};

/* ---- gradient of dropout: the same op on the gradient, with the same key; Y = dropout(x) + residual ---- */

static void dropout_pair_setup(struct gradient_check *c)
{
    gradient_input(c, "x", c->shape.N * c->shape.C);
    gradient_input(c, "residual", c->shape.N * c->shape.C);
    gradient_output(c, c->shape.N * c->shape.C, 0);
}

#define DROPOUT(s)                                                                               \
    .N = (s)->N, .C = (s)->C, .T = (s)->T, .p = 0.3f, .key = yoke_random_key(1, 2, "gradients"), \
    .first_row = 2, .channel_start = 5, .ldx = (s)->C, .ldy = (s)->C

static yoke_status dropout_pair_forward(struct gradient_check *c)
{
    GRADIENT_CALL(dropout, DROPOUT(&c->shape), .x = INPUT(0), .residual = INPUT(1), .ldresidual = c->shape.C,
                  .y = c->y);
    return YOKE_OK;
}

static yoke_status dropout_pair_backward(struct gradient_check *c)
{
    GRADIENT_CALL(dropout, DROPOUT(&c->shape), .x = c->w, .y = GRADIENT_OF(0));
    memcpy(GRADIENT_OF(1), c->w, (size_t)c->n_y * sizeof(double));
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair dropout_pairs[] = {
    { { .N = 5, .C = 70, .T = 3 }, dropout_pair_setup, dropout_pair_forward, dropout_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_dropout = CONFORM_ROW(dropout, AT_DROPOUT, CONFORM_FLOATS, pieces,
                                                           dropout_sizes, GRADIENTS(dropout_pairs),
                                                           dropout_setup, dropout_call, dropout_bound);
