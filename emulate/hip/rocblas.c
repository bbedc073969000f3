/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in rocBLAS. While atomics are allowed, as they are by default, a long sum is split along K, and
 * the parts are added in the result's type, as a kernel with atomics does. So a program that forgets to
 * forbid them gets less exact products.
 */
#include <stdlib.h>
#include <string.h>

#include "emulate/hip/blas.h"
#include "emulate/hip/rocblas.h"

#define HANDLE_MAGIC 0x726f63626c617331ull
enum { LONG_SUM = 256, PARTS = 4 };

struct rocblas_context {
    uint64_t magic;
    void *stream;
    bool flushes, has_atomics, is_device_mode;
};

static bool is_handle(const struct rocblas_context *handle)
{
    return handle && handle->magic == HANDLE_MAGIC;
}

rocblas_status rocblas_create_handle(rocblas_handle *handle_out)
{
    if (!handle_out) return rocblas_status_invalid_handle;
    if (!blas_driver() || blas_driver()->fails("rocblas-create")) return rocblas_status_internal_error;
    struct rocblas_context *handle = calloc(1, sizeof *handle);
    if (!handle) return rocblas_status_memory_error;
    *handle = (struct rocblas_context){ .magic = HANDLE_MAGIC,
                                        .flushes = blas_flushes(),
                                        .has_atomics = true };
    *handle_out = handle;
    return rocblas_status_success;
}

rocblas_status rocblas_destroy_handle(rocblas_handle handle)
{
    if (!is_handle(handle)) return rocblas_status_invalid_handle;
    handle->magic = 0;
    free(handle);
    return rocblas_status_success;
}

rocblas_status rocblas_set_stream(rocblas_handle handle, void *stream)
{
    if (!is_handle(handle)) return rocblas_status_invalid_handle;
    handle->stream = stream;
    return rocblas_status_success;
}

rocblas_status rocblas_get_stream(rocblas_handle handle, void **stream_out)
{
    if (!is_handle(handle)) return rocblas_status_invalid_handle;
    if (!stream_out) return rocblas_status_invalid_pointer;
    *stream_out = handle->stream;
    return rocblas_status_success;
}

rocblas_status rocblas_set_pointer_mode(rocblas_handle handle, rocblas_pointer_mode mode)
{
    if (!is_handle(handle)) return rocblas_status_invalid_handle;
    if (mode != rocblas_pointer_mode_host && mode != rocblas_pointer_mode_device)
        return rocblas_status_invalid_value;
    handle->is_device_mode = mode == rocblas_pointer_mode_device;
    return rocblas_status_success;
}

rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode)
{
    if (!is_handle(handle)) return rocblas_status_invalid_handle;
    if (mode != rocblas_atomics_not_allowed && mode != rocblas_atomics_allowed)
        return rocblas_status_invalid_value;
    handle->has_atomics = mode == rocblas_atomics_allowed;
    return rocblas_status_success;
}

static const char version[] = "4.2.0.stand-in";

rocblas_status rocblas_get_version_string(char *text_out, size_t bytes)
{
    if (!text_out) return rocblas_status_invalid_pointer;
    if (bytes < sizeof version) return rocblas_status_invalid_size;
    memcpy(text_out, version, sizeof version);
    return rocblas_status_success;
}

rocblas_status rocblas_get_version_string_size(size_t *bytes_out)
{
    if (!bytes_out) return rocblas_status_invalid_pointer;
    *bytes_out = sizeof version;
    return rocblas_status_success;
}

const char *rocblas_status_to_string(rocblas_status status)
{
    switch (status) {
    case rocblas_status_success: return "rocblas_status_success";
    case rocblas_status_invalid_handle: return "rocblas_status_invalid_handle";
    case rocblas_status_not_implemented: return "rocblas_status_not_implemented";
    case rocblas_status_invalid_pointer: return "rocblas_status_invalid_pointer";
    case rocblas_status_invalid_size: return "rocblas_status_invalid_size";
    case rocblas_status_memory_error: return "rocblas_status_memory_error";
    case rocblas_status_internal_error: return "rocblas_status_internal_error";
    case rocblas_status_invalid_value: return "rocblas_status_invalid_value";
    default: return "<undefined rocblas_status value>";
    }
}

/* ---- products ---- */

/* -1: no type of a matrix here. */
static int type_of(rocblas_datatype type)
{
    switch (type) {
    case rocblas_datatype_f32_r: return PRODUCT_F32;
    case rocblas_datatype_f16_r: return PRODUCT_F16;
    case rocblas_datatype_bf16_r: return PRODUCT_BF16;
    default: return -1;
    }
}

static bool is_operation(rocblas_operation operation)
{
    return operation == rocblas_operation_none || operation == rocblas_operation_transpose;
}

static struct product_layout layout_of(rocblas_datatype type, bool trans, rocblas_int rows,
                                       rocblas_int columns, rocblas_int ld, rocblas_int batch,
                                       rocblas_stride stride)
{
    return (struct product_layout){
        type_of(type), (uint64_t)(trans ? columns : rows), (uint64_t)(trans ? rows : columns), ld, batch,
        stride
    };
}

static rocblas_status run(rocblas_handle handle, struct product *p)
{
    struct product_shape shape = {
        .trans_a = p->trans_a, .trans_b = p->trans_b, .a = &p->a, .b = &p->b, .c = &p->c, .d = &p->d
    };
    const enum product_fit fit = product_shape_check(&shape);
    if (fit) return fit == PRODUCT_WRONG ? rocblas_status_invalid_size : rocblas_status_not_implemented;
    if (!p->a_at || !p->b_at || !p->d_at || (p->beta != 0 && !p->c_at)) return rocblas_status_invalid_pointer;
    if (blas_driver()->fails("rocblas-gemm")) return rocblas_status_internal_error;
    p->driver = blas_driver();
    p->m = shape.m;
    p->n = shape.n;
    p->k = shape.k;
    p->parts = handle->has_atomics && shape.k >= LONG_SUM ? PARTS : 1;
    return product_enqueue(p, handle->stream) ? rocblas_status_internal_error : rocblas_status_success;
}

rocblas_status rocblas_gemm_strided_batched_ex(
    rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m, rocblas_int n,
    rocblas_int k, const void *alpha, const void *a, rocblas_datatype a_type, rocblas_int lda,
    rocblas_stride stride_a, const void *b, rocblas_datatype b_type, rocblas_int ldb, rocblas_stride stride_b,
    const void *beta, const void *c, rocblas_datatype c_type, rocblas_int ldc, rocblas_stride stride_c,
    void *d, rocblas_datatype d_type, rocblas_int ldd, rocblas_stride stride_d, rocblas_int batch_count,
    rocblas_datatype compute_type, rocblas_gemm_algo algo, int32_t solution_index, uint32_t flags)
{
    (void)solution_index; /* 0, and each other one, is the same product here */
    if (!is_handle(handle)) return rocblas_status_invalid_handle;
    if (!is_operation(trans_a) || !is_operation(trans_b)) return rocblas_status_invalid_value;
    if (m < 0 || n < 0 || k < 0 || batch_count < 0) return rocblas_status_invalid_size;
    if (!m || !n || !batch_count) return rocblas_status_success;
    if (!alpha || !beta) return rocblas_status_invalid_pointer;
    if (handle->is_device_mode || compute_type != rocblas_datatype_f32_r
        || (algo != rocblas_gemm_algo_standard && algo != rocblas_gemm_algo_solution_index))
        return rocblas_status_not_implemented;
    const bool ta = trans_a == rocblas_operation_transpose, tb = trans_b == rocblas_operation_transpose;
    struct product p = {
        .name = batch_count > 1 ? "rocblas_gemm_strided_batched_ex" : "rocblas_gemm_ex",
        .trans_a = ta,
        .trans_b = tb,
        .a = layout_of(a_type, ta, m, k, lda, batch_count, stride_a),
        .b = layout_of(b_type, tb, k, n, ldb, batch_count, stride_b),
        .c = layout_of(c_type, false, m, n, ldc, batch_count, stride_c),
        .d = layout_of(d_type, false, m, n, ldd, batch_count, stride_d),
        .a_at = (uint64_t)(uintptr_t)a,
        .b_at = (uint64_t)(uintptr_t)b,
        .c_at = (uint64_t)(uintptr_t)c,
        .d_at = (uint64_t)(uintptr_t)d,
        .alpha = *(const float *)alpha,
        .beta = *(const float *)beta,
        .flush = handle->flushes
                 && !(a_type == rocblas_datatype_f16_r && flags & rocblas_gemm_flags_fp16_alt_impl),
    };
    return run(handle, &p);
}

rocblas_status rocblas_gemm_ex(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b,
                               rocblas_int m, rocblas_int n, rocblas_int k, const void *alpha, const void *a,
                               rocblas_datatype a_type, rocblas_int lda, const void *b,
                               rocblas_datatype b_type, rocblas_int ldb, const void *beta, const void *c,
                               rocblas_datatype c_type, rocblas_int ldc, void *d, rocblas_datatype d_type,
                               rocblas_int ldd, rocblas_datatype compute_type, rocblas_gemm_algo algo,
                               int32_t solution_index, uint32_t flags)
{
    return rocblas_gemm_strided_batched_ex(handle, trans_a, trans_b, m, n, k, alpha, a, a_type, lda, 0, b,
                                           b_type, ldb, 0, beta, c, c_type, ldc, 0, d, d_type, ldd, 0, 1,
                                           compute_type, algo, solution_index, flags);
}
