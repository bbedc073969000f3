/* SPDX-License-Identifier: Apache-2.0 */
/** Elementwise sums and products on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_ELEMENTWISE_OPS(FUNCTIONS)

static yoke_status gpu_add_can(const yoke_device *device, const struct yoke_add_args *args, struct yoke_cost *cost)
{
    (void)device;
    return yokei_gpu_map_can(YOKE_OP_add, args->dtype, args->n, 1, 3, cost);
}

static yoke_status gpu_add_run(yoke_stream *stream, const struct yoke_add_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_add, "elementwise", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_P(args->z)));
}

static yoke_status gpu_scale_can(const yoke_device *device, const struct yoke_scale_args *args, struct yoke_cost *cost)
{
    (void)device;
    return yokei_gpu_map_can(YOKE_OP_scale, args->dtype, args->n, 1, 2, cost);
}

static yoke_status gpu_scale_run(yoke_stream *stream, const struct yoke_scale_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_scale, "elementwise", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_F(args->alpha), ARG_P(args->x), ARG_P(args->y)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_elementwise_ops yokei_gpu_elementwise_ops = { YOKE_ELEMENTWISE_OPS(ENTRY) };
