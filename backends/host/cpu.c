/* SPDX-License-Identifier: Apache-2.0 */
/* Find the compiled instruction sets that this CPU can run. */
#include "backends/host/host.h"

extern const struct host_isa host_isa_generic;
#ifdef __x86_64__
extern const struct host_isa host_isa_avx2, host_isa_avx512, host_isa_avx512bf16;

#include <cpuid.h>

static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

int host_find_isas(const struct host_isa *isas_out[HOST_MAX_ISAS])
{
    int n = 0;
#ifdef __x86_64__
    /* __builtin_cpu_supports also checks that the system saves the registers. */
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
                        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512 && __builtin_cpu_supports("avx512bf16")) isas_out[n++] = &host_isa_avx512bf16;
    if (avx512) isas_out[n++] = &host_isa_avx512;
    if (avx2) isas_out[n++] = &host_isa_avx2;
#endif
    isas_out[n++] = &host_isa_generic;
    return n;
}
