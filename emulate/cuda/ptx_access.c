/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads, stores and atomics of global memory, and the choice of the memory for generic addresses.
 *
 * Races between blocks. kernel_memory.touched has an entry per piece of memory (see ptx_kernel.global_shift):
 * 30 bits with the number of the launch, 17 bits with the block that wrote the piece in this launch, 17
 * bits with the block that read it. Of several readers only that they are several is known. Blocks have
 * their number modulo 131069, so a race between two blocks of a huge grid may be missed, but none is
 * invented.
 */
#include "emulate/gpu/kernel_footprint.h"
#include "emulate/cuda/ptx_run.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK_BITS = 17, LAUNCH_SHIFT = 2 * BLOCK_BITS };
#define SEVERAL (((uint64_t)1 << BLOCK_BITS) - 1) /* of readers */
/*
 * In place of the writer: atomics of several blocks. In place of the reader: the writer has changed the
 * piece by atomics alone.
 */
#define ATOMICS (SEVERAL - 1)
#define LOW_BITS (((uint64_t)1 << LAUNCH_SHIFT) - 1)

/* ---- addresses ---- */

static void addresses_of(const struct ptx_state *s, struct ptx_access *access)
{
    char *const bases[2] = { access->warp->registers, s->constants };
    const union ptx_slot *a = ptx_at(bases, access->I->a);
    const uint64_t offset = (uint64_t)access->I->offset;
    uint64_t *const to = access->addresses;
    if (access->I->wide_address) {
        PTX_EACH_LANE to[l] = a->q[l] + offset;
    } else {
        PTX_EACH_LANE to[l] = a->w[l] + offset;
    }
}

static bool in_space(struct ptx_state *s, struct ptx_access *access, enum ptx_space space)
{
    if (!access->lanes) return true;
    if (space == PTX_SHARED) return ptx_access_shared(s, access);
    return space == PTX_LOCAL ? ptx_access_local(s, access) : ptx_access_global(s, access);
}

/* Generic addresses: the lanes may be in different memories. */
static bool generic(struct ptx_state *s, struct ptx_access *access)
{
    struct ptx_access parts[PTX_N_SPACES];
    for (int space = PTX_GLOBAL; space < PTX_N_SPACES; space++) {
        parts[space] = *access;
        parts[space].lanes = 0;
    }
    for (int l = 0; l < PTX_LANES; l++) {
        if (!(access->lanes >> l & 1)) continue;
        const uint64_t window = access->addresses[l] & (PTX_SHARED_WINDOW | PTX_LOCAL_WINDOW);
        const int space = window == PTX_SHARED_WINDOW  ? PTX_SHARED
                          : window == PTX_LOCAL_WINDOW ? PTX_LOCAL
                                                       : PTX_GLOBAL;
        parts[space].lanes |= (uint32_t)1 << l;
        if (space != PTX_GLOBAL) parts[space].addresses[l] -= window;
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
    access.lanes = lanes;
    access.bytes = bytes[I->type];
    addresses_of(s, &access);
    return I->space == PTX_GENERIC ? generic(s, &access) : in_space(s, &access, (enum ptx_space)I->space);
}

/* ---- the state of bytes ---- */

/* Whether all bytes may be read, or written. The loops have no branches, so that they become vectors. */
static bool all_defined(const unsigned char *state, uint64_t n)
{
    unsigned char other = 0;
    for (uint64_t i = 0; i < n; i++) other |= state[i] ^ BYTE_DEFINED;
    return !other;
}

static bool all_usable(const unsigned char *state, uint64_t n)
{
    unsigned char other = 0;
    for (uint64_t i = 0; i < n; i++) other |= state[i] != BYTE_DEFINED && state[i] != BYTE_UNDEFINED;
    return !other;
}

/* ---- races between blocks ---- */

/* Whether this block, and no other, has already read all n pieces, and nobody wrote them. */
static bool is_known(const uint64_t *entries, uint64_t n, uint64_t launch, uint64_t me)
{
    const uint64_t known = launch << LAUNCH_SHIFT | me;
    uint64_t differs = 0;
    for (uint64_t i = 0; i < n; i++) differs |= entries[i] ^ known;
    return !differs;
}

/* Note a read of n pieces. Returns false if another block wrote one of them. */
static bool note_read(uint64_t *entries, uint64_t n, uint64_t launch, uint64_t me)
{
    uint64_t race = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t old = entries[i] >> LAUNCH_SHIFT == launch ? entries[i] & LOW_BITS : 0;
        const uint64_t writer = old >> BLOCK_BITS, reader = old & SEVERAL;
        race |= (uint64_t)(writer != 0) & (uint64_t)(writer != me);
        const uint64_t now = reader == 0 || reader == me || reader == ATOMICS ? me : SEVERAL;
        entries[i] = launch << LAUNCH_SHIFT | writer << BLOCK_BITS | now;
    }
    return !race;
}

/* Note a write, unless another block read or wrote one of the pieces. `me` may be ATOMICS. */
static bool note_write(uint64_t *entries, uint64_t n, uint64_t launch, uint64_t me)
{
    uint64_t race = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t old = entries[i] >> LAUNCH_SHIFT == launch ? entries[i] & LOW_BITS : 0;
        const uint64_t writer = old >> BLOCK_BITS, reader = old & SEVERAL;
        const bool own_atomics = writer == me && reader == ATOMICS;
        race |= (uint64_t)(writer != 0 && writer != me)
                | (uint64_t)(reader != 0 && reader != me && !own_atomics);
    }
    if (race) return false;
    for (uint64_t i = 0; i < n; i++) entries[i] = launch << LAUNCH_SHIFT | me << BLOCK_BITS;
    return true;
}

/*
 * An atomic may meet atomics of all blocks, and what the own block read or wrote before. It does not
 * forget the latter, because they race with atomics of other blocks.
 */
static bool note_atomic(uint64_t *entry, uint64_t launch, uint64_t me)
{
    const uint64_t old = *entry >> LAUNCH_SHIFT == launch ? *entry & LOW_BITS : 0;
    const uint64_t writer = old >> BLOCK_BITS, reader = old & SEVERAL;
    uint64_t now = me << BLOCK_BITS | me;
    if (writer == ATOMICS || (reader == ATOMICS && writer != me))
        now = ATOMICS << BLOCK_BITS;
    else if (reader == ATOMICS || old == 0)
        now = me << BLOCK_BITS | ATOMICS;
    else if ((writer != 0 && writer != me) || (reader != 0 && reader != me))
        return false;
    *entry = launch << LAUNCH_SHIFT | now;
    return true;
}

/* ---- errors ---- */

/* " (layer 3, dx)", or nothing */
static const char *name_of(const struct kernel_memory *memory, uint64_t address, char text[300])
{
    const char *name = memory->name ? memory->name(memory->context, address) : NULL;
    if (!name) return "";
    snprintf(text, 300, " (%s)", name);
    return text;
}

static bool bad_global(struct ptx_state *s, const struct ptx_access *access, int lane,
                       enum kernel_error error, const char *what)
{
    char name[300];
    const uint64_t address = access->addresses[lane];
    s->fault->address = address;
    return ptx_fault_at(s, access->warp, lane, access->I, error, "%s %u bytes at 0x%llx%s %s",
                        ptx_verb(access->I), access->bytes * access->I->vector, (unsigned long long)address,
                        name_of(s->launch->memory, address, name), what);
}

static bool bad_state(struct ptx_state *s, const struct ptx_access *access, int lane,
                      const unsigned char *state, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if (state[i] == BYTE_OUTSIDE)
            return bad_global(s, access, lane, KERNEL_OUT_OF_BOUNDS, "outside all allocations");
        if (state[i] == BYTE_FORBIDDEN)
            return bad_global(s, access, lane, KERNEL_OUT_OF_BOUNDS,
                              "that may not be touched: they are beside a tensor, or the tensor has ended");
    }
    return bad_global(s, access, lane, KERNEL_UNINITIALISED, "that were never written");
}

static bool bad_race(struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t entry)
{
    const uint64_t writer = (entry & LOW_BITS) >> BLOCK_BITS, reader = entry & SEVERAL;
    const uint32_t *grid = s->launch->grid;
    char what[160], block[64] = "other blocks";
    const bool by_writer = writer && writer != s->block_number;
    const uint64_t other = by_writer ? writer : reader;
    if (other < ATOMICS && (uint64_t)grid[0] * grid[1] * grid[2] < ATOMICS)
        snprintf(block, sizeof block, "block (%u,%u,%u)", (uint32_t)(other - 1) % grid[0],
                 (uint32_t)(other - 1) / grid[0] % grid[1], (uint32_t)(other - 1) / grid[0] / grid[1]);
    snprintf(what, sizeof what, "that %s %s in the same launch", block,
             !by_writer          ? "read"
             : writer == ATOMICS ? "changed by an atomic"
                                 : "wrote");
    return bad_global(s, access, lane, KERNEL_GLOBAL_RACE, what);
}

/* ---- one lane ---- */

static inline void add_footprint(const struct ptx_state *s, uint64_t at, uint64_t bytes, bool written)
{
    if (s->launch->footprint) kernel_footprint_add(s->launch->footprint, at, bytes, written);
}

static bool note_lane(struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t at,
                      uint32_t bytes)
{
    const struct kernel_memory *memory = s->launch->memory;
    const uint32_t shift = s->kernel->global_shift;
    const uint64_t first = at >> shift, n = bytes >> shift;
    const uint64_t launch = s->launch_number, me = s->block_number;
    const bool is_plain = !access->I->synchronises && access->I->kind != PTX_ATOM;
    char what[200];
    if (is_plain && access->I->kind == PTX_LOAD && is_known(&memory->touched[first], n, launch, me))
        return true;
    if (is_plain && !ptx_threads_note(s, access, first, n, lane, 63))
        for (uint64_t i = first; i < first + n; i++)
            if (ptx_threads_bad(s, access, lane, i, what))
                return bad_global(s, access, lane, KERNEL_GLOBAL_RACE, what);
    for (uint64_t i = first; i < first + n; i++) {
        uint64_t *entry = &memory->touched[i];
        const uint64_t old = *entry;
        /* ordered accesses, such as those of a flag, do not race with atomics, and are not noted */
        const bool good = access->I->kind == PTX_ATOM   ? note_atomic(entry, launch, me)
                          : access->I->synchronises     ? true
                          : access->I->kind == PTX_LOAD ? note_read(entry, 1, launch, me)
                                                        : note_write(entry, 1, launch, me);
        if (!good) return bad_race(s, access, lane, old);
    }
    if (is_plain || access->I->kind == PTX_ATOM) add_footprint(s, at, bytes, access->I->kind != PTX_LOAD);
    return true;
}

static bool one_lane(struct ptx_state *s, const struct ptx_access *access, int lane)
{
    const struct kernel_memory *memory = s->launch->memory;
    const struct ptx_instruction *I = access->I;
    const uint32_t bytes = access->bytes * I->vector;
    const uint64_t address = access->addresses[lane], at = address - memory->base;
    char *const bases[2] = { access->warp->registers, s->constants };
    if (at >= memory->bytes || memory->bytes - at < bytes)
        return bad_global(s, access, lane, KERNEL_OUT_OF_BOUNDS, "outside all allocations");
    unsigned char *state = memory->state + at;
    if (I->kind == PTX_STORE ? !all_usable(state, bytes) : !all_defined(state, bytes))
        return bad_state(s, access, lane, state, bytes);
    if (address & (bytes - 1))
        return bad_global(s, access, lane, KERNEL_MISALIGNED,
                          "at an address that is no multiple of the size");
    if (!note_lane(s, access, lane, at, bytes)) return false;
    ptx_move(I, bases, lane, access->bytes, memory->data + at);
    if (I->kind == PTX_STORE) memset(state, BYTE_DEFINED, bytes);
    return true;
}

/*
 * Lanes at addresses without an order, for loads and stores of one element. It does the lanes that have
 * nothing unusual, and returns the others.
 */
static inline uint32_t scattered(struct ptx_state *s, const struct ptx_access *access, uint32_t bytes)
{
    const struct kernel_memory *memory = s->launch->memory;
    const struct ptx_instruction *I = access->I;
    const uint32_t shift = s->kernel->global_shift, pieces = bytes >> shift;
    const bool is_load = I->kind == PTX_LOAD;
    const uint64_t base = memory->base, end = memory->bytes - bytes,
                   all = 0x0202020202020202u >> (64 - 8 * bytes);
    const uint64_t launch = s->launch_number << LAUNCH_SHIFT, me = s->block_number;
    const uint64_t known = is_load ? launch | me : launch | me << BLOCK_BITS;
    char *const bases[2] = { access->warp->registers, s->constants };
    uint32_t *slot = ((union ptx_slot *)ptx_at(bases, I->d[0]))->w;
    uint32_t unusual = 0;
    if (memory->bytes < bytes) return access->lanes;
    for (uint32_t left = access->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const uint64_t at = access->addresses[lane] - base;
        uint64_t state = 0;
        if (at <= end && !((at + base) & (bytes - 1))) memcpy(&state, memory->state + at, bytes);
        bool good = state == all;
        uint64_t *entry = &memory->touched[good ? at >> shift : 0];
        uint64_t differs = !is_load;
        for (uint32_t i = 0; good && i < pieces; i++) differs |= entry[i] ^ known;
        if (good && differs) {
            good = ptx_threads_note(s, access, at >> shift, pieces, lane, 63)
                   && (is_load ? note_read(entry, pieces, s->launch_number, me)
                               : note_write(entry, pieces, s->launch_number, me));
            if (good) add_footprint(s, at, bytes, !is_load);
        }
        if (!good) {
            unusual |= (uint32_t)1 << lane;
        } else if (is_load) {
            uint32_t word = 0;
            memcpy(&word, memory->data + at, bytes);
            slot[lane] = word;
        } else {
            memcpy(memory->data + at, &slot[lane], bytes);
        }
    }
    return unusual;
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

/*
 * A load or store of a row: active lanes without gaps, each at its neighbour's address plus the size.
 * Returns false, with nothing done, where anything is unusual. Then the lanes are looked at one after
 * another.
 */
static bool row(struct ptx_state *s, const struct ptx_access *access)
{
    const struct kernel_memory *memory = s->launch->memory;
    const struct ptx_instruction *I = access->I;
    const uint32_t bytes = access->bytes * I->vector, lanes = access->lanes; /* of a lane */
    const int first = __builtin_ctz(lanes), n = __builtin_popcount(lanes);
    if (I->kind == PTX_ATOM || I->synchronises) return false;
    if (lanes >> first != (n == PTX_LANES ? PTX_ALL_LANES : ((uint32_t)1 << n) - 1)) return false;
    const uint64_t start = access->addresses[first] - (uint64_t)first * bytes;
    uint64_t differs = 0;
    for (int l = 0; l < PTX_LANES; l++)
        differs |= lanes >> l & 1 ? access->addresses[l] ^ (start + (uint64_t)l * bytes) : 0;
    const uint64_t address = access->addresses[first], at = address - memory->base, all = (uint64_t)n * bytes;
    if (differs || at >= memory->bytes || memory->bytes - at < all || address & (bytes - 1)) return false;
    unsigned char *state = memory->state + at;
    const uint32_t shift = s->kernel->global_shift, lane_shift = (uint32_t)__builtin_ctz(bytes) - shift;
    const uint64_t first_piece = at >> shift, pieces = all >> shift;
    uint64_t *entries = &memory->touched[first_piece];
    char *const bases[2] = { access->warp->registers, s->constants };
    const uint64_t launch = s->launch_number, me = s->block_number;
    if (I->kind == PTX_LOAD) {
        if (!all_defined(state, all)) return false;
        if (!is_known(entries, pieces, launch, me)) {
            if (!ptx_threads_note(s, access, first_piece, pieces, first, lane_shift)) return false;
            if (!note_read(entries, pieces, launch, me)) return false;
            add_footprint(s, at, all, false);
        }
        move_row(access, bases, memory->data + at, first, n);
        return true;
    }
    if (!all_usable(state, all)) return false;
    if (!ptx_threads_note(s, access, first_piece, pieces, first, lane_shift)) return false;
    if (!note_write(entries, pieces, launch, me)) return false;
    add_footprint(s, at, all, true);
    move_row(access, bases, memory->data + at, first, n);
    memset(state, BYTE_DEFINED, all);
    return true;
}

/* ---- counts ---- */

/* An access of a lane has at most 16 bytes and is aligned, so it lies in one sector. */
static uint64_t sectors_of(const struct ptx_access *access)
{
    uint64_t seen[PTX_LANES], last = 0, n = 0;
    bool rises = true;
    for (uint32_t left = access->lanes; left; left &= left - 1) {
        const uint64_t sector = access->addresses[__builtin_ctz(left)] >> 5;
        if (n > 0 && sector == last) continue;
        rises &= n == 0 || sector > last;
        last = seen[n++] = sector;
    }
    if (rises) return n;
    uint64_t different = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t again = 0;
        for (uint64_t j = 0; j < i; j++) again |= seen[j] == seen[i];
        different += !again;
    }
    return different;
}

static void count(struct ptx_state *s, const struct ptx_access *access)
{
    struct kernel_counts *c = &s->counts;
    const uint64_t bytes = (uint64_t)__builtin_popcount(access->lanes) * access->bytes * access->I->vector;
    const uint64_t sectors = sectors_of(access);
    if (access->I->kind != PTX_STORE) {
        c->bytes_loaded += bytes;
        c->sectors_loaded += sectors;
    }
    if (access->I->kind != PTX_LOAD) {
        c->bytes_stored += bytes;
        c->sectors_stored += sectors;
    }
}

bool ptx_access_global(struct ptx_state *s, struct ptx_access *access)
{
    if (s->launch->counts) count(s, access);
    if (row(s, access)) return true;
    const struct ptx_instruction *I = access->I;
    uint32_t left = access->lanes;
    if (I->kind != PTX_ATOM && I->vector == 1 && !I->wide && !I->synchronises) {
        if (access->bytes == 4)
            left = scattered(s, access, 4);
        else if (access->bytes == 2 && I->type == PTX_U16)
            left = scattered(s, access, 2);
    }
    for (; left; left &= left - 1)
        if (!one_lane(s, access, __builtin_ctz(left))) return false;
    return true;
}
