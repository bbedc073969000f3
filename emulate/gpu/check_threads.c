/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races in global memory between the threads of one block. A table has an entry for each piece of memory
 * (see kernel_block.global_shift) that the block has touched: the tags (check_tags.h) of the threads that
 * wrote it and read it since the last barrier of the block. The table is small, so that it stays in the
 * processor's cache. A piece whose entry another piece has taken is forgotten: this may hide a race, but
 * invents none.
 *
 * A block that reads what it has read already does not come here, so of several readers only the first is
 * known. Atomics, and accesses that synchronise, are not noted.
 */
#include "emulate/gpu/blocks.h"
#include "emulate/gpu/check_tags.h"

#include <stdio.h>

#define PIECE_STEP 0x9e3779b97f4a7c15u

/*
 * The key of a piece since the last barrier. The sum is another number for each barrier of each block of the
 * launch, so keys of other blocks do not count.
 */
static uint64_t key_of(const struct kernel_block *s, uint64_t piece)
{
    return (piece + 1) * PIECE_STEP ^ (s->threads_base + s->epoch) * 0xbf58476d1ce4e5b9u;
}

static struct kernel_pair *pair_at(const struct kernel_block *s, uint64_t piece)
{
    return &s->threads[piece & (KERNEL_THREAD_PAIRS - 1)];
}

static bool races(const struct kernel_pair *old, uint64_t key, bool writes, uint64_t me)
{
    const uint64_t writer = old->tags >> TAG_BITS, reader = old->tags & TAG_MASK;
    if (old->key != key) return false;
    return (writer && !before(writer, me)) || (writes && reader && !before(reader, me));
}

bool kernel_threads_note(struct kernel_block *s, const struct kernel_access *access, uint64_t piece,
                         uint64_t n, int first, uint32_t lane_shift)
{
    const bool writes = access->kind == KERNEL_STORE;
    const uint64_t tag = tag_of(access, (uint64_t)first);
    bool race = false;
    for (uint64_t i = 0; i < n && !race; i++) {
        const uint64_t me = tag + (i >> lane_shift << WEPOCH_BITS), key = key_of(s, piece + i);
        struct kernel_pair *pair = pair_at(s, piece + i);
        if (pair->key != key) {
            *pair = (struct kernel_pair){ key, writes ? me << TAG_BITS : me };
            continue;
        }
        race = races(pair, key, writes, me);
        if (race) break;
        const uint64_t writer = pair->tags & TAG_MASK << TAG_BITS, reader = pair->tags & TAG_MASK;
        pair->tags = writes ? me << TAG_BITS : writer | joint_reader(reader, me);
    }
    return !race;
}

void kernel_race_text(const struct kernel_block *s, const struct kernel_access *access, uint64_t other,
                      bool wrote, const char *of_block, char text[200])
{
    const uint64_t warp = other >> (WEPOCH_BITS + LANE_BITS) & 31;
    const uint64_t lane = (other & LANE_FIELD) >> WEPOCH_BITS;
    const bool same_warp = other != SEVERAL_WARPS && warp == access->warp;
    const char *const barrier = same_warp ? "with no barrier and no __syncwarp() between them"
                                          : "with no barrier between them";
    char thread[48];
    if (other != SEVERAL_WARPS && lane < KERNEL_LANES)
        snprintf(text, 200, "that %s%s %s, %s",
                 kernel_thread_text(s->launch->block, (uint32_t)(warp * KERNEL_LANES + lane), thread),
                 of_block, wrote ? "wrote" : "read", barrier);
    else
        snprintf(text, 200, "that %s, %s", wrote ? "a thread changed by an atomic" : "other threads read",
                 barrier);
}

bool kernel_threads_bad(const struct kernel_block *s, const struct kernel_access *access, int lane,
                        uint64_t piece, char text[200])
{
    const struct kernel_pair *old = pair_at(s, piece);
    const uint64_t me = tag_of(access, (uint64_t)lane), writer = old->tags >> TAG_BITS;
    const bool by_writer = writer && !before(writer, me);
    if (!races(old, key_of(s, piece), access->kind == KERNEL_STORE, me)) return false;
    kernel_race_text(s, access, by_writer ? writer : old->tags & TAG_MASK, by_writer, " of the same block",
                     text);
    return true;
}

/* ---- lanes of one store ---- */

/*
 * Whether no two lanes have words in common, as far as the low bits of their addresses say it. Nearly all
 * stores in no order end here.
 */
static bool all_apart(const struct kernel_access *access)
{
    unsigned char seen[2048] = { 0 };
    const uint32_t shift = access->bytes < 4 || access->align < 4 ? 0 : 2, pieces = access->bytes >> shift;
    unsigned char again = 0;
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const uint64_t first = access->addresses[kernel_first_lane(left)] >> shift;
        for (uint64_t i = first; i < first + pieces; i++) {
            again |= seen[i % sizeof seen];
            seen[i % sizeof seen] = 1;
        }
    }
    return !again;
}

int kernel_lanes_meet(const struct kernel_access *access)
{
    const uint64_t bytes = access->bytes;
    uint64_t last = 0;
    bool rises = true, any = false;
    for (kernel_lanes left = access->lanes; left && rises; left &= left - 1) {
        const uint64_t at = access->addresses[kernel_first_lane(left)];
        rises = !any || at >= last + bytes;
        last = at;
        any = true;
    }
    if (rises || all_apart(access)) return -1;
    for (kernel_lanes left = access->lanes; left; left &= left - 1) {
        const int lane = kernel_first_lane(left);
        for (kernel_lanes others = left & (left - 1); others; others &= others - 1) {
            const int other = kernel_first_lane(others);
            if (access->addresses[other] - access->addresses[lane] + bytes - 1 < 2 * bytes - 1) return other;
        }
    }
    return -1;
}

bool kernel_fail(struct kernel_block *s, const struct kernel_access *access, int lane,
                 enum kernel_error error, const char *space, const char *what)
{
    static const char *const verbs[] = { "reads", "writes", "changes" };
    char text[640];
    snprintf(text, sizeof text, "%s %u bytes at %llu of %s memory %s", verbs[access->kind], access->bytes,
             (unsigned long long)access->addresses[lane], space, what);
    return s->fail(s, access, lane, access->addresses[lane], error, text);
}
