/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements that lie more than 2^31 elements from the beginning of their tensor. Each op with rows runs twice
 * on the same numbers: with rows side by side, and with a distance of more than 2^30 elements between the
 * rows. Each op without rows runs on a short tensor, and on the last elements of a long one. Both results
 * must have the same bits. The memory of the second run is a reserved range of addresses, of which only the
 * used elements exist. An index in 32 bits leaves them. Prints TAP.
 *
 *   far_rows SPEC      SPEC: a device whose memory the host can access, such as host, or an emulated one
 *
 * On an emulated device only the last blocks of a long tensor's launch run. Other devices leave the ops
 * without rows out, because they would need all of the memory. With YOKE_SOAK=1 all variants run, otherwise
 * the one that the device chooses.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <yoke/yoke.h>

#include "core/base/base.h"
#include "emulate/cuda/emulate.h"

enum { N = 3, C = 40, TENSORS = 8, SMALL = 4096, LAST = 64, SCRATCH = 1 << 22 };
/* also a multiple of C, so that rows of a table of C columns lie there */
static const int64_t far_ld = ((int64_t)1 << 30) + 16;
/* the elements of a short tensor, and those that a long one has before them */
static const int64_t flat_n = 1 << 17, flat_before = ((int64_t)1 << 31) + (1 << 20);
#define FAR_BYTES ((size_t)9 << 30) /* of a tensor of f32 */

struct side {
    yoke_device *device;
    yoke_stream *stream;
    yoke_dtype dtype;
    int64_t ld, before, n;              /* n: of an op without rows, with `before` */
    char *t[TENSORS];                   /* [N, C], rows at a distance of ld */
    char *v, *w, *mean, *rstd, *losses; /* rows side by side: [C], or [N] or [C] in f32 */
    int32_t *targets, *tokens;          /* [C], [N] */
};

static yoke_status layernorm_forward(const struct side *s)
{
    return yoke_layernorm_forward(s->stream, &YOKE_ARGS(layernorm_forward, .dtype = s->dtype, .N = N, .C = C,
                                                        .x = s->t[0], .ldx = s->ld, .gamma = s->v,
                                                        .beta = s->w, .eps = 1e-5f, .y = s->t[1],
                                                        .ldy = s->ld, .mean = s->mean, .rstd = s->rstd));
}

static yoke_status layernorm_backward(const struct side *s)
{
    YOKE_TRY(layernorm_forward(s));
    return yoke_layernorm_backward(
        s->stream, &YOKE_ARGS(layernorm_backward, .dtype = s->dtype, .N = N, .C = C, .dy = s->t[2],
                              .lddy = s->ld, .x = s->t[0], .ldx = s->ld, .gamma = s->v, .mean = s->mean,
                              .rstd = s->rstd, .dresidual = s->t[3], .lddresidual = s->ld, .dx = s->t[4],
                              .lddx = s->ld, .dgamma = NULL, .dbeta = NULL));
}

static yoke_status rmsnorm_forward(const struct side *s)
{
    return yoke_rmsnorm_forward(s->stream, &YOKE_ARGS(rmsnorm_forward, .dtype = s->dtype, .N = N, .C = C,
                                                      .x = s->t[0], .ldx = s->ld, .gamma = s->v, .eps = 1e-5f,
                                                      .y = s->t[1], .ldy = s->ld, .rstd = s->rstd));
}

static yoke_status rmsnorm_backward(const struct side *s)
{
    YOKE_TRY(rmsnorm_forward(s));
    return yoke_rmsnorm_backward(
        s->stream, &YOKE_ARGS(rmsnorm_backward, .dtype = s->dtype, .N = N, .C = C, .dy = s->t[2],
                              .lddy = s->ld, .x = s->t[0], .ldx = s->ld, .gamma = s->v, .rstd = s->rstd,
                              .dresidual = s->t[3], .lddresidual = s->ld, .dx = s->t[4], .lddx = s->ld));
}

/* A forward pass, then a backward pass, of one sample with N positions and 2 heads. */
static yoke_status attention(const struct side *s)
{
    YOKE_TRY(yoke_attention_forward(
        s->stream,
        &YOKE_ARGS(attention_forward, .dtype = s->dtype, .causal = true, .B = 1, .T = N, .H = 2, .Hkv = 2,
                   .D = C / 2, .scale = 0.25f, .q = s->t[0], .ldq = s->ld, .k = s->t[1], .ldk = s->ld,
                   .v = s->t[2], .ldv = s->ld, .o = s->t[3], .ldo = s->ld, .lse = s->mean)));
    return yoke_attention_backward(
        s->stream, &YOKE_ARGS(attention_backward, .dtype = s->dtype, .causal = true, .B = 1, .T = N, .H = 2,
                              .Hkv = 2, .D = C / 2, .scale = 0.25f, .q = s->t[0], .ldq = s->ld, .k = s->t[1],
                              .ldk = s->ld, .v = s->t[2], .ldv = s->ld, .o = s->t[3], .ldo = s->ld,
                              .d_o = s->t[4], .lddo = s->ld, .lse = s->mean, .dq = s->t[5], .lddq = s->ld,
                              .dk = s->t[6], .lddk = s->ld, .dv = s->t[7], .lddv = s->ld));
}

static yoke_status gemm(const struct side *s)
{
    return yoke_gemm(s->stream,
                     &YOKE_ARGS(gemm, .dtype = s->dtype, .out_dtype = s->dtype, .M = N, .N = N, .K = C,
                                .batch = 1, .trans_b = true, .a = s->t[0], .lda = s->ld, .b = s->t[1],
                                .ldb = s->ld, .c = s->t[2], .ldc = s->ld, .alpha = 1));
}

static yoke_status bias_backward(const struct side *s)
{
    return yoke_bias_backward(s->stream, &YOKE_ARGS(bias_backward, .dtype = s->dtype, .N = N, .C = C,
                                                    .dy = s->t[0], .ld = s->ld, .dbias = s->v));
}

static yoke_status swiglu_forward(const struct side *s)
{
    return yoke_swiglu_forward(s->stream, &YOKE_ARGS(swiglu_forward, .dtype = s->dtype, .N = N, .F = C,
                                                     .gate = s->t[0], .ldgate = s->ld, .up = s->t[1],
                                                     .ldup = s->ld, .y = s->t[2], .ldy = s->ld));
}

static yoke_status swiglu_backward(const struct side *s)
{
    return yoke_swiglu_backward(
        s->stream, &YOKE_ARGS(swiglu_backward, .dtype = s->dtype, .N = N, .F = C, .gate = s->t[0],
                              .ldgate = s->ld, .up = s->t[1], .ldup = s->ld, .dy = s->t[2], .lddy = s->ld,
                              .dgate = s->t[3], .lddgate = s->ld, .dup = s->t[4], .lddup = s->ld));
}

static yoke_status rope(const struct side *s)
{
    return yoke_rope(s->stream, &YOKE_ARGS(rope, .dtype = s->dtype, .N = N, .T = N, .H = 2, .D = C / 2,
                                           .theta = 10000, .x = s->t[0], .ldx = s->ld));
}

static yoke_status xent(const struct side *s)
{
    YOKE_TRY(yoke_xent_forward(s->stream, &YOKE_ARGS(xent_forward, .dtype = s->dtype, .N = N, .V = C,
                                                     .logits = s->t[0], .ld = s->ld, .targets = s->targets,
                                                     .lse = s->mean, .losses = s->losses)));
    return yoke_xent_backward(s->stream,
                              &YOKE_ARGS(xent_backward, .dtype = s->dtype, .N = N, .V = C, .logits = s->t[0],
                                         .ld = s->ld, .targets = s->targets, .lse = s->mean, .scale = 1,
                                         .dlogits = s->t[1], .lddlogits = s->ld));
}

static yoke_status dropout(const struct side *s)
{
    return yoke_dropout(s->stream, &YOKE_ARGS(dropout, .dtype = s->dtype, .N = N, .C = C, .T = N, .p = 0.25f,
                                              .key = 7, .x = s->t[0], .ldx = s->ld, .residual = s->t[1],
                                              .ldresidual = s->ld, .y = s->t[2], .ldy = s->ld));
}

/* P = N parts of C tokens */
static yoke_status xent_join(const struct side *s)
{
    return yoke_xent_join(s->stream, &YOKE_ARGS(xent_join, .dtype = YOKE_F32, .P = N, .N = C,
                                                .lse_parts = s->t[0], .picked_parts = s->t[1], .ld = s->ld,
                                                .targets = s->targets, .lse = s->mean, .losses = s->losses));
}

/* The rows are those of a table of C columns, which three tokens use. */
static yoke_status embed_forward(const struct side *s)
{
    return yoke_embed_forward(s->stream, &YOKE_ARGS(embed_forward, .dtype = s->dtype, .N = N, .T = N, .C = C,
                                                    .V = 2 * s->ld / C + 1, .tokens = s->tokens,
                                                    .wte = s->t[0], .wpe = s->v, .y = s->w));
}

/* Some devices have a word of scratch memory for each row of the table, also for those that do not exist. */
static yoke_status embed_backward(const struct side *s)
{
    struct yoke_cost cost = YOKE_COST_INIT;
    const struct yoke_embed_backward_args args = YOKE_ARGS(embed_backward, .dtype = s->dtype, .N = N, .T = N,
                                                           .C = C, .V = 2 * s->ld / C + 1,
                                                           .tokens = s->tokens, .dy = s->v, .dwte = s->t[0],
                                                           .dwpe = s->losses);
    YOKE_TRY(yoke_embed_backward_can(s->device, &args, &cost));
    if (cost.scratch_bytes > SCRATCH)
        return yoke_fail(YOKE_EUNSUPPORTED, "it needs %zu bytes of scratch memory", cost.scratch_bytes);
    return yoke_embed_backward(s->stream, &args);
}

/* ---- ops without rows ---- */

static yoke_status add(const struct side *s)
{
    return yoke_add(s->stream,
                    &YOKE_ARGS(add, .dtype = s->dtype, .n = s->n, .x = s->t[0], .y = s->t[1], .z = s->t[2]));
}

static yoke_status scale(const struct side *s)
{
    return yoke_scale(s->stream, &YOKE_ARGS(scale, .dtype = s->dtype, .n = s->n, .alpha = 0.3f, .x = s->t[0],
                                            .y = s->t[1]));
}

#define GELU(op)                                                                                        \
    static yoke_status op##_forward(const struct side *s)                                               \
    {                                                                                                   \
        return yoke_##op##_forward(s->stream, &YOKE_ARGS(op##_forward, .dtype = s->dtype, .n = s->n,    \
                                                         .x = s->t[0], .y = s->t[1]));                  \
    }                                                                                                   \
    static yoke_status op##_backward(const struct side *s)                                              \
    {                                                                                                   \
        return yoke_##op##_backward(s->stream, &YOKE_ARGS(op##_backward, .dtype = s->dtype, .n = s->n,  \
                                                          .x = s->t[0], .dy = s->t[1], .dx = s->t[2])); \
    }
GELU(gelu)
GELU(gelu_erf)

static yoke_dtype cast_to(const struct side *s) { return s->dtype == YOKE_F32 ? YOKE_BF16 : YOKE_F32; }

/* To the other type, and back. */
static yoke_status cast(const struct side *s)
{
    const yoke_dtype to = cast_to(s);
    const int64_t n = s->n;
    YOKE_TRY(yoke_cast(s->stream,
                       &YOKE_ARGS(cast, .from = s->dtype, .to = to, .n = n, .x = s->t[0], .y = s->t[3])));
    return yoke_cast(s->stream,
                     &YOKE_ARGS(cast, .from = to, .to = s->dtype, .n = n, .x = s->t[3], .y = s->t[1]));
}

static yoke_status adamw(const struct side *s)
{
    return yoke_adamw(s->stream,
                      &YOKE_ARGS(adamw, .dtype = YOKE_F32, .n = s->n, .w = s->t[0], .m = s->t[1],
                                 .v = s->t[2], .grad = s->t[3], .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f,
                                 .eps = 1e-8f, .weight_decay = 0.1f, .grad_scale = 1, .step = 1));
}

/* ---- the table ---- */

static const struct test {
    const char *name;
    yoke_status (*run)(const struct side *s);
    bool is_flat;
    const char *ops[2]; /* whose variants are forced */
} tests[] = {
    { "layernorm_forward", layernorm_forward, false, { "layernorm_forward" } },
    { "layernorm_backward", layernorm_backward, false, { "layernorm_backward", "layernorm_forward" } },
    { "rmsnorm_forward", rmsnorm_forward, false, { "rmsnorm_forward" } },
    { "rmsnorm_backward", rmsnorm_backward, false, { "rmsnorm_backward", "rmsnorm_forward" } },
    { "attention_forward and attention_backward",
      attention,
      false,
      { "attention_forward", "attention_backward" } },
    { "gemm", gemm, false, { "gemm" } },
    { "bias_backward", bias_backward, false, { "bias_backward" } },
    { "swiglu_forward", swiglu_forward, false, { "swiglu_forward" } },
    { "swiglu_backward", swiglu_backward, false, { "swiglu_backward" } },
    { "rope", rope, false, { "rope" } },
    { "xent_forward and xent_backward", xent, false, { "xent_forward", "xent_backward" } },
    { "xent_join", xent_join, false, { "xent_join" } },
    { "embed_forward", embed_forward, false, { "embed_forward" } },
    { "embed_backward", embed_backward, false, { "embed_backward" } },
    { "dropout", dropout, false, { "dropout" } },
    { "add", add, true, { "add" } },
    { "scale", scale, true, { "scale" } },
    { "gelu_forward", gelu_forward, true, { "gelu_forward" } },
    { "gelu_backward", gelu_backward, true, { "gelu_backward" } },
    { "gelu_erf_forward", gelu_erf_forward, true, { "gelu_erf_forward" } },
    { "gelu_erf_backward", gelu_erf_backward, true, { "gelu_erf_backward" } },
    { "cast", cast, true, { "cast" } },
    { "adamw", adamw, true, { "adamw" } },
};

/* ---- memory ---- */

/* What an emulated device offers; NULL on other devices. */
static __typeof__(&yoke_emulate_reserve) emulated_reserve;
static __typeof__(&yoke_emulate_last_blocks) emulated_last_blocks;

static void find_emulated(void)
{
    void *driver = dlopen("libcuda-emulated.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) driver = dlopen("libamdhip64-emulated.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (!driver) return;
    *(void **)&emulated_reserve = dlsym(driver, "yoke_emulate_reserve");
    *(void **)&emulated_last_blocks = dlsym(driver, "yoke_emulate_last_blocks");
}

/* Addresses without memory, which comes when a page is touched. */
static char *reserve(size_t bytes)
{
    uint64_t address = 0;
    if (emulated_reserve) return emulated_reserve(0, bytes, &address) ? NULL : (char *)(uintptr_t)address;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool open_side(struct side *s, bool is_far)
{
    char **const small[] = { &s->v, &s->w, &s->mean, &s->rstd, &s->losses };
    for (int i = 0; i < TENSORS; i++) {
        if (is_far && !(s->t[i] = reserve(FAR_BYTES))) return false;
        if (!is_far && yoke_alloc(s->device, (size_t)flat_n * 4, (void **)&s->t[i])) return false;
    }
    for (size_t i = 0; i < YOKE_COUNT(small); i++)
        if (yoke_alloc(s->device, SMALL, (void **)small[i])) return false;
    return !yoke_alloc(s->device, C * sizeof *s->targets, (void **)&s->targets)
           && !yoke_alloc(s->device, N * sizeof *s->tokens, (void **)&s->tokens);
}

/* The addresses of an emulated device end with the device. */
static void close_side(struct side *s, bool is_far)
{
    char *const small[] = { s->v, s->w, s->mean, s->rstd, s->losses, (char *)s->targets, (char *)s->tokens };
    for (int i = 0; i < TENSORS; i++) {
        if (!is_far) yoke_free(s->device, s->t[i]);
        if (is_far && !emulated_reserve) munmap(s->t[i], FAR_BYTES);
    }
    for (size_t i = 0; i < YOKE_COUNT(small); i++) yoke_free(s->device, small[i]);
}

/* ---- numbers ---- */

static yoke_dtype type_of(const struct test *test, const struct side *s, int i)
{
    if (test->run == embed_backward) return YOKE_F32;
    return test->run == cast && i == 3 ? cast_to(s) : s->dtype;
}

/* A tensor has N pieces, which are its rows, or one piece, which is the end of a long tensor. */
static int n_pieces(const struct test *test) { return test->is_flat ? 1 : N; }
static size_t piece_bytes(const struct test *test, const struct side *s, int i)
{
    return (size_t)(test->is_flat ? flat_n : C) * yoke_dtype_bytes(type_of(test, s, i));
}
static char *piece(const struct test *test, const struct side *s, int i, int r)
{
    const int64_t at = test->is_flat ? s->before : r * s->ld;
    return s->t[i] + (size_t)at * yoke_dtype_bytes(type_of(test, s, i));
}

static char numbers[1 << 19], others[1 << 19]; /* of a piece */

/* Numbers from -2 to 2, the same on both sides. */
static yoke_status fill_tensors(const struct test *test, const struct side *s)
{
    for (int i = 0; i < TENSORS; i++)
        for (int r = 0; r < n_pieces(test); r++) {
            const size_t bytes = piece_bytes(test, s, i);
            const int64_t n = test->is_flat ? flat_n : C;
            for (int64_t c = 0; c < n; c++)
                yokei_store(type_of(test, s, i), numbers, c,
                            (double)((i * 31 + r * 17 + c * 7) % 41 - (i == 2 ? 0 : 20)) / 10);
            const struct yokei_annotation note = { piece(test, s, i, r), bytes, YOKEI_MEMORY_UNDEFINED, NULL,
                                                   0 };
            YOKE_TRY(yokei_annotate(s->device, NULL, &note));
            YOKE_TRY(yoke_copy_to_device(s->stream, piece(test, s, i, r), numbers, bytes));
            YOKE_TRY(yoke_stream_sync(s->stream));
        }
    return YOKE_OK;
}

static yoke_status fill(const struct test *test, const struct side *s)
{
    int32_t targets[C], tokens[N];
    YOKE_TRY(fill_tensors(test, s));
    for (int c = 0; c < C; c++) {
        yokei_store(s->dtype, numbers, c, (double)(c % 9 - 4) / 4);
        yokei_store(s->dtype, numbers, C + c, (double)(c % 9 - 4) / 4);
        yokei_store(s->dtype, numbers, 2 * C + c, (double)(c % 9 - 4) / 4);
        targets[c] = (5 * c + 1) % C;
    }
    for (int r = 0; r < N; r++) tokens[r] = (int32_t)(r * s->ld / C);
    char *const cleared[] = { s->v, s->w, s->mean, s->rstd, s->losses };
    for (size_t i = 0; i < YOKE_COUNT(cleared); i++) YOKE_TRY(yoke_fill(s->stream, cleared[i], 0, SMALL));
    YOKE_TRY(yoke_copy_to_device(s->stream, s->v, numbers, SMALL / 4));
    YOKE_TRY(yoke_copy_to_device(s->stream, s->w, numbers, SMALL / 4));
    YOKE_TRY(yoke_copy_to_device(s->stream, s->targets, targets, sizeof targets));
    YOKE_TRY(yoke_copy_to_device(s->stream, s->tokens, tokens, sizeof tokens));
    return yoke_stream_sync(s->stream);
}

static bool equal(const struct side *a, const char *x, const char *y, size_t bytes)
{
    return !yoke_copy_to_host(a->stream, numbers, x, bytes) && !yoke_copy_to_host(a->stream, others, y, bytes)
           && !yoke_stream_sync(a->stream) && !memcmp(numbers, others, bytes);
}

static bool same(const struct test *test, const struct side *a, const struct side *b)
{
    bool good = equal(a, a->v, b->v, SMALL) && equal(a, a->w, b->w, SMALL)
                && equal(a, a->mean, b->mean, SMALL) && equal(a, a->rstd, b->rstd, SMALL)
                && equal(a, a->losses, b->losses, SMALL);
    for (int i = 0; i < TENSORS && good; i++)
        for (int r = 0; r < n_pieces(test) && good; r++) {
            const size_t bytes = piece_bytes(test, a, i),
                         from = test->is_flat ? bytes - LAST * yoke_dtype_bytes(type_of(test, a, i)) : 0;
            good = equal(a, piece(test, a, i, r) + from, piece(test, b, i, r) + from, bytes - from);
        }
    return good;
}

/* ---- running ---- */

static yoke_status run(const struct test *test, const struct side *s)
{
    YOKE_TRY(fill(test, s));
    YOKE_TRY(yoke_stream_reserve(s->stream, SCRATCH));
    if (emulated_last_blocks && test->is_flat && s->before) emulated_last_blocks(1);
    yoke_status status = test->run(s);
    if (!status) status = yoke_stream_sync(s->stream);
    if (emulated_last_blocks) emulated_last_blocks(0);
    return status;
}

/* One variant; NULL: the one that the device chooses. */
static void check(const struct test *test, struct side sides[2], const char *spec, const char *variant,
                  int *n, int *bad)
{
    const yoke_device *device = sides[0].device;
    char words[300];
    snprintf(words, sizeof words, "%s in %s%s%s on %s", test->name, yoke_dtype_name(sides[0].dtype),
             variant ? " by " : "", variant ? variant : "", spec);
    for (int i = 0; i < 2 && test->ops[i]; i++)
        yoke_variant_force((yoke_device *)(uintptr_t)device, test->ops[i], variant);
    yoke_status status = run(test, &sides[0]);
    if (!status) status = run(test, &sides[1]);
    const bool is_skipped = status == YOKE_EUNSUPPORTED;
    const bool good = is_skipped || (!status && same(test, &sides[0], &sides[1]));
    printf("%sok %d - %s: over 2^31 elements away%s%s\n", good ? "" : "not ", ++*n, words,
           is_skipped ? " # SKIP "
           : status   ? ": "
                      : "",
           status ? yoke_last_error() : "");
    fflush(stdout);
    *bad += !good;
    for (int i = 0; i < 2 && test->ops[i]; i++)
        yoke_variant_force((yoke_device *)(uintptr_t)device, test->ops[i], NULL);
}

static void check_all(struct side sides[2], const char *spec, int *n, int *bad)
{
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_BF16 };
    const char *soak = getenv("YOKE_SOAK");
    const bool all = soak && strcmp(soak, "0") != 0;
    for (size_t d = 0; d < YOKE_COUNT(dtypes); d++) {
        sides[0].dtype = sides[1].dtype = dtypes[d];
        for (size_t i = 0; i < YOKE_COUNT(tests); i++) {
            const struct test *test = &tests[i];
            const bool fits = dtypes[d] == YOKE_F32 || (test->run != xent_join && test->run != adamw);
            if ((test->is_flat && !emulated_last_blocks) || !fits) continue;
            check(test, sides, spec, NULL, n, bad);
            const char *variant;
            for (int v = 0; all && (variant = yoke_variant_name(sides[0].device, test->ops[0], v)); v++)
                check(test, sides, spec, variant, n, bad);
        }
    }
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : "host";
    struct side sides[2] = { { .ld = C, .n = flat_n },
                             { .ld = far_ld, .before = flat_before, .n = flat_before + flat_n } };
    int n = 0, bad = 0;
    const yoke_status opened = yoke_device_open(spec, NULL, &sides[0].device);
    if (opened == YOKE_ENODEV && strcmp(spec, "host") != 0) {
        printf("ok 1 - far rows on %s # SKIP %s\n1..1\n", spec, yoke_last_error());
        return 0;
    }
    if (!opened) find_emulated();
    if (!opened && !emulated_reserve && !yoke_device_info(sides[0].device)->host_visible) {
        printf("ok 1 - far rows on %s # SKIP the host cannot access its memory\n1..1\n", spec);
        return yoke_device_close(sides[0].device) != YOKE_OK;
    }
    sides[1].device = sides[0].device;
    if (opened || yoke_stream_create(sides[0].device, &sides[0].stream) || !open_side(&sides[0], false)
        || !open_side(&sides[1], true)) {
        printf("not ok 1 - far rows on %s: %s\n1..1\n", spec, yoke_last_error());
        return 1;
    }
    sides[1].stream = sides[0].stream;
    check_all(sides, spec, &n, &bad);
    yoke_stream_destroy(sides[0].stream);
    for (int i = 0; i < 2; i++) close_side(&sides[i], i == 1);
    yoke_device_close(sides[0].device);
    printf("1..%d\n", n);
    return bad > 0;
}
