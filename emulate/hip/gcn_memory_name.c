/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an access of memory does, from its name: global_load_dwordx4, ds_write2st64_b32, scratch_store_byte.
 */
#include "emulate/hip/gcn_memory_name.h"

#include <string.h>

struct suffix {
    const char *name;
    uint8_t bytes, extend;
};

/* Of flat, global, scratch and buffer: elements that are loaded or stored. */
static const struct suffix elements[] = {
    { "ubyte", 1, GCN_X_ZERO },         { "sbyte", 1, GCN_X_SIGN },
    { "ushort", 2, GCN_X_ZERO },        { "sshort", 2, GCN_X_SIGN },
    { "byte", 1, GCN_X_ZERO },          { "short", 2, GCN_X_ZERO },
    { "dword", 4, GCN_X_WORDS },        { "dwordx2", 8, GCN_X_WORDS },
    { "dwordx3", 12, GCN_X_WORDS },     { "dwordx4", 16, GCN_X_WORDS },
    { "ubyte_d16", 1, GCN_X_LOW },      { "ubyte_d16_hi", 1, GCN_X_HIGH },
    { "sbyte_d16", 1, GCN_X_SIGN_LOW }, { "sbyte_d16_hi", 1, GCN_X_SIGN_HIGH },
    { "short_d16", 2, GCN_X_LOW },      { "short_d16_hi", 2, GCN_X_HIGH },
    { "byte_d16_hi", 1, GCN_X_HIGH },
};

/* Of LDS. */
static const struct suffix shared_elements[] = {
    { "u8", 1, GCN_X_ZERO },         { "i8", 1, GCN_X_SIGN },
    { "u16", 2, GCN_X_ZERO },        { "i16", 2, GCN_X_SIGN },
    { "b8", 1, GCN_X_ZERO },         { "b16", 2, GCN_X_ZERO },
    { "b32", 4, GCN_X_WORDS },       { "b64", 8, GCN_X_WORDS },
    { "b96", 12, GCN_X_WORDS },      { "b128", 16, GCN_X_WORDS },
    { "u8_d16", 1, GCN_X_LOW },      { "u8_d16_hi", 1, GCN_X_HIGH },
    { "i8_d16", 1, GCN_X_SIGN_LOW }, { "i8_d16_hi", 1, GCN_X_SIGN_HIGH },
    { "u16_d16", 2, GCN_X_LOW },     { "u16_d16_hi", 2, GCN_X_HIGH },
    { "b8_d16_hi", 1, GCN_X_HIGH },  { "b16_d16_hi", 2, GCN_X_HIGH },
};

static const struct {
    const char *name, *shared_name; /* behind "atomic_", and behind "ds_" */
    uint8_t atomic, bytes;
} atomics[] = {
    { "add", "add_u32", GCN_AT_ADD, 4 },
    { "add_x2", "add_u64", GCN_AT_ADD, 8 },
    { "sub", "sub_u32", GCN_AT_SUB, 4 },
    { "sub_x2", "sub_u64", GCN_AT_SUB, 8 },
    { "smin", "min_i32", GCN_AT_SMIN, 4 },
    { "smin_x2", "min_i64", GCN_AT_SMIN, 8 },
    { "umin", "min_u32", GCN_AT_UMIN, 4 },
    { "umin_x2", "min_u64", GCN_AT_UMIN, 8 },
    { "smax", "max_i32", GCN_AT_SMAX, 4 },
    { "smax_x2", "max_i64", GCN_AT_SMAX, 8 },
    { "umax", "max_u32", GCN_AT_UMAX, 4 },
    { "umax_x2", "max_u64", GCN_AT_UMAX, 8 },
    { "and", "and_b32", GCN_AT_AND, 4 },
    { "and_x2", "and_b64", GCN_AT_AND, 8 },
    { "or", "or_b32", GCN_AT_OR, 4 },
    { "or_x2", "or_b64", GCN_AT_OR, 8 },
    { "xor", "xor_b32", GCN_AT_XOR, 4 },
    { "xor_x2", "xor_b64", GCN_AT_XOR, 8 },
    { "swap", "wrxchg_rtn_b32", GCN_AT_SWAP, 4 },
    { "swap_x2", "wrxchg_rtn_b64", GCN_AT_SWAP, 8 },
    { "cmpswap", "cmpst_b32", GCN_AT_COMPARE, 4 },
    { "cmpswap_x2", "cmpst_b64", GCN_AT_COMPARE, 8 },
    { "add_f32", "add_f32", GCN_AT_ADD_F32, 4 },
};

#define COUNT(array) (sizeof array / sizeof *array)

static bool take(const char **name, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (strncmp(*name, prefix, n) != 0) return false;
    *name += n;
    return true;
}

static bool element(const char *name, const struct suffix *list, size_t n, struct gcn_memory_part *m)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name)) {
            m->bytes = list[i].bytes;
            m->extend = list[i].extend;
            return true;
        }
    return false;
}

static bool shared(const char *name, struct gcn_memory_part *m)
{
    m->space = GCN_S_SHARED;
    const char *rest = name;
    m->twice = 0;
    if (take(&rest, "read2st64_") || take(&rest, "write2st64_"))
        m->twice = 64;
    else if (take(&rest, "read2_") || take(&rest, "write2_"))
        m->twice = 1;
    else if (!take(&rest, "read_") && !take(&rest, "write_"))
        rest = NULL;
    m->kind = !strncmp(name, "read", 4) ? GCN_A_LOAD : GCN_A_STORE;
    if (rest) return element(rest, shared_elements, COUNT(shared_elements), m);
    char plain[32];
    size_t n = 0;
    m->kind = GCN_A_ATOMIC;
    for (const char *p = name; *p && n < sizeof plain - 1; p++) {
        if (!strncmp(p, "rtn_", 4) && strncmp(name, "wrxchg", 6) != 0) {
            m->returns = 1;
            p += 3;
        } else {
            plain[n++] = *p;
        }
    }
    plain[n] = 0;
    for (size_t i = 0; i < COUNT(atomics); i++)
        if (!strcmp(atomics[i].shared_name, plain)) {
            m->atomic = atomics[i].atomic;
            m->bytes = atomics[i].bytes;
            if (m->atomic == GCN_AT_SWAP) m->returns = 1;
            return true;
        }
    return false;
}

bool gcn_memory_name(const char *name, struct gcn_memory_part *m)
{
    const char *rest = name;
    if (take(&rest, "ds_")) return shared(rest, m);
    if (take(&rest, "global_"))
        m->space = GCN_S_GLOBAL;
    else if (take(&rest, "flat_"))
        m->space = GCN_S_FLAT;
    else if (take(&rest, "scratch_") || take(&rest, "buffer_"))
        m->space = GCN_S_SCRATCH;
    else
        return false;
    if (take(&rest, "load_")) {
        m->kind = GCN_A_LOAD;
        return element(rest, elements, COUNT(elements), m);
    }
    if (take(&rest, "store_")) {
        m->kind = GCN_A_STORE;
        return element(rest, elements, COUNT(elements), m);
    }
    if (!take(&rest, "atomic_") || m->space == GCN_S_SCRATCH) return false;
    m->kind = GCN_A_ATOMIC;
    for (size_t i = 0; i < COUNT(atomics); i++)
        if (!strcmp(atomics[i].name, rest)) {
            m->atomic = atomics[i].atomic;
            m->bytes = atomics[i].bytes;
            return true;
        }
    return false;
}
