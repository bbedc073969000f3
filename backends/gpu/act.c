/* SPDX-License-Identifier: Apache-2.0 */
/** Activations on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_ACT_OPS(FUNCTIONS)

static yoke_status gpu_gelu_forward_can(const yoke_device *device, const struct yoke_gelu_forward_args *args,
                                        size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_gelu_forward, args->dtype);
}

static yoke_status gpu_gelu_forward_run(yoke_stream *stream, const struct yoke_gelu_forward_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_gelu_forward, "act", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y)));
}

static yoke_status gpu_gelu_backward_can(const yoke_device *device,
                                         const struct yoke_gelu_backward_args *args,
                                         size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_gelu_backward, args->dtype);
}

static yoke_status gpu_gelu_backward_run(yoke_stream *stream, const struct yoke_gelu_backward_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_gelu_backward, "act", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->dy), ARG_P(args->dx)));
}

static yoke_status gpu_gelu_erf_forward_can(const yoke_device *device,
                                            const struct yoke_gelu_erf_forward_args *args,
                                            size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_gelu_erf_forward, args->dtype);
}

static yoke_status gpu_gelu_erf_forward_run(yoke_stream *stream,
                                            const struct yoke_gelu_erf_forward_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_gelu_erf_forward, "act", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y)));
}

static yoke_status gpu_gelu_erf_backward_can(const yoke_device *device,
                                             const struct yoke_gelu_erf_backward_args *args,
                                             size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_gelu_erf_backward, args->dtype);
}

static yoke_status gpu_gelu_erf_backward_run(yoke_stream *stream,
                                             const struct yoke_gelu_erf_backward_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_gelu_erf_backward, "act", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->dy), ARG_P(args->dx)));
}

static yoke_status gpu_swiglu_forward_can(const yoke_device *device,
                                          const struct yoke_swiglu_forward_args *args,
                                          size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_swiglu_forward, args->dtype);
}

static yoke_status gpu_swiglu_forward_run(yoke_stream *stream, const struct yoke_swiglu_forward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_swiglu_forward, args->dtype));
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, YOKE_OP_swiglu_forward, "act",
                                                              args->dtype, YOKE_F32,
                                                              (double)args->N * (double)args->F);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->F * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "swiglu_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->gate), ARG_L(args->ldgate), ARG_P(args->up),
                                           ARG_L(args->ldup), ARG_P(args->y), ARG_L(args->ldy),
                                           ARG_L(args->N), ARG_L(args->F), ARG_L(rows.per_team)));
}

static yoke_status gpu_swiglu_backward_can(const yoke_device *device,
                                           const struct yoke_swiglu_backward_args *args,
                                           size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_swiglu_backward, args->dtype);
}

static yoke_status gpu_swiglu_backward_run(yoke_stream *stream, const struct yoke_swiglu_backward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_swiglu_backward, args->dtype));
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, YOKE_OP_swiglu_backward, "act",
                                                              args->dtype, YOKE_F32,
                                                              (double)args->N * (double)args->F);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->F * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "swiglu_backward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->gate), ARG_L(args->ldgate), ARG_P(args->up),
                                           ARG_L(args->ldup), ARG_P(args->dy), ARG_L(args->lddy),
                                           ARG_P(args->dgate), ARG_L(args->lddgate), ARG_P(args->dup),
                                           ARG_L(args->lddup), ARG_L(args->N), ARG_L(args->F),
                                           ARG_L(rows.per_team)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_act_ops yokei_gpu_act_ops = { YOKE_ACT_OPS(ENTRY) };
