/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Broadcast along a chain root, root + 1, …: every rank passes each chunk on while the next one comes in, so that a
 * long message takes hardly more time than one hop.
 */
#include "collectives/internal.h"

static bool chain_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (lane->round >= op->n_rounds) return false;
    const int size = op->comm->size, rank = op->comm->rank;
    const int position = (rank - op->root + size) % size;
    const size_t at = lane->round * op->chunk, bytes = yoke_dtype_bytes(op->dtype);
    step->n = YOKE_MIN(op->chunk, op->count - at);
    step->store = (char *)op->recv + at * bytes;
    if (position == 0) {
        step->own = (const char *)op->send + at * bytes;
        if (op->send == op->recv) step->store = NULL;
    } else {
        step->from = (rank - 1 + size) % size;
    }
    if (position < size - 1) step->to = (rank + 1) % size;
    lane->round += (size_t)op->n_lanes;
    return true;
}

const struct yokei_algorithm yokei_chain = { "chain", chain_next };
