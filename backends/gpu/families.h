/* SPDX-License-Identifier: Apache-2.0 */
/** The ops that every kernel-launching backend has in its struct yoke_backend. */
#ifndef BACKENDS_GPU_FAMILIES_H
#define BACKENDS_GPU_FAMILIES_H

#include "backends/gpu/launch.h"

#define YOKEI_GPU_DECLARE(op) YOKE_DECLARE_OP(yokei_gpu_##op)
YOKE_ALL_OPS(YOKEI_GPU_DECLARE)
#undef YOKEI_GPU_DECLARE

/* gemm.c and attention.c name their own variants: the name of variant `index`, or NULL past the last one. */
const char *yokei_gpu_gemm_variant(const yoke_device *device, int index);
/* Whether this variant of gemm is a vendor's library. */
bool yokei_gpu_gemm_is_library(const yoke_device *device, int index);
const char *yokei_gpu_attention_variant(const yoke_device *device, int index);

/*
 * All programs of gemm.c and attention.c: program `index` for this kind of device. Returns false past the
 * last one.
 */
bool yokei_gpu_gemm_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);
bool yokei_gpu_attention_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);

/* ---- catalog.c ---- */
/**
 * Program `index` of all families for this kind of device. Returns false past the last one. A device may
 * refuse some of these programs, see yokei_gpu_offers.
 */
bool yokei_gpu_catalog(int index, bool is_cpu, int warp, struct yokei_gpu_program *program_out);
/** Whether one of the device's variants uses this program of the catalogue. */
bool yokei_gpu_offers(const struct yokei_gpu_device *gpu, const struct yokei_gpu_program *program);
/** Whether an op launches kernels of this program. */
bool yokei_gpu_program_serves(const struct yokei_gpu_program *program, enum yoke_op_id op);
/** Whether this type is one of those that the program reads or writes as storage of its tensors. */
bool yokei_gpu_program_has_type(const struct yokei_gpu_program *program, yoke_dtype dtype);

#endif
