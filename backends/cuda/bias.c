/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Whether an algorithm of cuBLASLt adds an f32 bias to a 16-bit product as docs/NUMERICS.md says: in f32,
 * before the one rounding. NVIDIA documents neither where the library rounds nor that it takes such a bias.
 * So a small product is tried before the algorithm is used. All its sums are exact in f32, and they lie so
 * close to the middle between two 16-bit numbers that each other rounding gives another result.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "core/base/base.h"

enum { M = 32, N = 64, K = 64 };
#define ALPHA 0.5f
#define TINY 0x1p-23f

/* The matrices of the trial in device memory, and the workspace behind them. */
struct device_arrays {
    uint16_t a[M * K], b[K * N], c[M * N];
    float bias[N];
};

struct trial {
    const struct cuda_device *dev;
    yoke_dtype dtype;
    bool trans_a, trans_b;
    struct device_arrays in;
    uint16_t expected[M * N];
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t first, second, result; /* the library's A and B, and its C and D */
    cublasLtMatmulAlgo_t algo;
    size_t workspace_bytes;
    CUdeviceptr memory;
    CUstream queue;
    CUevent end;
};

/* ---- the numbers ---- */

static uint16_t short_of(yoke_dtype dtype, float x)
{
    uint16_t h;
    yoke_convert(YOKE_F32, &x, dtype, &h, 1);
    return h;
}

/*
 * `half` is half the distance from 1 to the next 16-bit number. The product is alpha (2 + 2 half) or alpha 2,
 * beta C is half / 2 or 0, and the bias is one of four numbers, three of which have more than 16 bits. So the
 * result is 1 plus multiples of half / 2 and of TINY, which is the last bit of 1 in f32.
 */
static float fill(struct trial *t)
{
    const float half = t->dtype == YOKE_F16 ? 0x1p-11f : 0x1p-8f;
    const float biases[4] = { TINY, half / 2 + TINY, half / 2, half / 2 - TINY };
    for (int m = 0; m < M; m++) {
        t->in.a[t->trans_a ? m : m * K] = short_of(t->dtype, 2);
        t->in.a[t->trans_a ? (K - 1) * M + m : m * K + K - 1] = short_of(t->dtype, m % 2 ? 2 * half : 0);
    }
    for (int n = 0; n < N; n++) {
        t->in.b[t->trans_b ? n * K : n] = short_of(t->dtype, 1);
        t->in.b[t->trans_b ? n * K + K - 1 : (K - 1) * N + n] = short_of(t->dtype, 1);
        t->in.bias[n] = biases[n % 4];
    }
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            const float sum = 1 + (m % 2 ? half : 0) + (m / 2 % 2 ? half / 2 : 0) + t->in.bias[n];
            t->in.c[m * N + n] = short_of(t->dtype, m / 2 % 2 ? 1 : 0);
            t->expected[m * N + n] = short_of(t->dtype, sum);
        }
    return half / 2; /* beta */
}

/* ---- the library's description ---- */

#define LT_TRY(x)                      \
    do {                               \
        const cublasStatus_t s_ = (x); \
        if (s_) return s_;             \
    } while (0)

static cublasStatus_t describe(struct trial *t, const struct cuda_algorithm *fields)
{
    const struct cuda_cublaslt *lt = t->dev->lt;
    const int32_t first = t->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  second = t->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, wide = CUDA_R_32F;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cudaDataType_t type = t->dtype == YOKE_F16 ? CUDA_R_16F : CUDA_R_16BF;
    cublasLtMatmulHeuristicResult_t checked;
    memset(&checked, 0, sizeof checked);
    LT_TRY(lt->cublasLtMatmulDescCreate(&t->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(t->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(t->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    LT_TRY(lt->cublasLtMatmulDescSetAttribute(t->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                              sizeof epilogue));
    LT_TRY(
        lt->cublasLtMatmulDescSetAttribute(t->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &wide, sizeof wide));
    LT_TRY(lt->cublasLtMatrixLayoutCreate(&t->first, type, t->trans_b ? K : N, t->trans_b ? N : K,
                                          t->trans_b ? K : N));
    LT_TRY(lt->cublasLtMatrixLayoutCreate(&t->second, type, t->trans_a ? M : K, t->trans_a ? K : M,
                                          t->trans_a ? M : K));
    LT_TRY(lt->cublasLtMatrixLayoutCreate(&t->result, type, N, M, N));
    LT_TRY(yokei_cuda_algorithm_make(lt, t->dev->lt_handle, fields, type, type, &t->algo));
    LT_TRY(lt->cublasLtMatmulAlgoCheck(t->dev->lt_handle, t->desc, t->first, t->second, t->result, t->result,
                                       &t->algo, &checked));
    t->workspace_bytes = checked.workspaceSize;
    return CUBLAS_STATUS_SUCCESS;
}

static void destroy(struct trial *t)
{
    const struct cuda_library *cu = t->dev->cu;
    const struct cuda_cublaslt *lt = t->dev->lt;
    if (t->desc) lt->cublasLtMatmulDescDestroy(t->desc);
    if (t->first) lt->cublasLtMatrixLayoutDestroy(t->first);
    if (t->second) lt->cublasLtMatrixLayoutDestroy(t->second);
    if (t->result) lt->cublasLtMatrixLayoutDestroy(t->result);
    if (t->end) cu->cuEventDestroy_v2(t->end);
    if (t->queue) cu->cuStreamDestroy_v2(t->queue);
    if (t->memory) cu->cuMemFree_v2(t->memory);
    free(t);
}

/* ---- the run ---- */

/* Multiply, and fetch C into t->in.c. The queue is one of its own. False if a call fails. */
static bool multiply(struct trial *t, float beta)
{
    const struct cuda_library *cu = t->dev->cu;
    const struct cuda_cublaslt *lt = t->dev->lt;
    const float alpha = ALPHA;
    const size_t behind = (sizeof t->in + 255) / 256 * 256;
    if (cu->cuMemAlloc_v2(&t->memory, behind + t->workspace_bytes)
        || cu->cuStreamCreate(&t->queue, CU_STREAM_NON_BLOCKING)
        || cu->cuEventCreate(&t->end, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return false;
#define AT(member) (t->memory + offsetof(struct device_arrays, member))
#define POINTER(member) ((void *)(uintptr_t)AT(member))
    const void *bias = POINTER(bias);
    void *workspace = t->workspace_bytes ? (void *)(uintptr_t)(t->memory + behind) : NULL;
    const bool issued = !lt->cublasLtMatmulDescSetAttribute(t->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                                            sizeof bias)
                        && !cu->cuMemcpyHtoDAsync_v2(t->memory, &t->in, sizeof t->in, t->queue)
                        && !lt->cublasLtMatmul(t->dev->lt_handle, t->desc, &alpha, POINTER(b), t->first,
                                               POINTER(a), t->second, &beta, POINTER(c), t->result,
                                               POINTER(c), t->result, &t->algo, workspace, t->workspace_bytes,
                                               t->queue)
                        && !cu->cuMemcpyDtoHAsync_v2(t->in.c, AT(c), sizeof t->in.c, t->queue);
    /* what was issued still uses the memory */
    return !cu->cuEventRecord(t->end, t->queue) && !cu->cuEventSynchronize(t->end) && issued;
}

const char *yokei_cuda_bias_refused(const struct cuda_device *dev, yoke_dtype dtype, bool trans_a,
                                    bool trans_b, const struct cuda_algorithm *fields)
{
    struct trial *t = calloc(1, sizeof *t);
    if (!t) return "the host has no memory to try its epilogue";
    t->dev = dev, t->dtype = dtype, t->trans_a = trans_a, t->trans_b = trans_b;
    const float beta = fill(t);
    const char *reason = NULL;
    if (describe(t, fields))
        reason = "its epilogue cannot be tried in a small product";
    else if (!multiply(t, beta))
        reason = "the product that tries its epilogue fails";
    else if (memcmp(t->in.c, t->expected, sizeof t->expected) != 0)
        reason = "its epilogue does not add an f32 bias before the only rounding";
    destroy(t);
    return reason;
}
