/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversion between element types on the host backend. include/yoke/ops/cast.h has the maths, types and
 * bounds.
 */
#include "backends/host/kernels.h"

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

static yoke_status host_cast_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_cast_args *a = call->args;
    host_for(stream, a->n, ELEMENT_GRAIN, cast_range, a);
    return YOKE_OK;
}
const struct yoke_op HOST_NAME(host_cast) = { .run = host_cast_run };
