/* SPDX-License-Identifier: Apache-2.0 */
/** Elementwise sums and products, and dropout, on kernel-launching devices. */
#include "backends/gpu/families.h"

static yoke_status gpu_add_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_add_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "elementwise", args->n,
                             YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_P(args->z)));
}
const struct yoke_op yokei_gpu_add = { .run = gpu_add_run };

static yoke_status gpu_scale_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_scale_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "elementwise", args->n,
                             YOKEI_GPU_ARGS(ARG_F(args->alpha), ARG_P(args->x), ARG_P(args->y)));
}
const struct yoke_op yokei_gpu_scale = { .run = gpu_scale_run };

static yoke_status gpu_dropout_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_dropout_args *args = call->args;
    const struct yokei_dropout drop = yokei_dropout(args->p, args->key);
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "elementwise");
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
const struct yoke_op yokei_gpu_dropout = { .run = gpu_dropout_run };
