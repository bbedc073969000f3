/* SPDX-License-Identifier: Apache-2.0 */
/** The bias gradient: column sums in a fixed order. */
#include "backends/gpu/families.h"

static size_t partial_bytes(const struct yokei_gpu_program *program,
                            const struct yoke_bias_backward_args *args)
{
    return (size_t)yokei_gpu_partial_teams(program, args->N) * (size_t)args->C * sizeof(float);
}

static yoke_status gpu_bias_backward_can(const yoke_device *device, const struct yokei_call *call,
                                         size_t *scratch_bytes_out)
{
    const struct yoke_bias_backward_args *args = call->args;
    const struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "bias");
    *scratch_bytes_out = partial_bytes(&program, args);
    return YOKE_OK;
}

static yoke_status gpu_bias_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_bias_backward_args *args = call->args;
    if (!args->N || !args->C) return YOKE_OK;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "bias");
    void *partial;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_bias_backward, partial_bytes(&program, args), &partial));
    struct yokei_gpu_rows rows = yokei_gpu_partial_rows(&program, args->N);
    YOKE_TRY(yokei_gpu_launch(stream, &program, "bias_partial", rows.groups, 1, 1,
                              YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_L(args->ld), ARG_P(partial), ARG_L(args->N),
                                             ARG_L(args->C), ARG_L(rows.per_team))));
    struct yokei_gpu_rows columns = yokei_gpu_span(stream->device, &program, args->C, 4 * rows.teams);
    return yokei_gpu_launch(stream, &program, "bias_total", columns.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(partial), ARG_L(rows.teams), ARG_P(args->dbias),
                                           ARG_L(args->C), ARG_L(columns.per_team)));
}
const struct yoke_op yokei_gpu_bias_backward = { .can = gpu_bias_backward_can, .run = gpu_bias_backward_run };
