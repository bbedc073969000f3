/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The bytes that one command reads and writes, exactly, as two bits per byte in pages of 4096 bytes. Offsets
 * are those of kernel_memory: the address minus its base.
 */
#ifndef EMULATE_GPU_KERNEL_FOOTPRINT_H
#define EMULATE_GPU_KERNEL_FOOTPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KERNEL_PAGE_BITS = 12, KERNEL_PAGE_BYTES = 1 << KERNEL_PAGE_BITS, KERNEL_RECENT_PAGES = 64 };

struct kernel_page {
    uint64_t number;                          /* offset >> KERNEL_PAGE_BITS */
    uint64_t bits[2][KERNEL_PAGE_BYTES / 64]; /* read, written */
};

struct kernel_footprint {
    struct kernel_page *recent[KERNEL_RECENT_PAGES]; /* by the low bits of their number */
    struct kernel_page **table;                      /* a hash table, open addressing */
    size_t n, capacity;
    bool incomplete; /* some pages are missing, because there was no memory */
};

struct kernel_range {
    uint64_t from, to; /* offsets: [from, to) */
    bool written;      /* written, perhaps also read; false: only read */
};

/** The page with this number, which is new if it is not there; NULL without memory. */
struct kernel_page *kernel_footprint_page(struct kernel_footprint *footprint, uint64_t number);
/** All ranges, sorted, and neighbours joined. The caller frees them. NULL: there are none, or no memory. */
struct kernel_range *kernel_footprint_ranges(const struct kernel_footprint *footprint, size_t *n_out);
void kernel_footprint_free(struct kernel_footprint *footprint);

/** Add the bytes [at, at + bytes). */
static inline void kernel_footprint_add(struct kernel_footprint *footprint, uint64_t at, uint64_t bytes,
                                        bool written)
{
    while (bytes) {
        const uint64_t number = at >> KERNEL_PAGE_BITS, in_page = at & (KERNEL_PAGE_BYTES - 1);
        struct kernel_page *page = footprint->recent[number % KERNEL_RECENT_PAGES];
        if (!page || page->number != number) page = kernel_footprint_page(footprint, number);
        if (!page) return;
        const uint64_t bit = in_page & 63, room = 64 - bit, n = bytes < room ? bytes : room;
        page->bits[written][in_page >> 6] |= (~(uint64_t)0 >> (64 - n)) << bit;
        at += n;
        bytes -= n;
    }
}

#endif
