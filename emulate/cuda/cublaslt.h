/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A stand-in for cuBLASLt, for tests. Its products run on the stand-in driver's memory. This header has the
 * part of NVIDIA's interface that the stand-in offers, and what its files share. A test includes cublasLt.h
 * before this header, and then the compiler compares each prototype and each value with NVIDIA's.
 *
 * Source: cuBLAS documentation, "Using the cuBLASLt API", docs.nvidia.com/cuda/cublas.
 */
#ifndef EMULATE_CUDA_CUBLASLT_H
#define EMULATE_CUDA_CUBLASLT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emulate/gpu/product.h"

/* clang-format off */
#define EMULATE_LT_VALUES(X)                          \
    X(CUBLAS_STATUS_SUCCESS, 0)                       \
    X(CUBLAS_STATUS_NOT_INITIALIZED, 1)               \
    X(CUBLAS_STATUS_ALLOC_FAILED, 3)                  \
    X(CUBLAS_STATUS_INVALID_VALUE, 7)                 \
    X(CUBLAS_STATUS_EXECUTION_FAILED, 13)             \
    X(CUBLAS_STATUS_NOT_SUPPORTED, 15)                \
    X(CUBLAS_OP_N, 0)                                 \
    X(CUBLAS_OP_T, 1)                                 \
    X(CUBLAS_COMPUTE_32F, 68)                         \
    X(CUDA_R_32F, 0)                                  \
    X(CUDA_R_16F, 2)                                  \
    X(CUDA_R_16BF, 14)                                \
    X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5)          \
    X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6) \
    X(CUBLASLT_MATMUL_DESC_TRANSA, 3)                 \
    X(CUBLASLT_MATMUL_DESC_TRANSB, 4)                 \
    X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7)               \
    X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8)           \
    X(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26)        \
    X(CUBLASLT_EPILOGUE_DEFAULT, 1)                   \
    X(CUBLASLT_EPILOGUE_BIAS, 4)                      \
    X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)              \
    X(CUBLASLT_REDUCTION_SCHEME_INPLACE, 1)           \
    X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2)      \
    X(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4)       \
    X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1)    \
    X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3)  \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5)  \
    X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8)  \
    X(CUBLASLT_MATMUL_PREF_IMPL_MASK, 12)             \
    X(CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, 15)     \
    X(CUBLASLT_ALGO_CONFIG_ID, 0)                     \
    X(CUBLASLT_ALGO_CONFIG_TILE_ID, 1)                \
    X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2)             \
    X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3)       \
    X(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4)          \
    X(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5)          \
    X(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6)              \
    X(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 7)         \
    X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8)       \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA, 0x01)                \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA, 0x02)               \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F, 0x0200)  \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F, 0x010000)      \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF, 0x020000)     \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32, 0x040000)     \
    X(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F, 0x080000)
/* clang-format on */
enum { ALGO_CAP_EMULATION = 22 }; /* of 13.1 and newer; earlier headers have no name for it */

/* The structs, the enumerations, or an int where the header is not NVIDIA's. */
#ifndef CUBLASLTAPI
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct lt_desc *cublasLtMatmulDesc_t;
typedef struct product_layout *cublasLtMatrixLayout_t;
typedef struct lt_preference *cublasLtMatmulPreference_t;
typedef struct stream *cudaStream_t;
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
#define EMULATE_LT_VALUE(name, value) name = value,
    EMULATE_LT_VALUES(EMULATE_LT_VALUE)
#undef EMULATE_LT_VALUE
};
#endif

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle_out);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(cublasStatus_t status);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc_out, cublasComputeType_t compute,
                                        cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout_out, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes);
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference_out);
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *n_out);
cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *algo_out);
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result_out);
cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void *value,
                                                 size_t bytes, size_t *written);
cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes);
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written);
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream);

/* ---- the stand-in's own part ---- */
#ifndef CUBLASLTAPI

struct cublasLtContext {
    uint64_t magic;
    int capability; /* 90 for 9.0 */
};
struct lt_desc {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    const void *bias;
    int32_t bias_type; /* -1: that of D */
};
struct lt_preference {
    uint64_t workspace, implementations;
    uint32_t schemes, alignment[4];
};

/* What the bytes of an algorithm mean here. */
struct lt_algo {
    uint32_t magic;
    int32_t id;
    uint32_t tile, stages;
    int32_t splitk;
    uint32_t reduction, swizzle, custom;
    uint16_t inner, cluster;
    int16_t in, out; /* types */
};

/* The functions of the stand-in driver that this library calls. */
struct lt_driver {
    int (*cuCtxGetDevice)(int *device);
    int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
    struct product_driver product;
    int (*bias)(void);
};
/* NULL if the stand-in driver is not loaded. */
const struct lt_driver *lt_driver(void);
bool lt_handle_is(const struct cublasLtContext *handle);
/* The type of the bias of a product whose result has the type `d`. */
cudaDataType_t lt_bias_type(const struct lt_desc *desc, cudaDataType_t d);

/* A product, as its descriptions state it: op(A) is m x k, op(B) is k x n. */
struct lt_product {
    int64_t m, n, k;
    const struct lt_desc *desc;
    const struct product_layout *a, *b, *c, *d;
};
/* Check that the descriptions fit together. */
cublasStatus_t lt_product_of(const struct lt_desc *desc, const struct product_layout *a,
                             const struct product_layout *b, const struct product_layout *c,
                             const struct product_layout *d, struct lt_product *out);
/* Check an algorithm, and state the workspace and the alignment of addresses that it needs. */
cublasStatus_t lt_algo_check(const struct lt_product *product, const cublasLtMatmulAlgo_t *algo,
                             size_t *workspace_out, size_t *alignment_out);
/* How an algorithm computes. */
struct lt_arithmetic {
    bool tensor, tf32;
    int splitk;
    uint32_t reduction;
};
struct lt_arithmetic lt_algo_arithmetic(const cublasLtMatmulAlgo_t *algo);

#endif
#endif
