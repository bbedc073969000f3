/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status cast_check(const struct yoke_cast_args *a, bool pointers)
{
    const char *op = "cast";
    YOKE_TRY(yokei_check_float(op, "from", a->from));
    YOKE_TRY(yokei_check_float(op, "to", a->to));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    const struct yokei_operand x = yokei_vector("x", a->x, a->from, a->n),
                               y = yokei_vector("y", a->y, a->to, a->n);
    YOKE_TRY(yokei_check_operand(op, &x, pointers));
    YOKE_TRY(yokei_check_operand(op, &y, pointers));
    return pointers ? yokei_check_apart(op, &y, &x, true) : YOKE_OK;
}

/* One rounding per element. include/yoke/ops/common.h says how the work is counted. */
static struct yokei_call cast_call(const struct yoke_cast_args *a)
{
    const double n = (double)a->n;
    struct yokei_call call = yokei_call_of(YOKE_OP_cast, a, a->from, n, n,
                                           n * (yokei_bytes(a->from) + yokei_bytes(a->to)));
    call.second = a->to;
    return call;
}

/* ---- the public functions ---- */

yoke_status yoke_cast(yoke_stream *stream, const struct yoke_cast_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_cast, stream, args, sizeof *args));
    YOKE_TRY(cast_check(args, true));
    const struct yokei_call call = cast_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_cast_can(const yoke_device *device, const struct yoke_cast_args *args,
                          struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_cast, device, args, sizeof *args));
    YOKE_TRY(cast_check(args, false));
    const struct yokei_call call = cast_call(args);
    return yokei_op_can(device, &call, cost_out);
}
