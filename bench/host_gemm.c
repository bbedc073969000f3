/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the host backend beside oneDNN called directly. Both sides use the same plain matrices
 * and the same number of threads, and take turns. The products are squares, and the products of a training
 * step of GPT-2 124M and of the micro model. Elements of both results are checked in float64 first. A wrong
 * result prints no speed. Times are medians. The goal is 0.97 of oneDNN's speed in every row.
 *
 * Usage: host_gemm [-v VARIANT] [-r ROUNDS] [-s] [word...]
 * - word: only rows whose line contains every word
 * - -v: this variant of yoke_gemm, instead of the one that it chooses
 * - -s: the buffers begin 0 to 4,032 bytes behind the start of a page, with another offset in each round
 *
 * The rows have these names. F: forward, y = x W. Ft: forward with W stored transposed, as in a head. B:
 * gradient of the data. W: gradient of the weights, which is added to f32. nn, nt, tn: whether A and B are
 * transposed.
 */
#include <yoke/yoke.h>

#include <dlfcn.h>
#include <math.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/times.h"

enum { MOST_ROUNDS = 101, SAMPLES = 2000 };

struct product {
    char name[96];
    yoke_dtype dtype;
    int64_t M, N, K;
    bool trans_a, trans_b, gradient;
};

static struct {
    yoke_device *device;
    yoke_stream *stream;
    void *memory[3]; /* buffers of A, B and C, and their sizes */
    size_t bytes[3], offset;
    int rounds, n_failed, n_short, n_rows;
    bool stagger;
    char **words;
    int n_words;
} bench;

#define CHECK(x)                                                           \
    do {                                                                   \
        if (x) {                                                           \
            fprintf(stderr, "host_gemm: %s: %s\n", #x, yoke_last_error()); \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

static void *buffer(int i) { return (char *)bench.memory[i] + bench.offset * (size_t)(i + 1) % 4096; }

/* ---- oneDNN ---- */
/* clang-format off */
#define FUNCTIONS(F) \
    F(engine_create) F(stream_create) F(stream_wait) F(memory_desc_init_by_strides) F(memory_create) \
    F(matmul_desc_init) \
    F(memory_set_data_handle) F(memory_destroy) F(primitive_desc_create) F(primitive_desc_destroy) \
    F(primitive_create) \
    F(primitive_destroy) F(primitive_execute) F(primitive_attr_create) F(primitive_attr_destroy) \
    F(primitive_attr_set_post_ops) \
    F(post_ops_create) F(post_ops_destroy) F(post_ops_append_sum)
/* clang-format on */
static struct {
#define MEMBER(name) __typeof__(dnnl_##name) *name;
    FUNCTIONS(MEMBER)
    bool there;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t memories[3];
} dnnl;

static void open_onednn(void)
{
    void *library = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
#define LOAD(name) *(void **)&dnnl.name = dlsym(library, "dnnl_" #name);
    FUNCTIONS(LOAD)
    dnnl.there = !dnnl.engine_create(&dnnl.engine, dnnl_cpu, 0)
                 && !dnnl.stream_create(&dnnl.stream, dnnl.engine, dnnl_stream_default_flags);
}

static dnnl_memory_desc_t matrix(dnnl_data_type_t type, int64_t rows, int64_t columns, bool transposed)
{
    const dnnl_dims_t dims = { rows, columns }, strides = { transposed ? 1 : columns, transposed ? rows : 1 };
    dnnl_memory_desc_t md;
    dnnl.memory_desc_init_by_strides(&md, 2, dims, type, strides);
    return md;
}

static bool prepare_onednn(const struct product *p)
{
    if (!dnnl.there || p->dtype == YOKE_F16) return false;
    const dnnl_data_type_t type = p->dtype == YOKE_BF16 ? dnnl_bf16 : dnnl_f32;
    const dnnl_memory_desc_t md[] = { matrix(type, p->M, p->K, p->trans_a),
                                      matrix(type, p->K, p->N, p->trans_b),
                                      matrix(p->gradient ? dnnl_f32 : type, p->M, p->N, false) };
    dnnl_primitive_attr_t attr;
    dnnl_post_ops_t ops;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    if (dnnl.primitive_attr_create(&attr) || dnnl.post_ops_create(&ops)
        || (p->gradient && dnnl.post_ops_append_sum(ops, 1)) || dnnl.primitive_attr_set_post_ops(attr, ops)
        || dnnl.matmul_desc_init(&desc, &md[0], &md[1], NULL, &md[2])
        || dnnl.primitive_desc_create(&pd, &desc, attr, dnnl.engine, NULL)
        || dnnl.primitive_create(&dnnl.primitive, pd))
        return false;
    for (int i = 0; i < 3; i++)
        if (dnnl.memory_create(&dnnl.memories[i], &md[i], dnnl.engine, NULL)) return false;
    dnnl.post_ops_destroy(ops);
    dnnl.primitive_attr_destroy(attr);
    dnnl.primitive_desc_destroy(pd);
    return true;
}

static void release_onednn(void)
{
    for (int i = 0; i < 3; i++) dnnl.memory_destroy(dnnl.memories[i]);
    dnnl.primitive_destroy(dnnl.primitive);
}

/* ---- the two sides ---- */
static struct yoke_gemm_args args_of(const struct product *p)
{
    return (struct yoke_gemm_args){ .size = sizeof(struct yoke_gemm_args),
                                    .dtype = p->dtype,
                                    .out_dtype = p->gradient ? YOKE_F32 : p->dtype,
                                    .trans_a = p->trans_a,
                                    .trans_b = p->trans_b,
                                    .M = p->M,
                                    .N = p->N,
                                    .K = p->K,
                                    .batch = 1,
                                    .a = buffer(0),
                                    .lda = p->trans_a ? p->M : p->K,
                                    .b = buffer(1),
                                    .ldb = p->trans_b ? p->K : p->N,
                                    .c = buffer(2),
                                    .ldc = p->N,
                                    .alpha = 1,
                                    .beta = p->gradient ? 1 : 0 };
}

static double time_yoke(const struct product *p, int n)
{
    const struct yoke_gemm_args args = args_of(p);
    const double start = yokei_now();
    for (int i = 0; i < n; i++) CHECK(yoke_gemm(bench.stream, &args));
    return (yokei_now() - start) / n;
}

static double time_onednn(const struct product *p, int n)
{
    static const int names[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
    (void)p;
    dnnl_exec_arg_t args[3];
    for (int i = 0; i < 3; i++) {
        args[i] = (dnnl_exec_arg_t){ names[i], dnnl.memories[i] };
        if (dnnl.memory_set_data_handle(dnnl.memories[i], buffer(i))) exit(1);
    }
    const double start = yokei_now();
    for (int i = 0; i < n; i++)
        if (dnnl.primitive_execute(dnnl.primitive, dnnl.stream, 3, args) || dnnl.stream_wait(dnnl.stream))
            exit(1);
    return (yokei_now() - start) / n;
}

/* ---- checking ---- */
static double element(yoke_dtype dtype, int i, int64_t at)
{
    float x;
    yoke_convert(dtype, (const char *)buffer(i) + (size_t)at * yoke_dtype_bytes(dtype), YOKE_F32, &x, 1);
    return (double)x;
}

/* Check elements all over C. If C is a weight gradient, its initial value is 1. */
static bool is_right(const struct product *p)
{
    const yoke_dtype out = p->gradient ? YOKE_F32 : p->dtype;
    const double u = out == YOKE_F32 ? 0x1p-24 : out == YOKE_F16 ? 0x1p-11 : 0x1p-8;
    uint64_t seed = 1;
    for (int s = 0; s < SAMPLES; s++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t m = s < 2 ? (s ? p->M - 1 : 0) : (int64_t)((seed >> 33) % (uint64_t)p->M);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int64_t n = s < 4 ? (s & 1 ? p->N - 1 : 0) : (int64_t)((seed >> 33) % (uint64_t)p->N);
        double value = p->gradient ? 1 : 0, size = value;
        for (int64_t k = 0; k < p->K; k++) {
            const double x = element(p->dtype, 0, p->trans_a ? k * p->M + m : m * p->K + k)
                             * element(p->dtype, 1, p->trans_b ? n * p->K + k : k * p->N + n);
            value += x, size += fabs(x);
        }
        const double error = fabs(element(out, 2, m * p->N + n) - value);
        if (!(error <= 1.01 * u * fabs(value) + 0x1p-24 * (double)(p->K + 4) * size)) {
            printf("%-44s WRONG: c[%lld, %lld] is off by %g\n", p->name, (long long)m, (long long)n, error);
            return false;
        }
    }
    return true;
}

static void start_c(const struct product *p)
{
    float *c = buffer(2);
    if (p->gradient)
        for (int64_t i = 0; i < p->M * p->N; i++) c[i] = 1;
    else
        memset(c, 0xff, (size_t)(p->M * p->N) * yoke_dtype_bytes(p->dtype));
}

/* Numbers of both signs. They repeat at a distance that is no matrix's dimension. */
static void fill(int i, yoke_dtype dtype, int64_t n, uint32_t seed)
{
    enum { PERIOD = 100003 };
    const size_t bytes = yoke_dtype_bytes(dtype);
    char *target = buffer(i);
    for (int64_t j = 0; j < n; j++) {
        if (j >= PERIOD) {
            const size_t some = (size_t)(n - j < j ? n - j : j);
            memcpy(target + (size_t)j * bytes, target, some * bytes);
            j += (int64_t)some - 1;
            continue;
        }
        seed = seed * 1664525u + 1013904223u;
        const float x = (seed & 128 ? 1.0f : -1.0f) * (0.5f + (float)(seed >> 8) / (float)(1 << 24));
        yoke_convert(YOKE_F32, &x, dtype, target + (size_t)j * bytes, 1);
    }
}

/* Returns the operations of the product, as Yoke counts them. */
static double reserve(const struct product *p)
{
    const size_t in = yoke_dtype_bytes(p->dtype), out = p->gradient ? 4 : in;
    const size_t bytes[] = { (size_t)(p->M * p->K) * in, (size_t)(p->K * p->N) * in,
                             (size_t)(p->M * p->N) * out };
    for (int i = 0; i < 3; i++) {
        if (bytes[i] + 4096 <= bench.bytes[i]) continue;
        if (bench.memory[i]) CHECK(yoke_free(bench.device, bench.memory[i]));
        bench.bytes[i] = bytes[i] + 4096;
        CHECK(yoke_alloc(bench.device, bench.bytes[i], &bench.memory[i]));
    }
    const struct yoke_gemm_args args = args_of(p);
    struct yoke_cost cost = { .size = sizeof cost };
    CHECK(yoke_gemm_can(bench.device, &args, &cost));
    CHECK(yoke_stream_reserve(bench.stream, cost.scratch_bytes));
    return cost.flops;
}

/* ---- measuring ---- */
static void take_turns(const struct product *p, bool direct, double mine[], double theirs[], double ratio[])
{
    enum { PIECE_US = 3000 };
    const double once = time_yoke(p, 1);
    const int n = (int)fmin(200, fmax(1, ceil(1e-6 * PIECE_US / once)));
    for (int r = -1; r < bench.rounds; r++) {
        if (bench.stagger) bench.offset = (size_t)(r + 1) * 64 * 5 % 4096;
        const double m = time_yoke(p, n), t = direct ? time_onednn(p, n) : 0;
        if (r >= 0) mine[r] = m, theirs[r] = t, ratio[r] = t / m;
    }
    bench.offset = 0;
}

static void measure(const struct product *p)
{
    for (int i = 0; i < bench.n_words; i++)
        if (!strstr(p->name, bench.words[i])) return;
    static double mine[MOST_ROUNDS], theirs[MOST_ROUNDS], ratio[MOST_ROUNDS];
    const double flops = 1e-9 * reserve(p);
    fill(0, p->dtype, p->M * p->K, 1);
    fill(1, p->dtype, p->K * p->N, 2);
    const bool direct = prepare_onednn(p);
    start_c(p);
    time_yoke(p, 1);
    bool right = is_right(p);
    if (direct && right) {
        start_c(p);
        time_onednn(p, 1);
        right = is_right(p);
    }
    if (!right) {
        bench.n_failed++;
        return;
    }
    start_c(p);
    take_turns(p, direct, mine, theirs, ratio);
    printf("%-44s %7.0f", p->name, flops / yokei_median(mine, bench.rounds));
    if (direct) {
        /* the arrays are sorted now */
        const double r = yokei_median(ratio, bench.rounds), t = yokei_median(theirs, bench.rounds);
        printf(" %7.0f   %.2f%s (%.2f-%.2f)", flops / t, r, r < 0.97 ? " *" : "  ", ratio[bench.rounds / 10],
               ratio[bench.rounds - 1 - bench.rounds / 10]);
        bench.n_short += r < 0.97;
        release_onednn();
    }
    printf("\n");
    fflush(stdout);
    bench.n_rows++;
}

static void row(const char *what, yoke_dtype dtype, int64_t M, int64_t N, int64_t K, bool trans_a,
                bool trans_b, bool gradient)
{
    struct product p = {
        .dtype = dtype, .M = M, .N = N, .K = K, .trans_a = trans_a, .trans_b = trans_b, .gradient = gradient
    };
    snprintf(p.name, sizeof p.name, "%-4s %-14s %c%c %5lldx%5lldx%5lld", yoke_dtype_name(dtype), what,
             trans_a ? 't' : 'n', trans_b ? 't' : 'n', (long long)M, (long long)N, (long long)K);
    measure(&p);
}

/*
 * A layer from `in` to `out` channels. Its weights are stored as [in, out], and the weights of a head as
 * [out, in].
 */
static void layer(const char *model, const char *name, yoke_dtype dtype, int64_t rows, int64_t in,
                  int64_t out, bool head)
{
    char what[32];
    for (int form = 0; form < 4; form++) {
        static const char *const forms[] = { "F", "Ft", "B", "W" };
        if (head && form == 0) continue;
        snprintf(what, sizeof what, "%s %s %s", model, name, forms[form]);
        switch (form) {
        case 0: row(what, dtype, rows, out, in, false, false, false); break;
        case 1: row(what, dtype, rows, out, in, false, true, false); break;
        case 2: row(what, dtype, rows, in, out, false, !head, false); break;
        default: row(what, dtype, head ? out : in, head ? in : out, rows, true, false, true); break;
        }
    }
}

static void all_rows(yoke_dtype dtype)
{
    static const int squares[] = { 256, 512, 1024, 2048 };
    static const struct {
        const char *name;
        int C, rows[2], vocabulary;
    } models[] = { { "gpt2", 768, { 256, 1024 }, 50257 }, { "micro", 256, { 512, 1024 }, 256 } };
    for (int i = 0; i < 8; i++)
        row("square", dtype, squares[i / 2], squares[i / 2], squares[i / 2], false, i & 1, false);
    for (int m = 0; m < 2; m++)
        for (int r = 0; r < 2; r++) {
            const int64_t C = models[m].C, rows = models[m].rows[r];
            layer(models[m].name, "qkv", dtype, rows, C, 3 * C, false);
            layer(models[m].name, "proj", dtype, rows, C, C, false);
            layer(models[m].name, "fc", dtype, rows, C, 4 * C, false);
            layer(models[m].name, "proj2", dtype, rows, 4 * C, C, false);
            layer(models[m].name, "head", dtype, rows, C, models[m].vocabulary, true);
        }
}

int main(int argc, char **argv)
{
    const char *variant = NULL;
    bench.rounds = 9;
    for (int c; (c = getopt(argc, argv, "v:r:s")) != -1;) {
        if (c == 'v')
            variant = optarg;
        else if (c == 'r')
            bench.rounds = atoi(optarg);
        else if (c == 's')
            bench.stagger = true;
        else
            return 2;
    }
    if (bench.rounds < 1 || bench.rounds > MOST_ROUNDS) {
        fprintf(stderr, "host_gemm: -r: 1 to %d rounds\n", MOST_ROUNDS);
        return 2;
    }
    bench.words = argv + optind, bench.n_words = argc - optind;
    CHECK(yoke_device_open("host", NULL, &bench.device));
    CHECK(yoke_stream_create(bench.device, &bench.stream));
    if (variant) CHECK(yoke_variant_force(bench.device, "gemm", variant));
    open_onednn();
    printf(
        "%s, %s, %d threads, variant %s\n%-44s %7s %7s   ratio (10 to 90 %% of the rounds)   * below 0.97\n",
        yoke_device_info(bench.device)->name, yoke_device_info(bench.device)->driver, omp_get_max_threads(),
        variant ? variant : "as chosen", "GFLOP/s", "yoke", "oneDNN");
    static const yoke_dtype dtypes[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    for (int t = 0; t < 3; t++) all_rows(dtypes[t]);
    printf("%d rows, %d below the goal, %d wrong\n", bench.n_rows, bench.n_short, bench.n_failed);
    return bench.n_failed ? 1 : 0;
}
