/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the CUDA backend by cuBLASLt, on the stand-in driver and the stand-in cuBLASLt: when the
 * library runs and when Yoke's kernels run, with which reason, and the fields of algorithms. tests/conform
 * looks at the numbers.
 */
#include "tests/unit/cuda_test.h"

#include <dlfcn.h>

#include "core/backend.h"
#include "core/tune.h"
#include "tests/unit/folder.h"

/* The device of a test in a child process, or a return with a text that skips the test. */
#define OPEN(device)                                                                   \
    yoke_device *device = NULL;                                                        \
    if (yoke_device_open("cuda:0", NULL, &device)) {                                   \
        if (strstr(yoke_last_error(), "NVRTC")) return "skip: NVRTC is not installed"; \
        WANT(!"the device opens");                                                     \
    }

/* How often a kernel of this name has run. */
static uint64_t launches(const char *kernel)
{
    uint64_t (*counts)(const char *, void *) = NULL;
    void *library = dlopen("libcuda-emulated.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, "yoke_emulate_counts") : NULL;
    memcpy(&counts, &symbol, sizeof symbol);
    return counts ? counts(kernel, NULL) : 0;
}

/* A product C = A B of small whole numbers, which every algorithm computes exactly. */
enum { MOST = 640 * 64 };
struct product {
    yoke_dtype dtype, out_dtype;
    int64_t M, N, K;
    enum yoke_epilogue epilogue;
    int64_t skip; /* elements before A, B and C, so that their addresses are less aligned */
};

static uint16_t short_of(yoke_dtype dtype, int value)
{
    static const uint16_t halves[] = { 0, 0x3c00, 0x4000 }, bfloats[] = { 0, 0x3f80, 0x4000 };
    return dtype == YOKE_F16 ? halves[value] : bfloats[value];
}

static void put(void *array, int64_t i, yoke_dtype dtype, int value)
{
    if (dtype == YOKE_F32)
        ((float *)array)[i] = (float)value;
    else
        ((uint16_t *)array)[i] = short_of(dtype, value);
}

/* Run a product in f32 results. Returns whether it succeeded with the right numbers. */
static bool multiplies(yoke_device *device, const struct product *p)
{
    static float a[MOST], b[MOST], c[MOST], bias[64];
    const size_t in = yoke_dtype_bytes(p->dtype), skip = (size_t)p->skip * in;
    yoke_stream *stream;
    char *d = NULL;
    if (yoke_stream_create(device, &stream)) return false;
    for (int64_t i = 0; i < p->M * p->K; i++) put(a, i, p->dtype, (int)(i % 3));
    for (int64_t i = 0; i < p->K * p->N; i++) put(b, i, p->dtype, (int)(i * 7 % 3));
    for (int64_t i = 0; i < p->N; i++) bias[i] = (float)i;
    struct yoke_gemm_args args = YOKE_ARGS(gemm, .dtype = p->dtype, .out_dtype = YOKE_F32, .M = p->M,
                                           .N = p->N, .K = p->K, .batch = 1, .lda = p->K, .ldb = p->N,
                                           .ldc = p->N, .alpha = 1, .epilogue = p->epilogue);
    struct yoke_cost cost = { .size = sizeof cost };
    yoke_status status = yoke_gemm_can(device, &args, &cost);
    if (!status) status = yoke_stream_reserve(stream, cost.scratch_bytes);
    if (!status) status = yoke_alloc(device, 4 * sizeof a, (void **)&d);
    if (!status) {
        args.a = d + skip, args.b = d + sizeof a + skip, args.c = d + 2 * sizeof a,
        args.bias = d + 3 * sizeof a;
        status = yoke_copy_to_device(stream, d + skip, a, (size_t)(p->M * p->K) * in);
    }
    if (!status) status = yoke_copy_to_device(stream, d + sizeof a + skip, b, (size_t)(p->K * p->N) * in);
    if (!status) status = yoke_copy_to_device(stream, d + 3 * sizeof a, bias, (size_t)p->N * sizeof *bias);
    if (!status) status = yoke_gemm(stream, &args);
    if (!status) status = yoke_copy_to_host(stream, c, args.c, (size_t)(p->M * p->N) * sizeof *c);
    if (!status) status = yoke_stream_sync(stream);
    bool right = !status;
    for (int64_t m = 0; m < p->M && right; m++)
        for (int64_t n = 0; n < p->N && right; n++) {
            long sum = p->epilogue == YOKE_EPILOGUE_BIAS ? n : 0;
            for (int64_t k = 0; k < p->K; k++) sum += (m * p->K + k) % 3 * ((k * p->N + n) * 7 % 3);
            right = c[m * p->N + n] == (float)sum;
        }
    if (status) { /* what was queued before the error still uses the memory */
        struct yokei_error saved;
        yokei_error_save(&saved);
        yoke_stream_sync(stream);
        yokei_error_restore(&saved);
    }
    if (d) yoke_free(device, d);
    yoke_stream_destroy(stream);
    return right;
}

static const struct product f32 = { .dtype = YOKE_F32, .M = 24, .N = 40, .K = 33 };
static const struct product f16 = { .dtype = YOKE_F16, .M = 24, .N = 40, .K = 32 };
static const struct product bf16 = { .dtype = YOKE_BF16, .M = 24, .N = 40, .K = 32 };
static const struct product deep = { .dtype = YOKE_BF16, .M = 16, .N = 32, .K = 640 };

/*
 * Rows of 16-bit numbers that begin at multiples of 16 bytes, and do not end there. Two products run, and
 * each column and each summand is in one of them. The numbers are small and whole, so all sums are exact.
 */
static const char *rows_with_a_tail(void)
{
    enum { M = 256, LONG = 1031, SHORT = 1024, LD = 1032, BYTES = 2 * LONG * LD };
    static uint16_t a[M * LD], b[LONG * LD];
    static float c[M * LD];
    OPEN(device);
    yoke_stream *stream;
    char *d = NULL;
    WANT(!yoke_stream_create(device, &stream) && !yoke_stream_reserve(stream, 40 << 20));
    WANT(!yoke_alloc(device, 4 * BYTES, (void **)&d));
    for (int i = 0; i < M * LD; i++) a[i] = short_of(YOKE_BF16, i % 3);
    for (int i = 0; i < LONG * LD; i++) b[i] = short_of(YOKE_BF16, (int)(i * 7L % 3));
    WANT(!yoke_copy_to_device(stream, d, a, sizeof a)
         && !yoke_copy_to_device(stream, d + BYTES, b, sizeof b));
    WANT(!yoke_copy_to_device(stream, d + 2 * BYTES, c, sizeof c));
    for (int kind = 0; kind < 3; kind++) { /* the last has a result of 16 bits, which is rounded once */
        const int64_t N = kind ? SHORT : LONG, K = kind ? LONG : SHORT;
        const yoke_dtype out = kind == 2 ? YOKE_BF16 : YOKE_F32;
        const uint64_t before = launches("cublasLtMatmul");
        WANT(!yoke_gemm(stream, &YOKE_ARGS(gemm, .dtype = YOKE_BF16, .out_dtype = out, .M = M, .N = N, .K = K,
                                           .batch = 1, .a = d, .lda = LD, .b = d + BYTES, .ldb = LD,
                                           .c = d + 2 * BYTES, .ldc = LD, .alpha = 1)));
        WANT(!yoke_copy_to_host(stream, c, d + 2 * BYTES, sizeof c) && !yoke_stream_sync(stream));
        WANT(launches("cublasLtMatmul") - before == 2);
        for (int64_t m = 0; m < M; m += 51)
            for (int64_t n = 0; n < N; n++) {
                long sum = 0;
                for (int64_t k = 0; k < K; k++) sum += (m * LD + k) % 3 * ((k * LD + n) * 7 % 3);
                const float expected = (float)sum;
                uint16_t rounded;
                yoke_convert(YOKE_F32, &expected, YOKE_BF16, &rounded, 1);
                if (kind == 2)
                    WANT(rounded == ((const uint16_t *)c)[m * LD + n]);
                else
                    WANT(c[m * LD + n] == expected);
            }
    }
    yoke_free(device, d);
    yoke_stream_destroy(stream);
    yoke_device_close(device);
    return NULL;
}

/* The variant that the last product ran by, and the algorithm. */
static const char *used(yoke_device *device)
{
    double size, edge;
    return yokei_variant_used(device, YOKE_OP_gemm, &size, &edge);
}

static const char *products_of(const yoke_device *device)
{
    static char text[1500];
    device->backend->device->extras->products(device, text, sizeof text);
    return text;
}

/* ---- the library runs ---- */

static const char *by_library(void)
{
    static const struct product *const all[] = { &f32, &f16, &bf16, &deep };
    OPEN(device);
    WANT(strstr(products_of(device), "matrix products by cuBLASLt 13.1.0 ("));
    WANT(strstr(products_of(device), "libcublasLt-emulated.so.13)"));
    WANT(strstr(yoke_device_info(device)->driver, "cuBLASLt 13.1.0"));
    for (size_t i = 0; i < YOKE_COUNT(all); i++) {
        WANT(multiplies(device, all[i]));
        WANT(!strcmp(used(device), "cublaslt"));
        WANT(launches("cublasLtMatmul") == i + 1);
    }
    struct product with_bias = f32;
    with_bias.epilogue = YOKE_EPILOGUE_BIAS;
    WANT(multiplies(device, &with_bias));
    WANT(launches("cublasLtMatmul") == 5 && launches("gemm_finish") == 0 && launches("gemm_team") == 0);
    yoke_device_close(device);
    return NULL;
}

/* The chosen algorithm keeps the contract, and its fields make it again. */
static const char *algorithms(void)
{
    char text[YOKEI_DETAIL_BYTES], again[YOKEI_DETAIL_BYTES], name[160];
    OPEN(device);
    WANT(multiplies(device, &deep));
    yokei_algorithm_used(device, YOKE_OP_gemm, text, sizeof text);
    /* The stand-in prefers parts in the result's type wherever it may. Parts in f32 are what is left. */
    WANT(strstr(text, ",splitk=4,reduction=2,"));
    WANT(!strncmp(text, "algo=21,", 8)); /* says the flag of f16, as NVIDIA's fastest ones for bf16 do */
    WANT(multiplies(device, &f32));
    yokei_algorithm_used(device, YOKE_OP_gemm, text, sizeof text);
    /* Its first algorithms for f32 shorten the inputs, and are left out. */
    WANT(!strncmp(text, "algo=1,", 7) && strstr(text, ",splitk=1,reduction=0,"));
    snprintf(name, sizeof name, "cublaslt:%s", text);
    WANT(!yoke_variant_force(device, "gemm", name));
    WANT(multiplies(device, &f32));
    yokei_algorithm_used(device, YOKE_OP_gemm, again, sizeof again);
    WANT(!strcmp(text, again));
    /* Another tile is another algorithm, and runs too. */
    WANT(
        !yoke_variant_force(device, "gemm",
                            "cublaslt:algo=0,tile=3,stages=1,splitk=1,reduction=0,swizzle=0,custom=0,inner=0,"
                            "cluster=0"));
    WANT(multiplies(device, &f32));
    yokei_algorithm_used(device, YOKE_OP_gemm, again, sizeof again);
    WANT(strstr(again, "tile=3,stages=1"));
    yoke_device_close(device);
    return NULL;
}

static const char *refused_algorithms(void)
{
    static const struct {
        const char *detail, *why;
    } rows[] = {
        { "algo=5,tile=4,stages=4,splitk=1,reduction=0,swizzle=0,custom=0,inner=0,cluster=0",
          "does not compute with the inputs" }, /* TF32 */
        { "algo=1,tile=2,stages=0,splitk=4,reduction=4,swizzle=0,custom=0,inner=0,cluster=0",
          "in the result's type" },
        { "algo=1,tile=2,stages=0,splitk=4,reduction=1,swizzle=0,custom=0,inner=0,cluster=0",
          "order that changes" },
        { "algo=0,tile=9,stages=0,splitk=1,reduction=0,swizzle=0,custom=0,inner=0,cluster=0",
          "not supported" },
        { "algo=99,tile=1,stages=0,splitk=1,reduction=0,swizzle=0,custom=0,inner=0,cluster=0",
          "unsupported value" },
    };
    OPEN(device);
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        char name[160];
        snprintf(name, sizeof name, "cublaslt:%s", rows[i].detail);
        WANT(!yoke_variant_force(device, "gemm", name));
        WANT(!multiplies(device, &f32));
        WANT(strstr(yoke_last_error(), rows[i].why));
    }
    WANT(yoke_variant_force(device, "gemm", "cublaslt:tile=1") == YOKE_EINVAL);
    WANT(yoke_variant_force(device, "gemm", "team64:algo=1") == YOKE_EINVAL);
    yoke_device_close(device);
    return NULL;
}

/* Addresses that are less aligned get another algorithm, which needs no more scratch memory. */
static const char *unaligned(void)
{
    char text[YOKEI_DETAIL_BYTES];
    OPEN(device);
    struct product p = deep;
    for (p.skip = 0; p.skip < 3; p.skip++) {
        WANT(multiplies(device, &p));
        WANT(!strcmp(used(device), "cublaslt"));
        yokei_algorithm_used(device, YOKE_OP_gemm, text, sizeof text);
        WANT(!strncmp(text, p.skip == 0 ? "algo=21," : p.skip == 1 ? "algo=31," : "algo=24,", 8));
    }
    yoke_device_close(device);
    return NULL;
}

/* ---- Yoke's kernels run, and there is a reason ---- */

static const char *runs_own(yoke_device *device, const char *reason)
{
    WANT(strstr(products_of(device), reason));
    WANT(multiplies(device, &f32) && multiplies(device, &bf16));
    WANT(!strcmp(used(device), "team64"));
    WANT(launches("cublasLtMatmul") == 0 && launches("gemm_team") == 2);
    WANT(yoke_variant_force(device, "gemm", "cublaslt") == YOKE_EINVAL);
    yoke_device_close(device);
    return NULL;
}

static const char *without_handle(void)
{
    OPEN(device);
    return runs_own(device, "does not start: cublasLtCreate failed: the library was not initialized (1)");
}

/* YOKE_DATA_DIR names a folder with the stand-in driver alone. */
static const char *without_library(void)
{
    OPEN(device);
    return runs_own(device, "by Yoke's kernels: no cuBLASLt (");
}

static const char *with_old_library(void)
{
    OPEN(device);
    return runs_own(device, "has no symbol cublasLtCreate");
}

/*
 * The first call of the heuristic fails. The product it was for is Yoke's own from then on; others are not.
 */
static const char *unsupported_shape(void)
{
    OPEN(device);
    WANT(multiplies(device, &f32) && multiplies(device, &f32));
    WANT(!strcmp(used(device), "team64") && launches("cublasLtMatmul") == 0);
    WANT(!yoke_variant_force(device, "gemm", "cublaslt"));
    WANT(!multiplies(device, &f32));
    WANT(strstr(yoke_last_error(),
                "gemm by cuBLASLt 13.1.0: the functionality requested is not supported (15)"));
    WANT(!yoke_variant_force(device, "gemm", NULL));
    WANT(multiplies(device, &bf16));
    WANT(!strcmp(used(device), "cublaslt"));
    yoke_device_close(device);
    return NULL;
}

static const char *failing_call(void)
{
    OPEN(device);
    WANT(multiplies(device, &f32));
    WANT(!multiplies(device, &f32));
    WANT(strstr(yoke_last_error(),
                "cuda:0: gemm by cuBLASLt 13.1.0: cublasLtMatmul of M 24 N 40 K 33 failed: "));
    WANT(multiplies(device, &f32));
    yoke_device_close(device);
    return NULL;
}

/* f32 is never shortened. The 16-bit types have nothing to shorten. */
static const char *short_f32(void)
{
    OPEN(device);
    WANT(strstr(products_of(device), "; those of f32 by Yoke's kernels: "));
    WANT(strstr(products_of(device), "may let cuBLASLt replace f32 by "));
    WANT(multiplies(device, &f32));
    WANT(!strcmp(used(device), "team64"));
    WANT(multiplies(device, &bf16));
    WANT(!strcmp(used(device), "cublaslt"));
    WANT(!yoke_variant_force(device, "gemm", "cublaslt"));
    WANT(!multiplies(device, &f32));
    WANT(strstr(yoke_last_error(), "unset it, or set it to 0"));
    yoke_device_close(device);
    return NULL;
}

static const char *full_f32(void)
{
    OPEN(device);
    WANT(!strstr(products_of(device), "f32"));
    WANT(multiplies(device, &f32));
    WANT(!strcmp(used(device), "cublaslt"));
    yoke_device_close(device);
    return NULL;
}

/* A tuning file chooses an algorithm where it is usable. Elsewhere the built-in rule applies. */
static const char *tuned(void)
{
    char text[YOKEI_DETAIL_BYTES];
    OPEN(device);
    WANT(multiplies(device, &f32));
    yokei_algorithm_used(device, YOKE_OP_gemm, text, sizeof text);
    WANT(!strcmp(text, "algo=0,tile=4,stages=1,splitk=1,reduction=0,swizzle=1,custom=0,inner=0,cluster=0"));
    WANT(multiplies(device, &bf16)); /* algorithm 0 has no 16-bit types */
    yokei_algorithm_used(device, YOKE_OP_gemm, text, sizeof text);
    WANT(!strncmp(text, "algo=21,", 8));
    WANT(multiplies(device, &deep)); /* the file has another line for its size */
    WANT(!strcmp(used(device), "team64"));
    yoke_device_close(device);
    return NULL;
}

/* ---- the tests ---- */

static void library(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_SEED", "1", by_library);
    cuda_in_child("YOKE_EMULATE_DELAY_US", "2000", by_library); /* the commands keep the stream's order */
    cuda_in_child("YOKE_EMULATE", "cuda:8.0", by_library);
    cuda_in_child("YOKE_EMULATE_SEED", "1", algorithms);
    cuda_in_child("YOKE_EMULATE_SEED", "1", rows_with_a_tail);
    cuda_in_child("YOKE_EMULATE_SEED", "1", refused_algorithms);
    cuda_in_child("YOKE_EMULATE_SEED", "1", unaligned);
}

static void fallbacks(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_FAIL", "cublaslt-create@1", without_handle);
    cuda_in_child("YOKE_EMULATE_FAIL", "cublaslt-heuristic@1", unsupported_shape);
    cuda_in_child("YOKE_EMULATE_FAIL", "cublaslt-matmul@2", failing_call);
    cuda_in_child("NVIDIA_TF32_OVERRIDE", "1", short_f32);
    cuda_in_child("CUBLAS_EMULATE_SINGLE_PRECISION", "1", short_f32);
    cuda_in_child("NVIDIA_TF32_OVERRIDE", "0", full_f32);
}

/*
 * A folder in place of the stand-in's own: the driver, and `target` as cuBLASLt (NULL: nothing). The folder
 * has a long path, and a reason must not lose its end by that.
 */
static void with_folder(const char *target, const char *(*test)(void))
{
    char folder[2048], path[4096], here[2048], to[4200];
    assert_non_null(getcwd(here, sizeof here));
    yokei_text(folder, sizeof folder, "%s/%0200d", test_folder, 0);
    yokei_text(path, sizeof path, "%s/emulate/cuda", folder);
    assert_ok(yokei_make_folder(path));
    yokei_text(path, sizeof path, "%s/emulate/cuda/libcuda-emulated.so.1", folder);
    yokei_text(to, sizeof to, "%s/emulate/cuda/.libs/libcuda-emulated.so.1", here);
    unlink(path);
    assert_int_equal(symlink(to, path), 0);
    yokei_text(path, sizeof path, "%s/emulate/cuda/libcublasLt-emulated.so.13", folder);
    unlink(path);
    if (target) assert_int_equal(symlink(target, path), 0);
    cuda_in_child("YOKE_DATA_DIR", folder, test);
}

static void libraries(void **state)
{
    Dl_info c;
    (void)state;
    assert_true(dladdr((void *)(uintptr_t)&dlopen, &c) != 0);
    with_folder(NULL, without_library);
    with_folder(c.dli_fname, with_old_library);
}

static void tuning(void **state)
{
    (void)state;
    char path[4096];
    yokei_text(path, sizeof path, "%s/lt.tune", test_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(
        "yoke-tune 1 cuda *\n"
        "gemm * 0 cublaslt:algo=0,tile=4,stages=1,splitk=1,reduction=0,swizzle=1,custom=0,inner=0,cluster=0\n"
        "gemm * 300000 team64\n",
        file);
    fclose(file);
    cuda_in_child("YOKE_TUNE_FILE", path, tuned);
}

/* The text of fields is read as it was written, and no other text is read. */
static void fields(void **state)
{
    static const char *const wrong[] = {
        "",
        "algo=1",
        "algo=1,tile=2,stages=3,splitk=4,reduction=2,swizzle=1,custom=5,inner=6,cluster=7,",
        "algo=-1,tile=2,stages=3,splitk=4,reduction=2,swizzle=1,custom=5,inner=6,cluster=7",
        "algo=1,tile=2,stages=3,splitk=4,reduction=2,swizzle=1,custom=5,inner=65536,cluster=7",
        "algo=1,stages=3,tile=2,splitk=4,reduction=2,swizzle=1,custom=5,inner=6,cluster=7",
        "algo=99999999999999999999,tile=2,stages=3,splitk=4,reduction=2,swizzle=1,custom=5,inner=6,cluster=7"
    };
    const struct cuda_algorithm written = { 2147483647, 600, 35, 128, 2, 1, 255, 65535, 65534 };
    struct cuda_algorithm read;
    char text[YOKEI_DETAIL_BYTES];
    (void)state;
    yokei_cuda_algorithm_text(&written, text, sizeof text);
    assert_string_equal(text,
                        "algo=2147483647,tile=600,stages=35,splitk=128,reduction=2,swizzle=1,custom=255,"
                        "inner=65535,cluster=65534");
    assert_true(yokei_cuda_algorithm_parse(text, &read));
    assert_memory_equal(&read, &written, sizeof read);
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++) assert_false(yokei_cuda_algorithm_parse(wrong[i], &read));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),    cmocka_unit_test(library), cmocka_unit_test(fallbacks),
        cmocka_unit_test(libraries), cmocka_unit_test(tuning),
    };
    static const char *const unset[] = { "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION",
                                         "YOKE_EMULATE_FAIL", "YOKE_DATA_DIR", "YOKE_TUNE_FILE" };
    for (size_t i = 0; i < YOKE_COUNT(unset); i++) unsetenv(unset[i]);
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    return cmocka_run_group_tests_name("cuda_cublaslt", tests, make_test_folder, remove_test_folder);
}
