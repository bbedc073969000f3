/* SPDX-License-Identifier: Apache-2.0 */
/** Conversion between types on kernel-launching devices. */
#include "backends/gpu/families.h"

static yoke_status gpu_cast_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_cast_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "cast");
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n,
                                                (int64_t)yoke_dtype_bytes(args->from));
    return yokei_gpu_launch(stream, &program, "cast", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_L(args->n),
                                           ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_cast = { .run = gpu_cast_run };
