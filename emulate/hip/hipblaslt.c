/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in hipBLASLt. It has two algorithms. One splits a long sum along K, and adds the parts, which lie
 * in the workspace, in f32. The heuristic ranks it first where the preference allows a workspace that is
 * large enough. The other one needs no workspace.
 */
#include <stdlib.h>
#include <string.h>

#include "emulate/hip/blas.h"
#include "emulate/hip/hipblaslt.h"

#define HANDLE_MAGIC 0x686970626c746831ull
#define ALGO_MAGIC 0x486c7431u
enum { VERSION = 100200, UNKNOWN_VERSION = 200100, LONG_SUM = 256, PARTS = 4, WORKSPACE_ALIGNMENT = 16 };

struct hipblaslt_context {
    uint64_t magic;
    bool flushes;
};
struct hipblaslt_desc {
    hipblasComputeType_t compute;
    hipDataType scale;
    int32_t trans_a, trans_b;
    uint32_t epilogue;
    const void *bias;
    int32_t bias_type; /* -1: that of D */
};
struct hipblaslt_preference {
    uint32_t search;
    uint64_t workspace;
};
/* What the bytes of an algorithm mean here. AMD's begin with a number of the algorithm, too. */
struct fields {
    int32_t parts;
    uint32_t magic;
    int16_t in, out; /* types */
};

static bool is_handle(const struct hipblaslt_context *h) { return h && h->magic == HANDLE_MAGIC; }

/* ---- objects ---- */

static hipblasStatus_t hand_out(void *object, void *out)
{
    return product_give(object, out) ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_ALLOC_FAILED;
}

static hipblasStatus_t discard(void *object)
{
    free(object);
    return object ? HIPBLAS_STATUS_SUCCESS : HIPBLAS_STATUS_INVALID_VALUE;
}

#define READ_INTO(member)                                                          \
    (product_set(&(member), sizeof(member), value, bytes) ? HIPBLAS_STATUS_SUCCESS \
                                                          : HIPBLAS_STATUS_INVALID_VALUE)

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t *handle_out)
{
    if (!handle_out) return HIPBLAS_STATUS_INVALID_VALUE;
    if (!blas_driver() || blas_driver()->fails("hipblaslt-create")) return HIPBLAS_STATUS_NOT_INITIALIZED;
    struct hipblaslt_context *handle = calloc(1, sizeof *handle);
    if (handle) *handle = (struct hipblaslt_context){ HANDLE_MAGIC, blas_flushes() };
    return hand_out(handle, handle_out);
}

hipblasStatus_t hipblasLtDestroy(hipblasLtHandle_t handle)
{
    if (!is_handle(handle)) return HIPBLAS_STATUS_NOT_INITIALIZED;
    handle->magic = 0;
    return discard(handle);
}

hipblasStatus_t hipblasLtGetVersion(hipblasLtHandle_t handle, int *version_out)
{
    if (!is_handle(handle)) return HIPBLAS_STATUS_NOT_INITIALIZED;
    if (!version_out) return HIPBLAS_STATUS_INVALID_VALUE;
    *version_out = blas_driver()->fails("hipblaslt-version") ? UNKNOWN_VERSION : VERSION;
    return HIPBLAS_STATUS_SUCCESS;
}

hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t *desc_out, hipblasComputeType_t compute,
                                          hipDataType scale)
{
    if (!desc_out) return HIPBLAS_STATUS_INVALID_VALUE;
    struct hipblaslt_desc *desc = calloc(1, sizeof *desc);
    if (desc)
        *desc = (struct hipblaslt_desc){ .compute = compute,
                                         .scale = scale,
                                         .trans_a = HIPBLAS_OP_N,
                                         .trans_b = HIPBLAS_OP_N,
                                         .epilogue = HIPBLASLT_EPILOGUE_DEFAULT,
                                         .bias_type = -1 };
    return hand_out(desc, desc_out);
}

hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t desc) { return discard(desc); }

hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatmulDescAttributes_t attribute, const void *value,
                                                size_t bytes)
{
    if (!desc) return HIPBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case HIPBLASLT_MATMUL_DESC_TRANSA: return READ_INTO(desc->trans_a);
    case HIPBLASLT_MATMUL_DESC_TRANSB: return READ_INTO(desc->trans_b);
    case HIPBLASLT_MATMUL_DESC_EPILOGUE: return READ_INTO(desc->epilogue);
    case HIPBLASLT_MATMUL_DESC_BIAS_POINTER: return READ_INTO(desc->bias);
    case HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return READ_INTO(desc->bias_type);
    default: return HIPBLAS_STATUS_INVALID_VALUE;
    }
}

hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t *layout_out, hipDataType type,
                                            uint64_t rows, uint64_t columns, int64_t ld)
{
    if (!layout_out) return HIPBLAS_STATUS_INVALID_VALUE;
    struct product_layout *layout = calloc(1, sizeof *layout);
    if (layout) *layout = (struct product_layout){ type, rows, columns, ld, 1, 0 };
    return hand_out(layout, layout_out);
}

hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t layout) { return discard(layout); }

hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout,
                                                  hipblasLtMatrixLayoutAttribute_t attribute,
                                                  const void *value, size_t bytes)
{
    if (!layout) return HIPBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return READ_INTO(layout->batch);
    case HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return READ_INTO(layout->stride);
    default: return HIPBLAS_STATUS_INVALID_VALUE;
    }
}

hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t *preference_out)
{
    if (!preference_out) return HIPBLAS_STATUS_INVALID_VALUE;
    return hand_out(calloc(1, sizeof(struct hipblaslt_preference)), preference_out);
}

hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t preference)
{
    return discard(preference);
}

hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t preference,
                                                      hipblasLtMatmulPreferenceAttributes_t attribute,
                                                      const void *value, size_t bytes)
{
    if (!preference) return HIPBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case HIPBLASLT_MATMUL_PREF_SEARCH_MODE: return READ_INTO(preference->search);
    case HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return READ_INTO(preference->workspace);
    default: return HIPBLAS_STATUS_INVALID_VALUE;
    }
}

/* ---- checks ---- */

/* The type of the bias, which is that of D or f32. */
static int bias_type_of(const struct hipblaslt_desc *desc, int d)
{
    return desc->bias_type < 0 ? d : desc->bias_type;
}

static hipblasStatus_t check(const struct hipblaslt_desc *desc, struct product_shape *shape)
{
    if (!desc) return HIPBLAS_STATUS_INVALID_VALUE;
    shape->trans_a = desc->trans_a == HIPBLAS_OP_T;
    shape->trans_b = desc->trans_b == HIPBLAS_OP_T;
    if ((!shape->trans_a && desc->trans_a != HIPBLAS_OP_N)
        || (!shape->trans_b && desc->trans_b != HIPBLAS_OP_N))
        return HIPBLAS_STATUS_NOT_SUPPORTED;
    const enum product_fit fit = product_shape_check(shape);
    if (fit) return fit == PRODUCT_WRONG ? HIPBLAS_STATUS_INVALID_VALUE : HIPBLAS_STATUS_NOT_SUPPORTED;
    if (desc->compute != HIPBLAS_COMPUTE_32F || desc->scale != HIP_R_32F) return HIPBLAS_STATUS_NOT_SUPPORTED;
    if (desc->epilogue == HIPBLASLT_EPILOGUE_DEFAULT) return HIPBLAS_STATUS_SUCCESS;
    const int bias = bias_type_of(desc, shape->d->type);
    return desc->epilogue == HIPBLASLT_EPILOGUE_BIAS && (bias == shape->d->type || bias == HIP_R_32F)
               ? HIPBLAS_STATUS_SUCCESS
               : HIPBLAS_STATUS_NOT_SUPPORTED;
}

static size_t workspace_of(const struct product_shape *shape, int parts)
{
    return parts > 1 ? 4 * (size_t)(parts * shape->m * shape->n) : 0;
}

static hipblasLtMatmulAlgo_t make_algo(const struct product_shape *shape, int parts, size_t workspace)
{
    hipblasLtMatmulAlgo_t algo = { .max_workspace_bytes = workspace };
    const struct fields fields = { parts, ALGO_MAGIC, (int16_t)shape->a->type, (int16_t)shape->d->type };
    _Static_assert(sizeof fields <= sizeof algo.data, "the fields fit");
    memcpy(algo.data, &fields, sizeof fields);
    return algo;
}

/* The parts of an algorithm that was made for such a product; 0: it was not. */
static int parts_of(const hipblasLtMatmulAlgo_t *algo, const struct product_shape *shape)
{
    struct fields fields;
    memcpy(&fields, algo->data, sizeof fields);
    const bool good = fields.magic == ALGO_MAGIC && fields.in == shape->a->type
                      && fields.out == shape->d->type && fields.parts >= 1 && fields.parts <= shape->k;
    return good ? fields.parts : 0;
}

hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc,
                                                hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
                                                hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d,
                                                hipblasLtMatmulPreference_t preference, int n_wanted,
                                                hipblasLtMatmulHeuristicResult_t results[], int *n_out)
{
    struct product_shape shape = { .a = a, .b = b, .c = c, .d = d };
    if (!is_handle(handle)) return HIPBLAS_STATUS_NOT_INITIALIZED;
    if (!preference || n_wanted < 1 || !results || !n_out) return HIPBLAS_STATUS_INVALID_VALUE;
    *n_out = 0;
    const hipblasStatus_t status = check(desc, &shape);
    if (status) return status;
    if (blas_driver()->fails("hipblaslt-heuristic")) return HIPBLAS_STATUS_NOT_SUPPORTED;
    for (int parts = shape.k >= LONG_SUM ? PARTS : 1; parts >= 1 && *n_out < n_wanted; parts -= PARTS - 1) {
        const size_t workspace = workspace_of(&shape, parts);
        if (workspace > preference->workspace) continue;
        results[(*n_out)++] = (hipblasLtMatmulHeuristicResult_t){ .algo = make_algo(&shape, parts, workspace),
                                                                  .workspaceSize = workspace,
                                                                  .wavesCount = 1 };
    }
    return HIPBLAS_STATUS_SUCCESS;
}

/* ---- the product ---- */

hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t handle, hipblasLtMatmulDesc_t desc, const void *alpha,
                                const void *a, hipblasLtMatrixLayout_t a_layout, const void *b,
                                hipblasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                                hipblasLtMatrixLayout_t c_layout, void *d, hipblasLtMatrixLayout_t d_layout,
                                const hipblasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                                void *stream)
{
    struct product_shape shape = { .a = a_layout, .b = b_layout, .c = c_layout, .d = d_layout };
    if (!is_handle(handle)) return HIPBLAS_STATUS_NOT_INITIALIZED;
    /* Without an algorithm AMD's library asks its heuristic. Yoke must always name one. */
    if (!alpha || !beta || !a || !b || !d || !algo || (!c && *(const float *)beta != 0))
        return HIPBLAS_STATUS_INVALID_VALUE;
    const hipblasStatus_t status = check(desc, &shape);
    if (status) return status;
    const int parts = parts_of(algo, &shape);
    const size_t needed = workspace_of(&shape, parts);
    if (!parts || needed > workspace_bytes
        || (needed && (!workspace || (uintptr_t)workspace % WORKSPACE_ALIGNMENT))
        || (desc->epilogue == HIPBLASLT_EPILOGUE_BIAS && !desc->bias))
        return HIPBLAS_STATUS_INVALID_VALUE;
    if (blas_driver()->fails("hipblaslt-matmul")) return HIPBLAS_STATUS_EXECUTION_FAILED;
    const struct product product = {
        .driver = blas_driver(),
        .name = "hipblasLtMatmul",
        .m = shape.m,
        .n = shape.n,
        .k = shape.k,
        .trans_a = shape.trans_a,
        .trans_b = shape.trans_b,
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
        .bias_at = desc->epilogue == HIPBLASLT_EPILOGUE_BIAS ? (uint64_t)(uintptr_t)desc->bias : 0,
        .bias_type = bias_type_of(desc, d_layout->type),
        .flush = handle->flushes,
        .parts = parts,
        .backwards = blas_driver()->fails("hipblaslt-order"),
        .shorten = blas_driver()->fails("hipblaslt-short"),
        .in_f32 = true,
        .workspace = (uint64_t)(uintptr_t)workspace,
    };
    return product_enqueue(&product, stream) ? HIPBLAS_STATUS_EXECUTION_FAILED : HIPBLAS_STATUS_SUCCESS;
}
