/* SPDX-License-Identifier: Apache-2.0 */
/** From a code object to decoded kernels. */
#ifndef EMULATE_HIP_GCN_LOAD_H
#define EMULATE_HIP_GCN_LOAD_H

#include "emulate/hip/gcn_code.h"

enum { GCN_MOST_SCRATCH = 1 << 17 }; /* bytes of a lane */

/** 0x90a, 0x942 or 0x1100. */
uint32_t gcn_target(enum gcn_arch arch);
/** What approximations and the registers at the start are drawn from: YOKE_EMULATE_SEED, or 1. Never 0. */
uint64_t gcn_seed(void);
enum kernel_error gcn_run(const struct kernel_launch *launch, struct kernel_fault *fault);

#endif
