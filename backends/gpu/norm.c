/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Normalisation on kernel-launching devices. RMSNorm is LayerNorm without mean and beta, and uses the same
 * kernels.
 */
#include "backends/gpu/families.h"

static yoke_status norm_forward(yoke_stream *stream, const struct yokei_call *call,
                                const struct yoke_layernorm_forward_args *args)
{
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "norm");
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "layernorm_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_L(args->ldx), ARG_P(args->gamma),
                                           ARG_P(args->beta), ARG_F(args->eps), ARG_P(args->y),
                                           ARG_L(args->ldy), ARG_P(args->mean), ARG_P(args->rstd),
                                           ARG_L(args->N), ARG_L(args->C), ARG_L(rows.per_team)));
}

static yoke_status gpu_layernorm_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    return norm_forward(stream, call, call->args);
}
const struct yoke_op yokei_gpu_layernorm_forward = { .run = gpu_layernorm_forward_run };

static yoke_status gpu_rmsnorm_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_forward_args like = yokei_rmsnorm_forward_as_layernorm(call->args);
    return norm_forward(stream, call, &like);
}
const struct yoke_op yokei_gpu_rmsnorm_forward = { .run = gpu_rmsnorm_forward_run };

/** The bytes of the teams' sums for dgamma and dbeta. */
static size_t partial_bytes(const struct yokei_gpu_program *program, int64_t N, int64_t C, int sums)
{
    return (size_t)yokei_gpu_partial_teams(program, N) * (size_t)sums * (size_t)C * sizeof(float);
}

static yoke_status gpu_layernorm_backward_can(const yoke_device *device, const struct yokei_call *call,
                                              size_t *scratch_bytes_out)
{
    const struct yoke_layernorm_backward_args *args = call->args;
    const struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "norm");
    *scratch_bytes_out = partial_bytes(&program, args->N, args->C, 2);
    return YOKE_OK;
}

static yoke_status norm_backward(yoke_stream *stream, const struct yokei_call *call,
                                 const struct yoke_layernorm_backward_args *args)
{
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "norm");
    void *partial = NULL;
    struct yokei_gpu_rows rows;
    if (args->dgamma) {
        YOKE_TRY(yokei_scratch(stream, call->op,
                               partial_bytes(&program, args->N, args->C, args->mean ? 2 : 1), &partial));
        rows = yokei_gpu_partial_rows(&program, args->N);
    } else {
        rows = yokei_gpu_rows(stream->device, &program, args->N,
                              args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    }
    YOKE_TRY(yokei_gpu_launch(
        stream, &program, "layernorm_backward", rows.groups, 1, 1,
        YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_L(args->lddy), ARG_P(args->x), ARG_L(args->ldx),
                       ARG_P(args->gamma), ARG_P(args->mean), ARG_P(args->rstd), ARG_P(args->dresidual),
                       ARG_L(args->lddresidual), ARG_P(args->dx), ARG_L(args->lddx), ARG_P(partial),
                       ARG_L(args->N), ARG_L(args->C), ARG_L(rows.per_team))));
    if (!args->dgamma || !args->N) return YOKE_OK;
    struct yokei_gpu_rows columns = yokei_gpu_span(stream->device, &program, args->C, 8 * rows.teams);
    return yokei_gpu_launch(stream, &program, "layernorm_weights", columns.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(partial), ARG_L(rows.teams), ARG_P(args->dgamma),
                                           ARG_P(args->dbeta), ARG_L(args->C), ARG_L(columns.per_team)));
}

static yoke_status gpu_layernorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    return norm_backward(stream, call, call->args);
}
const struct yoke_op yokei_gpu_layernorm_backward = { .can = gpu_layernorm_backward_can,
                                                      .run = gpu_layernorm_backward_run };

static yoke_status gpu_rmsnorm_backward_can(const yoke_device *device, const struct yokei_call *call,
                                            size_t *scratch_bytes_out)
{
    const struct yoke_rmsnorm_backward_args *args = call->args;
    const struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "norm");
    *scratch_bytes_out = partial_bytes(&program, args->N, args->C, 1);
    return YOKE_OK;
}

static yoke_status gpu_rmsnorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_backward_args like = yokei_rmsnorm_backward_as_layernorm(call->args);
    return norm_backward(stream, call, &like);
}
const struct yoke_op yokei_gpu_rmsnorm_backward = { .can = gpu_rmsnorm_backward_can,
                                                    .run = gpu_rmsnorm_backward_run };
