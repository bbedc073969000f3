/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores and atomics of global memory, and the choice of the memory for generic addresses. The checks
 * are those of emulate/gpu.
 */
#include "emulate/cuda/ptx_run.h"

#include <string.h>

/* ---- addresses ---- */

static void addresses_of(const struct ptx_state *s, struct ptx_access *access)
{
    char *const bases[2] = { access->warp->registers, s->constants };
    const union ptx_slot *a = ptx_at(bases, access->I->a);
    const uint64_t offset = (uint64_t)access->I->offset;
    uint64_t *const to = access->a.addresses;
    if (access->I->wide_address) {
        PTX_EACH_LANE to[l] = a->q[l] + offset;
    } else {
        PTX_EACH_LANE to[l] = a->w[l] + offset;
    }
}

static bool in_space(struct ptx_state *s, struct ptx_access *access, enum ptx_space space)
{
    if (!access->a.lanes) return true;
    if (space == PTX_SHARED) return ptx_access_shared(s, access);
    return space == PTX_LOCAL ? ptx_access_local(s, access) : ptx_access_global(s, access);
}

/* Generic addresses: the lanes may be in different memories. */
static bool generic(struct ptx_state *s, struct ptx_access *access)
{
    struct ptx_access parts[PTX_N_SPACES];
    for (int space = PTX_GLOBAL; space < PTX_N_SPACES; space++) {
        parts[space] = *access;
        parts[space].a.lanes = 0;
    }
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(access->a.lanes >> l & 1)) continue;
        const uint64_t window = access->a.addresses[l] & (PTX_SHARED_WINDOW | PTX_LOCAL_WINDOW);
        const int space = window == PTX_SHARED_WINDOW  ? PTX_SHARED
                          : window == PTX_LOCAL_WINDOW ? PTX_LOCAL
                                                       : PTX_GLOBAL;
        parts[space].a.lanes |= (uint32_t)1 << l;
        if (space != PTX_GLOBAL) parts[space].a.addresses[l] -= window;
    }
    for (int space = PTX_GLOBAL; space < PTX_N_SPACES; space++)
        if (!in_space(s, &parts[space], (enum ptx_space)space)) return false;
    return true;
}

bool ptx_access(struct ptx_state *s, struct ptx_warp *warp, const struct ptx_instruction *I, uint32_t lanes)
{
    static const uint8_t bytes[PTX_N_TYPES] = {
        [PTX_U8] = 1,  [PTX_S8] = 1,  [PTX_U16] = 2, [PTX_S16] = 2, [PTX_U32] = 4,
        [PTX_S32] = 4, [PTX_U64] = 8, [PTX_S64] = 8, [PTX_F32] = 4
    };
    struct ptx_access access;
    access.I = I;
    access.warp = warp;
    access.bytes = bytes[I->type];
    access.a.kind = I->kind == PTX_LOAD ? KERNEL_LOAD : I->kind == PTX_STORE ? KERNEL_STORE : KERNEL_ATOMIC;
    access.a.synchronises = I->synchronises;
    access.a.bytes = access.a.align = access.bytes * I->vector;
    access.a.warp = warp->index;
    access.a.warp_epoch = warp->epoch;
    access.a.lanes = lanes;
    access.a.where = I;
    addresses_of(s, &access);
    return I->space == PTX_GENERIC ? generic(s, &access) : in_space(s, &access, (enum ptx_space)I->space);
}

/* ---- neighbouring lanes at neighbouring addresses ---- */

/*
 * Copy elements between memory and registers of 32 bits, with zeros in the upper half of 16-bit elements.
 */
static bool copy_row(const struct ptx_instruction *I, union ptx_slot *slot, uint32_t bytes,
                     unsigned char *data, int first, int n)
{
    const bool is_load = I->kind == PTX_LOAD;
    if (bytes == 4 && !I->wide) {
        if (is_load)
            memcpy(&slot->w[first], data, (size_t)n * 4);
        else
            memcpy(data, &slot->w[first], (size_t)n * 4);
        return true;
    }
    if (bytes == 8) {
        if (is_load)
            memcpy(&slot->q[first], data, (size_t)n * 8);
        else
            memcpy(data, &slot->q[first], (size_t)n * 8);
        return true;
    }
    if (bytes != 2 || I->wide || (is_load && I->type == PTX_S16)) return false;
    uint16_t halves[PTX_LANES];
    if (is_load) {
        memcpy(halves, data, (size_t)n * 2);
        for (int i = 0; i < n; i++) slot->w[first + i] = halves[i];
    } else {
        for (int i = 0; i < n; i++) halves[i] = (uint16_t)slot->w[first + i];
        memcpy(data, halves, (size_t)n * 2);
    }
    return true;
}

/* Vectors of words: lane l has its elements at data + l * 4 * vector. */
static bool copy_vectors(const struct ptx_instruction *I, char *const bases[2], uint32_t bytes,
                         unsigned char *data, int first, int n)
{
    if (bytes != 4 || I->wide || I->vector == 1) return false;
    const size_t step = 4 * (size_t)I->vector;
    for (int i = 0; i < I->vector; i++, data += 4) {
        uint32_t *slot = ((union ptx_slot *)ptx_at(bases, I->d[i]))->w + first;
        if (I->kind == PTX_LOAD)
            for (int l = 0; l < n; l++) memcpy(&slot[l], data + (size_t)l * step, 4);
        else
            for (int l = 0; l < n; l++) memcpy(data + (size_t)l * step, &slot[l], 4);
    }
    return true;
}

/* The elements of neighbouring lanes, which lie at `data` one after another. */
static void move_row(const struct ptx_access *access, char *const bases[2], unsigned char *data, int first,
                     int n)
{
    const struct ptx_instruction *I = access->I;
    const uint32_t bytes = access->bytes;
    if (I->vector == 1 && copy_row(I, ptx_at(bases, I->d[0]), bytes, data, first, n)) return;
    if (copy_vectors(I, bases, bytes, data, first, n)) return;
    for (int l = first; l < first + n; l++, data += (size_t)bytes * I->vector)
        ptx_move(I, bases, l, bytes, data);
}

/* Single elements of 2 or 4 bytes of lanes in no order. */
static void move_scattered(struct ptx_state *s, const struct ptx_access *access, uint32_t *slot,
                           uint32_t bytes)
{
    const bool is_load = access->I->kind == PTX_LOAD;
    for (uint32_t left = access->a.lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        unsigned char *data = kernel_global_at(&s->b, access->a.addresses[lane]);
        if (is_load) {
            uint32_t word = 0;
            memcpy(&word, data, bytes);
            slot[lane] = word;
        } else {
            memcpy(data, &slot[lane], bytes);
        }
    }
}

bool ptx_access_global(struct ptx_state *s, struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    char *const bases[2] = { access->warp->registers, s->constants };
    struct kernel_row row;
    if (!kernel_check_global(&s->b, &access->a, &row)) return false;
    if (row.n) {
        move_row(access, bases, row.data, row.first, row.n);
        return true;
    }
    const bool is_single = I->kind != PTX_ATOM && I->vector == 1 && !I->wide;
    uint32_t *slot = ((union ptx_slot *)ptx_at(bases, I->d[0]))->w;
    if (is_single && access->bytes == 4) {
        move_scattered(s, access, slot, 4);
        return true;
    }
    if (is_single && access->bytes == 2 && I->type == PTX_U16) {
        move_scattered(s, access, slot, 2);
        return true;
    }
    for (uint32_t left = access->a.lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        ptx_move(I, bases, lane, access->bytes, kernel_global_at(&s->b, access->a.addresses[lane]));
    }
    return true;
}
