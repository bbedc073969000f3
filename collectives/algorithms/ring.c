/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring (Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002). Each rank sends to the next rank and
 * receives from the rank before it. The buffer is cut into one slice per rank, and round k works on the k-th
 * chunk of every slice.
 * Reduce-scatter passes partial sums on, so that slice j is complete at rank j after size - 1 hops.
 * All-gather passes complete slices on. In each round all-reduce does a reduce-scatter and then an
 * all-gather. Rounds go to the lanes in turn, and are in flight together.
 * For each half a rank sends (size - 1) / size of the buffer, the least possible.
 *
 * All-reduce of three ranks with slices a0 a1 a2, b0 b1 b2 and c0 c1 c2. The table shows what each rank holds
 * after each step:
 *
 *   step              rank 0                     rank 1                     rank 2
 *   reduce, hop 0     a2                  ->     b0                  ->     c1                  -> (rank 0)
 *   reduce, hop 1     c1 + a1             ->     a2 + b2             ->     b0 + c0             ->
 *   reduce, hop 2     b0 + c0 + a0: done  ->     c1 + a1 + b1: done  ->     a2 + b2 + c2: done  ->
 *   gather, hop 1     slice 2             ->     slice 0             ->     slice 1             ->
 *   gather, hop 2     slice 1                    slice 2                    slice 0
 *
 * An arrow is a message to the next rank. A rank stores a slice when the slice is done here, or when it
 * arrives done. Each slice is added up in a different order, but by one chain of ranks, so all ranks get the
 * same bits. Because of these different orders `reproducible` excludes the ring.
 */
#include "collectives/algorithms/algorithms.h"

/*
 * Let the step work on the lane's chunk of slice `slice`. Returns the chunk's first element within the slice.
 */
static size_t take_chunk(const struct yokei_op *op, const struct yokei_lane *lane, int slice,
                         struct yokei_step *step)
{
    const size_t length = op->slices[slice + 1] - op->slices[slice];
    const size_t at = YOKE_MIN(lane->round * op->chunk, length);
    step->n = YOKE_MIN(op->chunk, length - at);
    return at;
}

static const void *own_at(const struct yokei_op *op, size_t element)
{
    return (const char *)op->send + element * yoke_dtype_bytes(op->dtype);
}

static void *store_at(const struct yokei_op *op, size_t element)
{
    return (char *)op->recv + element * yoke_dtype_bytes(op->dtype);
}

/* Hop `hop` of reduce-scatter, 0..size-1. At the last hop the slice is complete here. */
static void reduce_hop(const struct yokei_op *op, const struct yokei_lane *lane, int hop,
                       struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    const int slice = (rank - 1 - hop + 2 * size) % size;
    const size_t at = take_chunk(op, lane, slice, step);
    const bool last = hop == size - 1;
    step->own = own_at(op, op->slices[slice] + at);
    step->in = op->wire;
    step->out = last ? op->dtype : op->wire;
    if (hop > 0) step->from = (rank - 1 + size) % size;
    step->finish = last;
    if (last) step->store = store_at(op, (op->kind == YOKEI_ALL_REDUCE ? op->slices[slice] : 0) + at);
    if (!last || (op->kind == YOKEI_ALL_REDUCE && size > 1)) step->to = (rank + 1) % size;
}

/*
 * Hop `hop` of all-gather, 1..size-1. A complete slice comes in, and goes on unless it has been at all ranks.
 */
static void gather_hop(const struct yokei_op *op, const struct yokei_lane *lane, int hop,
                       struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    const int slice = (rank - hop + size) % size;
    const size_t at = take_chunk(op, lane, slice, step);
    step->from = (rank - 1 + size) % size;
    step->store = store_at(op, op->slices[slice] + at);
    if (hop < size - 1) step->to = (rank + 1) % size;
}

/* All-gather sends this rank's own slice. */
static void gather_begin(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    const size_t at = take_chunk(op, lane, rank, step);
    step->own = own_at(op, at);
    void *place = store_at(op, op->slices[rank] + at);
    if (place != step->own) step->store = place;
    if (size > 1) step->to = (rank + 1) % size;
}

static bool ring_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (lane->round >= op->n_rounds) return false;
    const int size = op->size, stage = lane->stage;
    const bool gathers = op->kind != YOKEI_REDUCE_SCATTER;
    const int n_stages = op->kind == YOKEI_ALL_REDUCE ? 2 * size - 1 : size;
    if (op->kind == YOKEI_ALL_GATHER && stage == 0)
        gather_begin(op, lane, step);
    else if (op->kind == YOKEI_ALL_GATHER)
        gather_hop(op, lane, stage, step);
    else if (stage < size)
        reduce_hop(op, lane, stage, step);
    else if (gathers)
        gather_hop(op, lane, stage - size + 1, step);
    if (++lane->stage == n_stages) {
        lane->stage = 0;
        lane->round += (size_t)op->n_lanes;
    }
    return true;
}

static void ring_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double p = op->size, half = (p - 1) / p;
    if (op->kind == YOKEI_ALL_REDUCE)
        effort->steps = 2 * (p - 1), effort->sent *= 2 * half;
    else
        effort->sent = effort->all * half;
}

const struct yokei_algorithm yokei_ring = { ring_next, .by_slices = true,
                                            .why = "; long, so each link carries the least",
                                            .effort = ring_effort };
