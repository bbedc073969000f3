/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What products cost on the CUDA backend, counted by the stand-in driver: instructions, sectors of memory and
 * accesses of shared memory. And who adds the bias of a 16-bit result: the epilogue of cuBLASLt where it
 * rounds as docs/NUMERICS.md says, and else Yoke's kernel.
 */
#include "tests/unit/cuda_test.h"

#include <dlfcn.h>

#include "core/backend.h"
#include "core/tune.h"
#include "emulate/cuda/ptx.h"
#include "tests/unit/folder.h"

/* The device of a test in a child process, or a return with a text that skips the test. */
#define OPEN(device)                                                                   \
    yoke_device *device = NULL;                                                        \
    if (yoke_device_open("cuda:0", NULL, &device)) {                                   \
        if (strstr(yoke_last_error(), "NVRTC")) return "skip: NVRTC is not installed"; \
        WANT(!"the device opens");                                                     \
    }

/* The counts of the kernels of this name. Returns the launches. */
static uint64_t counts_of(const char *kernel, struct kernel_counts *counts)
{
    uint64_t (*read)(const char *, struct kernel_counts *) = NULL;
    void *library = dlopen("libcuda-emulated.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, "yoke_emulate_counts") : NULL;
    memcpy(&read, &symbol, sizeof symbol);
    memset(counts, 0, sizeof *counts);
    return read ? read(kernel, counts) : 0;
}

static uint64_t launches(const char *kernel)
{
    struct kernel_counts counts;
    return counts_of(kernel, &counts);
}

/* ---- a product of numbers whose sums are exact in f32 ---- */

struct product {
    yoke_dtype dtype, out_dtype;
    bool trans_a, trans_b;
    int64_t M, N, K, pad; /* pad: how much longer than needed the rows are */
    float beta;
    enum yoke_epilogue epilogue;
};

static float a_of(int64_t m, int64_t k) { return (float)((m * 5 + k * 3) % 7 - 3); }
static float b_of(int64_t k, int64_t n) { return (float)((k * 2 + n * 11) % 5 - 2); }
static float c_of(int64_t m, int64_t n) { return (float)((m + n) % 3); }
/* It has more bits than f16 and bf16 have. */
static float bias_of(int64_t n) { return (float)(n % 9) + 0x1p-9f + 0x1p-12f * (float)(n % 4); }

static float element_of(const struct product *p, int64_t m, int64_t n)
{
    float sum = p->beta * c_of(m, n);
    for (int64_t k = 0; k < p->K; k++) sum += a_of(m, k) * b_of(k, n);
    return p->epilogue == YOKE_EPILOGUE_NONE ? sum : sum + bias_of(n);
}

/** A matrix on the host in its type, `rows` by `columns`, in rows of `ld` elements. */
struct matrix {
    int64_t rows, columns, ld;
    size_t bytes;
    char *host;
    void *device;
};

static struct matrix make(yoke_dtype dtype, int64_t rows, int64_t columns, int64_t ld, bool turned,
                          float value(int64_t, int64_t))
{
    struct matrix x = { rows, columns, ld, (size_t)(rows * ld) * yoke_dtype_bytes(dtype), NULL, NULL };
    x.host = calloc(1, x.bytes);
    if (!x.host) abort();
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const float one = turned ? value(j, i) : value(i, j);
            yoke_convert(YOKE_F32, &one, dtype, x.host + (size_t)(i * ld + j) * yoke_dtype_bytes(dtype), 1);
        }
    return x;
}

static float bias_at(int64_t row, int64_t n)
{
    (void)row;
    return bias_of(n);
}

enum { A, B, C, BIAS, N_MATRICES };

static yoke_status run(yoke_device *device, const struct product *p, struct matrix x[N_MATRICES])
{
    yoke_stream *stream;
    struct yoke_gemm_args args = YOKE_ARGS(gemm, .dtype = p->dtype, .out_dtype = p->out_dtype,
                                           .trans_a = p->trans_a, .trans_b = p->trans_b, .M = p->M, .N = p->N,
                                           .K = p->K, .batch = 1, .lda = x[A].ld, .ldb = x[B].ld,
                                           .ldc = x[C].ld, .alpha = 1, .beta = p->beta,
                                           .epilogue = p->epilogue);
    struct yoke_cost cost = { .size = sizeof cost };
    YOKE_TRY(yoke_gemm_can(device, &args, &cost));
    YOKE_TRY(yoke_stream_create(device, &stream));
    yoke_status status = yoke_stream_reserve(stream, cost.scratch_bytes);
    for (int i = 0; i < N_MATRICES && !status; i++) {
        status = yoke_alloc(device, x[i].bytes, &x[i].device);
        if (!status) status = yoke_copy_to_device(stream, x[i].device, x[i].host, x[i].bytes);
    }
    args.a = x[A].device, args.b = x[B].device, args.c = x[C].device;
    args.bias = p->epilogue == YOKE_EPILOGUE_NONE ? NULL : x[BIAS].device;
    if (!status) status = yoke_gemm(stream, &args);
    if (!status) status = yoke_copy_to_host(stream, x[C].host, x[C].device, x[C].bytes);
    if (!status) status = yoke_stream_sync(stream);
    for (int i = 0; i < N_MATRICES; i++)
        if (x[i].device) yoke_free(device, x[i].device);
    yoke_stream_destroy(stream);
    return status;
}

/* Run the product. Whether it succeeds, with the exact sums, each rounded once. GELU's are not compared. */
static bool multiplies(yoke_device *device, const struct product *p)
{
    const int64_t across_a = p->trans_a ? p->M : p->K, across_b = p->trans_b ? p->K : p->N;
    const size_t bytes = yoke_dtype_bytes(p->out_dtype);
    struct matrix x[N_MATRICES] = {
        [A] = make(p->dtype, p->trans_a ? p->K : p->M, across_a, across_a + p->pad, p->trans_a, a_of),
        [B] = make(p->dtype, p->trans_b ? p->N : p->K, across_b, across_b + p->pad, p->trans_b, b_of),
        [C] = make(p->out_dtype, p->M, p->N, p->N + p->pad, false, c_of),
        [BIAS] = make(YOKE_F32, 1, p->N, p->N, false, bias_at),
    };
    bool right = !run(device, p, x);
    for (int64_t m = 0; m < p->M && right && p->epilogue != YOKE_EPILOGUE_BIAS_GELU; m++)
        for (int64_t n = 0; n < p->N && right; n++) {
            const float sum = element_of(p, m, n);
            char wanted[sizeof(float)];
            yoke_convert(YOKE_F32, &sum, p->out_dtype, wanted, 1);
            right = !memcmp(x[C].host + (size_t)(m * x[C].ld + n) * bytes, wanted, bytes);
        }
    for (int i = 0; i < N_MATRICES; i++) free(x[i].host);
    return right;
}

/* ---- the bias of a 16-bit result ---- */

static const struct product forward = {
    .dtype = YOKE_BF16, .out_dtype = YOKE_BF16, .M = 24, .N = 40, .K = 32, .epilogue = YOKE_EPILOGUE_BIAS
};

static char logged[1000];
static void keep_line(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level;
    if (strstr(text, "the bias of bf16 results")) yokei_text(logged, sizeof logged, "%s", text);
}

/* Products in both 16-bit types and all layouts. `by_library`: the library adds the bias, and no kernel. */
static const char *biases(bool by_library)
{
    uint64_t finished = 0;
    OPEN(device);
    yoke_log_set(keep_line, NULL, YOKE_LOG_INFO);
    for (int i = 0; i < 8; i++) {
        struct product p = forward;
        if (i / 4) p.dtype = p.out_dtype = YOKE_F16;
        p.trans_a = i & 1, p.trans_b = i & 2;
        WANT(multiplies(device, &p));
        finished += !by_library;
        WANT(launches("gemm_finish") == finished);
        WANT(!strcmp(yokei_variant_used(device, YOKE_OP_gemm, &(double){ 0 }, &(double){ 0 }), "cublaslt"));
    }
    yoke_device_close(device);
    return NULL;
}

static const char *by_epilogue(void)
{
    const char *wrong = biases(true);
    if (wrong) return wrong;
    WANT(strstr(logged, "cuBLASLt 13.1.0 adds the bias of bf16 results"));
    return NULL;
}

static const char *by_kernel(void)
{
    const char *wrong = biases(false);
    if (wrong) return wrong;
    WANT(strstr(logged, "cuBLASLt 13.1.0 leaves to Yoke's kernel the bias of bf16 results: "));
    WANT(strstr(logged, strcmp(getenv("YOKE_EMULATE_BIAS"), "refused")
                            ? "its epilogue does not add an f32 bias before the only rounding"
                            : "the functionality requested is not supported (15)"));
    return NULL;
}

/*
 * The trial runs once for an algorithm. A product whose sum is long has another algorithm and another trial.
 * Rows that are less aligned, an addition to C and a batch keep the epilogue. An f32 result needs no trial.
 */
static const char *trials(void)
{
    struct product p = forward, wide = forward;
    OPEN(device);
    wide.out_dtype = YOKE_F32;
    WANT(multiplies(device, &wide) && launches("cublasLtMatmul") == 1);
    WANT(multiplies(device, &p));
    const uint64_t first = launches("cublasLtMatmul");
    WANT(first >= 3); /* the product, and a trial of each algorithm that was asked about */
    WANT(multiplies(device, &p) && launches("cublasLtMatmul") == first + 1);
    p.beta = 0.5f;
    WANT(multiplies(device, &p) && launches("cublasLtMatmul") == first + 2);
    p.K = 640;
    WANT(multiplies(device, &p) && launches("cublasLtMatmul") > first + 3);
    p.pad = 1, p.N = 37;
    WANT(multiplies(device, &p) && launches("gemm_finish") == 0);
    p.epilogue = YOKE_EPILOGUE_BIAS_GELU; /* Yoke's own formula */
    WANT(multiplies(device, &p) && launches("gemm_finish") == 1);
    yoke_device_close(device);
    return NULL;
}

/* If the trial itself fails, the kernel adds the bias. The second product is the trial. */
static const char *failing_trial(void)
{
    OPEN(device);
    struct product plain = forward;
    plain.epilogue = YOKE_EPILOGUE_NONE;
    WANT(multiplies(device, &plain) && launches("cublasLtMatmul") == 1);
    WANT(multiplies(device, &forward));
    yoke_device_close(device);
    return NULL;
}

static void bias(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_BIAS", "once", by_epilogue);
    cuda_in_child("YOKE_EMULATE_BIAS", "twice", by_kernel);
    cuda_in_child("YOKE_EMULATE_BIAS", "short", by_kernel);
    cuda_in_child("YOKE_EMULATE_BIAS", "refused", by_kernel);
    cuda_in_child("YOKE_EMULATE_BIAS", "once", trials);
    setenv("YOKE_EMULATE_BIAS", "once", 1);
    cuda_in_child("YOKE_EMULATE_FAIL", "cublaslt-matmul@2", failing_trial);
    unsetenv("YOKE_EMULATE_FAIL");
    unsetenv("YOKE_EMULATE_BIAS");
}

/* ---- the kernel that finishes a library's product ---- */

/*
 * It reads f32 sums and writes 16 bits: 16 bytes for each lane where the rows allow it. `instructions` is the
 * most for each element of C.
 */
static const char *finishing(void)
{
    static const struct {
        int64_t M, N;
        double instructions, sectors;
    } rows[] = {
        { 64, 768, 14, 1.05 },  { 128, 128, 14, 1.05 },
        { 33, 1000, 15, 1.05 }, { 16, 50, 80, 1.8 }, /* rows of C begin at multiples of 4 bytes */
        { 32, 50257, 40, 1.4 },
    };
    struct kernel_counts before, after;
    OPEN(device);
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        struct product p = forward;
        p.M = rows[i].M, p.N = rows[i].N, p.K = 16;
        counts_of("gemm_finish", &before);
        WANT(multiplies(device, &p));
        WANT(counts_of("gemm_finish", &after) == i + 1);
        const double elements = (double)(p.M * p.N),
                     instructions = (double)(after.instructions - before.instructions) / elements,
                     sectors = 32
                               * (double)(after.sectors_loaded + after.sectors_stored - before.sectors_loaded
                                          - before.sectors_stored),
                     least = elements * 6 + 4 * (double)p.N * (double)p.M / 4;
        if (getenv("YOKE_TEST_COUNTS"))
            fprintf(stderr,
                    "# gemm_finish %lld x %lld: %.2f instructions an element, %.3f of the least sectors\n",
                    (long long)p.M, (long long)p.N, instructions, sectors / least);
        WANT(instructions <= rows[i].instructions);
        WANT(sectors <= rows[i].sectors * least);
    }
    yoke_device_close(device);
    return NULL;
}

static void finish(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_SEED", "1", finishing);
}

/* ---- the products of Yoke's own kernel ---- */

/*
 * What a product of the team bodies costs, for each fused multiply-add: instructions of threads, and accesses
 * of shared memory. The least sectors are those of the blocks: each block of C reads all of its rows of A and
 * all of its columns of B, and C is written once. The k's are added in the order of k, so the sums are exact
 * here, whatever the layout.
 */
static const char *multiplying(void)
{
    static const struct {
        const char *variant;
        int64_t block;
        double instructions, shared;
    } rows[] = { { "team64", 64, 1.8, 0.17 }, { "team128", 128, 1.4, 0.085 } };
    enum { SIZE = 128 };
    const double fmas = (double)SIZE * SIZE * SIZE;
    struct kernel_counts before, after;
    OPEN(device);
    for (int i = 0; i < 2 * 4; i++) {
        const struct product p = { YOKE_F32, YOKE_F32, i & 1, i & 2, SIZE,
                                   SIZE,     SIZE,     0,     0,     YOKE_EPILOGUE_NONE };
        const int64_t blocks = SIZE / rows[i / 4].block;
        WANT(!yoke_variant_force(device, "gemm", rows[i / 4].variant));
        counts_of("gemm_team", &before);
        WANT(multiplies(device, &p));
        WANT(counts_of("gemm_team", &after) == (uint64_t)i + 1);
        const double instructions = (double)(after.instructions - before.instructions) / fmas,
                     shared = 32 * (double)(after.shared_accesses - before.shared_accesses) / fmas,
                     loaded = 32 * (double)(after.sectors_loaded - before.sectors_loaded),
                     stored = 32 * (double)(after.sectors_stored - before.sectors_stored),
                     matrix = sizeof(float) * (double)SIZE * SIZE, least = 2 * matrix * (double)blocks;
        if (getenv("YOKE_TEST_COUNTS"))
            fprintf(
                stderr,
                "# %s %s%s: %.3f instructions and %.4f accesses of shared memory a multiply-add, %.3f and "
                "%.3f of the least sectors, %llu bank conflicts\n",
                rows[i / 4].variant, p.trans_a ? "T" : "N", p.trans_b ? "T" : "N", instructions, shared,
                loaded / least, stored / matrix,
                (unsigned long long)(after.bank_conflicts - before.bank_conflicts));
        WANT(instructions <= rows[i / 4].instructions && shared <= rows[i / 4].shared);
        WANT(loaded <= 1.05 * least && stored <= 1.05 * matrix);
        WANT(after.bank_conflicts == before.bank_conflicts);
        /* one barrier for each step along K, because the next blocks have a place of their own */
        WANT(after.barriers - before.barriers == (uint64_t)(blocks * blocks * (1 + SIZE / 16)));
    }
    yoke_device_close(device);
    return NULL;
}

/* Rows that begin anywhere: the sums are the same, and neighbours still write neighbours. */
static const char *unaligned(void)
{
    static const char *const variants[] = { "team64", "team128" };
    struct kernel_counts counts;
    OPEN(device);
    for (int i = 0; i < 2 * 4; i++) {
        struct product p = { YOKE_F32, YOKE_F32, i & 1, i & 2, 131, 133, 67, 1, 0.5f, YOKE_EPILOGUE_BIAS };
        WANT(!yoke_variant_force(device, "gemm", variants[i / 4]));
        WANT(multiplies(device, &p));
        p.dtype = p.out_dtype = YOKE_BF16, p.pad = i % 4;
        WANT(multiplies(device, &p));
    }
    counts_of("gemm_team", &counts);
    WANT(32 * (double)counts.sectors_stored <= 1.6 * (double)counts.bytes_stored);
    yoke_device_close(device);
    return NULL;
}

static void multiply(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_SEED", "1", multiplying);
    cuda_in_child("YOKE_EMULATE_SEED", "1", unaligned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bias),
        cmocka_unit_test(finish),
        cmocka_unit_test(multiply),
    };
    static const char *const unset[] = { "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION",
                                         "YOKE_EMULATE_FAIL",    "YOKE_EMULATE_BIAS",
                                         "YOKE_DATA_DIR",        "YOKE_TUNE_FILE" };
    for (size_t i = 0; i < YOKE_COUNT(unset); i++) unsetenv(unset[i]);
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    return cmocka_run_group_tests_name("cuda_gemm", tests, make_test_folder, remove_test_folder);
}
