/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status layernorm_forward_check(const struct yoke_layernorm_forward_args *a, bool pointers)
{
    const char *op = "layernorm_forward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    if (!(a->eps > 0))
        return yoke_fail(YOKE_EINVAL, "%s: eps is %g; a positive number such as 1e-5 is expected", op,
                         (double)a->eps);
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->C, a->ldx),
                               y = yokei_matrix("y", a->y, a->dtype, a->N, a->C, a->ldy);
    const struct yokei_operand gamma = yokei_vector("gamma", a->gamma, wide, a->C),
                               beta = yokei_vector("beta", a->beta, wide, a->C);
    const struct yokei_operand mean = yokei_optional(yokei_vector("mean", a->mean, wide, a->N));
    const struct yokei_operand rstd = yokei_optional(yokei_vector("rstd", a->rstd, wide, a->N));
    const struct yokei_operand *const all[] = { &x, &y, &gamma, &beta, &mean, &rstd };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    if (!a->mean != !a->rstd)
        return yoke_fail(YOKE_EINVAL, "%s: mean and rstd are wanted both, or neither", op);
    YOKE_TRY(yokei_check_apart(op, &y, &x, true));
    const struct yokei_operand *const outs[] = { &y, &mean, &rstd }, *const ins[] = { &gamma, &beta };
    for (size_t i = 0; i < YOKE_COUNT(outs); i++)
        for (size_t j = 0; j < YOKE_COUNT(ins); j++) YOKE_TRY(yokei_check_apart(op, outs[i], ins[j], false));
    YOKE_TRY(yokei_check_apart(op, &mean, &x, false));
    YOKE_TRY(yokei_check_apart(op, &rstd, &x, false));
    YOKE_TRY(yokei_check_apart(op, &mean, &y, false));
    YOKE_TRY(yokei_check_apart(op, &rstd, &y, false));
    return yokei_check_apart(op, &mean, &rstd, false);
}

static yoke_status layernorm_backward_check(const struct yoke_layernorm_backward_args *a, bool pointers)
{
    const char *op = "layernorm_backward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand dy = yokei_matrix("dy", a->dy, a->dtype, a->N, a->C, a->lddy);
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->C, a->ldx);
    struct yokei_operand dr = yokei_optional(
        yokei_matrix("dresidual", a->dresidual, a->dtype, a->N, a->C, a->lddresidual));
    struct yokei_operand dx = yokei_optional(yokei_matrix("dx", a->dx, a->dtype, a->N, a->C, a->lddx));
    if (pointers && !a->dresidual) dr.ld = a->C;
    if (pointers && !a->dx) dx.ld = a->C;
    if (!pointers)
        dr.ld = YOKE_MAX(dr.ld, a->C),
        dx.ld = YOKE_MAX(dx.ld, a->C); /* whether the two are wanted is not known yet */
    const struct yokei_operand gamma = yokei_vector("gamma", a->gamma, wide, a->C);
    const struct yokei_operand mean = yokei_vector("mean", a->mean, wide, a->N),
                               rstd = yokei_vector("rstd", a->rstd, wide, a->N);
    const struct yokei_operand dgamma = yokei_optional(yokei_vector("dgamma", a->dgamma, wide, a->C));
    const struct yokei_operand dbeta = yokei_optional(yokei_vector("dbeta", a->dbeta, wide, a->C));
    const struct yokei_operand *const all[] = { &dy, &x, &dr, &dx, &gamma, &mean, &rstd, &dgamma, &dbeta };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    if (!a->dgamma != !a->dbeta)
        return yoke_fail(YOKE_EINVAL, "%s: dgamma and dbeta are wanted both, or neither", op);
    YOKE_TRY(yokei_check_apart(op, &dx, &dy, true));
    YOKE_TRY(yokei_check_apart(op, &dx, &dr, true));
    YOKE_TRY(yokei_check_apart(op, &dgamma, &dbeta, false));
    const struct yokei_operand *const outs[] = { &dx, &dgamma, &dbeta }, *const ins[] = { &x, &gamma, &mean,
                                                                                          &rstd };
    for (size_t i = 0; i < YOKE_COUNT(outs); i++)
        for (size_t j = 0; j < YOKE_COUNT(ins); j++) YOKE_TRY(yokei_check_apart(op, outs[i], ins[j], false));
    return YOKE_OK;
}

static yoke_status rmsnorm_forward_check(const struct yoke_rmsnorm_forward_args *a, bool pointers)
{
    const char *op = "rmsnorm_forward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    if (!(a->eps > 0))
        return yoke_fail(YOKE_EINVAL, "%s: eps is %g; a positive number such as 1e-5 is expected", op,
                         (double)a->eps);
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->C, a->ldx),
                               y = yokei_matrix("y", a->y, a->dtype, a->N, a->C, a->ldy);
    const struct yokei_operand gamma = yokei_vector("gamma", a->gamma, wide, a->C),
                               rstd = yokei_optional(yokei_vector("rstd", a->rstd, wide, a->N));
    const struct yokei_operand *const all[] = { &x, &y, &gamma, &rstd };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &y, &x, true));
    YOKE_TRY(yokei_check_apart(op, &y, &gamma, false));
    YOKE_TRY(yokei_check_apart(op, &rstd, &gamma, false));
    YOKE_TRY(yokei_check_apart(op, &rstd, &x, false));
    return yokei_check_apart(op, &rstd, &y, false);
}

static yoke_status rmsnorm_backward_check(const struct yoke_rmsnorm_backward_args *a, bool pointers)
{
    const char *op = "rmsnorm_backward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand dy = yokei_matrix("dy", a->dy, a->dtype, a->N, a->C, a->lddy);
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->C, a->ldx);
    struct yokei_operand dr = yokei_optional(
        yokei_matrix("dresidual", a->dresidual, a->dtype, a->N, a->C, a->lddresidual));
    struct yokei_operand dx = yokei_optional(yokei_matrix("dx", a->dx, a->dtype, a->N, a->C, a->lddx));
    if (!a->dresidual) dr.ld = a->C; /* dresidual is not wanted, or not known yet */
    if (!a->dx) dx.ld = a->C;
    const struct yokei_operand gamma = yokei_vector("gamma", a->gamma, wide, a->C),
                               rstd = yokei_vector("rstd", a->rstd, wide, a->N);
    const struct yokei_operand dgamma = yokei_optional(yokei_vector("dgamma", a->dgamma, wide, a->C));
    const struct yokei_operand *const all[] = { &dy, &x, &dr, &dx, &gamma, &rstd, &dgamma };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &dx, &dy, true));
    YOKE_TRY(yokei_check_apart(op, &dx, &dr, true));
    YOKE_TRY(yokei_check_apart(op, &dgamma, &dy, false));
    YOKE_TRY(yokei_check_apart(op, &dgamma, &dx, false));
    const struct yokei_operand *const ins[] = { &x, &gamma, &rstd };
    for (size_t j = 0; j < YOKE_COUNT(ins); j++) {
        YOKE_TRY(yokei_check_apart(op, &dx, ins[j], false));
        YOKE_TRY(yokei_check_apart(op, &dgamma, ins[j], false));
    }
    return YOKE_OK;
}

/* ---- costs: include/yoke/ops/common.h says how operations and bytes are counted ---- */

/* avg(x): 1. avg((x - mean)^2): 3. (x - mean) * rstd * gamma + beta: 4. */
static struct yokei_work layernorm_forward_work(const struct yoke_layernorm_forward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    return (struct yokei_work){ 8 * N * C, 2 * N * C * yokei_bytes(a->dtype) + 2 * C * wide
                                               + (!!a->mean + !!a->rstd) * N * wide };
}

/*
 * xhat: 2. For dx, g: 1, avg(g): 1, avg(g * xhat): 2, rstd * (g - avg(g) - xhat * avg(g * xhat)): 4, and 1
 * for dresidual. For the weights, dy * xhat: 1, and 1 for each of the two sums.
 */
static struct yokei_work layernorm_backward_work(const struct yoke_layernorm_backward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    const bool all = !a->dx && !a->dgamma, dx = a->dx || all, weights = a->dgamma || all,
               residual = dx && a->dresidual;
    return (struct yokei_work){ N * C * (2 + 8 * dx + residual + 3 * weights),
                                N * C * yokei_bytes(a->dtype) * (2 + dx + residual)
                                    + wide * (2 * N + C * dx + 4 * C * weights) };
}

/* avg(x^2): 2. x * rstd * gamma: 2. */
static struct yokei_work rmsnorm_forward_work(const struct yoke_rmsnorm_forward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    return (struct yokei_work){ 4 * N * C,
                                2 * N * C * yokei_bytes(a->dtype) + C * wide + !!a->rstd * N * wide };
}

/*
 * xhat: 1. For dx, g: 1, avg(g * xhat): 2, rstd * (g - xhat * avg(g * xhat)): 3, and 1 for dresidual. For
 * dgamma, the sum of dy * xhat: 2.
 */
static struct yokei_work rmsnorm_backward_work(const struct yoke_rmsnorm_backward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    const bool all = !a->dx && !a->dgamma, dx = a->dx || all, weights = a->dgamma || all,
               residual = dx && a->dresidual;
    return (struct yokei_work){ N * C * (1 + 6 * dx + residual + 2 * weights),
                                N * C * yokei_bytes(a->dtype) * (2 + dx + residual)
                                    + wide * (N + C * dx + 2 * C * weights) };
}

#define OP(op) YOKEI_OP(norm, op)
YOKE_NORM_OPS(OP)
