/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gather, scatter and all-to-all by messages. Each pair of ranks exchanges its slices directly. In step s of
 * all-to-all a rank sends to the rank s further on, and receives from the rank s before it. So at each moment
 * all ranks exchange with different ranks. Chunks go to the lanes in turn. The first message of a pair is
 * sent even if it has no data, because it carries the call.
 */
#include "collectives/algorithms/algorithms.h"

/*
 * The lane's chunk of a slice: n elements, 0 if the slice has ended; `at` is its first element in the buffer.
 */
static bool linear_chunk_of(const struct yokei_op *op, const struct yokei_lane *lane, const size_t slices[],
                            int j, size_t *at_out, size_t *n_out)
{
    const size_t length = slices[j + 1] - slices[j], from = lane->round * op->chunk;
    *at_out = slices[j] + YOKE_MIN(from, length);
    *n_out = YOKE_MIN(op->chunk, length - YOKE_MIN(from, length));
    return lane->round == 0 || *n_out;
}

/*
 * Send the chunk of slice j of `send`, which begins at slice `first`, to a rank. False: there is no such
 * chunk.
 */
static bool send_chunk(const struct yokei_op *op, const struct yokei_lane *lane, int j, int first, int to,
                       struct yokei_step *step)
{
    size_t at, n;
    if (!linear_chunk_of(op, lane, op->send_slices, j, &at, &n)) return false;
    step->n = n;
    step->own = (const char *)op->send + (at - op->send_slices[first]) * yoke_dtype_bytes(op->dtype);
    step->to = to;
    return true;
}

static bool receive_chunk(const struct yokei_op *op, const struct yokei_lane *lane, int j, int first,
                          int from, struct yokei_step *step)
{
    size_t at, n;
    if (!linear_chunk_of(op, lane, op->slices, j, &at, &n)) return false;
    step->n = n;
    step->store = (char *)op->recv + (at - op->slices[first]) * yoke_dtype_bytes(op->dtype);
    step->from = from;
    return true;
}

/* Copy the rank's own slice from send to recv. */
static bool copy_own(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    const int rank = op->rank, send_first = op->kind == YOKEI_GATHER ? rank : 0,
              recv_first = op->kind == YOKEI_SCATTER ? rank : 0;
    receive_chunk(op, lane, rank, recv_first, -1, step);
    void *store = step->store;
    if (!send_chunk(op, lane, rank, send_first, -1, step) || step->own == store) return false;
    step->store = store;
    return true;
}

/*
 * Step `stage` of a round. *more_out is false for the round's last step. False: this step has nothing to do.
 */
static bool linear_round_step(const struct yokei_op *op, const struct yokei_lane *lane,
                              struct yokei_step *step, bool *more_out)
{
    const int size = op->size, rank = op->rank, stage = lane->stage;
    const bool is_root = rank == op->root;
    *more_out = true;
    if (op->kind == YOKEI_ALL_TO_ALL) {
        const int s = stage / 2, to = (rank + s) % size, from = (rank - s + size) % size;
        *more_out = stage < 2 * size - 1;
        if (stage < 2) return stage == 0 && copy_own(op, lane, step);
        return stage % 2 ? receive_chunk(op, lane, from, 0, from, step)
                         : send_chunk(op, lane, to, 0, to, step);
    }
    if (!is_root) {
        *more_out = false;
        return op->kind == YOKEI_GATHER ? send_chunk(op, lane, rank, rank, op->root, step)
                                        : receive_chunk(op, lane, rank, rank, op->root, step);
    }
    *more_out = stage < size - 1;
    if (stage == 0) return copy_own(op, lane, step);
    const int other = (rank + stage) % size;
    return op->kind == YOKEI_GATHER ? receive_chunk(op, lane, other, 0, other, step)
                                    : send_chunk(op, lane, other, 0, other, step);
}

static size_t rounds_of(const struct yokei_op *op)
{
    size_t longest = yokei_longest_slice(op);
    for (int r = 0; r < op->size; r++)
        longest = YOKE_MAX(longest, op->send_slices[r + 1] - op->send_slices[r]);
    return YOKE_MAX((longest + op->chunk - 1) / op->chunk, 1);
}

static bool linear_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    const struct yokei_step blank = *step;
    for (const size_t n_rounds = rounds_of(op); lane->round < n_rounds;) {
        bool more;
        *step = blank;
        const bool found = linear_round_step(op, lane, step, &more);
        lane->stage++;
        if (!more) {
            lane->stage = 0;
            lane->round += (size_t)op->n_lanes;
        }
        if (found) return true;
    }
    return false;
}

static void linear_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double p = op->size;
    effort->sent = (op->kind == YOKEI_ALL_TO_ALL ? effort->own : effort->all) * (p - 1) / p;
}

const struct yokei_algorithm yokei_linear = { linear_next, .effort = linear_effort };
