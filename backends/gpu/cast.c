/* SPDX-License-Identifier: Apache-2.0 */
/** Conversion between types on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_CAST_OPS(FUNCTIONS)

static yoke_status gpu_cast_can(const yoke_device *device, const struct yoke_cast_args *args,
                                size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_cast, args->from));
    return yokei_gpu_check_dtype(YOKE_OP_cast, args->to);
}

static yoke_status gpu_cast_run(yoke_stream *stream, const struct yoke_cast_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_cast, args->from));
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_cast, args->to));
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, YOKE_OP_cast, "cast",
                                                              args->from, args->to, (double)args->n);
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n,
                                                (int64_t)yoke_dtype_bytes(args->from));
    return yokei_gpu_launch(stream, &program, "cast", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->x), ARG_P(args->y), ARG_L(args->n),
                                           ARG_L(rows.per_team)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_cast_ops yokei_gpu_cast_ops = { YOKE_CAST_OPS(ENTRY) };
