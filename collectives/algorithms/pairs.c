/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives, alone or in a group. There is one lane for each peer and direction, so transfers in
 * opposite directions never wait for each other. Several transfers with one peer in one direction follow one
 * another.
 */
#include "collectives/algorithms/algorithms.h"

static bool pairs_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    (void)op;
    struct yokei_transfer *transfer = lane->transfer;
    if (!transfer) return false;
    const size_t bytes = yoke_dtype_bytes(transfer->dtype), chunk = YOKEI_PAIR_CHUNK / bytes;
    const size_t at = lane->round * chunk;
    step->n = YOKE_MIN(chunk, transfer->count - at);
    step->dtype = step->in = step->out = transfer->dtype;
    step->header = &transfer->header;
    if (transfer->is_send) {
        step->own = (const char *)transfer->data + at * bytes;
        step->to = transfer->peer;
    } else {
        step->store = (char *)transfer->data + at * bytes;
        step->from = transfer->peer;
    }
    lane->round++;
    if (at + step->n == transfer->count) {
        lane->transfer = transfer->next;
        lane->round = 0;
    }
    return true;
}

const struct yokei_algorithm yokei_pairs = { pairs_next };
