/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status gelu_forward_check(const struct yoke_gelu_forward_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n) },
                               y = yokei_vector("y", a->y, a->dtype, a->n);
    return yokei_check_map("gelu_forward", in, 1, &y, pointers);
}

static yoke_status gelu_backward_check(const struct yoke_gelu_backward_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n),
                                        yokei_vector("dy", a->dy, a->dtype, a->n) };
    const struct yokei_operand dx = yokei_vector("dx", a->dx, a->dtype, a->n);
    return yokei_check_map("gelu_backward", in, 2, &dx, pointers);
}

static yoke_status gelu_erf_forward_check(const struct yoke_gelu_erf_forward_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n) },
                               y = yokei_vector("y", a->y, a->dtype, a->n);
    return yokei_check_map("gelu_erf_forward", in, 1, &y, pointers);
}

static yoke_status gelu_erf_backward_check(const struct yoke_gelu_erf_backward_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n),
                                        yokei_vector("dy", a->dy, a->dtype, a->n) };
    const struct yokei_operand dx = yokei_vector("dx", a->dx, a->dtype, a->n);
    return yokei_check_map("gelu_erf_backward", in, 2, &dx, pointers);
}

/*
 * Check the outputs of SwiGLU, rows [N, F], against its inputs and against each other. same[o][i]: output o
 * may be input i.
 */
static yoke_status check_rows(const char *op, int64_t N, int64_t F, const struct yokei_operand ins[],
                              int n_ins, const struct yokei_operand outs[], int n_outs, const bool same[][3],
                              bool pointers)
{
    YOKE_TRY(yokei_check_float(op, "dtype", ins[0].dtype));
    YOKE_TRY(yokei_check_extent(op, "N", N));
    YOKE_TRY(yokei_check_extent(op, "F", F));
    for (int i = 0; i < n_ins; i++) YOKE_TRY(yokei_check_operand(op, &ins[i], pointers));
    for (int o = 0; o < n_outs; o++) {
        YOKE_TRY(yokei_check_operand(op, &outs[o], pointers));
        for (int i = 0; i < n_ins && pointers; i++)
            YOKE_TRY(yokei_check_apart(op, &outs[o], &ins[i], same[o][i]));
        for (int i = 0; i < o && pointers; i++) YOKE_TRY(yokei_check_apart(op, &outs[o], &outs[i], false));
    }
    return YOKE_OK;
}

static yoke_status swiglu_forward_check(const struct yoke_swiglu_forward_args *a, bool pointers)
{
    static const bool same[1][3] = { { true, true } };
    const struct yokei_operand ins[] = { yokei_matrix("gate", a->gate, a->dtype, a->N, a->F, a->ldgate),
                                         yokei_matrix("up", a->up, a->dtype, a->N, a->F, a->ldup) };
    const struct yokei_operand y = yokei_matrix("y", a->y, a->dtype, a->N, a->F, a->ldy);
    return check_rows("swiglu_forward", a->N, a->F, ins, 2, &y, 1, same, pointers);
}

static yoke_status swiglu_backward_check(const struct yoke_swiglu_backward_args *a, bool pointers)
{
    static const bool same[2][3] = { { true, false, false }, { false, true, false } };
    const struct yokei_operand ins[] = { yokei_matrix("gate", a->gate, a->dtype, a->N, a->F, a->ldgate),
                                         yokei_matrix("up", a->up, a->dtype, a->N, a->F, a->ldup),
                                         yokei_matrix("dy", a->dy, a->dtype, a->N, a->F, a->lddy) };
    const struct yokei_operand outs[] = { yokei_matrix("dgate", a->dgate, a->dtype, a->N, a->F, a->lddgate),
                                          yokei_matrix("dup", a->dup, a->dtype, a->N, a->F, a->lddup) };
    return check_rows("swiglu_backward", a->N, a->F, ins, 3, outs, 2, same, pointers);
}

/* ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ---- */

/* s: 8, of which x^3 is 2 and 2 k is one factor. x * s: 1. */
static struct yokei_call gelu_forward_call(const struct yoke_gelu_forward_args *a)
{
    return yokei_call_each(YOKE_OP_gelu_forward, a, a->dtype, (double)a->n, 9, 2);
}

/* s: 8. s + x s (1 - s) 2 k (1 + 0.134145 x^2): 9. dy *: 1. */
static struct yokei_call gelu_backward_call(const struct yoke_gelu_backward_args *a)
{
    return yokei_call_each(YOKE_OP_gelu_backward, a, a->dtype, (double)a->n, 18, 3);
}

/* E: 5. t: 3. Q, of degree 7: 14. Phi = 1 - E: 1. x * Phi: 1. */
static struct yokei_call gelu_erf_forward_call(const struct yoke_gelu_erf_forward_args *a)
{
    return yokei_call_each(YOKE_OP_gelu_erf_forward, a, a->dtype, (double)a->n, 24, 2);
}

/* Phi: 23. phi: 4. dy * (Phi + x * phi): 3. */
static struct yokei_call gelu_erf_backward_call(const struct yoke_gelu_erf_backward_args *a)
{
    return yokei_call_each(YOKE_OP_gelu_erf_backward, a, a->dtype, (double)a->n, 30, 3);
}

/* s: 3. g * s * up: 2. */
static struct yokei_call swiglu_forward_call(const struct yoke_swiglu_forward_args *a)
{
    return yokei_call_each(YOKE_OP_swiglu_forward, a, a->dtype, (double)a->N * (double)a->F, 5, 3);
}

/* s: 3. dup = dy * gate * s: 2. dgate = dy * up * (s + gate * s * (1 - s)): 6. */
static struct yokei_call swiglu_backward_call(const struct yoke_swiglu_backward_args *a)
{
    return yokei_call_each(YOKE_OP_swiglu_backward, a, a->dtype, (double)a->N * (double)a->F, 11, 5);
}

/* ---- the public functions ---- */

yoke_status yoke_gelu_forward(yoke_stream *stream, const struct yoke_gelu_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_gelu_forward, stream, args, sizeof *args));
    YOKE_TRY(gelu_forward_check(args, true));
    const struct yokei_call call = gelu_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_gelu_forward_can(const yoke_device *device, const struct yoke_gelu_forward_args *args,
                                  struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_gelu_forward, device, args, sizeof *args));
    YOKE_TRY(gelu_forward_check(args, false));
    const struct yokei_call call = gelu_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_gelu_backward(yoke_stream *stream, const struct yoke_gelu_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_gelu_backward, stream, args, sizeof *args));
    YOKE_TRY(gelu_backward_check(args, true));
    const struct yokei_call call = gelu_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_gelu_backward_can(const yoke_device *device, const struct yoke_gelu_backward_args *args,
                                   struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_gelu_backward, device, args, sizeof *args));
    YOKE_TRY(gelu_backward_check(args, false));
    const struct yokei_call call = gelu_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_gelu_erf_forward(yoke_stream *stream, const struct yoke_gelu_erf_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_gelu_erf_forward, stream, args, sizeof *args));
    YOKE_TRY(gelu_erf_forward_check(args, true));
    const struct yokei_call call = gelu_erf_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_gelu_erf_forward_can(const yoke_device *device,
                                      const struct yoke_gelu_erf_forward_args *args,
                                      struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_gelu_erf_forward, device, args, sizeof *args));
    YOKE_TRY(gelu_erf_forward_check(args, false));
    const struct yokei_call call = gelu_erf_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_gelu_erf_backward(yoke_stream *stream, const struct yoke_gelu_erf_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_gelu_erf_backward, stream, args, sizeof *args));
    YOKE_TRY(gelu_erf_backward_check(args, true));
    const struct yokei_call call = gelu_erf_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_gelu_erf_backward_can(const yoke_device *device,
                                       const struct yoke_gelu_erf_backward_args *args,
                                       struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_gelu_erf_backward, device, args, sizeof *args));
    YOKE_TRY(gelu_erf_backward_check(args, false));
    const struct yokei_call call = gelu_erf_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_swiglu_forward(yoke_stream *stream, const struct yoke_swiglu_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_swiglu_forward, stream, args, sizeof *args));
    YOKE_TRY(swiglu_forward_check(args, true));
    const struct yokei_call call = swiglu_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_swiglu_forward_can(const yoke_device *device, const struct yoke_swiglu_forward_args *args,
                                    struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_swiglu_forward, device, args, sizeof *args));
    YOKE_TRY(swiglu_forward_check(args, false));
    const struct yokei_call call = swiglu_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_swiglu_backward(yoke_stream *stream, const struct yoke_swiglu_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_swiglu_backward, stream, args, sizeof *args));
    YOKE_TRY(swiglu_backward_check(args, true));
    const struct yokei_call call = swiglu_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_swiglu_backward_can(const yoke_device *device, const struct yoke_swiglu_backward_args *args,
                                     struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_swiglu_backward, device, args, sizeof *args));
    YOKE_TRY(swiglu_backward_check(args, false));
    const struct yokei_call call = swiglu_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}
