/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks gradients by central differences in f64 on the reference backend. A forward op with outputs Y gets
 * the loss L = sum of W * Y with random W. Its backward op, given dY = W, must return dL/dX. For each element
 * x, with the step h = 2^-17 max(1, |x|):
 *   numeric = (L(x + h) - L(x - h)) / 2h
 * The error of `numeric` is h^2 L'''/6 (about 1e-10 here) plus 2^-53 sum|W Y| / h (about 1e-10). The bound is
 * 1e-8 times the tensor's largest gradient (but at least 1e-8). No wrong formula is within this bound.
 */
#include "conform/trial.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 3 };

/*
 * One pair of forward and backward op: its inputs, the loss as a function of them, and the analytic
 * gradients. All arrays are f64 in host memory.
 */
struct check {
    yoke_stream *stream;
    uint64_t seed;
    int n_inputs;
    struct {
        const char *name;
        int64_t n;
        double *x, *dx; /* dx: the analytic gradient from the backward op */
    } input[MAX_INPUTS];
    double *y, *w; /* y: output of the forward op; w: the weights of the loss, which are dY */
    int64_t n_y;
    double *extra; /* other outputs of the forward op */
    int32_t *tokens;
    struct pair_shape {
        int64_t B, T, H, Hkv, D, C, V, M, N, K;
        bool causal, ta, tb;
        int64_t head_start, group;
        float p;
    } shape;
    yoke_status status;
};

struct pair {
    const char *backward; /* name of the op that is checked */
    struct pair_shape shape;
    void (*setup)(struct check *c);
    yoke_status (*forward)(struct check *c);
    yoke_status (*run_backward)(struct check *c);
};

static double *numbers(struct check *c, const char *name, int64_t n, double scale)
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

static void input(struct check *c, const char *name, int64_t n)
{
    const int i = c->n_inputs++;
    c->input[i].name = name;
    c->input[i].n = n;
    c->input[i].x = numbers(c, name, n, 1);
    c->input[i].dx = numbers(c, "", n, 0);
}

static void output(struct check *c, int64_t n, int64_t n_extra)
{
    c->n_y = n;
    c->y = numbers(c, "", n, 0);
    c->w = numbers(c, "weights", n, 1);
    c->extra = numbers(c, "", n_extra, 0);
}

static void tokens(struct check *c, int64_t n, int64_t vocabulary, bool some_ignored)
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

#define X(i) c->input[i].x
#define DX(i) c->input[i].dx

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

static void gemm_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "a", s->M * s->K);
    input(c, "b", s->K * s->N);
    input(c, "bias", s->N);
    output(c, s->M * s->N, 0);
}

static yoke_status gemm_forward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(gemm, .out_dtype = YOKE_F64, .trans_a = s->ta, .trans_b = s->tb, .M = s->M, .N = s->N, .K = s->K,
         .batch = 1, .a = X(0), .lda = s->ta ? s->M : s->K, .b = X(1), .ldb = s->tb ? s->K : s->N, .c = c->y,
         .ldc = s->N, .alpha = 0.5f, .epilogue = YOKE_EPILOGUE_BIAS, .bias = X(2));
    return YOKE_OK;
}

/* dop(A) = alpha dC op(B)^T, stored transposed if A is; dop(B) = alpha op(A)^T dC likewise. */
static yoke_status gemm_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
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

static void layernorm_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "x", s->N * s->C);
    input(c, "gamma", s->C);
    input(c, "beta", s->C);
    output(c, s->N * s->C, 2 * s->N);
}

static yoke_status layernorm_forward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(layernorm_forward, .N = s->N, .C = s->C, .x = X(0), .ldx = s->C, .gamma = X(1), .beta = X(2),
         .eps = 1e-5f, .y = c->y, .ldy = s->C, .mean = c->extra, .rstd = c->extra + s->N);
    return YOKE_OK;
}

static yoke_status layernorm_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(layernorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = X(0), .ldx = s->C,
         .gamma = X(1), .mean = c->extra, .rstd = c->extra + s->N, .dx = DX(0), .lddx = s->C, .dgamma = DX(1),
         .dbeta = DX(2));
    return YOKE_OK;
}

/* The same with the residual path: Y = layernorm(x) + x. */
static yoke_status residual_forward(struct check *c)
{
    YOKE_TRY(layernorm_forward(c));
    CALL(add, .n = c->n_y, .x = c->y, .y = X(0), .z = c->y);
    return YOKE_OK;
}

static yoke_status residual_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(layernorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = X(0), .ldx = s->C,
         .gamma = X(1), .mean = c->extra, .rstd = c->extra + s->N, .dresidual = c->w, .lddresidual = s->C,
         .dx = DX(0), .lddx = s->C, .dgamma = DX(1), .dbeta = DX(2));
    return YOKE_OK;
}

/* ---- rmsnorm, with and without the residual path ---- */

static void rmsnorm_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "x", s->N * s->C);
    input(c, "gamma", s->C);
    output(c, s->N * s->C, s->N);
}

static yoke_status rmsnorm_forward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(rmsnorm_forward, .N = s->N, .C = s->C, .x = X(0), .ldx = s->C, .gamma = X(1), .eps = 1e-5f,
         .y = c->y, .ldy = s->C, .rstd = c->extra);
    if (s->K) CALL(add, .n = c->n_y, .x = c->y, .y = X(0), .z = c->y);
    return YOKE_OK;
}

static yoke_status rmsnorm_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(rmsnorm_backward, .N = s->N, .C = s->C, .dy = c->w, .lddy = s->C, .x = X(0), .ldx = s->C,
         .gamma = X(1), .rstd = c->extra, .dresidual = s->K ? c->w : NULL, .lddresidual = s->C, .dx = DX(0),
         .lddx = s->C, .dgamma = DX(1));
    return YOKE_OK;
}

/* ---- gelu ---- */

static void gelu_setup(struct check *c)
{
    input(c, "x", c->shape.N);
    for (int64_t i = 0; !c->status && i < c->shape.N; i++) X(0)[i] *= 2;
    output(c, c->shape.N, 0);
}

static yoke_status gelu_forward(struct check *c)
{
    CALL(gelu_forward, .n = c->shape.N, .x = X(0), .y = c->y);
    return YOKE_OK;
}

static yoke_status gelu_backward(struct check *c)
{
    CALL(gelu_backward, .n = c->shape.N, .x = X(0), .dy = c->w, .dx = DX(0));
    return YOKE_OK;
}

static yoke_status gelu_erf_forward(struct check *c)
{
    CALL(gelu_erf_forward, .n = c->shape.N, .x = X(0), .y = c->y);
    return YOKE_OK;
}

static yoke_status gelu_erf_backward(struct check *c)
{
    CALL(gelu_erf_backward, .n = c->shape.N, .x = X(0), .dy = c->w, .dx = DX(0));
    return YOKE_OK;
}

/* ---- swiglu ---- */

static void swiglu_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "gate", s->N * s->C);
    input(c, "up", s->N * s->C);
    for (int64_t i = 0; !c->status && i < s->N * s->C; i++) X(0)[i] *= 3;
    output(c, s->N * s->C, 0);
}

#define SWIGLU(s) .N = (s)->N, .F = (s)->C, .gate = X(0), .ldgate = (s)->C, .up = X(1), .ldup = (s)->C

static yoke_status swiglu_forward(struct check *c)
{
    CALL(swiglu_forward, SWIGLU(&c->shape), .y = c->y, .ldy = c->shape.C);
    return YOKE_OK;
}

static yoke_status swiglu_backward(struct check *c)
{
    const int64_t C = c->shape.C;
    CALL(swiglu_backward, SWIGLU(&c->shape), .dy = c->w, .lddy = C, .dgate = DX(0), .lddgate = C,
         .dup = DX(1), .lddup = C);
    return YOKE_OK;
}

/* ---- rope: the gradient is turned back ---- */

static void rope_setup(struct check *c)
{
    const int64_t n = c->shape.N * c->shape.H * c->shape.D;
    input(c, "x", n);
    output(c, n, 0);
}

#define ROPE(s) \
    .N = (s)->N, .T = (s)->T, .H = (s)->H, .D = (s)->D, .pos_start = 3, .theta = 100, .ldx = (s)->H * (s)->D

static yoke_status rope_forward(struct check *c)
{
    memcpy(c->y, X(0), (size_t)c->n_y * sizeof(double));
    CALL(rope, ROPE(&c->shape), .x = c->y);
    return YOKE_OK;
}

static yoke_status rope_backward(struct check *c)
{
    memcpy(DX(0), c->w, (size_t)c->n_y * sizeof(double));
    CALL(rope, ROPE(&c->shape), .x = DX(0), .inverse = true);
    return YOKE_OK;
}

/* ---- dropout: the same op on the gradient, with the same key; Y = dropout(x) + residual ---- */

static void dropout_setup(struct check *c)
{
    input(c, "x", c->shape.N * c->shape.C);
    input(c, "residual", c->shape.N * c->shape.C);
    output(c, c->shape.N * c->shape.C, 0);
}

#define DROPOUT(s)                                                                               \
    .N = (s)->N, .C = (s)->C, .T = (s)->T, .p = 0.3f, .key = yoke_random_key(1, 2, "gradients"), \
    .first_row = 2, .channel_start = 5, .ldx = (s)->C, .ldy = (s)->C

static yoke_status dropout_forward(struct check *c)
{
    CALL(dropout, DROPOUT(&c->shape), .x = X(0), .residual = X(1), .ldresidual = c->shape.C, .y = c->y);
    return YOKE_OK;
}

static yoke_status dropout_backward(struct check *c)
{
    CALL(dropout, DROPOUT(&c->shape), .x = c->w, .y = DX(0));
    memcpy(DX(1), c->w, (size_t)c->n_y * sizeof(double));
    return YOKE_OK;
}

/* ---- attention ---- */

static void attention_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
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

static yoke_status attention_forward(struct check *c)
{
    CALL(attention_forward, ATTENTION(&c->shape));
    return YOKE_OK;
}

static yoke_status attention_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(attention_backward, ATTENTION(s), .d_o = c->w, .lddo = s->H * s->D, .dq = DX(0), .lddq = s->H * s->D,
         .dk = DX(1), .lddk = s->Hkv * s->D, .dv = DX(2), .lddv = s->Hkv * s->D);
    return YOKE_OK;
}

/* ---- embed ---- */

static void embed_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "wte", s->V * s->C);
    input(c, "wpe", (s->T + 1) * s->C);
    tokens(c, s->N, s->V + 2, false); /* some tokens lie outside the shard */
    output(c, s->N * s->C, 0);
}

#define EMBED(s) \
    .N = (s)->N, .T = (s)->T, .C = (s)->C, .V = (s)->V, .vocab_start = 1, .pos_start = 1, .tokens = c->tokens

static yoke_status embed_forward(struct check *c)
{
    CALL(embed_forward, EMBED(&c->shape), .wte = X(0), .wpe = X(1), .y = c->y);
    return YOKE_OK;
}

static yoke_status embed_backward(struct check *c)
{
    CALL(embed_backward, EMBED(&c->shape), .dy = c->w, .dwte = DX(0), .dwpe = DX(1));
    return YOKE_OK;
}

/* ---- loss: L is scale * sum of the losses, so that all weights are the same number ---- */

static const float loss_scale = 0.625f;

static void xent_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "logits", s->N * s->V);
    tokens(c, s->N, s->V, true);
    output(c, s->N, 2 * s->N);
    for (int64_t n = 0; !c->status && n < s->N; n++) c->w[n] = loss_scale;
}

static yoke_status xent_forward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(xent_forward, .N = s->N, .V = s->V, .logits = X(0), .ld = s->V, .targets = c->tokens,
         .lse = c->extra, .picked = c->extra + s->N, .losses = c->y);
    return YOKE_OK;
}

static yoke_status xent_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    CALL(xent_backward, .N = s->N, .V = s->V, .logits = X(0), .ld = s->V, .targets = c->tokens,
         .lse = c->extra, .scale = loss_scale, .dlogits = DX(0), .lddlogits = s->V);
    return YOKE_OK;
}

/* The loss over K shards of the vocabulary, whose results are joined. */
static void shards_setup(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    input(c, "logits", s->N * s->V);
    tokens(c, s->N, s->V, true);
    output(c, s->N, (2 * s->K + 1) * s->N);
    for (int64_t n = 0; !c->status && n < s->N; n++) c->w[n] = loss_scale;
}

#define COLUMNS(s, first, n)                                                                       \
    .N = (s)->N, .V = (n), .vocab_start = (first), .vocabulary = (s)->V, .logits = X(0) + (first), \
    .ld = (s)->V, .targets = c->tokens

static yoke_status shards_forward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
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

static yoke_status shards_backward(struct check *c)
{
    const struct pair_shape *s = &c->shape;
    for (int64_t p = 0; p < s->K; p++) {
        const int64_t first = trial_shard(s->V, s->K, p), n = trial_shard(s->V, s->K, p + 1) - first;
        CALL(xent_backward, COLUMNS(s, first, n), .lse = c->extra + 2 * s->K * s->N, .scale = loss_scale,
             .dlogits = DX(0) + first, .lddlogits = s->V);
    }
    return YOKE_OK;
}

/* clang-format off */
static const struct pair pairs[] = {
    { "gemm", { .M = 5, .N = 7, .K = 6 }, gemm_setup, gemm_forward, gemm_backward },
    { "gemm", { .M = 5, .N = 3, .K = 6, .ta = true }, gemm_setup, gemm_forward, gemm_backward },
    { "gemm", { .M = 4, .N = 7, .K = 6, .tb = true }, gemm_setup, gemm_forward, gemm_backward },
    { "gemm", { .M = 5, .N = 7, .K = 8, .ta = true, .tb = true }, gemm_setup, gemm_forward, gemm_backward },
    { "bias_backward", { .M = 9, .N = 11, .K = 2 }, gemm_setup, gemm_forward, gemm_backward },
    { "layernorm_backward", { .N = 4, .C = 13 }, layernorm_setup, layernorm_forward, layernorm_backward },
    { "layernorm_backward", { .N = 3, .C = 8 }, layernorm_setup, residual_forward, residual_backward },
    { "rmsnorm_backward", { .N = 4, .C = 13 }, rmsnorm_setup, rmsnorm_forward, rmsnorm_backward },
    { "rmsnorm_backward", { .N = 3, .C = 8, .K = 1 }, rmsnorm_setup, rmsnorm_forward, rmsnorm_backward },
    { "gelu_backward", { .N = 300 }, gelu_setup, gelu_forward, gelu_backward },
    { "gelu_erf_backward", { .N = 300 }, gelu_setup, gelu_erf_forward, gelu_erf_backward },
    { "swiglu_backward", { .N = 7, .C = 11 }, swiglu_setup, swiglu_forward, swiglu_backward },
    { "rope", { .N = 10, .T = 5, .H = 3, .D = 6 }, rope_setup, rope_forward, rope_backward },
    { "dropout", { .N = 5, .C = 70, .T = 3 }, dropout_setup, dropout_forward, dropout_backward },
    { "attention_backward", { .B = 2, .T = 6, .H = 2, .Hkv = 2, .D = 4, .causal = true }, attention_setup,
      attention_forward, attention_backward },
    { "attention_backward", { .B = 1, .T = 7, .H = 6, .Hkv = 2, .D = 3, .causal = true }, attention_setup,
      attention_forward, attention_backward },
    { "attention_backward", { .B = 2, .T = 5, .H = 4, .Hkv = 1, .D = 5 }, attention_setup,
      attention_forward, attention_backward },
    { "attention_backward", { .B = 2, .T = 6, .H = 4, .Hkv = 3, .D = 3, .causal = true, .head_start = 5,
      .group = 2, .p = 0.3f }, attention_setup,
      attention_forward, attention_backward },
    { "embed_backward", { .N = 12, .T = 4, .C = 5, .V = 6 }, embed_setup, embed_forward, embed_backward },
    { "xent_backward", { .N = 8, .V = 11 }, xent_setup, xent_forward, xent_backward },
    { "xent_backward", { .N = 8, .V = 11, .K = 3 }, shards_setup, shards_forward, shards_backward },
};
/* clang-format on */

/* ---- the check ---- */

static yoke_status loss(struct check *c, const struct pair *pair, double *loss_out)
{
    YOKE_TRY(pair->forward(c));
    double sum = 0;
    for (int64_t i = 0; i < c->n_y; i++) sum += c->w[i] * c->y[i];
    *loss_out = sum;
    return YOKE_OK;
}

static yoke_status compare_input(struct check *c, const struct pair *pair, int which,
                                 struct conform_line *line)
{
    double largest = 1;
    for (int64_t i = 0; i < c->input[which].n; i++) largest = fmax(largest, fabs(DX(which)[i]));
    for (int64_t i = 0; i < c->input[which].n; i++) {
        const double x = X(which)[i], h = ldexp(fmax(1, fabs(x)), -17);
        double above, below;
        X(which)[i] = x + h;
        YOKE_TRY(loss(c, pair, &above));
        X(which)[i] = x - h;
        YOKE_TRY(loss(c, pair, &below));
        X(which)[i] = x;
        const double numeric = (above - below) / ((x + h) - (x - h)), bound = 1e-8 * largest;
        const double ratio = fabs(DX(which)[i] - numeric) / bound;
        line->n_cases++;
        if (line->n_cases > 1 && ratio <= line->ratio) continue;
        line->ratio = isnan(ratio) ? INFINITY : ratio;
        line->worst_index[2] = i;
        line->got = DX(which)[i], line->wanted = numeric, line->bound = bound;
        line->has_element = true;
    }
    return YOKE_OK;
}

/* Write the dimensions that the pair uses, by their letters. */
static void describe(const struct pair_shape *s, char *text, size_t bytes)
{
    static const char *const letters[] = { "B", "T", "H", "Hkv", "D", "C", "V", "M", "N", "K" };
    const int64_t extents[] = { s->B, s->T, s->H, s->Hkv, s->D, s->C, s->V, s->M, s->N, s->K };
    text[0] = '\0';
    for (size_t i = 0; i < YOKE_COUNT(letters); i++) {
        const size_t used = strlen(text);
        if (extents[i])
            yokei_text(text + used, bytes - used, "%s%s %d", used ? " " : "", letters[i], (int)extents[i]);
    }
    const size_t used = strlen(text);
    yokei_text(text + used, bytes - used, "%s%s%s", s->causal ? " causal" : "", s->ta ? " ta" : "",
               s->tb ? " tb" : "");
}

static void release(struct check *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        free(c->input[i].x);
        free(c->input[i].dx);
    }
    free(c->y);
    free(c->w);
    free(c->extra);
    free(c->tokens);
}

static yoke_status check_pair(yoke_stream *stream, const struct pair *pair, uint64_t seed,
                              conform_callback callback, void *context, struct conform_summary *summary)
{
    struct check c = { .stream = stream, .seed = seed, .shape = pair->shape };
    yoke_status status;
    pair->setup(&c);
    YOKE_TRY_GOTO(c.status, release_arrays);
    YOKE_TRY_GOTO(pair->forward(&c), release_arrays);
    YOKE_TRY_GOTO(pair->run_backward(&c), release_arrays);
    for (int which = 0; which < c.n_inputs; which++) {
        struct conform_line line = { .size = sizeof line,
                                     .op = pair->backward,
                                     .dtype = YOKE_F64,
                                     .variant = "gradient",
                                     .device = "reference",
                                     .seed = seed };
        yokei_text(line.worst_output, sizeof line.worst_output, "d%s", c.input[which].name);
        describe(&pair->shape, line.worst_case, sizeof line.worst_case);
        YOKE_TRY_GOTO(compare_input(&c, pair, which, &line), release_arrays);
        if (line.ratio > 1) {
            line.verdict = CONFORM_FAIL;
            yokei_text(line.reason, sizeof line.reason, "the formula disagrees with central differences");
        }
        summary->n_cases += line.n_cases;
        *(line.verdict == CONFORM_PASS ? &summary->n_pass : &summary->n_fail) += 1;
        if (callback) callback(context, &line);
    }
release_arrays:
    release(&c);
    return status;
}

static bool wants(const struct conform_options *options, const struct pair *pair)
{
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (!strcmp(pair->backward, yokei_op_names[op]))
            return conform_selected(options, (enum yoke_op_id)op);
    return false;
}

static yoke_status check_gradient_options(const struct conform_options *options)
{
    YOKE_TRY(conform_check_options(options));
    if (options->dtype && strcmp(options->dtype, "f64"))
        return yoke_fail(YOKE_EINVAL, "gradient check: central differences are taken in f64 alone, not in %s",
                         options->dtype);
    if (options->variant && strcmp(options->variant, "gradient"))
        return yoke_fail(YOKE_EINVAL, "gradient check: the reference has no variants, '%s' neither",
                         options->variant);
    if (options->only_case)
        return yoke_fail(YOKE_EINVAL, "gradient check: its lines have elements, not cases; choose by the op");
    for (size_t i = 0; i < YOKE_COUNT(pairs); i++)
        if (wants(options, &pairs[i])) return YOKE_OK;
    return yoke_fail(
        YOKE_EINVAL,
        "gradient check: %s has no gradient of its own to be held to central differences; a backward op has",
        options->op);
}

static yoke_status check_pairs(yoke_device *device, const struct conform_options *options,
                               conform_callback callback, void *context, struct conform_summary *summary)
{
    yoke_stream *stream;
    yoke_status status = YOKE_OK;
    YOKE_TRY(yoke_stream_create(device, &stream));
    for (size_t i = 0; i < YOKE_COUNT(pairs) && !status; i++)
        if (!options || wants(options, &pairs[i]))
            status = check_pair(stream, &pairs[i], options && options->seed ? options->seed : 1, callback,
                                context, summary);
    yoke_stream_destroy(stream);
    return status;
}

yoke_status conform_gradients(const struct conform_options *options, conform_callback callback, void *context,
                              struct conform_summary *summary_out)
{
    struct conform_summary summary = { .size = sizeof summary };
    yoke_device *own = NULL, *device = options ? options->gradient_device : NULL;
    if (options) YOKE_TRY(check_gradient_options(options));
    if (!device) {
        YOKE_TRY(yoke_device_open("reference", NULL, &own));
        device = own;
    }
    const struct yoke_device_info *info = yoke_device_info(device);
    yoke_status status;
    if (info->host_visible && info->storage & 1u << YOKE_F64)
        status = check_pairs(device, options, callback, context, &summary);
    else
        status = yoke_fail(
            YOKE_EUNSUPPORTED,
            "gradient check: device %s does not store f64 where the host sees it; use \"reference\"",
            info->spec);
    yoke_device_close(own);
    if (!status && summary_out) *summary_out = summary;
    return status;
}
