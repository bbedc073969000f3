/* SPDX-License-Identifier: Apache-2.0 */
/** Rotary position embedding on kernel-launching devices. */
#include "backends/gpu/families.h"

static yoke_status gpu_rope_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_rope_args *args = call->args;
    if (!args->N || !args->H) return YOKE_OK;
    const int64_t positions = YOKE_MIN(args->N, args->T), rows = (args->N + args->T - 1) / args->T;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "rope");
    struct yokei_gpu_rows teams = yokei_gpu_rows(stream->device, &program, positions,
                                                 rows * args->H * args->D
                                                     * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "rope", teams.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_L(args->ldx), ARG_L(args->N), ARG_L(args->T),
                                           ARG_L(args->H), ARG_L(args->D), ARG_L(args->pos_start),
                                           ARG_L((int64_t)yokei_turns_ratio(args->theta, args->D)),
                                           ARG_F(args->inverse ? -1.0f : 1.0f), ARG_L(positions),
                                           ARG_L(teams.per_team)));
}
const struct yoke_op yokei_gpu_rope = { .run = gpu_rope_run };
