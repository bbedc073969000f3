/* SPDX-License-Identifier: Apache-2.0 */
/** From a code object to decoded kernels. */
#ifndef EMULATE_HIP_GCN_LOAD_H
#define EMULATE_HIP_GCN_LOAD_H

#include "emulate/hip/gcn_code.h"

/*
 * Bytes of scratch memory that a lane may have. The registers of GPUs count the scratch memory of a wave in
 * 13 bits of 1 KiB, or from gfx11 on in 15 bits of 256 bytes.
 */
static inline uint32_t gcn_most_scratch(enum gcn_arch arch)
{
    return arch == GCN_GFX1100 ? ((1u << 15) - 1) * 256 / 32 : ((1u << 13) - 1) * 1024 / 64;
}

/** 0x90a, 0x942 or 0x1100. */
uint32_t gcn_target(enum gcn_arch arch);
/** What approximations and the registers at the start are drawn from: YOKE_EMULATE_SEED, or 1. Never 0. */
uint64_t gcn_seed(void);
enum kernel_error gcn_run(const struct kernel_launch *launch, struct kernel_fault *fault);

#endif
