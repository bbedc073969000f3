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
    YOKEI_GEMM_LAST = 32,
    YOKEI_GEMM_WIDE = 64
};
static inline int32_t yokei_gpu_gemm_flags(const struct yoke_gemm_args *args)
{
    const int32_t gelu = YOKEI_GEMM_HAS_GELU | (args->aux ? YOKEI_GEMM_HAS_AUX : 0);
    return (args->beta != 0 ? YOKEI_GEMM_HAS_BETA : 0)
           | (args->epilogue != YOKE_EPILOGUE_NONE ? YOKEI_GEMM_HAS_BIAS : 0)
           | (args->epilogue == YOKE_EPILOGUE_BIAS_GELU ? gelu : 0);
}

/**
 * Whether kernels may move four elements of a row at once. This needs rows and products whose addresses are
 * multiples of the bytes of four elements. `batch` is the number of products.
 */
static inline bool yokei_gpu_gemm_in_fours(const void *base, int64_t ld, int64_t stride, int64_t batch,
                                           yoke_dtype dtype)
{
    return (uintptr_t)base % (4 * yoke_dtype_bytes(dtype)) == 0 && ld % 4 == 0
           && (batch == 1 || stride % 4 == 0);
}

/**
 * The flag YOKEI_GEMM_WIDE if C, the bias and aux allow it, else 0.
 */
static inline int32_t yokei_gpu_gemm_wide(const struct yoke_gemm_args *args)
{
    const bool c = yokei_gpu_gemm_in_fours(args->c, args->ldc, args->stride_c, args->batch, args->out_dtype),
               bias = args->epilogue == YOKE_EPILOGUE_NONE || (uintptr_t)args->bias % 16 == 0,
               aux = args->epilogue != YOKE_EPILOGUE_BIAS_GELU || !args->aux
                     || yokei_gpu_gemm_in_fours(args->aux, args->ldaux, args->stride_aux, args->batch,
                                                args->out_dtype);
    return c && bias && aux ? YOKEI_GEMM_WIDE : 0;
}

/** How a product is divided. The library multiplies `rows` rows at a time, then Yoke's epilogue follows. */
struct yokei_gpu_division {
    int64_t rows;
    bool finish;       /* Yoke's own epilogue follows */
    bool in_scratch;   /* the library writes to scratch memory, and not to C */
    bool no_bias;      /* the library adds no bias, so Yoke's epilogue does */
    bool adds;         /* the library adds to the product of the last summands in scratch memory */
    int64_t ld;        /* leading dimension of the product in scratch memory */
    size_t part_bytes; /* bytes of the product in scratch memory */
};

/**
 * How the library multiplies: the division, the first and the last piece. Others are like the first. If
 * has_tail is true, products of their own have the last columns of C, or the last summands. They run first.
 */
struct yokei_gpu_library_plan {
    struct yokei_gpu_division division;
    struct yokei_gpu_product first, last, first_tail, last_tail;
    bool has_tail;
    size_t scratch_bytes;
};

/**
 * Plan how the device's library multiplies this product. YOKE_EUNSUPPORTED, with the reason, if the library
 * does not. M, N and K are not 0.
 */
yoke_status yokei_gpu_library_plan(const yoke_device *device, const struct yoke_gemm_args *args, int variant,
                                   const char *detail, struct yokei_gpu_library_plan *plan_out);
/** The scratch memory for a product of these sizes with any addresses. */
yoke_status yokei_gpu_library_scratch(const yoke_device *device, const struct yoke_gemm_args *args,
                                      int variant, const char *detail, size_t *scratch_bytes_out);
/** Run a plan that was made for the same arguments. */
yoke_status yokei_gpu_library_run(yoke_stream *stream, const struct yoke_gemm_args *args, int variant,
                                  const char *detail, const struct yokei_gpu_library_plan *plan);
/** The program with the epilogue that follows a library's product. */
struct yokei_gpu_program yokei_gpu_finish_program(yoke_dtype dtype, yoke_dtype out_dtype);

#endif
