/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives on memory that all ranks see (yoke_comm_alloc). No data is copied into other shared memory
 * first. Each rank announces where its buffers lie. When all have announced it, the ranks work directly on
 * the buffers.
 * In all_reduce each rank sums one slice from all inputs, in the order of the ranks, and writes it to all
 * outputs. Every input is read once and every output is written once, which is the least possible. In the
 * other collectives each rank takes the data that it needs from the others' inputs. No rank returns before
 * all ranks have finished with its buffers.
 *
 * If some rank's buffers lie elsewhere, which all ranks see in the announcements, the operation goes on as
 * `slices`.
 */
#include "collectives/algorithms/slices.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/* Most bytes of one step. A step is not interrupted, and other communicators wait for it. */
enum { STEP_BYTES = 512 << 10 };

static size_t direct_own_bytes(const struct yokei_op *op)
{
    const size_t *s = op->slices;
    const int rank = op->rank;
    return (op->kind == YOKEI_ALL_GATHER ? s[rank + 1] - s[rank] : op->count) * yoke_dtype_bytes(op->dtype);
}

static bool writes_to_others(const struct yokei_op *op) { return op->kind == YOKEI_ALL_REDUCE; }

static void direct_announce(const struct yokei_op *op, struct yokei_lane *lane)
{
    (void)lane;
    yokei_announce_buffers(op, direct_own_bytes(op), yokei_announce(op));
}

/* The answer is the same on all ranks, because all ranks look at the same announcements. */
static bool is_direct(const struct yokei_op *op)
{
    const struct yokei_post *first = yokei_post_at(op, 0);
    for (int r = 0; r < op->size; r++) {
        const struct yokei_post *post = yokei_post_at(op, r);
        /* Ranks that have not allocated and freed the same memory do not see the same memory. */
        if (post->allocations != first->allocations || post->freed != first->freed) return false;
        if (writes_to_others(op) && !post->recv_id) return false;
        if (!post->send_id && !(op->kind == YOKEI_BROADCAST && r != op->root)) return false;
    }
    return true;
}

/* This rank's slice of the whole buffer. It begins at a cache line and has *n_out elements. */
static size_t own_slice(const struct yokei_op *op, size_t *n_out)
{
    const int rank = op->rank;
    if (op->kind == YOKEI_REDUCE_SCATTER) {
        *n_out = op->slices[rank + 1] - op->slices[rank];
        return op->slices[rank];
    }
    const uint32_t *before = op->before ? op->before_plain : NULL; /* the ranks do nothing but sums here */
    const size_t from = yokei_slice_begin(before, op->size, op->count, 64, rank);
    *n_out = yokei_slice_begin(before, op->size, op->count, 64, rank + 1) - from;
    return from;
}

static size_t step_elements(const struct yokei_op *op) { return STEP_BYTES / yoke_dtype_bytes(op->dtype); }

/* Number of elements that this rank works through in rounds. */
static size_t work_length(const struct yokei_op *op)
{
    size_t n = 0;
    if (op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE_SCATTER)
        own_slice(op, &n);
    else if (op->kind == YOKEI_BROADCAST)
        n = op->count;
    else
        n = yokei_longest_slice(op);
    return n;
}

/*
 * Whether results are stored past the caches. They are if the data of all ranks is a little larger than the
 * last cache, as measurements showed.
 */
static bool goes_past(const struct yokei_op *op)
{
    const uint64_t n_buffers = (uint64_t)op->size * (op->send == op->recv ? 1 : 2), cache = op->cache_bytes;
    if (op->kind != YOKEI_ALL_REDUCE) return yokei_is_long(op);
    return n_buffers * op->count * yoke_dtype_bytes(op->dtype) > cache + cache / 4;
}

static void direct_sum(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype), at = lane->step.round * step_elements(op);
    size_t length;
    const size_t first = own_slice(op, &length), n = YOKE_MIN(step_elements(op), length - at),
                 offset = (first + at) * bytes;
    const bool past = goes_past(op);
    /* this rank's own output is the last */
    const unsigned others = op->kind == YOKEI_ALL_REDUCE && op->size <= 32 ? (1u << (op->size - 1)) - 1 : 0;
    for (int q = 0; q < op->size; q++) op->inputs[q] = yokei_send_buffer_of(op, q) + offset;
    if (op->kind == YOKEI_ALL_REDUCE)
        for (int q = 0; q < op->size; q++)
            op->outputs[q] = yokei_recv_buffer_of(op, (op->rank + 1 + q) % op->size) + offset;
    else
        op->outputs[0] = (char *)op->recv + at * bytes;
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .n_in = op->size,
                                     .n_out = op->kind == YOKEI_ALL_REDUCE ? op->size : 1,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = op->outputs,
                                     .stream = past ? ~0u : 0,
                                     .published = past ? 0 : others });
}

static void direct_copy(const struct yokei_op *op, char *to, const char *from, size_t bytes)
{
    if (to != from) yokei_copy(to, from, bytes, yokei_is_long(op));
}

static void direct_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype), at = lane->step.round * step_elements(op);
    char *recv = op->recv;
    if (op->kind == YOKEI_BROADCAST) {
        const char *from = op->rank == op->root ? (const char *)op->send : yokei_send_buffer_of(op, op->root);
        direct_copy(op, recv + at * bytes, from + at * bytes,
                    YOKE_MIN(step_elements(op), op->count - at) * bytes);
        return;
    }
    for (int i = 0; i < op->size; i++) {
        const int q = (op->rank + i) % op->size;
        const size_t length = op->slices[q + 1] - op->slices[q], begin = YOKE_MIN(at, length),
                     n = YOKE_MIN(step_elements(op), length - begin);
        const size_t from = op->kind == YOKEI_ALL_TO_ALL ? op->slices[op->rank] : 0;
        direct_copy(op, recv + (op->slices[q] + begin) * bytes,
                    yokei_send_buffer_of(op, q) + (from + begin) * bytes, n * bytes);
    }
}

/* In stage 0 lane 0 announces the call. In stage 1 all lanes look at all announcements. */
static void first_steps(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    step->work = yokei_no_work;
    if (lane->stage == 1) {
        step->wait = YOKEI_POSTED;
        step->until = op->number;
    } else if (lane->id == 0) {
        step->work = direct_announce;
        step->wait = YOKEI_POSTED;
        step->until = op->number - 1;
        step->sets = YOKEI_POSTED;
        step->value = op->number;
    }
}

/*
 * Stage 2: the rounds. Stage 3: announce that this rank has finished with the others' buffers. Stage 4: wait
 * until the others have finished with this rank's buffers.
 */
static bool direct_step(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (lane->stage == 2) {
        const bool reduces = op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE_SCATTER;
        step->work = reduces ? direct_sum : direct_take;
        step->round = lane->round;
        if (lane->round * step_elements(op) < work_length(op)) {
            lane->round += (size_t)op->n_lanes;
            return true;
        }
        lane->stage = 3;
        lane->epoch++;
    }
    step->work = yokei_no_work;
    step->until = step->value = lane->epoch;
    if (lane->stage == 3)
        step->sets = YOKEI_PASSED;
    else
        step->wait = YOKEI_PASSED;
    return lane->stage++ < 5;
}

static bool direct_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (lane->stage < 2) {
        first_steps(op, lane, step);
        lane->stage++;
        return true;
    }
    return is_direct(op) ? direct_step(op, lane, step) : yokei_slices_round(op, lane, step, 2);
}

static void direct_explain(const struct yokei_op *op, char *text, size_t bytes)
{
    yokei_text(
        text, bytes,
        "all %d ranks share memory, and have memory of yoke_comm_alloc: with buffers there nothing is copied aside, "
        "else it is slices",
        op->size);
}

static void direct_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double n = effort->own;
    effort->syncs = 2;
    if (op->kind == YOKEI_ALL_REDUCE)
        effort->touched = 2 * n;
    else if (op->kind == YOKEI_REDUCE_SCATTER)
        effort->touched = n;
    else
        effort->touched = op->kind == YOKEI_ALL_GATHER ? effort->all : n;
    effort->steps = effort->sent = effort->summed = 0;
}

const struct yokei_algorithm yokei_direct = { direct_next, .announces = true, .in_allocations = true,
                                              .explain = direct_explain, .effort = direct_effort };
