/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory (AMD: LDS) and local memory (AMD: scratch).
 *
 * Races in shared memory. The shadow has an entry per piece (see kernel_block.shared_shift): who wrote it
 * and who read it since the last barrier of the block. The entry has 1 bit that says whether the piece was
 * ever written, 22 bits each for the tags of the writer and the reader (check_tags.h), and 19 bits for the
 * number of barriers before. A barrier of the block with a number of threads counts as a barrier of all, so
 * it may hide a race, but invents none.
 */
#include "emulate/gpu/check_tags.h"

#include <stdio.h>
#include <string.h>

enum { EPOCH_SHIFT = 1 + 2 * TAG_BITS };
#define EPOCH_MASK (((uint64_t)1 << (64 - EPOCH_SHIFT)) - 1)

static bool bad_race(struct kernel_block *s, const struct kernel_access *access, int lane, uint64_t other,
                     bool wrote)
{
    const uint64_t warp = other >> (WEPOCH_BITS + LANE_BITS) & 31;
    const uint64_t of = (other & LANE_FIELD) >> WEPOCH_BITS;
    char what[200];
    /* lanes that read the same piece are looked at together; the writer itself is not at fault */
    for (int l = 0; l < KERNEL_LANES && warp == access->warp && of == (uint64_t)lane; l++)
        if (l != lane && access->lanes >> l & 1 && access->addresses[l] == access->addresses[lane]) lane = l;
    kernel_race_text(s, access, other, wrote, "", what);
    return kernel_fail(s, access, lane, KERNEL_SHARED_RACE, "shared", what);
}

/* A thread's access to one piece. */
static bool note(struct kernel_block *s, const struct kernel_access *access, int lane, uint64_t me,
                 uint64_t *entry)
{
    const uint64_t epoch = s->epoch & EPOCH_MASK, old = *entry;
    const bool fresh = old >> EPOCH_SHIFT != epoch;
    const uint64_t writer = fresh ? 0 : old >> (1 + TAG_BITS) & TAG_MASK;
    const uint64_t reader = fresh ? 0 : old >> 1 & TAG_MASK;
    const enum kernel_access_kind kind = access->kind;
    if (kind != KERNEL_STORE && !(old & 1))
        return kernel_fail(s, access, lane, KERNEL_UNINITIALISED, "shared", "that were never written");
    if (access->synchronises && kind != KERNEL_ATOMIC) {
        *entry |= 1;
        return true;
    }
    const bool is_atomic = kind == KERNEL_ATOMIC;
    const bool met_atomic = (writer & LANE_FIELD) >> WEPOCH_BITS == ATOMIC_LANES;
    if (writer && !(is_atomic && met_atomic) && !before(writer, me))
        return bad_race(s, access, lane, writer, true);
    if (kind != KERNEL_LOAD && reader && !before(reader, me)) return bad_race(s, access, lane, reader, false);
    uint64_t now_writer = writer, now_reader = 0;
    if (kind == KERNEL_LOAD)
        now_reader = joint_reader(reader, me);
    else
        now_writer = is_atomic ? tag_of(access, ATOMIC_LANES) : me;
    *entry = epoch << EPOCH_SHIFT | now_writer << (1 + TAG_BITS) | now_reader << 1 | 1;
    return true;
}

/*
 * What an entry is after several warps have read it and nobody wrote it. Further reads change nothing, and
 * most reads of a matrix product are of this kind.
 */
static uint64_t quiet_entry(const struct kernel_block *s)
{
    return (s->epoch & EPOCH_MASK) << EPOCH_SHIFT | SEVERAL_WARPS << 1 | 1;
}

static bool check_lane(struct kernel_block *s, const struct kernel_access *access, int lane, uint64_t me)
{
    const uint32_t bytes = access->bytes, shift = s->shared_shift;
    const uint64_t at = access->addresses[lane];
    if (at >= s->shared_bytes || s->shared_bytes - at < bytes)
        return kernel_fail(s, access, lane, KERNEL_OUT_OF_BOUNDS, "shared",
                           "outside the memory of the block");
    if (at & (access->align - 1))
        return kernel_fail(s, access, lane, KERNEL_MISALIGNED, "shared",
                           "at an address that is no multiple of the size");
    for (uint32_t i = 0; i < bytes >> shift; i++)
        if (!note(s, access, lane, me, &s->shadow[(at >> shift) + i])) return false;
    return true;
}

/*
 * Whether a load changes nothing in the shadow: each of its pieces is quiet, or `me` was the last to read it
 * and nobody wrote it since. If the lanes run in step, any lane of the warp will do.
 */
static bool is_quiet(const struct kernel_block *s, const struct kernel_access *access, uint64_t at,
                     uint64_t quiet, uint64_t me)
{
    const uint64_t differs = ~(TAG_MASK << (1 + TAG_BITS) | (KERNEL_IN_STEP ? LANE_FIELD << 1 : 0));
    const uint64_t mine = (s->epoch & EPOCH_MASK) << EPOCH_SHIFT | me << 1 | 1;
    const uint32_t shift = s->shared_shift;
    if (at >= s->shared_bytes || s->shared_bytes - at < access->bytes || at & (access->align - 1))
        return false;
    for (uint32_t i = 0; i < access->bytes >> shift; i++) {
        const uint64_t entry = s->shadow[(at >> shift) + i];
        if (entry != quiet && (entry ^ mine) & differs) return false;
    }
    return true;
}

static bool check_all(struct kernel_block *s, const struct kernel_access *access)
{
    const uint64_t tag = tag_of(access, 0), quiet = quiet_entry(s);
    const bool is_load = access->kind == KERNEL_LOAD;
    for (kernel_lanes left = access->lanes; left;) {
        const int lane = kernel_first_lane(left);
        const uint64_t at = access->addresses[lane];
        uint64_t me = tag | (uint64_t)lane << WEPOCH_BITS;
        left &= left - 1;
        /* neighbours that read the same piece are looked at once */
        while (is_load && left && access->addresses[kernel_first_lane(left)] == at) {
            me = tag | (uint64_t)SEVERAL_LANES << WEPOCH_BITS;
            left &= left - 1;
        }
        if (is_load && is_quiet(s, access, at, quiet, me)) continue;
        /* an error names one lane, so each lane is looked at alone where several are at fault together */
        if (!check_lane(s, access, lane, me)) return false;
    }
    if (KERNEL_IN_STEP && access->kind == KERNEL_STORE && !access->synchronises) {
        const int lane = kernel_lanes_meet(access);
        if (lane >= 0)
            return kernel_fail(s, access, lane, KERNEL_SHARED_RACE, "shared",
                               "that another lane writes by the same instruction");
    }
    return true;
}

/*
 * The passes beyond the first that 32 banks of 4 bytes need. Elements of 8 bytes are moved for half a warp
 * at a time, elements of 16 bytes for a quarter.
 */
static uint64_t conflicts_in(const struct kernel_access *access, int begin, int end, int words)
{
    uint32_t seen[128], passes[32] = { 0 }, most = 1;
    int n = 0;
    for (int l = begin; l < end; l++) {
        if (!(access->lanes >> l & 1)) continue;
        for (int i = 0; i < words; i++) {
            const uint32_t word = (uint32_t)(access->addresses[l] >> 2) + (uint32_t)i;
            bool is_new = true;
            for (int j = 0; j < n; j++) is_new &= seen[j] != word;
            if (!is_new) continue;
            seen[n++] = word;
            if (++passes[word & 31] > most) most = passes[word & 31];
        }
    }
    return most - 1;
}

/* Whether no bank has two different words of these lanes. This is so in most accesses. */
static bool is_free_of_conflicts(const struct kernel_access *access, int begin, int end, int words)
{
    uint32_t of_bank[32], last = ~(uint32_t)0, other = 0;
    memset(of_bank, 0xff, sizeof of_bank);
    for (int l = begin; l < end; l++) {
        const uint32_t first = (uint32_t)(access->addresses[l] >> 2);
        if (first == last || !(access->lanes >> l & 1)) continue;
        last = first;
        for (uint32_t word = first; word < first + (uint32_t)words; word++) {
            uint32_t *bank = &of_bank[word & 31];
            other |= *bank != word && *bank != ~(uint32_t)0;
            *bank = word;
        }
    }
    return !other;
}

static uint64_t conflicts_of(const struct kernel_access *access)
{
    const uint32_t bytes = access->bytes;
    const int group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, words = bytes <= 4 ? 1 : (int)bytes / 4;
    uint64_t conflicts = 0;
    for (int begin = 0; begin < KERNEL_LANES; begin += group)
        if (!is_free_of_conflicts(access, begin, begin + group, words))
            conflicts += conflicts_in(access, begin, begin + group, words);
    return conflicts;
}

bool kernel_check_shared(struct kernel_block *s, const struct kernel_access *access)
{
    if (s->launch->counts) {
        s->counts.shared_accesses++;
        s->counts.bank_conflicts += conflicts_of(access);
    }
    return check_all(s, access);
}

/* ---- local memory ---- */

/* All lanes at one address. */
static bool same_local(const struct kernel_access *access, uint32_t limit, kernel_lanes *defined)
{
    const uint64_t at = access->addresses[kernel_first_lane(access->lanes)];
    const uint32_t bytes = access->bytes;
    uint64_t differs = 0;
    for (int l = 0; l < KERNEL_LANES; l++) differs |= access->lanes >> l & 1 ? access->addresses[l] ^ at : 0;
    if (differs || at >= limit || limit - at < bytes || at & (access->align - 1)) return false;
    kernel_lanes all = KERNEL_ALL_LANES;
    for (uint32_t i = 0; i < bytes; i++) all &= defined[at + i];
    if (access->kind == KERNEL_LOAD && access->lanes & ~all) return false;
    for (uint32_t i = 0; i < bytes && access->kind == KERNEL_STORE; i++) defined[at + i] |= access->lanes;
    return true;
}

bool kernel_check_local(struct kernel_block *s, const struct kernel_access *access, uint32_t limit,
                        kernel_lanes *defined, const char *space, bool *same_out)
{
    const uint32_t bytes = access->bytes;
    *same_out = access->kind != KERNEL_ATOMIC && same_local(access, limit, defined);
    if (*same_out) return true;
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        const uint64_t at = access->addresses[lane];
        if (at >= limit || limit - at < bytes)
            return kernel_fail(s, access, lane, KERNEL_OUT_OF_BOUNDS, space,
                               "outside the memory of the thread");
        if (at & (access->align - 1))
            return kernel_fail(s, access, lane, KERNEL_MISALIGNED, space,
                               "at an address that is no multiple of the size");
        for (uint32_t i = 0; i < bytes; i++) {
            if (access->kind == KERNEL_STORE)
                defined[at + i] |= KERNEL_LANE(lane);
            else if (!(defined[at + i] >> lane & 1))
                return kernel_fail(s, access, lane, KERNEL_UNINITIALISED, space, "that were never written");
        }
    }
    return true;
}
