/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status rope_check(const struct yoke_rope_args *a, bool pointers)
{
    const char *op = "rope";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "N", a->N));
    YOKE_TRY(yokei_check_extent(op, "H", a->H));
    YOKE_TRY(yokei_check_extent(op, "D", a->D));
    if (a->D < 2 || a->D % 2)
        return yoke_fail(YOKE_EINVAL, "rope: D is %lld; a head has pairs of channels, an even number",
                         (long long)a->D);
    if (a->T < 1)
        return yoke_fail(YOKE_EINVAL, "rope: T is %lld; a sequence has at least one token", (long long)a->T);
    YOKE_TRY(yokei_check_counter(op, "pos_start", a->pos_start, a->T));
    if (!(a->theta > 1) || a->theta > 1e18)
        return yoke_fail(YOKE_EINVAL, "rope: theta is %g; a number above 1 such as 10000 is expected",
                         a->theta);
    const struct yokei_operand x = yokei_matrix("x", a->x, a->dtype, a->N, a->H * a->D, a->ldx);
    return yokei_check_operand(op, &x, pointers);
}

/*
 * Two multiplications and an addition per element. The angles are per position, so they are left out.
 * include/yoke/ops/common.h says how the work is counted.
 */
static struct yokei_call rope_call(const struct yoke_rope_args *a)
{
    return yokei_call_each(YOKE_OP_rope, a, a->dtype, (double)a->N * (double)a->H * (double)a->D, 3, 2);
}

/* ---- the public functions ---- */

yoke_status yoke_rope(yoke_stream *stream, const struct yoke_rope_args *args)
{
    YOKE_TRY(yokei_op_begin(YOKE_OP_rope, stream, args, sizeof *args));
    YOKE_TRY(rope_check(args, true));
    const struct yokei_call call = rope_call(args);
    return yokei_op_run(stream, &call);
}

yoke_status yoke_rope_can(const yoke_device *device, const struct yoke_rope_args *args,
                          struct yoke_cost *cost_out)
{
    YOKE_TRY(yokei_op_begin_can(YOKE_OP_rope, device, args, sizeof *args));
    YOKE_TRY(rope_check(args, false));
    const struct yokei_call call = rope_call(args);
    return yokei_op_can(device, &call, cost_out);
}
