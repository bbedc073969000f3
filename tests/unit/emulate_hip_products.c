/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-ins of rocBLAS and hipBLASLt: products on the stand-in libamdhip64's memory, their checks and
 * their errors. Each case runs in a process of its own, which opens the libraries from the build folder.
 */
#include "tests/unit/emulate_hip.h"

#include <dlfcn.h>
#include <math.h>

#include "emulate/gpu/product.h"
#include "emulate/hip/hipblaslt.h"
#include "emulate/hip/rocblas.h"

// clang-format off
#define HIP_CALLS(X) \
    X(hipMalloc) X(hipFree) X(hipMemcpy) X(hipMemsetD32Async) X(hipStreamCreateWithFlags) \
    X(hipStreamSynchronize) X(hipDeviceSynchronize)
#define ROCBLAS_CALLS(X) \
    X(rocblas_create_handle) X(rocblas_destroy_handle) X(rocblas_set_stream) X(rocblas_set_atomics_mode) \
    X(rocblas_get_version_string) X(rocblas_status_to_string) X(rocblas_gemm_ex) \
    X(rocblas_gemm_strided_batched_ex)
#define LT_CALLS(X) \
    X(hipblasLtCreate) X(hipblasLtDestroy) X(hipblasLtGetVersion) X(hipblasLtMatmulDescCreate) \
    X(hipblasLtMatmulDescDestroy) X(hipblasLtMatmulDescSetAttribute) X(hipblasLtMatrixLayoutCreate) \
    X(hipblasLtMatrixLayoutDestroy) X(hipblasLtMatrixLayoutSetAttribute) \
    X(hipblasLtMatmulPreferenceCreate) X(hipblasLtMatmulPreferenceDestroy) \
    X(hipblasLtMatmulPreferenceSetAttribute) X(hipblasLtMatmulAlgoGetHeuristic) X(hipblasLtMatmul)
// clang-format on

#define MEMBER(name) __typeof__(name) *name;
static struct {
    HIP_CALLS(MEMBER) ROCBLAS_CALLS(MEMBER) LT_CALLS(MEMBER) __typeof__(yoke_emulate_last_fault) *fault;
    __typeof__(yoke_emulate_counts) *counts;
} f;

static void find(void *library, const char *name, void *slot)
{
    void *at = dlsym(library, name);
    if (!at) printf("# there is no %s\n", name);
    CHECK(at);
    memcpy(slot, &at, sizeof at);
}

static void load_libraries(void)
{
    void *hip = dlopen("emulate/hip/.libs/libamdhip64-emulated.so.6", RTLD_NOW | RTLD_LOCAL);
    void *rocblas = dlopen("emulate/hip/.libs/librocblas-emulated.so.4", RTLD_NOW | RTLD_LOCAL);
    void *lt = dlopen("emulate/hip/.libs/libhipblaslt-emulated.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!hip || !rocblas || !lt) printf("# %s\n", dlerror());
    CHECK(hip && rocblas && lt);
#define FIND_HIP(name) find(hip, #name, &f.name);
#define FIND_ROCBLAS(name) find(rocblas, #name, &f.name);
#define FIND_LT(name) find(lt, #name, &f.name);
    HIP_CALLS(FIND_HIP)
    ROCBLAS_CALLS(FIND_ROCBLAS)
    LT_CALLS(FIND_LT)
    find(hip, "yoke_emulate_last_fault", &f.fault);
    find(hip, "yoke_emulate_counts", &f.counts);
}

/* Device memory with these bytes. */
static void *device(const void *from, size_t bytes)
{
    void *at;
    OK(f.hipMalloc(&at, bytes));
    if (from) OK(f.hipMemcpy(at, from, bytes, hipMemcpyHostToDevice));
    return at;
}

static float bfloat(uint16_t bits)
{
    const uint32_t word = (uint32_t)bits << 16;
    float x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* ---- rocBLAS ---- */

static rocblas_handle blas;
static const float one = 1, zero = 0, half = 0.5f;

static void start(void)
{
    char version[40];
    load_libraries();
    GIVES(rocblas_status_success, f.rocblas_create_handle(&blas));
    GIVES(rocblas_status_success, f.rocblas_get_version_string(version, sizeof version));
    CHECK(!strcmp(f.rocblas_status_to_string(rocblas_status_invalid_size), "rocblas_status_invalid_size"));
}

/* A = [1 2; 3 4; 5 6] and B = [1 0 2; 0 1 1], by columns. */
static const float a_values[] = { 1, 3, 5, 2, 4, 6 }, b_values[] = { 1, 0, 0, 1, 2, 1 };

static void small(void)
{
    float c[9] = { 10, 10, 10, 10, 10, 10, 10, 10, 10 }, got[9];
    const float wanted[] = { 1, 3, 5, 2, 4, 6, 4, 10, 16 };
    hipStream_t stream;
    start();
    OK(f.hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    GIVES(rocblas_status_success, f.rocblas_set_stream(blas, stream));
    void *a = device(a_values, sizeof a_values), *b = device(b_values, sizeof b_values),
         *d = device(c, sizeof c);
#define F32 rocblas_datatype_f32_r
#define GEMM(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc)                                                \
    f.rocblas_gemm_ex(blas, rocblas_operation_##ta, rocblas_operation_##tb, m, n, k, &one, a, F32, lda, b, \
                      F32, ldb, beta, c, F32, ldc, c, F32, ldc, F32, rocblas_gemm_algo_standard, 0, 0)
    GIVES(rocblas_status_success, GEMM(none, none, 3, 3, 2, a, 3, b, 2, &half, d, 3));
    OK(f.hipStreamSynchronize(stream));
    OK(f.hipMemcpy(got, d, sizeof got, hipMemcpyDeviceToHost));
    for (int i = 0; i < 9; i++) CHECK(got[i] == wanted[i] + 5);
    /* A transposed twice is the same product */
    GIVES(rocblas_status_success, GEMM(transpose, transpose, 2, 2, 3, a, 3, b, 2, &zero, d, 3));
    OK(f.hipStreamSynchronize(stream));
    OK(f.hipMemcpy(got, d, sizeof got, hipMemcpyDeviceToHost));
    CHECK(got[0] == 1 * 1 + 3 * 0 + 5 * 2 && got[4] == 2 * 0 + 4 * 1 + 6 * 1);
    CHECK(f.counts("rocblas_gemm_ex", NULL) == 2);
    GIVES(rocblas_status_invalid_size, GEMM(none, none, 3, 3, 2, a, 2, b, 2, &zero, d, 3));
    GIVES(rocblas_status_invalid_pointer, GEMM(none, none, 3, 3, 2, NULL, 3, b, 2, &zero, d, 3));
    GIVES(rocblas_status_success, GEMM(none, none, 0, 3, 2, a, 3, b, 2, &zero, d, 3));
    GIVES(rocblas_status_success, f.rocblas_destroy_handle(blas));
    GIVES(rocblas_status_invalid_handle, f.rocblas_destroy_handle(NULL));
}

static void batched(void)
{
    enum { N = 3 };
    uint16_t a[N * 4], b[N * 4];
    float got[N * 4];
    start();
    for (int i = 0; i < N * 4; i++)
        a[i] = (uint16_t)(i % 4 == 0 || i % 4 == 3 ? 0x3f80 : 0); /* ones in bf16 */
    for (int i = 0; i < N * 4; i++) b[i] = (uint16_t)(0x4000 + 8 * i);
    void *at_a = device(a, sizeof a), *at_b = device(b, sizeof b), *d = device(NULL, sizeof got);
    GIVES(rocblas_status_success,
          f.rocblas_gemm_strided_batched_ex(blas, rocblas_operation_none, rocblas_operation_none, 2, 2, 2,
                                            &one, at_a, rocblas_datatype_bf16_r, 2, 4, at_b,
                                            rocblas_datatype_bf16_r, 2, 4, &zero, d, F32, 2, 4, d, F32, 2, 4,
                                            N, F32, rocblas_gemm_algo_standard, 0, 0));
    OK(f.hipDeviceSynchronize());
    OK(f.hipMemcpy(got, d, sizeof got, hipMemcpyDeviceToHost));
    for (int i = 0; i < N * 4; i++) CHECK(got[i] == bfloat(b[i]));
}

/* With atomics the parts of a long sum are rounded to the result's type. */
static void atomics(void)
{
    enum { K = 1024 };
    static uint16_t a[K], b[K];
    uint16_t got[2];
    start();
    for (int i = 0; i < K; i++)
        a[i] = 0x3f80, b[i] = (uint16_t)(i < K / 4 ? 0x3f80 : 0x3b80); /* 1, and 2^-8 */
    void *at_a = device(a, sizeof a), *at_b = device(b, sizeof b), *d = device(NULL, sizeof got);
    for (int i = 0; i < 2; i++) {
        GIVES(rocblas_status_success,
              f.rocblas_set_atomics_mode(blas, i ? rocblas_atomics_not_allowed : rocblas_atomics_allowed));
        GIVES(rocblas_status_success,
              f.rocblas_gemm_ex(blas, rocblas_operation_transpose, rocblas_operation_none, 1, 1, K, &one,
                                at_a, rocblas_datatype_bf16_r, K, at_b, rocblas_datatype_bf16_r, K, &zero,
                                NULL, rocblas_datatype_bf16_r, 1, (uint16_t *)d + i, rocblas_datatype_bf16_r,
                                1, F32, rocblas_gemm_algo_standard, 0, 0));
    }
    OK(f.hipDeviceSynchronize());
    OK(f.hipMemcpy(got, d, sizeof got, hipMemcpyDeviceToHost));
    CHECK(bfloat(got[1]) == 260 && bfloat(got[0]) == 256); /* the sum is 259 */
}

static bool flushes;

/* MI200 takes subnormal numbers of f16 for zeros, unless the caller asks for the other units. */
static void subnormal(void)
{
    const uint16_t a = 0x0001, b = 0x7400; /* 2^-24, and 2^14 */
    float got[2];
    start();
    void *at_a = device(&a, sizeof a), *at_b = device(&b, sizeof b), *d = device(NULL, sizeof got);
    for (int i = 0; i < 2; i++)
        GIVES(rocblas_status_success,
              f.rocblas_gemm_ex(blas, rocblas_operation_none, rocblas_operation_none, 1, 1, 1, &one, at_a,
                                rocblas_datatype_f16_r, 1, at_b, rocblas_datatype_f16_r, 1, &zero, NULL, F32,
                                1, (float *)d + i, F32, 1, F32, rocblas_gemm_algo_standard, 0,
                                i ? rocblas_gemm_flags_fp16_alt_impl : rocblas_gemm_flags_none));
    OK(f.hipDeviceSynchronize());
    OK(f.hipMemcpy(got, d, sizeof got, hipMemcpyDeviceToHost));
    CHECK(got[0] == (flushes ? 0 : 0x1p-10f) && got[1] == 0x1p-10f);
}

/* Each byte is checked: a read of bytes that were never written, and a write behind the end. */
static void undefined(void)
{
    start();
    void *a = device(NULL, 64), *d = device(NULL, 64);
    GIVES(rocblas_status_success, GEMM(none, none, 2, 2, 2, a, 2, a, 2, &zero, d, 2));
    GIVES(hipErrorIllegalAddress, f.hipDeviceSynchronize());
    CHECK(strstr(f.fault(), "rocblas_gemm_ex: A of 8 bytes") && strstr(f.fault(), "never written"));
}

static void outside(void)
{
    start();
    void *a = device(a_values, 16), *d = device(NULL, 12);
    GIVES(rocblas_status_success, GEMM(none, none, 2, 2, 2, a, 2, a, 2, &zero, d, 2));
    GIVES(hipErrorIllegalAddress, f.hipDeviceSynchronize());
    CHECK(strstr(f.fault(), "rocblas_gemm_ex: D of 8 bytes") && strstr(f.fault(), "may not touch"));
}

static void refuses(void)
{
    load_libraries();
    GIVES(rocblas_status_internal_error, f.rocblas_create_handle(&blas));
    GIVES(rocblas_status_success, f.rocblas_create_handle(&blas));
    void *a = device(a_values, 16), *d = device(NULL, 16);
    GIVES(rocblas_status_internal_error, GEMM(none, none, 2, 2, 2, a, 2, a, 2, &zero, d, 2));
    GIVES(rocblas_status_success, GEMM(none, none, 2, 2, 2, a, 2, a, 2, &zero, d, 2));
}

static void test_rocblas(void **state)
{
    (void)state;
    run_case("", small);
    run_case("", batched);
    run_case("", atomics);
    flushes = false;
    run_case("", subnormal);
    flushes = true;
    run_case("YOKE_EMULATE=hip:gfx90a", subnormal);
    run_case("", undefined);
    run_case("", outside);
    run_case("YOKE_EMULATE_FAIL=rocblas-create@1,rocblas-gemm@1", refuses);
}

/* ---- hipBLASLt ---- */

static hipblasLtHandle_t lt;
static hipblasLtMatmulDesc_t desc;
static hipblasLtMatmulPreference_t preference;
static hipblasLtMatrixLayout_t layouts[4];

#define GOOD(call) GIVES(HIPBLAS_STATUS_SUCCESS, call)

/* The descriptions of a product with A transposed, as Yoke's are. */
static void describe(int64_t m, int64_t n, int64_t k, int in, int out)
{
    const int32_t transposed = HIPBLAS_OP_T;
    load_libraries();
    GOOD(f.hipblasLtCreate(&lt));
    GOOD(f.hipblasLtMatmulDescCreate(&desc, HIPBLAS_COMPUTE_32F, HIP_R_32F));
    GOOD(f.hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                           sizeof transposed));
    GOOD(f.hipblasLtMatmulPreferenceCreate(&preference));
    GOOD(f.hipblasLtMatrixLayoutCreate(&layouts[0], in, (uint64_t)k, (uint64_t)m, k));
    GOOD(f.hipblasLtMatrixLayoutCreate(&layouts[1], in, (uint64_t)k, (uint64_t)n, k));
    GOOD(f.hipblasLtMatrixLayoutCreate(&layouts[2], out, (uint64_t)m, (uint64_t)n, m));
    GOOD(f.hipblasLtMatrixLayoutCreate(&layouts[3], out, (uint64_t)m, (uint64_t)n, m));
}

static int heuristic(hipblasLtMatmulHeuristicResult_t results[4])
{
    int n;
    GOOD(f.hipblasLtMatmulAlgoGetHeuristic(lt, desc, layouts[0], layouts[1], layouts[2], layouts[3],
                                           preference, 4, results, &n));
    return n;
}

static void undo(void)
{
    for (int i = 0; i < 4; i++) GOOD(f.hipblasLtMatrixLayoutDestroy(layouts[i]));
    GOOD(f.hipblasLtMatmulPreferenceDestroy(preference));
    GOOD(f.hipblasLtMatmulDescDestroy(desc));
    GOOD(f.hipblasLtDestroy(lt));
    GIVES(HIPBLAS_STATUS_NOT_INITIALIZED, f.hipblasLtDestroy(NULL));
}

#define MATMUL(a, b, d, algo, workspace, bytes)                                                          \
    f.hipblasLtMatmul(lt, desc, &one, a, layouts[0], b, layouts[1], &zero, d, layouts[2], d, layouts[3], \
                      algo, workspace, bytes, NULL)

static void with_bias(void)
{
    enum { M = 3, N = 2, K = 4 };
    float a[M * K], b[N * K], bias[M] = { 100, 200, 300 }, got[M * N];
    hipblasLtMatmulHeuristicResult_t results[4];
    const uint32_t epilogue = HIPBLASLT_EPILOGUE_BIAS;
    int version;
    describe(M, N, K, HIP_R_32F, HIP_R_32F);
    GOOD(f.hipblasLtGetVersion(lt, &version));
    for (int i = 0; i < M * K; i++) a[i] = (float)i;
    for (int i = 0; i < N * K; i++) b[i] = (float)(i % 3);
    void *at_a = device(a, sizeof a), *at_b = device(b, sizeof b), *at_bias = device(bias, sizeof bias);
    void *d = device(NULL, sizeof got);
    GOOD(f.hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    CHECK(heuristic(results) == 1 && results[0].workspaceSize == 0);
    GIVES(HIPBLAS_STATUS_INVALID_VALUE, MATMUL(at_a, at_b, d, &results[0].algo, NULL, 0)); /* no bias */
    GOOD(f.hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, &at_bias,
                                           sizeof at_bias));
    GIVES(HIPBLAS_STATUS_INVALID_VALUE, MATMUL(at_a, at_b, d, NULL, NULL, 0));
    GOOD(MATMUL(at_a, at_b, d, &results[0].algo, NULL, 0));
    OK(f.hipMemcpy(got, d, sizeof got, hipMemcpyDeviceToHost));
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) {
            float sum = bias[i];
            for (int k = 0; k < K; k++) sum += a[i * K + k] * b[j * K + k];
            CHECK(got[j * M + i] == sum);
        }
    CHECK(f.counts("hipblasLtMatmul", NULL) == 1);
    undo();
}

static void with_workspace(void)
{
    enum { K = 512 };
    static float values[K];
    float got;
    uint64_t most = 1 << 20;
    hipblasLtMatmulHeuristicResult_t results[4];
    describe(1, 1, K, HIP_R_32F, HIP_R_32F);
    CHECK(heuristic(results) == 1);
    GOOD(f.hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                                 sizeof most));
    CHECK(heuristic(results) == 2 && results[0].workspaceSize == 16 && results[1].workspaceSize == 0);
    for (int i = 0; i < K; i++) values[i] = 1;
    void *a = device(values, sizeof values), *workspace = device(NULL, 16), *d = device(NULL, 4);
    GIVES(HIPBLAS_STATUS_INVALID_VALUE, MATMUL(a, a, d, &results[0].algo, NULL, 0));
    GIVES(HIPBLAS_STATUS_INVALID_VALUE, MATMUL(a, a, d, &results[0].algo, workspace, 8));
    GOOD(MATMUL(a, a, d, &results[0].algo, workspace, 16));
    OK(f.hipMemcpy(&got, d, sizeof got, hipMemcpyDeviceToHost));
    CHECK(got == K);
    undo();
}

static void wrong_products(void)
{
    hipblasLtMatmulHeuristicResult_t results[4];
    int n, conjugate = 113;
    const int32_t batch = 2;
    describe(4, 4, 4, HIP_R_16F, HIP_R_16BF);
#define HEURISTIC()                                                                                         \
    f.hipblasLtMatmulAlgoGetHeuristic(lt, desc, layouts[0], layouts[1], layouts[2], layouts[3], preference, \
                                      4, results, &n)
    GIVES(HIPBLAS_STATUS_NOT_SUPPORTED, HEURISTIC()); /* f16 to bf16 */
    for (int i = 2; i < 4; i++) GOOD(f.hipblasLtMatrixLayoutCreate(&layouts[i], HIP_R_16F, 4, 4, 4));
    GOOD(HEURISTIC());
    GIVES(HIPBLAS_STATUS_INVALID_VALUE,
          f.hipblasLtMatrixLayoutSetAttribute(layouts[3], HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, 8));
    GOOD(f.hipblasLtMatrixLayoutSetAttribute(layouts[3], HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                             sizeof batch));
    GIVES(HIPBLAS_STATUS_INVALID_VALUE, HEURISTIC());
    GOOD(f.hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_TRANSB, &conjugate, sizeof conjugate));
    GIVES(HIPBLAS_STATUS_NOT_SUPPORTED, HEURISTIC());
}

static void lt_refuses(void)
{
    hipblasLtMatmulHeuristicResult_t results[4];
    int n;
    load_libraries();
    GIVES(HIPBLAS_STATUS_NOT_INITIALIZED, f.hipblasLtCreate(&lt));
    describe(2, 2, 2, HIP_R_32F, HIP_R_32F);
    GIVES(HIPBLAS_STATUS_NOT_SUPPORTED, HEURISTIC());
    CHECK(heuristic(results) == 1);
    void *a = device(a_values, 16), *d = device(NULL, 16);
    GIVES(HIPBLAS_STATUS_EXECUTION_FAILED, MATMUL(a, a, d, &results[0].algo, NULL, 0));
    GOOD(MATMUL(a, a, d, &results[0].algo, NULL, 0));
}

static void test_hipblaslt(void **state)
{
    (void)state;
    run_case("", with_bias);
    run_case("", with_workspace);
    run_case("", wrong_products);
    run_case("YOKE_EMULATE_FAIL=hipblaslt-create@1,hipblaslt-heuristic@1,hipblaslt-matmul@1", lt_refuses);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rocblas), cmocka_unit_test(test_hipblaslt) };
    return cmocka_run_group_tests_name("emulate_hip_products", tests, NULL, NULL);
}
