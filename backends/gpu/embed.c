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

/* The same as in embed.yk. */
enum { SORTED = 256, WAYS = 8, WINDOW = 8 };

/** The tokens sorted by their rows of dwte, in scratch memory. */
struct sorted {
    int32_t *keys, *numbers; /* [N] each */
};

static size_t sorted_bytes(const struct yokei_gpu_program *program, int64_t N)
{
    if (program->L == 1) return 0;
    const int copies = N > SORTED ? 2 : 1; /* a merge reads one copy and writes the other */
    return (size_t)copies * 2 * (size_t)N * sizeof(int32_t);
}

static yoke_status gpu_embed_backward_can(const yoke_device *device, const struct yokei_call *call,
                                          size_t *scratch_bytes_out)
{
    const struct yoke_embed_backward_args *args = call->args;
    const struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "embed");
    *scratch_bytes_out = sorted_bytes(&program, args->N);
    return YOKE_OK;
}

/**
 * Sort the tokens: runs of SORTED tokens first, then WAYS runs become one until there is one. The order is
 * the same however it is found, because no two tokens have the same place.
 */
static yoke_status sort_tokens(yoke_stream *stream, const struct yokei_gpu_program *program,
                               const struct yoke_embed_backward_args *args, struct sorted *out)
{
    const int64_t N = args->N, per_group = (int64_t)SORTED * program->G;
    const int64_t lanes = (int64_t)program->L * program->G;
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_embed_backward, sorted_bytes(program, N), &scratch));
    struct sorted now = { scratch, (int32_t *)scratch + N }, next = { now.keys + 2 * N, now.keys + 3 * N };
    YOKE_TRY(yokei_gpu_launch(stream, program, "embed_sort", (N + per_group - 1) / per_group, 1, 1,
                              YOKEI_GPU_ARGS(ARG_P(args->tokens), ARG_P(now.keys), ARG_P(now.numbers),
                                             ARG_L(N), ARG_L(args->V), ARG_L(args->vocab_start))));
    for (int64_t run = SORTED; run < N; run *= WAYS) {
        YOKE_TRY(yokei_gpu_launch(stream, program, "embed_merge", (N + lanes - 1) / lanes, 1, 1,
                                  YOKEI_GPU_ARGS(ARG_P(now.keys), ARG_P(now.numbers), ARG_P(next.keys),
                                                 ARG_P(next.numbers), ARG_L(N), ARG_L(run))));
        const struct sorted other = now;
        now = next;
        next = other;
    }
    *out = now;
    return YOKE_OK;
}

/** A team adds the rows of some tokens of the sorted order, in a piece of the columns. */
static yoke_status add_sorted(yoke_stream *stream, const struct yokei_gpu_program *program,
                              const struct yoke_embed_backward_args *args)
{
    const int64_t per_group = (int64_t)WINDOW * program->G, columns = (int64_t)program->L * program->W;
    struct sorted sorted;
    if (args->N > INT32_MAX)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "embed_backward: N is %lld, and this device sorts at most %d tokens",
                         (long long)args->N, INT32_MAX);
    YOKE_TRY(sort_tokens(stream, program, args, &sorted));
    return yokei_gpu_launch(stream, program, "embed_backward_tokens", (args->N + per_group - 1) / per_group,
                            (args->C + columns - 1) / columns, 1,
                            YOKEI_GPU_ARGS(ARG_P(sorted.keys), ARG_P(sorted.numbers), ARG_P(args->dy),
                                           ARG_P(args->dwte), ARG_L(args->N), ARG_L(args->C)));
}

/**
 * Teams of one lane share the vocabulary. Each of them goes through all tokens, so there are only as many
 * teams as keep the device busy.
 */
static yoke_status add_scanned(yoke_stream *stream, const struct yokei_gpu_program *program,
                               const struct yoke_embed_backward_args *args)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(stream->device);
    const int64_t teams = YOKE_MIN(args->V, gpu->is_cpu ? 8 * (int64_t)gpu->compute_units : 2048);
    const int64_t columns = gpu->is_cpu ? args->C : (int64_t)4 * program->W;
    return yokei_gpu_launch(stream, program, "embed_backward_tokens", (teams + program->G - 1) / program->G,
                            (args->C + columns - 1) / columns, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->tokens), ARG_P(args->dy), ARG_P(args->dwte),
                                           ARG_L(args->N), ARG_L(args->C), ARG_L(args->V),
                                           ARG_L(args->vocab_start), ARG_L(teams), ARG_L(columns)));
}

static yoke_status gpu_embed_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_embed_backward_args *args = call->args;
    if (!args->N || !args->C) return YOKE_OK;
    yoke_device *device = stream->device;
    struct yokei_gpu_program program = yokei_gpu_team_program(device, call, "embed");
    if (args->dwte && args->V) YOKE_TRY((program.L == 1 ? add_scanned : add_sorted)(stream, &program, args));
    if (!args->dwpe) return YOKE_OK;
    struct yokei_gpu_rows rows = yokei_gpu_rows(
        device, &program, args->T, args->N / args->T * args->C * (int64_t)yoke_dtype_bytes(args->dtype));
    return yokei_gpu_launch(stream, &program, "embed_backward_positions", rows.groups, 1, 1,
                            YOKEI_GPU_ARGS(ARG_P(args->dy), ARG_P(args->dwpe), ARG_L(args->N), ARG_L(args->T),
                                           ARG_L(args->C), ARG_L(args->pos_start), ARG_L(rows.per_team)));
}
const struct yoke_op yokei_gpu_embed_backward = { .can = gpu_embed_backward_can,
                                                  .run = gpu_embed_backward_run };
