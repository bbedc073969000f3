/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its limits, its registers and memory, and its blocks. */
#include "emulate/hip/gcn_run.h"

#include "emulate/gpu/blocks.h"
#include "emulate/hip/gcn_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The copies of the executor: for waves of 64 and of 32 lanes. They share no struct with a wave. */
bool gcn_launch_generic64(const struct kernel_launch *launch, struct kernel_fault *fault,
                          struct kernel_counts *counts);
bool gcn_launch_generic32(const struct kernel_launch *launch, struct kernel_fault *fault,
                          struct kernel_counts *counts);
bool gcn_launch_avx2_64(const struct kernel_launch *launch, struct kernel_fault *fault,
                        struct kernel_counts *counts);
bool gcn_launch_avx2_32(const struct kernel_launch *launch, struct kernel_fault *fault,
                        struct kernel_counts *counts);

static bool run_blocks(const struct kernel_launch *launch, struct kernel_fault *fault,
                       struct kernel_counts *counts)
{
    const struct gcn_kernel *k = launch->kernel;
    const bool is_64 = gcn_describe(k->module->arch)->lanes == 64;
#ifdef GCN_HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return is_64 ? gcn_launch_avx2_64(launch, fault, counts) : gcn_launch_avx2_32(launch, fault, counts);
#endif
    return is_64 ? gcn_launch_generic64(launch, fault, counts) : gcn_launch_generic32(launch, fault, counts);
}

/* The number of an architecture in kernel_limits: 0x90a, 0x942, 0x1100. */
static enum kernel_error check(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    const struct gcn_kernel *k = launch->kernel;
    const struct gcn_entry *e = k->entry;
    char text[256];
    if (gcn_target(k->module->arch) != launch->limits->target)
        return gcn_fail(fault, KERNEL_TARGET, k, UINT32_MAX, "the code is for %s, and the device is gfx%x",
                        gcn_arch_name(k->module->arch), launch->limits->target);
    if (e->round_32 || e->round_16_64)
        return gcn_fail(fault, KERNEL_SYNTAX, k, UINT32_MAX,
                        "the kernel asks for a rounding that is not to nearest");
    if (e->denormals_32 != 3 || e->denormals_16_64 != 3)
        return gcn_fail(fault, KERNEL_SYNTAX, k, UINT32_MAX,
                        "the kernel asks that subnormal numbers are flushed");
    const struct kernel_demands demands = { .required = { e->required[0], e->required[1], e->required[2] },
                                            .requires = "reqd_workgroup_size",
                                            .max_threads = e->max_threads,
                                            .shared_bytes = e->shared_bytes,
                                            .shared = "LDS" };
    const enum kernel_error error = kernel_limits_check(launch, &demands, text);
    if (error) return gcn_fail(fault, error, k, (uint32_t)e->code, "%s", text);
    if (e->scratch_bytes > gcn_most_scratch(k->module->arch))
        return gcn_fail(fault, KERNEL_LIMIT, k, (uint32_t)e->code,
                        "a thread needs %u bytes of scratch memory; %u are possible", e->scratch_bytes,
                        gcn_most_scratch(k->module->arch));
    return KERNEL_OK;
}

enum kernel_error gcn_run(const struct kernel_launch *launch, struct kernel_fault *fault)
{
    struct kernel_counts counts = { 0 };
    memset(fault, 0, sizeof *fault);
    if (check(launch, fault)) return fault->error;
    run_blocks(launch, fault, &counts);
    if (launch->counts) kernel_counts_add(launch->counts, &counts);
    return fault->error;
}
