/* SPDX-License-Identifier: Apache-2.0 */
/** AdamW and the gradient's norm on kernel-launching devices (OpenCL, CUDA, HIP). */
#include <math.h>

#include "backends/gpu/families.h"

static yoke_status gpu_adamw_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_adamw_args *args = call->args;
    struct yokei_gpu_program program = yokei_gpu_team_program(stream->device, call, "optim");
    if (stream->device->corrects) program.defines[0] = (struct yokei_gpu_define){ "YK_CORRECTS", 1 };
    struct yokei_gpu_rows rows = yokei_gpu_span(stream->device, &program, args->n, 4);
    float correct1 = (float)(1.0 - pow((double)args->beta1, (double)args->step));
    float correct2 = (float)(1.0 - pow((double)args->beta2, (double)args->step));
    return yokei_gpu_launch(
        stream, &program, "adamw", rows.groups, 1, 1,
        YOKEI_GPU_ARGS(ARG_P(args->w), ARG_P(args->m), ARG_P(args->v), ARG_P(args->grad), ARG_P(args->copy),
                       ARG_F(args->lr), ARG_F(args->beta1), ARG_F(args->beta2), ARG_F(args->eps),
                       ARG_F(args->lr * args->weight_decay), ARG_F(args->grad_scale), ARG_F(correct1),
                       ARG_F(correct2), ARG_L(args->n), ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_adamw = { .run = gpu_adamw_run };

/* The number of additions of one lane in a block; the same as in optim.yk. */
#define DEPTH 32

static int64_t blocks_of(int64_t n, int64_t block) { return (n + block - 1) / block; }

/**
 * The bytes of the (sum, count) pairs of the first and the second level. The later levels use the two areas
 * in turn.
 */
static size_t norm_bytes(int64_t n, int L, int W)
{
    int64_t first = blocks_of(n, (int64_t)DEPTH * L * W), second = blocks_of(first, (int64_t)DEPTH * L);
    return (size_t)(first + second) * 2 * sizeof(float);
}

static yoke_status gpu_grad_norm_can(const yoke_device *device, const struct yokei_call *call,
                                     size_t *scratch_bytes_out)
{
    const struct yoke_grad_norm_args *args = call->args;
    (void)device;
    *scratch_bytes_out = args->block
                             ? 0
                             : norm_bytes(args->n, 1, 1); /* the narrowest team needs the most scratch */
    return YOKE_OK;
}

static yoke_status gpu_grad_norm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_grad_norm_args *args = call->args;
    yoke_device *device = stream->device;
    if (!args->n) return args->block ? YOKE_OK : yokei_stream_fill(stream, args->out, 0, 2 * sizeof(float));
    struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "optim");
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_grad_norm,
                           args->block ? 0 : norm_bytes(args->n, program.L, program.W), &scratch));
    int64_t block = args->block ? args->block : (int64_t)DEPTH * program.L * program.W,
            n = blocks_of(args->n, block);
    float *sums = scratch, *other = sums + 2 * n;
    struct yokei_gpu_rows rows = yokei_gpu_rows(device, &program, n,
                                                block * (int64_t)yoke_dtype_bytes(args->dtype));
    float *out = n == 1 || args->block ? args->out : sums;
    YOKE_TRY(yokei_gpu_launch(stream, &program, "norm_squares", rows.groups, 1, 1,
                              YOKEI_GPU_ARGS(ARG_P(args->grad), ARG_F(args->scale), ARG_P(out),
                                             ARG_L(args->n), ARG_L(block), ARG_L(n), ARG_L(rows.per_team))));
    while (n > 1 && !args->block) {
        int64_t fewer = blocks_of(n, (int64_t)DEPTH * program.L);
        rows = yokei_gpu_rows(device, &program, fewer, (int64_t)DEPTH * program.L * 8);
        out = fewer == 1 ? args->out : other;
        YOKE_TRY(yokei_gpu_launch(stream, &program, "norm_sums", rows.groups, 1, 1,
                                  YOKEI_GPU_ARGS(ARG_P(sums), ARG_P(out), ARG_L(n), ARG_L(fewer),
                                                 ARG_L(rows.per_team))));
        other = sums;
        sums = out;
        n = fewer;
    }
    return YOKE_OK;
}
const struct yoke_op yokei_gpu_grad_norm = { .can = gpu_grad_norm_can, .run = gpu_grad_norm_run };
