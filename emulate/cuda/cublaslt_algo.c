/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in cuBLASLt: its algorithms. There are few, but of each kind that a program must tell apart: some
 * sum along K in parts and add the parts in the result's type or in an order that changes, and some shorten
 * f32. The heuristic ranks such algorithms first wherever the preference allows them.
 */
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/cublaslt.h"
#include "emulate/cuda/emulate.h"

#define ALGO_MAGIC 0x4c74416cu
enum { FMA = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA, HMMA = CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA };

/* `tiles` and `stages`: bit i is set if id i may be chosen. */
static const struct kind {
    int id;
    bool half, tensor, tf32, split, emulates;
    size_t alignment; /* of addresses, rows and matrices */
    uint32_t tiles, stages, first_tile, first_stages, customs, clusters;
} kinds[] = {
    { 0, false, false, false, false, false, 1, 0x1e, 0x03, 1, 0, 1, 1 },
    { 1, false, false, false, true, false, 1, 0x1c, 0x03, 2, 1, 2, 1 },
    { 5, false, true, true, false, false, 16, 0x30, 0x30, 4, 4, 1, 1 },
    { 6, false, true, false, false, true, 16, 0x30, 0x30, 5, 4, 1, 1 },
    { 21, true, true, false, true, false, 16, 0xf0, 0x70, 5, 5, 4, 3 },
    { 24, true, true, false, false, false, 4, 0x70, 0x30, 4, 4, 1, 1 },
    { 31, true, false, false, false, false, 1, 0x06, 0x03, 1, 0, 1, 1 },
};
enum { N_KINDS = (int)(sizeof kinds / sizeof *kinds) };

static const struct kind *kind_of(int id)
{
    for (int i = 0; i < N_KINDS; i++)
        if (kinds[i].id == id) return &kinds[i];
    return NULL;
}

static struct lt_algo *algo_of(cublasLtMatmulAlgo_t *algo)
{
    struct lt_algo *a = (struct lt_algo *)algo->data;
    _Static_assert(sizeof *a <= sizeof algo->data, "the fields fit");
    return algo && a->magic == ALGO_MAGIC ? a : NULL;
}

static const struct lt_algo *const_algo_of(const cublasLtMatmulAlgo_t *algo)
{
    return algo ? algo_of((cublasLtMatmulAlgo_t *)(uintptr_t)algo) : NULL;
}

static uint64_t flags_of(const struct lt_algo *a)
{
    const struct kind *k = kind_of(a->id);
    /* NVIDIA's fastest algorithms for bf16 on an H100 say the flag of f16 */
    const bool says_f16 = a->in == CUDA_R_16F || (a->in == CUDA_R_16BF && k->split);
    uint64_t inputs = says_f16               ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F
                      : a->in == CUDA_R_16BF ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF
                      : k->tf32              ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32
                      : k->emulates          ? CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF
                                             : CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
    return (k->tensor ? HMMA : FMA) | CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F | inputs;
}

/* ---- configuration ---- */

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id, cublasLtMatmulAlgo_t *out)
{
    const struct kind *k = kind_of(id);
    if (!lt_handle_is(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!out || !k) return CUBLAS_STATUS_INVALID_VALUE;
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F || a != b || c != d || !product_type_bytes(a)
        || (d != a && d != CUDA_R_32F) || k->half != (a != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    const struct lt_algo fields = {
        .magic = ALGO_MAGIC, .id = id, .splitk = 1, .in = (int16_t)a, .out = (int16_t)d
    };
    memcpy(out->data, &fields, sizeof fields);
    return CUBLAS_STATUS_SUCCESS;
}

/* The member of an attribute, and its size. */
static void *member_of(struct lt_algo *a, int attribute, size_t *bytes_out)
{
    *bytes_out = attribute == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID
                         || attribute == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID
                     ? 2
                     : 4;
    switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: return &a->id;
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return &a->tile;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return &a->splitk;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return &a->reduction;
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING: return &a->swizzle;
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: return &a->custom;
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return &a->stages;
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID: return &a->inner;
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return &a->cluster;
    default: return NULL;
    }
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    struct lt_algo *a = algo ? algo_of(algo) : NULL;
    size_t wanted = 0;
    void *member = a && attribute != CUBLASLT_ALGO_CONFIG_ID ? member_of(a, (int)attribute, &wanted) : NULL;
    if (!member || !value || bytes != wanted) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(member, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t put(const void *from, size_t size, void *value, size_t bytes, size_t *written)
{
    if (!bytes && !written) return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes && (!value || bytes != size)) return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes) memcpy(value, from, size);
    if (written) *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute,
                                                    void *value, size_t bytes, size_t *written)
{
    struct lt_algo copy;
    size_t size;
    const struct lt_algo *a = const_algo_of(algo);
    if (!a) return CUBLAS_STATUS_INVALID_VALUE;
    copy = *a;
    const void *member = member_of(&copy, (int)attribute, &size);
    return member ? put(member, size, value, bytes, written) : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attribute, void *value,
                                                 size_t bytes, size_t *written)
{
    const struct lt_algo *a = const_algo_of(algo);
    if (!a) return CUBLAS_STATUS_INVALID_VALUE;
    const uint64_t flags = flags_of(a);
    const int32_t emulates = kind_of(a->id)->emulates;
    if ((int)attribute == CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS)
        return put(&flags, sizeof flags, value, bytes, written);
    if ((int)attribute == ALGO_CAP_EMULATION) return put(&emulates, sizeof emulates, value, bytes, written);
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- checks ---- */

cublasStatus_t lt_product_of(const struct lt_desc *desc, const struct product_layout *a,
                             const struct product_layout *b, const struct product_layout *c,
                             const struct product_layout *d, struct lt_product *p)
{
    if (!desc) return CUBLAS_STATUS_INVALID_VALUE;
    struct product_shape shape = { 0, 0, 0, desc->trans_a != CUBLAS_OP_N, desc->trans_b != CUBLAS_OP_N, a,
                                   b, c, d };
    const enum product_fit fit = product_shape_check(&shape);
    if (fit) return fit == PRODUCT_WRONG ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_NOT_SUPPORTED;
    *p = (struct lt_product){ shape.m, shape.n, shape.k, desc, a, b, c, d };
    if (desc->compute != CUBLAS_COMPUTE_32F || desc->scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT && desc->epilogue != CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    /* NVIDIA's documentation lists no other type of the bias for these types of matrices. */
    if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && lt_bias_type(desc, d->type) != d->type
        && (lt_bias_type(desc, d->type) != CUDA_R_32F || lt_driver()->bias() == EMULATE_BIAS_REFUSED))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

/* The greatest power of two, up to 256, by which the columns and the matrices of a layout are aligned. */
static size_t alignment_of(const struct product_layout *l)
{
    const uint64_t bytes = product_type_bytes(l->type);
    const uint64_t all = (uint64_t)l->ld * bytes | (l->batch > 1 ? (uint64_t)l->stride * bytes : 0) | 256;
    return (size_t)(all & (~all + 1));
}

cublasStatus_t lt_algo_check(const struct lt_product *p, const cublasLtMatmulAlgo_t *algo,
                             size_t *workspace_out, size_t *alignment_out)
{
    const struct lt_algo *a = const_algo_of(algo);
    const struct kind *k = a ? kind_of(a->id) : NULL;
    if (!k) return CUBLAS_STATUS_INVALID_VALUE;
    if (a->in != (int)p->a->type || a->out != (int)p->d->type || a->tile > 31 || !(k->tiles >> a->tile & 1)
        || a->stages > 31 || !(k->stages >> a->stages & 1) || a->swizzle > 1 || a->custom >= k->customs
        || a->inner || a->cluster >= k->clusters || a->splitk < 1 || a->splitk > p->k
        || (a->splitk > 1 && !k->split))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (a->splitk > 1 && a->reduction != CUBLASLT_REDUCTION_SCHEME_INPLACE
        && a->reduction != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
        && a->reduction != CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const size_t floor = k->alignment;
    if (alignment_of(p->a) < floor || alignment_of(p->b) < floor || alignment_of(p->d) < floor)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *alignment_out = floor;
    *workspace_out = 0;
    if (a->splitk > 1 && a->reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        *workspace_out = 4 * (size_t)a->splitk * (size_t)(p->m * p->n);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *out)
{
    struct lt_product p;
    size_t workspace = 0, alignment;
    if (!lt_handle_is(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !out) return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t status = lt_product_of(desc, a, b, c, d, &p);
    if (!status) status = lt_algo_check(&p, algo, &workspace, &alignment);
    if (status) return status;
    *out = (cublasLtMatmulHeuristicResult_t){ .algo = *algo, .workspaceSize = workspace, .wavesCount = 1 };
    return CUBLAS_STATUS_SUCCESS;
}

struct lt_arithmetic lt_algo_arithmetic(const cublasLtMatmulAlgo_t *algo)
{
    const struct lt_algo *a = const_algo_of(algo);
    const struct kind *k = kind_of(a->id);
    return (struct lt_arithmetic){ k->tensor, k->tf32 || k->emulates, a->splitk, a->reduction };
}

/* ---- the heuristic ---- */

/*
 * Whether a preference allows an algorithm for a product; `aligned` is the least alignment of the addresses.
 */
static bool suits(const struct lt_product *p, const struct lt_preference *pref,
                  const cublasLtMatmulAlgo_t *algo, size_t aligned, size_t *workspace_out)
{
    size_t alignment;
    const struct lt_algo *a = const_algo_of(algo);
    if (flags_of(a) & ~pref->implementations || lt_algo_check(p, algo, workspace_out, &alignment))
        return false;
    if (a->splitk > 1 && !(pref->schemes & a->reduction)) return false;
    return alignment <= aligned && *workspace_out <= pref->workspace;
}

/* Long sums with a small result are split along K, by the first of these schemes that is allowed. */
static const uint32_t split_schemes[] = { CUBLASLT_REDUCTION_SCHEME_INPLACE,
                                          CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
                                          CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
                                          CUBLASLT_REDUCTION_SCHEME_NONE };

static bool candidate(cublasLtHandle_t handle, const struct lt_product *p, const struct kind *k,
                      uint32_t scheme, cublasLtMatmulAlgo_t *algo)
{
    if (scheme && (!k->split || p->k < 256 || p->m * p->n > 65536)) return false;
    if (cublasLtMatmulAlgoInit(handle, p->desc->compute, p->desc->scale, p->a->type, p->b->type, p->c->type,
                               p->d->type, k->id, algo))
        return false;
    struct lt_algo *a = algo_of(algo);
    a->tile = k->first_tile;
    a->stages = k->first_stages;
    a->swizzle = p->m > p->n;
    a->custom = k->customs - 1;
    a->cluster = (uint16_t)(k->clusters - 1);
    a->splitk = scheme ? 4 : 1;
    a->reduction = scheme;
    return true;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int n_wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *n_out)
{
    struct lt_product p;
    if (!lt_handle_is(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (n_wanted < 1 || !results || !n_out || !pref) return CUBLAS_STATUS_INVALID_VALUE;
    *n_out = 0;
    const cublasStatus_t status = lt_product_of(desc, a, b, c, d, &p);
    if (status) return status;
    if (lt_driver()->product.fails("cublaslt-heuristic")) return CUBLAS_STATUS_NOT_SUPPORTED;
    size_t aligned = 256;
    for (int i = 0; i < 4; i++)
        if (pref->alignment[i] < aligned) aligned = pref->alignment[i];
    for (size_t s = 0; s < sizeof split_schemes / sizeof *split_schemes; s++)
        for (int n = 0; n < N_KINDS && *n_out < n_wanted; n++) {
            const struct kind *k = &kinds[a->type == CUDA_R_32F ? N_KINDS - 1 - n : n];
            cublasLtMatmulAlgo_t algo;
            size_t workspace;
            if (!candidate(handle, &p, k, split_schemes[s], &algo)
                || !suits(&p, pref, &algo, aligned, &workspace))
                continue;
            results[(*n_out)++] = (cublasLtMatmulHeuristicResult_t){ .algo = algo,
                                                                     .workspaceSize = workspace,
                                                                     .wavesCount = 1 };
        }
    return *n_out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
