/* SPDX-License-Identifier: Apache-2.0 */
/**
 * yoke bench gemm: the sides of the comparison (implementations of a matrix product), and the check of a
 * product.
 */
#ifndef CLI_BENCH_GEMM_H
#define CLI_BENCH_GEMM_H

#include <yoke/yoke.h>

/** One product: C[M,N] = A[M,K] B[K,N], with dense rows, in host memory. */
struct gemm_problem {
    yoke_dtype dtype;
    int64_t M, N, K;
    double flops;    /* operations, as yoke_gemm_can counts them */
    void *a, *b, *c; /* [M,K], [K,N], [M,N], elements of dtype */
};

/**
 * One implementation. If `prepare` returns false, `reason` says why the product cannot be computed. `run`
 * computes the product once and waits for the end.
 */
struct gemm_side {
    const char *name;
    bool (*prepare)(struct gemm_side *side, const struct gemm_problem *problem, char *reason, size_t bytes);
    bool (*run)(struct gemm_side *side);
    bool (*fetch)(struct gemm_side *side); /* copies the result to problem->c */
    void (*release)(struct gemm_side *side);
    void *state;
    int device_index; /* used by CLBlast only */
    char version[96];
};

/** oneDNN called directly, OpenBLAS (f32), and CLBlast on the OpenCL device with the given index. */
extern const struct gemm_side cli_side_onednn, cli_side_openblas;
struct gemm_side cli_side_clblast(int device_index);

/**
 * Whether problem->c is the product. *ratio_out is the greatest |error| / bound. If a product takes only a
 * moment in f64, every element is compared with a sum in f64. Else a fixed sample of elements is compared,
 * and all rows are checked together by their products with a random vector.
 */
bool cli_gemm_check(const struct gemm_problem *problem, double *ratio_out);

#endif
