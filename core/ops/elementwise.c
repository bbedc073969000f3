/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

#include <string.h>

static yoke_status add_check(const struct yoke_add_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n),
                                        yokei_vector("y", a->y, a->dtype, a->n) };
    const struct yokei_operand z = yokei_vector("z", a->z, a->dtype, a->n);
    return yokei_check_map("add", in, 2, &z, pointers);
}

static yoke_status scale_check(const struct yoke_scale_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n) },
                               y = yokei_vector("y", a->y, a->dtype, a->n);
    return yokei_check_map("scale", in, 1, &y, pointers);
}

uint64_t yoke_random_key(uint64_t seed, int64_t step, const char *name)
{
    return yokei_hash(&step, sizeof step, yokei_hash(name, strlen(name), seed));
}

static yoke_status dropout_check(const struct yoke_dropout_args *a, bool pointers)
{
    const char *op = "dropout";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "C", a->C));
    YOKE_TRY(yokei_check_extent(op, "first_row", a->first_row));
    YOKE_TRY(yokei_check_dropout(op, a->p));
    if (a->T < 1)
        return yoke_fail(YOKE_EINVAL, "dropout: T is %lld; a sequence has at least one token",
                         (long long)a->T);
    YOKE_TRY(yokei_check_counter(op, "sample_start", a->sample_start,
                                 a->N ? (a->first_row + a->N - 1) / a->T + 1 : 0));
    YOKE_TRY(yokei_check_counter(op, "pos_start", a->pos_start, a->T));
    YOKE_TRY(yokei_check_counter(op, "channel_start", a->channel_start, a->C));
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->C, a->ldx),
                               y = yokei_matrix("y", a->y, a->dtype, a->N, a->C, a->ldy);
    struct yokei_operand residual = yokei_optional(
        yokei_matrix("residual", a->residual, a->dtype, a->N, a->C, a->ldresidual));
    if (!a->residual) residual.ld = a->C; /* the residual is not wanted, or not known yet */
    YOKE_TRY(yokei_check_operand(op, &x, pointers));
    YOKE_TRY(yokei_check_operand(op, &residual, pointers));
    YOKE_TRY(yokei_check_operand(op, &y, pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &y, &x, true));
    return yokei_check_apart(op, &y, &residual, true);
}

/* ---- type, size and work of a call; include/yoke/ops/common.h says how the work is counted ---- */

static struct yokei_call add_call(const struct yoke_add_args *a)
{
    return yokei_call_each(YOKE_OP_add, a, a->dtype, (double)a->n, 1, 3);
}

static struct yokei_call scale_call(const struct yoke_scale_args *a)
{
    return yokei_call_each(YOKE_OP_scale, a, a->dtype, (double)a->n, 1, 2);
}

/* s * x: 1, and 1 for the residual. */
static struct yokei_call dropout_call(const struct yoke_dropout_args *a)
{
    return yokei_call_each(YOKE_OP_dropout, a, a->dtype, (double)a->N * (double)a->C, 1 + !!a->residual,
                           2 + !!a->residual);
}

/* ---- the public functions ---- */

yoke_status yoke_add(yoke_stream *stream, const struct yoke_add_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_add, stream, args, sizeof *args));
    YOKE_TRY(add_check(args, true));
    const struct yokei_call call = add_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_add_can(const yoke_device *device, const struct yoke_add_args *args,
                         struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_add, device, args, sizeof *args));
    YOKE_TRY(add_check(args, false));
    const struct yokei_call call = add_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_scale(yoke_stream *stream, const struct yoke_scale_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_scale, stream, args, sizeof *args));
    YOKE_TRY(scale_check(args, true));
    const struct yokei_call call = scale_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_scale_can(const yoke_device *device, const struct yoke_scale_args *args,
                           struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_scale, device, args, sizeof *args));
    YOKE_TRY(scale_check(args, false));
    const struct yokei_call call = scale_call(args);
    return yokei_op_can(device, &call, cost_out);
}

yoke_status yoke_dropout(yoke_stream *stream, const struct yoke_dropout_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_dropout, stream, args, sizeof *args));
    YOKE_TRY(dropout_check(args, true));
    const struct yokei_call call = dropout_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_dropout_can(const yoke_device *device, const struct yoke_dropout_args *args,
                             struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_dropout, device, args, sizeof *args));
    YOKE_TRY(dropout_check(args, false));
    const struct yokei_call call = dropout_call(args);
    return yokei_op_can(device, &call, cost_out);
}
