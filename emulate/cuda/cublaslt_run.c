/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in cuBLASLt: a product as a command of a stream. The operands are read when the command runs, and
 * each byte is checked.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/cublaslt.h"
#include "emulate/cuda/emulate.h"

enum { ILLEGAL_ADDRESS = 700, OUT_OF_MEMORY = 2, WORKSPACE_ALIGNMENT = 256 };

/* Everything that a product needs when it runs, because the descriptions may change after the call. */
struct work {
    struct lt_product p;
    struct lt_desc desc;
    struct lt_layout a, b, c, d;
    struct lt_arithmetic arithmetic;
    int block; /* the products that a matrix unit adds at a time; 0: no matrix units */
    float alpha, beta;
    uint64_t a_at, b_at, c_at, d_at, workspace;
    float *op_a, *op_b, *out; /* [m, k], [n, k], [m] of one matrix */
    char *text;
    size_t text_bytes;
};

/* ---- types ---- */

static float from_half(uint16_t h)
{
    const int e = h >> 10 & 31, f = h & 1023;
    const float sign = h & 0x8000 ? -1.0f : 1.0f;
    if (e == 31) return f ? NAN : sign * INFINITY;
    return sign * (e ? ldexpf((float)(1024 + f), e - 25) : ldexpf((float)f, -24));
}

static uint16_t to_half(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const float size = fabsf(x);
    if (isnan(x)) return 0x7fff;
    if (size >= 65520.0f) return sign | 0x7c00;
    if (size < 0x1p-14f) return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
    bits = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits - 0x38000000u) >> 13));
}

static float from_bfloat(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_bfloat(float x)
{
    uint32_t bits;
    if (isnan(x)) return 0x7fff;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float load(const void *from, int64_t i, cudaDataType_t type)
{
    if (type == CUDA_R_32F) return ((const float *)from)[i];
    const uint16_t bits = ((const uint16_t *)from)[i];
    return type == CUDA_R_16F ? from_half(bits) : from_bfloat(bits);
}

static void store(void *to, int64_t i, cudaDataType_t type, float x)
{
    if (type == CUDA_R_32F)
        ((float *)to)[i] = x;
    else
        ((uint16_t *)to)[i] = type == CUDA_R_16F ? to_half(x) : to_bfloat(x);
}

static float rounded(float x, cudaDataType_t type)
{
    uint32_t place;
    store(&place, 0, type, x);
    return load(&place, 0, type);
}

/* f32 shortened to 10 bits, as TF32 has. */
static float shortened(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- the product ---- */

static void *column(const struct work *w, const struct lt_layout *l, uint64_t at, int64_t batch, int64_t j,
                    int writes, const char *what)
{
    const uint64_t element = (uint64_t)(batch * (l->batch > 1 ? l->stride : 0) + j * l->ld);
    return lt_driver()->bytes(at + element * lt_type_bytes(l->type), l->rows * lt_type_bytes(l->type), writes,
                              what, w->text, w->text_bytes);
}

/* Copy a matrix to out[i * k + kk], where i counts rows of op(A) or columns of op(B). */
static bool fetch(const struct work *w, const struct lt_layout *l, uint64_t at, int64_t batch, bool k_is_row,
                  const char *what, float *out)
{
    const int64_t k = w->p.k;
    for (int64_t j = 0; j < (int64_t)l->columns; j++) {
        const void *from = column(w, l, at, batch, j, 0, what);
        if (!from) return false;
        for (int64_t i = 0; i < (int64_t)l->rows; i++) {
            const float x = load(from, i, l->type);
            out[k_is_row ? j * k + i : i * k + j] = w->arithmetic.tf32 ? shortened(x) : x;
        }
    }
    return true;
}

/*
 * The sum of one element, in parts along K if the algorithm has parts. Parts in the compute type lie in the
 * workspace.
 */
static float sum_of(const struct work *w, int64_t i, int64_t j, float *parts)
{
    const int64_t k = w->p.k, n_parts = w->arithmetic.splitk;
    const float *a = w->op_a + i * k, *b = w->op_b + j * k;
    if (n_parts == 1) return lt_dot(a, b, k, w->block);
    const bool wide = w->arithmetic.reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    float sum = 0;
    for (int64_t s = 0; s < n_parts; s++) {
        const int64_t begin = k * s / n_parts, end = k * (s + 1) / n_parts;
        const float part = lt_dot(a + begin, b + begin, end - begin, w->block);
        if (parts) parts[s * w->p.m * w->p.n + j * w->p.m + i] = part;
        sum = wide ? sum + part : rounded(sum + rounded(part, w->d.type), w->d.type);
    }
    return sum;
}

/* The product and the bias, before the last rounding. */
static float with_bias(const struct work *w, float x, const void *bias, int64_t i)
{
    const cudaDataType_t type = lt_bias_type(&w->desc, w->d.type);
    const float b = load(bias, i, type);
    if (type == w->d.type) return x + b;
    switch (lt_driver()->bias()) {
    case EMULATE_BIAS_TWICE: return rounded(x, w->d.type) + b;
    case EMULATE_BIAS_SHORT: return x + rounded(b, w->d.type);
    default: return x + b;
    }
}

static int multiply(struct work *w, int64_t batch, const void *bias)
{
    const int64_t m = w->p.m, n = w->p.n;
    float *parts = NULL;
    if (!fetch(w, &w->a, w->a_at, batch, w->desc.trans_a != CUBLAS_OP_N, "cublasLtMatmul: A", w->op_a)
        || !fetch(w, &w->b, w->b_at, batch, w->desc.trans_b == CUBLAS_OP_N, "cublasLtMatmul: B", w->op_b))
        return ILLEGAL_ADDRESS;
    if (w->arithmetic.splitk > 1 && w->arithmetic.reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
        parts = lt_driver()->bytes(w->workspace, 4 * (size_t)(w->arithmetic.splitk * m * n), 1,
                                   "cublasLtMatmul: the workspace", w->text, w->text_bytes);
        if (!parts) return ILLEGAL_ADDRESS;
    }
    for (int64_t j = 0; j < n; j++) {
        const void *c = w->beta != 0 ? column(w, &w->c, w->c_at, batch, j, 0, "cublasLtMatmul: C") : NULL;
        if (w->beta != 0 && !c) return ILLEGAL_ADDRESS;
        for (int64_t i = 0; i < m; i++) {
            float x = w->alpha * sum_of(w, i, j, parts);
            if (c) x = fmaf(w->beta, load(c, i, w->c.type), x);
            w->out[i] = bias ? with_bias(w, x, bias, i) : x;
        }
        void *d = column(w, &w->d, w->d_at, batch, j, 1, "cublasLtMatmul: D");
        if (!d) return ILLEGAL_ADDRESS;
        for (int64_t i = 0; i < m; i++) store(d, i, w->d.type, w->out[i]);
    }
    return 0;
}

static int run_matmul(void *user, char *text, size_t text_bytes)
{
    struct work *w = user;
    const struct lt_product *p = &w->p;
    const void *bias = NULL;
    int error = 0;
    w->text = text, w->text_bytes = text_bytes;
    w->op_a = malloc(sizeof(float) * (size_t)(p->m * p->k));
    w->op_b = malloc(sizeof(float) * (size_t)(p->n * p->k));
    w->out = malloc(sizeof(float) * (size_t)p->m);
    if (!w->op_a || !w->op_b || !w->out) {
        snprintf(text, text_bytes, "the host has no memory for a product of cublasLtMatmul");
        return OUT_OF_MEMORY;
    }
    if (w->desc.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        const size_t one = lt_type_bytes(lt_bias_type(&w->desc, w->d.type));
        bias = lt_driver()->bytes((uint64_t)(uintptr_t)w->desc.bias, (size_t)p->m * one, 0,
                                  "cublasLtMatmul: the bias", text, text_bytes);
        if (!bias) return ILLEGAL_ADDRESS;
    }
    for (int64_t batch = 0; batch < w->d.batch && !error; batch++) error = multiply(w, batch, bias);
    return error;
}

static void release(void *user)
{
    struct work *w = user;
    free(w->op_a);
    free(w->op_b);
    free(w->out);
    free(w);
}

/* ---- the call ---- */

static bool is_aligned(const void *address, size_t alignment) { return (uintptr_t)address % alignment == 0; }

/* The units of Volta and Turing add 4 products at a time, those of Ampere 8, and those of Hopper 16. */
static int block_of(int capability) { return capability >= 90 ? 16 : capability >= 80 ? 8 : 4; }

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
        || !is_aligned(a, lt_type_bytes(p.a->type)) || !is_aligned(d, lt_type_bytes(p.d->type))
        || (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && !desc->bias)
        || (c == d && (c_layout->ld != d_layout->ld || c_layout->stride != d_layout->stride)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (lt_driver()->fails("cublaslt-matmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
    struct work *w = calloc(1, sizeof *w);
    if (!w) return CUBLAS_STATUS_ALLOC_FAILED;
    *w = (struct work){ .p = p,
                        .desc = *desc,
                        .a = *a_layout,
                        .b = *b_layout,
                        .c = *c_layout,
                        .d = *d_layout,
                        .arithmetic = lt_algo_arithmetic(algo),
                        .alpha = *(const float *)alpha,
                        .beta = *(const float *)beta,
                        .a_at = (uint64_t)(uintptr_t)a,
                        .b_at = (uint64_t)(uintptr_t)b,
                        .c_at = (uint64_t)(uintptr_t)c,
                        .d_at = (uint64_t)(uintptr_t)d,
                        .workspace = (uint64_t)(uintptr_t)workspace };
    w->block = w->arithmetic.tensor ? block_of(handle->capability) : 0;
    return lt_driver()->enqueue(stream, "cublasLtMatmul", run_matmul, release, w)
               ? CUBLAS_STATUS_EXECUTION_FAILED
               : CUBLAS_STATUS_SUCCESS;
}
