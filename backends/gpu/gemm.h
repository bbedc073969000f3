/* SPDX-License-Identifier: Apache-2.0 */
/** What gemm.c and gemm_library.c share: the flags of the epilogue, and the products of a library. */
#ifndef BACKENDS_GPU_GEMM_H
#define BACKENDS_GPU_GEMM_H

#include "backends/gpu/families.h"

/* The flags of the epilogue, with the same values as in gemm.yk. */
enum {
    YOKEI_GEMM_HAS_BETA = 1,
    YOKEI_GEMM_HAS_BIAS = 2,
    YOKEI_GEMM_HAS_GELU = 4,
    YOKEI_GEMM_HAS_AUX = 8,
    YOKEI_GEMM_FIRST = 16,
    YOKEI_GEMM_LAST = 32
};
static inline int32_t yokei_gpu_gemm_flags(const struct yoke_gemm_args *args)
{
    const int32_t gelu = YOKEI_GEMM_HAS_GELU | (args->aux ? YOKEI_GEMM_HAS_AUX : 0);
    return (args->beta != 0 ? YOKEI_GEMM_HAS_BETA : 0)
           | (args->epilogue != YOKE_EPILOGUE_NONE ? YOKEI_GEMM_HAS_BIAS : 0)
           | (args->epilogue == YOKE_EPILOGUE_BIAS_GELU ? gelu : 0);
}

/**
 * Whether the device's library multiplies this, and the scratch memory that it needs. M, N and K are not 0.
 */
yoke_status yokei_gpu_library_can(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                                  const char *detail, size_t *scratch_bytes_out);
yoke_status yokei_gpu_library_run(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
                                  const char *detail);
/** The program with the epilogue that follows a library's product. */
struct yokei_gpu_program yokei_gpu_finish_program(yoke_dtype dtype, yoke_dtype out_dtype);

#endif
