/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Declarations of the parts of rocBLAS that Yoke uses. They replace rocblas.h, so that no part of ROCm is
 * needed to build Yoke. They are the same in the versions 2 to 5, which are those of ROCm 5 to 7.
 *
 * Source: rocBLAS API reference, rocm.docs.amd.com/projects/rocBLAS.
 */
#ifndef BACKENDS_HIP_ROCBLAS_API_H
#define BACKENDS_HIP_ROCBLAS_API_H

#include <stddef.h>
#include <stdint.h>

enum {
    rocblas_status_success = 0,
    rocblas_operation_none = 111,
    rocblas_operation_transpose = 112,
    rocblas_datatype_f16_r = 150,
    rocblas_datatype_f32_r = 151,
    rocblas_datatype_bf16_r = 168,
    rocblas_gemm_algo_standard = 0,
    rocblas_atomics_not_allowed = 0,
};
/* Enumerations of AMD's. They are passed as an int is. */
typedef int rocblas_status, rocblas_operation, rocblas_datatype, rocblas_gemm_algo, rocblas_atomics_mode;
typedef int32_t rocblas_int;
typedef int64_t rocblas_stride;
typedef struct _rocblas_handle *rocblas_handle;

/** All functions of librocblas that Yoke calls: F(result, name, parameters). */
/* clang-format off */
#define YOKEI_ROCBLAS_FUNCTIONS(F)                                                                           \
    F(rocblas_status, rocblas_create_handle, (rocblas_handle * handle))                                      \
    F(rocblas_status, rocblas_destroy_handle, (rocblas_handle handle))                                       \
    F(rocblas_status, rocblas_set_stream, (rocblas_handle handle, void *stream))                             \
    F(rocblas_status, rocblas_set_atomics_mode, (rocblas_handle handle, rocblas_atomics_mode mode))          \
    F(rocblas_status, rocblas_get_version_string, (char *text, size_t bytes))                                \
    F(const char *, rocblas_status_to_string, (rocblas_status status))                                       \
    F(rocblas_status, rocblas_gemm_strided_batched_ex,                                                       \
      (rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,           \
       rocblas_int n, rocblas_int k, const void *alpha, const void *a, rocblas_datatype a_type,              \
       rocblas_int lda, rocblas_stride stride_a, const void *b, rocblas_datatype b_type, rocblas_int ldb,    \
       rocblas_stride stride_b, const void *beta, const void *c, rocblas_datatype c_type, rocblas_int ldc,   \
       rocblas_stride stride_c, void *d, rocblas_datatype d_type, rocblas_int ldd, rocblas_stride stride_d,  \
       rocblas_int n_products, rocblas_datatype compute, rocblas_gemm_algo algo, int32_t solution,           \
       uint32_t flags))
/* clang-format on */

#endif
