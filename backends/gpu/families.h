/* SPDX-License-Identifier: Apache-2.0 */
/** The op tables that every kernel-launching backend uses in its struct yoke_backend. */
#ifndef BACKENDS_GPU_FAMILIES_H
#define BACKENDS_GPU_FAMILIES_H

#include "backends/gpu/launch.h"

YOKE_DECLARE_TABLES(yokei_gpu_)

/* The gradient of a bias is in bias.c. gemm.c puts it into its table. */
yoke_status yokei_gpu_bias_backward_can(const yoke_device *device, const struct yoke_bias_backward_args *args,
                                        size_t *scratch_bytes_out);
yoke_status yokei_gpu_bias_backward_run(yoke_stream *stream, const struct yoke_bias_backward_args *args);

/* gemm.c and attention.c name their own variants: the name of variant `index`, or NULL past the last one. */
const char *yokei_gpu_gemm_variant(const yoke_device *device, int index);
/* Whether this variant of gemm is a vendor's library. */
bool yokei_gpu_gemm_is_library(const yoke_device *device, int index);
const char *yokei_gpu_attention_variant(const yoke_device *device, enum yoke_op_id op, int index);

/*
 * All programs of gemm.c and attention.c: program `index` for this kind of device. Returns false past the
 * last one. tests/unit/gpu_catalog.c has the programs of the other families.
 */
bool yokei_gpu_gemm_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);
bool yokei_gpu_attention_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);

#endif
