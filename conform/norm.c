/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance of normalisation: the derivation of the bounds.
 *
 * Forward, in f32. The mean is a sum of C numbers times 1/C, so |dm| <= gamma(C+1) avg|x|. A centred value
 * has the error dm and one rounding. The variance is a mean of squares. Its rounding is relative, gamma(C+4).
 * The shift dm adds dm^2. The linear term vanishes, because the centred values sum to zero. rstd has half of
 * the variance's relative error, and 4 u32 for square root and division:
 *   r = gamma(C+4) / 2 + (dm rstd)^2 / 2 + 4 u32.
 * y = (x - mean) rstd gamma + beta:
 *   |dy| <= |gamma| (rstd dm + |xhat| (r + 3 u32)) + u32 (|xhat gamma| + |beta| + |y|).
 *
 * Backward. xhat has 2 roundings, g has 1, and g xhat has 1 more. Averages of C terms add gamma(C+1). Three
 * operations and the factor rstd follow. Added up term by term, and with one rounding of the sum with
 * dresidual:
 *   |d dx| <= rstd (gamma(6) |g| + gamma(C+6) avg|g| + gamma(C+12) |xhat| avg|g xhat|) + u32 |dx|
 * dgamma has terms with 3 roundings and N additions: gamma(N+4) (sum |dy xhat| + |dgamma0|). dbeta:
 * gamma(N+1) (sum |dy| + |dbeta0|).
 *
 * RMSNorm has the same bounds, with a mean of 0 that is exact: no dm, no avg(g), no beta.
 */
#include "conform/gradient_pairs.h"

struct shape {
    int64_t N, C;
    int64_t pad;   /* ld = C + pad; each matrix has another pad */
    double offset; /* added to x, so that the mean is far from zero */
    enum flavour flavour;
    int aliased; /* 1: the output is at the address of the first input that it may alias; 2: of the second */
    bool no_stats, no_dx, no_weights, residual;
};

static const struct shape shapes[] = {
    { 1, 1 },
    { 3, 2, 1 },
    { 5, 3, 0, 0, ORDINARY, 1 },
    { 2, 7, 3, 10, ORDINARY, 0, .residual = true },
    { 1, 16, 0, 0, ORDINARY, 0, .no_stats = true, .no_weights = true },
    { 4, 31, 2, -3, ORDINARY, 2, .residual = true },
    { 17, 64, 0, 0, ORDINARY, 0, .no_dx = true },
    { 3, 65, 7, 100 },
    { 130, 33, 1, 0, ORDINARY, 1, .residual = true },
    { 5, 127, 0, 1 },
    { 2, 256, 0, 0, ORDINARY, 0, .residual = true },
    { 67, 257, 5, 0 },
    { 9, 768, 0, 0.5, ORDINARY, 0, .residual = true },
    { 2, 1031, 3, 20 },
    { 0, 64 },
    { 6, 48, 4, 0, WIDE },
    { 6, 48, 4, 0, SUBNORMAL, 0, .residual = true },
    { 6, 48, 4, 0, ZEROS },
    { 9, 100, 4, 0, NANS },
    { 9, 100, 4, 0, INFS, 1 },
};

static struct shape shape_of(const struct trial *t)
{
    if (t->dims) return (struct shape){ .N = t->dims[0], .C = t->dims[1] };
    if ((size_t)t->index < YOKE_COUNT(shapes)) return shapes[t->index];
    return (struct shape){ .N = 1 + trial_random(t, "N", 0, 40),
                           .C = 1 + trial_random(t, "C", 0, 900),
                           .pad = trial_random(t, "pad", 0, 9),
                           .residual = trial_random(t, "residual", 0, 2) };
}

/* Fill x with rows whose mean is near `offset`, and gamma with values near 1. */
static void fill_rows(struct trial *t, const struct shape *s, int x, int gamma)
{
    trial_flavoured(t, x, 1, 40);
    if (s->offset != 0)
        for (int64_t n = 0; n < s->N; n++)
            for (int64_t c = 0; c < s->C; c++) {
                const int64_t at = n * t->tensor[x].ld + c;
                trial_set(t, x, at, trial_get(t, x, at) + s->offset);
            }
    trial_fill(t, gamma, 0.5);
    for (int64_t c = 0; c < s->C; c++) trial_set(t, gamma, c, 1 + trial_get(t, gamma, c));
}

/* ---- forward ---- */

enum { FX, FGAMMA, FBETA, FY, FMEAN, FRSTD };
static const float eps = 1e-5f;

static void layernorm_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    t->flavour = s.flavour;
    trial_matrix(t, FX, "x", IN, t->dtype, s.N, s.C, s.C + s.pad);
    trial_vector(t, FGAMMA, "gamma", IN, wide, s.C);
    trial_vector(t, FBETA, "beta", IN, wide, s.C);
    if (s.aliased)
        trial_alias(t, FY, "y", FX);
    else
        trial_matrix(t, FY, "y", OUT, t->dtype, s.N, s.C, s.C + 2 * s.pad);
    if (!s.no_stats) {
        trial_vector(t, FMEAN, "mean", OUT, wide, s.N);
        trial_vector(t, FRSTD, "rstd", OUT, wide, s.N);
    }
    fill_rows(t, &s, FX, FGAMMA);
    trial_fill(t, FBETA, 1);
    trial_describe(t, "N %d C %d pad %d mean %g%s", (int)s.N, (int)s.C, (int)s.pad, s.offset,
                   s.aliased ? " y=x" : "");
}

static yoke_status layernorm_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(layernorm_forward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N,
                        .C = s.C, .x = trial_at(t, side, FX, 0), .ldx = t->tensor[FX].ld,
                        .gamma = trial_at(t, side, FGAMMA, 0), .beta = trial_at(t, side, FBETA, 0),
                        .eps = eps, .y = trial_at(t, side, FY, 0), .ldy = t->tensor[FY].ld,
                        .mean = trial_at(t, side, FMEAN, 0), .rstd = trial_at(t, side, FRSTD, 0));
}

/* The statistics of row n in f64, and the error of the mean. */
struct statistics {
    double mean, rstd, dm;
};

static struct statistics statistics_of(const double *x, int64_t C)
{
    double mean = 0, size = 0, variance = 0;
    for (int64_t c = 0; c < C; c++) mean += x[c], size += fabs(x[c]);
    mean /= (double)C;
    for (int64_t c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean);
    const double dm = gamma32((double)C + 1) * size / (double)C + 2 * eta32;
    return (struct statistics){ mean, 1 / sqrt(variance / (double)C + eps), dm };
}

static void layernorm_forward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double *gamma = exact_of(t, FGAMMA), *beta = exact_of(t, FBETA);
    for (int64_t n = 0; n < s.N; n++) {
        const double *x = exact_of(t, FX) + n * t->tensor[FX].ld, *y = exact_of(t, FY) + n * t->tensor[FY].ld;
        const struct statistics z = statistics_of(x, s.C);
        const double shift = z.dm * z.rstd, r = gamma32((double)s.C + 4) / 2 + shift * shift / 2 + 4 * u32;
        for (int64_t c = 0; c < s.C; c++) {
            const double xhat = (x[c] - z.mean) * z.rstd;
            const double e = fabs(gamma[c]) * (shift + fabs(xhat) * (r + 3 * u32))
                             + u32 * (fabs(xhat * gamma[c]) + fabs(beta[c]) + fabs(y[c])) + eta32;
            t->tensor[FY].bound[n * t->tensor[FY].ld + c] = bound_rounded(t->dtype, y[c], e);
        }
        if (s.no_stats) continue;
        t->tensor[FMEAN].bound[n] = z.dm;
        t->tensor[FRSTD].bound[n] = z.rstd * r;
    }
}

const struct conform_row conform_row_layernorm_forward = CONFORM_ROW(
    layernorm_forward, AT_NORM, CONFORM_FLOATS, shapes, conform_rows_sizes, NO_GRADIENTS,
    layernorm_forward_setup, layernorm_forward_call, layernorm_forward_bound);

/* ---- backward ---- */

enum { DY, X, GAMMA, MEAN, RSTD, DRESIDUAL, DX, DGAMMA, DBETA };

static void layernorm_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    t->flavour = s.flavour;
    trial_matrix(t, X, "x", IN, t->dtype, s.N, s.C, s.C + s.pad);
    trial_matrix(t, DY, "dy", IN, t->dtype, s.N, s.C, s.C + 2 * s.pad);
    trial_vector(t, GAMMA, "gamma", IN, wide, s.C);
    trial_vector(t, MEAN, "mean", IN, wide, s.N);
    trial_vector(t, RSTD, "rstd", IN, wide, s.N);
    if (s.residual) trial_matrix(t, DRESIDUAL, "dresidual", IN, t->dtype, s.N, s.C, s.C + 3 * s.pad);
    if (s.aliased)
        trial_alias(t, DX, "dx", s.aliased == 1 ? DY : DRESIDUAL);
    else if (!s.no_dx)
        trial_matrix(t, DX, "dx", OUT, t->dtype, s.N, s.C, s.C);
    if (!s.no_weights) {
        trial_vector(t, DGAMMA, "dgamma", SUM, wide, s.C);
        trial_vector(t, DBETA, "dbeta", SUM, wide, s.C);
        trial_fill(t, DGAMMA, 1);
        trial_fill(t, DBETA, 1);
    }
    fill_rows(t, &s, X, GAMMA);
    t->flavour = s.flavour == NANS || s.flavour == INFS ? s.flavour : ORDINARY;
    trial_flavoured(t, DY, 1, 10);
    t->flavour = s.flavour;
    if (s.residual) trial_fill(t, DRESIDUAL, 1);
    if (t->timed) { /* the statistics of standard normal rows */
        trial_constant(t, MEAN, 0);
        trial_constant(t, RSTD, 1);
    }
    for (int64_t n = 0; n < s.N && !t->timed; n++) {
        double *x = t->tensor[X].exact; /* memory for a row; the oracle's values are written here later */
        for (int64_t c = 0; c < s.C; c++) x[c] = trial_get(t, X, n * t->tensor[X].ld + c);
        const struct statistics z = statistics_of(x, s.C);
        trial_set(t, MEAN, n, z.mean);
        trial_set(t, RSTD, n, z.rstd);
    }
    trial_describe(t, "N %d C %d pad %d mean %g%s%s%s%s", (int)s.N, (int)s.C, (int)s.pad, s.offset,
                   s.residual ? " residual" : "",
                   s.aliased == 1   ? " dx=dy"
                   : s.aliased == 2 ? " dx=dresidual"
                                    : "",
                   s.no_dx ? " no dx" : "", s.no_weights ? " no dgamma" : "");
}

static yoke_status layernorm_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(layernorm_backward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N,
                        .C = s.C, .dy = trial_at(t, side, DY, 0), .lddy = t->tensor[DY].ld,
                        .x = trial_at(t, side, X, 0), .ldx = t->tensor[X].ld,
                        .gamma = trial_at(t, side, GAMMA, 0), .mean = trial_at(t, side, MEAN, 0),
                        .rstd = trial_at(t, side, RSTD, 0), .dresidual = trial_at(t, side, DRESIDUAL, 0),
                        .lddresidual = t->tensor[DRESIDUAL].ld, .dx = trial_at(t, side, DX, 0),
                        .lddx = t->tensor[DX].ld, .dgamma = trial_at(t, side, DGAMMA, 0),
                        .dbeta = trial_at(t, side, DBETA, 0));
}

static void dx_bound(struct trial *t, const struct shape *s, int64_t n)
{
    const double *x = exact_of(t, X) + n * t->tensor[X].ld, *dy = exact_of(t, DY) + n * t->tensor[DY].ld;
    const double *gamma = exact_of(t, GAMMA), mean = exact_of(t, MEAN)[n], rstd = exact_of(t, RSTD)[n],
                 C = (double)s->C;
    double avg_g = 0, avg_gx = 0;
    for (int64_t c = 0; c < s->C; c++) {
        avg_g += fabs(dy[c] * gamma[c]) / C;
        avg_gx += fabs(dy[c] * gamma[c] * (x[c] - mean) * rstd) / C;
    }
    for (int64_t c = 0; c < s->C; c++) {
        const int64_t at = n * t->tensor[DX].ld + c;
        const double xhat = fabs((x[c] - mean) * rstd), wanted = exact_of(t, DX)[at];
        const double e = rstd
                             * (gamma32(6) * fabs(dy[c] * gamma[c]) + gamma32(C + 6) * avg_g
                                + gamma32(C + 12) * xhat * avg_gx)
                         + u32 * fabs(wanted) + (2 * rstd + 2) * eta32;
        t->tensor[DX].bound[at] = bound_rounded(t->dtype, wanted, e);
    }
}

static void layernorm_backward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    for (int64_t n = 0; n < s.N && !s.no_dx; n++) dx_bound(t, &s, n);
    for (int64_t c = 0; c < s.C && !s.no_weights; c++) {
        double dgamma = fabs(t->tensor[DGAMMA].initial[c]), dbeta = fabs(t->tensor[DBETA].initial[c]);
        for (int64_t n = 0; n < s.N; n++) {
            const double dy = fabs(exact_of(t, DY)[n * t->tensor[DY].ld + c]);
            dgamma += dy * fabs(exact_of(t, X)[n * t->tensor[X].ld + c] - exact_of(t, MEAN)[n])
                      * exact_of(t, RSTD)[n];
            dbeta += dy;
        }
        t->tensor[DGAMMA].bound[c] = gamma32((double)s.N + 4) * dgamma + (double)(s.N + 1) * eta32;
        t->tensor[DBETA].bound[c] = gamma32((double)s.N + 1) * dbeta;
    }
}

/* ---- gradient of layernorm ---- */

static void layernorm_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "x", s->N * s->C);
    gradient_input(c, "gamma", s->C);
    gradient_input(c, "beta", s->C);
    gradient_output(c, s->N * s->C, 2 * s->N);
}

static yoke_status layernorm_pair_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(layernorm_forward, .N = s->N, .C = s->C, .x = INPUT(0), .ldx = s->C, .gamma = INPUT(1),
                  .beta = INPUT(2), .eps = 1e-5f, .y = c->y, .ldy = s->C, .mean = c->extra,
                  .rstd = c->extra + s->N);
    return YOKE_OK;
}

static yoke_status layernorm_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(layernorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = INPUT(0),
                  .ldx = s->C, .gamma = INPUT(1), .mean = c->extra, .rstd = c->extra + s->N,
                  .dx = GRADIENT_OF(0), .lddx = s->C, .dgamma = GRADIENT_OF(1), .dbeta = GRADIENT_OF(2));
    return YOKE_OK;
}

/* The same with the residual path: Y = layernorm(x) + x. */
static yoke_status residual_pair_forward(struct gradient_check *c)
{
    YOKE_TRY(layernorm_pair_forward(c));
    GRADIENT_CALL(add, .n = c->n_y, .x = c->y, .y = INPUT(0), .z = c->y);
    return YOKE_OK;
}

static yoke_status residual_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(layernorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = INPUT(0),
                  .ldx = s->C, .gamma = INPUT(1), .mean = c->extra, .rstd = c->extra + s->N,
                  .dresidual = c->w, .lddresidual = s->C, .dx = GRADIENT_OF(0), .lddx = s->C,
                  .dgamma = GRADIENT_OF(1), .dbeta = GRADIENT_OF(2));
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair layernorm_pairs[] = {
    { { .N = 4, .C = 13 }, layernorm_pair_setup, layernorm_pair_forward, layernorm_pair_backward },
    { { .N = 3, .C = 8 }, layernorm_pair_setup, residual_pair_forward, residual_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_layernorm_backward = CONFORM_ROW(
    layernorm_backward, BACK_NORM, CONFORM_FLOATS, shapes, conform_rows_sizes, GRADIENTS(layernorm_pairs),
    layernorm_backward_setup, layernorm_backward_call, layernorm_backward_bound);

/* ---- RMSNorm ---- */

static double rstd_of(const double *x, int64_t C)
{
    double squares = 0;
    for (int64_t c = 0; c < C; c++) squares += x[c] * x[c];
    return 1 / sqrt(squares / (double)C + eps);
}

static void rmsnorm_forward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    t->flavour = s.flavour;
    trial_matrix(t, FX, "x", IN, t->dtype, s.N, s.C, s.C + s.pad);
    trial_vector(t, FGAMMA, "gamma", IN, wide, s.C);
    if (s.aliased)
        trial_alias(t, FY, "y", FX);
    else
        trial_matrix(t, FY, "y", OUT, t->dtype, s.N, s.C, s.C + 2 * s.pad);
    if (!s.no_stats) trial_vector(t, FRSTD, "rstd", OUT, wide, s.N);
    fill_rows(t, &s, FX, FGAMMA);
    trial_describe(t, "N %d C %d pad %d mean %g%s", (int)s.N, (int)s.C, (int)s.pad, s.offset,
                   s.aliased ? " y=x" : "");
}

static yoke_status rmsnorm_forward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(rmsnorm_forward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .C = s.C,
                        .x = trial_at(t, side, FX, 0), .ldx = t->tensor[FX].ld,
                        .gamma = trial_at(t, side, FGAMMA, 0), .eps = eps, .y = trial_at(t, side, FY, 0),
                        .ldy = t->tensor[FY].ld, .rstd = trial_at(t, side, FRSTD, 0));
}

static void rmsnorm_forward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double *gamma = exact_of(t, FGAMMA), r = gamma32((double)s.C + 4) / 2 + 4 * u32;
    for (int64_t n = 0; n < s.N; n++) {
        const double *x = exact_of(t, FX) + n * t->tensor[FX].ld, *y = exact_of(t, FY) + n * t->tensor[FY].ld,
                     rstd = rstd_of(x, s.C);
        for (int64_t c = 0; c < s.C; c++)
            t->tensor[FY].bound[n * t->tensor[FY].ld + c] = bound_rounded(
                t->dtype, y[c], fabs(x[c] * rstd * gamma[c]) * (r + 3 * u32) + (fabs(gamma[c]) + 1) * eta32);
        if (!s.no_stats) t->tensor[FRSTD].bound[n] = rstd * r;
    }
}

const struct conform_row conform_row_rmsnorm_forward = CONFORM_ROW(
    rmsnorm_forward, AT_NORM, CONFORM_FLOATS, shapes, conform_rows_sizes, NO_GRADIENTS, rmsnorm_forward_setup,
    rmsnorm_forward_call, rmsnorm_forward_bound);

static void rmsnorm_backward_setup(struct trial *t)
{
    const struct shape s = shape_of(t);
    const yoke_dtype wide = yoke_dtype_wide(t->dtype);
    t->flavour = s.flavour;
    trial_matrix(t, X, "x", IN, t->dtype, s.N, s.C, s.C + s.pad);
    trial_matrix(t, DY, "dy", IN, t->dtype, s.N, s.C, s.C + 2 * s.pad);
    trial_vector(t, GAMMA, "gamma", IN, wide, s.C);
    trial_vector(t, RSTD, "rstd", IN, wide, s.N);
    if (s.residual) trial_matrix(t, DRESIDUAL, "dresidual", IN, t->dtype, s.N, s.C, s.C + 3 * s.pad);
    if (s.aliased)
        trial_alias(t, DX, "dx", s.aliased == 1 ? DY : DRESIDUAL);
    else if (!s.no_dx)
        trial_matrix(t, DX, "dx", OUT, t->dtype, s.N, s.C, s.C);
    if (!s.no_weights) {
        trial_vector(t, DGAMMA, "dgamma", SUM, wide, s.C);
        trial_fill(t, DGAMMA, 1);
    }
    fill_rows(t, &s, X, GAMMA);
    t->flavour = s.flavour == NANS || s.flavour == INFS ? s.flavour : ORDINARY;
    trial_flavoured(t, DY, 1, 10);
    t->flavour = s.flavour;
    if (s.residual) trial_fill(t, DRESIDUAL, 1);
    if (t->timed) trial_constant(t, RSTD, 1); /* the rstd of standard normal rows */
    for (int64_t n = 0; n < s.N && !t->timed; n++) {
        double *x = t->tensor[X].exact; /* memory for a row; the oracle's values are written here later */
        for (int64_t c = 0; c < s.C; c++) x[c] = trial_get(t, X, n * t->tensor[X].ld + c);
        trial_set(t, RSTD, n, rstd_of(x, s.C));
    }
    trial_describe(t, "N %d C %d pad %d mean %g%s%s%s%s", (int)s.N, (int)s.C, (int)s.pad, s.offset,
                   s.residual ? " residual" : "",
                   s.aliased == 1   ? " dx=dy"
                   : s.aliased == 2 ? " dx=dresidual"
                                    : "",
                   s.no_dx ? " no dx" : "", s.no_weights ? " no dgamma" : "");
}

static yoke_status rmsnorm_backward_call(struct trial *t, const struct side *side, struct yoke_cost *cost)
{
    const struct shape s = shape_of(t);
    return CONFORM_CALL(rmsnorm_backward, side, cost, .dtype = side_dtype(side, t->dtype), .N = s.N, .C = s.C,
                        .dy = trial_at(t, side, DY, 0), .lddy = t->tensor[DY].ld,
                        .x = trial_at(t, side, X, 0), .ldx = t->tensor[X].ld,
                        .gamma = trial_at(t, side, GAMMA, 0), .rstd = trial_at(t, side, RSTD, 0),
                        .dresidual = trial_at(t, side, DRESIDUAL, 0), .lddresidual = t->tensor[DRESIDUAL].ld,
                        .dx = trial_at(t, side, DX, 0), .lddx = t->tensor[DX].ld,
                        .dgamma = trial_at(t, side, DGAMMA, 0));
}

static void rmsnorm_backward_bound(struct trial *t)
{
    const struct shape s = shape_of(t);
    const double *gamma = exact_of(t, GAMMA), C = (double)s.C;
    for (int64_t n = 0; n < s.N && !s.no_dx; n++) {
        const double *x = exact_of(t, X) + n * t->tensor[X].ld, *dy = exact_of(t, DY) + n * t->tensor[DY].ld,
                     rstd = exact_of(t, RSTD)[n];
        double average = 0;
        for (int64_t c = 0; c < s.C; c++) average += fabs(dy[c] * gamma[c] * x[c] * rstd) / C;
        for (int64_t c = 0; c < s.C; c++) {
            const int64_t at = n * t->tensor[DX].ld + c;
            const double wanted = exact_of(t, DX)[at];
            const double e = rstd
                                 * (gamma32(6) * fabs(dy[c] * gamma[c])
                                    + gamma32(C + 10) * fabs(x[c] * rstd) * average)
                             + u32 * fabs(wanted) + (2 * rstd + 2) * eta32;
            t->tensor[DX].bound[at] = bound_rounded(t->dtype, wanted, e);
        }
    }
    for (int64_t c = 0; c < s.C && !s.no_weights; c++) {
        double dgamma = fabs(t->tensor[DGAMMA].initial[c]);
        for (int64_t n = 0; n < s.N; n++)
            dgamma += fabs(exact_of(t, DY)[n * t->tensor[DY].ld + c]
                           * exact_of(t, X)[n * t->tensor[X].ld + c])
                      * exact_of(t, RSTD)[n];
        t->tensor[DGAMMA].bound[c] = gamma32((double)s.N + 4) * dgamma + (double)(s.N + 1) * eta32;
    }
}

/* ---- gradient of rmsnorm, with and without the residual path ---- */

static void rmsnorm_pair_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    gradient_input(c, "x", s->N * s->C);
    gradient_input(c, "gamma", s->C);
    gradient_output(c, s->N * s->C, s->N);
}

static yoke_status rmsnorm_pair_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(rmsnorm_forward, .N = s->N, .C = s->C, .x = INPUT(0), .ldx = s->C, .gamma = INPUT(1),
                  .eps = 1e-5f, .y = c->y, .ldy = s->C, .rstd = c->extra);
    if (s->K) GRADIENT_CALL(add, .n = c->n_y, .x = c->y, .y = INPUT(0), .z = c->y);
    return YOKE_OK;
}

static yoke_status rmsnorm_pair_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    GRADIENT_CALL(rmsnorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = INPUT(0),
                  .ldx = s->C, .gamma = INPUT(1), .rstd = c->extra, .dresidual = s->K ? c->w : NULL,
                  .lddresidual = s->C, .dx = GRADIENT_OF(0), .lddx = s->C, .dgamma = GRADIENT_OF(1));
    return YOKE_OK;
}

/* clang-format off */
static const struct gradient_pair rmsnorm_pairs[] = {
    { { .N = 4, .C = 13 }, rmsnorm_pair_setup, rmsnorm_pair_forward, rmsnorm_pair_backward },
    { { .N = 3, .C = 8, .K = 1 }, rmsnorm_pair_setup, rmsnorm_pair_forward, rmsnorm_pair_backward },
};
/* clang-format on */

const struct conform_row conform_row_rmsnorm_backward = CONFORM_ROW(
    rmsnorm_backward, BACK_NORM, CONFORM_FLOATS, shapes, conform_rows_sizes, GRADIENTS(rmsnorm_pairs),
    rmsnorm_backward_setup, rmsnorm_backward_call, rmsnorm_backward_bound);
