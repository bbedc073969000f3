/* SPDX-License-Identifier: Apache-2.0 */
/** The bias gradient: column sums in a fixed order. */
#include "backends/gpu/families.h"

static yoke_status gpu_bias_backward_can(const yoke_device *device, const struct yokei_call *call,
                                         size_t *scratch_bytes_out)
{
    const struct yoke_bias_backward_args *args = call->args;
    const struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "bias");
    *scratch_bytes_out = yokei_gpu_sums(device, &program, args->N, args->C, 1).bytes;
    return YOKE_OK;
}

static yoke_status gpu_bias_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_bias_backward_args *args = call->args;
    if (!args->N || !args->C) return YOKE_OK;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "bias");
    const struct yokei_gpu_sums sums = yokei_gpu_sums(stream->device, &program, args->N, args->C, 1);
    void *partial;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_bias_backward, sums.bytes, &partial));
    YOKE_TRY(yokei_gpu_launch(stream, &program, "bias_partial", sums.groups, 1, 1,
                              YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_L(args->ld), ARG_P(partial),
                                             ARG_L(sums.stride), ARG_L(args->N), ARG_L(args->C),
                                             ARG_L(sums.blocks), ARG_L(sums.per_part))));
    return yokei_gpu_launch(stream, &program, "bias_total", sums.total_groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(partial), ARG_L(sums.stride), ARG_L(sums.parts),
                                           ARG_P(args->dbias), ARG_L(args->C), ARG_L(sums.columns)));
}
const struct yoke_op yokei_gpu_bias_backward = { .can = gpu_bias_backward_can, .run = gpu_bias_backward_run };
