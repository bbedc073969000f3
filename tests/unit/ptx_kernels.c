/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yoke's own kernels in the PTX executor, as NVRTC compiles them. NVRTC needs no GPU. Without NVRTC the
 * tests are skipped.
 */
#include "backends/cuda/cuda.h"
#include "backends/gpu/families.h"
#include "tests/unit/ptx_world.h"
#include "tests/unit/rtc.h"

#include <math.h>
#include <stdlib.h>

typedef void *rtc_program;
static struct {
    int (*create)(rtc_program *program, const char *source, const char *name, int n_headers,
                  const char *const *headers, const char *const *header_names);
    int (*compile)(rtc_program program, int n_options, const char *const *options);
    int (*log_size)(rtc_program program, size_t *bytes);
    int (*log)(rtc_program program, char *log);
    int (*ptx_size)(rtc_program program, size_t *bytes);
    int (*ptx)(rtc_program program, char *ptx);
    int (*destroy)(rtc_program *program);
} rtc;

static bool open_nvrtc(char *reason, size_t bytes)
{
    const struct cuda_nvrtc *found = yokei_cuda_nvrtc(99000, reason, bytes); /* where the backend finds it */
    const char *const libraries[] = { found ? found->path : "libnvrtc.so", NULL };
    const struct yokei_symbol symbols[] = {
        { "nvrtcCreateProgram", &rtc.create },       { "nvrtcCompileProgram", &rtc.compile },
        { "nvrtcGetProgramLogSize", &rtc.log_size }, { "nvrtcGetProgramLog", &rtc.log },
        { "nvrtcGetPTXSize", &rtc.ptx_size },        { "nvrtcGetPTX", &rtc.ptx },
        { "nvrtcDestroyProgram", &rtc.destroy }
    };
    return yokei_dl_open(libraries, symbols, YOKE_COUNT(symbols), reason, bytes) != NULL;
}

/** The PTX of a program, to be freed. */
static char *compile(const struct yokei_gpu_program *program)
{
    static const char *const options[] = { "--gpu-architecture=compute_80",
                                           "--std=c++14",
                                           "--fmad=false",
                                           "--prec-div=true",
                                           "--prec-sqrt=true",
                                           "--ftz=false",
                                           "--generate-line-info" };
    struct yokei_gpu_source source;
    assert_ok(yokei_gpu_source_make(program, YOKEI_GPU_CUDA, false, 32, false, &source));
    const size_t bytes = strlen(source.options) + strlen(source.prelude) + strlen(source.text) + 1;
    char *text = malloc(bytes);
    assert_non_null(text);
    snprintf(text, bytes, "%s%s%s", source.options, source.prelude, source.text);
    rtc_program compiled = NULL;
    assert_int_equal(rtc.create(&compiled, text, source.name, 0, NULL, NULL), 0);
    if (rtc.compile(compiled, (int)YOKE_COUNT(options), options)) {
        size_t log_bytes = 0;
        rtc.log_size(compiled, &log_bytes);
        char *log = calloc(1, log_bytes + 1);
        if (log) rtc.log(compiled, log);
        fail_msg("NVRTC refuses %s: %.500s", program->family, log ? log : "");
    }
    size_t ptx_bytes = 0;
    assert_int_equal(rtc.ptx_size(compiled, &ptx_bytes), 0);
    char *ptx = calloc(1, ptx_bytes + 1);
    assert_non_null(ptx);
    assert_int_equal(rtc.ptx(compiled, ptx), 0);
    rtc.destroy(&compiled);
    free(text);
    yokei_gpu_source_free(&source);
    return ptx;
}

static struct yokei_gpu_program team_program(const char *family)
{
    return (struct yokei_gpu_program){
        .family = family, .dtype = YOKE_F32, .out_dtype = YOKE_F32, .L = 32, .W = 4, .G = 4
    };
}

static struct yokei_gpu_program gemm_program(void)
{
    return (struct yokei_gpu_program){
        .family = "gemm",
        .dtype = YOKE_F32,
        .out_dtype = YOKE_F32,
        .L = 32,
        .W = 1,
        .G = 8,
        .defines = { { "YK_BM", 64 }, { "YK_BN", 64 }, { "YK_BK", 16 }, { "YK_TM", 4 }, { "YK_TN", 4 } }
    };
}

/* Numbers in [-1, 1), the same in each run. */
static float *numbers(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static void assert_near(const char *what, size_t index, double value, double wanted, double bound)
{
    if (!(fabs(value - wanted) <= bound))
        fail_msg("%s[%zu] is %.9g instead of %.9g", what, index, value, wanted);
}

/* ---- the catalogue ---- */

static void test_parse(void **state)
{
    (void)state;
    const char *soak = getenv("YOKE_SOAK");
    const int step = soak && !strcmp(soak, "1") ? 1 : 59;
    struct yokei_gpu_program program;
    int programs = 0, kernels = 0;
    unsigned instructions = 0;
    for (int i = 0; yokei_gpu_catalog(i, false, 32, &program); i += step) {
        struct ptx_world w = { 0 };
        char *text = compile(&program);
        struct ptx_module *module = ptx_world_parse(&w, text);
        const struct ptx_kernel *kernel;
        int n = 0;
        for (; (kernel = ptx_module_kernel_at(module, n)); n++) {
            const struct kernel_info info = ptx_kernel_info(kernel);
            assert_true(info.n_instructions > 20 && info.n_parameters > 3);
            assert_int_equal(info.target, 80);
            assert_int_equal(info.max_threads, program.L * program.G);
            assert_ptr_equal(ptx_module_kernel(module, info.name), kernel);
            instructions += info.n_instructions;
        }
        assert_true(n > 0);
        kernels += n;
        programs++;
        ptx_module_destroy(module);
        free(text);
    }
    print_message("# parsed %d programs, %d kernels, %u instructions\n", programs, kernels, instructions);
    assert_true(programs >= 3);
}

/* ---- LayerNorm: shuffles of a warp ---- */

enum { ROWS = 13, COLUMNS = 77 };
struct norm {
    struct ptx_world w;
    struct ptx_module *module;
    char *text;
    float *x, *gamma, *beta;
    uint64_t y, means, rstds;
};

/* `missing`: elements by which x is too short. */
static void norm_run(struct norm *n, size_t missing, bool is_written)
{
    ptx_world_open(&n->w, 1 << 18);
    n->x = numbers(ROWS * COLUMNS, 1);
    n->gamma = numbers(COLUMNS, 2);
    n->beta = numbers(COLUMNS, 3);
    n->module = ptx_world_parse(&n->w, n->text);
    const uint64_t x = ptx_world_new(&n->w, (ROWS * COLUMNS - missing) * 4, is_written ? n->x : NULL);
    const uint64_t gamma = ptx_world_new(&n->w, COLUMNS * 4, n->gamma);
    const uint64_t beta = ptx_world_new(&n->w, COLUMNS * 4, n->beta);
    n->y = ptx_world_new(&n->w, ROWS * COLUMNS * 4, NULL);
    n->means = ptx_world_new(&n->w, ROWS * 4, NULL);
    n->rstds = ptx_world_new(&n->w, ROWS * 4, NULL);
    ptx_world_run(&n->w, ptx_module_kernel(n->module, "layernorm_forward"),
                  (const uint32_t[]){ (ROWS + 3) / 4, 1, 1 }, (const uint32_t[]){ 128, 1, 1 },
                  ARGUMENTS(ARGUMENT_Q(x), ARGUMENT_Q(COLUMNS), ARGUMENT_Q(gamma), ARGUMENT_Q(beta),
                            ARGUMENT_F(1e-5f), ARGUMENT_Q(n->y), ARGUMENT_Q(COLUMNS), ARGUMENT_Q(n->means),
                            ARGUMENT_Q(n->rstds), ARGUMENT_Q(ROWS), ARGUMENT_Q(COLUMNS), ARGUMENT_Q(1)));
}

static void norm_close(struct norm *n)
{
    ptx_module_destroy(n->module);
    free(n->x);
    free(n->gamma);
    free(n->beta);
    ptx_world_close(&n->w);
}

static void check_norm(const struct norm *n)
{
    const float *y = ptx_world_at(&n->w, n->y), *means = ptx_world_at(&n->w, n->means);
    for (int r = 0; r < ROWS; r++) {
        const float *x = n->x + r * COLUMNS;
        double mean = 0, squares = 0;
        for (int c = 0; c < COLUMNS; c++) mean += (double)x[c] / COLUMNS;
        for (int c = 0; c < COLUMNS; c++) squares += (x[c] - mean) * (x[c] - mean) / COLUMNS;
        assert_near("means", (size_t)r, (double)means[r], mean, 1e-6);
        for (int c = 0; c < COLUMNS; c++) {
            const double wanted = (x[c] - mean) / sqrt(squares + 1e-5) * (double)n->gamma[c]
                                  + (double)n->beta[c];
            assert_near("y", (size_t)(r * COLUMNS + c), (double)y[r * COLUMNS + c], wanted, 1e-5);
        }
    }
}

static void test_norm(void **state)
{
    (void)state;
    const struct yokei_gpu_program program = team_program("norm");
    struct norm n = { .text = compile(&program) };
    assert_non_null(strstr(n.text, "shfl.sync.bfly"));
    norm_run(&n, 0, true);
    assert_good(&n.w);
    check_norm(&n);
    assert_true(n.w.counts.instructions > n.w.counts.warp_instructions * 16);
    norm_close(&n);

    /* x has one element less: the last thread with an element of the last row reads behind it */
    norm_run(&n, 1, true);
    assert_fault(&n.w, KERNEL_OUT_OF_BOUNDS,
                 "layernorm_forward: thread (19,0,0) of block (3,0,0) reads 4 bytes at");
    assert_fault(&n.w, KERNEL_OUT_OF_BOUNDS, "; norm.yk:");
    assert_string_equal(n.w.fault.source, "norm.yk");
    assert_true(n.w.fault.source_line > 111 && n.w.fault.source_line < 180);
    norm_close(&n);

    norm_run(&n, 0, false);
    assert_fault(&n.w, KERNEL_UNINITIALISED, "that were never written; norm.yk:");
    norm_close(&n);
    free(n.text);
}

/* ---- a matrix product: shared memory and barriers ---- */

enum { M = 70, N = 67, K = 45 };

static enum kernel_error product_run(struct ptx_world *w, const struct ptx_kernel *kernel, const float *a,
                                     const float *b, const float *bias, size_t missing, uint64_t *c_out)
{
    const uint64_t a_at = ptx_world_new(w, M * K * 4, a), b_at = ptx_world_new(w, K * N * 4, b);
    const uint64_t bias_at = ptx_world_new(w, N * 4, bias);
    *c_out = ptx_world_new(w, (M * N - missing) * 4, NULL);
    const int has_bias = 2;
    return ptx_world_run(w, kernel, (const uint32_t[]){ 4, 1, 1 }, (const uint32_t[]){ 256, 1, 1 },
                         ARGUMENTS(ARGUMENT_Q(a_at), ARGUMENT_Q(K), ARGUMENT_Q(0), ARGUMENT_Q(b_at),
                                   ARGUMENT_Q(N), ARGUMENT_Q(0), ARGUMENT_Q(*c_out), ARGUMENT_Q(N),
                                   ARGUMENT_Q(0), ARGUMENT_Q(bias_at), ARGUMENT_Q(0), ARGUMENT_Q(0),
                                   ARGUMENT_Q(0), ARGUMENT_Q(M), ARGUMENT_Q(N), ARGUMENT_Q(K),
                                   ARGUMENT_F(1.5f), ARGUMENT_F(0.0f), ARGUMENT_W(has_bias), ARGUMENT_W(0)));
}

static void check_product(const float *a, const float *b, const float *bias, const float *c)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += (double)a[i * K + k] * (double)b[k * N + j];
            assert_near("c", (size_t)(i * N + j), (double)c[i * N + j], 1.5 * sum + (double)bias[j], 1e-5);
        }
}

/* Replace the index-th "bar.sync" by a comment of the same length. */
static void remove_barrier(char *text, int index)
{
    char *at = text;
    while ((at = strstr(at, "bar.sync")) && index-- > 0) at++;
    assert_non_null(at);
    memcpy(at, "//", 2);
}

static void test_product(void **state)
{
    (void)state;
    const struct yokei_gpu_program program = gemm_program();
    char *text = compile(&program);
    float *a = numbers(M * K, 1), *b = numbers(K * N, 2), *bias = numbers(N, 3);
    uint64_t c;
    for (uint64_t seed = 1; seed < 4; seed++) {
        struct ptx_world w;
        ptx_world_open(&w, 1 << 18);
        w.seed = seed;
        w.uncounted = seed == 3;
        struct ptx_module *module = ptx_world_parse(&w, text);
        product_run(&w, ptx_module_kernel(module, "gemm_team"), a, b, bias, 0, &c);
        assert_good(&w);
        check_product(a, b, bias, ptx_world_at(&w, c));
        assert_int_equal(w.counts.barriers, w.uncounted ? 0 : 4 * (1 + (K + 15) / 16));
        ptx_module_destroy(module);
        ptx_world_close(&w);
    }
    /* without either of its barriers a block reads what other threads still write */
    for (int i = 0; i < 2; i++) {
        struct ptx_world w;
        ptx_world_open(&w, 1 << 18);
        char *planted = strdup(text);
        assert_non_null(planted);
        remove_barrier(planted, i);
        struct ptx_module *module = ptx_world_parse(&w, planted);
        product_run(&w, ptx_module_kernel(module, "gemm_team"), a, b, bias, 0, &c);
        assert_true(w.fault.error == KERNEL_SHARED_RACE || w.fault.error == KERNEL_UNINITIALISED);
        assert_non_null(strstr(w.fault.text, "; gemm.yk:"));
        ptx_module_destroy(module);
        free(planted);
        ptx_world_close(&w);
    }
    struct ptx_world w;
    ptx_world_open(&w, 1 << 18);
    struct ptx_module *module = ptx_world_parse(&w, text);
    product_run(&w, ptx_module_kernel(module, "gemm_team"), a, b, bias, 1, &c);
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "of block (3,0,0) writes 4 bytes at");
    assert_fault(&w, KERNEL_OUT_OF_BOUNDS, "; gemm.yk:");
    ptx_module_destroy(module);
    ptx_world_close(&w);
    free(text);
    free(a);
    free(b);
    free(bias);
}

/* ---- softmax and loss ---- */

static void test_loss(void **state)
{
    (void)state;
    enum { V = 97, R = 11 };
    const struct yokei_gpu_program program = team_program("loss");
    char *text = compile(&program);
    struct ptx_world w;
    ptx_world_open(&w, 1 << 18);
    float *logits = numbers(R * V, 4);
    int32_t targets[R];
    for (int r = 0; r < R; r++) targets[r] = r == 4 ? -1 : r * 37 % V;
    for (int i = 0; i < R * V; i++) logits[i] *= 20.0f;
    struct ptx_module *module = ptx_world_parse(&w, text);
    const uint64_t logits_at = ptx_world_new(&w, R * V * 4, logits);
    const uint64_t targets_at = ptx_world_new(&w, sizeof targets, targets);
    const uint64_t lse = ptx_world_new(&w, R * 4, NULL), losses = ptx_world_new(&w, R * 4, NULL);
    const uint64_t gradient = ptx_world_new(&w, R * V * 4, NULL);
    const uint32_t grid[] = { (R + 3) / 4, 1, 1 }, block[] = { 128, 1, 1 };
    ptx_world_run(&w, ptx_module_kernel(module, "xent_forward"), grid, block,
                  ARGUMENTS(ARGUMENT_Q(logits_at), ARGUMENT_Q(V), ARGUMENT_Q(targets_at), ARGUMENT_Q(lse),
                            ARGUMENT_Q(0), ARGUMENT_Q(losses), ARGUMENT_Q(R), ARGUMENT_Q(V), ARGUMENT_Q(0),
                            ARGUMENT_Q(1)));
    assert_good(&w);
    ptx_world_run(&w, ptx_module_kernel(module, "xent_backward"), grid, block,
                  ARGUMENTS(ARGUMENT_Q(logits_at), ARGUMENT_Q(V), ARGUMENT_Q(targets_at), ARGUMENT_Q(lse),
                            ARGUMENT_F(0.5f), ARGUMENT_Q(gradient), ARGUMENT_Q(V), ARGUMENT_Q(R),
                            ARGUMENT_Q(V), ARGUMENT_Q(0), ARGUMENT_Q(1)));
    assert_good(&w);
    const float *losses_made = ptx_world_at(&w, losses), *made = ptx_world_at(&w, gradient);
    for (int r = 0; r < R; r++) {
        double sum = 0;
        for (int v = 0; v < V; v++) sum += exp((double)logits[r * V + v]);
        const double loss = targets[r] < 0 ? 0 : log(sum) - (double)logits[r * V + targets[r]];
        assert_near("losses", (size_t)r, (double)losses_made[r], loss, 1e-5);
        for (int v = 0; v < V; v++) {
            double wanted = 0.5 * (exp((double)logits[r * V + v]) / sum - (v == targets[r]));
            if (targets[r] < 0) wanted = 0;
            assert_near("dlogits", (size_t)(r * V + v), (double)made[r * V + v], wanted, 1e-6);
        }
    }
    ptx_module_destroy(module);
    ptx_world_close(&w);
    free(text);
    free(logits);
}

int main(void)
{
    char reason[256];
    if (!open_nvrtc(reason, sizeof reason)) {
        printf("1..1\nok 1 # skip NVRTC is not installed: %s\n", reason);
        return 0;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_parse), cmocka_unit_test(test_norm),
                                        cmocka_unit_test(test_product), cmocka_unit_test(test_loss) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
