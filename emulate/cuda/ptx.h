/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Executes PTX, the assembly language that NVRTC emits. This is the part of the stand-in CUDA driver that
 * knows no driver: it parses a text, and runs a kernel of it on memory that the caller describes
 * (emulate/gpu/kernel.h). On the way it checks what a GPU does not check.
 *
 * Semantics: PTX ISA 9.0, docs.nvidia.com/cuda/parallel-thread-execution. What the parser does not know is
 * an error that names it.
 */
#ifndef EMULATE_CUDA_PTX_H
#define EMULATE_CUDA_PTX_H

#include "emulate/gpu/kernel.h"

/** A parsed text. It does not change after ptx_parse, so launches in several threads may share it. */
struct ptx_module;
struct ptx_kernel;

/**
 * Parse a PTX text, which need not be NUL-terminated. Returns KERNEL_OK, or an error with fault->text,
 * line and no module. The caller destroys the module.
 */
enum kernel_error ptx_parse(const char *text, size_t bytes, struct ptx_module **module_out,
                            struct kernel_fault *fault);
void ptx_module_destroy(struct ptx_module *module);
/** A kernel by its name, or NULL. */
const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, const char *name);
/** The index-th kernel, or NULL past the last one. */
const struct ptx_kernel *ptx_module_kernel_at(const struct ptx_module *module, int index);

struct kernel_info ptx_kernel_info(const struct ptx_kernel *kernel);
/** Offset and bytes of parameter `index` in the parameter block. false past the last one. */
bool ptx_kernel_parameter(const struct ptx_kernel *kernel, int index, uint32_t *offset_out,
                          uint32_t *bytes_out);

/**
 * Run a kernel to its end on the calling thread. On an error memory is as far as the kernel came.
 *
 * The blocks run one after another, and a warp runs until it waits, so a kernel that spins until another
 * block or warp has written a flag does not end: set most_instructions or stop.
 *
 * Races in shared memory are also found between lanes of one warp. Only bar.warp.sync (__syncwarp) and
 * barriers of the block order them; shuffles and votes do not (CUDA C++ Programming Guide, "Warp Shuffle
 * Functions"). Behind an atomic of shared memory a plain access needs a barrier. The same holds for plain
 * accesses of global memory by threads of one block. Of several threads that read, only the first is known.
 */
enum kernel_error ptx_run(const struct kernel_launch *launch, struct kernel_fault *fault);

/** The executor for emulate/gpu: the functions above in its form. */
extern const struct kernel_executor ptx_executor;

#endif
