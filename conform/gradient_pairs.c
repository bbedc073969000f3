/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pairs of forward and backward ops whose gradients are checked. A pair has inputs, a function that
 * computes the output Y from them, and a function that computes their gradients from dY = W.
 */
#include "conform/gradient_pairs.h"

#include <stdlib.h>
#include <string.h>

#define X(i) c->input[i].x
#define DX(i) c->input[i].dx

static double *numbers(struct gradient_check *c, const char *name, int64_t n, double scale)
{
    double *x = calloc((size_t)n + 1, sizeof *x);
    if (!x) {
        c->status = yoke_fail(YOKE_ENOMEM, "gradient check: no memory");
        return NULL;
    }
    const struct yokei_philox_key key = yokei_philox_named(c->seed, name);
    for (int64_t i = 0; i < n; i++) x[i] = scale * yokei_normal(key, (uint64_t)i);
    return x;
}

static void input(struct gradient_check *c, const char *name, int64_t n)
{
    const int i = c->n_inputs++;
    c->input[i].name = name;
    c->input[i].n = n;
    c->input[i].x = numbers(c, name, n, 1);
    c->input[i].dx = numbers(c, "", n, 0);
}

static void output(struct gradient_check *c, int64_t n, int64_t n_extra)
{
    c->n_y = n;
    c->y = numbers(c, "", n, 0);
    c->w = numbers(c, "weights", n, 1);
    c->extra = numbers(c, "", n_extra, 0);
}

static void tokens(struct gradient_check *c, int64_t n, int64_t vocabulary, bool some_ignored)
{
    c->tokens = calloc((size_t)n, sizeof *c->tokens);
    if (!c->tokens) {
        c->status = yoke_fail(YOKE_ENOMEM, "gradient check: no memory");
        return;
    }
    const struct yokei_philox_key key = yokei_philox_named(c->seed, "tokens");
    for (int64_t i = 0; i < n; i++)
        c->tokens[i] = some_ignored && i % 4 == 3
                           ? -1
                           : (int32_t)(yokei_uniform(key, (uint64_t)i) * (double)vocabulary);
}

/* Run an op with the scratch memory that it asks for. */
#define CALL(op, ...)                                                                       \
    do {                                                                                    \
        const struct yoke_##op##_args args = YOKE_ARGS(op, .dtype = YOKE_F64, __VA_ARGS__); \
        struct yoke_cost cost = { .size = sizeof cost };                                    \
        YOKE_TRY(yoke_##op##_can(yoke_stream_device(c->stream), &args, &cost));             \
        YOKE_TRY(yoke_stream_reserve(c->stream, cost.scratch_bytes));                       \
        YOKE_TRY(yoke_##op(c->stream, &args));                                              \
    } while (0)

/* ---- gemm: C = alpha op(A) op(B) + bias; dA and dB are products themselves, dbias is bias_backward ---- */

static void gemm_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "a", s->M * s->K);
    input(c, "b", s->K * s->N);
    input(c, "bias", s->N);
    output(c, s->M * s->N, 0);
}

static yoke_status gemm_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(gemm, .out_dtype = YOKE_F64, .trans_a = s->ta, .trans_b = s->tb, .M = s->M, .N = s->N, .K = s->K,
         .batch = 1, .a = X(0), .lda = s->ta ? s->M : s->K, .b = X(1), .ldb = s->tb ? s->K : s->N, .c = c->y,
         .ldc = s->N, .alpha = 0.5f, .epilogue = YOKE_EPILOGUE_BIAS, .bias = X(2));
    return YOKE_OK;
}

/* dop(A) = alpha dC op(B)^T, stored transposed if A is; dop(B) = alpha op(A)^T dC likewise. */
static yoke_status gemm_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    const int64_t lda = s->ta ? s->M : s->K, ldb = s->tb ? s->K : s->N;
    if (s->ta)
        CALL(gemm, .out_dtype = YOKE_F64, .trans_a = s->tb, .trans_b = true, .M = s->K, .N = s->M, .K = s->N,
             .batch = 1, .a = X(1), .lda = ldb, .b = c->w, .ldb = s->N, .c = DX(0), .ldc = lda,
             .alpha = 0.5f);
    else
        CALL(gemm, .out_dtype = YOKE_F64, .trans_a = false, .trans_b = !s->tb, .M = s->M, .N = s->K,
             .K = s->N, .batch = 1, .a = c->w, .lda = s->N, .b = X(1), .ldb = ldb, .c = DX(0), .ldc = lda,
             .alpha = 0.5f);
    if (s->tb)
        CALL(gemm, .out_dtype = YOKE_F64, .trans_a = true, .trans_b = s->ta, .M = s->N, .N = s->K, .K = s->M,
             .batch = 1, .a = c->w, .lda = s->N, .b = X(0), .ldb = lda, .c = DX(1), .ldc = ldb,
             .alpha = 0.5f);
    else
        CALL(gemm, .out_dtype = YOKE_F64, .trans_a = !s->ta, .trans_b = false, .M = s->K, .N = s->N,
             .K = s->M, .batch = 1, .a = X(0), .lda = lda, .b = c->w, .ldb = s->N, .c = DX(1), .ldc = ldb,
             .alpha = 0.5f);
    CALL(bias_backward, .N = s->M, .C = s->N, .dy = c->w, .ld = s->N, .dbias = DX(2));
    return YOKE_OK;
}

/* ---- layernorm ---- */

static void layernorm_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "x", s->N * s->C);
    input(c, "gamma", s->C);
    input(c, "beta", s->C);
    output(c, s->N * s->C, 2 * s->N);
}

static yoke_status layernorm_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(layernorm_forward, .N = s->N, .C = s->C, .x = X(0), .ldx = s->C, .gamma = X(1), .beta = X(2),
         .eps = 1e-5f, .y = c->y, .ldy = s->C, .mean = c->extra, .rstd = c->extra + s->N);
    return YOKE_OK;
}

static yoke_status layernorm_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(layernorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = X(0), .ldx = s->C,
         .gamma = X(1), .mean = c->extra, .rstd = c->extra + s->N, .dx = DX(0), .lddx = s->C, .dgamma = DX(1),
         .dbeta = DX(2));
    return YOKE_OK;
}

/* The same with the residual path: Y = layernorm(x) + x. */
static yoke_status residual_forward(struct gradient_check *c)
{
    YOKE_TRY(layernorm_forward(c));
    CALL(add, .n = c->n_y, .x = c->y, .y = X(0), .z = c->y);
    return YOKE_OK;
}

static yoke_status residual_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(layernorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = X(0), .ldx = s->C,
         .gamma = X(1), .mean = c->extra, .rstd = c->extra + s->N, .dresidual = c->w, .lddresidual = s->C,
         .dx = DX(0), .lddx = s->C, .dgamma = DX(1), .dbeta = DX(2));
    return YOKE_OK;
}

/* ---- rmsnorm, with and without the residual path ---- */

static void rmsnorm_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "x", s->N * s->C);
    input(c, "gamma", s->C);
    output(c, s->N * s->C, s->N);
}

static yoke_status rmsnorm_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(rmsnorm_forward, .N = s->N, .C = s->C, .x = X(0), .ldx = s->C, .gamma = X(1), .eps = 1e-5f,
         .y = c->y, .ldy = s->C, .rstd = c->extra);
    if (s->K) CALL(add, .n = c->n_y, .x = c->y, .y = X(0), .z = c->y);
    return YOKE_OK;
}

static yoke_status rmsnorm_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(rmsnorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = X(0), .ldx = s->C,
         .gamma = X(1), .rstd = c->extra, .dresidual = s->K ? c->w : NULL, .lddresidual = s->C, .dx = DX(0),
         .lddx = s->C, .dgamma = DX(1));
    return YOKE_OK;
}

/* ---- gelu ---- */

static void gelu_setup(struct gradient_check *c)
{
    input(c, "x", c->shape.N);
    for (int64_t i = 0; !c->status && i < c->shape.N; i++) X(0)[i] *= 2;
    output(c, c->shape.N, 0);
}

static yoke_status gelu_forward(struct gradient_check *c)
{
    CALL(gelu_forward, .n = c->shape.N, .x = X(0), .y = c->y);
    return YOKE_OK;
}

static yoke_status gelu_backward(struct gradient_check *c)
{
    CALL(gelu_backward, .n = c->shape.N, .x = X(0), .dy = c->w, .dx = DX(0));
    return YOKE_OK;
}

static yoke_status gelu_erf_forward(struct gradient_check *c)
{
    CALL(gelu_erf_forward, .n = c->shape.N, .x = X(0), .y = c->y);
    return YOKE_OK;
}

static yoke_status gelu_erf_backward(struct gradient_check *c)
{
    CALL(gelu_erf_backward, .n = c->shape.N, .x = X(0), .dy = c->w, .dx = DX(0));
    return YOKE_OK;
}

/* ---- swiglu ---- */

static void swiglu_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "gate", s->N * s->C);
    input(c, "up", s->N * s->C);
    for (int64_t i = 0; !c->status && i < s->N * s->C; i++) X(0)[i] *= 3;
    output(c, s->N * s->C, 0);
}

#define SWIGLU(s) .N = (s)->N, .F = (s)->C, .gate = X(0), .ldgate = (s)->C, .up = X(1), .ldup = (s)->C

static yoke_status swiglu_forward(struct gradient_check *c)
{
    CALL(swiglu_forward, SWIGLU(&c->shape), .y = c->y, .ldy = c->shape.C);
    return YOKE_OK;
}

static yoke_status swiglu_backward(struct gradient_check *c)
{
    const int64_t C = c->shape.C;
    CALL(swiglu_backward, SWIGLU(&c->shape), .dy = c->w, .lddy = C, .dgate = DX(0), .lddgate = C,
         .dup = DX(1), .lddup = C);
    return YOKE_OK;
}

/* ---- rope: the gradient is turned back ---- */

static void rope_setup(struct gradient_check *c)
{
    const int64_t n = c->shape.N * c->shape.H * c->shape.D;
    input(c, "x", n);
    output(c, n, 0);
}

#define ROPE(s) \
    .N = (s)->N, .T = (s)->T, .H = (s)->H, .D = (s)->D, .pos_start = 3, .theta = 100, .ldx = (s)->H * (s)->D

static yoke_status rope_forward(struct gradient_check *c)
{
    memcpy(c->y, X(0), (size_t)c->n_y * sizeof(double));
    CALL(rope, ROPE(&c->shape), .x = c->y);
    return YOKE_OK;
}

static yoke_status rope_backward(struct gradient_check *c)
{
    memcpy(DX(0), c->w, (size_t)c->n_y * sizeof(double));
    CALL(rope, ROPE(&c->shape), .x = DX(0), .inverse = true);
    return YOKE_OK;
}

/* ---- dropout: the same op on the gradient, with the same key; Y = dropout(x) + residual ---- */

static void dropout_setup(struct gradient_check *c)
{
    input(c, "x", c->shape.N * c->shape.C);
    input(c, "residual", c->shape.N * c->shape.C);
    output(c, c->shape.N * c->shape.C, 0);
}

#define DROPOUT(s)                                                                               \
    .N = (s)->N, .C = (s)->C, .T = (s)->T, .p = 0.3f, .key = yoke_random_key(1, 2, "gradients"), \
    .first_row = 2, .channel_start = 5, .ldx = (s)->C, .ldy = (s)->C

static yoke_status dropout_forward(struct gradient_check *c)
{
    CALL(dropout, DROPOUT(&c->shape), .x = X(0), .residual = X(1), .ldresidual = c->shape.C, .y = c->y);
    return YOKE_OK;
}

static yoke_status dropout_backward(struct gradient_check *c)
{
    CALL(dropout, DROPOUT(&c->shape), .x = c->w, .y = DX(0));
    memcpy(DX(1), c->w, (size_t)c->n_y * sizeof(double));
    return YOKE_OK;
}

/* ---- attention ---- */

static void attention_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    const int64_t rows = s->B * s->T;
    input(c, "q", rows * s->H * s->D);
    input(c, "k", rows * s->Hkv * s->D);
    input(c, "v", rows * s->Hkv * s->D);
    output(c, rows * s->H * s->D, s->B * s->H * s->T);
}

#define ATTENTION(s)                                                                                     \
    .causal = (s)->causal, .B = (s)->B, .T = (s)->T, .H = (s)->H, .Hkv = (s)->Hkv, .D = (s)->D,          \
    .scale = 0.4375f, .q = X(0), .ldq = (s)->H * (s)->D, .k = X(1), .ldk = (s)->Hkv * (s)->D, .v = X(2), \
    .ldv = (s)->Hkv * (s)->D, .head_start = (s)->head_start, .group = (s)->group, .p = (s)->p,           \
    .key = yoke_random_key(1, 2, "gradients"), .o = c->y, .ldo = (s)->H * (s)->D, .lse = c->extra

static yoke_status attention_forward(struct gradient_check *c)
{
    CALL(attention_forward, ATTENTION(&c->shape));
    return YOKE_OK;
}

static yoke_status attention_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(attention_backward, ATTENTION(s), .d_o = c->w, .lddo = s->H * s->D, .dq = DX(0), .lddq = s->H * s->D,
         .dk = DX(1), .lddk = s->Hkv * s->D, .dv = DX(2), .lddv = s->Hkv * s->D);
    return YOKE_OK;
}

/* ---- embed ---- */

static void embed_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "wte", s->V * s->C);
    input(c, "wpe", (s->T + 1) * s->C);
    tokens(c, s->N, s->V + 2, false); /* some tokens lie outside the shard */
    output(c, s->N * s->C, 0);
}

#define EMBED(s) \
    .N = (s)->N, .T = (s)->T, .C = (s)->C, .V = (s)->V, .vocab_start = 1, .pos_start = 1, .tokens = c->tokens

static yoke_status embed_forward(struct gradient_check *c)
{
    CALL(embed_forward, EMBED(&c->shape), .wte = X(0), .wpe = X(1), .y = c->y);
    return YOKE_OK;
}

static yoke_status embed_backward(struct gradient_check *c)
{
    CALL(embed_backward, EMBED(&c->shape), .dy = c->w, .dwte = DX(0), .dwpe = DX(1));
    return YOKE_OK;
}

/* ---- loss: L is scale * sum of the losses, so that all weights are the same number ---- */

static const float loss_scale = 0.625f;

static void xent_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "logits", s->N * s->V);
    tokens(c, s->N, s->V, true);
    output(c, s->N, 2 * s->N);
    for (int64_t n = 0; !c->status && n < s->N; n++) c->w[n] = loss_scale;
}

static yoke_status xent_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(xent_forward, .N = s->N, .V = s->V, .logits = X(0), .ld = s->V, .targets = c->tokens,
         .lse = c->extra, .picked = c->extra + s->N, .losses = c->y);
    return YOKE_OK;
}

static yoke_status xent_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    CALL(xent_backward, .N = s->N, .V = s->V, .logits = X(0), .ld = s->V, .targets = c->tokens,
         .lse = c->extra, .scale = loss_scale, .dlogits = DX(0), .lddlogits = s->V);
    return YOKE_OK;
}

/* The loss over K shards of the vocabulary, whose results are joined. */
static void shards_setup(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    input(c, "logits", s->N * s->V);
    tokens(c, s->N, s->V, true);
    output(c, s->N, (2 * s->K + 1) * s->N);
    for (int64_t n = 0; !c->status && n < s->N; n++) c->w[n] = loss_scale;
}

#define COLUMNS(s, first, n)                                                                       \
    .N = (s)->N, .V = (n), .vocab_start = (first), .vocabulary = (s)->V, .logits = X(0) + (first), \
    .ld = (s)->V, .targets = c->tokens

static yoke_status shards_forward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    double *parts = c->extra,
           *lse = c->extra + 2 * s->K * s->N; /* parts [K, 2, N], as an all-gather leaves them */
    for (int64_t p = 0; p < s->K; p++) {
        const int64_t first = trial_shard(s->V, s->K, p), n = trial_shard(s->V, s->K, p + 1) - first;
        CALL(xent_forward, COLUMNS(s, first, n), .lse = parts + 2 * p * s->N,
             .picked = parts + (2 * p + 1) * s->N);
    }
    CALL(xent_join, .P = s->K, .N = s->N, .lse_parts = parts, .picked_parts = parts + s->N, .ld = 2 * s->N,
         .targets = c->tokens, .lse = lse, .losses = c->y);
    return YOKE_OK;
}

static yoke_status shards_backward(struct gradient_check *c)
{
    const struct gradient_shape *s = &c->shape;
    for (int64_t p = 0; p < s->K; p++) {
        const int64_t first = trial_shard(s->V, s->K, p), n = trial_shard(s->V, s->K, p + 1) - first;
        CALL(xent_backward, COLUMNS(s, first, n), .lse = c->extra + 2 * s->K * s->N, .scale = loss_scale,
             .dlogits = DX(0) + first, .lddlogits = s->V);
    }
    return YOKE_OK;
}

/* ---- the pairs of each op ---- */

/* clang-format off */
static const struct gradient_pair gemm_pairs[] = {
    { { .M = 5, .N = 7, .K = 6 }, gemm_setup, gemm_forward, gemm_backward },
    { { .M = 5, .N = 3, .K = 6, .ta = true }, gemm_setup, gemm_forward, gemm_backward },
    { { .M = 4, .N = 7, .K = 6, .tb = true }, gemm_setup, gemm_forward, gemm_backward },
    { { .M = 5, .N = 7, .K = 8, .ta = true, .tb = true }, gemm_setup, gemm_forward, gemm_backward },
};
static const struct gradient_pair bias_pairs[] = {
    { { .M = 9, .N = 11, .K = 2 }, gemm_setup, gemm_forward, gemm_backward },
};
static const struct gradient_pair layernorm_pairs[] = {
    { { .N = 4, .C = 13 }, layernorm_setup, layernorm_forward, layernorm_backward },
    { { .N = 3, .C = 8 }, layernorm_setup, residual_forward, residual_backward },
};
static const struct gradient_pair rmsnorm_pairs[] = {
    { { .N = 4, .C = 13 }, rmsnorm_setup, rmsnorm_forward, rmsnorm_backward },
    { { .N = 3, .C = 8, .K = 1 }, rmsnorm_setup, rmsnorm_forward, rmsnorm_backward },
};
static const struct gradient_pair gelu_pairs[] = {
    { { .N = 300 }, gelu_setup, gelu_forward, gelu_backward },
};
static const struct gradient_pair gelu_erf_pairs[] = {
    { { .N = 300 }, gelu_setup, gelu_erf_forward, gelu_erf_backward },
};
static const struct gradient_pair swiglu_pairs[] = {
    { { .N = 7, .C = 11 }, swiglu_setup, swiglu_forward, swiglu_backward },
};
static const struct gradient_pair rope_pairs[] = {
    { { .N = 10, .T = 5, .H = 3, .D = 6 }, rope_setup, rope_forward, rope_backward },
};
static const struct gradient_pair dropout_pairs[] = {
    { { .N = 5, .C = 70, .T = 3 }, dropout_setup, dropout_forward, dropout_backward },
};
static const struct gradient_pair attention_pairs[] = {
    { { .B = 2, .T = 6, .H = 2, .Hkv = 2, .D = 4, .causal = true },
      attention_setup, attention_forward, attention_backward },
    { { .B = 1, .T = 7, .H = 6, .Hkv = 2, .D = 3, .causal = true },
      attention_setup, attention_forward, attention_backward },
    { { .B = 2, .T = 5, .H = 4, .Hkv = 1, .D = 5 }, attention_setup, attention_forward, attention_backward },
    { { .B = 2, .T = 6, .H = 4, .Hkv = 3, .D = 3, .causal = true, .head_start = 5, .group = 2, .p = 0.3f },
      attention_setup, attention_forward, attention_backward },
};
static const struct gradient_pair embed_pairs[] = {
    { { .N = 12, .T = 4, .C = 5, .V = 6 }, embed_setup, embed_forward, embed_backward },
};
static const struct gradient_pair xent_pairs[] = {
    { { .N = 8, .V = 11 }, xent_setup, xent_forward, xent_backward },
    { { .N = 8, .V = 11, .K = 3 }, shards_setup, shards_forward, shards_backward },
};
/* clang-format on */

/*
 * Every op has a line here, or Yoke does not compile. An op whose name ends in _backward must have pairs, or
 * Yoke does not compile either.
 */
#define PAIRS(list) list, YOKE_COUNT(list)
#define NO_PAIRS NULL, 0
#define PAIRS_gemm PAIRS(gemm_pairs)
#define PAIRS_bias_backward PAIRS(bias_pairs)
#define PAIRS_layernorm_forward NO_PAIRS
#define PAIRS_layernorm_backward PAIRS(layernorm_pairs)
#define PAIRS_rmsnorm_forward NO_PAIRS
#define PAIRS_rmsnorm_backward PAIRS(rmsnorm_pairs)
#define PAIRS_gelu_forward NO_PAIRS
#define PAIRS_gelu_backward PAIRS(gelu_pairs)
#define PAIRS_gelu_erf_forward NO_PAIRS
#define PAIRS_gelu_erf_backward PAIRS(gelu_erf_pairs)
#define PAIRS_swiglu_forward NO_PAIRS
#define PAIRS_swiglu_backward PAIRS(swiglu_pairs)
#define PAIRS_attention_forward NO_PAIRS
#define PAIRS_attention_backward PAIRS(attention_pairs)
#define PAIRS_embed_forward NO_PAIRS
#define PAIRS_embed_backward PAIRS(embed_pairs)
#define PAIRS_xent_forward NO_PAIRS
#define PAIRS_xent_backward PAIRS(xent_pairs)
#define PAIRS_xent_join NO_PAIRS
#define PAIRS_adamw NO_PAIRS
#define PAIRS_grad_norm NO_PAIRS
#define PAIRS_cast NO_PAIRS
#define PAIRS_add NO_PAIRS
#define PAIRS_scale NO_PAIRS
#define PAIRS_dropout PAIRS(dropout_pairs)
#define PAIRS_rope PAIRS(rope_pairs)

#define ENTRY(op) [YOKE_OP_##op] = { PAIRS_##op },
struct gradient_pairs conform_gradient_pairs(enum yoke_op_id op)
{
    static const struct gradient_pairs all[YOKE_N_OPS] = { YOKE_ALL_OPS(ENTRY) };
    return all[op];
}

#define IS_BACKWARD(op) (!__builtin_strcmp(&("_backward" #op)[sizeof #op - 1], "_backward"))
#define SECOND(first, second) (second)
#define COUNT_OF(pairs) SECOND(pairs)
#define CHECK(op)                                                \
    _Static_assert(!IS_BACKWARD(op) || COUNT_OF(PAIRS_##op) > 0, \
                   #op " is a backward op, so it needs a pair that checks its gradient");
YOKE_ALL_OPS(CHECK)
