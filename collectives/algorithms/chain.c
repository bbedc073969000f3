/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain of ranks. Every rank passes each chunk on while the next chunk comes in. So a long message takes
 * hardly more time than one hop.
 *
 * Broadcast: the data goes from root to root + 1, and so on around to the rank before root.
 * Reductions: the data goes from rank 0 to rank size - 1, and each rank adds its own. So every element is
 * added in the order of the ranks, whatever its place, the chunk, or the hosts are. The result then goes back
 * along the chain (all_reduce), or to the root (reduce).
 */
#include "collectives/algorithms/algorithms.h"

static void chain_broadcast_step(const struct yokei_op *op, size_t at, struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    const int position = (rank - op->root + size) % size;
    step->store = (char *)op->recv + at;
    if (position == 0) {
        step->own = (const char *)op->send + at;
        if (op->send == op->recv) step->store = NULL;
    } else {
        step->from = (rank - 1 + size) % size;
    }
    if (position < size - 1) step->to = (rank + 1) % size;
}

/* Reduction up the chain: add this rank's data to the sum of the ranks below. */
static void fold_up(const struct yokei_op *op, size_t at, struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    const bool last = rank == size - 1, all = op->kind == YOKEI_ALL_REDUCE;
    step->own = (const char *)op->send + at;
    step->in = op->wire;
    step->out = last ? op->dtype : op->wire;
    if (rank > 0) step->from = rank - 1;
    step->finish = last;
    step->canonical = last;
    if (!last)
        step->to = rank + 1;
    else if (all && size > 1)
        step->to = rank - 1;
    else if (!all && op->root != rank)
        step->to = op->root;
    if (last && (all || op->root == rank)) step->store = (char *)op->recv + at;
}

/* The result comes back down the chain. False: this rank has the result already, or does not need it. */
static bool fold_down(const struct yokei_op *op, size_t at, struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    if (rank == size - 1 || (op->kind == YOKEI_REDUCE && rank != op->root)) return false;
    step->from = op->kind == YOKEI_REDUCE ? size - 1 : rank + 1;
    step->store = (char *)op->recv + at;
    if (op->kind == YOKEI_ALL_REDUCE && rank > 0) step->to = rank - 1;
    return true;
}

static bool chain_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    for (; lane->round < op->n_rounds; lane->round += (size_t)op->n_lanes, lane->stage = 0) {
        const size_t at = lane->round * op->chunk;
        step->n = YOKE_MIN(op->chunk, op->count - at);
        if (lane->stage == 0) {
            lane->stage = 1;
            if (op->kind == YOKEI_BROADCAST)
                chain_broadcast_step(op, at * yoke_dtype_bytes(op->dtype), step);
            else
                fold_up(op, at * yoke_dtype_bytes(op->dtype), step);
            return true;
        }
        if (lane->stage == 1 && op->kind != YOKEI_BROADCAST) {
            lane->stage = 2;
            if (fold_down(op, at * yoke_dtype_bytes(op->dtype), step)) return true;
        }
    }
    return false;
}

static void chain_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    if (op->kind == YOKEI_ALL_REDUCE) effort->steps *= 2, effort->sent *= 2;
}

const struct yokei_algorithm yokei_chain = { chain_next, .effort = chain_effort };
