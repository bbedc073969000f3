/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races in global memory between the threads of one block. A table has an entry for each piece of memory (see
 * ptx_kernel.global_shift) that the block has touched: the tags (ptx_tags.h) of the threads that wrote it and
 * read it since the last barrier of the block. The table is small, so that it stays in the processor's cache.
 * A piece whose entry another piece has taken is forgotten: this may hide a race, but invents none.
 *
 * A block that reads what it has read already does not come here, so of several readers only the first is
 * known. Atomics, and accesses that synchronise, are not noted.
 */
#include "emulate/cuda/ptx_tags.h"

#include <stdio.h>

#define PIECE_STEP 0x9e3779b97f4a7c15u

/*
 * The key of a piece since the last barrier. The sum is another number for each barrier of each block of the
 * launch, so keys of other blocks do not count.
 */
static uint64_t key_of(const struct ptx_state *s, uint64_t piece)
{
    return (piece + 1) * PIECE_STEP ^ (s->threads_base + s->epoch) * 0xbf58476d1ce4e5b9u;
}

static struct ptx_pair *pair_at(const struct ptx_state *s, uint64_t piece)
{
    return &s->threads[piece & (PTX_THREAD_PAIRS - 1)];
}

static bool races(const struct ptx_pair *old, uint64_t key, bool writes, uint64_t me)
{
    const uint64_t writer = old->tags >> TAG_BITS, reader = old->tags & TAG_MASK;
    if (old->key != key) return false;
    return (writer && !before(writer, me)) || (writes && reader && !before(reader, me));
}

bool ptx_threads_note(struct ptx_state *s, const struct ptx_access *access, uint64_t piece, uint64_t n,
                      int first, uint32_t lane_shift)
{
    const bool writes = access->I->kind == PTX_STORE;
    const uint64_t tag = tag_of(access->warp, (uint64_t)first);
    bool race = false;
    for (uint64_t i = 0; i < n && !race; i++) {
        const uint64_t me = tag + (i >> lane_shift << WEPOCH_BITS), key = key_of(s, piece + i);
        struct ptx_pair *pair = pair_at(s, piece + i);
        if (pair->key != key) {
            *pair = (struct ptx_pair){ key, writes ? me << TAG_BITS : me };
            continue;
        }
        race = races(pair, key, writes, me);
        if (race) break;
        const uint64_t writer = pair->tags & TAG_MASK << TAG_BITS, reader = pair->tags & TAG_MASK;
        pair->tags = writes ? me << TAG_BITS : writer | joint_reader(reader, me);
    }
    return !race;
}

void ptx_race_text(const struct ptx_state *s, const struct ptx_access *access, uint64_t other, bool wrote,
                   const char *of_block, char text[200])
{
    const uint64_t warp = other >> (WEPOCH_BITS + LANE_BITS) & 31;
    const uint64_t lane = (other & LANE_FIELD) >> WEPOCH_BITS;
    const bool same_warp = other != SEVERAL_WARPS && warp == access->warp->index;
    const char *const barrier = same_warp ? "with no barrier and no __syncwarp() between them"
                                          : "with no barrier between them";
    char thread[48];
    if (other != SEVERAL_WARPS && lane < PTX_LANES)
        snprintf(text, 200, "that %s%s %s, %s", ptx_thread_text(s, &s->warps[warp], (int)lane, thread),
                 of_block, wrote ? "wrote" : "read", barrier);
    else
        snprintf(text, 200, "that %s, %s", wrote ? "a thread changed by an atomic" : "other threads read",
                 barrier);
}

bool ptx_threads_bad(const struct ptx_state *s, const struct ptx_access *access, int lane, uint64_t piece,
                     char text[200])
{
    const struct ptx_pair *old = pair_at(s, piece);
    const uint64_t me = tag_of(access->warp, (uint64_t)lane), writer = old->tags >> TAG_BITS;
    const bool by_writer = writer && !before(writer, me);
    if (!races(old, key_of(s, piece), access->I->kind == PTX_STORE, me)) return false;
    ptx_race_text(s, access, by_writer ? writer : old->tags & TAG_MASK, by_writer, " of the same block",
                  text);
    return true;
}
