/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Matrix products by cuBLASLt. backends/gpu/runtime/products.h keeps the table of products. This file
 * describes a product to the library, chooses its algorithm, and issues it. The library's heuristic ranks its
 * algorithms, and Yoke takes the first one that keeps Yoke's contract. An algorithm is always made from its
 * fields alone.
 *
 * cuBLASLt stores matrices by columns. A matrix of Yoke, stored by rows, is its transpose there. So the
 * library computes C^T = op(B)^T op(A)^T: its first operand is Yoke's B, and its second is Yoke's A.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "core/base/base.h"

enum { MOST_ALGORITHMS = 32, MOST_TRIALS = 32 };

/* What the library needs for a product. */
struct made {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, result; /* the library's A and B, and its C and D */
    cublasLtMatmulAlgo_t algo;
};
static struct made *made_of(const struct yokei_product_entry *e) { return e->made; }

/* A trial of the epilogue of an algorithm (bias.c). */
struct bias_trial {
    int64_t dtype, trans_a, trans_b;
    struct cuda_algorithm fields;
    const char *refused; /* NULL: the algorithm adds the bias as Yoke needs it */
};

/* The newest trials of a device. */
struct cuda_trials {
    struct bias_trial trials[MOST_TRIALS];
    int64_t n; /* all that were made */
};

struct cuda_trials *yokei_cuda_trials_create(void) { return calloc(1, sizeof(struct cuda_trials)); }

#define LT_TRY(x)                      \
    do {                               \
        const cublasStatus_t s_ = (x); \
        if (s_) return s_;             \
    } while (0)

/* ---- describing a product ---- */

static cudaDataType_t type_of(int64_t dtype)
{
    return dtype == YOKE_F16 ? CUDA_R_16F : dtype == YOKE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* A matrix that Yoke stores as rows by columns. With a stride of 0 all products of the batch share it. */
static cublasStatus_t describe_matrix(const struct cuda_cublaslt *lt, cublasLtMatrixLayout_t *layout,
                                      int64_t dtype, int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                                      int64_t stride)
{
    const int32_t count = (int32_t)batch;
    LT_TRY(lt->cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, ld));
    if (batch == 1) return CUBLAS_STATUS_SUCCESS;
    LT_TRY(lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                sizeof count));
    return lt->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                sizeof stride);
}

static cublasStatus_t describe_product(const struct cuda_cublaslt *lt, const struct yokei_product_key *k,
                                       struct made *e)
{
    const int32_t first = k->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  second = k->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    LT_TRY(lt->cublasLtMatmulDescCreate(&e->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    if (k->with_bias) {
        const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        /* before the call, the library reads the alignment of this address and nothing else */
        const void *bias = (const void *)(uintptr_t)k->align_bias;
        LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                  sizeof epilogue));
        LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                  sizeof bias));
        if (k->out_dtype != YOKE_F32) {
            const int32_t type = CUDA_R_32F; /* else it has the type of the result */
            LT_TRY(lt->cublasLtMatmulDescSetAttribute(e->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                                                      sizeof type));
        }
    }
    LT_TRY(describe_matrix(lt, &e->first, k->dtype, k->trans_b ? k->N : k->K, k->trans_b ? k->K : k->N,
                           k->ldb, k->batch, k->stride_b));
    LT_TRY(describe_matrix(lt, &e->second, k->dtype, k->trans_a ? k->K : k->M, k->trans_a ? k->M : k->K,
                           k->lda, k->batch, k->stride_a));
    return describe_matrix(lt, &e->result, k->out_dtype, k->M, k->N, k->ldc, k->batch, k->stride_c);
}

/* ---- choosing the algorithm ---- */

static cublasStatus_t set_preference(const struct cuda_cublaslt *lt, const struct yokei_product_key *k,
                                     uint64_t workspace, cublasLtMatmulPreference_t p)
{
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint64_t flags = yokei_cuda_algorithm_flags((yoke_dtype)k->dtype);
    const int64_t aligned[4] = { k->align_b, k->align_a, k->align_c, k->align_c };
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                    sizeof workspace));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                    sizeof schemes));
    LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_IMPL_MASK, &flags, sizeof flags));
    for (int i = 0; i < 4; i++) {
        const uint32_t bytes = (uint32_t)aligned[i];
        LT_TRY(lt->cublasLtMatmulPreferenceSetAttribute(
            p, (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i), &bytes,
            sizeof bytes));
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t ask_heuristic(const struct cuda_device *dev, const struct yokei_product_entry *e,
                                    uint64_t workspace,
                                    cublasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS], int *n_out)
{
    const struct cuda_cublaslt *lt = dev->lt;
    const struct made *m = made_of(e);
    cublasLtMatmulPreference_t p;
    LT_TRY(lt->cublasLtMatmulPreferenceCreate(&p));
    cublasStatus_t status = set_preference(lt, &e->key, workspace, p);
    if (!status)
        status = lt->cublasLtMatmulAlgoGetHeuristic(dev->lt_handle, m->desc, m->first, m->second, m->result,
                                                    m->result, p, MOST_ALGORITHMS, results, n_out);
    lt->cublasLtMatmulPreferenceDestroy(p);
    return status;
}

/* Whether the library may add the bias of a 16-bit result by this algorithm. NULL, or the reason why not. */
static const char *bias_refused(const struct cuda_device *dev, const struct yokei_product_key *k,
                                const struct cuda_algorithm *fields)
{
    struct cuda_trials *p = dev->trials;
    if (!k->with_bias || k->out_dtype == YOKE_F32) return NULL;
    for (int64_t i = 0; i < YOKE_MIN(p->n, MOST_TRIALS); i++) {
        const struct bias_trial *old = &p->trials[i];
        if (old->dtype == k->dtype && old->trans_a == k->trans_a && old->trans_b == k->trans_b
            && !memcmp(&old->fields, fields, sizeof *fields))
            return old->refused;
    }
    struct bias_trial *trial = &p->trials[p->n++ % MOST_TRIALS];
    *trial = (struct bias_trial){
        .dtype = k->dtype, .trans_a = k->trans_a, .trans_b = k->trans_b, .fields = *fields
    };
    trial->refused = yokei_cuda_bias_refused(dev, (yoke_dtype)k->dtype, k->trans_a, k->trans_b, fields);
    return trial->refused;
}

/*
 * Make the algorithm of these fields, and let the library check it for this product. Fills in the algorithm
 * and workspace_bytes. Otherwise `why` says why Yoke does not use it.
 */
static bool adopt_fields(const struct cuda_device *dev, struct yokei_product_entry *e,
                         const struct cuda_algorithm *fields, uint64_t workspace, char *why, size_t bytes)
{
    struct made *m = made_of(e);
    cublasLtMatmulHeuristicResult_t checked;
    const struct cuda_cublaslt *lt = dev->lt;
    memset(&checked, 0, sizeof checked);
    cublasStatus_t status = yokei_cuda_algorithm_make(lt, dev->lt_handle, fields, type_of(e->key.dtype),
                                                      type_of(e->key.out_dtype), &m->algo);
    const char *refused = status
                              ? NULL
                              : yokei_cuda_algorithm_refused(lt, &m->algo, fields, (yoke_dtype)e->key.dtype);
    if (!status && !refused)
        status = lt->cublasLtMatmulAlgoCheck(dev->lt_handle, m->desc, m->first, m->second, m->result,
                                             m->result, &m->algo, &checked);
    if (!status && !refused && checked.workspaceSize > workspace)
        refused = "it needs too much scratch memory";
    if (!status && !refused) refused = bias_refused(dev, &e->key, fields);
    if (status) refused = lt->cublasLtGetStatusString(status);
    if (refused) {
        yokei_text(why, bytes, "%s", refused);
        return false;
    }
    yokei_cuda_algorithm_text(fields, e->algorithm, sizeof e->algorithm);
    e->workspace_bytes = checked.workspaceSize;
    return true;
}

/* Take the algorithm with the wanted rank among the usable ones of the heuristic. */
static void take_ranked(const yoke_device *device, struct yokei_product_entry *e, uint64_t workspace)
{
    const struct cuda_device *dev = cuda_device(device);
    cublasLtMatmulHeuristicResult_t results[MOST_ALGORITHMS];
    struct cuda_algorithm fields;
    char why[96] = "its heuristic names no algorithm";
    int n = 0, rank = 0;
    const cublasStatus_t status = ask_heuristic(dev, e, workspace, results, &n);
    if (status) {
        yokei_text(e->reason, sizeof e->reason, "%s (%d)", dev->lt->cublasLtGetStatusString(status), status);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (results[i].state || yokei_cuda_algorithm_read(dev->lt, &results[i].algo, &fields)
            || !adopt_fields(dev, e, &fields, workspace, why, sizeof why))
            continue;
        if (rank++ == e->key.variant) return;
    }
    if (rank)
        yokei_text(e->reason, sizeof e->reason, "it has only %d algorithm%s for this product", rank,
                   rank == 1 ? "" : "s");
    else
        yokei_text(e->reason, sizeof e->reason, "none of its %d algorithms is usable: %s", n, why);
}

static bool adopt(const yoke_device *device, struct yokei_product_entry *e, const char *algorithm,
                  uint64_t workspace, char *why, size_t bytes)
{
    struct cuda_algorithm fields;
    return yokei_cuda_algorithm_parse(algorithm, &fields)
           && adopt_fields(cuda_device(device), e, &fields, workspace, why, bytes);
}

/* ---- the interface ---- */

static const char *library(const yoke_device *device, int64_t variant)
{
    (void)device, (void)variant;
    return "cuBLASLt";
}

static const char *version(const yoke_device *device, int64_t variant)
{
    (void)variant;
    return cuda_device(device)->lt->version_text;
}

static const char *f32_reason(const yoke_device *device) { return cuda_device(device)->f32_reason; }

/* NVIDIA's advice for the most workspace: 32 MiB from Hopper on, and 4 MiB before. */
static uint64_t most_workspace(const yoke_device *device)
{
    return (cuda_device(device)->cc >= 90 ? 32ull : 4ull) << 20;
}

static bool describe(const yoke_device *device, struct yokei_product_entry *e)
{
    const struct cuda_cublaslt *lt = cuda_device(device)->lt;
    struct made *made = e->made = calloc(1, sizeof *made);
    const cublasStatus_t status = made ? describe_product(lt, &e->key, made) : CUBLAS_STATUS_SUCCESS;
    if (!made) yokei_text(e->reason, sizeof e->reason, "no host memory");
    if (status)
        yokei_text(e->reason, sizeof e->reason, "%s (%d)", lt->cublasLtGetStatusString(status), status);
    return !e->reason[0];
}

static void clear(const yoke_device *device, struct yokei_product_entry *e)
{
    const struct cuda_cublaslt *lt = cuda_device(device)->lt;
    const struct made *m = made_of(e);
    if (!m) return;
    if (m->desc) lt->cublasLtMatmulDescDestroy(m->desc);
    if (m->first) lt->cublasLtMatrixLayoutDestroy(m->first);
    if (m->second) lt->cublasLtMatrixLayoutDestroy(m->second);
    if (m->result) lt->cublasLtMatrixLayoutDestroy(m->result);
    free(e->made);
}

static bool is_algorithm(const char *text)
{
    struct cuda_algorithm fields;
    return strlen(text) < YOKEI_PRODUCT_DETAIL && yokei_cuda_algorithm_parse(text, &fields);
}

static yoke_status issue(yoke_stream *stream, const struct yoke_gemm_args *a,
                         const struct yokei_product_entry *e, void *workspace)
{
    const struct cuda_device *dev = cuda_device(stream->device);
    const struct cuda_cublaslt *lt = dev->lt;
    const struct made *m = made_of(e);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (e->key.with_bias)
        status = lt->cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &a->bias,
                                                    sizeof a->bias);
    if (!status)
        status = lt->cublasLtMatmul(dev->lt_handle, m->desc, &a->alpha, a->b, m->first, a->a, m->second,
                                    &a->beta, a->c, m->result, a->c, m->result, &m->algo, workspace,
                                    e->workspace_bytes, yokei_rt_stream(stream)->queue);
    if (!status) return YOKE_OK;
    return yoke_fail(YOKE_EBACKEND,
                     "%s: gemm by cuBLASLt %s: cublasLtMatmul of M %lld N %lld K %lld failed: %s (%d)",
                     stream->device->info.spec, lt->version_text, (long long)a->M, (long long)a->N,
                     (long long)a->K, lt->cublasLtGetStatusString(status), status);
}

const struct yokei_product_calls yokei_cuda_product_calls = {
    .library = library,
    .version = version,
    .f32_reason = f32_reason,
    .most_workspace = most_workspace,
    .describe = describe,
    .clear = clear,
    .adopt = adopt,
    .take_ranked = take_ranked,
    .is_algorithm = is_algorithm,
    .issue = issue,
};

static const char *const names[] = { "cublaslt", "cublaslt-2", "cublaslt-3", NULL };
const struct yokei_gpu_products yokei_cuda_products = {
    .names = names,
    .find = yokei_products_find,
    .run = yokei_products_run,
    .detail = is_algorithm,
    .algorithm = yokei_products_algorithm,
};
