/* SPDX-License-Identifier: Apache-2.0 */
/** Activations on kernel-launching devices. */
#include "backends/gpu/families.h"

static yoke_status gpu_gelu_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_forward_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "act", args->n, YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y)));
}
const struct yoke_op yokei_gpu_gelu_forward = { .run = gpu_gelu_forward_run };

static yoke_status gpu_gelu_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_backward_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "act", args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->dy), ARG_P(args->dx)));
}
const struct yoke_op yokei_gpu_gelu_backward = { .run = gpu_gelu_backward_run };

static yoke_status gpu_gelu_erf_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_erf_forward_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "act", args->n, YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y)));
}
const struct yoke_op yokei_gpu_gelu_erf_forward = { .run = gpu_gelu_erf_forward_run };

static yoke_status gpu_gelu_erf_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gelu_erf_backward_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "act", args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->dy), ARG_P(args->dx)));
}
const struct yoke_op yokei_gpu_gelu_erf_backward = { .run = gpu_gelu_erf_backward_run };

static yoke_status gpu_swiglu_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_forward_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "act");
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->F * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "swiglu_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->gate), ARG_L(args->ldgate), ARG_P(args->up),
                                           ARG_L(args->ldup), ARG_P(args->y), ARG_L(args->ldy),
                                           ARG_L(args->N), ARG_L(args->F), ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_swiglu_forward = { .run = gpu_swiglu_forward_run };

static yoke_status gpu_swiglu_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_swiglu_backward_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "act");
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->F * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "swiglu_backward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->gate), ARG_L(args->ldgate), ARG_P(args->up),
                                           ARG_L(args->ldup), ARG_P(args->dy), ARG_L(args->lddy),
                                           ARG_P(args->dgate), ARG_L(args->lddgate), ARG_P(args->dup),
                                           ARG_L(args->lddup), ARG_L(args->N), ARG_L(args->F),
                                           ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_swiglu_backward = { .run = gpu_swiglu_backward_run };
