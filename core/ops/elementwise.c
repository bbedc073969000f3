/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ops/check.h"

static yoke_status add_check(const struct yoke_add_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n), yokei_vector("y", a->y, a->dtype, a->n) };
    const struct yokei_operand z = yokei_vector("z", a->z, a->dtype, a->n);
    return yokei_check_map("add", in, 2, &z, pointers);
}

static yoke_status scale_check(const struct yoke_scale_args *a, bool pointers)
{
    const struct yokei_operand in[] = { yokei_vector("x", a->x, a->dtype, a->n) }, y = yokei_vector("y", a->y, a->dtype, a->n);
    return yokei_check_map("scale", in, 1, &y, pointers);
}

YOKEI_OP(elementwise, add)
YOKEI_OP(elementwise, scale)
