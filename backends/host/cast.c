/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion between element types on the host backend. include/yoke/ops/cast.h has the maths, types and
 * bounds.
 */
#include "backends/host/kernels.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(host, op)
YOKE_CAST_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(host, op)
const struct yoke_cast_ops HOST_NAME(host_cast_ops) = { YOKE_CAST_OPS(ENTRY) };

INLINE void convert(const yoke_dtype from_type, const yoke_dtype to_type, const struct yoke_cast_args *a,
                    int64_t from, int64_t to)
{
    const void *x = a->x;
    void *y = a->y;
    VECTOR_LOOP(i, n, from, to, vstore_n(to_type, y, i, n, vload_n(from_type, x, i, n)););
}

INLINE void convert_from(const yoke_dtype from_type, const struct yoke_cast_args *a, int64_t from, int64_t to)
{
    switch (a->to) {
    case YOKE_F16: convert(from_type, YOKE_F16, a, from, to); break;
    case YOKE_BF16: convert(from_type, YOKE_BF16, a, from, to); break;
    default: convert(from_type, YOKE_F32, a, from, to); break;
    }
}

static void cast_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_cast_args *a = context;
    HOST_BY_TYPE(a->from, convert_from, a, from, to);
}

static yoke_status host_cast_can(const yoke_device *device, const struct yoke_cast_args *a,
                                 size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    YOKE_TRY(host_check_type(YOKE_OP_cast, "from", a->from));
    return host_check_type(YOKE_OP_cast, "to", a->to);
}

static yoke_status host_cast_run(yoke_stream *stream, const struct yoke_cast_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, cast_range, a);
    return YOKE_OK;
}
