/* SPDX-License-Identifier: Apache-2.0 */
/** Embeddings on kernel-launching devices. */
#include "backends/gpu/families.h"

static yoke_status gpu_embed_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_forward_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "embed");
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "embed_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->tokens), ARG_P(args->wte), ARG_P(args->wpe),
                                           ARG_P(args->y), ARG_L(args->N), ARG_L(args->T), ARG_L(args->C),
                                           ARG_L(args->V), ARG_L(args->vocab_start), ARG_L(args->pos_start),
                                           ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_embed_forward = { .run = gpu_embed_forward_run };

/**
 * The number of teams that share the vocabulary. Each team scans all tokens, so there are only as many teams
 * as keep the device busy.
 */
static int64_t token_teams(const yoke_device *device, const struct yoke_embed_backward_args *args)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    return YOKE_MIN(args->V, gpu->is_cpu ? 8 * (int64_t)gpu->compute_units : 2048);
}

static yoke_status gpu_embed_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_backward_args *args = call->args;
    if (!args->N || !args->C) return YOKE_OK;
    yoke_device *device = stream->device;
    struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "embed");
    if (args->dwte && args->V) {
        int64_t teams = token_teams(device, args);
        int64_t columns = yokei_gpu(device)->is_cpu ? args->C : (int64_t)4 * program.L * program.W;
        YOKE_TRY(yokei_gpu_launch(stream, &program, "embed_backward_tokens",
                                  (teams + program.G - 1) / program.G, (args->C + columns - 1) / columns, 1,
                                  YOKEI_GPU_ARGS(ARG_P(args->tokens), ARG_P(args->dy), ARG_P(args->dwte),
                                                 ARG_L(args->N), ARG_L(args->C), ARG_L(args->V),
                                                 ARG_L(args->vocab_start), ARG_L(teams), ARG_L(columns))));
    }
    if (!args->dwpe) return YOKE_OK;
    struct yokei_gpu_rows rows = yokei_gpu_rows(
        device, &program, args->T, args->N / args->T * args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "embed_backward_positions", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_P(args->dwpe), ARG_L(args->N), ARG_L(args->T),
                                           ARG_L(args->C), ARG_L(args->pos_start), ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_embed_backward = { .run = gpu_embed_backward_run };
