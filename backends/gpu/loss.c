/* SPDX-License-Identifier: Apache-2.0 */
/** Fused softmax cross-entropy on kernel-launching devices. */
#include "backends/gpu/families.h"

#define FUNCTIONS(op) YOKE_OP_FUNCTIONS(gpu, op)
YOKE_LOSS_OPS(FUNCTIONS)

static yoke_status gpu_xent_forward_can(const yoke_device *device, const struct yoke_xent_forward_args *args,
                                        size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_xent_forward, args->dtype);
}

static yoke_status gpu_xent_forward_run(yoke_stream *stream, const struct yoke_xent_forward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_xent_forward, args->dtype));
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, YOKE_OP_xent_forward, "loss",
                                                              args->dtype, YOKE_F32,
                                                              (double)args->N * (double)args->V);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->V * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "xent_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->logits), ARG_L(args->ld), ARG_P(args->targets),
                                           ARG_P(args->lse), ARG_P(args->picked), ARG_P(args->losses),
                                           ARG_L(args->N), ARG_L(args->V), ARG_L(args->vocab_start),
                                           ARG_L(rows.per_team)));
}

static yoke_status gpu_xent_backward_can(const yoke_device *device,
                                         const struct yoke_xent_backward_args *args,
                                         size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_xent_backward, args->dtype);
}

static yoke_status gpu_xent_backward_run(yoke_stream *stream, const struct yoke_xent_backward_args *args)
{
    YOKE_TRY(yokei_gpu_check_dtype(YOKE_OP_xent_backward, args->dtype));
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, YOKE_OP_xent_backward, "loss",
                                                              args->dtype, YOKE_F32,
                                                              (double)args->N * (double)args->V);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->V * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "xent_backward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->logits), ARG_L(args->ld), ARG_P(args->targets),
                                           ARG_P(args->lse), ARG_F(args->scale), ARG_P(args->dlogits),
                                           ARG_L(args->lddlogits), ARG_L(args->N), ARG_L(args->V),
                                           ARG_L(args->vocab_start), ARG_L(rows.per_team)));
}

static yoke_status gpu_xent_join_can(const yoke_device *device, const struct yoke_xent_join_args *args,
                                     size_t *scratch_bytes_out)
{
    (void)device, (void)scratch_bytes_out;
    return yokei_gpu_check_dtype(YOKE_OP_xent_join, args->dtype);
}

static yoke_status gpu_xent_join_run(yoke_stream *stream, const struct yoke_xent_join_args *args)
{
    return yokei_gpu_map_run(stream, YOKE_OP_xent_join, "loss", args->dtype, args->N,
                             YOKEI_GPU_ARGS(ARG_L(args->P), ARG_P(args->lse_parts), ARG_P(args->picked_parts),
                                            ARG_L(args->ld), ARG_P(args->targets), ARG_P(args->lse),
                                            ARG_P(args->losses)));
}

#define ENTRY(op) YOKE_OP_ENTRY(gpu, op)
const struct yoke_loss_ops yokei_gpu_loss_ops = { YOKE_LOSS_OPS(ENTRY) };
