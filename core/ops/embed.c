/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status check_shape(const char *op, yoke_dtype dtype, int64_t N, int64_t T, int64_t C,
                               int64_t pos_start)
{
    YOKE_TRY(yokei_check_float(op, "dtype", dtype));
    YOKE_TRY(yokei_check_extent(op, "N", N));
    YOKE_TRY(yokei_check_extent(op, "T", T));
    YOKE_TRY(yokei_check_extent(op, "C", C));
    YOKE_TRY(yokei_check_extent(op, "pos_start", pos_start));
    if (T < 1 || N % T)
        return yoke_fail(YOKE_EINVAL, "%s: N %lld is not a multiple of T %lld", op, (long long)N,
                         (long long)T);
    return YOKE_OK;
}

static yoke_status embed_forward_check(const struct yoke_embed_forward_args *a, bool pointers)
{
    const char *op = "embed_forward";
    YOKE_TRY(check_shape(op, a->dtype, a->N, a->T, a->C, a->pos_start));
    YOKE_TRY(yokei_check_shard(op, a->vocab_start, a->V, a->vocabulary));
    const struct yokei_operand tokens = yokei_vector("tokens", a->tokens, YOKE_I32, a->N);
    const struct yokei_operand wte = yokei_matrix("wte", a->wte, a->dtype, a->V, a->C, a->C);
    const struct yokei_operand wpe = yokei_optional(
        yokei_matrix("wpe", a->wpe, a->dtype, a->pos_start + a->T, a->C, a->C));
    const struct yokei_operand y = yokei_matrix("y", a->y, a->dtype, a->N, a->C, a->C);
    const struct yokei_operand *const all[] = { &tokens, &wte, &wpe, &y };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) {
        YOKE_TRY(yokei_check_operand(op, all[i], pointers));
        if (pointers && i < 3) YOKE_TRY(yokei_check_apart(op, &y, all[i], false));
    }
    return YOKE_OK;
}

static yoke_status embed_backward_check(const struct yoke_embed_backward_args *a, bool pointers)
{
    const char *op = "embed_backward";
    YOKE_TRY(check_shape(op, a->dtype, a->N, a->T, a->C, a->pos_start));
    YOKE_TRY(yokei_check_shard(op, a->vocab_start, a->V, a->vocabulary));
    const yoke_dtype wide = yoke_dtype_wide(a->dtype);
    const struct yokei_operand tokens = yokei_vector("tokens", a->tokens, YOKE_I32, a->N);
    const struct yokei_operand dy = yokei_matrix("dy", a->dy, a->dtype, a->N, a->C, a->C);
    const struct yokei_operand dwte = yokei_optional(yokei_matrix("dwte", a->dwte, wide, a->V, a->C, a->C));
    const struct yokei_operand dwpe = yokei_optional(
        yokei_matrix("dwpe", a->dwpe, wide, a->pos_start + a->T, a->C, a->C));
    const struct yokei_operand *const all[] = { &tokens, &dy, &dwte, &dwpe };
    for (size_t i = 0; i < YOKE_COUNT(all); i++) YOKE_TRY(yokei_check_operand(op, all[i], pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &dwte, &dy, false));
    YOKE_TRY(yokei_check_apart(op, &dwpe, &dy, false));
    YOKE_TRY(yokei_check_apart(op, &dwte, &tokens, false));
    YOKE_TRY(yokei_check_apart(op, &dwpe, &tokens, false));
    return yokei_check_apart(op, &dwte, &dwpe, false);
}

/*
 * ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ----
 *
 * The tokens are not known, so a table counts as if as many of its rows were used as N tokens can use.
 */

/* One addition per element, where wpe is wanted. */
static struct yokei_call embed_forward_call(const struct yoke_embed_forward_args *a)
{
    const double N = (double)a->N, C = (double)a->C, words = (double)YOKE_MIN(a->N, a->V),
                 positions = a->wpe ? (double)YOKE_MIN(a->N, a->T) : 0;
    return yokei_call_of(YOKE_OP_embed_forward, a, a->dtype, N * C, a->wpe ? N * C : 0,
                         (words + positions + N) * C * yokei_bytes(a->dtype) + N * (double)sizeof(int32_t));
}

/* One addition per element for each of the two gradients. */
static struct yokei_call embed_backward_call(const struct yoke_embed_backward_args *a)
{
    const double N = (double)a->N, C = (double)a->C;
    const bool all = !a->dwte && !a->dwpe, words = a->dwte || all, positions = a->dwpe || all;
    const double rows = words * (double)YOKE_MIN(a->N, a->V) + positions * (double)YOKE_MIN(a->N, a->T);
    return yokei_call_of(YOKE_OP_embed_backward, a, a->dtype, N * C, N * C * (words + positions),
                         N * C * yokei_bytes(a->dtype) + 2 * rows * C * yokei_wide_bytes(a->dtype)
                             + N * (double)sizeof(int32_t));
}

/* ---- the public functions ---- */

yoke_status yoke_embed_forward(yoke_stream *stream, const struct yoke_embed_forward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_embed_forward, stream, args, sizeof *args));
    YOKE_TRY(embed_forward_check(args, true));
    const struct yokei_call call = embed_forward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_embed_forward_can(const yoke_device *device, const struct yoke_embed_forward_args *args,
                                   struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_embed_forward, device, args, sizeof *args));
    YOKE_TRY(embed_forward_check(args, false));
    const struct yokei_call call = embed_forward_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_embed_backward(yoke_stream *stream, const struct yoke_embed_backward_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_embed_backward, stream, args, sizeof *args));
    YOKE_TRY(embed_backward_check(args, true));
    const struct yokei_call call = embed_backward_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_embed_backward_can(const yoke_device *device, const struct yoke_embed_backward_args *args,
                                    struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_embed_backward, device, args, sizeof *args));
    YOKE_TRY(embed_backward_check(args, false));
    const struct yokei_call call = embed_backward_call(args);
    return yokei_op_can(device, &call, cost_out);
}
