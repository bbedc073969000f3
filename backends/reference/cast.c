/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between element types on the reference backend. include/yoke/ops/cast.h has the maths. */
#include "backends/reference/reference.h"

static yoke_status reference_cast_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_cast_args *a = call->args;
    (void)stream;
    for (int64_t i = 0; i < a->n; i++) yokei_store(a->to, a->y, i, yokei_load(a->from, a->x, i));
    return YOKE_OK;
}
const struct yoke_op reference_cast = { .run = reference_cast_run };
