/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the host's functions of one instruction set. */
#ifndef TESTS_UNIT_HOST_ISA_H
#define TESTS_UNIT_HOST_ISA_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "backends/host/vec.h"

/* Whether this CPU has the instruction set for which the test was compiled. */
static inline bool runs_here(void)
{
#if defined(HOST_AVX512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(HOST_AVX2)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return true;
#endif
}

static inline float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
