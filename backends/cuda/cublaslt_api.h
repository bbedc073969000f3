/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations of the parts of cuBLASLt that Yoke uses. They replace cublasLt.h, so that no part of CUDA is
 * needed to build Yoke. The values and the layouts of the structs are the same in versions 11, 12 and 13.
 * tests/unit/cuda_api checks these declarations against the toolkit's header, where it is installed.
 *
 * Source: cuBLAS documentation, "Using the cuBLASLt API", docs.nvidia.com/cuda/cublas.
 */
#ifndef BACKENDS_CUDA_CUBLASLT_API_H
#define BACKENDS_CUDA_CUBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

/* X(name, value). */
/* clang-format off */
#define YOKEI_CUBLASLT_VALUES(X)                                                                             \
    X(CUBLAS_STATUS_SUCCESS, 0)                                                                              \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1)                                                                      \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                                                                       \
    X(CUBLAS_OP_N, 0)                                                                                        \
    X(CUBLAS_OP_T, 1)                                                                                        \
    X(CUBLAS_COMPUTE_32F, 68)                                                                                \
    X(CUDA_R_32F, 0)                                                                                         \
    X(CUDA_R_16F, 2)                                                                                         \
    X(CUDA_R_16BF, 14)                                                                                       \
    X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)          /* int32_t */                                          \
    X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) /* int64_t, elements */                                \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                 /* int32_t */                                          \
    X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                 /* int32_t */                                          \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)               /* uint32_t */                                         \
    X(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26)    /* int32_t, since 11.8 */                                  \
    X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)           /* const void * */                                     \
    X(CUBLASLT_EPILOGUE_BIAS, 4)                                                                             \
    X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)                                                                     \
    X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)                                                             \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)   /* uint64_t */                                          \
    X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3) /* uint32_t */                                          \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5) /* uint32_t; B, C and D follow */                       \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6)                                                         \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7)                                                         \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)                                                         \
    X(CUBLASLT_MATMUL_PREF_IMPL_MASK, 12)         /* uint64_t */                                             \
    X(CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, 15) /* uint64_t */                                             \
    X(CUBLASLT_ALGO_CONFIG_ID, 0)                 /* int32_t */                                              \
    X(CUBLASLT_ALGO_CONFIG_TILE_ID, 1)            /* uint32_t */                                             \
    X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)         /* int32_t */                                              \
    X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3)   /* uint32_t */                                             \
    X(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4)      /* uint32_t */                                             \
    X(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5)      /* uint32_t */                                             \
    X(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6)          /* uint32_t */                                             \
    X(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 7)     /* uint16_t, since 11.8 */                                 \
    X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8)   /* uint16_t, since 11.8 */                                 \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA, 0x01)                                                               \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA, 0x02)                                                              \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F, 0x0200)                                                 \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F, 0x010000)                                                     \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF, 0x020000)                                                    \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32, 0x040000)                                                    \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F, 0x080000)
/* clang-format on */

/*
 * Says whether an algorithm of cuBLASLt 13.1 or newer may replace the arithmetic of f32 by that of shorter
 * types. Earlier headers have no such name, so the test of this header does not compare it.
 */
#define YOKEI_CUBLASLT_ALGO_CAP_EMULATION 22 /* int32_t */

/* The test of this header includes cublasLt.h first, and defines this macro. */
#ifndef YOKEI_CUDA_API_LISTS
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque *cublasLtMatrixLayout_t;
typedef struct cublasLtMatmulPreferenceOpaque *cublasLtMatmulPreference_t;
typedef struct CUstream_st *cudaStream_t;
/* Enumerations of NVIDIA's. */
typedef int cublasStatus_t, cublasComputeType_t, cudaDataType_t, cudaDataType;
typedef int cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
    cublasLtMatmulPreferenceAttributes_t, cublasLtMatmulAlgoConfigAttributes_t,
    cublasLtMatmulAlgoCapAttributes_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
enum {
#define YOKEI_CUBLASLT_VALUE(name, value) name = value,
    YOKEI_CUBLASLT_VALUES(YOKEI_CUBLASLT_VALUE)
#undef YOKEI_CUBLASLT_VALUE
};
#endif

/**
 * All functions of libcublasLt that Yoke calls: F(result, name, parameters). The newest is
 * cublasLtGetStatusString, of 11.4.
 */
/* clang-format off */
#define YOKEI_CUBLASLT_FUNCTIONS(F)                                                                          \
    F(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t * handle))                                           \
    F(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t handle))                                            \
    F(size_t, cublasLtGetVersion, (void))                                                                    \
    F(const char *, cublasLtGetStatusString, (cublasStatus_t status))                                        \
    F(cublasStatus_t, cublasLtMatmulDescCreate,                                                              \
      (cublasLtMatmulDesc_t * desc, cublasComputeType_t compute, cudaDataType_t scale))                      \
    F(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t desc))                                \
    F(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                                        \
      (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const void *value,               \
       size_t bytes))                                                                                        \
    F(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                            \
      (cublasLtMatrixLayout_t * layout, cudaDataType type, uint64_t rows, uint64_t columns, int64_t ld))     \
    F(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t layout))                          \
    F(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                                      \
      (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value,          \
       size_t bytes))                                                                                        \
    F(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * preference))             \
    F(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t preference))              \
    F(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                                  \
      (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,                \
       const void *value, size_t bytes))                                                                     \
    F(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                                        \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,                         \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                         \
       cublasLtMatmulPreference_t preference, int n_wanted, cublasLtMatmulHeuristicResult_t results[],       \
       int *n_results))                                                                                      \
    F(cublasStatus_t, cublasLtMatmulAlgoInit,                                                                \
      (cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale, cudaDataType_t a,         \
       cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id, cublasLtMatmulAlgo_t *algo))            \
    F(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                               \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,                         \
       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,                         \
       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result))                           \
    F(cublasStatus_t, cublasLtMatmulAlgoCapGetAttribute,                                                     \
      (const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoCapAttributes_t attribute, void *value,           \
       size_t bytes, size_t *written))                                                                       \
    F(cublasStatus_t, cublasLtMatmulAlgoConfigSetAttribute,                                                  \
      (cublasLtMatmulAlgo_t * algo, cublasLtMatmulAlgoConfigAttributes_t attribute, const void *value,       \
       size_t bytes))                                                                                        \
    F(cublasStatus_t, cublasLtMatmulAlgoConfigGetAttribute,                                                  \
      (const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,        \
       size_t bytes, size_t *written))                                                                       \
    F(cublasStatus_t, cublasLtMatmul,                                                                        \
      (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,                 \
       cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,    \
       const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,             \
       const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream))
/* clang-format on */

#endif
