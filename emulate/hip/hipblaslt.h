/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A stand-in for hipBLASLt, for tests. Its products run on the stand-in libamdhip64's memory. This header has
 * the part of AMD's interface that the stand-in offers. Matrices are stored by columns.
 *
 * Source: hipBLASLt API reference, rocm.docs.amd.com/projects/hipBLASLt.
 */
#ifndef EMULATE_HIP_HIPBLASLT_H
#define EMULATE_HIP_HIPBLASLT_H

#include <stddef.h>
#include <stdint.h>

enum {
    HIPBLAS_STATUS_SUCCESS = 0,
    HIPBLAS_STATUS_NOT_INITIALIZED = 1,
    HIPBLAS_STATUS_ALLOC_FAILED = 2,
    HIPBLAS_STATUS_INVALID_VALUE = 3,
    HIPBLAS_STATUS_EXECUTION_FAILED = 5,
    HIPBLAS_STATUS_NOT_SUPPORTED = 7,
    HIPBLAS_OP_N = 111,
    HIPBLAS_OP_T = 112,
    HIPBLAS_COMPUTE_32F = 2,
    HIP_R_32F = 0,
    HIP_R_16F = 2,
    HIP_R_16BF = 14,
    HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 0,
    HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 1,
    HIPBLASLT_MATMUL_DESC_TRANSA = 0,
    HIPBLASLT_MATMUL_DESC_TRANSB = 1,
    HIPBLASLT_MATMUL_DESC_EPILOGUE = 2,
    HIPBLASLT_MATMUL_DESC_BIAS_POINTER = 3,
    HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE = 4,
    HIPBLASLT_EPILOGUE_DEFAULT = 1,
    HIPBLASLT_EPILOGUE_BIAS = 4,
    HIPBLASLT_MATMUL_PREF_SEARCH_MODE = 0,
    HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1,
};
typedef int hipblasStatus_t, hipblasComputeType_t, hipDataType;
typedef int hipblasLtMatmulDescAttributes_t, hipblasLtMatrixLayoutAttribute_t,
    hipblasLtMatmulPreferenceAttributes_t;
typedef struct hipblaslt_context *hipblasLtHandle_t;
typedef struct hipblaslt_desc *hipblasLtMatmulDesc_t;
typedef struct product_layout *hipblasLtMatrixLayout_t;
typedef struct hipblaslt_preference *hipblasLtMatmulPreference_t;
typedef struct {
    uint8_t data[16];
    size_t max_workspace_bytes;
} hipblasLtMatmulAlgo_t;
typedef struct {
    hipblasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    hipblasStatus_t state;
    float wavesCount;
    int reserved[4];
} hipblasLtMatmulHeuristicResult_t;

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t *handle_out);
hipblasStatus_t hipblasLtDestroy(hipblasLtHandle_t handle);
hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int *version_out);
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t *desc_out, hipblasComputeType_t compute,
                                          hipDataType scale);
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t desc);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatmulDescAttributes_t attribute, const void *value,
                                                size_t bytes);
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t *layout_out, hipDataType type,
                                            uint64_t rows, uint64_t columns, int64_t ld);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t layout);
hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout,
                                                  hipblasLtMatrixLayoutAttribute_t attribute,
                                                  const void *value, size_t bytes);
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t *preference_out);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t preference);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t preference,
                                                      hipblasLtMatmulPreferenceAttributes_t attribute,
                                                      const void *value, size_t bytes);
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t preference, int n_wanted,
                                                hipblasLtMatmulHeuristicResult_t results[], int *n_out);
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void *alpha,
                                const void *a, hipblasLtMatrixLayout_t a_layout, const void *b,
                                hipblasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                hipblasLtMatrixLayout_t c_layout, void *d, hipblasLtMatrixLayout_t d_layout,
                                const hipblasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                void *stream);

#endif
