/* SPDX-License-Identifier: Apache-2.0 */
/** Elementwise sums and products, and dropout, on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_ELEMENTWISE_OPS(FUNCTIONS)

static yoke_status gpu_add_can(const yoke_device *device, const struct yoke_add_args *args,
                               size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_add, args->dtype);
}

static yoke_status gpu_add_run(yoke_stream *stream, const struct yoke_add_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_add, "elementwise", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_P(args->z)));
}

static yoke_status gpu_scale_can(const yoke_device *device, const struct yoke_scale_args *args,
                                 size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_scale, args->dtype);
}

static yoke_status gpu_scale_run(yoke_stream *stream, const struct yoke_scale_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_scale, "elementwise", args->dtype, args->n,
                             YOKEI_GPU_ARGS(ARG_F(args->alpha), ARG_P(args->x), ARG_P(args->y)));
}

static yoke_status gpu_dropout_can(const yoke_device *device, const struct yoke_dropout_args *args,
                                   size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_dropout, args->dtype);
}

static yoke_status gpu_dropout_run(yoke_stream *stream, const struct yoke_dropout_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_dropout, args->dtype));
    const struct yokei_dropout drop = yokei_dropout(args->p, args->key);
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, YOKE_OP_dropout, "elementwise",
                                                              args->dtype, YOKE_F32,
                                                              (double)args->N * (double)args->C);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(
        stream, &program, "dropout", rows.groups, 1, 1,
        YOKEI_GPU_ARGS(ARG_P(args->x), ARG_L(args->ldx), ARG_P(args->residual), ARG_L(args->ldresidual),
                       ARG_P(args->y), ARG_L(args->ldy), ARG_L(args->N), ARG_L(args->C), ARG_L(args->T),
                       ARG_L(args->first_row), ARG_L(args->sample_start), ARG_L(args->pos_start),
                       ARG_L(args->channel_start), ARG_I((int32_t)drop.key.k[0]),
                       ARG_I((int32_t)drop.key.k[1]), ARG_I((int32_t)drop.threshold), ARG_F(drop.scale),
                       ARG_L(rows.per_team)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_elementwise_ops yokei_gpu_elementwise_ops = { YOKE_ELEMENTWISE_OPS(ENTRY) };
