/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations of the parts of hipBLASLt that Yoke uses. They replace hipblaslt.h, so that no part of ROCm is
 * needed to build Yoke. They are those of ROCm 6 and 7 (hipBLASLt 0.6 to 1). In ROCm 5 the library has other
 * numbers for types (hipblasDatatype_t, from 150 on) and for f32 sums (300), and algorithms of 56 bytes. Yoke
 * does not use that library.
 *
 * Source: hipBLASLt API reference, rocm.docs.amd.com/projects/hipBLASLt.
 */
#ifndef BACKENDS_HIP_HIPBLASLT_API_H
#define BACKENDS_HIP_HIPBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

enum {
    HIPBLAS_STATUS_SUCCESS = 0,
    HIPBLAS_OP_N = 111,
    HIPBLAS_OP_T = 112,
    HIPBLAS_COMPUTE_32F = 2, /* f32 products and sums, which nothing replaces by shorter types */
    HIP_R_32F = 0,
    HIP_R_16F = 2,
    HIP_R_16BF = 14,
    /* Matrices are stored by columns, unless their layout says otherwise. */
    HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 0,          /* int32_t */
    HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 1, /* int64_t, elements */
    HIPBLASLT_MATMUL_DESC_TRANSA = 0,                 /* int32_t, as the next one */
    HIPBLASLT_MATMUL_DESC_TRANSB = 1,
    HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1, /* uint64_t */
};
/* Enumerations of AMD's. They are passed as an int is. */
typedef int hipblasStatus_t, hipblasComputeType_t, hipDataType;
typedef int hipblasLtMatmulDescAttributes_t, hipblasLtMatrixLayoutAttribute_t,
    hipblasLtMatmulPreferenceAttributes_t;
typedef struct hipblaslt_handle *hipblasLtHandle_t;
typedef struct hipblaslt_desc *hipblasLtMatmulDesc_t;
typedef struct hipblaslt_layout *hipblasLtMatrixLayout_t;
typedef struct hipblaslt_preference *hipblasLtMatmulPreference_t;
/* The bytes begin with the number of the algorithm, an int, as hipblaslt_ext::getIndexFromAlgo reads it. */
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

/** All functions of libhipblaslt that Yoke calls: F(result, name, parameters). */
/* clang-format off */
#define YOKEI_HIPBLASLT_FUNCTIONS(F)                                                                         \
    F(hipblasStatus_t, hipblasLtCreate, (hipblasLtHandle_t * handle))                                        \
    F(hipblasStatus_t, hipblasLtDestroy, (hipblasLtHandle_t handle))                                         \
    F(hipblasStatus_t, hipblasLtGetVersion, (hipblasLtHandle_t handle, int *version))                        \
    F(hipblasStatus_t, hipblasLtMatmulDescCreate,                                                            \
      (hipblasLtMatmulDesc_t * desc, hipblasComputeType_t compute, hipDataType scale))                       \
    F(hipblasStatus_t, hipblasLtMatmulDescDestroy, (hipblasLtMatmulDesc_t desc))                             \
    F(hipblasStatus_t, hipblasLtMatmulDescSetAttribute,                                                      \
      (hipblasLtMatmulDesc_t desc, hipblasLtMatmulDescAttributes_t attribute, const void *value,             \
       size_t bytes))                                                                                        \
    F(hipblasStatus_t, hipblasLtMatrixLayoutCreate,                                                          \
      (hipblasLtMatrixLayout_t * layout, hipDataType type, uint64_t rows, uint64_t columns, int64_t ld))     \
    F(hipblasStatus_t, hipblasLtMatrixLayoutDestroy, (hipblasLtMatrixLayout_t layout))                       \
    F(hipblasStatus_t, hipblasLtMatrixLayoutSetAttribute,                                                    \
      (hipblasLtMatrixLayout_t layout, hipblasLtMatrixLayoutAttribute_t attribute, const void *value,        \
       size_t bytes))                                                                                        \
    F(hipblasStatus_t, hipblasLtMatmulPreferenceCreate, (hipblasLtMatmulPreference_t * preference))          \
    F(hipblasStatus_t, hipblasLtMatmulPreferenceDestroy, (hipblasLtMatmulPreference_t preference))           \
    F(hipblasStatus_t, hipblasLtMatmulPreferenceSetAttribute,                                                \
      (hipblasLtMatmulPreference_t preference, hipblasLtMatmulPreferenceAttributes_t attribute,              \
       const void *value, size_t bytes))                                                                     \
    F(hipblasStatus_t, hipblasLtMatmulAlgoGetHeuristic,                                                      \
      (hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, hipblasLtMatrixLayout_t a,                      \
       hipblasLtMatrixLayout_t b, hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,                      \
       hipblasLtMatmulPreference_t preference, int n_wanted, hipblasLtMatmulHeuristicResult_t results[],     \
       int *n_out))                                                                                          \
    F(hipblasStatus_t, hipblasLtMatmul,                                                                      \
      (hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void *alpha, const void *a,               \
       hipblasLtMatrixLayout_t a_layout, const void *b, hipblasLtMatrixLayout_t b_layout, const void *beta,  \
       const void *c, hipblasLtMatrixLayout_t c_layout, void *d, hipblasLtMatrixLayout_t d_layout,           \
       const hipblasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, void *stream))
/* clang-format on */

#endif
