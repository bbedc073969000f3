/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status add_check(const struct yoke_add_args *a, bool pointers)
{
    const char *op = "add";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    const struct yokei_operand x = yokei_vector("x", a->x, a->dtype, a->n), y = yokei_vector("y", a->y, a->dtype, a->n);
    const struct yokei_operand z = yokei_vector("z", a->z, a->dtype, a->n);
    YOKE_TRY(yokei_check_operand(op, &x, pointers));
    YOKE_TRY(yokei_check_operand(op, &y, pointers));
    YOKE_TRY(yokei_check_operand(op, &z, pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &z, &x, true));
    return yokei_check_apart(op, &z, &y, true);
}

static yoke_status scale_check(const struct yoke_scale_args *a, bool pointers)
{
    const char *op = "scale";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    const struct yokei_operand x = yokei_vector("x", a->x, a->dtype, a->n), y = yokei_vector("y", a->y, a->dtype, a->n);
    YOKE_TRY(yokei_check_operand(op, &x, pointers));
    YOKE_TRY(yokei_check_operand(op, &y, pointers));
    return pointers ? yokei_check_apart(op, &y, &x, true) : YOKE_OK;
}

YOKEI_OP(elementwise, add)
YOKEI_OP(elementwise, scale)
