/* SPDX-License-Identifier: Apache-2.0 */
/** Runs one instruction on given registers, for tests of what each instruction does. */
#ifndef EMULATE_HIP_GCN_STEP_H
#define EMULATE_HIP_GCN_STEP_H

#include "emulate/gpu/kernel.h"
#include "emulate/hip/gcn_object.h"

enum {
    GCN_STEP_VGPRS = 64,    /* v0 to v63 */
    GCN_STEP_AGPRS = 16,    /* a0 to a15 */
    GCN_STEP_MEMORY = 4096, /* bytes of LDS, and of global memory */
};
/* Where the global memory begins, as an address of the instruction. */
#define GCN_STEP_GLOBAL ((uint64_t)0x100000000)

/** The registers and the memory. gcn_step reads and writes them. */
struct gcn_step {
    /* by the number of the operand: 106 and 107 are VCC, 124 M0 (of gfx1100: 125), 126 and 127 EXEC */
    uint32_t s[128];
    uint32_t scc;
    uint32_t v[GCN_STEP_VGPRS][64], a[GCN_STEP_AGPRS][64]; /* gfx1100 has lanes 0 to 31 */
    /* A branch adds its distance: the offset of the next instruction from the beginning of this one. */
    int64_t next;
    unsigned char lds[GCN_STEP_MEMORY], global[GCN_STEP_MEMORY]; /* all bytes are defined */
};

/**
 * Decode one instruction and run it. Returns KERNEL_OK, or an error with fault->text: the bytes are not
 * known (KERNEL_SYNTAX), or the access is refused. Loads are complete at the end. Approximations return the
 * rounded result, with no error drawn.
 */
enum kernel_error gcn_step(enum gcn_arch arch, const void *bytes, size_t n, struct gcn_step *step,
                           struct kernel_fault *fault);
/**
 * Write the name of the instruction, without its suffix for the encoding, such as "v_add_f32"; or return
 * false.
 */
bool gcn_name(enum gcn_arch arch, const void *bytes, size_t n, char name[32]);

#endif
