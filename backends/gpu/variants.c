/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The variants of all ops, for the slots in struct yoke_device_ops: the variants of gemm and attention, and
 * the row teams of all other ops.
 */
#include "backends/gpu/families.h"

static const char *team_variant(const yoke_device *device, enum yoke_op_id op, int index)
{
    struct yokei_gpu_program program = { .family = NULL };
    const char *name = yokei_gpu_team_variant_name(device, index, &program.family);
    return name && (!program.family || yokei_gpu_program_serves(&program, op)) ? name : NULL;
}

const char *yokei_gpu_variant_name(const yoke_device *device, enum yoke_op_id op, int index)
{
    switch (op) {
    case YOKE_OP_gemm: return yokei_gpu_gemm_variant(device, index);
    case YOKE_OP_attention_forward:
    case YOKE_OP_attention_backward: return yokei_gpu_attention_variant(device, index);
    default: return team_variant(device, op, index);
    }
}

static bool is_library(const yoke_device *device, enum yoke_op_id op, int index)
{
    return op == YOKE_OP_gemm && yokei_gpu_gemm_is_library(device, index);
}

unsigned yokei_gpu_variant_facts(const yoke_device *device, enum yoke_op_id op, int index)
{
    if (!is_library(device, op, index)) return 0;
    return YOKEI_VARIANT_LIBRARY | YOKEI_VARIANT_CUTS
           | (yokei_gpu(device)->flushes_f16 ? YOKEI_VARIANT_FLUSHES : 0);
}

bool yokei_gpu_variant_detail(const yoke_device *device, enum yoke_op_id op, int index, const char *detail)
{
    return is_library(device, op, index) && yokei_gpu(device)->products->detail(detail);
}

void yokei_gpu_algorithm(const yoke_device *device, enum yoke_op_id op, char *text, size_t bytes)
{
    text[0] = '\0';
    if (op == YOKE_OP_gemm && yokei_gpu(device)->products)
        yokei_gpu(device)->products->algorithm(device, text, bytes);
}
