/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tags of threads, for races inside a block. A tag has 22 bits: one that says that there is a thread, 5 for
 * the warp, 6 or 7 for the lane, and the others for the number of warp barriers that the warp had executed.
 * An entry of a shadow has the tags of a writer and of a reader since the last barrier of the block.
 *
 * Lanes of one warp race too, unless KERNEL_IN_STEP, because a GPU may run them one after another. On CUDA
 * only bar.warp.sync orders them: a shuffle or a vote orders no memory accesses (CUDA C++ Programming Guide,
 * "Warp Shuffle Functions").
 */
#ifndef EMULATE_GPU_CHECK_TAGS_H
#define EMULATE_GPU_CHECK_TAGS_H

#include "emulate/gpu/check.h"

enum { TAG_BITS = 22, LANE_BITS = KERNEL_LANES == 64 ? 7 : 6, WEPOCH_BITS = TAG_BITS - 6 - LANE_BITS };
#define TAG_MASK (((uint64_t)1 << TAG_BITS) - 1)
#define SEVERAL_WARPS TAG_MASK
#define LANE_FIELD ((((uint64_t)1 << LANE_BITS) - 1) << WEPOCH_BITS)
#define WEPOCH_FIELD (((uint64_t)1 << WEPOCH_BITS) - 1)
enum { SEVERAL_LANES = KERNEL_LANES, ATOMIC_LANES = KERNEL_LANES + 1 }; /* in place of a lane */

static inline uint64_t tag_of(const struct kernel_access *access, uint64_t lane)
{
    return (uint64_t)1 << (TAG_BITS - 1) | (uint64_t)access->warp << (WEPOCH_BITS + LANE_BITS)
           | lane << WEPOCH_BITS | (access->warp_epoch & WEPOCH_FIELD);
}

/** Whether `old`, which is not 0, is the same lane as `me`, or a lane of its warp that is ordered before. */
static inline bool before(uint64_t old, uint64_t me)
{
    if (old == me) return true;
    const uint64_t differs = old ^ me;
    if (differs & ~(LANE_FIELD | WEPOCH_FIELD)) return false; /* another warp */
    return KERNEL_IN_STEP || !(differs & LANE_FIELD) || differs & WEPOCH_FIELD;
}

/** The reader of a piece after `me` has read it, too. */
static inline uint64_t joint_reader(uint64_t old, uint64_t me)
{
    if (!old || before(old, me)) return me;
    if ((old ^ me) & ~(LANE_FIELD | WEPOCH_FIELD)) return SEVERAL_WARPS;
    return (me & ~LANE_FIELD) | (uint64_t)SEVERAL_LANES << WEPOCH_BITS;
}

/**
 * "that thread (3,0,0) wrote, with no barrier between them": the other side of a race with `lane`.
 * `of_block` stands behind the thread.
 */
void kernel_race_text(const struct kernel_block *block, const struct kernel_access *access, uint64_t other,
                      bool wrote, const char *of_block, char text[200]);

#endif
