/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

struct yoke_layernorm_forward_args yokei_rmsnorm_forward_as_layernorm(
    const struct yoke_rmsnorm_forward_args *a)
{
    return YOKE_ARGS(layernorm_forward, .dtype = a->dtype, .N = a->N, .C = a->C, .x = a->x, .ldx = a->ldx,
                     .gamma = a->gamma, .eps = a->eps, .y = a->y, .ldy = a->ldy, .rstd = a->rstd);
}

struct yoke_layernorm_backward_args yokei_rmsnorm_backward_as_layernorm(
    const struct yoke_rmsnorm_backward_args *a)
{
    return YOKE_ARGS(layernorm_backward, .dtype = a->dtype, .N = a->N, .C = a->C, .dy = a->dy,
                     .lddy = a->lddy, .x = a->x, .ldx = a->ldx, .gamma = a->gamma, .rstd = a->rstd,
                     .dresidual = a->dresidual, .lddresidual = a->lddresidual, .dx = a->dx, .lddx = a->lddx,
                     .dgamma = a->dgamma);
}

/* `rms`: RMSNorm, which has neither beta nor mean. */
static yoke_status check_forward(const char *op, bool rms, const struct yoke_layernorm_forward_args *a,
                                 bool pointers)
{
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    if (!(a->eps > 0))
        return yoke_fail(YOKE_EINVAL, "%s: eps is %g; a positive number such as 1e-5 is expected", op,
                         (double)a->eps);
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->C, a->ldx),
                               y = yokei_matrix("y", a->y, a->dtype, a->N, a->C, a->ldy);
    const struct yokei_operand gamma = yokei_vector("gamma", a->gamma, wide, a->C);
    struct yokei_operand beta = yokei_vector("beta", a->beta, wide, a->C);
    const struct yokei_operand mean = yokei_optional(yokei_vector("mean", a->mean, wide, a->N));
    const struct yokei_operand rstd = yokei_optional(yokei_vector("rstd", a->rstd, wide, a->N));
    const struct yokei_operand *const all[] = { &x, &y, &gamma, &beta, &mean, &rstd };
    beta.optional = rms;
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    if (!rms && !a->mean != !a->rstd)
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

static yoke_status check_backward(const char *op, bool rms, const struct yoke_layernorm_backward_args *a,
                                  bool pointers)
{
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
    struct yokei_operand mean = yokei_vector("mean", a->mean, wide, a->N);
    const struct yokei_operand dgamma = yokei_optional(yokei_vector("dgamma", a->dgamma, wide, a->C));
    const struct yokei_operand dbeta = yokei_optional(yokei_vector("dbeta", a->dbeta, wide, a->C));
    const struct yokei_operand *const all[] = { &dy, &x, &dr, &dx, &gamma, &mean, &rstd, &dgamma, &dbeta };
    mean.optional = rms;
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    if (!rms && !a->dgamma != !a->dbeta)
        return yoke_fail(YOKE_EINVAL, "%s: dgamma and dbeta are wanted both, or neither", op);
    YOKE_TRY(yokei_check_apart(op, &dx, &dy, true));
    YOKE_TRY(yokei_check_apart(op, &dx, &dr, true));
    YOKE_TRY(yokei_check_apart(op, &dgamma, &dbeta, false));
    const struct yokei_operand *const outs[] = { &dx, &dgamma, &dbeta }, *const ins[] = { &x, &gamma, &mean,
                                                                                          &rstd };
    for (size_t i = 0; i < YOKE_COUNT(outs); i++) {
        for (size_t j = 0; j < YOKE_COUNT(ins); j++) YOKE_TRY(yokei_check_apart(op, outs[i], ins[j], false));
        if (outs[i] == &dx) continue;
        YOKE_TRY(yokei_check_apart(op, outs[i], &dy, false));
        YOKE_TRY(yokei_check_apart(op, outs[i], &dx, false));
    }
    return YOKE_OK;
}

static yoke_status layernorm_forward_check(const struct yoke_layernorm_forward_args *a, bool pointers)
{
    return check_forward("layernorm_forward", false, a, pointers);
}

static yoke_status layernorm_backward_check(const struct yoke_layernorm_backward_args *a, bool pointers)
{
    return check_backward("layernorm_backward", false, a, pointers);
}

static yoke_status rmsnorm_forward_check(const struct yoke_rmsnorm_forward_args *a, bool pointers)
{
    const struct yoke_layernorm_forward_args like = yokei_rmsnorm_forward_as_layernorm(a);
    return check_forward("rmsnorm_forward", true, &like, pointers);
}

static yoke_status rmsnorm_backward_check(const struct yoke_rmsnorm_backward_args *a, bool pointers)
{
    const struct yoke_layernorm_backward_args like = yokei_rmsnorm_backward_as_layernorm(a);
    return check_backward("rmsnorm_backward", true, &like, pointers);
}

/* ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ---- */

/* avg(x): 1. avg((x - mean)^2): 3. (x - mean) * rstd * gamma + beta: 4. */
static struct yokei_call layernorm_forward_call(const struct yoke_layernorm_forward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    return yokei_call_of(YOKE_OP_layernorm_forward, a, a->dtype, N * C, 8 * N * C,
                         2 * N * C * yokei_bytes(a->dtype) + 2 * C * wide
                             + (!!a->mean + !!a->rstd) * N * wide);
}

/*
 * xhat: 2. For dx, g: 1, avg(g): 1, avg(g * xhat): 2, rstd * (g - avg(g) - xhat * avg(g * xhat)): 4, and 1
 * for dresidual. For the weights, dy * xhat: 1, and 1 for each of the two sums.
 */
static struct yokei_call layernorm_backward_call(const struct yoke_layernorm_backward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    const bool all = !a->dx && !a->dgamma, dx = a->dx || all, weights = a->dgamma || all,
               residual = dx && a->dresidual;
    return yokei_call_of(
        YOKE_OP_layernorm_backward, a, a->dtype, N * C, N * C * (2 + 8 * dx + residual + 3 * weights),
        N * C * yokei_bytes(a->dtype) * (2 + dx + residual) + wide * (2 * N + C * dx + 4 * C * weights));
}

/* avg(x^2): 2. x * rstd * gamma: 2. */
static struct yokei_call rmsnorm_forward_call(const struct yoke_rmsnorm_forward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    return yokei_call_of(YOKE_OP_rmsnorm_forward, a, a->dtype, N * C, 4 * N * C,
                         2 * N * C * yokei_bytes(a->dtype) + C * wide + !!a->rstd * N * wide);
}

/*
 * xhat: 1. For dx, g: 1, avg(g * xhat): 2, rstd * (g - xhat * avg(g * xhat)): 3, and 1 for dresidual. For
 * dgamma, the sum of dy * xhat: 2.
 */
static struct yokei_call rmsnorm_backward_call(const struct yoke_rmsnorm_backward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, wide = yokei_wide_bytes(a->dtype);
    const bool all = !a->dx && !a->dgamma, dx = a->dx || all, weights = a->dgamma || all,
               residual = dx && a->dresidual;
    return yokei_call_of(
        YOKE_OP_rmsnorm_backward, a, a->dtype, N * C, N * C * (1 + 6 * dx + residual + 2 * weights),
        N * C * yokei_bytes(a->dtype) * (2 + dx + residual) + wide * (N + C * dx + 2 * C * weights));
}

/* ---- the public functions ---- */

yoke_status yoke_layernorm_forward(yoke_stream *stream, const struct yoke_layernorm_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_layernorm_forward, stream, args, sizeof *args));
    YOKE_TRY(layernorm_forward_check(args, true));
    const struct yokei_call call = layernorm_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_layernorm_forward_can(const yoke_device *device,
                                       const struct yoke_layernorm_forward_args *args,
                                       struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_layernorm_forward, device, args, sizeof *args));
    YOKE_TRY(layernorm_forward_check(args, false));
    const struct yokei_call call = layernorm_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_layernorm_backward(yoke_stream *stream, const struct yoke_layernorm_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_layernorm_backward, stream, args, sizeof *args));
    YOKE_TRY(layernorm_backward_check(args, true));
    const struct yokei_call call = layernorm_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_layernorm_backward_can(const yoke_device *device,
                                        const struct yoke_layernorm_backward_args *args,
                                        struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_layernorm_backward, device, args, sizeof *args));
    YOKE_TRY(layernorm_backward_check(args, false));
    const struct yokei_call call = layernorm_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_rmsnorm_forward(yoke_stream *stream, const struct yoke_rmsnorm_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_rmsnorm_forward, stream, args, sizeof *args));
    YOKE_TRY(rmsnorm_forward_check(args, true));
    const struct yokei_call call = rmsnorm_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_rmsnorm_forward_can(const yoke_device *device, const struct yoke_rmsnorm_forward_args *args,
                                     struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_rmsnorm_forward, device, args, sizeof *args));
    YOKE_TRY(rmsnorm_forward_check(args, false));
    const struct yokei_call call = rmsnorm_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_rmsnorm_backward(yoke_stream *stream, const struct yoke_rmsnorm_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_rmsnorm_backward, stream, args, sizeof *args));
    YOKE_TRY(rmsnorm_backward_check(args, true));
    const struct yokei_call call = rmsnorm_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_rmsnorm_backward_can(const yoke_device *device,
                                      const struct yoke_rmsnorm_backward_args *args,
                                      struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_rmsnorm_backward, device, args, sizeof *args));
    YOKE_TRY(rmsnorm_backward_check(args, false));
    const struct yokei_call call = rmsnorm_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}
