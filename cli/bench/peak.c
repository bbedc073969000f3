/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate at which this host's vector units multiply and add, without loads and stores. It is the limit of a
 * matrix product.
 */
#include "cli/bench/gemm.h"
#include "core/base/base.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* independent sums; enough to hide the latency of two units, and few enough for the registers */
#define CHAINS 12
#define ROUNDS 200000
#define SAMPLES 40

typedef float (*loop)(int rounds); /* returns a sum, so that the work is not removed */

#if defined(__x86_64__)
__attribute__((target("avx512f"))) static float fma_avx512(int rounds)
{
    __m512 sum[CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f), all = _mm512_setzero_ps();
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_fmadd_ps(sum[i], x, y);
    for (int i = 0; i < CHAINS; i++) all = _mm512_add_ps(all, sum[i]);
    return _mm512_reduce_add_ps(all);
}

__attribute__((target("avx512f,avx512bf16"))) static float dot_avx512(int rounds)
{
    __m512 sum[CHAINS], all = _mm512_setzero_ps();
    __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm512_dpbf16_ps(sum[i], x, x);
    for (int i = 0; i < CHAINS; i++) all = _mm512_add_ps(all, sum[i]);
    return _mm512_reduce_add_ps(all);
}

__attribute__((target("avx2,fma"))) static float fma_avx2(int rounds)
{
    __m256 sum[CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f), all = _mm256_setzero_ps();
    float lanes[8];
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_set1_ps((float)i);
    for (int r = 0; r < rounds; r++)
        for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_fmadd_ps(sum[i], x, y);
    for (int i = 0; i < CHAINS; i++) all = _mm256_add_ps(all, sum[i]);
    _mm256_storeu_ps(lanes, all);
    return lanes[0] + lanes[7];
}

/* Choose the loop for this CPU. *operations_out is its number of operations per round. */
static loop choose(yoke_dtype dtype, double *operations_out)
{
    __builtin_cpu_init();
    *operations_out = CHAINS * 16 * 2;
    if (dtype == YOKE_BF16 && __builtin_cpu_supports("avx512bf16")) return *operations_out *= 2, dot_avx512;
    if (__builtin_cpu_supports("avx512f")) return fma_avx512;
    *operations_out = CHAINS * 8 * 2;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? fma_avx2 : NULL;
}
#else
static loop choose(yoke_dtype dtype, double *operations_out)
{
    (void)dtype;
    *operations_out = 0;
    return NULL;
}
#endif

double cli_peak(yoke_dtype dtype, int n_threads)
{
    double operations, best = 0;
    loop body = choose(dtype, &operations);
    if (!body) return 0;
    volatile float sink = 0;
    for (int s = 0; s < SAMPLES; s++) {
        float sum = 0;
        uint64_t start = yokei_now_ns();
#pragma omp parallel for num_threads(n_threads) reduction(+ : sum) schedule(static, 1)
        for (int t = 0; t < n_threads; t++) sum += body(ROUNDS);
        double rate = operations * ROUNDS * n_threads / ((double)(yokei_now_ns() - start) * 1e-9);
        sink = sum;
        if (rate > best) best = rate; /* the highest rate, because noise only lowers it */
    }
    (void)sink;
    return best;
}
