/* SPDX-License-Identifier: Apache-2.0 */
/** Fused softmax cross-entropy on kernel-launching devices. */
#include "backends/gpu/families.h"

static yoke_status gpu_xent_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_forward_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_loss_program(stream->device, call, args->V);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->V * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "xent_forward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->logits), ARG_L(args->ld), ARG_P(args->targets),
                                           ARG_P(args->lse), ARG_P(args->picked), ARG_P(args->losses),
                                           ARG_L(args->N), ARG_L(args->V), ARG_L(args->vocab_start),
                                           ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_xent_forward = { .run = gpu_xent_forward_run };

static yoke_status gpu_xent_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_backward_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_loss_program(stream->device, call, args->V);
    struct yokei_gpu_rows rows = yokei_gpu_rows(stream->device, &program, args->N,
                                                args->V * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "xent_backward", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->logits), ARG_L(args->ld), ARG_P(args->targets),
                                           ARG_P(args->lse), ARG_F(args->scale), ARG_P(args->dlogits),
                                           ARG_L(args->lddlogits), ARG_L(args->N), ARG_L(args->V),
                                           ARG_L(args->vocab_start), ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_xent_backward = { .run = gpu_xent_backward_run };

static yoke_status gpu_xent_join_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_xent_join_args *args = call->args;
    return yokei_gpu_map_run(stream, call, "loss", args->N,
                             YOKEI_GPU_ARGS(ARG_L(args->P), ARG_P(args->lse_parts), ARG_P(args->picked_parts),
                                            ARG_L(args->ld), ARG_P(args->targets), ARG_P(args->lse),
                                            ARG_P(args->losses)));
}
const struct yoke_op yokei_gpu_xent_join = { .run = gpu_xent_join_run };
