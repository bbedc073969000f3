/* SPDX-License-Identifier: Apache-2.0 */
/** GELU on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_ACT_OPS(FUNCTIONS)

static yoke_status gpu_gelu_forward_can(const yoke_device *device, const struct yoke_gelu_forward_args *args, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_gelu_forward, args->dtype));
    cost->flops = 26.0 * (double)args->n;
    cost->bytes = 2.0 * (double)args->n * (double)yoke_dtype_bytes(args->dtype);
    return YOKE_OK;
}

static yoke_status gpu_gelu_forward_run(yoke_stream *stream, const struct yoke_gelu_forward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_gelu_forward, args->dtype));
    struct yokei_gpu_program program =
        yokei_gpu_team_program(stream->device, YOKE_OP_gelu_forward, "act", args->dtype, YOKE_F32, (double)args->n);
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n, (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "gelu_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_L(args->n), ARG_L(rows.per_team)));
}

static yoke_status gpu_gelu_backward_can(const yoke_device *device, const struct yoke_gelu_backward_args *args,
                                         struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_gelu_backward, args->dtype));
    cost->flops = 36.0 * (double)args->n;
    cost->bytes = 3.0 * (double)args->n * (double)yoke_dtype_bytes(args->dtype);
    return YOKE_OK;
}

static yoke_status gpu_gelu_backward_run(yoke_stream *stream, const struct yoke_gelu_backward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_gelu_backward, args->dtype));
    struct yokei_gpu_program program =
        yokei_gpu_team_program(stream->device, YOKE_OP_gelu_backward, "act", args->dtype, YOKE_F32, (double)args->n);
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n, (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "gelu_backward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->dy), ARG_P(args->dx), ARG_L(args->n), ARG_L(rows.per_team)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_act_ops yokei_gpu_act_ops = { YOKE_ACT_OPS(ENTRY) };
