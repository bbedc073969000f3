/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives of ranks on several hosts, some of which share memory. The wire between the hosts is slow, so
 * as little data as possible crosses it. The ranks of a host first combine their data in shared memory, and
 * only the combined data goes to other hosts. In all_reduce of n bytes, a ring over 2 hosts of 4 ranks
 * sends 1.75 n bytes each way. The hierarchy sends n, which is the least possible.
 *
 * The ranks form columns: column c is the c-th rank of each host. There are as many columns as the smallest
 * host has ranks. Column c handles slice c of the data, on each host and between the hosts. So all ranks in
 * columns share the work of the sums and of the messages. As in `slices`, the data is worked on in rounds
 * of one chunk each, and the rounds go to the lanes in turn. A stage is a buffer in shared memory. The
 * steps of a round are:
 *
 *   publish each rank copies its chunk to its stage, where the ranks of its host see it
 *   cross   Column c adds up slice c of its host's chunks, exchanges the sum with column c of the other
 *           hosts, and puts the result in its stage. There are several ways to cross:
 *           swap    each rank sends its sum to all other hosts, and adds up what came in the order of the
 *                   hosts. This takes one latency, and sends the fewest bytes between two hosts
 *           ring    for a few hosts: the ring of ring.c over parts of the slice, in which each hop adds one
 *                   host's ranks
 *           halving for more hosts: pairs of hosts exchange halves of the slice, then halves of these, as
 *                   halving.c explains
 *           chain   Host after host adds its ranks to what came, and the result comes back. If the ranks are
 *                   numbered host by host, each element is ((x0 + x1) + x2) + ..., so `reproducible` uses the
 *                   chain. Also for reduce, where the chain ends at the root's host, and for broadcast, where
 *                   it begins there
 *   take    each rank copies the slices of all columns to the caller's buffer
 *
 * all_gather and reduce_scatter (hierarchy_parts.c) have other rounds. Small data (leaders.c,
 * leaders_all_to_all.c) has no rounds. Messages never wait for each other in a circle. A message that a
 * rank waits for in a round was sent before its sender waits for anything later.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/algorithms/inside.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

static bool is_column(const struct yokei_op *op) { return yokei_own_place(op) < op->hosts->least; }

static struct yokei_piece piece_of(const struct yokei_op *op, size_t round, int part, int parts)
{
    return yokei_piece_of(op, round, part, 1, parts);
}

/* ---- memory ---- */

/* For `swap`: the seat of a host's sum, behind the result. */
static char *seat_of(const struct yokei_op *op, const struct yokei_lane *lane, const struct yokei_piece *p,
                     int host)
{
    return yokei_stage_at(op, op->rank, lane, 1) + (size_t)(1 + host) * p->seat * yoke_dtype_bytes(op->wire);
}

static void hierarchy_publish(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_inside(op)->publish(op, lane);
}

/* ---- crossing: sums ---- */

static void hierarchy_finish(const struct yokei_op *op, const struct yokei_lane *lane,
                             const struct yokei_piece *p)
{
    void *out[3];
    unsigned published;
    const int n = yokei_piece_outputs(op, lane, p, out, &published);
    yokei_piece_add(op, lane, p, out, n, published, false);
}

/* ---- swap ---- */

static void swap_add(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_piece_add(op, lane, &p, (void *const[]){ seat_of(op, lane, &p, yokei_own_host(op)), lane->room }, 2,
                    0, true);
}

static void swap_send(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_copy(lane->room, seat_of(op, lane, &p, yokei_own_host(op)), p.n * yoke_dtype_bytes(op->wire),
               false);
}

static void swap_keep(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_copy(seat_of(op, lane, &p, op->hosts->of[lane->step.from]), lane->message,
               p.n * yoke_dtype_bytes(op->wire), false);
}

static void swap_finish(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
    const int n_hosts = op->hosts->n;
    void *out[3];
    unsigned published;
    const int n_out = yokei_piece_outputs(op, lane, &p, out, &published);
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
                                     .stream = yokei_piece_streams(op),
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
        if (i == 0) {
            yokei_wait_published(lane, step);
            step->reads = yokei_sum_reads(op, step);
        }
    } else {
        step->from = yokei_rank_on(op->hosts, host - k, column);
        step->work = k < n_hosts - 1 ? swap_keep : swap_finish;
    }
}

/* ---- ring: as ring.c, over the hosts ---- */

static void ring_pass(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, lane->step.hop, op->hosts->n);
    yokei_piece_pass(op, lane, &p);
}

static void ring_add(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, lane->step.hop, op->hosts->n);
    if (lane->step.hop == yokei_own_host(op))
        hierarchy_finish(op, lane, &p);
    else
        yokei_piece_add(op, lane, &p, (void *const[]){ lane->room }, 1, 0, true);
}

/*
 * Part h of the slice starts at host h + 1 and is complete at host h. From there the result goes around
 * once more.
 */
static void ring_step(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                      struct yokei_step *step)
{
    const int n_hosts = op->hosts->n, host = yokei_own_host(op), column = yokei_own_place(op);
    const bool sums = i < n_hosts;
    step->hop = (host + 2 * n_hosts - 1 - i) % n_hosts;
    step->n = piece_of(op, lane->round, step->hop, n_hosts).n;
    step->work = sums ? ring_add : ring_pass;
    step->reads = sums ? yokei_sum_reads(op, step) : 0;
    step->in = sums ? op->wire : op->dtype;
    step->out = i < n_hosts - 1 ? op->wire : op->dtype;
    if (i > 0) step->from = yokei_rank_on(op->hosts, host - 1, column);
    if (i < 2 * n_hosts - 2) step->to = yokei_rank_on(op->hosts, host + 1, column);
    if (i == 0) yokei_wait_published(lane, step);
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
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
    if (chain_place(op, yokei_own_host(op)) == op->hosts->n - 1)
        hierarchy_finish(op, lane, &p);
    else
        yokei_piece_add(op, lane, &p, (void *const[]){ lane->room }, 1, 0, true);
}

static void chain_pass(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
    yokei_piece_pass(op, lane, &p);
}

/* For a broadcast, on the root's host: send the root's data. */
static void chain_begin(const struct yokei_op *op, struct yokei_lane *lane)
{
    const struct yokei_piece p = piece_of(op, lane->step.round, 0, 1);
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
    yokei_wait_published(lane, step);
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
        step->reads = yokei_sum_reads(op, step);
        step->in = op->wire;
        step->out = place == last ? op->dtype : op->wire;
        yokei_wait_published(lane, step);
        if (place > 0) step->from = yokei_rank_on(op->hosts, host - 1, column);
        if (place < last)
            step->to = yokei_rank_on(op->hosts, host + 1, column);
        else if (all)
            step->to = yokei_rank_on(op->hosts, host - 1, column);
        else if (!yokei_root_is_here(op))
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
    return op->kind == YOKEI_ALL_REDUCE || yokei_root_is_here(op) ? 2 : 1;
}

/* ---- rounds ---- */

static int hierarchy_count(const struct yokei_op *op)
{
    const int n_hosts = op->hosts->n;
    if (!is_column(op)) return 0;
    switch (op->crossing) {
    case YOKEI_CROSS_SWAP: return 2 * (n_hosts - 1);
    case YOKEI_CROSS_RING: return 2 * n_hosts - 1;
    case YOKEI_CROSS_HALVING: return yokei_halving_count(op);
    default: return chain_count(op);
    }
}

static void hierarchy_cross(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                            struct yokei_step *step)
{
    if (op->crossing == YOKEI_CROSS_SWAP)
        hierarchy_swap_step(op, lane, i, step);
    else if (op->crossing == YOKEI_CROSS_RING)
        ring_step(op, lane, i, step);
    else if (op->crossing == YOKEI_CROSS_HALVING)
        yokei_halving_step(op, lane, i, step);
    else
        chain_step(op, lane, i, step);
}

/* The bytes that a rank takes from other ranks of its host in a round. */
static size_t taken_bytes(const struct yokei_op *op, const struct yokei_lane *lane)
{
    const struct yokei_chunk c = yokei_chunk_of(op, lane->round);
    const size_t own = is_column(op) ? piece_of(op, lane->round, 0, 1).n : 0;
    return (c.length - own) * yoke_dtype_bytes(op->dtype);
}

static void hierarchy_take(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    if (op->kind == YOKEI_BROADCAST && yokei_root_is_here(op)) {
        step->work = yokei_inside(op)->broadcast;
        yokei_wait_published(lane, step);
        step->wait_rank = op->root;
    } else if (op->kind != YOKEI_REDUCE || op->root == op->rank) {
        step->work = yokei_inside(op)->all_gather;
        step->reads = taken_bytes(op, lane);
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
    static const char *const ways[] = {
        [YOKEI_CROSS_LEADERS] = "one message between their leaders",
        [YOKEI_CROSS_SWAP] = "sums are swapped between them",
        [YOKEI_CROSS_RING] = "sums go around in a ring of them",
        [YOKEI_CROSS_HALVING] = "sums are exchanged in halves by pairs of them",
        [YOKEI_CROSS_CHAIN] = "data goes along a chain of them",
        [YOKEI_CROSS_PARTS] = "each slice crosses once",
        [YOKEI_CROSS_EACH] = "one message for what a host has for another"
    };
    yokei_text(text, bytes, "%d %s of %d to %d ranks that share memory: %s", op->hosts->n,
               op->hosts->are_islands ? "islands" : "hosts", op->hosts->least, op->hosts->most,
               ways[op->crossing]);
}

/* The bytes of all leaders' sums in recursive doubling. */
static double doubled_bytes(const struct yokei_op *op)
{
    const struct yokei_pairing p = yokei_pairing_of(op);
    return ((double)p.n_pairs * (1 << p.n_pairs) + 2 * p.n_extra) * (double)op->count
           * (double)yoke_dtype_bytes(op->wire);
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
        if (yokei_leaders_double(op)) return doubled_bytes(op);
        return op->reproducible ? others * op->size * data : hosts * others * wire;
    case YOKEI_CROSS_SWAP: return hosts * others * wire;
    case YOKEI_CROSS_HALVING:
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
        if (yokei_leaders_double(op)) {
            const struct yokei_pairing p = yokei_pairing_of(op);
            steps = p.n_pairs + (p.n_extra ? 2 : 0), bytes *= p.n_pairs + (p.n_extra > 0);
            break;
        } /* fall through */
    case YOKEI_CROSS_SWAP: steps = 1, bytes *= hosts - 1; break;
    case YOKEI_CROSS_RING: steps = 2 * (hosts - 1), bytes *= 2 * (hosts - 1) / hosts; break;
    case YOKEI_CROSS_HALVING: yokei_halving_effort(op, &steps, &bytes); break;
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
