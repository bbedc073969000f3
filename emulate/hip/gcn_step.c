/* SPDX-License-Identifier: Apache-2.0 */
/* One instruction on given registers. */
#include "emulate/hip/gcn_step.h"

#include "emulate/hip/gcn_code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef bool run(struct gcn_instruction *I, enum gcn_arch arch, struct gcn_step *step,
                 struct kernel_fault *fault);
run gcn_step_run_generic64, gcn_step_run_generic32, gcn_step_run_avx2_64, gcn_step_run_avx2_32;

/*
 * Run the generic copy of the executor, and where the host has AVX2 the other one as well. Both have to come
 * to the same.
 */
static void run_copies(struct gcn_instruction *I, enum gcn_arch arch, struct gcn_step *step,
                       struct kernel_fault *fault)
{
    const bool is_64 = gcn_describe(arch)->lanes == 64;
#ifdef GCN_HAS_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        struct gcn_step *other = malloc(sizeof *other);
        if (!other) {
            gcn_fail(fault, KERNEL_NO_MEMORY, NULL, 0, "there is not enough memory");
            return;
        }
        *other = *step;
        (is_64 ? gcn_step_run_avx2_64 : gcn_step_run_avx2_32)(I, arch, other, fault);
        if (!fault->error) {
            (is_64 ? gcn_step_run_generic64 : gcn_step_run_generic32)(I, arch, step, fault);
            if (!fault->error && memcmp(other, step, sizeof *step) != 0)
                gcn_fail(fault, KERNEL_SYNTAX, NULL, 0,
                         "%s: the copies of the executor come to different results", I->name);
        }
        free(other);
        return;
    }
#endif
    (is_64 ? gcn_step_run_generic64 : gcn_step_run_generic32)(I, arch, step, fault);
}

/* Whether the instruction stays within the registers of a step. */
static bool fits(const struct gcn_instruction *I)
{
    for (int i = 0; i <= I->n_uses; i++) {
        const struct gcn_span span = i < I->n_uses ? I->uses[i] : I->fills;
        const uint32_t end = (uint32_t)span.first + span.n;
        if (!span.n || span.first >= GCN_ROWS) continue;
        if (span.first < GCN_AGPR ? end > GCN_STEP_VGPRS : end > GCN_AGPR + GCN_STEP_AGPRS) return false;
    }
    return true;
}

enum kernel_error gcn_step(enum gcn_arch arch, const void *bytes, size_t n, struct gcn_step *step,
                           struct kernel_fault *fault)
{
    struct gcn_instruction I[2];
    char reason[GCN_REASON];
    memset(fault, 0, sizeof *fault);
    if (!gcn_decode(arch, bytes, n, I, reason)) return gcn_fail(fault, KERNEL_SYNTAX, NULL, 0, "%s", reason);
    if (!fits(&I[0]) || !fits(&I[1]))
        return gcn_fail(fault, KERNEL_LIMIT, NULL, 0, "a step has %d VGPRs and %d AGPRs", GCN_STEP_VGPRS,
                        GCN_STEP_AGPRS);
    run_copies(I, arch, step, fault);
    return fault->error;
}

bool gcn_name(enum gcn_arch arch, const void *bytes, size_t n, char name[32])
{
    struct gcn_instruction I[2];
    char reason[GCN_REASON];
    if (!gcn_decode(arch, bytes, n, I, reason)) return false;
    snprintf(name, 32, "%s", I->name);
    return true;
}
