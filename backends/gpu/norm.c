/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Normalisation on kernel-launching devices. RMSNorm is LayerNorm without mean and beta, and uses the same
 * kernels.
 */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_NORM_OPS(FUNCTIONS)

static struct yokei_gpu_program program_of(const yoke_device *device, enum yoke_op_id op, yoke_dtype dtype,
                                           int64_t N, int64_t C)
{
    return yokei_gpu_team_program(device, op, "norm", dtype, YOKE_F32, (double)N * (double)C);
}

static yoke_status gpu_layernorm_forward_can(const yoke_device *device,
                                             const struct yoke_layernorm_forward_args *args,
                                             size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_layernorm_forward, args->dtype));
    return YOKE_OK;
}

static yoke_status forward(yoke_stream *stream, enum yoke_op_id op,
                           const struct yoke_layernorm_forward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(op, args->dtype));
    struct yokei_gpu_program program = program_of(stream->device, op, args->dtype, args->N, args->C);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "layernorm_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_L(args->ldx), ARG_P(args->gamma),
                                           ARG_P(args->beta), ARG_F(args->eps), ARG_P(args->y),
                                           ARG_L(args->ldy), ARG_P(args->mean), ARG_P(args->rstd),
                                           ARG_L(args->N), ARG_L(args->C), ARG_L(rows.per_team)));
}

static yoke_status gpu_layernorm_forward_run(yoke_stream *stream,
                                             const struct yoke_layernorm_forward_args *args)
{
    return forward(stream, YOKE_OP_layernorm_forward, args);
}

static yoke_status gpu_rmsnorm_forward_can(const yoke_device *device,
                                           const struct yoke_rmsnorm_forward_args *args,
                                           size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_rmsnorm_forward, args->dtype));
    return YOKE_OK;
}

static yoke_status gpu_rmsnorm_forward_run(yoke_stream *stream, const struct yoke_rmsnorm_forward_args *args)
{
    const struct yoke_layernorm_forward_args like = { .dtype = args->dtype,
                                                      .N = args->N,
                                                      .C = args->C,
                                                      .x = args->x,
                                                      .ldx = args->ldx,
                                                      .gamma = args->gamma,
                                                      .eps = args->eps,
                                                      .y = args->y,
                                                      .ldy = args->ldy,
                                                      .rstd = args->rstd };
    return forward(stream, YOKE_OP_rmsnorm_forward, &like);
}

/** The bytes of the teams' sums for dgamma and dbeta. */
static size_t partial_bytes(const struct yokei_gpu_program *program, int64_t N, int64_t C, int sums)
{
    return (size_t)yokei_gpu_partial_teams(program, N) * (size_t)sums * (size_t)C * sizeof(float);
}

static yoke_status gpu_layernorm_backward_can(const yoke_device *device,
                                              const struct yoke_layernorm_backward_args *args,
                                              size_t *scratch_bytes_out)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_layernorm_backward, args->dtype));
    const struct yokei_gpu_program program = program_of(device, YOKE_OP_layernorm_backward, args->dtype,
                                                        args->N, args->C);
    *scratch_bytes_out = partial_bytes(&program, args->N, args->C, 2);
    return YOKE_OK;
}

static yoke_status backward(yoke_stream *stream, enum yoke_op_id op,
                            const struct yoke_layernorm_backward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(op, args->dtype));
    struct yokei_gpu_program program = program_of(stream->device, op, args->dtype, args->N, args->C);
    void *partial = NULL;
    struct yokei_gpu_rows rows;
    if (args->dgamma) {
        YOKE_TRY(yokei_scratch(stream, op, partial_bytes(&program, args->N, args->C, args->mean ? 2 : 1),
                               &partial));
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

static yoke_status gpu_layernorm_backward_run(yoke_stream *stream,
                                              const struct yoke_layernorm_backward_args *args)
{
    return backward(stream, YOKE_OP_layernorm_backward, args);
}

static yoke_status gpu_rmsnorm_backward_can(const yoke_device *device,
                                            const struct yoke_rmsnorm_backward_args *args,
                                            size_t *scratch_bytes_out)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_rmsnorm_backward, args->dtype));
    const struct yokei_gpu_program program = program_of(device, YOKE_OP_rmsnorm_backward, args->dtype,
                                                        args->N, args->C);
    *scratch_bytes_out = partial_bytes(&program, args->N, args->C, 1);
    return YOKE_OK;
}

static yoke_status gpu_rmsnorm_backward_run(yoke_stream *stream,
                                            const struct yoke_rmsnorm_backward_args *args)
{
    const struct yoke_layernorm_backward_args like = {
        .dtype = args->dtype,
        .N = args->N,
        .C = args->C,
        .dy = args->dy,
        .lddy = args->lddy,
        .x = args->x,
        .ldx = args->ldx,
        .gamma = args->gamma,
        .rstd = args->rstd,
        .dresidual = args->dresidual,
        .lddresidual = args->lddresidual,
        .dx = args->dx,
        .lddx = args->lddx,
        .dgamma = args->dgamma,
    };
    return backward(stream, YOKE_OP_rmsnorm_backward, &like);
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_norm_ops yokei_gpu_norm_ops = { YOKE_NORM_OPS(ENTRY) };
