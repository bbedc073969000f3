/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status gelu_forward_check(const struct yoke_gelu_forward_args *a, bool pointers)
{
    const char *op = "gelu_forward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    const struct yokei_operand x = yokei_vector("x", a->x, a->dtype, a->n), y = yokei_vector("y", a->y, a->dtype, a->n);
    YOKE_TRY(yokei_check_operand(op, &x, pointers));
    YOKE_TRY(yokei_check_operand(op, &y, pointers));
    return pointers ? yokei_check_apart(op, &y, &x, true) : YOKE_OK;
}

static yoke_status gelu_backward_check(const struct yoke_gelu_backward_args *a, bool pointers)
{
    const char *op = "gelu_backward";
    YOKE_TRY(yokei_check_float(op, "dtype", a->dtype));
    YOKE_TRY(yokei_check_extent(op, "n", a->n));
    const struct yokei_operand x = yokei_vector("x", a->x, a->dtype, a->n), dy = yokei_vector("dy", a->dy, a->dtype, a->n);
    const struct yokei_operand dx = yokei_vector("dx", a->dx, a->dtype, a->n);
    YOKE_TRY(yokei_check_operand(op, &x, pointers));
    YOKE_TRY(yokei_check_operand(op, &dy, pointers));
    YOKE_TRY(yokei_check_operand(op, &dx, pointers));
    if (!pointers) return YOKE_OK;
    YOKE_TRY(yokei_check_apart(op, &dx, &x, true));
    return yokei_check_apart(op, &dx, &dy, true);
}

YOKEI_OP(act, gelu_forward)
YOKEI_OP(act, gelu_backward)
