/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products of the HIP backend by rocBLAS and hipBLASLt, on the stand-ins: which of them runs, with
 * which reason, the trial of hipBLASLt's algorithms, and what follows where one library is missing, has
 * another version or refuses. tests/conform looks at the numbers of more shapes.
 */
#include "tests/unit/cuda_test.h"

#include <dlfcn.h>

#include "core/backend.h"
#include "core/tune.h"
#include "tests/unit/folder.h"

#define OPEN(device)                                                                  \
    yoke_device *device = NULL;                                                       \
    if (yoke_device_open("hip:0", NULL, &device)) {                                   \
        if (strstr(yoke_last_error(), "no compiler for")) return "skip: no compiler"; \
        WANT(!"the device opens");                                                    \
    }
#define SPLIT "algo=4,version=100200" /* splits sums of 256 or more terms in 4 parts */
#define WHOLE "algo=1,version=100200"

/* How often the stand-ins ran a kernel or a call of this name. */
static uint64_t launches(const char *name)
{
    uint64_t (*counts)(const char *, void *) = NULL;
    void *library = dlopen("libamdhip64-emulated.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = library ? dlsym(library, "yoke_emulate_counts") : NULL;
    memcpy(&counts, &symbol, sizeof symbol);
    return counts ? counts(name, NULL) : 0;
}

/* A product of small whole numbers, which every algorithm computes exactly: C = 2 op(A) op(B) + C. */
enum { MOST = 2 * 640 * 64 };
struct product {
    yoke_dtype dtype, out_dtype;
    int64_t M, N, K;
    bool trans_a, trans_b;
    int64_t batch;
    int64_t skip; /* elements before A, so that its address is less aligned */
};
static const struct product f32 = { .dtype = YOKE_F32, .out_dtype = YOKE_F32, .M = 24, .N = 40, .K = 33 };
static const struct product f16 = { .dtype = YOKE_F16, .out_dtype = YOKE_F16, .M = 24, .N = 40, .K = 32 };
static const struct product bf16 = { .dtype = YOKE_BF16, .out_dtype = YOKE_F32, .M = 24, .N = 40, .K = 32 };
static const struct product deep = { .dtype = YOKE_BF16, .out_dtype = YOKE_F32, .M = 16, .N = 32, .K = 640 };

static int element(int64_t i, int which) { return (int)((i * (which ? 7 : 5) + i / 9) % 3) - which; }

/* What stands in row i and column k of a matrix that is stored by rows, or transposed. */
static int at(int64_t i, int64_t k, int64_t rows, int64_t columns, bool transposed, int64_t batch, int which)
{
    return element(batch * rows * columns + (transposed ? k * rows + i : i * columns + k), which);
}

static void fill(char *to, int64_t n, yoke_dtype dtype, int which)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = (float)element(i, which);
        yoke_convert(YOKE_F32, &x, dtype, to + (size_t)i * yoke_dtype_bytes(dtype), 1);
    }
}

static bool is_right(const struct product *p, const char *c, int64_t batches)
{
    for (int64_t i = 0; i < batches * p->M * p->N; i++) {
        const int64_t b = i / (p->M * p->N), m = i / p->N % p->M, n = i % p->N;
        float got;
        long sum = element(i, 1);
        yoke_convert(p->out_dtype, c + (size_t)i * yoke_dtype_bytes(p->out_dtype), YOKE_F32, &got, 1);
        for (int64_t k = 0; k < p->K; k++)
            sum += 2L * at(m, k, p->M, p->K, p->trans_a, b, 0) * at(k, n, p->K, p->N, p->trans_b, b, 1);
        if (got != (float)sum) return false;
    }
    return true;
}

/* Run a product. Returns whether it succeeded with the right numbers. */
static bool multiplies(yoke_device *device, const struct product *p)
{
    static char a[4 * MOST], b[4 * MOST], c[4 * MOST];
    const int64_t batch = p->batch ? p->batch : 1;
    const size_t in = yoke_dtype_bytes(p->dtype), out = yoke_dtype_bytes(p->out_dtype);
    char *d = NULL;
    yoke_stream *stream;
    struct yoke_gemm_args args = YOKE_ARGS(gemm, .dtype = p->dtype, .out_dtype = p->out_dtype, .M = p->M,
                                           .N = p->N, .K = p->K, .batch = batch, .trans_a = p->trans_a,
                                           .trans_b = p->trans_b, .lda = p->trans_a ? p->M : p->K,
                                           .ldb = p->trans_b ? p->K : p->N, .ldc = p->N,
                                           .stride_a = p->M * p->K, .stride_b = p->K * p->N,
                                           .stride_c = p->M * p->N, .alpha = 2, .beta = 1);
    struct yoke_cost cost = { .size = sizeof cost };
    if (yoke_stream_create(device, &stream)) return false;
    fill(a, batch * p->M * p->K, p->dtype, 0);
    fill(b, batch * p->K * p->N, p->dtype, 1);
    fill(c, batch * p->M * p->N, p->out_dtype, 1);
    yoke_status status = yoke_gemm_can(device, &args, &cost);
    if (!status) status = yoke_stream_reserve(stream, cost.scratch_bytes);
    if (!status) status = yoke_alloc(device, 3 * sizeof a, (void **)&d);
    args.a = d + (size_t)p->skip * in, args.b = d + sizeof a, args.c = d + 2 * sizeof a;
    if (!status)
        status = yoke_copy_to_device(stream, d + (size_t)p->skip * in, a, (size_t)(batch * p->M * p->K) * in);
    if (!status) status = yoke_copy_to_device(stream, d + sizeof a, b, (size_t)(batch * p->K * p->N) * in);
    if (!status)
        status = yoke_copy_to_device(stream, d + 2 * sizeof a, c, (size_t)(batch * p->M * p->N) * out);
    if (!status) status = yoke_gemm(stream, &args);
    if (!status) status = yoke_copy_to_host(stream, c, args.c, (size_t)(batch * p->M * p->N) * out);
    struct yokei_error saved;
    yokei_error_save(&saved);
    const yoke_status end = yoke_stream_sync(stream); /* what was queued before an error uses the memory */
    if (status) yokei_error_restore(&saved);
    if (d) yoke_free(device, d);
    yoke_stream_destroy(stream);
    return !status && !end && is_right(p, c, batch);
}

/* The variant that the last product ran by, and the algorithm. */
static const char *used(yoke_device *device)
{
    static char text[256], algorithm[YOKEI_DETAIL_BYTES];
    double size, edge;
    yokei_algorithm_used(device, YOKE_OP_gemm, algorithm, sizeof algorithm);
    snprintf(text, sizeof text, "%s:%s", yokei_variant_used(device, YOKE_OP_gemm, &size, &edge), algorithm);
    return text;
}

static const char *products_of(const yoke_device *device)
{
    static char text[2600];
    device->backend->device->extras->products(device, text, sizeof text);
    return text;
}

/* The messages so far. */
static char said[4000];
static void keep(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level;
    yokei_text(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

/* Whether exactly one message has these words. */
static bool said_once(const char *words)
{
    const char *first = strstr(said, words);
    return first && !strstr(first + 1, words);
}

/* ---- both libraries are there ---- */

static const char *rocblas_first(void)
{
    OPEN(device);
    WANT(strstr(products_of(device), "matrix products by rocBLAS 4.2.0.stand-in ("));
    WANT(strstr(products_of(device), "; or, where it is tuned, by hipBLASLt 1.2.0 ("));
    WANT(multiplies(device, &f32) && !strcmp(used(device), "rocblas:algo=standard"));
    WANT(multiplies(device, &deep) && !strcmp(used(device), "rocblas:algo=standard"));
    WANT(launches("hipblasLtMatmul") == 0); /* nor is anything tried */
    yoke_device_close(device);
    return NULL;
}

/* All types, transposes and batches, and the algorithms by their numbers. */
static const char *by_hipblaslt(void)
{
    static const struct product *const all[] = { &f32, &f16, &bf16 };
    OPEN(device);
    for (size_t i = 0; i < YOKE_COUNT(all); i++)
        for (int form = 0; form < 8; form++) {
            struct product p = *all[i];
            p.trans_a = form & 1, p.trans_b = form & 2, p.batch = form & 4 ? 2 : 1;
            WANT(!yoke_variant_force(device, "gemm", "hipblaslt"));
            WANT(multiplies(device, &p) && !strcmp(used(device), "hipblaslt:" WHOLE));
        }
    WANT(multiplies(device, &deep) && !strcmp(used(device), "hipblaslt:" SPLIT));
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt-2"));
    WANT(multiplies(device, &deep) && !strcmp(used(device), "hipblaslt-2:" WHOLE));
    WANT(!multiplies(device, &f32) && strstr(yoke_last_error(), "it has only 1 algorithm for this product"));
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt:" WHOLE));
    WANT(multiplies(device, &deep) && !strcmp(used(device), "hipblaslt:" WHOLE));
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt:algo=2,version=100200"));
    WANT(!multiplies(device, &deep) && strstr(yoke_last_error(), "it is not among the first 16"));
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt:algo=1,version=800"));
    WANT(!multiplies(device, &deep) && strstr(yoke_last_error(), "one of version 800, and this is version"));
    WANT(yoke_variant_force(device, "gemm", "hipblaslt:algo=1") == YOKE_EINVAL);
    WANT(yoke_variant_force(device, "gemm", "hipblaslt:algo=01,version=800") == YOKE_EINVAL);
    WANT(!yoke_variant_force(device, "gemm", "rocblas:" WHOLE));
    WANT(!multiplies(device, &deep) && strstr(yoke_last_error(), "it is an algorithm of hipBLASLt"));
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt:algo=standard"));
    WANT(!multiplies(device, &deep) && strstr(yoke_last_error(), "it is an algorithm of rocBLAS"));
    struct product p = f32;
    p.skip = 1;
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt"));
    WANT(!multiplies(device, &p) && strstr(yoke_last_error(), "how addresses must be aligned"));
    yoke_device_close(device);
    return NULL;
}

struct presets {
    char product[YOKEI_PRODUCT_BYTES];
};
static void keep_product(void *context, const char *product, const char *algorithm)
{
    struct presets *presets = context;
    (void)algorithm;
    yokei_text(presets->product, sizeof presets->product, "%s", product);
}

/* A plan names an algorithm for a product, of either library. */
static const char *planned(void)
{
    struct presets presets;
    OPEN(device);
    const struct yoke_device_extras *extras = device->backend->device->extras;
    WANT(multiplies(device, &deep));
    extras->products_used(device, keep_product, &presets);
    WANT(!extras->product_set(device, presets.product, SPLIT));
    WANT(multiplies(device, &deep) && strstr(used(device), ":" SPLIT));
    WANT(!extras->product_set(device, presets.product, "algo=standard"));
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt"));
    WANT(multiplies(device, &deep) && strstr(used(device), ":algo=standard"));
    WANT(!extras->product_set(device, presets.product, "algo=77,version=100200"));
    WANT(multiplies(device, &deep) && strstr(used(device), ":" SPLIT)); /* as if there were no plan */
    WANT(extras->product_set(device, presets.product, "algo=x") == YOKE_ECONFIG);
    yoke_device_close(device);
    return NULL;
}

/* ---- a tuning file names hipBLASLt ---- */

static const char *tuned(void)
{
    OPEN(device);
    WANT(multiplies(device, &deep) && !strcmp(used(device), "hipblaslt:" WHOLE));
    struct product p = deep;
    p.skip = 1;
    WANT(multiplies(device, &p) && !strcmp(used(device), "rocblas:algo=standard"));
    yoke_device_close(device);
    return NULL;
}

static const char *tuned_for_another_version(void)
{
    OPEN(device);
    WANT(multiplies(device, &deep) && !strcmp(used(device), "rocblas:algo=standard"));
    yoke_device_close(device);
    return NULL;
}

/* The heuristic refuses the first two products. */
static const char *refusing(void)
{
    struct product other = deep;
    OPEN(device);
    yoke_log_set(keep, NULL, YOKE_LOG_INFO);
    WANT(multiplies(device, &deep) && !strcmp(used(device), "rocblas:algo=standard"));
    WANT(multiplies(device, &deep) && !strcmp(used(device), "rocblas:algo=standard"));
    WANT(
        said_once("does not multiply M 16 N 32 K 640: its heuristic refuses the product: not supported (7)"));
    other.K = 320;
    WANT(multiplies(device, &other) && !strncmp(used(device), "hipblaslt:", 10));
    yoke_device_close(device);
    return NULL;
}

/* The library is there, but not rocBLAS. One of the products of the trial adds in another order. */
static const char *another_order(void)
{
    OPEN(device);
    WANT(strstr(products_of(device), "matrix products by hipBLASLt 1.2.0 ("));
    WANT(strstr(products_of(device), "; YOKE_ROCBLAS=off turns rocBLAS off"));
    yoke_log_set(keep, NULL, YOKE_LOG_WARN);
    WANT(multiplies(device, &deep) && !strcmp(used(device), "hipblaslt:" WHOLE));
    WANT(said_once("its algorithm 4 adds in an order that changes from run to run"));
    yoke_device_close(device);
    return NULL;
}

/* No algorithm is left, so Yoke's own kernel multiplies. */
static const char *cut_inputs(void)
{
    OPEN(device);
    yoke_log_set(keep, NULL, YOKE_LOG_WARN);
    WANT(multiplies(device, &f32) && !strncmp(used(device), "team64:", 7));
    WANT(multiplies(device, &f32) && said_once("its algorithm 1 cuts f32 inputs"));
    yoke_device_close(device);
    return NULL;
}

static const char *failing_call(void)
{
    OPEN(device);
    WANT(!yoke_variant_force(device, "gemm", "hipblaslt"));
    WANT(!multiplies(device, &bf16));
    WANT(strstr(yoke_last_error(), "hipblasLtMatmul of M 24 N 40 K 32 failed: execution failed (5)"));
    WANT(multiplies(device, &bf16));
    yoke_device_close(device);
    return NULL;
}

/* ---- hipBLASLt is absent ---- */

static const char *reason; /* why */

static const char *without_hipblaslt(void)
{
    OPEN(device);
    WANT(strstr(products_of(device), "matrix products by rocBLAS 4.2.0.stand-in ("));
    if (!strstr(products_of(device), reason)) return products_of(device);
    WANT(multiplies(device, &f32) && !strcmp(used(device), "rocblas:algo=standard"));
    WANT(yoke_variant_force(device, "gemm", "hipblaslt") == YOKE_EINVAL);
    yoke_device_close(device);
    return NULL;
}

static const char *without_both(void)
{
    OPEN(device);
    WANT(!strcmp(products_of(device),
                 "matrix products by Yoke's kernels: YOKE_ROCBLAS=off turns rocBLAS off; "
                 "YOKE_HIPBLASLT=off turns hipBLASLt off"));
    WANT(multiplies(device, &f32) && !strncmp(used(device), "team64:", 7));
    yoke_device_close(device);
    return NULL;
}

/* ---- the tests ---- */

static void both(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_SEED", "1", rocblas_first);
    cuda_in_child("YOKE_EMULATE_SEED", "1", by_hipblaslt);
    cuda_in_child("YOKE_EMULATE_SEED", "1", planned);
}

static void write_tuning(const char *detail, char path[4096])
{
    yokei_text(path, 4096, "%s/lt.tune", test_folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "yoke-tune 1 hip *\ngemm * 0 hipblaslt%s\n", detail);
    fclose(file);
}

static void tuning(void **state)
{
    char path[4096];
    (void)state;
    write_tuning(":" WHOLE, path);
    cuda_in_child("YOKE_TUNE_FILE", path, tuned);
    write_tuning(":algo=1,version=800", path);
    cuda_in_child("YOKE_TUNE_FILE", path, tuned_for_another_version);
    write_tuning("", path);
    setenv("YOKE_TUNE_FILE", path, 1);
    cuda_in_child("YOKE_EMULATE_FAIL", "hipblaslt-heuristic@1", refusing);
    unsetenv("YOKE_TUNE_FILE");
}

/* A product of the trial, or the one behind the trial, differs. */
static void trials(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_FAIL", "hipblaslt-matmul@11", failing_call);
    setenv("YOKE_ROCBLAS", "off", 1);
    cuda_in_child("YOKE_EMULATE_FAIL", "hipblaslt-order@7", another_order);
    cuda_in_child("YOKE_EMULATE_FAIL", "hipblaslt-short@2", cut_inputs);
    cuda_in_child("YOKE_HIPBLASLT", "off", without_both);
    unsetenv("YOKE_ROCBLAS");
}

static void absent(void **state)
{
    static const struct {
        const char *variable, *value, *reason;
    } rows[] = {
        { "YOKE_HIPBLASLT", "off", "; YOKE_HIPBLASLT=off turns hipBLASLt off" },
        { "YOKE_HIPBLASLT", "/nowhere/libhipblaslt.so",
          "; no hipBLASLt (/nowhere/libhipblaslt.so: cannot open" },
        { "YOKE_HIPBLASLT", "emulate/hip/.libs/librocblas-emulated.so.4", "has no symbol hipblasLtCreate" },
        { "YOKE_EMULATE_FAIL", "hipblaslt-create@1",
          "does not start: hipblasLtCreate failed: not initialised (1)" },
        { "YOKE_EMULATE_FAIL", "hipblaslt-version@1",
          "is hipBLASLt 2.1.0, and Yoke knows 0.6 to 1: install" },
        { "YOKE_EMULATE_HIP", "5.2", "; Yoke uses hipBLASLt from ROCm 6 on, and this is HIP 5" },
    };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        reason = rows[i].reason;
        cuda_in_child(rows[i].variable, rows[i].value, without_hipblaslt);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(both), cmocka_unit_test(tuning),
                                        cmocka_unit_test(trials), cmocka_unit_test(absent) };
    static const char *const unset[] = { "YOKE_EMULATE_FAIL", "YOKE_ROCBLAS", "YOKE_HIPBLASLT",
                                         "YOKE_TUNE_FILE", "YOKE_EMULATE_HIP" };
    for (size_t i = 0; i < YOKE_COUNT(unset); i++) unsetenv(unset[i]);
    setenv("YOKE_EMULATE", "hip:gfx942", 1);
    return cmocka_run_group_tests_name("hip_products", tests, make_test_folder, remove_test_folder);
}
