/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions by messages in the order of the ranks. Every rank sends slice j of its data to rank j. Rank j
 * adds the parts in the order 0, 1, ..., size - 1, its own part included, and rounds once. In all_reduce the
 * sums then go to all ranks. The bytes sent are those of the ring, and 16-bit data stays 16 bits wide in
 * messages. A sum does not depend on the count, the chunk, or the hosts of the ranks.
 *
 * In turn t of a round rank t sends to all other ranks, and they receive. A rank only ever waits for a rank
 * of a turn that has begun, so the waiting ends with any number of buffers. Rounds go to the lanes in turn,
 * and their turns overlap.
 */
#include "collectives/algorithms/algorithms.h"

/*
 * The lane's chunk of slice j: its first element in the whole buffer, and its first element in a buffer of
 * slice j alone.
 */
static size_t exchange_chunk_of(const struct yokei_op *op, const struct yokei_lane *lane, int j,
                                struct yokei_step *step, size_t *within_out)
{
    const size_t length = op->slices[j + 1] - op->slices[j], from = YOKE_MIN(lane->round * op->chunk, length);
    step->n = YOKE_MIN(op->chunk, length - from);
    *within_out = from;
    return op->slices[j] + from;
}

static char *exchange_result_at(const struct yokei_op *op, size_t at, size_t within)
{
    return (char *)op->recv + (op->kind == YOKEI_ALL_REDUCE ? at : within) * yoke_dtype_bytes(op->dtype);
}

/*
 * Turn t of the summing. In this rank's own turn, sub-steps `sub` are first the sends, and then adding its
 * own data.
 */
static void sum_step(const struct yokei_op *op, const struct yokei_lane *lane, int t, int sub,
                     struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    size_t within;
    if (t == rank && sub < size - 1) {
        const int to = (rank + 1 + sub) % size;
        step->own = (const char *)op->send
                    + exchange_chunk_of(op, lane, to, step, &within) * yoke_dtype_bytes(op->dtype);
        step->to = to;
        return;
    }
    const size_t at = exchange_chunk_of(op, lane, rank, step, &within);
    if (t == rank)
        step->own = (const char *)op->send + at * yoke_dtype_bytes(op->dtype);
    else
        step->from = t;
    if (t > 0) step->use_acc = step->own_first = true; /* the sum so far, and then this message */
    /* the accumulator takes the place of a message, which comes first anyway */
    if (t == rank) step->own_first = false;
    if (t < size - 1) {
        step->store_acc = true;
        return;
    }
    step->finish = step->canonical = true;
    step->store = exchange_result_at(op, at, within);
}

/* Turn t of sending the sums to all ranks, in all_reduce. */
static void hand_step(const struct yokei_op *op, const struct yokei_lane *lane, int t, int sub,
                      struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    size_t within;
    char *place = exchange_result_at(op, exchange_chunk_of(op, lane, t, step, &within), 0);
    if (t == rank) {
        step->own = place;
        step->to = (rank + 1 + sub) % size;
    } else {
        step->from = t;
        step->store = place;
    }
}

/* Step `index` of a sequence of turns. This rank's own turn has `own` sub-steps. */
static int turn_of(const struct yokei_op *op, int index, int own, int *sub_out)
{
    const int rank = op->rank;
    *sub_out = 0;
    if (index < rank) return index;
    *sub_out = index - rank;
    if (index < rank + own) return rank;
    *sub_out = 0;
    return index - own + 1;
}

static bool exchange_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (lane->round >= op->n_rounds) return false;
    const int size = op->size, n_sum = size - 1 + size,
              n_hand = op->kind == YOKEI_ALL_REDUCE ? 2 * (size - 1) : 0;
    int sub;
    if (lane->stage < n_sum) {
        const int t = turn_of(op, lane->stage, size, &sub);
        sum_step(op, lane, t, sub, step);
    } else {
        const int t = turn_of(op, lane->stage - n_sum, size - 1, &sub);
        hand_step(op, lane, t, sub, step);
    }
    if (++lane->stage == n_sum + n_hand) {
        lane->stage = 0;
        lane->round += (size_t)op->n_lanes;
    }
    return true;
}

static void exchange_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double p = op->size;
    effort->steps = 2;
    effort->sent *= 2 * (p - 1) / p;
}

const struct yokei_algorithm yokei_exchange = { exchange_next, .by_slices = true,
                                                .why = "; reproducible: sums in the order of the ranks",
                                                .effort = exchange_effort };
