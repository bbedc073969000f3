/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The description of a product for hipBLASLt. The library stores matrices by columns, so its first operand is
 * Yoke's B, and its second is Yoke's A.
 */
#include "backends/hip/products.h"

#define LT_TRY(x)                       \
    do {                                \
        const hipblasStatus_t s_ = (x); \
        if (s_) return s_;              \
    } while (0)

static hipDataType type_of(int64_t dtype)
{
    return dtype == YOKE_F16 ? HIP_R_16F : dtype == YOKE_BF16 ? HIP_R_16BF : HIP_R_32F;
}

/* A matrix that Yoke stores as rows by columns. */
static hipblasStatus_t describe_matrix(const struct hip_hipblaslt *lt, hipblasLtMatrixLayout_t *layout,
                                       int64_t dtype, int64_t rows, int64_t columns, int64_t ld,
                                       int64_t batch, int64_t stride)
{
    const int32_t count = (int32_t)batch;
    LT_TRY(lt->hipblasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows, ld));
    if (batch == 1) return HIPBLAS_STATUS_SUCCESS;
    LT_TRY(lt->hipblasLtMatrixLayoutSetAttribute(*layout, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                 sizeof count));
    return lt->hipblasLtMatrixLayoutSetAttribute(*layout, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                 &stride, sizeof stride);
}

hipblasStatus_t yokei_hip_lt_describe(const struct hip_hipblaslt *lt, const struct yokei_product_key *k,
                                      struct hip_lt_product *out)
{
    const int32_t first = k->trans_b ? HIPBLAS_OP_T : HIPBLAS_OP_N,
                  second = k->trans_a ? HIPBLAS_OP_T : HIPBLAS_OP_N;
    LT_TRY(lt->hipblasLtMatmulDescCreate(&out->desc, HIPBLAS_COMPUTE_32F, HIP_R_32F));
    LT_TRY(
        lt->hipblasLtMatmulDescSetAttribute(out->desc, HIPBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LT_TRY(
        lt->hipblasLtMatmulDescSetAttribute(out->desc, HIPBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
    LT_TRY(describe_matrix(lt, &out->first, k->dtype, k->trans_b ? k->N : k->K, k->trans_b ? k->K : k->N,
                           k->ldb, k->batch, k->stride_b));
    LT_TRY(describe_matrix(lt, &out->second, k->dtype, k->trans_a ? k->K : k->M, k->trans_a ? k->M : k->K,
                           k->lda, k->batch, k->stride_a));
    return describe_matrix(lt, &out->result, k->out_dtype, k->M, k->N, k->ldc, k->batch, k->stride_c);
}

void yokei_hip_lt_clear(const struct hip_hipblaslt *lt, const struct hip_lt_product *product)
{
    if (product->desc) lt->hipblasLtMatmulDescDestroy(product->desc);
    if (product->first) lt->hipblasLtMatrixLayoutDestroy(product->first);
    if (product->second) lt->hipblasLtMatrixLayoutDestroy(product->second);
    if (product->result) lt->hipblasLtMatrixLayoutDestroy(product->result);
}
