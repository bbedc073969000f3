/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host backend's op tables of one instruction set. This file is compiled once per instruction set, as the
 * families are.
 */
#include "backends/host/kernels.h"

extern const struct host_isa HOST_NAME(host_isa);
const struct host_isa HOST_NAME(host_isa) = {
    .name = HOST_TEXT(HOST_ISA),
#ifdef HOST_AVX512
    .avx512 = true,
#endif
#ifdef HOST_BF16
    .bf16 = true,
#endif
    .gemm = &HOST_NAME(host_gemm_ops),
    .norm = &HOST_NAME(host_norm_ops),
    .act = &HOST_NAME(host_act_ops),
    .attention = &HOST_NAME(host_attention_ops),
    .embed = &HOST_NAME(host_embed_ops),
    .loss = &HOST_NAME(host_loss_ops),
    .optim = &HOST_NAME(host_optim_ops),
    .cast = &HOST_NAME(host_cast_ops),
    .elementwise = &HOST_NAME(host_elementwise_ops),
    .rope = &HOST_NAME(host_rope_ops),
    .gelu_rows = HOST_NAME(host_gelu_rows),
};
