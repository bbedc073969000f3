/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of ranks on several hosts, some of which share memory. The wire between the hosts is slow, so
 * as little data as possible crosses it. The ranks of a host first combine their data in shared memory, and
 * only the combined data goes to other hosts. In all_reduce of n bytes, a ring over 2 hosts of 4 ranks sends
 * 1.75 n bytes each way. The hierarchy sends n, which is the least possible.
 *
 * The ranks form columns: column c is the c-th rank of each host. There are as many columns as the smallest
 * host has ranks. Column c handles slice c of the data, on each host and between the hosts. So all ranks in
 * columns share the work of the sums and of the messages. As in `slices`, the data is worked on in rounds of
 * one chunk each, and the rounds go to the lanes in turn. A stage is a buffer in shared memory. The steps of
 * a round are:
 *
 *   publish each rank copies its chunk to its stage, where the ranks of its host see it
 *   cross   Column c adds up slice c of its host's chunks, exchanges the sum with column c of the other
 *           hosts, and puts the result in its stage. There are several ways to cross:
 *           swap    each rank sends its sum to all other hosts, and adds up what came in the order of the
 *                   hosts. This takes one latency, and sends the fewest bytes between two hosts
 *           ring    for many hosts: the ring of ring.c over parts of the slice, in which each hop adds one
 *                   host's ranks
 *           chain   Host after host adds its ranks to what came, and the result comes back. If the ranks are
 *                   numbered host by host, each element is ((x0 + x1) + x2) + ..., so `reproducible` uses the
 *                   chain. Also for reduce, where the chain ends at the root's host, and for broadcast, where
 *                   it begins there
 *   take    each rank copies the slices of all columns to the caller's buffer
 *
 * all_gather and reduce_scatter (hierarchy_parts.c) have other rounds. Small data (leaders.c,
 * leaders_all_to_all.c) has no rounds.
 * Messages never wait for each other in a circle. A message that a rank waits for in a round was sent before
 * its sender waits for anything later.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/algorithms/inside.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/* Part `part` of `parts` of slice `column`: its first element within the chunk, and *n_out elements. */
static size_t part_of(const struct yokei_op *op, const struct yokei_chunk *c, int column, int part, int parts,
                      size_t *n_out)
{
    const size_t from = yokei_column_begin(op, c, column), n = yokei_column_begin(op, c, column + 1) - from;
    const size_t at = yokei_slice_begin(NULL, parts, n, op->unit, part);
    *n_out = yokei_slice_begin(NULL, parts, n, op->unit, part + 1) - at;
    return from + at;
}

static bool is_column(const struct yokei_op *op) { return yokei_own_place(op) < op->hosts->least; }

/* A piece of this rank's slice of a round's chunk. */
struct piece {
    struct yokei_chunk chunk;
    size_t at, n;  /* first element within the chunk, and number of elements */
    size_t within; /* first element within the slice */
    size_t seat;   /* elements of a seat: the room for the slice */
};

static struct piece piece_of(const struct yokei_op *op, size_t round, int part, int parts)
{
    struct piece p = { .chunk = yokei_chunk_of(op, round) };
    const int column = yokei_own_place(op);
    p.at = part_of(op, &p.chunk, column, part, parts, &p.n);
    const size_t from = yokei_column_begin(op, &p.chunk, column),
                 n = yokei_column_begin(op, &p.chunk, column + 1) - from;
    p.within = p.at - from;
    p.seat = (n + op->unit - 1) / op->unit * op->unit;
    return p;
}

/* ---- memory ---- */

/* For `swap`: the seat of a host's sum, behind the result. */
static char *seat_of(const struct yokei_op *op, const struct yokei_lane *lane, const struct piece *p,
                     int host)
{
    return yokei_stage_at(op, op->rank, lane, 1) + (size_t)(1 + host) * p->seat * yoke_dtype_bytes(op->wire);
}

static bool root_is_here(const struct yokei_op *op) { return op->hosts->of[op->root] == yokei_own_host(op); }

/*
 * The places for a finished piece: this rank's receive buffer, its stage for the other ranks, and the message
 * to the next host (room NULL: no message). If the host does not see the device's memory, the receive buffer
 * gets the data from the stage.
 */
static int outputs(const struct yokei_op *op, const struct yokei_lane *lane, const struct piece *p,
                   void *out[3], unsigned *published_out)
{
    int n = 0;
    *published_out = 0;
    if ((op->kind != YOKEI_REDUCE || op->root == op->rank) && !op->staged)
        out[n++] = (char *)op->recv + (p->chunk.base + p->at) * yoke_dtype_bytes(op->dtype);
    if (op->kind != YOKEI_REDUCE || root_is_here(op)) {
        *published_out = op->staged ? 0 : 1u << n;
        out[n++] = yokei_result_of(op, lane, op->rank, p->within);
    }
    if (lane->room) out[n++] = lane->room;
    return n;
}

static bool hierarchy_streams(const struct yokei_op *op)
{
    return !op->staged && (op->kind != YOKEI_REDUCE || op->root == op->rank) && yokei_is_long(op);
}

static void hierarchy_publish(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_inside(op)->publish(op, lane);
}

/* ---- crossing: sums ---- */

/*
 * Add the message, if there is one, and this host's ranks in their order. The sum goes to `out`. With
 * `partial` it is not finished.
 */
static void hierarchy_add(const struct yokei_op *op, const struct yokei_lane *lane, const struct piece *p,
                          void *const out[], int n_out, unsigned published, bool partial)
{
    int n = 0;
    if (lane->message) op->inputs[n++] = lane->message;
    n += yokei_inside(op)->reduce_scatter(op, lane, &p->chunk, p->at, p->n, op->inputs + n);
    yokei_fold(&(struct yokei_fold){ .n = p->n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = lane->message != NULL,
                                     .partial = partial,
                                     .n_in = n,
                                     .n_out = n_out,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = out,
                                     .stream = !partial && hierarchy_streams(op),
                                     .published = published });
}

static void hierarchy_finish(const struct yokei_op *op, const struct yokei_lane *lane, const struct piece *p)
{
    void *out[3];
    unsigned published;
    const int n = outputs(op, lane, p, out, &published);
    hierarchy_add(op, lane, p, out, n, published, false);
}

/* The message holds a finished piece, which is stored and passed on. */
static void pass(const struct yokei_op *op, const struct yokei_lane *lane, const struct piece *p)
{
    void *out[3];
    unsigned published;
    const int n = outputs(op, lane, p, out, &published);
    for (int o = 0; o < n; o++)
        yokei_copy(out[o], lane->message, p->n * yoke_dtype_bytes(op->dtype),
                   o == 0 && hierarchy_streams(op));
}

/* Wait for the data of this host's ranks. */
static void wait_published(const struct yokei_lane *lane, struct yokei_step *step)
{
    step->wait = YOKEI_STAGED;
    step->until = lane->epoch;
}

/* ---- swap ---- */

static void swap_add(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    hierarchy_add(op, lane, &p, (void *const[]){ seat_of(op, lane, &p, yokei_own_host(op)), lane->room }, 2,
                  0, true);
}

static void swap_send(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_copy(lane->room, seat_of(op, lane, &p, yokei_own_host(op)), p.n * yoke_dtype_bytes(op->wire),
               false);
}

static void swap_keep(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_copy(seat_of(op, lane, &p, op->hosts->of[lane->step.from]), lane->message,
               p.n * yoke_dtype_bytes(op->wire), false);
}

static void swap_finish(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    const int n_hosts = op->hosts->n;
    void *out[3];
    unsigned published;
    const int n_out = outputs(op, lane, &p, out, &published);
    for (int h = 0; h < n_hosts; h++)
        op->inputs[h] = h == op->hosts->of[lane->step.from] ? lane->message : seat_of(op, lane, &p, h);
    yokei_fold(&(struct yokei_fold){ .n = p.n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = n_hosts,
                                     .n_in = n_hosts,
                                     .n_out = n_out,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = out,
                                     .stream = hierarchy_streams(op),
                                     .published = published });
}

static void hierarchy_swap_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                                struct yokei_step *step)
{
    const int n_hosts = op->hosts->n, host = yokei_own_host(op), column = yokei_own_place(op);
    int k;
    step->in = step->out = op->wire;
    step->n = piece_of(op, lane->round, 0, 1).n;
    if (yokei_swap_sends(n_hosts, i, &k)) {
        step->to = yokei_rank_on(op->hosts, host + k, column);
        step->work = i ? swap_send : swap_add;
        if (i == 0) wait_published(lane, step);
    } else {
        step->from = yokei_rank_on(op->hosts, host - k, column);
        step->work = k < n_hosts - 1 ? swap_keep : swap_finish;
    }
}

/* ---- ring: as ring.c, over the hosts ---- */

static void ring_pass(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, lane->step.hop, op->hosts->n);
    pass(op, lane, &p);
}

static void ring_add(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, lane->step.hop, op->hosts->n);
    if (lane->step.hop == yokei_own_host(op))
        hierarchy_finish(op, lane, &p);
    else
        hierarchy_add(op, lane, &p, (void *const[]){ lane->room }, 1, 0, true);
}

/*
 * Part h of the slice starts at host h + 1 and is complete at host h. From there the result goes around once
 * more.
 */
static void ring_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                      struct yokei_step *step)
{
    const int n_hosts = op->hosts->n, host = yokei_own_host(op), column = yokei_own_place(op);
    const bool sums = i < n_hosts;
    step->hop = (host + 2 * n_hosts - 1 - i) % n_hosts;
    step->n = piece_of(op, lane->round, step->hop, n_hosts).n;
    step->work = sums ? ring_add : ring_pass;
    step->in = sums ? op->wire : op->dtype;
    step->out = i < n_hosts - 1 ? op->wire : op->dtype;
    if (i > 0) step->from = yokei_rank_on(op->hosts, host - 1, column);
    if (i < 2 * n_hosts - 2) step->to = yokei_rank_on(op->hosts, host + 1, column);
    if (i == 0) wait_published(lane, step);
}

/* ---- chain ---- */

/*
 * The host's place in the chain. If the order is free, a broadcast's chain begins at the root's host, and a
 * reduction's chain ends there.
 */
static int chain_place(const struct yokei_op *op, int host)
{
    const int n_hosts = op->hosts->n;
    int begin = 0;
    if (op->kind == YOKEI_BROADCAST) begin = op->hosts->of[op->root];
    if (op->kind == YOKEI_REDUCE && !op->reproducible) begin = op->hosts->of[op->root] + 1;
    return (host - begin + 2 * n_hosts) % n_hosts;
}

static void chain_add(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    if (chain_place(op, yokei_own_host(op)) == op->hosts->n - 1)
        hierarchy_finish(op, lane, &p);
    else
        hierarchy_add(op, lane, &p, (void *const[]){ lane->room }, 1, 0, true);
}

static void chain_pass(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    pass(op, lane, &p);
}

/* For a broadcast, on the root's host: send the root's data. */
static void chain_begin(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_copy(lane->room, yokei_inside(op)->root_data(op, lane, p.at), p.n * yoke_dtype_bytes(op->dtype),
               false);
}

static void hierarchy_broadcast_step(const struct yokei_op *op, const struct yokei_lane *lane,
                                     struct yokei_step *step)
{
    const int host = yokei_own_host(op), place = chain_place(op, host), column = yokei_own_place(op);
    step->work = place ? chain_pass : chain_begin;
    if (place < op->hosts->n - 1) step->to = yokei_rank_on(op->hosts, host + 1, column);
    if (place) {
        step->from = yokei_rank_on(op->hosts, host - 1, column);
        return;
    }
    wait_published(lane, step);
    step->wait_rank = op->root;
}

static void chain_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                       struct yokei_step *step)
{
    const int host = yokei_own_host(op), place = chain_place(op, host), column = yokei_own_place(op),
              last = op->hosts->n - 1;
    const bool all = op->kind == YOKEI_ALL_REDUCE;
    step->n = piece_of(op, lane->round, 0, 1).n;
    if (op->kind == YOKEI_BROADCAST) {
        hierarchy_broadcast_step(op, lane, step);
    } else if (i == 0) {
        step->work = chain_add;
        step->in = op->wire;
        step->out = place == last ? op->dtype : op->wire;
        wait_published(lane, step);
        if (place > 0) step->from = yokei_rank_on(op->hosts, host - 1, column);
        if (place < last)
            step->to = yokei_rank_on(op->hosts, host + 1, column);
        else if (all)
            step->to = yokei_rank_on(op->hosts, host - 1, column);
        else if (!root_is_here(op))
            step->to = yokei_rank_on(op->hosts, op->hosts->of[op->root], column);
    } else { /* the result comes back */
        step->work = chain_pass;
        step->from = yokei_rank_on(op->hosts, all ? host + 1 : op->hosts->n - 1, column);
        if (all && place > 0) step->to = yokei_rank_on(op->hosts, host - 1, column);
    }
}

static int chain_count(const struct yokei_op *op)
{
    const int place = chain_place(op, yokei_own_host(op)), last = op->hosts->n - 1;
    if (op->kind == YOKEI_BROADCAST || place == last) return 1;
    return op->kind == YOKEI_ALL_REDUCE || root_is_here(op) ? 2 : 1;
}

/* ---- rounds ---- */

static int hierarchy_count(const struct yokei_op *op)
{
    const int n_hosts = op->hosts->n;
    if (!is_column(op)) return 0;
    return op->crossing == YOKEI_CROSS_SWAP   ? 2 * (n_hosts - 1)
           : op->crossing == YOKEI_CROSS_RING ? 2 * n_hosts - 1
                                              : chain_count(op);
}

static void hierarchy_cross(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                            struct yokei_step *step)
{
    if (op->crossing == YOKEI_CROSS_SWAP)
        hierarchy_swap_step(op, lane, i, step);
    else if (op->crossing == YOKEI_CROSS_RING)
        ring_step(op, lane, i, step);
    else
        chain_step(op, lane, i, step);
}

static void hierarchy_take(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    if (op->kind == YOKEI_BROADCAST && root_is_here(op)) {
        step->work = yokei_inside(op)->broadcast;
        wait_published(lane, step);
        step->wait_rank = op->root;
    } else if (op->kind != YOKEI_REDUCE || op->root == op->rank) {
        step->work = yokei_inside(op)->all_gather;
        step->wait = YOKEI_REDUCED;
        step->until = lane->epoch;
        step->n_wait = op->hosts->least;
    }
}

static const struct yokei_crossing_steps whole = { hierarchy_count, hierarchy_cross, hierarchy_publish,
                                                   hierarchy_take };

/* Step `which` of a round. True: it is the last one. */
static bool hierarchy_round_step(const struct yokei_op *op, struct yokei_lane *lane, int which,
                                 struct yokei_step *step)
{
    const struct yokei_crossing_steps *steps = op->crossing == YOKEI_CROSS_PARTS ? &yokei_parts : &whole;
    const int n_cross = steps->count(op);
    step->round = lane->round;
    step->work = yokei_no_work;
    step->value = lane->epoch;
    if (which == 0) { /* no rank overwrites data that another has not taken yet */
        step->work = steps->publish;
        step->wait = YOKEI_PASSED;
        step->until = lane->epoch - 1;
        step->sets = YOKEI_STAGED;
    } else if (which <= n_cross) {
        steps->step(op, lane, which - 1, step);
        if (which == n_cross) step->sets = YOKEI_REDUCED;
    } else {
        steps->take(op, lane, step);
        step->sets = YOKEI_PASSED;
    }
    return which > n_cross;
}

static bool hierarchy_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    if (op->crossing == YOKEI_CROSS_LEADERS) return yokei_leaders_next(op, lane, step);
    if (op->crossing == YOKEI_CROSS_EACH) return yokei_leaders_all_to_all_next(op, lane, step);
    const int n_first = lane->id == 0 ? 2 : 0;
    if (lane->stage < n_first) {
        yokei_announce_step(op, lane, step);
        lane->stage++;
        return true;
    }
    if (lane->round >= op->n_rounds) return false;
    if (lane->stage == n_first) lane->epoch++;
    const bool last = hierarchy_round_step(op, lane, lane->stage - n_first, step);
    lane->stage = last ? n_first : lane->stage + 1;
    if (last) lane->round += (size_t)op->n_lanes;
    return true;
}

static void hierarchy_explain(const struct yokei_op *op, char *text, size_t bytes)
{
    static const char *const ways[] = { [YOKEI_CROSS_LEADERS] = "one message between their leaders",
                                        [YOKEI_CROSS_SWAP] = "sums are swapped between them",
                                        [YOKEI_CROSS_RING] = "sums go around in a ring of them",
                                        [YOKEI_CROSS_CHAIN] = "data goes along a chain of them",
                                        [YOKEI_CROSS_PARTS] = "each slice crosses once",
                                        [YOKEI_CROSS_EACH] = "one message for what a host has for another" };
    yokei_text(text, bytes, "%d %s of %d to %d ranks that share memory: %s", op->hosts->n,
               op->hosts->are_islands ? "islands" : "hosts", op->hosts->least, op->hosts->most,
               ways[op->crossing]);
}

double yokei_bridge_bytes(const struct yokei_op *op)
{
    const double hosts = op->hosts->n, others = hosts - 1,
                 data = (double)op->count * (double)yoke_dtype_bytes(op->dtype),
                 wire = (double)op->count * (double)yoke_dtype_bytes(op->wire);
    double slices = 0;
    switch (op->crossing) {
    case YOKEI_CROSS_EACH: /* from each rank a slice to each rank of another host */
        for (int h = 0; h < op->hosts->n; h++)
            slices += (double)yokei_host_size(op->hosts, h) * (op->size - yokei_host_size(op->hosts, h));
        return slices * (double)(op->slices[1] * yoke_dtype_bytes(op->dtype));
    case YOKEI_CROSS_LEADERS:
        if (!yokei_reduces(op)) return others * data;
        return op->reproducible ? others * op->size * data : hosts * others * wire;
    case YOKEI_CROSS_SWAP: return hosts * others * wire;
    case YOKEI_CROSS_RING: return others * (wire + data);
    case YOKEI_CROSS_PARTS: return others * (yokei_reduces(op) ? wire : data);
    case YOKEI_CROSS_CHAIN:
        if (op->kind == YOKEI_BROADCAST) return others * data;
        if (op->kind == YOKEI_ALL_REDUCE) return others * (wire + data);
        return others * wire + (chain_place(op, op->hosts->of[op->root]) < op->hosts->n - 1 ? data : 0);
    }
    return 0;
}

/* What a rank copies within its host, and reads there to sum it, in rounds of all data. */
static double inside_bytes(const struct yokei_op *op, const struct yokei_effort *effort)
{
    switch (op->kind) {
    case YOKEI_ALL_REDUCE: return 3 * effort->all;
    case YOKEI_ALL_GATHER: return effort->own + effort->all;
    case YOKEI_BROADCAST: return effort->all;
    default: return 2 * effort->all;
    }
}

/*
 * Between hosts this counts all data that a host's ranks send. The sums of what came from the hosts are
 * divided among the columns.
 */
static void hierarchy_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    const double hosts = op->hosts->n;
    double steps = hosts - 1, bytes = effort->all; /* chain */
    switch (op->crossing) {
    /* from all ranks of the host, the part for other hosts */
    case YOKEI_CROSS_EACH: steps = 1, bytes *= op->size / hosts * (hosts - 1) / hosts; break;
    case YOKEI_CROSS_LEADERS:
    case YOKEI_CROSS_SWAP: steps = 1, bytes *= hosts - 1; break;
    case YOKEI_CROSS_RING: steps = 2 * (hosts - 1), bytes *= 2 * (hosts - 1) / hosts; break;
    case YOKEI_CROSS_PARTS: bytes *= (hosts - 1) / hosts; break;
    case YOKEI_CROSS_CHAIN:
        if (op->kind == YOKEI_ALL_REDUCE) steps *= 2;
        break;
    }
    effort->steps = steps;
    effort->sent = bytes;
    effort->syncs = 2;
    effort->touched = inside_bytes(op, effort);
    if (yokei_reduces(op))
        effort->summed = hosts * effort->all / (op->crossing == YOKEI_CROSS_LEADERS ? 1 : op->hosts->least);
}

const struct yokei_algorithm yokei_hierarchy = { hierarchy_next, .announces = true,
                                                 .explain = hierarchy_explain, .effort = hierarchy_effort };
