/* SPDX-License-Identifier: Apache-2.0 */
/* Host: elementwise sums and products. Maths, types and bounds: include/yoke/ops/elementwise.h */
#include "backends/host/kernels.h"

#define PROTOTYPES(op) YOKE_OP_FUNCTIONS(host, op)
YOKE_ELEMENTWISE_OPS(PROTOTYPES)
#define ENTRY(op) YOKE_OP_ENTRY(host, op)
const struct yoke_elementwise_ops HOST_NAME(host_elementwise_ops) = { YOKE_ELEMENTWISE_OPS(ENTRY) };

INLINE void add_elements(const yoke_dtype t, const struct yoke_add_args *a, int64_t from, int64_t to)
{
    const void *x = a->x, *y = a->y;
    void *z = a->z;
    VECTOR_LOOP(i, n, from, to, vstore_n(t, z, i, n, vload_n(t, x, i, n) + vload_n(t, y, i, n)););
}

static void add_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_add_args *a = context;
    HOST_BY_TYPE(a->dtype, add_elements, a, from, to);
}

static yoke_status host_add_can(const yoke_device *device, const struct yoke_add_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_add, "dtype", a->dtype));
    const double n = (double)a->n;
    return host_cost(cost, 0, n, 3 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_add_run(yoke_stream *stream, const struct yoke_add_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, add_range, a);
    return YOKE_OK;
}

INLINE void scale_elements(const yoke_dtype t, const struct yoke_scale_args *a, int64_t from, int64_t to)
{
    const vf alpha = vset(a->alpha);
    const void *x = a->x;
    void *y = a->y;
    VECTOR_LOOP(i, n, from, to, vstore_n(t, y, i, n, alpha * vload_n(t, x, i, n)););
}

static void scale_range(const void *context, int64_t from, int64_t to)
{
    const struct yoke_scale_args *a = context;
    HOST_BY_TYPE(a->dtype, scale_elements, a, from, to);
}

static yoke_status host_scale_can(const yoke_device *device, const struct yoke_scale_args *a, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(host_check_type(YOKE_OP_scale, "dtype", a->dtype));
    const double n = (double)a->n;
    return host_cost(cost, 0, n, 2 * n * (double)yoke_dtype_bytes(a->dtype));
}

static yoke_status host_scale_run(yoke_stream *stream, const struct yoke_scale_args *a)
{
    host_for(stream, a->n, ELEMENT_GRAIN, scale_range, a);
    return YOKE_OK;
}
