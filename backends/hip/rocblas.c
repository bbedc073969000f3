/* SPDX-License-Identifier: Apache-2.0 */
/**
 * rocBLAS, AMD's library of matrix products: its file, the handle of a device, and products by it.
 * products.c chooses between it and hipBLASLt.
 *
 * rocBLAS stores matrices by columns. A matrix of Yoke, stored by rows, is its transpose there. So the
 * library computes C^T = op(B)^T op(A)^T: its first operand is Yoke's B, and its second is Yoke's A.
 *
 * A product has one algorithm, which the library chooses by the shape alone. Sums are in f32. Atomics are
 * forbidden, because their order would change the bits from run to run. The library adds no bias.
 */
#include <string.h>

#include "backends/hip/products.h"

static struct hip_rocblas rocblas;
static pthread_mutex_t rocblas_lock = PTHREAD_MUTEX_INITIALIZER;

static bool open_file(const char *folder, const char *name, char *why, size_t bytes)
{
/* clang-format off */
#define SYMBOL(result, name, parameters) { #name, &rocblas.name },
    /* clang-format on */
    static const struct yokei_symbol symbols[] = { YOKEI_ROCBLAS_FUNCTIONS(SYMBOL) };
#undef SYMBOL
    if (!yokei_folders_open_file(folder, name, rocblas.path, symbols, YOKE_COUNT(symbols), why, bytes))
        return false;
    if (rocblas.rocblas_get_version_string(rocblas.version, sizeof rocblas.version))
        yokei_text(rocblas.version, sizeof rocblas.version, "?");
    return true;
}

/* The versions of ROCm 7, 6 and 5. */
static const struct yokei_library_file names[] = { { "librocblas.so.5", 7 },
                                                   { "librocblas.so.4", 6 },
                                                   { "librocblas.so.3", 5 },
                                                   { "librocblas.so.2", 5 },
                                                   { "librocblas.so.0", 5 } };
static struct hip_product_file file = {
    .name = "rocBLAS",
    .variable = "YOKE_ROCBLAS",
    .package = "rocblas",
    .emulated = "librocblas-emulated.so.4",
    .files = names,
    .n_files = YOKE_COUNT(names),
    .open = open_file,
};

/* ---- products ---- */

/* Sizes, leading dimensions and numbers of products have 32 bits. */
static bool describe(const yoke_device *device, struct yokei_product_entry *e)
{
    const struct yokei_product_key *k = &e->key;
    const int64_t most = YOKE_MAX(YOKE_MAX(YOKE_MAX(k->M, k->N), YOKE_MAX(k->K, k->batch)),
                                  YOKE_MAX(YOKE_MAX(k->lda, k->ldb), k->ldc));
    (void)device;
    if (k->with_bias) yokei_text(e->reason, sizeof e->reason, "it adds no bias");
    if (most > INT32_MAX) yokei_text(e->reason, sizeof e->reason, "it has only sizes below 2^31");
    return !e->reason[0];
}

static void clear(const yoke_device *device, struct yokei_product_entry *e)
{
    (void)device;
    (void)e; /* describe makes nothing */
}

static const char only[] = "algo=standard";
static bool is_algorithm(const char *text) { return !strcmp(text, only); }

static bool adopt(const yoke_device *device, struct yokei_product_entry *e, const char *algorithm,
                  uint64_t workspace, char *why, size_t bytes)
{
    (void)device;
    (void)workspace;
    if (!is_algorithm(algorithm)) {
        yokei_text(why, bytes, "rocBLAS has the algorithm %s alone", only);
        return false;
    }
    yokei_text(e->algorithm, sizeof e->algorithm, "%s", only);
    return true;
}

static void take_ranked(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace)
{
    (void)adopt(device, e, only, workspace, NULL, 0);
}

static rocblas_datatype type_of(int64_t dtype)
{
    return dtype == YOKE_F16    ? rocblas_datatype_f16_r
           : dtype == YOKE_BF16 ? rocblas_datatype_bf16_r
                                : rocblas_datatype_f32_r;
}

static yoke_status issue(yoke_stream *stream, const struct yoke_gemm_args *a,
                         const struct yokei_product_entry *e, void *workspace)
{
    const struct hip_device *dev = hip_device(stream->device);
    const struct hip_rocblas *blas = dev->blas;
    const struct yokei_product_key *k = &e->key;
    const rocblas_operation first = k->trans_b ? rocblas_operation_transpose : rocblas_operation_none,
                            second = k->trans_a ? rocblas_operation_transpose : rocblas_operation_none;
    const rocblas_datatype in = type_of(k->dtype), out = type_of(k->out_dtype);
    (void)workspace;
    rocblas_status status = blas->rocblas_set_stream(dev->blas_handle, yokei_rt_stream(stream)->queue);
    if (!status)
        status = blas->rocblas_gemm_strided_batched_ex(
            dev->blas_handle, first, second, (rocblas_int)k->N, (rocblas_int)k->M, (rocblas_int)k->K,
            &a->alpha, a->b, in, (rocblas_int)k->ldb, k->stride_b, a->a, in, (rocblas_int)k->lda, k->stride_a,
            &a->beta, a->c, out, (rocblas_int)k->ldc, k->stride_c, a->c, out, (rocblas_int)k->ldc,
            k->stride_c, (rocblas_int)k->batch, rocblas_datatype_f32_r, rocblas_gemm_algo_standard, 0, 0);
    if (!status) return YOKE_OK;
    return yoke_fail(YOKE_EBACKEND,
                     "%s: gemm by rocBLAS %s: a product of M %lld N %lld K %lld failed: %s (%d)",
                     stream->device->info.spec, blas->version, (long long)a->M, (long long)a->N,
                     (long long)a->K, blas->rocblas_status_to_string(status), status);
}

/* The library has memory of its own, which belongs to the handle, so products need no workspace. */
const struct yokei_product_calls yokei_hip_rocblas_calls = {
    .describe = describe,
    .clear = clear,
    .adopt = adopt,
    .take_ranked = take_ranked,
    .is_algorithm = is_algorithm,
    .issue = issue,
};

/* ---- the device ---- */

bool yokei_hip_rocblas_attach(yoke_device *device)
{
    struct hip_device *dev = hip_device(device);
    pthread_mutex_lock(&rocblas_lock);
    const bool opens = yokei_hip_product_file_open(&file, dev->hip, dev->blas_reason,
                                                   sizeof dev->blas_reason);
    pthread_mutex_unlock(&rocblas_lock);
    if (!opens) return false;
    rocblas_status status = rocblas.rocblas_create_handle(&dev->blas_handle);
    if (!status) status = rocblas.rocblas_set_atomics_mode(dev->blas_handle, rocblas_atomics_not_allowed);
    if (!status) {
        dev->blas = &rocblas;
        return true;
    }
    yokei_text(dev->blas_reason, sizeof dev->blas_reason, "rocBLAS %s (%s) does not start: %s (%d)",
               rocblas.version, rocblas.path, rocblas.rocblas_status_to_string(status), status);
    if (dev->blas_handle) rocblas.rocblas_destroy_handle(dev->blas_handle);
    dev->blas_handle = NULL;
    return false;
}

void yokei_hip_rocblas_detach(yoke_device *device, bool entered)
{
    struct hip_device *dev = hip_device(device);
    if (dev->blas && entered) dev->blas->rocblas_destroy_handle(dev->blas_handle);
    dev->blas = NULL;
}
