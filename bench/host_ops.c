/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speed of the host backend's operations. Each operation is first compared with the reference backend. A
 * wrong result prints no speed. Then the operation is timed alternately with its yardstick, in the same
 * process with the same number of threads:
 *   memory-bound ops  GB/s beside the triad a[i] = b[i] + s c[i]; goal: 0.85 of it;
 *   gemm              GFLOP/s beside oneDNN called directly on the same matrices;
 *   attention         GFLOP/s beside the best f32 product.
 * Times are medians. Usage: host_ops [-s] [word...]: only rows whose name contains a word.
 *
 * The bytes are the least that the operation must move: each input read once, and each output written once.
 * The triad moves 3 x 4 bytes per element. A store first reads its cache line, and neither side counts this
 * read. So an operation whose writes are less than a third of its bytes may exceed 1. An operation whose
 * writes are half of its bytes must be faster than the triad to reach 1. Operations in place (AdamW) read the
 * data that they write anyway. The triad does not work on zeros, because zeros are written up to 1.5 times as
 * fast.
 *
 * -s: the sizes of a small training step instead (512 rows of 256 channels, vocabulary 256). Their data stays
 * in the second-level caches. They are measured in microseconds beside a triad of as many bytes that stays
 * there too, and have no goal.
 */
#include <yoke/yoke.h>

#include "core/base/base.h"
#include "core/base/times.h"

#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_IN = 5, N_OUT = 4, MODEL_CHANNELS = 768, STEP_ROWS = 512, ROUNDS = 9 };
static const double GOAL = 0.85;
static int64_t CHANNELS = MODEL_CHANNELS, VOCABULARY = 50257; /* both are 256 with -s */
static bool is_step;
static const size_t BUFFER_BYTES = (size_t)96 << 20; /* larger than the last-level cache */

struct data {
    void *in[N_IN], *out[N_OUT];
    int32_t *tokens;
};

/* One way of running an operation. If stream is NULL, it only asks for the cost. */
typedef yoke_status issue(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost,
                          const struct data *d, yoke_dtype dtype, int64_t rows);

#define ISSUE(op, ...)                                                                              \
    static yoke_status issue_##op(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost, \
                                  const struct data *d, yoke_dtype dtype, int64_t rows)             \
    {                                                                                               \
        const struct yoke_##op##_args args = { .size = sizeof args, __VA_ARGS__ };                  \
        return stream ? yoke_##op(stream, &args) : yoke_##op##_can(device, &args, cost);            \
    }

ISSUE(add, .dtype = dtype, .n = rows * CHANNELS, .x = d->in[0], .y = d->in[1], .z = d->out[0])
ISSUE(scale, .dtype = dtype, .n = rows * CHANNELS, .alpha = 0.5f, .x = d->in[0], .y = d->out[0])
ISSUE(cast, .from = YOKE_F32, .to = dtype, .n = rows * CHANNELS, .x = d->in[4], .y = d->out[0])
ISSUE(gelu_forward, .dtype = dtype, .n = rows * CHANNELS, .x = d->in[0], .y = d->out[0])
ISSUE(gelu_backward, .dtype = dtype, .n = rows * CHANNELS, .x = d->in[0], .dy = d->in[1], .dx = d->out[0])
ISSUE(layernorm_forward, .dtype = dtype, .N = rows, .C = CHANNELS, .x = d->in[0], .ldx = CHANNELS,
      .gamma = d->in[2], .beta = d->in[3], .eps = 1e-5f, .y = d->out[0], .ldy = CHANNELS, .mean = d->out[1],
      .rstd = d->out[2])
/* any numbers will do as mean and rstd */
ISSUE(layernorm_backward, .dtype = dtype, .N = rows, .C = CHANNELS, .dy = d->in[1], .lddy = CHANNELS,
      .x = d->in[0], .ldx = CHANNELS, .gamma = d->in[2], .mean = d->in[3], .rstd = d->in[2], .dx = d->out[0],
      .lddx = CHANNELS, .dgamma = d->out[1], .dbeta = d->out[2])
ISSUE(rmsnorm_forward, .dtype = dtype, .N = rows, .C = CHANNELS, .x = d->in[0], .ldx = CHANNELS,
      .gamma = d->in[2], .eps = 1e-5f, .y = d->out[0], .ldy = CHANNELS, .rstd = d->out[1])
ISSUE(rmsnorm_backward, .dtype = dtype, .N = rows, .C = CHANNELS, .dy = d->in[1], .lddy = CHANNELS,
      .x = d->in[0], .ldx = CHANNELS, .gamma = d->in[2], .rstd = d->in[3], .dx = d->out[0], .lddx = CHANNELS,
      .dgamma = d->out[1])
ISSUE(gelu_erf_forward, .dtype = dtype, .n = rows * CHANNELS, .x = d->in[0], .y = d->out[0])
ISSUE(gelu_erf_backward, .dtype = dtype, .n = rows * CHANNELS, .x = d->in[0], .dy = d->in[1], .dx = d->out[0])
ISSUE(swiglu_forward, .dtype = dtype, .N = rows, .F = CHANNELS, .gate = d->in[0], .ldgate = CHANNELS,
      .up = d->in[1], .ldup = CHANNELS, .y = d->out[0], .ldy = CHANNELS)
/* gate, up and their gradients are halves of rows */
#define HALF(base) ((char *)(base) + (size_t)(CHANNELS / 2) * yoke_dtype_bytes(dtype))
ISSUE(swiglu_backward, .dtype = dtype, .N = rows, .F = CHANNELS / 2, .gate = d->in[0], .ldgate = CHANNELS,
      .up = HALF(d->in[0]), .ldup = CHANNELS, .dy = d->in[1], .lddy = CHANNELS / 2, .dgate = d->out[0],
      .lddgate = CHANNELS, .dup = HALF(d->out[0]), .lddup = CHANNELS)
ISSUE(dropout, .dtype = dtype, .N = rows, .C = CHANNELS, .T = 64, .p = 0.1f, .key = 1, .x = d->in[0],
      .ldx = CHANNELS, .residual = d->in[1], .ldresidual = CHANNELS, .y = d->out[0], .ldy = CHANNELS)
ISSUE(bias_backward, .dtype = dtype, .N = rows, .C = CHANNELS, .dy = d->in[0], .ld = CHANNELS,
      .dbias = d->out[1])
ISSUE(embed_forward, .dtype = dtype, .N = rows, .T = rows, .C = CHANNELS, .V = 1024, .tokens = d->tokens,
      .wte = d->in[0], .wpe = d->in[1], .y = d->out[0])
ISSUE(embed_backward, .dtype = dtype, .N = rows, .T = 64, .C = CHANNELS, .V = 1024, .tokens = d->tokens,
      .dy = d->in[0], .dwte = d->out[1], .dwpe = d->out[2])
ISSUE(xent_forward, .dtype = dtype, .N = rows * CHANNELS / VOCABULARY, .V = VOCABULARY, .logits = d->in[0],
      .ld = VOCABULARY, .targets = d->tokens, .lse = d->out[1], .losses = d->out[2])
ISSUE(xent_backward, .dtype = dtype, .N = rows * CHANNELS / VOCABULARY, .V = VOCABULARY, .logits = d->in[0],
      .ld = VOCABULARY, .targets = d->tokens, .lse = d->in[3], .scale = 1, .dlogits = d->out[0],
      .lddlogits = VOCABULARY)
static yoke_status issue_xent_in_place(yoke_device *device, yoke_stream *stream, struct yoke_cost *cost,
                                       const struct data *d, yoke_dtype dtype, int64_t rows)
{
    const struct yoke_xent_backward_args args = { .size = sizeof args,
                                                  .dtype = dtype,
                                                  .N = rows * CHANNELS / VOCABULARY,
                                                  .V = VOCABULARY,
                                                  .logits = d->out[0],
                                                  .ld = VOCABULARY,
                                                  .targets = d->tokens,
                                                  .lse = d->in[3],
                                                  .scale = 1,
                                                  .dlogits = d->out[0],
                                                  .lddlogits = VOCABULARY };
    return stream ? yoke_xent_backward(stream, &args) : yoke_xent_backward_can(device, &args, cost);
}
ISSUE(adamw, .dtype = YOKE_F32, .copy_dtype = dtype, .n = rows * CHANNELS, .w = d->out[1], .m = d->out[2],
      .v = d->out[3], .grad = d->in[4], .copy = d->out[0], .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f,
      .eps = 1e-8f, .weight_decay = 0.1f, .grad_scale = 1, .step = 10)
ISSUE(grad_norm, .dtype = dtype, .n = rows * CHANNELS, .grad = d->in[0], .scale = 1, .out = d->out[1])

/*
 * One matrix [B T, 3 C] holds q, k, v. Attention is causal, with 12 heads of 64. `rows` counts tokens, in
 * sequences of SEQUENCE.
 */
enum { SEQUENCE = 1024, HEADS = 12, HEAD = MODEL_CHANNELS / HEADS };
#define PART(base, i) ((char *)(base) + (size_t)(i)*CHANNELS * yoke_dtype_bytes(dtype))
#define SHAPE                                                                                      \
    .dtype = dtype, .causal = true, .B = rows / SEQUENCE, .T = SEQUENCE, .H = HEADS, .Hkv = HEADS, \
    .D = HEAD, .scale = 0.125f
#define QKV                                                                                   \
    .q = PART(d->in[0], 0), .ldq = 3 * CHANNELS, .k = PART(d->in[0], 1), .ldk = 3 * CHANNELS, \
    .v = PART(d->in[0], 2), .ldv = 3 * CHANNELS
ISSUE(attention_forward, SHAPE, QKV, .o = d->out[0], .ldo = CHANNELS, .lse = d->out[1])
ISSUE(attention_backward, SHAPE, QKV, .o = d->in[1], .ldo = CHANNELS, .d_o = d->in[1], .lddo = CHANNELS,
      .lse = d->in[3], .dq = PART(d->out[0], 0), .lddq = 3 * CHANNELS, .dk = PART(d->out[0], 1),
      .lddk = 3 * CHANNELS, .dv = PART(d->out[0], 2), .lddv = 3 * CHANNELS)

static const struct op {
    const char *name;
    issue *issue;
    int n_out; /* out[0] has the row's type, and the other outputs are f32 */
    bool by_flops;
    int64_t check_rows;
} ops[] = {
    { "add", issue_add, 1, false, 67 },
    { "scale", issue_scale, 1, false, 67 },
    { "cast", issue_cast, 1, false, 67 },
    { "gelu_forward", issue_gelu_forward, 1, false, 67 },
    { "gelu_backward", issue_gelu_backward, 1, false, 67 },
    { "layernorm_forward", issue_layernorm_forward, 3, false, 67 },
    { "layernorm_backward", issue_layernorm_backward, 3, false, 67 },
    { "rmsnorm_forward", issue_rmsnorm_forward, 2, false, 67 },
    { "rmsnorm_backward", issue_rmsnorm_backward, 2, false, 67 },
    { "gelu_erf_forward", issue_gelu_erf_forward, 1, false, 67 },
    { "gelu_erf_backward", issue_gelu_erf_backward, 1, false, 67 },
    { "swiglu_forward", issue_swiglu_forward, 1, false, 67 },
    { "swiglu_backward", issue_swiglu_backward, 1, false, 67 },
    { "dropout", issue_dropout, 1, false, 67 },
    { "bias_backward", issue_bias_backward, 2, false, 67 },
    { "embed_forward", issue_embed_forward, 1, false, 67 },
    { "embed_backward", issue_embed_backward, 3, false, 64 },
    { "xent_forward", issue_xent_forward, 3, false, 200 },
    { "xent_backward", issue_xent_backward, 1, false, 200 },
    { "xent_in_place", issue_xent_in_place, 1, false,
      200 }, /* the backward pass writes over the logits, as in training */
    { "adamw", issue_adamw, 4, false, 67 },
    { "grad_norm", issue_grad_norm, 2, false, 67 },
    { "attention_forward", issue_attention_forward, 2, true, SEQUENCE },
    { "attention_backward", issue_attention_backward, 1, true, SEQUENCE },
};

struct bench {
    yoke_device *reference, *host;
    yoke_stream *reference_stream, *host_stream;
    struct data d;
    void *expected[N_OUT];
    float *a, *b, *c; /* the triad's arrays */
    int n_failed, n_met, n_missed;
};

#define CHECK(x)                                                          \
    do {                                                                  \
        if (x) {                                                          \
            fprintf(stderr, "host_ops: %s: %s\n", #x, yoke_last_error()); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

/* Fill in numbers in (0.5, 1.5). Unless `positive`, about half of them are negative. */
static void fill(void *buffer, yoke_dtype dtype, size_t bytes, bool positive, uint32_t seed)
{
    const size_t n = bytes / yoke_dtype_bytes(dtype);
    float piece[4096];
    for (size_t i = 0; i < n; i += 4096) {
        const size_t m = n - i < 4096 ? n - i : 4096;
        for (size_t j = 0; j < m; j++) {
            seed = seed * 1664525u + 1013904223u;
            const float x = 0.5f + (float)(seed >> 8) / (float)(1 << 24);
            piece[j] = positive || seed & 128 ? x : -x;
        }
        yoke_convert(YOKE_F32, piece, dtype, (char *)buffer + i * yoke_dtype_bytes(dtype), m);
    }
}

static void fill_inputs(struct bench *b, yoke_dtype dtype)
{
    fill(b->d.in[0], dtype, BUFFER_BYTES, false, 1);
    fill(b->d.in[1], dtype, BUFFER_BYTES, false, 2);
    fill(b->d.in[2], YOKE_F32, BUFFER_BYTES, true, 3);
    fill(b->d.in[3], YOKE_F32, BUFFER_BYTES, true, 4);
    fill(b->d.in[4], YOKE_F32, BUFFER_BYTES, false, 5);
}

/* The greatest difference of two arrays, divided by the greatest magnitude. */
static double difference(yoke_dtype dtype, const void *expected, const void *got, size_t n)
{
    float x[1024], y[1024];
    double worst = 0, most = 1e-30;
    const size_t bytes = yoke_dtype_bytes(dtype);
    for (size_t i = 0; i < n; i += 1024) {
        const size_t m = n - i < 1024 ? n - i : 1024;
        yoke_convert(dtype, (const char *)expected + i * bytes, YOKE_F32, x, m);
        yoke_convert(dtype, (const char *)got + i * bytes, YOKE_F32, y, m);
        for (size_t j = 0; j < m; j++) {
            const double e = fabs((double)x[j] - (double)y[j]);
            if (!(e <= worst)) worst = e;
            if (fabs((double)x[j]) > most) most = fabs((double)x[j]);
        }
    }
    return worst / most;
}

static void run_once(yoke_device *device, yoke_stream *stream, const struct op *op, const struct data *d,
                     yoke_dtype dtype, int64_t rows)
{
    struct yoke_cost cost = { .size = sizeof cost };
    CHECK(op->issue(device, NULL, &cost, d, dtype, rows));
    CHECK(yoke_stream_reserve(stream, cost.scratch_bytes));
    CHECK(op->issue(device, stream, NULL, d, dtype, rows));
    CHECK(yoke_stream_sync(stream));
}

/* Compare both backends on the same inputs and the same initial outputs. */
static bool is_right(struct bench *b, const struct op *op, yoke_dtype dtype)
{
    const size_t bytes = (size_t)(op->by_flops ? 3 : 1) * (size_t)op->check_rows * CHANNELS * 4;
    struct data expected = b->d;
    for (int i = 0; i < N_OUT; i++) {
        expected.out[i] = b->expected[i];
        fill(expected.out[i], i ? YOKE_F32 : dtype, bytes, true, 9);
        memcpy(b->d.out[i], expected.out[i], bytes);
    }
    run_once(b->reference, b->reference_stream, op, &expected, dtype, op->check_rows);
    run_once(b->host, b->host_stream, op, &b->d, dtype, op->check_rows);
    for (int i = 0; i < op->n_out; i++) {
        const yoke_dtype t = i ? YOKE_F32 : dtype;
        const double allowed = t == YOKE_F32 ? 2e-5 : t == YOKE_F16 ? 4e-3 : 3e-2;
        const double e = difference(t, expected.out[i], b->d.out[i], bytes / yoke_dtype_bytes(t));
        if (!(e <= allowed)) {
            printf("%-20s %-5s WRONG: output %d differs by %.2g of its greatest value\n", op->name,
                   yoke_dtype_name(dtype), i, e);
            return false;
        }
    }
    return true;
}

/* GB/s over `bytes` in all. Two thirds are read from two arrays, and one third is written to one. */
static double triad(struct bench *b, double bytes)
{
    const int64_t n = (int64_t)(bytes / 12);
    float *a = b->a;
    const float *x = b->b, *y = b->c;
    const double start = yokei_now();
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < n; i++) a[i] = x[i] + 0.4f * y[i];
    return 1e-9 * bytes / (yokei_now() - start);
}

/* The speed of an f32 product on this device, the yardstick of attention. */
static double best_product(struct bench *b)
{
    enum { M = 768 };
    const struct yoke_gemm_args g = { .size = sizeof g,
                                      .M = M,
                                      .N = M,
                                      .K = M,
                                      .batch = 1,
                                      .a = b->d.in[2],
                                      .lda = M,
                                      .b = b->d.in[3],
                                      .ldb = M,
                                      .c = b->expected[1],
                                      .ldc = M,
                                      .alpha = 1 };
    struct yoke_cost cost = { .size = sizeof cost };
    CHECK(yoke_gemm_can(b->host, &g, &cost));
    CHECK(yoke_stream_reserve(b->host_stream, cost.scratch_bytes));
    const double start = yokei_now();
    for (int i = 0; i < 4; i++) CHECK(yoke_gemm(b->host_stream, &g));
    return 4e-9 * cost.flops / (yokei_now() - start);
}

/*
 * Measure by the least bytes of one call. With -s many calls are measured, because one is too short for the
 * clock.
 */
static void measure_step(struct bench *b, const struct op *op, yoke_dtype dtype, const struct yoke_cost *cost)
{
    enum { CALLS = 50 };
    double time[ROUNDS], ratio[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) {
        double yard = 0, start;
        for (int k = 0; k < CALLS; k++) yard += cost->bytes / triad(b, cost->bytes);
        start = yokei_now();
        for (int k = 0; k < CALLS; k++)
            CHECK(op->issue(b->host, b->host_stream, NULL, &b->d, dtype, STEP_ROWS));
        if (i >= 0) time[i] = (yokei_now() - start) / CALLS, ratio[i] = 1e-9 * yard / CALLS / time[i];
    }
    const double t = yokei_median(time, ROUNDS);
    printf("%-20s %-5s %8.2f us   %8.1f GB/s    of the triad in cache %.2f\n", op->name,
           yoke_dtype_name(dtype), 1e6 * t, 1e-9 * cost->bytes / t, yokei_median(ratio, ROUNDS));
    fflush(stdout);
}

static void measure(struct bench *b, const struct op *op, yoke_dtype dtype)
{
    if (!is_right(b, op, dtype)) {
        b->n_failed++;
        return;
    }
    const int64_t rows = is_step        ? STEP_ROWS
                         : op->by_flops ? 4 * SEQUENCE
                                        : (int64_t)(BUFFER_BYTES / 4) / CHANNELS;
    struct yoke_cost cost = { .size = sizeof cost };
    CHECK(op->issue(b->host, NULL, &cost, &b->d, dtype, rows));
    CHECK(yoke_stream_reserve(b->host_stream, cost.scratch_bytes));
    if (is_step) {
        measure_step(b, op, dtype, &cost);
        return;
    }
    double speed[ROUNDS], yard[ROUNDS], ratio[ROUNDS];
    for (int i = -1; i < ROUNDS; i++) { /* the first round warms up */
        const double y = op->by_flops ? best_product(b) : triad(b, 3 * (double)BUFFER_BYTES),
                     start = yokei_now();
        CHECK(op->issue(b->host, b->host_stream, NULL, &b->d, dtype, rows));
        const double s = 1e-9 * (op->by_flops ? cost.flops : cost.bytes) / (yokei_now() - start);
        if (i >= 0) speed[i] = s, yard[i] = y, ratio[i] = s / y;
    }
    const double s = yokei_median(speed, ROUNDS), y = yokei_median(yard, ROUNDS),
                 r = yokei_median(ratio, ROUNDS);
    printf("%-20s %-5s %8.1f %-7s %s %8.1f   %.2f", op->name, yoke_dtype_name(dtype), s,
           op->by_flops ? "GFLOP/s" : "GB/s", op->by_flops ? "product" : "triad  ", y, r);
    if (op->by_flops)
        printf("\n");
    else
        printf("  goal %.2f %s\n", GOAL, r >= GOAL ? "met" : "missed");
    fflush(stdout);
    if (!op->by_flops) r >= GOAL ? b->n_met++ : b->n_missed++;
}

/* ---- gemm beside oneDNN, called directly ---- */
/* clang-format off */
#define FUNCTIONS(F) \
    F(engine_create) F(stream_create) F(stream_wait) F(memory_desc_init_by_strides) F(memory_create) \
    F(matmul_desc_init) \
    F(primitive_desc_create) F(primitive_create) F(primitive_execute)
/* clang-format on */
static struct {
#define MEMBER(name) __typeof__(dnnl_##name) *name;
    FUNCTIONS(MEMBER)
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} dnnl;

static bool open_onednn(void)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return false;
#define LOAD(name) *(void **)&dnnl.name = dlsym(library, "dnnl_" #name);
    FUNCTIONS(LOAD)
    return !dnnl.engine_create(&dnnl.engine, dnnl_cpu, 0)
           && !dnnl.stream_create(&dnnl.stream, dnnl.engine, dnnl_stream_default_flags);
}

static dnnl_memory_desc_t matrix(dnnl_data_type_t type, int64_t rows, int64_t columns, bool transposed)
{
    const dnnl_dims_t dims = { rows, columns }, strides = { transposed ? 1 : columns, transposed ? rows : 1 };
    dnnl_memory_desc_t md;
    dnnl.memory_desc_init_by_strides(&md, 2, dims, type, strides);
    return md;
}

static const struct shape {
    int64_t M, N, K;
    bool trans_a, trans_b;
} shapes[] = {
    { 512, 512, 512, false, false },   { 1024, 1024, 1024, false, false }, { 1024, 2304, 768, false, true },
    { 1024, 3072, 768, false, true },  { 1024, 768, 3072, false, true },   { 768, 3072, 1024, true, false },
    { 1024, 768, 3072, false, false }, { 2048, 256, 256, false, true },
};

/** oneDNN's product of the same operands: a primitive and its memory. */
struct peer_gemm {
    dnnl_primitive_t primitive;
    dnnl_memory_t mem[3];
};

/** Whether oneDNN has such a product. Its output is b->expected[0]. */
static bool peer_gemm_create(struct bench *b, const struct shape *s, yoke_dtype dtype, struct peer_gemm *p)
{
    const dnnl_data_type_t type = dtype == YOKE_BF16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_memory_desc_t A = matrix(type, s->M, s->K, s->trans_a),
                             B = matrix(type, s->K, s->N, s->trans_b), C = matrix(type, s->M, s->N, false);
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    return !dnnl.matmul_desc_init(&desc, &A, &B, NULL, &C)
           && !dnnl.primitive_desc_create(&pd, &desc, NULL, dnnl.engine, NULL)
           && !dnnl.primitive_create(&p->primitive, pd)
           && !dnnl.memory_create(&p->mem[0], &A, dnnl.engine, b->d.in[0])
           && !dnnl.memory_create(&p->mem[1], &B, dnnl.engine, b->d.in[1])
           && !dnnl.memory_create(&p->mem[2], &C, dnnl.engine, b->expected[0]);
}

static void measure_gemm(struct bench *b, const struct shape *s, yoke_dtype dtype, bool direct)
{
    const struct yoke_gemm_args g = { .size = sizeof g,
                                      .dtype = dtype,
                                      .out_dtype = dtype,
                                      .trans_a = s->trans_a,
                                      .trans_b = s->trans_b,
                                      .M = s->M,
                                      .N = s->N,
                                      .K = s->K,
                                      .batch = 1,
                                      .a = b->d.in[0],
                                      .lda = s->trans_a ? s->M : s->K,
                                      .b = b->d.in[1],
                                      .ldb = s->trans_b ? s->K : s->N,
                                      .c = b->d.out[0],
                                      .ldc = s->N,
                                      .alpha = 1 };
    struct yoke_cost cost = { .size = sizeof cost };
    CHECK(yoke_gemm_can(b->host, &g, &cost));
    CHECK(yoke_stream_reserve(b->host_stream, cost.scratch_bytes));
    struct peer_gemm peer = { NULL };
    direct = direct && peer_gemm_create(b, s, dtype, &peer);
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, peer.mem[0] },
                                     { DNNL_ARG_WEIGHTS, peer.mem[1] },
                                     { DNNL_ARG_DST, peer.mem[2] } };
    double mine[ROUNDS], theirs[ROUNDS] = { 0 }, ratio[ROUNDS] = { 0 };
    for (int i = -1; i < ROUNDS; i++) {
        double start = yokei_now();
        CHECK(yoke_gemm(b->host_stream, &g));
        CHECK(yoke_gemm(b->host_stream, &g));
        const double m = 2e-9 * cost.flops / (yokei_now() - start);
        start = yokei_now();
        for (int j = 0; direct && j < 2; j++)
            if (dnnl.primitive_execute(peer.primitive, dnnl.stream, 3, args) || dnnl.stream_wait(dnnl.stream))
                exit(1);
        const double t = 2e-9 * cost.flops / (yokei_now() - start);
        if (i >= 0) mine[i] = m, theirs[i] = direct ? t : 0, ratio[i] = direct ? m / t : 0;
    }
    printf("gemm %4lldx%4lldx%4lld %c%c %-5s %8.1f GFLOP/s", (long long)s->M, (long long)s->N,
           (long long)s->K, s->trans_a ? 't' : 'n', s->trans_b ? 't' : 'n', yoke_dtype_name(dtype),
           yokei_median(mine, ROUNDS));
    if (direct
        && difference(dtype, b->expected[0], b->d.out[0], (size_t)(s->M * s->N))
               > (dtype == YOKE_F32 ? 1e-5 : 1e-2)) {
        printf("  WRONG: differs from oneDNN\n");
        b->n_failed++;
    } else if (direct)
        printf(" oneDNN %8.1f   %.2f\n", yokei_median(theirs, ROUNDS), yokei_median(ratio, ROUNDS));
    else
        printf("\n");
    fflush(stdout);
}

static bool wanted(int argc, char **argv, const char *name)
{
    const int first = is_step ? 2 : 1;
    for (int i = first; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc == first;
}

static void set_up(struct bench *b)
{
    CHECK(yoke_device_open("reference", NULL, &b->reference));
    CHECK(yoke_device_open("host", NULL, &b->host));
    CHECK(yoke_stream_create(b->reference, &b->reference_stream));
    CHECK(yoke_stream_create(b->host, &b->host_stream));
    void **const buffers[] = { &b->d.in[0],     &b->d.in[1],     &b->d.in[2],     &b->d.in[3],
                               &b->d.in[4],     &b->d.out[0],    &b->d.out[1],    &b->d.out[2],
                               &b->d.out[3],    &b->expected[0], &b->expected[1], &b->expected[2],
                               &b->expected[3], (void **)&b->a,  (void **)&b->b,  (void **)&b->c };
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        CHECK(yoke_alloc(b->host, BUFFER_BYTES, buffers[i]));
        CHECK(yoke_fill(b->host_stream, *buffers[i], 0, BUFFER_BYTES));
    }
    fill(b->b, YOKE_F32, BUFFER_BYTES, false, 6);
    fill(b->c, YOKE_F32, BUFFER_BYTES, false, 7);
    void *tokens;
    CHECK(yoke_alloc(b->host, BUFFER_BYTES, &tokens));
    b->d.tokens = tokens;
    for (size_t i = 0; i < BUFFER_BYTES / 4; i++) b->d.tokens[i] = (int32_t)(i * 2654435761u >> 22);
    struct yokei_topology machine;
    CHECK(yokei_topology(&machine));
    double load = 0;
    getloadavg(&load, 1);
    printf("%s, %d cores, last-level cache %.0f MiB, %s, %d threads, load %.1f\n", machine.cpu,
           machine.n_cores, (double)machine.l3_bytes / (1 << 20), yoke_device_info(b->host)->driver,
           omp_get_max_threads(), load);
}

int main(int argc, char **argv)
{
    static struct bench b;
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_F16, YOKE_BF16 };
    is_step = argc > 1 && !strcmp(argv[1], "-s");
    if (is_step) CHANNELS = VOCABULARY = 256;
    set_up(&b);
    const bool direct = open_onednn();
    for (int t = 0; t < 3; t++) {
        fill_inputs(&b, dtypes[t]);
        for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
            if (wanted(argc, argv, ops[i].name) && !(is_step && ops[i].by_flops))
                measure(&b, &ops[i], dtypes[t]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes && !is_step && wanted(argc, argv, "gemm"); i++)
            measure_gemm(&b, &shapes[i], dtypes[t], direct && dtypes[t] != YOKE_F16);
    }
    if (b.n_met + b.n_missed) printf("memory-bound rows: %d met, %d missed\n", b.n_met, b.n_missed);
    return b.n_failed ? 1 : 0;
}
