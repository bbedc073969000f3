/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status check_wide(const char *op, yoke_dtype dtype)
{
    if (dtype == YOKE_F32 || dtype == YOKE_F64) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL,
                     "%s: dtype is %s; weights and moments are kept in f32 (f64 on the reference backend)",
                     op, yoke_dtype_name(dtype));
}

static yoke_status adamw_check(const struct yoke_adamw_args *a, bool pointers)
{
    const char *op = "adamw";
    YOKE_TRY(check_wide(op, a->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    YOKE_TRY(yokei_check_not_zero(op, "grad_scale", a->grad_scale));
    if (a->step < 1) return yoke_fail(YOKE_EINVAL, "adamw: step is %lld; the first is 1", (long long)a->step);
    if (!(a->beta1 >= 0 && a->beta1 < 1 && a->beta2 >= 0 && a->beta2 < 1))
        return yoke_fail(YOKE_EINVAL, "adamw: betas %g, %g; both are expected in [0, 1)", (double)a->beta1,
                         (double)a->beta2);
    if (!(a->eps > 0))
        return yoke_fail(YOKE_EINVAL, "adamw: eps is %g; a positive number such as 1e-8 is expected",
                         (double)a->eps);
    const struct yokei_operand all[] = {
        yokei_vector("w", a->w, a->dtype, a->n),
        yokei_vector("m", a->m, a->dtype, a->n),
        yokei_vector("v", a->v, a->dtype, a->n),
        yokei_optional(yokei_vector("copy", a->copy, a->copy_dtype, a->n)),
        yokei_vector("grad", a->grad, a->dtype, a->n),
    };
    if (pointers && a->copy) YOKE_TRY(yokei_check_float(op, "copy_dtype", a->copy_dtype));
    for (size_t i = 0; i < YOKE_COUNT(all); i++) {
        YOKE_TRY(yokei_check_operand(op, &all[i], pointers));
        for (size_t j = 0; pointers && j < i; j++) YOKE_TRY(yokei_check_apart(op, &all[i], &all[j], false));
    }
    return YOKE_OK;
}

/* The number of sums that grad_norm writes. */
static int64_t norm_sums(const struct yoke_grad_norm_args *a)
{
    return a->block ? a->n / a->block + (a->n % a->block != 0) : 1;
}

static yoke_status grad_norm_check(const struct yoke_grad_norm_args *a, bool pointers)
{
    const char *op = "grad_norm";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    YOKE_TRY(yokei_check_not_zero(op, "scale", a->scale));
    const struct yokei_operand grad = yokei_vector("grad", a->grad, a->dtype, a->n);
    YOKE_TRY(yokei_check_extent(op, "block", a->block));
    const int64_t n_sums = norm_sums(a);
    const struct yokei_operand out = yokei_vector("out", a->out, yoke_dtype_wide(a->dtype), 2 * n_sums);
    YOKE_TRY(yokei_check_operand(op, &grad, pointers));
    YOKE_TRY(yokei_check_operand(op, &out, pointers));
    return pointers ? yokei_check_apart(op, &out, &grad, false) : YOKE_OK;
}

/* ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ---- */

/*
 * g: 1. m: 3. v: 4. w, where lr * weight_decay and the two corrections are constants: 9. The rounding of the
 * copy: 1.
 */
static struct yokei_call adamw_call(const struct yoke_adamw_args *a)
{
    const double n = (double)a->n;
    const double copied = a->copy ? yokei_bytes(a->copy_dtype) : 0;
    struct yokei_call call = yokei_call_of(YOKE_OP_adamw, a, a->dtype, n, n * (17 + !!a->copy),
                                           n * (7 * yokei_bytes(a->dtype) + copied));
    if (a->copy) call.second = a->copy_dtype;
    return call;
}

/* The sum of (scale * grad)^2: 3. */
static struct yokei_call grad_norm_call(const struct yoke_grad_norm_args *a)
{
    const double n = (double)a->n, n_sums = (double)norm_sums(a);
    return yokei_call_of(YOKE_OP_grad_norm, a, a->dtype, n, 3 * n,
                         n * yokei_bytes(a->dtype) + 2 * n_sums * yokei_wide_bytes(a->dtype));
}

/* ---- the public functions ---- */

yoke_status yoke_adamw(yoke_stream *stream, const struct yoke_adamw_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_adamw, stream, args, sizeof *args));
    YOKE_TRY(adamw_check(args, true));
    const struct yokei_call call = adamw_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_adamw_can(const yoke_device *device, const struct yoke_adamw_args *args,
                           struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_adamw, device, args, sizeof *args));
    YOKE_TRY(adamw_check(args, false));
    const struct yokei_call call = adamw_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_grad_norm(yoke_stream *stream, const struct yoke_grad_norm_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_grad_norm, stream, args, sizeof *args));
    YOKE_TRY(grad_norm_check(args, true));
    const struct yokei_call call = grad_norm_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_grad_norm_can(const yoke_device *device, const struct yoke_grad_norm_args *args,
                               struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_grad_norm, device, args, sizeof *args));
    YOKE_TRY(grad_norm_check(args, false));
    const struct yokei_call call = grad_norm_call(args);
    return yokei_op_can(device, &call, cost_out);
}
