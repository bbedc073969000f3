/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles every device program with NVRTC, down to machine code. ptxas, which is a part of NVRTC, says what
 * each kernel takes of a multiprocessor: a block must fit, and no kernel may spill registers to memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "tests/unit/rtc.h"

/* What every architecture from 7.5 on has (CUDA C++ Programming Guide, "Technical Specifications"). */
enum { REGISTERS = 65536, REGISTERS_OF_THREAD = 255, SHARED_BYTES = 49152, WARP = 32 };

/*
 * NVRTC 13.0 gives these kernels few registers on one architecture or another, and keeps one to seven values
 * of a thread in memory. The numbers are the most bytes that it stores. No other kernel may spill.
 */
static const struct {
    const char *kernel;
    int bytes;
} spills[] = {
    { "attention_dkv_mma", 16 }, { "attention_dkv_team", 28 }, { "attention_forward_mma", 4 },
    { "bias_partial", 4 },       { "gelu_backward", 8 },       { "gelu_erf_backward", 8 },
    { "gelu_erf_forward", 8 },   { "gemm_team", 4 },           { "rope", 16 },
    { "xent_forward", 12 },      { "xent_join", 8 },
};

static int most_spill(const char *kernel)
{
    for (size_t i = 0; i < YOKE_COUNT(spills); i++)
        if (!strcmp(spills[i].kernel, kernel)) return spills[i].bytes;
    return 0;
}

/* The number before ` words` in a line; 0 if the line does not have these words. */
static int number_before(const char *line, size_t length, const char *words)
{
    const char *at = memmem(line, length, words, strlen(words));
    if (!at) return 0;
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

/* Whether a block of the kernel fits. Registers are given out to warps, 8 for each thread at a time. */
static bool fits(const struct yokei_gpu_program *program, int registers, int shared)
{
    const int threads = (program->L * program->G + WARP - 1) / WARP * WARP;
    return registers <= REGISTERS_OF_THREAD && (registers + 7) / 8 * 8 * threads <= REGISTERS
           && shared <= SHARED_BYTES;
}

static bool judge(const struct rtc_target *target, const struct yokei_gpu_program *program, const char *log)
{
    char kernel[80] = "";
    int spill = 0, n = 0;
    bool good = true;
    for (const char *line = log, *next; *line; line = next) {
        const size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        const char *entry = memmem(line, length, "entry function '", 16);
        if (entry) sscanf(entry + 16, "%79[^']", kernel);
        if (memmem(line, length, "spill stores", 12))
            spill = number_before(line, length, " bytes spill stores");
        if (!memmem(line, length, "Used ", 5)) continue;
        const int registers = number_before(line, length, " registers"),
                  shared = number_before(line, length, " bytes smem");
        n++;
        if (registers > 0 && fits(program, registers, shared) && spill <= most_spill(kernel)) continue;
        printf("# %s for %s: %d registers, %d threads, %d bytes of shared memory, %d bytes spilled\n", kernel,
               target->name, registers, program->L * program->G, shared, spill);
        good = false;
    }
    if (!n) printf("# NVRTC says nothing of the registers: %.200s\n", log);
    return good && n > 0;
}

int main(void)
{
    char reason[YOKE_REASON_BYTES];
    const struct cuda_nvrtc *found = yokei_cuda_nvrtc(99000, reason,
                                                      sizeof reason); /* where the backend finds it */
    const char *const libraries[] = { found ? found->path : "libnvrtc.so", NULL };
    static const struct rtc_target targets[] = { { "sm_75", "--gpu-architecture=sm_75", 32 },
                                                 { "sm_80", "--gpu-architecture=sm_80", 32 },
                                                 { "sm_90", "--gpu-architecture=sm_90", 32 },
                                                 { NULL, NULL, 0 } };
    static const char *const options[] = { "--std=c++14",
                                           "--fmad=false",
                                           "--prec-div=true",
                                           "--prec-sqrt=true",
                                           "--ftz=false",
                                           "--ptxas-options=-v",
                                           NULL };
    const struct rtc_compiler nvrtc = { "NVRTC", "nvrtc", libraries, YOKEI_GPU_CUDA,
                                        targets, options, 17,        judge };
    return rtc_main(&nvrtc);
}
