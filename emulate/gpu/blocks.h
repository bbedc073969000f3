/* SPDX-License-Identifier: Apache-2.0 */
/** What executors do with a launch: its limits, the order of its blocks, its counts. */
#ifndef EMULATE_GPU_BLOCKS_H
#define EMULATE_GPU_BLOCKS_H

#include "emulate/gpu/kernel.h"

/** What a kernel demands of a launch. */
struct kernel_demands {
    uint32_t required[3];  /* the block's size that it is compiled for; 0: any */
    const char *requires;  /* where this is said, such as ".reqntid" */
    uint32_t max_threads;  /* of a block; 0: any */
    uint64_t shared_bytes; /* static */
    const char *shared;    /* the vendor's name for shared memory */
};
/** Whether the device and the kernel can do a launch. KERNEL_LIMIT comes with one line in `text`. */
enum kernel_error kernel_limits_check(const struct kernel_launch *launch,
                                      const struct kernel_demands *demands, char text[256]);

/** The blocks of a launch, one after another, in an order that the launch's seed draws. */
struct kernel_order {
    uint64_t all, n, i, at, step;
    uint32_t block[3];
    uint64_t number; /* of the block, from 1, for kernel_memory.touched */
};
struct kernel_order kernel_order_start(const struct kernel_launch *launch);
/** The next block; false: there is none. */
bool kernel_order_next(struct kernel_order *order, const struct kernel_launch *launch);
/** The number of this launch, for kernel_memory.touched. */
uint64_t kernel_launch_number(void);
/** "thread (3,0,0)": the thread with this number in a block of this size. */
const char *kernel_thread_text(const uint32_t block[3], uint32_t number, char text[48]);
void kernel_counts_add(struct kernel_counts *to, const struct kernel_counts *from);
/** Zeros at a multiple of 64, or NULL. To be freed. */
void *kernel_allocate(size_t bytes);

#endif
