/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The numbers of the opcodes: for each architecture, format and number the instruction's name without the
 * suffix for its encoding (_e32, _e64, _sdwa, _dpp). The tables gcn_opcodes_*.h are generated.
 */
#ifndef EMULATE_HIP_GCN_OPCODES_H
#define EMULATE_HIP_GCN_OPCODES_H

#include <stddef.h>
#include <stdint.h>

/** The formats of instructions. The number of an opcode is the whole opcode field of its format. */
enum gcn_format {
    GCN_SOP1,
    GCN_SOP2,
    GCN_SOPC,
    GCN_SOPK,
    GCN_SOPP,
    GCN_SMEM,
    GCN_VOP1,
    GCN_VOP2,
    GCN_VOPC,
    GCN_VOP3,  /* 10 bits: also VOPC, VOP1 and VOP2 in this encoding, and those with a second result */
    GCN_VOP3P, /* 7 bits: also the matrix instructions */
    GCN_DS,
    GCN_FLAT,
    GCN_GLOBAL,
    GCN_SCRATCH,
    GCN_MUBUF,
    GCN_VOPD, /* of gfx1100: v_dual_*; the numbers of the X and of the Y half agree */
    GCN_FORMATS
};

struct gcn_opcode {
    uint8_t format; /* enum gcn_format */
    uint16_t number;
    const char *name;
};

#endif
