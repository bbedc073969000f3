/* SPDX-License-Identifier: Apache-2.0 */
/** Matrix products, and the gradient of their bias. */
#ifndef YOKE_OPS_GEMM_H
#define YOKE_OPS_GEMM_H

#include <yoke/ops/common.h>

#ifdef __cplusplus
extern "C" {
#endif

#define YOKE_GEMM_OPS(OP) OP(gemm) OP(bias_backward)

/** The epilogue: the computation that follows the product in the same pass. */
enum yoke_epilogue {
    YOKE_EPILOGUE_NONE = 0,
    YOKE_EPILOGUE_BIAS,      /* c = pre + bias[n] */
    YOKE_EPILOGUE_BIAS_GELU, /* aux = pre + bias[n], rounded; c = gelu(aux) (tanh form, see act.h) */
};

/**
 * Matrix product, batched and strided: one product for each i in [0, batch).
 * Maths:  C_i = epilogue(alpha * op(A_i) op(B_i) + beta * C_i),  op(X) = X or X^T
 * Shapes: op(A) [M, K], op(B) [K, N], C [M, N].
 *         A is stored [M, K], lda >= K; with trans_a [K, M], lda >= M.
 *         B is stored [K, N], ldb >= N; with trans_b [N, K], ldb >= K.
 *         ldc >= N; bias [N]; aux [M, N], ldaux >= N.
 *         A_i begins at a + i * stride_a elements, and likewise B, C and aux. With a stride of 0 all products
 *         share A or B.
 * Types:  A and B have the type dtype, one of {f32, f16, bf16}. C and aux have the type out_dtype, which is
 *         dtype or wide. bias is wide. Sums are in f32.
 * Rounds: C is rounded once, to out_dtype. With BIAS_GELU the pre-activation is rounded to out_dtype first
 *         (and stored in aux if aux is not NULL). GELU is evaluated on the rounded value, so fusing never
 *         changes a bit of GELU's input.
 * alpha:  must not be 0 (an unset field), else YOKE_EINVAL. batch must be at least 1. If beta = 0, C is not
 *         read. If K = 0, C = epilogue(beta * C).
 * Writes: C, aux. No output may alias an input. C is read if beta != 0.
 * Errors: YOKE_EINVAL (shape, ld, null, alias), YOKE_EUNSUPPORTED (type), YOKE_ENOMEM (scratch)
 * Bound:  |C - ref| <= u |ref| + E + eta,  E = gamma(K + 4) (|alpha| |A||B| + |beta C0| + |bias|). Tensor
 *         cores have gamma(3.25 K + 9), because they cut sums off. With bf16 input, eta includes 2^-126
 *         |alpha| (sum |a| + sum |b| + K), because matrix units flush subnormals. Those of AMD's MI200 also
 *         flush subnormal f16 numbers: E includes |alpha| |a b| of each product that has one, and 2^-14 for
 *         a result in f16 that is smaller. The same bound holds for
 *         aux. With GELU, the bound of C is that of gelu (act.h) applied to aux.
 */
struct yoke_gemm_args {
    size_t size;
    yoke_dtype dtype, out_dtype;
    bool trans_a, trans_b;
    int64_t M, N, K, batch;
    const void *a;
    int64_t lda, stride_a;
    const void *b;
    int64_t ldb, stride_b;
    void *c;
    int64_t ldc, stride_c;
    float alpha, beta;
    enum yoke_epilogue epilogue;
    const void *bias;
    void *aux;
    int64_t ldaux, stride_aux;
};
yoke_status yoke_gemm(yoke_stream *stream, const struct yoke_gemm_args *args);
yoke_status yoke_gemm_can(const yoke_device *device, const struct yoke_gemm_args *args,
                          struct yoke_cost *cost_out);

/**
 * Gradient of a bias: column sums.
 * Maths:  dbias[c] += sum over n of dy[n, c], in a fixed order
 * Shapes: dy [N, C], ld >= C; dbias [C]      Types: dy in {f32, f16, bf16}; dbias wide. Sums are in f32.
 * Writes: dbias is accumulated (+=)          Errors: YOKE_EINVAL, YOKE_EUNSUPPORTED, YOKE_ENOMEM
 * Bound:  |dbias - ref| <= gamma(N + 1) (sum |dy| + |dbias0|)
 */
struct yoke_bias_backward_args {
    size_t size;
    yoke_dtype dtype;
    int64_t N, C;
    const void *dy;
    int64_t ld;
    void *dbias;
};
yoke_status yoke_bias_backward(yoke_stream *stream, const struct yoke_bias_backward_args *args);
yoke_status yoke_bias_backward_can(const yoke_device *device, const struct yoke_bias_backward_args *args,
                                   struct yoke_cost *cost_out);

/**
 * Measure the device's peak: the operations per second of its fastest square product (M = N = K) of `dtype`.
 * Each size runs once to warm up, then again at least three times and for at least 0.1 s. The fastest product
 * counts. Sizes start at 256 and double until one product takes 10 ms, until the matrices of the next size
 * would take more than an eighth of the free memory, or up to 16384.
 * *size_out is the size of the fastest product, or size_out is NULL. The call blocks.
 * Errors: YOKE_EUNSUPPORTED (type), YOKE_ENOMEM, and the errors of the device.
 */
yoke_status yoke_gemm_peak(yoke_device *device, yoke_dtype dtype, double *flops_per_second_out,
                           int64_t *size_out);

#ifdef __cplusplus
}
#endif
#endif
