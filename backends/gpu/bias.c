/* SPDX-License-Identifier: Apache-2.0 */
/** The bias gradient: column sums in a fixed order. gemm.c has it in its table. */
#include "backends/gpu/families.h"

static struct yokei_gpu_program program_of(const yoke_device *device,
                                           const struct yoke_bias_backward_args *args)
{
    return yokei_gpu_team_program(device, YOKE_OP_bias_backward, "bias", args->dtype, YOKE_F32,
                                  (double)args->N * (double)args->C);
}

static size_t partial_bytes(const struct yokei_gpu_program *program,
                            const struct yoke_bias_backward_args *args)
{
    return (size_t)yokei_gpu_partial_teams(program, args->N) * (size_t)args->C * sizeof(float);
}

yoke_status yokei_gpu_bias_backward_can(const yoke_device *device, const struct yoke_bias_backward_args *args,
                                        size_t *scratch_bytes_out)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_bias_backward, args->dtype));
    const struct yokei_gpu_program program = program_of(device, args);
    *scratch_bytes_out = partial_bytes(&program, args);
    return YOKE_OK;
}

yoke_status yokei_gpu_bias_backward_run(yoke_stream *stream, const struct yoke_bias_backward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_bias_backward, args->dtype));
    if (!args->N || !args->C) return YOKE_OK;
    struct yokei_gpu_program program = program_of(stream->device, args);
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
