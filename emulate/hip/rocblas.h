/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A stand-in for rocBLAS, for tests. Its products run on the stand-in libamdhip64's memory. This header has
 * the part of AMD's interface that the stand-in offers. Matrices are stored by columns.
 *
 * Source: rocBLAS API reference, rocm.docs.amd.com/projects/rocBLAS.
 */
#ifndef EMULATE_HIP_ROCBLAS_H
#define EMULATE_HIP_ROCBLAS_H

#include <stddef.h>
#include <stdint.h>

enum {
    rocblas_status_success = 0,
    rocblas_status_invalid_handle = 1,
    rocblas_status_not_implemented = 2,
    rocblas_status_invalid_pointer = 3,
    rocblas_status_invalid_size = 4,
    rocblas_status_memory_error = 5,
    rocblas_status_internal_error = 6,
    rocblas_status_invalid_value = 11,
    rocblas_operation_none = 111,
    rocblas_operation_transpose = 112,
    rocblas_datatype_f16_r = 150,
    rocblas_datatype_f32_r = 151,
    rocblas_datatype_bf16_r = 168,
    rocblas_gemm_algo_standard = 0,
    rocblas_gemm_algo_solution_index = 1,
    rocblas_gemm_flags_none = 0,
    rocblas_gemm_flags_fp16_alt_impl = 4, /* MI200 keeps the subnormal numbers of f16 */
    rocblas_atomics_not_allowed = 0,
    rocblas_atomics_allowed = 1,
    rocblas_pointer_mode_host = 0,
    rocblas_pointer_mode_device = 1,
};
typedef int rocblas_status, rocblas_operation, rocblas_datatype, rocblas_gemm_algo, rocblas_pointer_mode,
    rocblas_atomics_mode;
typedef int32_t rocblas_int;
typedef int64_t rocblas_stride;
typedef struct rocblas_context *rocblas_handle;

rocblas_status rocblas_create_handle(rocblas_handle *handle_out);
rocblas_status rocblas_destroy_handle(rocblas_handle handle);
rocblas_status rocblas_set_stream(rocblas_handle handle, void *stream);
rocblas_status rocblas_get_stream(rocblas_handle handle, void **stream_out);
rocblas_status rocblas_set_pointer_mode(rocblas_handle handle, rocblas_pointer_mode mode);
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode);
rocblas_status rocblas_get_version_string(char *text_out, size_t bytes);
rocblas_status rocblas_get_version_string_size(size_t *bytes_out);
const char *rocblas_status_to_string(rocblas_status status);
rocblas_status rocblas_gemm_ex(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b,
                               rocblas_int m, rocblas_int n, rocblas_int k, const void *alpha, const void *a,
                               rocblas_datatype a_type, rocblas_int lda, const void *b,
                               rocblas_datatype b_type, rocblas_int ldb, const void *beta, const void *c,
                               rocblas_datatype c_type, rocblas_int ldc, void *d, rocblas_datatype d_type,
                               rocblas_int ldd, rocblas_datatype compute_type, rocblas_gemm_algo algo,
                               int32_t solution_index, uint32_t flags);
rocblas_status rocblas_gemm_strided_batched_ex(
    rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m, rocblas_int n,
    rocblas_int k, const void *alpha, const void *a, rocblas_datatype a_type, rocblas_int lda,
    rocblas_stride stride_a, const void *b, rocblas_datatype b_type, rocblas_int ldb, rocblas_stride stride_b,
    const void *beta, const void *c, rocblas_datatype c_type, rocblas_int ldc, rocblas_stride stride_c,
    void *d, rocblas_datatype d_type, rocblas_int ldd, rocblas_stride stride_d, rocblas_int batch_count,
    rocblas_datatype compute_type, rocblas_gemm_algo algo, int32_t solution_index, uint32_t flags);

#endif
