/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses of global memory.
 *
 * Races between blocks. kernel_memory.touched has an entry per piece of memory (see
 * kernel_block.global_shift): 30 bits with the number of the launch, 17 bits with the block that wrote the
 * piece in this launch, 17 bits with the block that read it. Of several readers only that they are several
 * is known. Blocks have their number modulo 131069, so a race between two blocks of a huge grid may be
 * missed, but none is invented.
 */
#include "emulate/gpu/check.h"
#include "emulate/gpu/kernel_footprint.h"

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

static bool bad_global(struct kernel_block *s, const struct kernel_access *access, int lane,
                       enum kernel_error error, const char *what)
{
    static const char *const verbs[] = { "reads", "writes", "changes" };
    char name[300], text[640];
    const uint64_t address = access->addresses[lane];
    snprintf(text, sizeof text, "%s %u bytes at 0x%llx%s %s", verbs[access->kind], access->bytes,
             (unsigned long long)address, name_of(s->launch->memory, address, name), what);
    return s->fail(s, access, lane, address, error, text);
}

static bool bad_state(struct kernel_block *s, const struct kernel_access *access, int lane,
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

static bool bad_race(struct kernel_block *s, const struct kernel_access *access, int lane, uint64_t entry)
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

static inline void add_footprint(const struct kernel_block *s, uint64_t at, uint64_t bytes, bool written)
{
    if (s->launch->footprint) kernel_footprint_add(s->launch->footprint, at, bytes, written);
}

static bool note_lane(struct kernel_block *s, const struct kernel_access *access, int lane, uint64_t at)
{
    const struct kernel_memory *memory = s->launch->memory;
    const uint32_t shift = s->global_shift, bytes = access->bytes;
    /* Of an access that begins inside a piece, the pieces at its ends belong to its neighbours, too. */
    const uint64_t first = (at + ((1u << shift) - 1)) >> shift, n = ((at + bytes) >> shift) - first;
    const uint64_t launch = s->launch_number, me = s->block_number;
    const bool is_plain = !access->synchronises && access->kind != KERNEL_ATOMIC;
    char what[200];
    if (is_plain && access->kind == KERNEL_LOAD && is_known(&memory->touched[first], n, launch, me))
        return true;
    if (is_plain && !kernel_threads_note(s, access, first, n, lane, 63))
        for (uint64_t i = first; i < first + n; i++)
            if (kernel_threads_bad(s, access, lane, i, what))
                return bad_global(s, access, lane, KERNEL_GLOBAL_RACE, what);
    for (uint64_t i = first; i < first + n; i++) {
        uint64_t *entry = &memory->touched[i];
        const uint64_t old = *entry;
        /* ordered accesses, such as those of a flag, do not race with atomics, and are not noted */
        const bool good = access->kind == KERNEL_ATOMIC ? note_atomic(entry, launch, me)
                          : access->synchronises        ? true
                          : access->kind == KERNEL_LOAD ? note_read(entry, 1, launch, me)
                                                        : note_write(entry, 1, launch, me);
        if (!good) return bad_race(s, access, lane, old);
    }
    if (is_plain || access->kind == KERNEL_ATOMIC) add_footprint(s, at, bytes, access->kind != KERNEL_LOAD);
    return true;
}

static bool one_lane(struct kernel_block *s, const struct kernel_access *access, int lane)
{
    const struct kernel_memory *memory = s->launch->memory;
    const uint32_t bytes = access->bytes;
    const uint64_t address = access->addresses[lane], at = address - memory->base;
    if (at >= memory->bytes || memory->bytes - at < bytes)
        return bad_global(s, access, lane, KERNEL_OUT_OF_BOUNDS, "outside all allocations");
    unsigned char *state = memory->state + at;
    if (access->kind == KERNEL_STORE ? !all_usable(state, bytes) : !all_defined(state, bytes))
        return bad_state(s, access, lane, state, bytes);
    if (address & (access->align - 1))
        return bad_global(s, access, lane, KERNEL_MISALIGNED,
                          "at an address that is no multiple of the size");
    if (!note_lane(s, access, lane, at)) return false;
    if (access->kind == KERNEL_STORE) memset(state, BYTE_DEFINED, bytes);
    return true;
}

/*
 * Lanes at addresses without an order, for loads and stores of at most 8 bytes. It does the lanes that have
 * nothing unusual, and returns the others.
 */
static inline kernel_lanes scattered(struct kernel_block *s, const struct kernel_access *access,
                                     uint32_t bytes)
{
    const struct kernel_memory *memory = s->launch->memory;
    const uint32_t shift = s->global_shift, pieces = bytes >> shift;
    const bool is_load = access->kind == KERNEL_LOAD;
    const uint64_t base = memory->base, end = memory->bytes - bytes,
                   align = (access->align - 1) | ((1u << shift) - 1),
                   all = 0x0202020202020202u >> (64 - 8 * bytes);
    const uint64_t launch = s->launch_number << LAUNCH_SHIFT, me = s->block_number;
    const uint64_t known = is_load ? launch | me : launch | me << BLOCK_BITS;
    kernel_lanes unusual = 0;
    if (memory->bytes < bytes) return access->lanes;
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        const uint64_t at = access->addresses[lane] - base;
        uint64_t state = 0;
        if (at <= end && !((at + base) & align)) memcpy(&state, memory->state + at, bytes);
        bool good = state == all;
        uint64_t *entry = &memory->touched[good ? at >> shift : 0];
        uint64_t differs = !is_load;
        for (uint32_t i = 0; good && i < pieces; i++) differs |= entry[i] ^ known;
        if (good && differs) {
            good = kernel_threads_note(s, access, at >> shift, pieces, lane, 63)
                   && (is_load ? note_read(entry, pieces, s->launch_number, me)
                               : note_write(entry, pieces, s->launch_number, me));
            if (good) add_footprint(s, at, bytes, !is_load);
        }
        if (!good) unusual |= KERNEL_LANE(lane);
    }
    return unusual;
}

/* ---- neighbouring lanes at neighbouring addresses ---- */

/*
 * A load or store of a row: active lanes without gaps, each at its neighbour's address plus the size.
 * Returns false, with nothing done, where anything is unusual. Then the lanes are looked at one after
 * another.
 */
static bool check_row(struct kernel_block *s, const struct kernel_access *access, struct kernel_row *row)
{
    const struct kernel_memory *memory = s->launch->memory;
    const uint32_t bytes = access->bytes;
    const kernel_lanes lanes = access->lanes;
    const int first = kernel_first_lane(lanes), n = kernel_count_lanes(lanes);
    if (access->kind == KERNEL_ATOMIC || access->synchronises || bytes & (bytes - 1)) return false;
    if (lanes >> first != (n == KERNEL_LANES ? KERNEL_ALL_LANES : KERNEL_LANE(n) - 1)) return false;
    const uint64_t start = access->addresses[first] - (uint64_t)first * bytes;
    uint64_t differs = 0;
    for (int l = 0; l < KERNEL_LANES; l++)
        differs |= lanes >> l & 1 ? access->addresses[l] ^ (start + (uint64_t)l * bytes) : 0;
    const uint64_t address = access->addresses[first], at = address - memory->base, all = (uint64_t)n * bytes;
    const uint32_t shift = s->global_shift;
    if (differs || at >= memory->bytes || memory->bytes - at < all
        || address & ((access->align - 1) | ((1u << shift) - 1)))
        return false;
    unsigned char *state = memory->state + at;
    const uint32_t lane_shift = (uint32_t)__builtin_ctz(bytes) - shift;
    const uint64_t first_piece = at >> shift, pieces = all >> shift;
    uint64_t *entries = &memory->touched[first_piece];
    const uint64_t launch = s->launch_number, me = s->block_number;
    *row = (struct kernel_row){ memory->data + at, first, n };
    if (access->kind == KERNEL_LOAD) {
        if (!all_defined(state, all)) return false;
        if (is_known(entries, pieces, launch, me)) return true;
        if (!kernel_threads_note(s, access, first_piece, pieces, first, lane_shift)) return false;
        if (!note_read(entries, pieces, launch, me)) return false;
        add_footprint(s, at, all, false);
        return true;
    }
    if (!all_usable(state, all)) return false;
    if (!kernel_threads_note(s, access, first_piece, pieces, first, lane_shift)) return false;
    if (!note_write(entries, pieces, launch, me)) return false;
    add_footprint(s, at, all, true);
    memset(state, BYTE_DEFINED, all);
    return true;
}

/* ---- counts ---- */

/* An access of a lane has at most 16 bytes. It counts as one sector, also where it lies in two. */
static uint64_t sectors_of(const struct kernel_access *access)
{
    uint64_t seen[KERNEL_LANES], last = 0, n = 0;
    bool rises = true;
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const uint64_t sector = access->addresses[kernel_first_lane(left)] >> 5;
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

static void count(struct kernel_block *s, const struct kernel_access *access)
{
    struct kernel_counts *c = &s->counts;
    const uint64_t bytes = (uint64_t)kernel_count_lanes(access->lanes) * access->bytes;
    const uint64_t sectors = sectors_of(access);
    if (access->kind != KERNEL_STORE) {
        c->bytes_loaded += bytes;
        c->sectors_loaded += sectors;
    }
    if (access->kind != KERNEL_LOAD) {
        c->bytes_stored += bytes;
        c->sectors_stored += sectors;
    }
}

bool kernel_check_global(struct kernel_block *s, const struct kernel_access *access, struct kernel_row *row)
{
    if (s->launch->counts) count(s, access);
    if (check_row(s, access, row)) return true;
    row->n = 0;
    kernel_lanes left = access->lanes;
    if (KERNEL_IN_STEP && access->kind == KERNEL_STORE && !access->synchronises) {
        const int lane = kernel_lanes_meet(access);
        if (lane >= 0)
            return bad_global(s, access, lane, KERNEL_GLOBAL_RACE,
                              "that another lane writes by the same instruction");
    }
    if (access->kind != KERNEL_ATOMIC && !access->synchronises) {
        if (access->bytes == 4)
            left = scattered(s, access, 4);
        else if (access->bytes == 2)
            left = scattered(s, access, 2);
    }
    for (; left; left &= left - 1)
        if (!one_lane(s, access, kernel_first_lane(left))) return false;
    return true;
}
