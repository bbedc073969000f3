/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The free pieces of an address space that has no end. They are kept in a treap, which is a search tree over
 * their addresses (Seidel and Aragon 1996, Algorithmica 16). Each call takes a time that grows with the
 * logarithm of the number of pieces.
 */
#ifndef PARALLEL_GAPS_H
#define PARALLEL_GAPS_H

#include <stddef.h>
#include <yoke/base.h>

struct yokei_gap;
struct yokei_gaps {
    struct yokei_gap *gap;
    int root, unused; /* the tree, and a list of nodes that are not in it; -1: empty */
};

/** At most `most` pieces of the address space are in use at the same time. Free with yokei_gaps_free. */
yoke_status yokei_gaps_create(int most, struct yokei_gaps *gaps_out);
void yokei_gaps_free(struct yokei_gaps *gaps);
/** Use `bytes` bytes, more than 0, at the lowest address where as many are free. Returns the address. */
size_t yokei_gaps_take(struct yokei_gaps *gaps, size_t bytes);
/** Give back a piece that was taken. */
void yokei_gaps_give(struct yokei_gaps *gaps, size_t address, size_t bytes);

#endif
