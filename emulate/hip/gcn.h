/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Executes the machine code of AMD's GPUs, as hipRTC and clang emit it: gfx90a and gfx942 in waves of 64
 * lanes, gfx1100 in waves of 32. This is the part of the stand-in libamdhip64 that knows no driver: it reads
 * a code object and runs a kernel of it on memory that the caller describes, with the checks of emulate/gpu.
 *
 * It decodes the machine code itself. A disassembler would have to be installed where the tests run, and
 * each release of LLVM knows other architectures and writes another text. So the only table that differs
 * between architectures is that of the opcodes' numbers (gcn_opcodes_*.h); what an instruction does is
 * written once, under its name. An instruction that is not known is an error that names its format, number,
 * bytes and offset.
 *
 * What a GPU of AMD demands of its compiler is checked as well:
 * - A register that a load fills may be read or written only behind an s_waitcnt that covers the load
 *   (KERNEL_UNWAITED). The counters follow the rules of the ISA: loads of vectors return in order, loads of
 *   scalars in any order.
 * - A wave may not wait at s_barrier while its own accesses of LDS are on their way.
 * - All waves of a block reach the same s_barrier, with the lanes that the launch gave them
 *   (KERNEL_DIVERGENCE). The compiler leaves out the lanes of a branch by EXEC, so an s_barrier with other
 *   lanes is a barrier that not all threads reach.
 *
 * Lanes of one wave run in step, and the memory does the instructions of one wave in order. So two accesses
 * of one wave race only inside one instruction: two lanes that write the same bytes. (LLVM, "User Guide for
 * AMDGPU Backend", memory model: a fence of the scope wavefront emits no instruction.) A fence that is
 * missing between lanes of one wave is an error of the source that the executor of PTX finds.
 *
 * v_rcp, v_rsq, v_sqrt, v_exp, v_log, v_sin and v_cos are approximations. They return one of the two numbers
 * around the exact result, drawn from YOKE_EMULATE_SEED and the operand. So a result that is said
 * to be correctly rounded is the same for each seed. The seed also draws what a register has at the start.
 *
 * Not modelled: the waits that some pairs of instructions need (s_nop), exceptions, and rounding other than
 * to nearest. A kernel that asks for another rounding, or that flushes subnormal f32 numbers, is refused.
 */
#ifndef EMULATE_HIP_GCN_H
#define EMULATE_HIP_GCN_H

#include "emulate/gpu/kernel.h"

extern const struct kernel_executor gcn_executor;

#endif
