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

/* One rounding per element. include/yoke/ops/common.h says how operations and bytes are counted. */
static struct yokei_work cast_work(const struct yoke_cast_args *a)
{
    return (struct yokei_work){ (double)a->n, (double)a->n * (yokei_bytes(a->from) + yokei_bytes(a->to)) };
}

#define OP(op) YOKEI_OP(cast, op)
YOKE_CAST_OPS(OP)
