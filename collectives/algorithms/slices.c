/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives between ranks that share memory, for data of any size. A stage is a buffer in shared memory
 * where a rank publishes data to the others. A round of a lane works on one chunk, in three steps:
 *
 *   publish copy the data that the others need of this rank's chunk to its stage, once they have finished the
 *           round before
 *   sum     add this rank's slice of the chunk, directly from all stages, in the order of the ranks
 *           (reductions)
 *   take    copy the others' results, or the data that they publish, to the caller's buffer
 *
 * Stages stay in the caches, so main memory is accessed once per input and once per output. Rounds go to the
 * lanes in turn. While one lane waits, another works.
 *
 * In all_reduce, reduce and broadcast all ranks hold the whole buffer. There the chunk is a piece of the
 * buffer, and slice j is the j-th part of the chunk. The ranks' shares of the sums may make the slices uneven
 * (shares.c). In reduce_scatter, all_gather, all_to_all, gather and scatter a round's chunk is one chunk of
 * each of the callers' slices.
 */
#include "collectives/algorithms/slices.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/*
 * One chunk. If all ranks hold the whole buffer, it is `length` elements from `base` on. Otherwise it is
 * `pitch` elements of each of the callers' slices, from element `base` of the slice on.
 */
struct chunk {
    size_t base, length, pitch;
};

static bool slices_is_whole(const struct yokei_op *op)
{
    return op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE || op->kind == YOKEI_BROADCAST;
}

static struct chunk slices_chunk_of(const struct yokei_op *op, const struct yokei_lane *lane)
{
    struct chunk c = { .base = lane->step.round * op->chunk };
    if (slices_is_whole(op))
        c.length = YOKE_MIN(op->chunk, op->count - c.base);
    else
        c.pitch = op->chunk;
    return c;
}

/* Where slice j begins in the chunk, and in the stage that has the published chunk. */
static size_t slices_place_of(const struct yokei_op *op, const struct chunk *c, int j)
{
    /* slices begin at cache lines */
    return slices_is_whole(op) ? yokei_slice_begin(op->before, op->size, c->length, 16, j)
                               : (size_t)j * c->pitch;
}

/* Slice j of the chunk: its first element within the whole buffer, and *n_out elements. */
static size_t slices_slice_of(const struct yokei_op *op, const struct chunk *c, int j, size_t *n_out)
{
    if (slices_is_whole(op)) {
        const size_t from = slices_place_of(op, c, j);
        *n_out = slices_place_of(op, c, j + 1) - from;
        return c->base + from;
    }
    const size_t length = op->slices[j + 1] - op->slices[j], from = YOKE_MIN(c->base, length);
    *n_out = YOKE_MIN(c->pitch, length - from);
    return op->slices[j] + from;
}

/* The chunk's first element within a buffer that holds slice j alone. */
static size_t within(const struct yokei_op *op, const struct chunk *c, int j)
{
    return YOKE_MIN(c->base, op->slices[j + 1] - op->slices[j]);
}

/* Whether a rank publishes one slice, its own, and not a slice for each rank. */
static bool publishes_one(const struct yokei_op *op)
{
    return op->kind == YOKEI_ALL_GATHER || op->kind == YOKEI_GATHER;
}

/*
 * If the host does not see the device's memory, a rank publishes all its data, its own slices too. The host
 * then works on the published data.
 */
static void slices_publish(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct chunk c = slices_chunk_of(op, lane);
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    char *stage = yokei_stage_at(op, op->rank, lane, 0);
    size_t n;
    if (op->kind == YOKEI_BROADCAST || (op->staged && slices_is_whole(op))) {
        yokei_bring(op, lane, stage, c.base * bytes, c.length * bytes);
        return;
    }
    if (publishes_one(op)) {
        slices_slice_of(op, &c, op->rank, &n);
        yokei_bring(op, lane, stage, within(op, &c, op->rank) * bytes, n * bytes);
        return;
    }
    for (int j = 0; j < op->size; j++) {
        const size_t at = slices_slice_of(op, &c, j, &n);
        if (j != op->rank || op->staged)
            yokei_bring(op, lane, stage + slices_place_of(op, &c, j) * bytes, at * bytes, n * bytes);
    }
}

/* Where the host finds element `at` of the data that this rank sends. Slice `j` begins with this element. */
static const char *slices_own_data(const struct yokei_op *op, const struct yokei_lane *lane,
                                   const struct chunk *c, int j, size_t at)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    if (!op->staged) return (const char *)op->send + at * bytes;
    return yokei_stage_at(op, op->rank, lane, 0)
           + (publishes_one(op) ? 0 : slices_place_of(op, c, j) * bytes);
}

static void slices_sum(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct chunk c = slices_chunk_of(op, lane);
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    const int rank = op->rank;
    size_t n;
    const size_t at = slices_slice_of(op, &c, rank, &n);
    for (int q = 0; q < op->size; q++)
        op->inputs[q] = q == rank ? slices_own_data(op, lane, &c, rank, at)
                                  : yokei_stage_at(op, q, lane, 0) + slices_place_of(op, &c, rank) * bytes;
    char *recv = op->recv, *place[2];
    int n_out = 0;
    unsigned published = 0;
    if (op->kind == YOKEI_REDUCE_SCATTER && !op->staged) place[n_out++] = recv + within(op, &c, rank) * bytes;
    if ((op->kind == YOKEI_ALL_REDUCE || (op->kind == YOKEI_REDUCE && rank == op->root)) && !op->staged)
        place[n_out++] = recv + at * bytes;
    if (op->staged || !(op->kind == YOKEI_REDUCE_SCATTER || (op->kind == YOKEI_REDUCE && rank == op->root))) {
        published = op->staged ? 0 : 1u << n_out;
        place[n_out++] = yokei_stage_at(op, rank, lane, 1);
    }
    yokei_fold(
        &(struct yokei_fold){ .n = n,
                              .reduction = op->reduction,
                              .dtype = op->dtype,
                              .n_in = op->size,
                              .n_out = n_out,
                              .size = op->size,
                              .in = op->inputs,
                              .out = (void *const *)place,
                              .stream = yokei_is_long(op) && place[0] != yokei_stage_at(op, rank, lane, 1),
                              .published = published });
}

/* Copy slice j of the chunk from the data that rank q publishes (part 0) or has computed (part 1). */
static void take_from(const struct yokei_op *op, struct yokei_lane *lane, const struct chunk *c, int q,
                      int part)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    const bool for_each = op->kind == YOKEI_ALL_TO_ALL
                          || op->kind == YOKEI_SCATTER; /* the stage has a slice for each rank */
    const char *stage = yokei_stage_at(op, q, lane, part)
                        + (for_each ? slices_place_of(op, c, op->rank) * bytes : 0);
    size_t n;
    size_t at = slices_slice_of(op, c, op->kind == YOKEI_SCATTER ? op->rank : q, &n);
    if (op->kind == YOKEI_SCATTER) at = within(op, c, op->rank);
    yokei_put(op, lane, at * bytes, stage, n * bytes);
}

/* Copy the rank's own part. It needs no stage if the host sees it. */
static void take_own(const struct yokei_op *op, struct yokei_lane *lane, const struct chunk *c)
{
    const int rank = op->rank;
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    size_t n;
    const size_t at = slices_slice_of(op, c, rank, &n);
    const size_t from = publishes_one(op) ? within(op, c, rank) : at,
                 to = op->kind == YOKEI_SCATTER ? within(op, c, rank) : at;
    if ((const char *)op->send + from * bytes != (char *)op->recv + to * bytes)
        yokei_put(op, lane, to * bytes, slices_own_data(op, lane, c, rank, from), n * bytes);
}

static void slices_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct chunk c = slices_chunk_of(op, lane);
    const bool is_root = op->rank == op->root;
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    switch (op->kind) {
    case YOKEI_BROADCAST: {
        const char *from = is_root ? slices_own_data(op, lane, &c, 0, c.base)
                                   : yokei_stage_at(op, op->root, lane, 0);
        if (!is_root || op->recv != op->send) yokei_put(op, lane, c.base * bytes, from, c.length * bytes);
        return;
    }
    case YOKEI_SCATTER:
        if (is_root)
            take_own(op, lane, &c);
        else
            take_from(op, lane, &c, op->root, 0);
        return;
    case YOKEI_REDUCE:
    case YOKEI_GATHER:
        if (!is_root) return;
        break;
    default: break;
    }
    /* each rank begins with another rank, so that they do not access the same stage */
    for (int i = 1; i < op->size; i++) take_from(op, lane, &c, (op->rank + i) % op->size, yokei_reduces(op));
    if (!yokei_reduces(op))
        take_own(op, lane, &c);
    else if (op->staged)
        take_from(op, lane, &c, op->rank, 1);
}

/* Whether this rank publishes anything for which other ranks wait. */
static bool slices_publishes(const struct yokei_op *op)
{
    const bool is_root = op->rank == op->root;
    if (op->kind == YOKEI_BROADCAST || op->kind == YOKEI_SCATTER) return is_root;
    return op->kind != YOKEI_GATHER || !is_root || op->staged;
}

/* For reduce_scatter to device memory that the host does not see: copy the result there. */
static void take_sum(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct chunk c = slices_chunk_of(op, lane);
    const int rank = op->rank;
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    size_t n;
    slices_slice_of(op, &c, rank, &n);
    yokei_put(op, lane, within(op, &c, rank) * bytes, yokei_stage_at(op, rank, lane, 1), n * bytes);
}

/* Whether this rank takes data from other ranks. If not, it need not wait. */
static bool takes(const struct yokei_op *op)
{
    const bool is_root = op->rank == op->root;
    if (op->kind == YOKEI_BROADCAST || op->kind == YOKEI_SCATTER) return !is_root;
    if (op->kind == YOKEI_REDUCE || op->kind == YOKEI_GATHER) return is_root;
    return true;
}

static void slices_announce(const struct yokei_op *op, struct yokei_lane *lane)
{
    (void)lane;
    yokei_announce(op);
}

/* The steps of a round: 0 publish, 1 sum, 2 take. */
static void slices_round_step(const struct yokei_op *op, struct yokei_lane *lane, int which,
                              struct yokei_step *step)
{
    const bool rooted = op->kind == YOKEI_BROADCAST || op->kind == YOKEI_SCATTER;
    step->until = step->value = lane->epoch;
    if (which == 0) {
        step->work = slices_publishes(op) ? slices_publish : yokei_no_work;
        step->wait = slices_publishes(op) ? YOKEI_PASSED : YOKEI_NOTHING;
        step->until = lane->epoch - 1;
        step->sets = YOKEI_STAGED;
    } else if (which == 1) {
        step->work = yokei_reduces(op) ? slices_sum : yokei_no_work;
        step->wait = yokei_reduces(op) ? YOKEI_STAGED : YOKEI_NOTHING;
        step->sets = YOKEI_REDUCED;
    } else {
        step->work = op->kind != YOKEI_REDUCE_SCATTER ? slices_take : op->staged ? take_sum : yokei_no_work;
        step->wait = !takes(op) || op->kind == YOKEI_REDUCE_SCATTER ? YOKEI_NOTHING
                     : yokei_reduces(op)                            ? YOKEI_REDUCED
                                                                    : YOKEI_STAGED;
        if (rooted) step->wait_rank = op->root;
        step->sets = YOKEI_PASSED;
    }
}

/* Lane 0 begins with the announcement, and then looks at the announcements of all ranks. */
void yokei_announce_step(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    step->wait = YOKEI_POSTED;
    step->until = op->number;
    step->work = yokei_no_work;
    if (lane->stage > 0) return;
    step->work = slices_announce;
    step->until = op->number - 1;
    step->sets = YOKEI_POSTED;
    step->value = op->number;
}

static bool slices_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    const int n_first = lane->id == 0 ? 2 : 0;
    if (lane->stage < n_first) {
        yokei_announce_step(op, lane, step);
        lane->stage++;
        return true;
    }
    return yokei_slices_round(op, lane, step, n_first);
}

bool yokei_slices_round(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step,
                        int n_first)
{
    if (lane->round >= op->n_rounds) return false;
    const int which = lane->stage - n_first;
    if (which == 0) lane->epoch++;
    step->round = lane->round;
    slices_round_step(op, lane, which, step);
    lane->stage++;
    if (which == 2) {
        lane->stage = n_first;
        lane->round += (size_t)op->n_lanes;
    }
    return true;
}

static void slices_explain(const struct yokei_op *op, char *text, size_t bytes)
{
    yokei_text(
        text, bytes,
        "all %d ranks share memory; too long for one shot: each works on its slice of chunks that stay in the caches",
        op->size);
}

void yokei_shared_effort(const struct yokei_op *op, struct yokei_effort *effort, double syncs, double summed)
{
    const double n = effort->own;
    effort->syncs = syncs;
    switch (op->kind) {
    case YOKEI_ALL_REDUCE:
    case YOKEI_REDUCE: effort->touched = summed; break;
    case YOKEI_ALL_GATHER:
    case YOKEI_GATHER: effort->touched = n + effort->all; break;
    case YOKEI_SCATTER: effort->touched = n + n / op->size; break;
    case YOKEI_BARRIER:
    case YOKEI_DESTROY: effort->touched = 0; break;
    default: effort->touched = n + n; break;
    }
    effort->steps = effort->sent = effort->summed = 0;
}

/* The ranks synchronise three times in a round. The lanes' rounds overlap. */
static void slices_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double n = effort->own, p = op->size;
    yokei_shared_effort(op, effort, 1 + 3.0 * (double)op->n_rounds / op->n_lanes, n + n + (p - 1) / p * n);
}

const struct yokei_algorithm yokei_slices = { slices_next, .announces = true, .explain = slices_explain,
                                              .effort = slices_effort };
