/* SPDX-License-Identifier: Apache-2.0 */
/** Elementwise sums and products on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_ELEMENTWISE_OPS(FUNCTIONS)

static yoke_status gpu_add_can(const yoke_device *device, const struct yoke_add_args *args, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_add, args->dtype));
    cost->flops = (double)args->n;
    cost->bytes = 3.0 * (double)args->n * (double)yoke_dtype_bytes(args->dtype);
    return YOKE_OK;
}

static yoke_status gpu_add_run(yoke_stream *stream, const struct yoke_add_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_add, args->dtype));
    struct yokei_gpu_program program =
        yokei_gpu_team_program(stream->device, YOKE_OP_add, "elementwise", args->dtype, YOKE_F32, (double)args->n);
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n, (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "add", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_P(args->z), ARG_L(args->n), ARG_L(rows.per_team)));
}

static yoke_status gpu_scale_can(const yoke_device *device, const struct yoke_scale_args *args, struct yoke_cost *cost)
{
    (void)device;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_scale, args->dtype));
    cost->flops = (double)args->n;
    cost->bytes = 2.0 * (double)args->n * (double)yoke_dtype_bytes(args->dtype);
    return YOKE_OK;
}

static yoke_status gpu_scale_run(yoke_stream *stream, const struct yoke_scale_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_scale, args->dtype));
    struct yokei_gpu_program program =
        yokei_gpu_team_program(stream->device, YOKE_OP_scale, "elementwise", args->dtype, YOKE_F32, (double)args->n);
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n, (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "scale", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_F(args->alpha), ARG_P(args->x), ARG_P(args->y), ARG_L(args->n), ARG_L(rows.per_team)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_elementwise_ops yokei_gpu_elementwise_ops = { YOKE_ELEMENTWISE_OPS(ENTRY) };
