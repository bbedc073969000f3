/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared and local memory.
 *
 * Races in shared memory. The shadow has an entry per piece (see ptx_kernel.shared_shift): who wrote it and
 * who read it since the last barrier of the block. The entry has 1 bit that says whether the piece was ever
 * written, 22 bits each for the tags of the writer and the reader (ptx_tags.h), and 19 bits for the number of
 * barriers before. A barrier of the block with a number of threads counts as a barrier of all, so it may hide
 * a race, but invents none.
 */
#include "emulate/cuda/ptx_tags.h"

#include <stdio.h>
#include <string.h>

enum { EPOCH_SHIFT = 1 + 2 * TAG_BITS };
#define EPOCH_MASK (((uint64_t)1 << (64 - EPOCH_SHIFT)) - 1)

/* ---- errors ---- */

static bool bad(struct ptx_state *s, const struct ptx_access *access, int lane, enum kernel_error error,
                const char *space, const char *what)
{
    s->fault->address = access->addresses[lane];
    return ptx_fault_at(s, access->warp, lane, access->I, error, "%s %u bytes at %llu of %s memory %s",
                        ptx_verb(access->I), access->bytes * access->I->vector,
                        (unsigned long long)access->addresses[lane], space, what);
}

static bool bad_race(struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t other,
                     bool wrote)
{
    const uint64_t warp = other >> (WEPOCH_BITS + LANE_BITS) & 31;
    const uint64_t of = (other & LANE_FIELD) >> WEPOCH_BITS;
    char what[200];
    /* lanes that read the same piece are looked at together; the writer itself is not at fault */
    for (int l = 0; l < PTX_LANES && warp == access->warp->index && of == (uint64_t)lane; l++)
        if (l != lane && access->lanes >> l & 1 && access->addresses[l] == access->addresses[lane]) lane = l;
    ptx_race_text(s, access, other, wrote, "", what);
    return bad(s, access, lane, KERNEL_SHARED_RACE, "shared", what);
}

/* ---- shared memory ---- */

/* A thread's access to one piece. */
static bool note(struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t me, uint64_t *entry)
{
    const uint64_t epoch = s->epoch & EPOCH_MASK, old = *entry;
    const bool fresh = old >> EPOCH_SHIFT != epoch;
    const uint64_t writer = fresh ? 0 : old >> (1 + TAG_BITS) & TAG_MASK;
    const uint64_t reader = fresh ? 0 : old >> 1 & TAG_MASK;
    const enum ptx_kind kind = (enum ptx_kind)access->I->kind;
    if (kind != PTX_STORE && !(old & 1))
        return bad(s, access, lane, KERNEL_UNINITIALISED, "shared", "that were never written");
    if (access->I->synchronises && kind != PTX_ATOM) {
        *entry |= 1;
        return true;
    }
    const bool is_atomic = kind == PTX_ATOM;
    const bool met_atomic = (writer & LANE_FIELD) >> WEPOCH_BITS == ATOMIC_LANES;
    if (writer && !(is_atomic && met_atomic) && !before(writer, me))
        return bad_race(s, access, lane, writer, true);
    if (kind != PTX_LOAD && reader && !before(reader, me)) return bad_race(s, access, lane, reader, false);
    uint64_t now_writer = writer, now_reader = 0;
    if (kind == PTX_LOAD)
        now_reader = joint_reader(reader, me);
    else
        now_writer = is_atomic ? tag_of(access->warp, ATOMIC_LANES) : me;
    *entry = epoch << EPOCH_SHIFT | now_writer << (1 + TAG_BITS) | now_reader << 1 | 1;
    return true;
}

/*
 * What an entry is after several warps have read it and nobody wrote it. Further reads change nothing, and
 * most reads of a matrix product are of this kind.
 */
static uint64_t quiet_entry(const struct ptx_state *s)
{
    return (s->epoch & EPOCH_MASK) << EPOCH_SHIFT | SEVERAL_WARPS << 1 | 1;
}

static bool check_lane(struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t me)
{
    const uint32_t bytes = access->bytes * access->I->vector, shift = s->kernel->shared_shift;
    const uint64_t at = access->addresses[lane];
    if (at >= s->shared_bytes || s->shared_bytes - at < bytes)
        return bad(s, access, lane, KERNEL_OUT_OF_BOUNDS, "shared", "outside the memory of the block");
    if (at & (bytes - 1))
        return bad(s, access, lane, KERNEL_MISALIGNED, "shared",
                   "at an address that is no multiple of the size");
    for (uint32_t i = 0; i < bytes >> shift; i++)
        if (!note(s, access, lane, me, &s->shadow[(at >> shift) + i])) return false;
    return true;
}

/* Whether a load of one piece changes nothing in the shadow. */
static bool is_quiet(const struct ptx_state *s, const struct ptx_access *access, uint64_t at, uint64_t quiet)
{
    const uint32_t shift = s->kernel->shared_shift;
    return at < s->shared_bytes && access->bytes >> shift == 1 && !(at & (access->bytes - 1))
           && s->shadow[at >> shift] == quiet;
}

static bool check_shared(struct ptx_state *s, const struct ptx_access *access)
{
    const uint64_t tag = tag_of(access->warp, 0), quiet = quiet_entry(s);
    const bool is_load = access->I->kind == PTX_LOAD, may_be_quiet = is_load && access->I->vector == 1;
    for (uint32_t left = access->lanes; left;) {
        const int lane = __builtin_ctz(left);
        const uint64_t at = access->addresses[lane];
        uint64_t me = tag | (uint64_t)lane << WEPOCH_BITS;
        left &= left - 1;
        /* neighbours that read the same piece are looked at once */
        while (is_load && left && access->addresses[__builtin_ctz(left)] == at) {
            me = tag | (uint64_t)SEVERAL_LANES << WEPOCH_BITS;
            left &= left - 1;
        }
        if (may_be_quiet && is_quiet(s, access, at, quiet)) continue;
        /* an error names one lane, so each lane is looked at alone where several are at fault together */
        if (!check_lane(s, access, lane, me)) return false;
    }
    return true;
}

/*
 * The passes beyond the first that 32 banks of 4 bytes need. Elements of 8 bytes are moved for half a warp
 * at a time, elements of 16 bytes for a quarter.
 */
static uint64_t conflicts_in(const struct ptx_access *access, int begin, int end, int words)
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
static bool is_free_of_conflicts(const struct ptx_access *access, int begin, int end, int words)
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

static uint64_t conflicts_of(const struct ptx_access *access)
{
    const uint32_t bytes = access->bytes * access->I->vector;
    const int group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, words = bytes <= 4 ? 1 : (int)bytes / 4;
    uint64_t conflicts = 0;
    for (int begin = 0; begin < PTX_LANES; begin += group)
        if (!is_free_of_conflicts(access, begin, begin + group, words))
            conflicts += conflicts_in(access, begin, begin + group, words);
    return conflicts;
}

/* Words between shared memory and the registers of all lanes, whose addresses are good. */
static void move_words(const struct ptx_access *access, unsigned char *shared, uint32_t *slot)
{
    const uint64_t *at = access->addresses;
    if (access->I->kind == PTX_LOAD)
        for (int l = 0; l < PTX_LANES; l++) memcpy(&slot[l], shared + at[l], 4);
    else
        for (int l = 0; l < PTX_LANES; l++) memcpy(shared + at[l], &slot[l], 4);
}

/* The same for single lanes, and for several registers of a lane. */
static void move_vectors(const struct ptx_access *access, char *const bases[2], unsigned char *shared)
{
    for (int i = 0; i < access->I->vector; i++) {
        uint32_t *slot = ((union ptx_slot *)ptx_at(bases, access->I->d[i]))->w;
        for (uint32_t left = access->lanes; left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            unsigned char *data = shared + access->addresses[lane] + 4 * i;
            if (access->I->kind == PTX_LOAD)
                memcpy(&slot[lane], data, 4);
            else
                memcpy(data, &slot[lane], 4);
        }
    }
}

bool ptx_access_shared(struct ptx_state *s, struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    char *const bases[2] = { access->warp->registers, s->constants };
    if (s->launch->counts) {
        s->counts.shared_accesses++;
        s->counts.bank_conflicts += conflicts_of(access);
    }
    if (!check_shared(s, access)) return false;
    const bool words = I->kind != PTX_ATOM && access->bytes == 4 && !I->wide;
    if (words && I->vector == 1 && access->lanes == PTX_ALL_LANES) {
        move_words(access, s->shared, ((union ptx_slot *)ptx_at(bases, I->d[0]))->w);
        return true;
    }
    if (words) {
        move_vectors(access, bases, s->shared);
        return true;
    }
    for (uint32_t left = access->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        ptx_move(I, bases, lane, access->bytes, s->shared + access->addresses[lane]);
    }
    return true;
}

/* ---- local memory ---- */

static bool check_local(struct ptx_state *s, const struct ptx_access *access, int lane)
{
    const uint32_t bytes = access->bytes * access->I->vector, limit = s->kernel->local_bytes;
    const uint64_t at = access->addresses[lane];
    if (at >= limit || limit - at < bytes)
        return bad(s, access, lane, KERNEL_OUT_OF_BOUNDS, "local", "outside the memory of the thread");
    if (at & (bytes - 1))
        return bad(s, access, lane, KERNEL_MISALIGNED, "local",
                   "at an address that is no multiple of the size");
    for (uint32_t i = 0; i < bytes; i++) {
        uint32_t *defined = &access->warp->local_defined[at + i];
        if (access->I->kind == PTX_STORE)
            *defined |= (uint32_t)1 << lane;
        else if (!(*defined >> lane & 1))
            return bad(s, access, lane, KERNEL_UNINITIALISED, "local", "that were never written");
    }
    return true;
}

/* All lanes at the same address, in words: the word of the lanes lies as their registers do. */
static bool same_local(const struct ptx_state *s, const struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    struct ptx_warp *warp = access->warp;
    const uint32_t bytes = 4 * I->vector;
    const uint64_t at = access->addresses[__builtin_ctz(access->lanes)];
    uint64_t differs = 0;
    if (access->bytes != 4 || I->wide || I->kind == PTX_ATOM) return false;
    for (int l = 0; l < PTX_LANES; l++) differs |= access->lanes >> l & 1 ? access->addresses[l] ^ at : 0;
    if (differs || at >= s->kernel->local_bytes || s->kernel->local_bytes - at < bytes || at & (bytes - 1))
        return false;
    uint32_t defined = PTX_ALL_LANES, *bits = &warp->local_defined[at];
    for (uint32_t i = 0; i < bytes; i++) defined &= bits[i];
    if (I->kind == PTX_LOAD && access->lanes & ~defined) return false;
    for (uint32_t i = 0; i < bytes && I->kind == PTX_STORE; i++) bits[i] |= access->lanes;
    char *const bases[2] = { warp->registers, s->constants };
    for (int i = 0; i < I->vector; i++) {
        uint32_t *row = (uint32_t *)(void *)warp->local + (at / 4 + (uint64_t)i) * PTX_LANES;
        uint32_t *slot = ((union ptx_slot *)ptx_at(bases, I->d[i]))->w;
        const uint32_t *from = I->kind == PTX_LOAD ? row : slot;
        uint32_t *to = I->kind == PTX_LOAD ? slot : row;
        const uint32_t lanes = access->lanes;
        if (lanes == PTX_ALL_LANES)
            memcpy(to, from, 4 * PTX_LANES);
        else
            PTX_EACH_LANE to[l] = lanes >> l & 1 ? from[l] : to[l];
    }
    return true;
}

bool ptx_access_local(struct ptx_state *s, struct ptx_access *access)
{
    const struct ptx_instruction *I = access->I;
    struct ptx_warp *warp = access->warp;
    char *const bases[2] = { warp->registers, s->constants };
    if (same_local(s, access)) return true;
    for (uint32_t left = access->lanes; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        unsigned char bytes[16];
        const uint64_t at = access->addresses[lane];
        const uint32_t n = access->bytes * I->vector;
        if (!check_local(s, access, lane)) return false;
        for (uint32_t i = 0; i < n; i++)
            bytes[i] = warp->local[((at + i) / 4 * PTX_LANES + (uint64_t)lane) * 4 + (at + i) % 4];
        ptx_move(I, bases, lane, access->bytes, bytes);
        for (uint32_t i = 0; i < n; i++)
            warp->local[((at + i) / 4 * PTX_LANES + (uint64_t)lane) * 4 + (at + i) % 4] = bytes[i];
    }
    return true;
}
