/* SPDX-License-Identifier: Apache-2.0 */
/** The op tables that every kernel-launching backend uses in its struct yoke_backend. */
#ifndef BACKENDS_GPU_FAMILIES_H
#define BACKENDS_GPU_FAMILIES_H

#include "backends/gpu/launch.h"

extern const struct yoke_gemm_ops yokei_gpu_gemm_ops;
extern const struct yoke_norm_ops yokei_gpu_norm_ops;
extern const struct yoke_act_ops yokei_gpu_act_ops;
extern const struct yoke_attention_ops yokei_gpu_attention_ops;
extern const struct yoke_embed_ops yokei_gpu_embed_ops;
extern const struct yoke_loss_ops yokei_gpu_loss_ops;
extern const struct yoke_optim_ops yokei_gpu_optim_ops;
extern const struct yoke_cast_ops yokei_gpu_cast_ops;
extern const struct yoke_elementwise_ops yokei_gpu_elementwise_ops;
extern const struct yoke_rope_ops yokei_gpu_rope_ops;

/* The gradient of a bias is in bias.c. gemm.c puts it into its table. */
yoke_status yokei_gpu_bias_backward_can(const yoke_device *device, const struct yoke_bias_backward_args *args,
                                        struct yoke_cost *cost);
yoke_status yokei_gpu_bias_backward_run(yoke_stream *stream, const struct yoke_bias_backward_args *args);

/* gemm.c and attention.c name their own variants: the name of variant `index`, or NULL past the last one. */
const char *yokei_gpu_gemm_variant(const yoke_device *device, int index);
const char *yokei_gpu_attention_variant(const yoke_device *device, enum yoke_op_id op, int index);

/*
 * All programs of gemm.c and attention.c: program `index` for this kind of device. Returns false past the
 * last one. tests/unit/gpu_catalog.c has the programs of the other families.
 */
bool yokei_gpu_gemm_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);
bool yokei_gpu_attention_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);

#endif
