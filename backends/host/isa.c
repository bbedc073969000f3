/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend's ops of one instruction set. This file is compiled once per instruction set, as the
 * families are.
 */
#include "backends/host/kernels.h"

#define ENTRY(op) [YOKE_OP_##op] = &HOST_NAME(host_##op),
extern const struct host_isa HOST_NAME(host_isa);
const struct host_isa HOST_NAME(host_isa) = {
    .name = HOST_TEXT(HOST_ISA),
#ifdef HOST_AVX512
    .avx512 = true,
#endif
#ifdef HOST_BF16
    .bf16 = true,
#endif
    .gelu_rows = HOST_NAME(host_gelu_rows),
    .ops = { YOKE_ALL_OPS(ENTRY) },
};
