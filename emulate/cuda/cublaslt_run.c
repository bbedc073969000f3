/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in cuBLASLt: the call that multiplies. */
#include "emulate/cuda/cublaslt.h"
#include "emulate/cuda/emulate.h"

enum { WORKSPACE_ALIGNMENT = 256 };

static bool is_aligned(const void *address, size_t alignment) { return (uintptr_t)address % alignment == 0; }

/* The units of Volta and Turing add 4 products at a time, those of Ampere 8, and those of Hopper 16. */
static int block_of(int capability) { return capability >= 90 ? 16 : capability >= 80 ? 8 : 4; }

static enum product_bias rounding_of(int bias)
{
    return bias == EMULATE_BIAS_TWICE   ? PRODUCT_BIAS_TWICE
           : bias == EMULATE_BIAS_SHORT ? PRODUCT_BIAS_SHORT
                                        : PRODUCT_BIAS_ONCE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    struct lt_product p;
    size_t needed, alignment;
    if (!lt_handle_is(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    /* Without an algorithm NVIDIA's library asks its heuristic. Yoke must always name one. */
    if (!alpha || !beta || !a || !b || !d || !algo || (!c && *(const float *)beta != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = lt_product_of(desc, a_layout, b_layout, c_layout, d_layout, &p);
    if (!status) status = lt_algo_check(&p, algo, &needed, &alignment);
    if (status) return status;
    if (needed > workspace_bytes || (needed && (!workspace || !is_aligned(workspace, WORKSPACE_ALIGNMENT))))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_aligned(a, alignment) || !is_aligned(b, alignment) || !is_aligned(d, alignment)
        || !is_aligned(a, product_type_bytes(p.a->type)) || !is_aligned(d, product_type_bytes(p.d->type))
        || (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && !desc->bias)
        || (c == d && (c_layout->ld != d_layout->ld || c_layout->stride != d_layout->stride)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (lt_driver()->product.fails("cublaslt-matmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    const struct lt_arithmetic arithmetic = lt_algo_arithmetic(algo);
    const struct product product = {
        .driver = &lt_driver()->product,
        .name = "cublasLtMatmul",
        .m = p.m,
        .n = p.n,
        .k = p.k,
        .trans_a = desc->trans_a != CUBLAS_OP_N,
        .trans_b = desc->trans_b != CUBLAS_OP_N,
        .a = *a_layout,
        .b = *b_layout,
        .c = *c_layout,
        .d = *d_layout,
        .a_at = (uint64_t)(uintptr_t)a,
        .b_at = (uint64_t)(uintptr_t)b,
        .c_at = (uint64_t)(uintptr_t)c,
        .d_at = (uint64_t)(uintptr_t)d,
        .alpha = *(const float *)alpha,
        .beta = *(const float *)beta,
        .bias_at = desc->epilogue == CUBLASLT_EPILOGUE_BIAS ? (uint64_t)(uintptr_t)desc->bias : 0,
        .bias_type = lt_bias_type(desc, d_layout->type),
        .bias_rounding = rounding_of(lt_driver()->bias()),
        .block = arithmetic.tensor ? block_of(handle->capability) : 0,
        .shorten = arithmetic.tf32,
        .parts = arithmetic.splitk,
        .in_f32 = arithmetic.reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
        .workspace = (uint64_t)(uintptr_t)workspace,
    };
    return product_enqueue(&product, stream) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}
