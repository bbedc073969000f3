/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status gelu_forward_check(const struct yoke_gelu_forward_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n) }, y = yokei_vector("y", a->y, a->dtype, a->n);
    return yokei_check_map("gelu_forward", in, 1, &y, pointers);
}

static yoke_status gelu_backward_check(const struct yoke_gelu_backward_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n), yokei_vector("dy", a->dy, a->dtype, a->n) };
    const struct yokei_operand dx = yokei_vector("dx", a->dx, a->dtype, a->n);
    return yokei_check_map("gelu_backward", in, 2, &dx, pointers);
}

YOKEI_OP(act, gelu_forward)
YOKEI_OP(act, gelu_backward)
