/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small collectives over several hosts: see hierarchy.c. Each rank publishes its data on its host, as in
 * oneshot. The first rank of each host is its leader. The leader puts its host's data into one message, and
 * swaps it with the other leaders. The host's ranks take the result from the leader. So there are three
 * waits: for the host's ranks, for one message, and for the leader.
 *
 * The message holds the host's sum. If the order of the ranks matters, or nothing is summed, it holds the
 * data of all ranks of the host.
 *
 * Many leaders add up sums by recursive doubling instead: in exchange k leader h and leader h xor 2^k send
 * each other the sums that they have. This takes log2 H waits for a message, and the swap takes half of
 * H - 1. halving.c says who exchanges with whom if H is no power of two. A barrier exchanges empty messages.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/* most bytes of a message with a host's sum; most bytes of all ranks' data */
enum { SUM_BYTES = 16 << 10, RAW_BYTES = 64 << 10, LEAST_DOUBLING = 8 /* hosts */ };

static size_t even(size_t bytes) { return (bytes + 63) / 64 * 64; }

static bool is_raw(const struct yokei_op *op)
{
    return op->kind == YOKEI_ALL_GATHER || (yokei_reduces(op) && op->reproducible);
}

bool yokei_leaders_double(const struct yokei_op *op)
{
    const bool sums = yokei_reduces(op) || op->kind == YOKEI_BARRIER || op->kind == YOKEI_DESTROY;
    return sums && !is_raw(op) && op->hosts->n >= LEAST_DOUBLING;
}

/* Number of elements that rank q publishes. */
static size_t length_of(const struct yokei_op *op, int q)
{
    return op->kind == YOKEI_ALL_GATHER ? op->slices[q + 1] - op->slices[q] : op->count;
}

static size_t host_length(const struct yokei_op *op, int host)
{
    size_t n = 0;
    for (int i = 0; i < yokei_host_size(op->hosts, host); i++)
        n += length_of(op, yokei_rank_on(op->hosts, host, i));
    return n;
}

/* The leader's stage holds the result, and then the message of each host, or one sum. */
static size_t result_bytes(const struct yokei_op *op)
{
    return op->kind == YOKEI_ALL_GATHER ? 0 : even(op->count * yoke_dtype_bytes(op->dtype));
}

static size_t seat_bytes(const struct yokei_op *op, int host)
{
    if (op->kind == YOKEI_BROADCAST) return 0;
    return even(is_raw(op) ? host_length(op, host) * yoke_dtype_bytes(op->dtype)
                           : op->count * yoke_dtype_bytes(op->wire));
}

static char *leaders_result_at(const struct yokei_op *op, const struct yokei_lane *lane)
{
    return yokei_stage_at(op, yokei_leader(op), lane, 1);
}

static char *leaders_seat_at(const struct yokei_op *op, const struct yokei_lane *lane, int host)
{
    char *at = leaders_result_at(op, lane) + result_bytes(op);
    for (int h = 0; h < host; h++) at += seat_bytes(op, h);
    return at;
}

bool yokei_leaders_fit(const struct yokei_op *op)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    size_t all = result_bytes(op), most = op->count * bytes;
    if (op->count * bytes > RAW_BYTES || yokei_published_bytes(op) > YOKEI_ONESHOT_BYTES) return false;
    const int n_seats = yokei_leaders_double(op) ? 1 : op->hosts->n;
    for (int h = 0; h < n_seats; h++) {
        all += seat_bytes(op, h);
        most = op->kind == YOKEI_BROADCAST ? most : YOKE_MAX(h ? most : 0, seat_bytes(op, h));
    }
    return all <= (is_raw(op) ? RAW_BYTES : YOKEI_STAGE_BYTES) && most <= (is_raw(op) ? RAW_BYTES : SUM_BYTES)
           && most <= op->chunk_bytes;
}

/* ---- what the leader does ---- */

/* Collect the data of this host's ranks, one rank after another. */
static void collect(const struct yokei_op *op, char *to)
{
    for (int i = 0; i < op->hosts->n_local; i++) {
        const size_t bytes = length_of(op, op->hosts->local[i]) * yoke_dtype_bytes(op->dtype);
        yokei_copy(to, yokei_published_by(op, op->hosts->local[i]), bytes, false);
        to += bytes;
    }
}

static void leaders_begin(const struct yokei_op *op, struct yokei_lane *lane)
{
    char *seat = leaders_seat_at(op, lane, yokei_own_host(op));
    if (is_raw(op)) {
        collect(op, seat);
        yokei_copy(lane->room, seat, lane->step.n * yoke_dtype_bytes(op->dtype), false);
        return;
    }
    for (int i = 0; i < op->hosts->n_local; i++) op->inputs[i] = yokei_published_by(op, op->hosts->local[i]);
    yokei_fold(&(struct yokei_fold){ .n = op->count,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .partial = true,
                                     .n_in = op->hosts->n_local,
                                     .n_out = 2,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = (void *const[]){ seat, lane->room } });
}

static void send_again(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(lane->room, leaders_seat_at(op, lane, yokei_own_host(op)),
               lane->step.n * yoke_dtype_bytes(lane->step.out), false);
}

static void leaders_keep(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(leaders_seat_at(op, lane, op->hosts->of[lane->step.from]), lane->message,
               lane->step.n * yoke_dtype_bytes(lane->step.in), false);
}

/* After the last message all data is there. */
static void leaders_finish(const struct yokei_op *op, struct yokei_lane *lane)
{
    const bool raw = is_raw(op);
    leaders_keep(op, lane);
    if (!yokei_reduces(op)) return;
    for (int h = 0; h < op->hosts->n; h++) {
        const char *seat = leaders_seat_at(op, lane, h);
        if (!raw) op->inputs[h] = seat;
        for (int i = 0; raw && i < yokei_host_size(op->hosts, h); i++)
            op->inputs[yokei_rank_on(op->hosts, h, i)] = seat
                                                         + (size_t)i * op->count
                                                               * yoke_dtype_bytes(op->dtype);
    }
    const int n = raw ? op->size : op->hosts->n;
    yokei_fold(&(struct yokei_fold){ .n = op->count,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = raw ? 0 : n,
                                     .n_in = n,
                                     .n_out = 1,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = (void *const[]){ leaders_result_at(op, lane) } });
}

static void send_root(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(lane->room, yokei_published_by(op, op->root), op->count * yoke_dtype_bytes(op->dtype), false);
}

static void keep_root(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(leaders_result_at(op, lane), lane->message, op->count * yoke_dtype_bytes(op->dtype), false);
}

/*
 * For a broadcast: the leader of the root's host sends to each other leader. True: this is the last
 * message.
 */
static bool leaders_broadcast_step(const struct yokei_op *op, int i, struct yokei_step *step)
{
    const int host = yokei_own_host(op), root_host = op->hosts->of[op->root];
    step->n = op->count;
    if (host == root_host) {
        step->to = yokei_rank_on(op->hosts, host + 1 + i, 0);
        step->work = send_root;
        return i == op->hosts->n - 2;
    }
    step->from = yokei_rank_on(op->hosts, root_host, 0);
    step->work = keep_root;
    return true;
}

static bool leaders_swap_step(const struct yokei_op *op, int i, struct yokei_step *step)
{
    const int n_hosts = op->hosts->n, host = yokei_own_host(op);
    int k;
    const bool sends = yokei_swap_sends(n_hosts, i, &k);
    const int of = sends ? host : (host - k + n_hosts) % n_hosts;
    step->n = is_raw(op) ? host_length(op, of) : op->count;
    step->in = step->out = is_raw(op) ? op->dtype : op->wire;
    if (sends) {
        step->to = yokei_rank_on(op->hosts, host + k, 0);
        step->work = i ? send_again : leaders_begin;
        if (i == 0) step->reads = (size_t)(op->hosts->n_local - 1) * op->count * yoke_dtype_bytes(op->dtype);
    } else {
        step->from = yokei_rank_on(op->hosts, host - k, 0);
        step->work = k < n_hosts - 1 ? leaders_keep : leaders_finish;
    }
    return i == 2 * n_hosts - 3;
}

/* ---- recursive doubling: the leader's sum is in the first seat ---- */

static void add_to_sum(const struct yokei_op *op, struct yokei_lane *lane)
{
    char *sum = leaders_seat_at(op, lane, 0);
    yokei_fold(&(struct yokei_fold){ .n = op->count,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = 2,
                                     .partial = true,
                                     .n_in = 2,
                                     .n_out = 1,
                                     .size = op->size,
                                     .in = (const void *const[]){ sum, lane->message },
                                     .out = (void *const[]){ sum } });
}

/* All leaders have the same sum, and each finishes it. */
static void finish_sum(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_fold(&(struct yokei_fold){ .n = op->count,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = 1,
                                     .n_in = 1,
                                     .n_out = 1,
                                     .size = op->size,
                                     .in = (const void *const[]){ leaders_seat_at(op, lane, 0) },
                                     .out = (void *const[]){ leaders_result_at(op, lane) } });
}

static void doubling_begin(const struct yokei_op *op, struct yokei_lane *lane)
{
    int n = 0;
    if (lane->message) op->inputs[n++] = lane->message;
    for (int i = 0; i < op->hosts->n_local; i++)
        op->inputs[n++] = yokei_published_by(op, op->hosts->local[i]);
    void *out[2] = { leaders_seat_at(op, lane, 0), lane->room };
    yokei_fold(&(struct yokei_fold){ .n = op->count,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = lane->message != NULL,
                                     .partial = true,
                                     .n_in = n,
                                     .n_out = lane->room ? 2 : 1,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = out });
}

static void doubling_send(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(lane->room, leaders_seat_at(op, lane, 0), op->count * yoke_dtype_bytes(op->wire), false);
}

static void doubling_receive(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(leaders_seat_at(op, lane, 0), lane->message, op->count * yoke_dtype_bytes(op->wire), false);
}

/*
 * Step i: 0 begins, then come a send and a receive for each exchange, a send to the host that gave its
 * data, and the end of the sum. A host that gives its data begins, receives the sum, and finishes it. True:
 * the last step.
 */
static bool leaders_doubling_step(const struct yokei_op *op, int i, struct yokei_step *step)
{
    const struct yokei_pairing pairing = yokei_pairing_of(op);
    const int behind = yokei_rank_on(op->hosts, yokei_own_host(op) + 1, 0),
              before = yokei_rank_on(op->hosts, yokei_own_host(op) - 1, 0);
    const int n_exchanges = pairing.id < 0 ? 0 : 2 * pairing.n_pairs,
              n_last = pairing.id < 0 || pairing.takes;
    step->n = op->count;
    step->in = step->out = op->wire;
    if (i == 0) {
        step->work = doubling_begin;
        step->reads = (size_t)(op->hosts->n_local - 1) * op->count * yoke_dtype_bytes(op->dtype);
        if (pairing.takes) step->from = behind;
        if (pairing.id < 0) step->to = before;
    } else if (i <= n_exchanges) {
        const int other = yokei_rank_on(op->hosts, yokei_pairing_host(&pairing, (i - 1) / 2), 0);
        step->work = i % 2 ? doubling_send : add_to_sum;
        *(i % 2 ? &step->to : &step->from) = other;
    } else if (i == n_exchanges + 1 && pairing.takes) {
        step->work = doubling_send;
        step->to = behind;
    } else if (i == n_exchanges + 1 && pairing.id < 0) {
        step->work = doubling_receive;
        step->from = before;
    } else {
        step->work = finish_sum;
    }
    return i == n_exchanges + n_last + 1;
}

/* ---- what all do ---- */

static void leaders_gather(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    for (int h = 0; h < op->hosts->n; h++) {
        const char *from = leaders_seat_at(op, lane, h);
        for (int i = 0; i < yokei_host_size(op->hosts, h); i++) {
            const int q = yokei_rank_on(op->hosts, h, i);
            if (q != op->rank || (char *)op->recv + op->slices[q] * bytes != op->send)
                yokei_put(op, lane, op->slices[q] * bytes, from, length_of(op, q) * bytes);
            from += length_of(op, q) * bytes;
        }
    }
}

static void leaders_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    const char *result = leaders_result_at(op, lane);
    const bool is_root = op->root == op->rank;
    switch (op->kind) {
    case YOKEI_ALL_GATHER: leaders_gather(op, lane); return;
    case YOKEI_ALL_REDUCE: yokei_put(op, lane, 0, result, op->count * bytes); return;
    case YOKEI_REDUCE:
        if (is_root) yokei_put(op, lane, 0, result, op->count * bytes);
        return;
    case YOKEI_REDUCE_SCATTER:
        yokei_put(op, lane, 0, result + op->slices[op->rank] * bytes,
                  (op->slices[op->rank + 1] - op->slices[op->rank]) * bytes);
        return;
    case YOKEI_BROADCAST:
        if (op->hosts->of[op->root] == yokei_own_host(op)) result = yokei_published_by(op, op->root);
        if (!is_root || op->recv != op->send) yokei_put(op, lane, 0, result, op->count * bytes);
        return;
    default: return;
    }
}

static void take_step(const struct yokei_op *op, struct yokei_step *step)
{
    step->work = leaders_take;
    if (op->kind == YOKEI_ALL_REDUCE && op->rank != yokei_leader(op))
        step->reads = op->count * yoke_dtype_bytes(op->dtype);
    if (op->kind == YOKEI_REDUCE && op->root != op->rank) return;
    const bool has_root = op->kind == YOKEI_BROADCAST && op->hosts->of[op->root] == yokei_own_host(op);
    step->wait = has_root ? YOKEI_POSTED : YOKEI_GIVEN;
    step->wait_rank = has_root ? op->root : yokei_leader(op);
    step->until = op->number;
}

/*
 * In stage 0 the ranks publish their data, and in the last stage they take the result. Between them are the
 * leader's messages. The first of these waits for the host's ranks.
 */
bool yokei_leaders_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    enum { TAKE = -1, END = -2 };
    if (lane->stage == END) return false;
    if (lane->stage == 0) {
        yokei_publish_step(op, step);
        lane->stage = op->rank == yokei_leader(op) ? 1 : TAKE;
        return true;
    }
    if (lane->stage == TAKE) {
        take_step(op, step);
        lane->stage = END;
        return true;
    }
    const int i = lane->stage++ - 1;
    const bool last = op->kind == YOKEI_BROADCAST ? leaders_broadcast_step(op, i, step)
                      : yokei_leaders_double(op)  ? leaders_doubling_step(op, i, step)
                                                  : leaders_swap_step(op, i, step);
    if (i == 0) {
        step->wait = YOKEI_POSTED;
        step->until = op->number;
    }
    if (!last) return true;
    step->sets = YOKEI_GIVEN;
    step->value = op->number;
    lane->stage = TAKE;
    return true;
}
