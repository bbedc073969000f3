/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Attention on kernel-launching devices: the choice of the body (the algorithm), the division of the heads
 * into pieces, and the launches.
 *
 *  - tile: K and V (in backward also Q and dO) are packed into f32 panels in scratch. A piece has as many
 *    heads as a bounded scratch holds. Then every team of one lane takes MR queries (or keys) through the
 *    panels. (A team is a set of work-items that work together, and a lane is one of them.)
 *  - team: a group shares blocks of keys and queries in local memory. It needs no scratch except for delta.
 *  - mma: a group does the same with matrix units (prelude/mma.yk), for f16 and bf16 and heads of up to 128.
 *    A call that it cannot do is the team's.
 *
 * Each result is written by one team, which takes its blocks in order. No atomics are used, so every run
 * gives the same bits.
 */
#include "backends/gpu/bodies.h"

#define MAX_D 256
/* The bytes of panels of one piece. One pair of heads is always taken, even if it needs more. */
#define PIECE_BYTES ((int64_t)32 << 20)

static const struct yokei_gpu_body list[] = {
    { .name = "tile12x32", .tile = true, .cpu_only = true, .MR = 12, .NV = 2, .W = 16 },
    { .name = "tile6x16", .tile = true, .cpu_only = true, .MR = 6, .NV = 1, .W = 16 },
    { .name = "team" },
    { .name = "tile4x4", .tile = true, .MR = 4, .NV = 4, .W = 1 },
    { .name = "mma", .mma = true },
};
enum { TILE12X32, TILE6X16, TEAM, TILE4X4, MMA };

/**
 * The blocks of the team body, for heads of up to D: rows that stay, columns that pass, and work-items of a
 * group. `warp`: only devices with so many lanes use the entry; 0: all devices. The first entry that fits the
 * device is used. Wavefronts of 64 lanes have groups of 256, because local memory of AMD's devices holds one
 * group at a time, and two wavefronts would leave half of a compute unit idle. The last entries are for
 * OpenCL devices with 32 KiB of local memory.
 */
static const struct blocks {
    int D, rows, columns, items, warp;
} blocks[] = { { 64, 64, 64, 256, 64 }, { 128, 64, 64, 256, 64 }, { 256, 32, 64, 256, 64 },
               { 64, 64, 64, 128, 0 },  { 128, 32, 64, 128, 0 },  { 256, 16, 64, 128, 0 },
               { 64, 32, 32, 128, 1 },  { 128, 32, 32, 128, 1 },  { 256, 16, 32, 128, 1 } };

static bool suits_warp(const struct blocks *b, int warp) { return !b->warp || b->warp == warp; }

/**
 * The programs of the mma body, for heads of up to D: the columns that pass at a time, and how many groups of
 * forward, dq and dkv shall fit on a multiprocessor. The columns are at least half of a group's rows, because
 * the rows lie where the columns will be before a warp takes them into its registers.
 */
static const struct mma {
    int D, columns, forward, dq, dkv;
} mma[] = { { 32, 64, 4, 4, 4 }, { 64, 64, 3, 3, 3 }, { 96, 32, 3, 2, 2 }, { 128, 32, 2, 2, 2 } };
#define MMA_WARPS 4
#define MMA_ROWS (16 * MMA_WARPS) /* of a group */
#define MMA_MAX_D 128
#define MMA_COLUMNS 64 /* the most columns of a block, to which scratch is padded */

static const struct mma *mma_for(int64_t D)
{
    const struct mma *s = mma;
    while (s->D < D) s++;
    return s;
}

/*
 * The bytes of local memory of the team body: lines of 64 floats for the rows, and for two blocks of columns.
 */
static size_t local_bytes(const struct blocks *b)
{
    return 64 * sizeof(float) * (size_t)(b->rows + 2 * b->columns);
}

/** NULL if no blocks fit. */
static const struct blocks *blocks_for(const struct yokei_gpu_device *gpu, int64_t D)
{
    for (const struct blocks *b = blocks; b < blocks + YOKE_COUNT(blocks); b++)
        if (b->D >= D && suits_warp(b, gpu->warp) && b->items <= gpu->max_group
            && local_bytes(b) <= gpu->local_bytes)
            return b;
    return NULL;
}

static bool offers_attention(const struct yokei_gpu_body *body, const struct yokei_gpu_device *gpu)
{
    if (body->cpu_only && !gpu->is_cpu) return false;
    if (body->tile) return !gpu->reserves_private; /* up to 17 KB per work-item */
    if (body->mma) return gpu->multiplies_squares;
    return blocks_for(gpu, MAX_D) && blocks_for(gpu, 128) && blocks_for(gpu, 64);
}

static const struct yokei_gpu_bodies bodies = { list, YOKE_COUNT(list), offers_attention };

const char *yokei_gpu_attention_variant(const yoke_device *device, int index)
{
    const struct yokei_gpu_body *body = yokei_gpu_body_at(&bodies, device, index);
    return body ? body->name : NULL;
}

/*
 * Choose the body by B T H D and T, see yokei_variant. `dtype` and `D` are those of the call. They decide
 * whether the matrix units can do it.
 */
static const struct yokei_gpu_body *choose_attention(const yoke_device *device, const struct yokei_call *call,
                                                     yoke_dtype dtype, int64_t D)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    int otherwise = gpu->reserves_private ? TEAM : TILE4X4;
    if (gpu->is_cpu)
        otherwise = gpu->vector_floats >= 16 ? TILE12X32 : TILE6X16;
    else if (offers_attention(&list[TEAM], gpu))
        otherwise = TEAM;
    const bool fits = dtype != YOKE_F32 && D <= MMA_MAX_D;
    if (fits && offers_attention(&list[MMA], gpu)) otherwise = MMA;
    const struct yokei_gpu_body *body = yokei_gpu_body_at(
        &bodies, device, yokei_variant(device, call, yokei_gpu_body_index(&bodies, device, otherwise)));
    if (!body) body = &list[otherwise]; /* a tuning file may name a body that this device lacks */
    return body->mma && !fits ? &list[TEAM] : body;
}

static struct yokei_gpu_program attention_program(const struct yokei_gpu_body *body, yoke_dtype dtype,
                                                  const struct blocks *b)
{
    struct yokei_gpu_program program = { .family = "attention" };
    if (body->tile) {
        program = yokei_gpu_tile_program("attention", body);
    } else {
        program.L = 32, program.W = 1, program.G = b->items / 32;
        program.defines[0] = (struct yokei_gpu_define){ "YK_BR", b->rows };
        program.defines[1] = (struct yokei_gpu_define){ "YK_BC", b->columns };
        program.defines[2] = (struct yokei_gpu_define){ "YK_D", b->D };
    }
    program.dtype = dtype;
    program.out_dtype = YOKE_F32;
    return program;
}

static struct yokei_gpu_program mma_program(yoke_dtype dtype, const struct mma *s)
{
    return (struct yokei_gpu_program){ .family = "attention",
                                       .dtype = dtype,
                                       .out_dtype = YOKE_F32,
                                       .L = 32,
                                       .W = 1,
                                       .G = MMA_WARPS,
                                       .defines = { { "YK_MMA", 1 },
                                                    { "YK_D", s->D },
                                                    { "YK_COLUMNS", s->columns },
                                                    { "YK_FG", s->forward },
                                                    { "YK_QG", s->dq },
                                                    { "YK_KG", s->dkv } } };
}

bool yokei_gpu_attention_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out)
{
    static const yoke_dtype types[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
    for (size_t i = 0; i < YOKE_COUNT(list); i++) {
        if (list[i].cpu_only && !is_cpu) continue;
        if (list[i].mma) {
            const int kinds = (int)YOKE_COUNT(mma), n = is_cpu || warp != 32 ? 0 : 2 * kinds;
            if (index < n) *program_out = mma_program(types[1 + index / kinds], &mma[index % kinds]);
            return index < n;
        }
        for (size_t b = 0; b < (list[i].tile ? 1 : YOKE_COUNT(blocks)); b++) {
            if (!list[i].tile && !suits_warp(&blocks[b], warp)) continue;
            if (index < (int)YOKE_COUNT(types)) {
                *program_out = attention_program(&list[i], types[index], &blocks[b]);
                return true;
            }
            index -= (int)YOKE_COUNT(types);
        }
    }
    return false;
}

/* ---- shared by both directions ---- */

/** The sizes of a call, and of the piece of heads that one round of launches works on. */
struct shape {
    int32_t T, Tp, H, Hkv, D, Dp;
    struct yokei_groups_of_heads groups;
    int64_t pairs;  /* number of K/V heads of all samples; each is called a pair */
    int64_t piece;  /* number of pairs of one round */
    int64_t panel;  /* floats of one head's rows with D side by side ("along"), rounded up */
    int64_t across; /* floats of one head's rows with T side by side */
    int64_t floats; /* floats of scratch of one round */
};

/*
 * `pair_*`: panels (along, across) per K/V head. `head_*`: panels per query head, and vectors [Tp] per query
 * head.
 */
struct need {
    int pair_along, pair_across, head_along, head_across, head_vectors;
};

static struct shape attention_shape(const struct yokei_gpu_body *body, int64_t B, int64_t T,
                                    struct yokei_groups_of_heads groups, int64_t Hkv, int64_t D,
                                    const struct need *need)
{
    const int64_t NR = body->tile ? yokei_gpu_tile_columns(body) : body->mma ? MMA_COLUMNS : 16;
    struct shape s = { .T = (int32_t)T,
                       .Tp = (int32_t)yokei_gpu_round_up(T, YOKE_MAX(NR, 16)),
                       .H = (int32_t)groups.H,
                       .Hkv = (int32_t)Hkv,
                       .groups = groups,
                       .D = (int32_t)D,
                       .Dp = (int32_t)yokei_gpu_round_up(D, NR),
                       .pairs = B * Hkv };
    const int64_t most = YOKE_MIN(groups.group, groups.H); /* query heads of a pair that are in this call */
    s.panel = (int64_t)s.Tp * s.Dp;
    s.across = (int64_t)s.Tp * s.D;
    int64_t floats = need->pair_along * s.panel + need->pair_across * s.across
                     + most
                           * (need->head_along * s.panel + need->head_across * s.across
                              + need->head_vectors * (int64_t)s.Tp);
    s.piece = floats ? PIECE_BYTES / (int64_t)sizeof(float) / floats : 32768;
    s.piece = YOKE_MAX(1, YOKE_MIN(YOKE_MIN(s.piece, s.pairs), YOKE_MAX(1, 32768 / YOKE_MAX(most, 1))));
    s.floats = s.piece * floats;
    return s;
}

/*
 * The number b * H + h of the first query head of a pair. The heads of a piece end before the first head of
 * the next pair.
 */
static int64_t first_head_of(const struct shape *s, int64_t pair)
{
    return pair / s->Hkv * s->H + yokei_first_head(s->groups, pair % s->Hkv);
}

/* The arguments of dropout, in the order of DROP_PARAMETERS. `a` is of either direction. */
#define DROP_ARGS(drop, a)                                                                              \
    ARG_I((int32_t)(drop).key.k[0]), ARG_I((int32_t)(drop).key.k[1]), ARG_I((int32_t)(drop).threshold), \
        ARG_F((drop).scale), ARG_I((int32_t)(uint32_t)(a)->sample_start),                               \
        ARG_I((int32_t)(uint32_t)(a)->head_start)
/* The arguments of heads. */
#define HEAD_ARGS(s) \
    ARG_I((s).H), ARG_I((s).Hkv), ARG_I((int32_t)(s).groups.group), ARG_I((int32_t)(s).groups.lead)

static yoke_status check_attention(enum yoke_op_id op, int64_t B, int64_t T, int64_t H, int64_t D)
{
    if (D > MAX_D)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: heads of D = %lld, at most %d are offered",
                         yokei_op_names[op], (long long)D, MAX_D);
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = { { "T", T, INT32_MAX / 2 }, { "H D", H * D, INT32_MAX }, { "B H", B * H, INT32_MAX } };
    for (size_t i = 0; i < YOKE_COUNT(sizes); i++)
        if (sizes[i].value > sizes[i].most)
            return yoke_fail(YOKE_EUNSUPPORTED, "%s: %s = %lld, at most %lld are offered", yokei_op_names[op],
                             sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].most);
    return YOKE_OK;
}

/** Make the panels of one tensor for the heads [first, first + n). Either target may be NULL. */
static yoke_status pack_heads(yoke_stream *stream, const struct yokei_gpu_program *program,
                              const struct yokei_gpu_body *body, const struct shape *s, const void *x,
                              int64_t ld, int32_t heads, int64_t first, int64_t n, float *across,
                              float *along)
{
    const int64_t NR = yokei_gpu_tile_columns(body);
    return yokei_gpu_launch(
        stream, program, "attention_pack", (s->Tp / NR + program->G - 1) / program->G, n, 1,
        YOKEI_GPU_ARGS(ARG_P(x), ARG_L(ld), ARG_P(across), ARG_P(along), ARG_I(s->T), ARG_I(s->Tp),
                       ARG_I(heads), ARG_I(s->D), ARG_I(s->Dp), ARG_I((int32_t)first)));
}

/* ---- forward ---- */

static struct shape forward_shape(const struct yokei_gpu_body *body,
                                  const struct yoke_attention_forward_args *args)
{
    struct need need = { .pair_along = body->tile, .pair_across = body->tile };
    return attention_shape(body, args->B, args->T, YOKEI_GROUPS_OF_HEADS(args), args->Hkv, args->D, &need);
}

static yoke_status gpu_attention_forward_can(const yoke_device *device, const struct yokei_call *call,
                                             size_t *scratch_bytes_out)
{
    const struct yoke_attention_forward_args *args = call->args;
    YOKE_TRY(check_attention(call->op, args->B, args->T, args->H, args->D));
    if (args->B && args->T && args->H && args->D) {
        const struct yokei_gpu_body *body = choose_attention(device, call, args->dtype, args->D);
        *scratch_bytes_out = sizeof(float) * (size_t)forward_shape(body, args).floats;
    }
    return YOKE_OK;
}

static yoke_status forward_tile(yoke_stream *stream, const struct yoke_attention_forward_args *args,
                                const struct yokei_gpu_body *body)
{
    struct shape s = forward_shape(body, args);
    struct yokei_gpu_program program = attention_program(body, args->dtype, NULL);
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_forward, sizeof(float) * (size_t)s.floats, &scratch));
    const struct yokei_dropout drop = yokei_dropout(args->p, args->key);
    float *k_across = scratch, *v_along = k_across + s.piece * s.across;
    int64_t teams = (s.T + body->MR - 1) / body->MR;
    for (int64_t pair = 0; pair < s.pairs; pair += s.piece) {
        int64_t n = YOKE_MIN(s.piece, s.pairs - pair), first = first_head_of(&s, pair),
                heads = first_head_of(&s, pair + n) - first;
        YOKE_TRY(pack_heads(stream, &program, body, &s, args->k, args->ldk, s.Hkv, pair, n, k_across, NULL));
        YOKE_TRY(pack_heads(stream, &program, body, &s, args->v, args->ldv, s.Hkv, pair, n, NULL, v_along));
        YOKE_TRY(yokei_gpu_launch(
            stream, &program, "attention_forward_tile", (teams + program.G - 1) / program.G, heads, 1,
            YOKEI_GPU_ARGS(ARG_P(args->q), ARG_L(args->ldq), ARG_P(k_across), ARG_P(v_along), ARG_P(args->o),
                           ARG_L(args->ldo), ARG_P(args->lse), ARG_I(s.T), ARG_I(s.Tp), HEAD_ARGS(s),
                           ARG_I(s.D), ARG_I(s.Dp), ARG_F(args->scale), ARG_I(args->causal),
                           ARG_I((int32_t)pair), ARG_I((int32_t)first), DROP_ARGS(drop, args))));
    }
    return YOKE_OK;
}

/* A body in which a group has some of a head's rows, and launches that give each head its groups. */
struct grouped {
    struct yokei_gpu_program program;
    int64_t rows, delta_rows; /* of a group */
    const char *forward, *delta, *dq, *dkv;
};

static struct grouped grouped_body(const yoke_device *device, const struct yokei_gpu_body *body,
                                   yoke_dtype dtype, int64_t D)
{
    if (body->mma)
        return (struct grouped){
            mma_program(dtype, mma_for(D)), MMA_ROWS,           MMA_WARPS * 4,      "attention_forward_mma",
            "attention_delta_mma",          "attention_dq_mma", "attention_dkv_mma"
        };
    const struct blocks *b = blocks_for(yokei_gpu(device), D);
    return (struct grouped){ attention_program(&list[TEAM], dtype, b),
                             b->rows,
                             b->items,
                             "attention_forward_team",
                             "attention_delta_team",
                             "attention_dq_team",
                             "attention_dkv_team" };
}

/** The groups of a launch for n heads of T rows. */
static int64_t groups_of(const struct grouped *g, int64_t T, int64_t n)
{
    return (T + g->rows - 1) / g->rows * n;
}

static yoke_status forward_grouped(yoke_stream *stream, const struct yoke_attention_forward_args *args,
                                   const struct yokei_gpu_body *body)
{
    const struct grouped g = grouped_body(stream->device, body, args->dtype, args->D);
    const struct yokei_dropout drop = yokei_dropout(args->p, args->key);
    const struct yokei_groups_of_heads groups = YOKEI_GROUPS_OF_HEADS(args);
    const int64_t heads = args->B * args->H;
    for (int64_t head = 0; head < heads; head += 32768) {
        const int64_t n = YOKE_MIN(32768, heads - head);
        YOKE_TRY(yokei_gpu_launch(
            stream, &g.program, g.forward, groups_of(&g, args->T, n), 1, 1,
            YOKEI_GPU_ARGS(ARG_P(args->q), ARG_L(args->ldq), ARG_P(args->k), ARG_L(args->ldk), ARG_P(args->v),
                           ARG_L(args->ldv), ARG_P(args->o), ARG_L(args->ldo), ARG_P(args->lse),
                           ARG_I((int32_t)args->T), ARG_I((int32_t)args->H), ARG_I((int32_t)args->Hkv),
                           ARG_I((int32_t)groups.group), ARG_I((int32_t)groups.lead), ARG_I((int32_t)args->D),
                           ARG_F(args->scale), ARG_I(args->causal), ARG_I((int32_t)head), ARG_I((int32_t)n),
                           DROP_ARGS(drop, args))));
    }
    return YOKE_OK;
}

static yoke_status gpu_attention_forward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_forward_args *args = call->args;
    if (!args->B || !args->T || !args->H || !args->D) return YOKE_OK;
    const struct yokei_gpu_body *body = choose_attention(stream->device, call, args->dtype, args->D);
    return body->tile ? forward_tile(stream, args, body) : forward_grouped(stream, args, body);
}
const struct yoke_op yokei_gpu_attention_forward = { .can = gpu_attention_forward_can,
                                                     .run = gpu_attention_forward_run };

/* ---- backward ---- */

static struct shape backward_shape(const struct yokei_gpu_body *body,
                                   const struct yoke_attention_backward_args *args)
{
    /* K along and across, V across; Q and dO both ways, lse and delta */
    struct need need = {
        .pair_along = 1, .pair_across = 2, .head_along = 2, .head_across = 2, .head_vectors = 2
    };
    if (!body->tile) need = (struct need){ .head_vectors = 2 };
    return attention_shape(body, args->B, args->T, YOKEI_GROUPS_OF_HEADS(args), args->Hkv, args->D, &need);
}

static yoke_status gpu_attention_backward_can(const yoke_device *device, const struct yokei_call *call,
                                              size_t *scratch_bytes_out)
{
    const struct yoke_attention_backward_args *args = call->args;
    YOKE_TRY(check_attention(call->op, args->B, args->T, args->H, args->D));
    if (args->B && args->T && args->H && args->D) {
        const struct yokei_gpu_body *body = choose_attention(device, call, args->dtype, args->D);
        *scratch_bytes_out = sizeof(float) * (size_t)backward_shape(body, args).floats;
    }
    return YOKE_OK;
}

/** Compute the row sums of dO * O of the heads [first, first + n), and copy lse. Both are padded to Tp. */
static yoke_status make_delta(yoke_stream *stream, const struct yokei_gpu_program *program,
                              const struct yoke_attention_backward_args *args, const struct shape *s,
                              int64_t first, int64_t n, float *lse, float *delta)
{
    const int64_t items = (int64_t)program->L * program->G;
    const int32_t per_item = program->G == 1 ? s->Tp : 1;
    return yokei_gpu_launch(
        stream, program, "attention_delta", (s->Tp + per_item * items - 1) / (per_item * items), n, 1,
        YOKEI_GPU_ARGS(ARG_P(args->o), ARG_L(args->ldo), ARG_P(args->d_o), ARG_L(args->lddo),
                       ARG_P(args->lse), ARG_P(lse), ARG_P(delta), ARG_I(s->T), ARG_I(s->Tp), ARG_I(s->H),
                       ARG_I(s->D), ARG_I((int32_t)first), ARG_I(per_item)));
}

static yoke_status backward_tile(yoke_stream *stream, const struct yoke_attention_backward_args *args,
                                 const struct yokei_gpu_body *body)
{
    struct shape s = backward_shape(body, args);
    struct yokei_gpu_program program = attention_program(body, args->dtype, NULL);
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_backward, sizeof(float) * (size_t)s.floats, &scratch));
    const struct yokei_dropout drop = yokei_dropout(args->p, args->key);
    int64_t teams = (s.T + body->MR - 1) / body->MR, groups = (teams + program.G - 1) / program.G;
    for (int64_t pair = 0; pair < s.pairs; pair += s.piece) {
        int64_t n = YOKE_MIN(s.piece, s.pairs - pair), first = first_head_of(&s, pair),
                heads = first_head_of(&s, pair + n) - first;
        float *k_across = scratch, *v_across = k_across + n * s.across, *k_along = v_across + n * s.across;
        float *q_across = k_along + n * s.panel, *do_across = q_across + heads * s.across;
        float *q_along = do_across + heads * s.across, *do_along = q_along + heads * s.panel;
        float *lse = do_along + heads * s.panel, *delta = lse + heads * s.Tp;
        YOKE_TRY(
            pack_heads(stream, &program, body, &s, args->k, args->ldk, s.Hkv, pair, n, k_across, k_along));
        YOKE_TRY(pack_heads(stream, &program, body, &s, args->v, args->ldv, s.Hkv, pair, n, v_across, NULL));
        YOKE_TRY(
            pack_heads(stream, &program, body, &s, args->q, args->ldq, s.H, first, heads, q_across, q_along));
        YOKE_TRY(pack_heads(stream, &program, body, &s, args->d_o, args->lddo, s.H, first, heads, do_across,
                            do_along));
        YOKE_TRY(make_delta(stream, &program, args, &s, first, heads, lse, delta));
        YOKE_TRY(yokei_gpu_launch(
            stream, &program, "attention_dq_tile", groups, heads, 1,
            YOKEI_GPU_ARGS(ARG_P(args->q), ARG_L(args->ldq), ARG_P(args->d_o), ARG_L(args->lddo),
                           ARG_P(k_across), ARG_P(k_along), ARG_P(v_across), ARG_P(lse), ARG_P(delta),
                           ARG_P(args->dq), ARG_L(args->lddq), ARG_I(s.T), ARG_I(s.Tp), HEAD_ARGS(s),
                           ARG_I(s.D), ARG_I(s.Dp), ARG_F(args->scale), ARG_I(args->causal),
                           ARG_I((int32_t)pair), ARG_I((int32_t)first), DROP_ARGS(drop, args))));
        YOKE_TRY(yokei_gpu_launch(
            stream, &program, "attention_dkv_tile", groups, n, 1,
            YOKEI_GPU_ARGS(ARG_P(args->k), ARG_L(args->ldk), ARG_P(args->v), ARG_L(args->ldv),
                           ARG_P(q_across), ARG_P(q_along), ARG_P(do_across), ARG_P(do_along), ARG_P(lse),
                           ARG_P(delta), ARG_P(args->dk), ARG_L(args->lddk), ARG_P(args->dv),
                           ARG_L(args->lddv), ARG_I(s.T), ARG_I(s.Tp), HEAD_ARGS(s), ARG_I(s.D), ARG_I(s.Dp),
                           ARG_F(args->scale), ARG_I(args->causal), ARG_I((int32_t)pair),
                           ARG_I((int32_t)first), DROP_ARGS(drop, args))));
    }
    return YOKE_OK;
}

static yoke_status backward_grouped(yoke_stream *stream, const struct yoke_attention_backward_args *args,
                                    const struct yokei_gpu_body *body)
{
    const struct shape s = backward_shape(body, args);
    const struct grouped g = grouped_body(stream->device, body, args->dtype, args->D);
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_attention_backward, sizeof(float) * (size_t)s.floats, &scratch));
    const struct yokei_dropout drop = yokei_dropout(args->p, args->key);
    for (int64_t pair = 0; pair < s.pairs; pair += s.piece) {
        const int64_t n = YOKE_MIN(s.piece, s.pairs - pair), first = first_head_of(&s, pair),
                      heads = first_head_of(&s, pair + n) - first;
        float *lse = scratch, *delta = lse + heads * s.Tp;
        YOKE_TRY(yokei_gpu_launch(
            stream, &g.program, g.delta, (s.Tp + g.delta_rows - 1) / g.delta_rows, heads, 1,
            YOKEI_GPU_ARGS(ARG_P(args->o), ARG_L(args->ldo), ARG_P(args->d_o), ARG_L(args->lddo),
                           ARG_P(args->lse), ARG_P(lse), ARG_P(delta), ARG_I(s.T), ARG_I(s.Tp), ARG_I(s.H),
                           ARG_I(s.D), ARG_I((int32_t)first))));
        YOKE_TRY(yokei_gpu_launch(
            stream, &g.program, g.dq, groups_of(&g, s.T, heads), 1, 1,
            YOKEI_GPU_ARGS(ARG_P(args->q), ARG_L(args->ldq), ARG_P(args->k), ARG_L(args->ldk), ARG_P(args->v),
                           ARG_L(args->ldv), ARG_P(args->d_o), ARG_L(args->lddo), ARG_P(lse), ARG_P(delta),
                           ARG_P(args->dq), ARG_L(args->lddq), ARG_I(s.T), ARG_I(s.Tp), HEAD_ARGS(s),
                           ARG_I(s.D), ARG_F(args->scale), ARG_I(args->causal), ARG_I((int32_t)first),
                           ARG_I((int32_t)heads), DROP_ARGS(drop, args))));
        YOKE_TRY(yokei_gpu_launch(
            stream, &g.program, g.dkv, groups_of(&g, s.T, n), 1, 1,
            YOKEI_GPU_ARGS(ARG_P(args->q), ARG_L(args->ldq), ARG_P(args->k), ARG_L(args->ldk), ARG_P(args->v),
                           ARG_L(args->ldv), ARG_P(args->d_o), ARG_L(args->lddo), ARG_P(lse), ARG_P(delta),
                           ARG_P(args->dk), ARG_L(args->lddk), ARG_P(args->dv), ARG_L(args->lddv), ARG_I(s.T),
                           ARG_I(s.Tp), HEAD_ARGS(s), ARG_I(s.D), ARG_F(args->scale), ARG_I(args->causal),
                           ARG_I((int32_t)pair), ARG_I((int32_t)first), ARG_I((int32_t)n),
                           DROP_ARGS(drop, args))));
    }
    return YOKE_OK;
}

static yoke_status gpu_attention_backward_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_attention_backward_args *args = call->args;
    if (!args->B || !args->T || !args->H || !args->D) return YOKE_OK;
    const struct yokei_gpu_body *body = choose_attention(stream->device, call, args->dtype, args->D);
    return body->tile ? backward_tile(stream, args, body) : backward_grouped(stream, args, body);
}
const struct yoke_op yokei_gpu_attention_backward = { .can = gpu_attention_backward_can,
                                                      .run = gpu_attention_backward_run };
