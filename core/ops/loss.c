/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status check_shape(const char *op, yoke_dtype dtype, int64_t N, int64_t V, int64_t vocab_start,
                               int64_t vocabulary)
{
    YOKE_TRY(yokei_check_float(op, "dtype", dtype));
    YOKE_TRY(yokei_check_extent(op, "N", N));
    YOKE_TRY(yokei_check_shard(op, vocab_start, V, vocabulary));
    if (V < 1) return yoke_fail(YOKE_EINVAL, "%s: V is 0; a distribution over nothing has no loss", op);
    return YOKE_OK;
}

static yoke_status xent_forward_check(const struct yoke_xent_forward_args *a, bool pointers)
{
    const char *op = "xent_forward";
    YOKE_TRY(check_shape(op, a->dtype, a->N, a->V, a->vocab_start, a->vocabulary));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand logits = yokei_matrix("logits", a->logits, a->dtype, a->N, a->V, a->ld);
    const struct yokei_operand targets = yokei_vector("targets", a->targets, YOKE_I32, a->N);
    const struct yokei_operand outs[] = {
        yokei_vector("lse", a->lse, wide, a->N),
        yokei_optional(yokei_vector("picked", a->picked, wide, a->N)),
        yokei_optional(yokei_vector("losses", a->losses, wide, a->N)),
    };
    YOKE_TRY(yokei_check_operand(op, &logits, pointers));
    YOKE_TRY(yokei_check_operand(op, &targets, pointers));
    for (size_t i = 0; i < YOKE_COUNT(outs); i++) {
        YOKE_TRY(yokei_check_operand(op, &outs[i], pointers));
        if (!pointers) continue;
        YOKE_TRY(yokei_check_apart(op, &outs[i], &logits, false));
        YOKE_TRY(yokei_check_apart(op, &outs[i], &targets, false));
        for (size_t j = 0; j < i; j++) YOKE_TRY(yokei_check_apart(op, &outs[i], &outs[j], false));
    }
    return YOKE_OK;
}

static yoke_status xent_backward_check(const struct yoke_xent_backward_args *a, bool pointers)
{
    const char *op = "xent_backward";
    YOKE_TRY(check_shape(op, a->dtype, a->N, a->V, a->vocab_start, a->vocabulary));
    YOKE_TRY(yokei_check_not_zero(op, "scale", a->scale));
    const struct yokei_operand logits = yokei_matrix("logits", a->logits, a->dtype, a->N, a->V, a->ld);
    const struct yokei_operand targets = yokei_vector("targets", a->targets, YOKE_I32, a->N);
    const struct yokei_operand lse = yokei_vector("lse", a->lse, yoke_dtype_wide(a->dtype), a->N);
    const struct yokei_operand d = yokei_matrix("dlogits", a->dlogits, a->dtype, a->N, a->V, a->lddlogits);
    const struct yokei_operand *const all[] = { &logits, &targets, &lse, &d };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &d, &logits, true));
    YOKE_TRY(yokei_check_apart(op, &d, &targets, false));
    return yokei_check_apart(op, &d, &lse, false);
}

static yoke_status xent_join_check(const struct yoke_xent_join_args *a, bool pointers)
{
    const char *op = "xent_join";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "P", a->P));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    if (a->P < 1) return yoke_fail(YOKE_EINVAL, "xent_join: P is 0; there are no parts to join");
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    struct yokei_operand ins[] = {
        yokei_matrix("lse_parts", a->lse_parts, wide, a->P, a->N, a->ld),
        yokei_matrix("picked_parts", a->picked_parts, wide, a->P, a->N, a->ld),
        yokei_vector("targets", a->targets, YOKE_I32, a->N),
    };
    if (!a->losses) ins[1] = yokei_optional(ins[1]), ins[2] = yokei_optional(ins[2]);
    const struct yokei_operand lse = yokei_vector("lse", a->lse, wide, a->N);
    const struct yokei_operand losses = yokei_optional(yokei_vector("losses", a->losses, wide, a->N));
    YOKE_TRY(yokei_check_operand(op, &lse, pointers));
    YOKE_TRY(yokei_check_operand(op, &losses, pointers));
    for (size_t i = 0; i < YOKE_COUNT(ins); i++) {
        YOKE_TRY(yokei_check_operand(op, &ins[i], pointers));
        if (!pointers) continue;
        YOKE_TRY(yokei_check_apart(op, &lse, &ins[i], false));
        YOKE_TRY(yokei_check_apart(op, &losses, &ins[i], false));
    }
    return pointers ? yokei_check_apart(op, &losses, &lse, false) : YOKE_OK;
}

/* ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ---- */

/* The maximum: 1. exp(logit - maximum): 2. The sum: 1. */
static struct yokei_call xent_forward_call(const struct yoke_xent_forward_args *a)
{
    const double N = (double)a->N, wide = yokei_wide_bytes(a->dtype);
    return yokei_call_of(YOKE_OP_xent_forward, a, a->dtype, N * (double)a->V, 4 * N * (double)a->V,
                         N
                             * ((double)a->V * yokei_bytes(a->dtype) + (double)sizeof(int32_t)
                                + (1 + !!a->picked + !!a->losses) * wide));
}

/* scale * (exp(logit - lse) - [target]): 4. */
static struct yokei_call xent_backward_call(const struct yoke_xent_backward_args *a)
{
    const double N = (double)a->N;
    return yokei_call_of(YOKE_OP_xent_backward, a, a->dtype, N * (double)a->V, 4 * N * (double)a->V,
                         N
                             * (2 * (double)a->V * yokei_bytes(a->dtype) + (double)sizeof(int32_t)
                                + yokei_wide_bytes(a->dtype)));
}

/*
 * As in forward, 4 for each part of lse. For the losses, the sum of picked_parts: 1. All P parts count in the
 * size, as all of V does in forward, because the time of a call grows with P.
 */
static struct yokei_call xent_join_call(const struct yoke_xent_join_args *a)
{
    const double N = (double)a->N, P = (double)a->P, wide = yokei_wide_bytes(a->dtype);
    const bool losses = a->losses != NULL;
    return yokei_call_of(YOKE_OP_xent_join, a, a->dtype, P * N, P * N * (4 + losses),
                         N * wide * (P + 1) * (1 + losses) + losses * N * (double)sizeof(int32_t));
}

/* ---- the public functions ---- */

yoke_status yoke_xent_forward(yoke_stream *stream, const struct yoke_xent_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_xent_forward, stream, args, sizeof *args));
    YOKE_TRY(xent_forward_check(args, true));
    const struct yokei_call call = xent_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_xent_forward_can(const yoke_device *device, const struct yoke_xent_forward_args *args,
                                  struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_xent_forward, device, args, sizeof *args));
    YOKE_TRY(xent_forward_check(args, false));
    const struct yokei_call call = xent_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_xent_backward(yoke_stream *stream, const struct yoke_xent_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_xent_backward, stream, args, sizeof *args));
    YOKE_TRY(xent_backward_check(args, true));
    const struct yokei_call call = xent_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_xent_backward_can(const yoke_device *device, const struct yoke_xent_backward_args *args,
                                   struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_xent_backward, device, args, sizeof *args));
    YOKE_TRY(xent_backward_check(args, false));
    const struct yokei_call call = xent_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_xent_join(yoke_stream *stream, const struct yoke_xent_join_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_xent_join, stream, args, sizeof *args));
    YOKE_TRY(xent_join_check(args, true));
    const struct yokei_call call = xent_join_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_xent_join_can(const yoke_device *device, const struct yoke_xent_join_args *args,
                               struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_xent_join, device, args, sizeof *args));
    YOKE_TRY(xent_join_check(args, false));
    const struct yokei_call call = xent_join_call(args);
    return yokei_op_can(device, &call, cost_out);
}
