/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products on kernel-launching devices: the choice between a vendor's library (gemm_library.c) and the
 * bodies (Yoke's own algorithms), the division of the product, and the launches. A team is a set of
 * work-items that work together, and a lane is one of them.
 *
 *  - tile: both operands are packed into panels in scratch. The packing undoes transposes, widens 16-bit
 *    types to f32, and fills the edges with zeros. Then each team of one lane multiplies panels, with MR x NR
 *    sums in its registers. For devices on which work-items are loops on a core.
 *  - block: no scratch and one launch. A group of one lane packs the panels of B that it needs into memory of
 *    its own. It also packs strips of A if it cannot multiply A's elements in place. Packing something twice
 *    costs less than another launch.
 *  - team: the work-items of a group share blocks of A and B in local memory. Each work-item has TM x TN sums
 *    in registers. While the group multiplies two blocks, the next two are fetched. For GPUs.
 */
#include "backends/gpu/bodies.h"
#include "backends/gpu/gemm.h"

static const struct yokei_gpu_body list[] = {
    { .name = "block8x32", .tile = true, .cpu_only = true, .MR = 8, .NV = 2, .W = 16, .panels = 4 },
    { .name = "tile12x32", .tile = true, .cpu_only = true, .MR = 12, .NV = 2, .W = 16 },
    { .name = "tile6x16", .tile = true, .cpu_only = true, .MR = 6, .NV = 1, .W = 16 },
    { .name = "team64", .BM = 64, .BN = 64, .BK = 16, .TM = 4, .TN = 4 },
    { .name = "team128", .BM = 128, .BN = 128, .BK = 16, .TM = 8, .TN = 8 },
    { .name = "tile4x4", .tile = true, .MR = 4, .NV = 4, .W = 1 },
};
enum { BLOCK8X32, TILE12X32, TILE6X16, TEAM64, TEAM128, TILE4X4 };

static bool offers_gemm(const struct yokei_gpu_body *body, const struct yokei_gpu_device *gpu)
{
    if (body->cpu_only && !gpu->is_cpu) return false;
    return body->tile
           || ((body->BM / body->TM) * (body->BN / body->TN) <= gpu->max_group
               && 2 * sizeof(float) * (size_t)(body->BK * (body->BM + body->BN + 8)) <= gpu->local_bytes);
}

static const struct yokei_gpu_bodies bodies = { list, YOKE_COUNT(list), offers_gemm };

/* The library's variants come before the bodies. */
static int n_of_library(const yoke_device *device)
{
    const struct yokei_gpu_products *products = yokei_gpu(device)->products;
    int n = 0;
    while (products && products->names[n]) n++;
    return n;
}

const char *yokei_gpu_gemm_variant(const yoke_device *device, int index)
{
    const int n = n_of_library(device);
    if (index < n) return yokei_gpu(device)->products->names[index];
    const struct yokei_gpu_body *body = yokei_gpu_body_at(&bodies, device, index - n);
    return body ? body->name : NULL;
}

bool yokei_gpu_gemm_is_library(const yoke_device *device, int index) { return index < n_of_library(device); }

/*
 * Whether to pack each panel once, with one more launch. Measured on PoCL. If columns of an f32 A are 4 KiB
 * apart, they share few sets of the caches. In a long product, each panel would be packed often.
 */
static bool pack_once(const struct yoke_gemm_args *args)
{
    bool columns = args->dtype == YOKE_F32 && args->trans_a && args->lda >= 1024 && args->K > 512;
    return columns || YOKE_MIN(YOKE_MIN(args->M, args->N), args->K) >= 1536;
}

/* The body that the built-in rule chooses. */
static int body_by_rule(const yoke_device *device, const struct yoke_gemm_args *args)
{
    const struct yokei_gpu_device *gpu = yokei_gpu(device);
    if (gpu->is_cpu) return gpu->vector_floats < 16 ? TILE6X16 : pack_once(args) ? TILE12X32 : BLOCK8X32;
    /* A large block reads less data. A small block gives every compute unit something to do. */
    const int64_t blocks = ((args->M + 127) / 128) * ((args->N + 127) / 128) * args->batch;
    if (offers_gemm(&list[TEAM128], gpu) && blocks >= 2 * gpu->compute_units) return TEAM128;
    return offers_gemm(&list[TEAM64], gpu) ? TEAM64 : TILE4X4;
}

/** How a product runs: by a body, or, if `body` is NULL, by this variant of the library. */
struct choice {
    const struct yokei_gpu_body *body;
    int variant;
    const char *detail;
    bool planned; /* the plan is made, for the addresses of the call */
    struct yokei_gpu_library_plan plan;
};

/* Whether the library offers choice->variant. Then the plan is made. */
static bool library_offers(const yoke_device *device, const struct yoke_gemm_args *args,
                           struct choice *choice)
{
    struct yokei_error saved;
    yokei_error_save(&saved);
    choice->planned = !yokei_gpu_library_plan(device, args, choice->variant, choice->detail, &choice->plan);
    if (!choice->planned && choice->detail[0])
        yoke_log(YOKE_LOG_INFO, "%s: %s; another algorithm runs", device->info.spec, yoke_last_error());
    yokei_error_restore(&saved);
    return choice->planned;
}

/* There is nothing to multiply, so the bodies only run the epilogue. */
static bool is_empty(const struct yoke_gemm_args *args) { return !args->M || !args->N || !args->K; }

/*
 * The variant of the library that runs, if one does. A tuning file may have chosen one for products like this
 * one, or a test may force one. Otherwise the first one runs, if the library offers it.
 */
static bool choose_library(const yoke_device *device, const struct yokei_call *call,
                           const struct yoke_gemm_args *args, struct choice *choice)
{
    const int n = n_of_library(device);
    if (!n || is_empty(args) || choice->variant >= n) return false;
    if (choice->variant >= 0) choice->detail = yokei_variant_detail(device, call);
    if (choice->variant >= 0 && yokei_variant_is_forced(device, YOKE_OP_gemm)) return true;
    if (choice->variant >= 0 && library_offers(device, args, choice)) return true;
    choice->variant = 0, choice->detail = "";
    return library_offers(device, args, choice);
}

/* What runs if nothing is tuned or forced: the library's first variant, or else `own`. */
static int variant_by_rule(const yoke_device *device, const struct yoke_gemm_args *args, int own)
{
    struct choice choice = { .detail = "" };
    return n_of_library(device) && !is_empty(args) && library_offers(device, args, &choice) ? 0 : own;
}

/* `args` are those of the call, or the same without addresses. */
static void choose_gemm(const yoke_device *device, const struct yokei_call *call,
                        const struct yoke_gemm_args *args, struct choice *choice)
{
    const int n = n_of_library(device), rule = body_by_rule(device, args),
              own = n + yokei_gpu_body_index(&bodies, device, rule);
    choice->body = NULL;
    choice->planned = false;
    choice->detail = "";
    /* who forces a variant wants to know the other one; else a product is searched for once */
    choice->variant = yokei_variant(
        device, call,
        yokei_variant_is_forced(device, YOKE_OP_gemm) ? variant_by_rule(device, args, own) : -1);
    if (!choose_library(device, call, args, choice)) {
        if (choice->variant < n) choice->variant = own;
        choice->body = yokei_gpu_body_at(&bodies, device, choice->variant - n);
        if (!choice->body) choice->body = &list[rule]; /* a tuning file named a body that this device lacks */
    }
    yokei_variant_ran(device, YOKE_OP_gemm, choice->variant);
}

static struct yokei_gpu_program gemm_program(const struct yokei_gpu_body *body, yoke_dtype dtype,
                                             yoke_dtype out_dtype)
{
    struct yokei_gpu_program program = { .family = "gemm" };
    if (body->tile) {
        program = yokei_gpu_tile_program("gemm", body);
        if (body->panels) program.defines[2] = (struct yokei_gpu_define){ "YK_PANELS", body->panels };
    } else {
        program.L = 32, program.W = 1, program.G = (body->BM / body->TM) * (body->BN / body->TN) / 32;
        program.defines[0] = (struct yokei_gpu_define){ "YK_BM", body->BM };
        program.defines[1] = (struct yokei_gpu_define){ "YK_BN", body->BN };
        program.defines[2] = (struct yokei_gpu_define){ "YK_BK", body->BK };
        program.defines[3] = (struct yokei_gpu_define){ "YK_TM", body->TM };
        program.defines[4] = (struct yokei_gpu_define){ "YK_TN", body->TN };
    }
    program.dtype = dtype;
    program.out_dtype = out_dtype;
    return program;
}

bool yokei_gpu_gemm_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out)
{
    static const yoke_dtype types[][2] = { { YOKE_F32, YOKE_F32 },
                                           { YOKE_F16, YOKE_F16 },
                                           { YOKE_BF16, YOKE_BF16 },
                                           { YOKE_F16, YOKE_F32 },
                                           { YOKE_BF16, YOKE_F32 } };
    (void)warp;
    for (size_t i = 0; i < YOKE_COUNT(list); i++) {
        if (list[i].cpu_only && !is_cpu) continue;
        if (index < (int)YOKE_COUNT(types)) {
            *program_out = gemm_program(&list[i], types[index][0], types[index][1]);
            return true;
        }
        index -= (int)YOKE_COUNT(types);
    }
    if (is_cpu || index >= (int)YOKE_COUNT(types)) return false;
    *program_out = yokei_gpu_finish_program(types[index][0], types[index][1]);
    return true;
}

/* ---- how a tiled product is cut so that its panels fit a bounded scratch ---- */

/**
 * The extents of one piece, and the floats of its panels. If there are several pieces along K, `part` holds
 * the sums between them.
 */
struct cut {
    int64_t Mc, Nc, Kc, batch;
    int64_t a_floats, b_floats, part_floats; /* panels of A and B of one product */
    int64_t a_total, b_total;                /* panels of all products of a launch */
};

/*
 * The depth up to which a panel of B stays in a core's second-level cache, and limits on the bytes of the
 * panels.
 */
#define MAX_DEPTH 3072
#define USUAL_DEPTH 2048
#define A_BYTES ((int64_t)8 << 20)
#define B_BYTES ((int64_t)16 << 20)

static struct cut cut_product(const struct yokei_gpu_body *body, const struct yoke_gemm_args *args)
{
    const int64_t MR = body->MR, NR = yokei_gpu_tile_columns(body);
    struct cut cut = { .Kc = args->K };
    if (args->K > MAX_DEPTH) {
        int64_t pieces = (args->K + USUAL_DEPTH - 1) / USUAL_DEPTH;
        cut.Kc = (args->K + pieces - 1) / pieces;
    }
    int64_t depth_bytes = (int64_t)sizeof(float) * YOKE_MAX(cut.Kc, 1);
    cut.Mc = YOKE_MIN(yokei_gpu_round_up(args->M, MR), YOKE_MAX(A_BYTES / depth_bytes / MR, 1) * MR);
    cut.Nc = YOKE_MIN(yokei_gpu_round_up(args->N, NR), YOKE_MAX(B_BYTES / depth_bytes / NR, 1) * NR);
    cut.a_floats = yokei_gpu_round_up(cut.Mc * cut.Kc, 16);
    cut.b_floats = yokei_gpu_round_up(cut.Nc * cut.Kc, 16);
    if (cut.Kc < args->K) cut.part_floats = cut.Mc * cut.Nc;
    cut.batch = 1;
    if (cut.Mc >= args->M && cut.Nc >= args->N && cut.Kc == args->K) {
        int64_t bytes = (int64_t)sizeof(float)
                        * ((args->stride_a ? cut.a_floats : 0) + (args->stride_b ? cut.b_floats : 0));
        cut.batch = YOKE_MIN(YOKE_MIN(args->batch, 32768),
                             YOKE_MAX((A_BYTES + B_BYTES) / YOKE_MAX(bytes, 1), 1));
    }
    cut.a_total = cut.a_floats * (args->stride_a ? cut.batch : 1);
    cut.b_total = cut.b_floats * (args->stride_b ? cut.batch : 1);
    return cut;
}

/** A piece of the product: origin and extents along M, N and K, and the products [batch, batch + n_batch). */
struct piece {
    int64_t m, n, k, batch;
    int64_t M, N, K, n_batch;
};

static const char *at(const void *base, int64_t elements, yoke_dtype dtype)
{
    return base ? (const char *)base + elements * (int64_t)yoke_dtype_bytes(dtype) : NULL;
}

/* The place of B's panels in the scratch. There is none for K = 0. */
static float *b_panels(const struct cut *cut, float *scratch)
{
    return scratch ? scratch + cut->a_total : NULL;
}

static yoke_status pack_operands(yoke_stream *stream, const struct yoke_gemm_args *args,
                                 const struct yokei_gpu_body *body, const struct cut *cut,
                                 const struct piece *piece, float *scratch)
{
    struct yokei_gpu_program program = gemm_program(body, args->dtype, args->out_dtype);
    const int64_t NR = yokei_gpu_tile_columns(body);
    const bool share_a = args->stride_a == 0, share_b = args->stride_b == 0;
    int64_t offset_a = piece->batch * args->stride_a
                       + (args->trans_a ? piece->k * args->lda + piece->m : piece->m * args->lda + piece->k);
    int64_t offset_b = piece->batch * args->stride_b
                       + (args->trans_b ? piece->n * args->ldb + piece->k : piece->k * args->ldb + piece->n);
    int64_t panels_a = (piece->M + body->MR - 1) / body->MR, panels_b = (piece->N + NR - 1) / NR;
    return yokei_gpu_launch(
        stream, &program, "gemm_pack", (panels_a + panels_b + program.G - 1) / program.G, 1, piece->n_batch,
        YOKEI_GPU_ARGS(ARG_P(at(args->a, offset_a, args->dtype)), ARG_L(args->lda), ARG_L(args->stride_a),
                       ARG_P(at(args->b, offset_b, args->dtype)), ARG_L(args->ldb), ARG_L(args->stride_b),
                       ARG_P(scratch), ARG_L(share_a ? 0 : cut->a_floats), ARG_P(b_panels(cut, scratch)),
                       ARG_L(share_b ? 0 : cut->b_floats), ARG_I((int32_t)piece->M), ARG_I((int32_t)piece->N),
                       ARG_I((int32_t)piece->K), ARG_I((args->trans_a ? 1 : 0) | (args->trans_b ? 2 : 0))));
}

static yoke_status multiply_piece(yoke_stream *stream, const struct yoke_gemm_args *args,
                                  const struct yokei_gpu_body *body, const struct cut *cut,
                                  const struct piece *piece, float *scratch)
{
    struct yokei_gpu_program program = gemm_program(body, args->dtype, args->out_dtype);
    const int64_t NR = yokei_gpu_tile_columns(body);
    int64_t panels_m = (piece->M + body->MR - 1) / body->MR, panels_n = (piece->N + NR - 1) / NR;
    /*
     * A team keeps a block of A's panels in its core's cache, while panels of B pass through. Every core gets
     * a few teams.
     */
    int64_t wanted = 4 * (int64_t)yokei_gpu(stream->device)->compute_units * program.G;
    int64_t per_team = YOKE_MAX(1, YOKE_MIN(96 / body->MR, panels_m * panels_n * piece->n_batch / wanted));
    int64_t teams = (panels_m + per_team - 1) / per_team * panels_n;
    int64_t offset_c = piece->batch * args->stride_c + piece->m * args->ldc + piece->n;
    int64_t offset_aux = piece->batch * args->stride_aux + piece->m * args->ldaux + piece->n;
    int32_t flags = yokei_gpu_gemm_flags(args) | (piece->k == 0 ? YOKEI_GEMM_FIRST : 0)
                    | (piece->k + piece->K == args->K ? YOKEI_GEMM_LAST : 0);
    return yokei_gpu_launch(
        stream, &program, "gemm_tile", (teams + program.G - 1) / program.G, 1, piece->n_batch,
        YOKEI_GPU_ARGS(ARG_P(scratch), ARG_L(args->stride_a ? cut->a_floats : 0),
                       ARG_P(b_panels(cut, scratch)), ARG_L(args->stride_b ? cut->b_floats : 0),
                       ARG_P(cut->part_floats ? b_panels(cut, scratch) + cut->b_total : NULL),
                       ARG_P(at(args->c, offset_c, args->out_dtype)), ARG_L(args->ldc), ARG_L(args->stride_c),
                       ARG_P(at(args->bias, piece->n, YOKE_F32)),
                       ARG_P(at(args->aux, offset_aux, args->out_dtype)), ARG_L(args->ldaux),
                       ARG_L(args->stride_aux), ARG_I((int32_t)piece->M), ARG_I((int32_t)piece->N),
                       ARG_I((int32_t)piece->K), ARG_I((int32_t)per_team), ARG_F(args->alpha),
                       ARG_F(args->beta), ARG_I(flags)));
}

static yoke_status run_tile(yoke_stream *stream, const struct yoke_gemm_args *args,
                            const struct yokei_gpu_body *body)
{
    struct cut cut = cut_product(body, args);
    void *scratch;
    YOKE_TRY(yokei_scratch(stream, YOKE_OP_gemm,
                           sizeof(float) * (size_t)(cut.a_total + cut.b_total + cut.part_floats), &scratch));
    struct piece piece;
    for (piece.batch = 0; piece.batch < args->batch; piece.batch += piece.n_batch) {
        piece.n_batch = YOKE_MIN(cut.batch, args->batch - piece.batch);
        for (piece.n = 0; piece.n < args->N; piece.n += piece.N) {
            piece.N = YOKE_MIN(cut.Nc, args->N - piece.n);
            for (piece.m = 0; piece.m < args->M; piece.m += piece.M) {
                piece.M = YOKE_MIN(cut.Mc, args->M - piece.m);
                piece.k = 0;
                do { /* runs once even if K = 0 */
                    piece.K = YOKE_MIN(cut.Kc, args->K - piece.k);
                    if (piece.K) YOKE_TRY(pack_operands(stream, args, body, &cut, &piece, scratch));
                    YOKE_TRY(multiply_piece(stream, args, body, &cut, &piece, scratch));
                    piece.k += piece.K;
                } while (piece.k < args->K);
            }
        }
    }
    return YOKE_OK;
}

/*
 * Sizes of the memory of a block, as in gemm.yk: steps of k by panels of B, and vectors of sums if K is cut.
 */
#define PANEL_DEPTH 256
#define BLOCK_SUMS 1024
#define STRIP 16

/** The division of a product into blocks. `in_place`: elements of A are multiplied without packing. */
struct blocks {
    int64_t rows, panels, depth, across, groups;
    bool in_place;
};

/*
 * f32 elements of A that lie in rows can be broadcast in place at no cost. So blocks are narrow then, which
 * gives many blocks. All other elements are widened or transposed first, one strip for all panels of a block.
 * Wide blocks do this less often.
 */
static struct blocks cut_blocks(const yoke_device *device, const struct yokei_gpu_body *body,
                                const struct yoke_gemm_args *args)
{
    const int64_t NR = yokei_gpu_tile_columns(body), panels_n = (args->N + NR - 1) / NR;
    struct blocks cut = { .in_place = args->dtype == YOKE_F32 };
    cut.panels = cut.in_place ? 1 : YOKE_MIN(body->panels, panels_n);
    cut.depth = PANEL_DEPTH * body->panels / cut.panels / STRIP * STRIP;
    cut.across = (panels_n + cut.panels - 1) / cut.panels;
    int64_t most = cut.in_place ? 256 : 128;
    if (args->K > cut.depth) most = YOKE_MIN(most, BLOCK_SUMS / (cut.panels * body->NV));
    int64_t wanted = (cut.in_place ? 8 : 2) * (int64_t)yokei_gpu(device)->compute_units,
            blocks = cut.across * args->batch;
    int64_t down = (wanted + blocks - 1) / blocks;
    cut.rows = YOKE_MIN(most, YOKE_MAX(64, yokei_gpu_round_up((args->M + down - 1) / down, STRIP)));
    cut.groups = (args->M + cut.rows - 1) / cut.rows * cut.across;
    return cut;
}

/* The arguments of kernels that read whole matrices: the products from `batch` on. */
/* clang-format off */
#define WHOLE_ARGS(args_, batch) \
    ARG_P(at((args_)->a, batch * (args_)->stride_a, (args_)->dtype)), ARG_L((args_)->lda), ARG_L((args_)->stride_a), \
    ARG_P(at((args_)->b, batch * (args_)->stride_b, (args_)->dtype)), ARG_L((args_)->ldb), ARG_L((args_)->stride_b), \
    ARG_P(at((args_)->c, batch * (args_)->stride_c, (args_)->out_dtype)), ARG_L((args_)->ldc), \
    ARG_L((args_)->stride_c), ARG_P((args_)->bias), \
    ARG_P(at((args_)->aux, batch * (args_)->stride_aux, (args_)->out_dtype)), ARG_L((args_)->ldaux), \
    ARG_L((args_)->stride_aux), ARG_L((args_)->M), ARG_L((args_)->N), ARG_L((args_)->K)
/* clang-format on */

static yoke_status run_block(yoke_stream *stream, const struct yoke_gemm_args *args,
                             const struct yokei_gpu_body *body)
{
    struct yokei_gpu_program program = gemm_program(body, args->dtype, args->out_dtype);
    const struct blocks cut = cut_blocks(stream->device, body, args);
    int32_t trans = (args->trans_a ? 1 : 0) | (args->trans_b ? 2 : 0) | (cut.in_place ? 4 : 0);
    for (int64_t batch = 0, n_batch; batch < args->batch; batch += n_batch) {
        n_batch = YOKE_MIN(args->batch - batch, 32768);
        YOKE_TRY(yokei_gpu_launch(stream, &program, "gemm_block", cut.groups, 1, n_batch,
                                  YOKEI_GPU_ARGS(WHOLE_ARGS(args, batch), ARG_I((int32_t)cut.rows),
                                                 ARG_I((int32_t)cut.panels), ARG_I((int32_t)cut.depth),
                                                 ARG_F(args->alpha), ARG_F(args->beta),
                                                 ARG_I(yokei_gpu_gemm_flags(args)), ARG_I(trans))));
    }
    return YOKE_OK;
}

static yoke_status run_team(yoke_stream *stream, const struct yoke_gemm_args *args,
                            const struct yokei_gpu_body *body)
{
    struct yokei_gpu_program program = gemm_program(body, args->dtype, args->out_dtype);
    int64_t blocks_m = (args->M + body->BM - 1) / body->BM, blocks_n = (args->N + body->BN - 1) / body->BN;
    for (int64_t batch = 0; batch < args->batch;) {
        int64_t n_batch = YOKE_MIN(args->batch - batch, 32768);
        struct yoke_gemm_args at_batch = *args;
        at_batch.c = (void *)(uintptr_t)at(args->c, batch * args->stride_c, args->out_dtype);
        at_batch.aux = (void *)(uintptr_t)at(args->aux, batch * args->stride_aux, args->out_dtype);
        const int32_t flags = yokei_gpu_gemm_flags(args) | yokei_gpu_gemm_wide(&at_batch);
        const bool a = yokei_gpu_gemm_in_fours(at(args->a, batch * args->stride_a, args->dtype), args->lda,
                                               args->stride_a, args->batch, args->dtype),
                   b = yokei_gpu_gemm_in_fours(at(args->b, batch * args->stride_b, args->dtype), args->ldb,
                                               args->stride_b, args->batch, args->dtype);
        const int32_t trans = (args->trans_a ? 1 : 0) | (args->trans_b ? 2 : 0) | (a ? 4 : 0) | (b ? 8 : 0);
        YOKE_TRY(yokei_gpu_launch(stream, &program, "gemm_team", blocks_m * blocks_n, 1, n_batch,
                                  YOKEI_GPU_ARGS(WHOLE_ARGS(args, batch), ARG_F(args->alpha),
                                                 ARG_F(args->beta), ARG_I(flags), ARG_I(trans))));
        batch += n_batch;
    }
    return YOKE_OK;
}

/* ---- the op ---- */

static yoke_status gpu_gemm_can(const yoke_device *device, const struct yokei_call *call,
                                size_t *scratch_bytes_out)
{
    const struct yoke_gemm_args *args = call->args;
    struct yoke_gemm_args plain = *args; /* the answer does not depend on addresses */
    plain.a = plain.b = plain.bias = NULL;
    plain.c = NULL;
    struct choice choice;
    choose_gemm(device, call, &plain, &choice);
    if (!choice.body)
        return yokei_gpu_library_scratch(device, &plain, choice.variant, choice.detail, scratch_bytes_out);
    if (choice.body->tile && !choice.body->panels) {
        struct cut cut = cut_product(choice.body, args);
        *scratch_bytes_out = sizeof(float) * (size_t)(cut.a_total + cut.b_total + cut.part_floats);
    }
    return YOKE_OK;
}

static yoke_status gpu_gemm_run(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_gemm_args *args = call->args;
    if (args->M == 0 || args->N == 0) return YOKE_OK;
    struct choice choice;
    choose_gemm(stream->device, call, args, &choice);
    const struct yokei_gpu_body *body = choice.body;
    if (!body) {
        if (!choice.planned)
            YOKE_TRY(
                yokei_gpu_library_plan(stream->device, args, choice.variant, choice.detail, &choice.plan));
        return yokei_gpu_library_run(stream, args, choice.variant, choice.detail, &choice.plan);
    }
    if (body->panels) return run_block(stream, args, body);
    return body->tile ? run_tile(stream, args, body) : run_team(stream, args, body);
}
const struct yoke_op yokei_gpu_gemm = { .can = gpu_gemm_can, .run = gpu_gemm_run };
