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

static yoke_status gpu_layernorm_backward_can(const yoke_device *device, const struct yokei_call *call,
                                              size_t *scratch_bytes_out)
{
    const struct yoke_layernorm_backward_args *args = call->args;
    const struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "norm");
    *scratch_bytes_out = yokei_gpu_sums(device, &program, args->N, args->C, 2).bytes;
    return YOKE_OK;
}

/** dx, and `partial` if it is not NULL, by teams of `per_team` rows. */
static yoke_status launch_backward(yoke_stream *stream, const struct yokei_gpu_program *program,
                                   const struct yoke_layernorm_backward_args *args, void *partial,
                                   int64_t stride, int64_t groups, int64_t per_team)
{
    return yokei_gpu_launch(
        stream, program, "layernorm_backward", groups, 1, 1,
        YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_L(args->lddy), ARG_P(args->x), ARG_L(args->ldx),
                       ARG_P(args->gamma), ARG_P(args->mean), ARG_P(args->rstd), ARG_P(args->dresidual),
                       ARG_L(args->lddresidual), ARG_P(args->dx), ARG_L(args->lddx), ARG_P(partial),
                       ARG_L(stride), ARG_L(args->N), ARG_L(args->C), ARG_L(per_team)));
}

static yoke_status launch_input(yoke_stream *stream, const struct yokei_gpu_program *program,
                                const struct yoke_layernorm_backward_args *args)
{
    const struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, program, args->N,
                                                      args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return launch_backward(stream, program, args, NULL, 0, rows.groups, rows.per_team);
}

/** The sums of dgamma and dbeta. A team of one lane also computes dx, because it then reads its rows once. */
static yoke_status launch_partial(yoke_stream *stream, const struct yokei_gpu_program *program,
                                  const struct yoke_layernorm_backward_args *args,
                                  const struct yokei_gpu_sums *sums, void *partial)
{
    if (program->L == 1)
        return launch_backward(stream, program, args, partial, sums->stride, sums->groups, sums->per_part);
    YOKE_TRY(yokei_gpu_launch(stream, program, "layernorm_partial", sums->groups, 1, 1,
                              YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_L(args->lddy), ARG_P(args->x),
                                             ARG_L(args->ldx), ARG_P(args->mean), ARG_P(args->rstd),
                                             ARG_P(partial), ARG_L(sums->stride), ARG_L(args->N),
                                             ARG_L(args->C), ARG_L(sums->blocks), ARG_L(sums->per_part))));
    return args->dx ? launch_input(stream, program, args) : YOKE_OK; /* dx may be dy, so it comes last */
}

static yoke_status norm_backward(yoke_stream *stream, const struct yokei_call *call,
                                 const struct yoke_layernorm_backward_args *args)
{
    const struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "norm");
    if (!args->dgamma) return launch_input(stream, &program, args);
    const struct yokei_gpu_sums sums = yokei_gpu_sums(stream->device, &program, args->N, args->C,
                                                      args->mean ? 2 : 1);
    void *partial = NULL;
    YOKE_TRY(yokei_scratch(stream, call->op, sums.bytes, &partial));
    YOKE_TRY(launch_partial(stream, &program, args, &sums, partial));
    if (!args->N) return YOKE_OK;
    return yokei_gpu_launch(stream, &program, "layernorm_weights", sums.total_groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(partial), ARG_L(sums.stride), ARG_L(sums.parts),
                                           ARG_P(args->dgamma), ARG_P(args->dbeta), ARG_L(args->C),
                                           ARG_L(sums.columns)));
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
    *scratch_bytes_out = yokei_gpu_sums(device, &program, args->N, args->C, 1).bytes;
    return YOKE_OK;
}

static yoke_status gpu_rmsnorm_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_layernorm_backward_args like = yokei_rmsnorm_backward_as_layernorm(call->args);
    return norm_backward(stream, call, &like);
}
const struct yoke_op yokei_gpu_rmsnorm_backward = { .can = gpu_rmsnorm_backward_can,
                                                    .run = gpu_rmsnorm_backward_run };
