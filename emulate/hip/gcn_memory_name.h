/* SPDX-License-Identifier: Apache-2.0 */
/** Accesses of memory, by their names. */
#ifndef EMULATE_HIP_GCN_MEMORY_NAME_H
#define EMULATE_HIP_GCN_MEMORY_NAME_H

#include "emulate/hip/gcn_code.h"

/** What an atomic does. */
enum gcn_atomic {
    GCN_AT_ADD,
    GCN_AT_SUB,
    GCN_AT_SMIN,
    GCN_AT_UMIN,
    GCN_AT_SMAX,
    GCN_AT_UMAX,
    GCN_AT_AND,
    GCN_AT_OR,
    GCN_AT_XOR,
    GCN_AT_SWAP,
    GCN_AT_COMPARE,
    GCN_AT_ADD_F32,
};

/**
 * Space, kind, element and atomic of an instruction with the name that GFX9 has for it. false: not known.
 */
bool gcn_memory_name(const char *name, struct gcn_memory_part *part);
/** The name on GFX9 of an instruction that GFX11 calls otherwise; the name itself if there is no other. */
const char *gcn_renamed_from(const char *name);

#endif
