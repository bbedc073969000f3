/* SPDX-License-Identifier: Apache-2.0 */
/** yoke bench gemm: the sides of the comparison, and the check of a product. */
#ifndef CLI_BENCH_GEMM_H
#define CLI_BENCH_GEMM_H

#include <yoke/yoke.h>

/** One product: C[M,N] = A[M,K] B[K,N], dense rows, in host memory, and what is needed to check it. */
struct gemm_problem {
    yoke_dtype dtype;
    int64_t M, N, K;
    void *a, *b, *c; /* of dtype */
};

/** One way to compute it. `prepare` says why not in `reason`; `run` computes once and waits for the end. */
struct gemm_side {
    const char *name;
    bool (*prepare)(struct gemm_side *side, const struct gemm_problem *problem, char *reason, size_t bytes);
    bool (*run)(struct gemm_side *side);
    bool (*fetch)(struct gemm_side *side); /* the result to problem->c */
    void (*release)(struct gemm_side *side);
    void *state;
    int device_index; /* CLBlast */
    char version[96];
};

/** oneDNN called directly, OpenBLAS (f32), CLBlast on the OpenCL device of that index. */
extern const struct gemm_side cli_side_onednn, cli_side_openblas;
struct gemm_side cli_side_clblast(int device_index);

/**
 * Whether problem->c is the product: the greatest |error| / bound in *ratio_out. Every element is compared with a sum in
 * f64 where that takes a moment; else a fixed sample is, and all rows together by their products with a random vector.
 */
bool cli_gemm_check(const struct gemm_problem *problem, double *ratio_out);

/** The fastest rate that this host's vector units were seen to reach with n threads, operations per second; 0: unknown. */
double cli_peak(yoke_dtype dtype, int n_threads);

#endif
