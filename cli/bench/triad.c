/* SPDX-License-Identifier: Apache-2.0 */
/* The limit that no implementation can exceed, for memory on which all ranks, or threads, work at once. */
#include "cli/bench/triad.h"

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx512f"))) static size_t triad_512(float *a, const float *b, const float *c, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_stream_ps(a + i, _mm512_add_ps(_mm512_load_ps(b + i),
                                              _mm512_mul_ps(_mm512_set1_ps(3), _mm512_load_ps(c + i))));
    _mm_sfence();
    return i;
}

static size_t triad_128(float *a, const float *b, const float *c, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        _mm_stream_ps(a + i, _mm_add_ps(_mm_load_ps(b + i), _mm_mul_ps(_mm_set1_ps(3), _mm_load_ps(c + i))));
    _mm_sfence();
    return i;
}
#endif

void bench_triad(float *memory, double bytes)
{
    /* whole cache lines, so that all three arrays begin with one */
    const size_t n = (size_t)(bytes / 3 / sizeof(float)) / 16 * 16;
    float *a = memory, *b = a + n, *c = b + n;
    size_t done = 0;
#ifdef __x86_64__
    done = (__builtin_cpu_supports("avx512f") ? triad_512 : triad_128)(a, b, c, n);
#endif
    for (; done < n; done++) a[done] = b[done] + 3 * c[done]; /* on other CPUs: ordinary stores */
}
