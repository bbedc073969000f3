/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the ranks of one island (or host) do among themselves, for long data in the hierarchy. hierarchy.c and
 * hierarchy_parts.c do the rest: the messages to other islands, and the order of the steps.
 *
 * To let a vendor's library (NCCL, RCCL) do this work, write one more table, and let yokei_inside choose it.
 * The table must keep these rules:
 *   - `serves` answers from facts on which all ranks of all islands agreed when the communicator was made. If
 *     one island cannot use the library, no island uses it for this operation, or all ranks know which do.
 *   - `serves` is false if op->reproducible is set and the operation sums. A library promises no order.
 *   - A function that starts work on the device does not wait for it. It returns as yokei_bring and yokei_put
 *     do (collectives/transport/shared.h). The lane's step ends, and its counter is set, when the work is
 *     done.
 *   - All ranks of an island make the library's calls in one order. A lane's rounds follow one another, but
 *     rounds of different lanes overlap. So each lane needs a communicator of the library of its own.
 *   - Partial sums in messages have the type op->wire. The library's sum of 16-bit data rounds at each of its
 *     hops, so with accum=f32 such a table must sum f32, or not serve the operation.
 * Small data (leaders.c) does not use the table. It goes in one piece through shared memory, which takes less
 * time than a library needs to start.
 */
#ifndef COLLECTIVES_ALGORITHMS_INSIDE_H
#define COLLECTIVES_ALGORITHMS_INSIDE_H

#include "collectives/operation/operation.h"

/** The chunk of a round: `length` elements from `base` on. */
struct yokei_chunk {
    size_t base, length;
};

struct yokei_inside {
    const char *name;
    bool (*serves)(const struct yokei_op *op); /* NULL: all operations, as the last table of the list does */

    /* ---- all_reduce, reduce and broadcast: rounds of one chunk, in which each column has one slice ---- */
    /* Give this rank's chunk of the round to the island. */
    void (*publish)(const struct yokei_op *op, struct yokei_lane *lane);
    /* Reduce-scatter: elements [at, at + n) of the chunk lie in the slice of this rank's column, and all
       ranks of the island have published. List the operands whose sum, in this order, is the island's sum.
       Returns their number. A library that has summed already lists one operand. */
    int (*reduce_scatter)(const struct yokei_op *op, const struct yokei_lane *lane,
                          const struct yokei_chunk *chunk, size_t at, size_t n, const void **operands_out);
    /* All-gather: the columns' results are in yokei_result_of. Copy them to this rank's receive buffer, but
       not this rank's own slice, if the host sees the buffer. */
    void (*all_gather)(const struct yokei_op *op, struct yokei_lane *lane);
    /* Broadcast, on the root's island: where element `at` of the root's chunk lies, which a column's rank
       sends to other islands; and copy the root's chunk to this rank's receive buffer. */
    const char *(*root_data)(const struct yokei_op *op, const struct yokei_lane *lane, size_t at);
    void (*broadcast)(const struct yokei_op *op, struct yokei_lane *lane);

    /* ---- all_gather and reduce_scatter: rounds of one chunk of each rank's slice ---- */
    void (*publish_parts)(const struct yokei_op *op, struct yokei_lane *lane);
    /* List the operands whose sum is what the island's ranks have for rank q, of any island. Returns their
       number. *n_out is the number of elements. */
    int (*reduce_for)(const struct yokei_op *op, const struct yokei_lane *lane, int q,
                      const void **operands_out, size_t *n_out);
    /* Where the chunk of rank q of this island lies. */
    const char *(*gathered_from)(const struct yokei_op *op, const struct yokei_lane *lane, int q);
};

/** The table that serves the operation: at present always Yoke's own steps in shared memory. */
const struct yokei_inside *yokei_inside(const struct yokei_op *op);

/* ---- what the tables and the hierarchy share: inside.c ---- */
struct yokei_chunk yokei_chunk_of(const struct yokei_op *op, size_t round);
/** Where slice `column` of the chunk begins. The columns' shares may differ. */
size_t yokei_column_begin(const struct yokei_op *op, const struct yokei_chunk *c, int column);
/** The stage of rank r in which its column's result lies, from element `within` of the slice on. */
char *yokei_result_of(const struct yokei_op *op, const struct yokei_lane *lane, int r, size_t within);
/** The chunk of rank r's slice: its first element within the slice, and *n_out elements. */
size_t yokei_part_of(const struct yokei_op *op, size_t round, int r, size_t *n_out);

#endif
