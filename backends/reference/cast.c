/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion between element types on the reference backend. include/yoke/ops/cast.h has the maths. */
#include "backends/reference/reference.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(reference, op)
YOKE_CAST_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(reference, op)
const struct yoke_cast_ops reference_cast_ops = { YOKE_CAST_OPS(ENTRY) };

static yoke_status reference_cast_can(const yoke_device *device, const struct yoke_cast_args *a,
                                      size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    YOKE_TRY(reference_check(YOKE_OP_cast, "from", a->from));
    return reference_check(YOKE_OP_cast, "to", a->to);
}

static yoke_status reference_cast_run(yoke_stream *stream, const struct yoke_cast_args *a)
{
    YOKE_TRY(reference_cast_can(stream->device, a, NULL));
    for (int64_t i = 0; i < a->n; i++) yokei_store(a->to, a->y, i, yokei_load(a->from, a->x, i));
    return YOKE_OK;
}
