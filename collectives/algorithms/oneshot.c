/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small collectives between ranks that share memory. Each rank publishes its data to all ranks, and then
 * takes what it needs from the others' data. So the ranks synchronise only once. Every rank that needs a sum
 * computes it, in the order of the ranks, so all ranks get the same bits.
 *
 * A rank publishes at most YOKEI_ONESHOT_BYTES. Data of up to YOKEI_INLINE_BYTES lies in the announcement
 * itself, in the cache line that the other ranks read anyway.
 */
#include "collectives/algorithms/slices.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

size_t yokei_published_bytes(const struct yokei_op *op)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    switch (op->kind) {
    case YOKEI_BARRIER:
    case YOKEI_DESTROY: return 0;
    /* Use the longest slice and not this rank's own. A choice that must be the same on all ranks depends
       on it. */
    case YOKEI_ALL_GATHER:
    case YOKEI_GATHER: return yokei_longest_slice(op) * bytes;
    default: return op->count * bytes;
    }
}

static bool oneshot_publishes(const struct yokei_op *op)
{
    const bool is_root = op->rank == op->root;
    if (op->kind == YOKEI_BROADCAST || op->kind == YOKEI_SCATTER) return is_root;
    return op->kind != YOKEI_BARRIER && op->kind != YOKEI_DESTROY;
}

char *yokei_published_by(const struct yokei_op *op, int r)
{
    return op->published_bytes <= YOKEI_INLINE_BYTES ? yokei_post_at(op, r)->data : yokei_oneshot_at(op, r);
}

/* Bytes that this rank publishes: all that it sends. */
static size_t oneshot_own_bytes(const struct yokei_op *op)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    const int rank = op->rank;
    if (op->kind == YOKEI_ALL_GATHER || op->kind == YOKEI_GATHER)
        return (op->slices[rank + 1] - op->slices[rank]) * bytes;
    return op->published_bytes;
}

static void oneshot_publish(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_announce(op);
    if (oneshot_publishes(op))
        yokei_bring(op, lane, yokei_published_by(op, op->rank), 0, oneshot_own_bytes(op));
}

static void oneshot_sum(const struct yokei_op *op, struct yokei_lane *lane, size_t first, size_t n)
{
    const size_t at = first * yoke_dtype_bytes(op->dtype);
    void *out = op->staged ? lane->result_copy : op->recv;
    for (int q = 0; q < op->size; q++) op->inputs[q] = yokei_published_by(op, q) + at;
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .n_in = op->size,
                                     .n_out = 1,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = &out });
    if (op->staged) yokei_put(op, lane, 0, out, n * yoke_dtype_bytes(op->dtype));
}

static void oneshot_gather(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    for (int q = 0; q < op->size; q++)
        if (q != op->rank || (char *)op->recv + op->slices[q] * bytes != op->send)
            yokei_put(op, lane, op->slices[q] * bytes, yokei_published_by(op, q),
                      (op->slices[q + 1] - op->slices[q]) * bytes);
}

static void oneshot_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    const bool is_root = op->rank == op->root;
    switch (op->kind) {
    case YOKEI_REDUCE:
        if (!is_root) return;
        /* fallthrough */
    case YOKEI_ALL_REDUCE: oneshot_sum(op, lane, 0, op->count); return;
    case YOKEI_REDUCE_SCATTER:
        oneshot_sum(op, lane, op->slices[op->rank], op->slices[op->rank + 1] - op->slices[op->rank]);
        return;
    case YOKEI_GATHER:
        if (!is_root) return;
        /* fallthrough */
    case YOKEI_ALL_GATHER: oneshot_gather(op, lane); return;
    case YOKEI_BROADCAST:
        if (op->recv != op->send || !is_root)
            yokei_put(op, lane, 0, yokei_published_by(op, op->root), op->count * bytes);
        return;
    case YOKEI_SCATTER:
        yokei_put(op, lane, 0, yokei_published_by(op, op->root) + op->slices[op->rank] * bytes,
                  (op->slices[op->rank + 1] - op->slices[op->rank]) * bytes);
        return;
    case YOKEI_ALL_TO_ALL:
        for (int q = 0; q < op->size; q++) /* all slices are equal here */
            yokei_put(op, lane, op->slices[q] * bytes,
                      yokei_published_by(op, q) + op->slices[op->rank] * bytes,
                      (op->slices[q + 1] - op->slices[q]) * bytes);
        return;
    default: return;
    }
}

void yokei_publish_step(const struct yokei_op *op, struct yokei_step *step)
{
    step->work = oneshot_publish;
    step->wait = YOKEI_POSTED;
    step->until = op->number - 1;
    step->sets = YOKEI_POSTED;
    step->value = op->number;
}

/* The ranks that a rank waits for: all, the root, or none. */
static void wait_for_needed(const struct yokei_op *op, struct yokei_step *step)
{
    const bool is_root = op->rank == op->root;
    step->wait = YOKEI_POSTED;
    step->until = op->number;
    if (op->kind == YOKEI_BROADCAST || op->kind == YOKEI_SCATTER) {
        step->wait_rank = op->root;
    } else if ((op->kind == YOKEI_REDUCE || op->kind == YOKEI_GATHER) && !is_root) {
        step->wait = YOKEI_NOTHING;
    }
}

static bool oneshot_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    switch (lane->stage++) {
    case 0: yokei_publish_step(op, step); return true;
    case 1:
        step->work = oneshot_take;
        wait_for_needed(op, step);
        return true;
    default: return false;
    }
}

static void oneshot_explain(const struct yokei_op *op, char *text, size_t bytes)
{
    yokei_text(
        text, bytes,
        "all %d ranks share memory; a rank publishes %zu bytes, up to %.0f one shot is not slower than slices%s",
        op->size, op->published_bytes, op->measured_bytes, op->measured_bytes > 0 ? "" : " (not measured)");
}

static void oneshot_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double n = effort->own;
    yokei_shared_effort(op, effort, 1, n + op->size * n);
}

const struct yokei_algorithm yokei_oneshot = { oneshot_next, .announces = true, .one_piece = true,
                                               .explain = oneshot_explain, .effort = oneshot_effort };
