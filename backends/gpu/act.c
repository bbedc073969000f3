/* SPDX-License-Identifier: Apache-2.0 */
/** GELU on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_ACT_OPS(FUNCTIONS)

static yoke_status gpu_gelu_forward_can(const yoke_device *device, const struct yoke_gelu_forward_args *args, struct yoke_cost *cost)
{
    (void)device;
    return yokei_gpu_map_can(YOKE_OP_gelu_forward, args->dtype, args->n, 26, 2, cost);
}

static yoke_status gpu_gelu_forward_run(yoke_stream *stream, const struct yoke_gelu_forward_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_gelu_forward, "act", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y)));
}

static yoke_status gpu_gelu_backward_can(const yoke_device *device, const struct yoke_gelu_backward_args *args, struct yoke_cost *cost)
{
    (void)device;
    return yokei_gpu_map_can(YOKE_OP_gelu_backward, args->dtype, args->n, 36, 3, cost);
}

static yoke_status gpu_gelu_backward_run(yoke_stream *stream, const struct yoke_gelu_backward_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_gelu_backward, "act", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->dy), ARG_P(args->dx)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_act_ops yokei_gpu_act_ops = { YOKE_ACT_OPS(ENTRY) };
