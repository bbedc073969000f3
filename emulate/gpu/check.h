/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The checks of memory that the executors share: bounds, alignment, bytes that were never written, and
 * races. An executor says what the lanes of a warp (AMD: of a wave) access, and moves the elements itself
 * when the access is good.
 *
 * These files are compiled for each executor and for each instruction set of the host:
 * - KERNEL_ISA: the suffix of the functions' names,
 * - KERNEL_LANES: the lanes of a warp, 32 or 64,
 * - KERNEL_IN_STEP: 1 if the hardware does the accesses of one warp in the order of its instructions. Then
 *   two lanes of a warp race only inside one instruction. Otherwise only a barrier of the warp orders its
 *   lanes.
 */
#ifndef EMULATE_GPU_CHECK_H
#define EMULATE_GPU_CHECK_H

#include "emulate/gpu/kernel.h"

#ifndef KERNEL_ISA
#define KERNEL_ISA generic
#define KERNEL_LANES 32
#define KERNEL_IN_STEP 0
#endif
#define KERNEL_JOIN_(a, b) a##_##b
#define KERNEL_JOIN(a, b) KERNEL_JOIN_(a, b)
#define kernel_check_global KERNEL_JOIN(kernel_check_global, KERNEL_ISA)
#define kernel_check_shared KERNEL_JOIN(kernel_check_shared, KERNEL_ISA)
#define kernel_check_local KERNEL_JOIN(kernel_check_local, KERNEL_ISA)
#define kernel_lanes_meet KERNEL_JOIN(kernel_lanes_meet, KERNEL_ISA)
#define kernel_race_text KERNEL_JOIN(kernel_race_text, KERNEL_ISA)
#define kernel_threads_note KERNEL_JOIN(kernel_threads_note, KERNEL_ISA)
#define kernel_threads_bad KERNEL_JOIN(kernel_threads_bad, KERNEL_ISA)
#define kernel_fail KERNEL_JOIN(kernel_fail, KERNEL_ISA)

/* A bit for each lane of a warp. */
#if KERNEL_LANES == 64
typedef uint64_t kernel_lanes;
#define kernel_first_lane(lanes) __builtin_ctzll(lanes)
#define kernel_count_lanes(lanes) __builtin_popcountll(lanes)
#else
typedef uint32_t kernel_lanes;
#define kernel_first_lane(lanes) __builtin_ctz(lanes)
#define kernel_count_lanes(lanes) __builtin_popcount(lanes)
#endif
#define KERNEL_ALL_LANES (~(kernel_lanes)0)
#define KERNEL_LANE(l) ((kernel_lanes)1 << (l))

/** The tags of the threads that wrote and read a piece of global memory, see check_threads.c. */
struct kernel_pair {
    uint64_t key, tags;
};
enum { KERNEL_THREAD_PAIRS = 1 << 14 };

enum kernel_access_kind { KERNEL_LOAD, KERNEL_STORE, KERNEL_ATOMIC };

/** What the lanes of a warp access. The addresses are those of the space, and have a value in each lane. */
struct kernel_access {
    enum kernel_access_kind kind;
    bool synchronises;     /* a load or store that may race, such as that of a flag */
    uint32_t bytes, align; /* of one lane */
    uint32_t warp;         /* of the block */
    uint32_t warp_epoch;   /* the number of barriers of the warp, modulo 1024; 0 if KERNEL_IN_STEP */
    kernel_lanes lanes;
    const void *where; /* the instruction, for the executor */
    uint64_t addresses[KERNEL_LANES];
};

/** The block that runs. */
struct kernel_block {
    const struct kernel_launch *launch;
    uint32_t block[3];
    uint64_t launch_number, block_number; /* for kernel_memory.touched; block_number is from 1 */
    struct kernel_pair *threads;          /* KERNEL_THREAD_PAIRS of them */
    uint64_t threads_base;                /* the barriers of earlier blocks, and one for each block */
    unsigned char *shared;
    uint64_t *shadow; /* an entry per piece of shared memory; see check_shared.c */
    uint32_t shared_bytes;
    /*
     * The binary logarithm of the least bytes of an access to global and to shared memory. Races are looked
     * for in pieces of this size, so two bytes of one piece never belong to different accesses.
     */
    uint8_t global_shift, shared_shift;
    uint64_t epoch; /* the barriers of this block so far, from 1 */
    struct kernel_counts counts;
    /** Fill the launch's fault: a thread, and what it does. Returns false. */
    bool (*fail)(struct kernel_block *block, const struct kernel_access *access, int lane, uint64_t address,
                 enum kernel_error error, const char *text);
};

/**
 * Neighbouring lanes without gaps whose elements lie one after another: `n` lanes from lane `first` at
 * `data`. n is 0 where the lanes' elements lie in no such order.
 */
struct kernel_row {
    unsigned char *data;
    int first, n;
};

/** Check an access, and note it. On an error these return false after block->fail. */
bool kernel_check_global(struct kernel_block *block, const struct kernel_access *access,
                         struct kernel_row *row);
bool kernel_check_shared(struct kernel_block *block, const struct kernel_access *access);
/**
 * Local memory of the lanes, `limit` bytes each. defined[i] has a bit for each lane that wrote its byte i.
 * AMD calls it scratch memory: `space` is the word for messages. *same_out says whether all lanes use the
 * same address.
 */
bool kernel_check_local(struct kernel_block *block, const struct kernel_access *access, uint32_t limit,
                        kernel_lanes *defined, const char *space, bool *same_out);

/** Where the element of a lane lies, after kernel_check_global. */
static inline unsigned char *kernel_global_at(const struct kernel_block *block, uint64_t address)
{
    return block->launch->memory->data + (address - block->launch->memory->base);
}

/* ---- what the checks share ---- */
/** Whether two lanes of a store have bytes in common. Returns the second of them, or -1. */
int kernel_lanes_meet(const struct kernel_access *access);
/**
 * Note which lanes of a warp read or write n pieces of global memory. Piece i belongs to lane
 * first + (i >> lane_shift). Returns false if another thread of the block races with one of them.
 */
bool kernel_threads_note(struct kernel_block *block, const struct kernel_access *access, uint64_t piece,
                         uint64_t n, int first, uint32_t lane_shift);
/** The text of such a race with a piece; false: there is none. */
bool kernel_threads_bad(const struct kernel_block *block, const struct kernel_access *access, int lane,
                        uint64_t piece, char text[200]);
/** "reads 4 bytes at 0x1000 <what>" */
bool kernel_fail(struct kernel_block *block, const struct kernel_access *access, int lane,
                 enum kernel_error error, const char *space, const char *what);

#endif
