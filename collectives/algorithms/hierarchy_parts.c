/* SPDX-License-Identifier: Apache-2.0 */
/*
 * all_gather and reduce_scatter over several hosts: see hierarchy.c. A round works on one chunk of each
 * rank's slice, and each slice crosses to another host once.
 *
 *   all_gather       each rank sends its chunk to one rank of every other host, which publishes it there
 *   reduce_scatter   For each rank on another host, one rank of this host adds up the data that the host's
 *                    ranks have for it, and sends the sum. The receiver adds its own host's chunks to the
 *                    sums from the other hosts.
 *
 * Rank i of a host exchanges with rank i of the other hosts. If the other host has fewer ranks, i counts
 * around. So a rank that is alone on its host may exchange with several ranks of another host.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/algorithms/inside.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/*
 * With how many ranks of `host` the rank at `place` of a host with n_there ranks exchanges. The j-th of them
 * is at place + j * n_there.
 */
static int n_dealt(const struct yokei_op *op, int host, int place, int n_there)
{
    const int n = yokei_host_size(op->hosts, host);
    return place < n ? (n - place + n_there - 1) / n_there : 0;
}

/* ---- all_gather ---- */

/*
 * A seat is the room for one rank's chunk. There are as many seats for each host as the largest host has
 * ranks for each rank of the smallest host.
 */
static int seats_per_host(const struct yokei_op *op)
{
    return (op->hosts->most + op->hosts->least - 1) / op->hosts->least;
}

size_t yokei_parts_seats(const struct yokei_op *op)
{
    return (size_t)(op->hosts->n * (op->kind == YOKEI_ALL_GATHER ? seats_per_host(op) : 1));
}

/* The place of rank q's chunk, for a rank q of another host. */
static char *gathered_at(const struct yokei_op *op, const struct yokei_lane *lane, int q)
{
    const int seat = op->hosts->of[q] * seats_per_host(op) + op->hosts->at[q] / op->hosts->n_local;
    return yokei_stage_at(op, op->hosts->local[op->hosts->at[q] % op->hosts->n_local], lane, 1)
           + (size_t)seat * op->chunk * yoke_dtype_bytes(op->dtype);
}

static void gather_send(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(lane->room, yokei_inside(op)->gathered_from(op, lane, op->rank),
               lane->step.n * yoke_dtype_bytes(op->dtype), false);
}

static void gather_keep(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(gathered_at(op, lane, lane->step.from), lane->message,
               lane->step.n * yoke_dtype_bytes(op->dtype), false);
}

static void gather_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t bytes = yoke_dtype_bytes(op->dtype);
    for (int i = 0; i < op->size; i++) {
        const int q = (op->rank + i) % op->size;
        size_t n;
        const size_t at = yokei_part_of(op, lane->step.round, q, &n);
        const char *from = op->hosts->of[q] == yokei_own_host(op)
                               ? yokei_inside(op)->gathered_from(op, lane, q)
                               : gathered_at(op, lane, q);
        const char *to = (char *)op->recv + (op->slices[q] + at) * bytes;
        if (q != op->rank || (const char *)op->send + at * bytes != to)
            yokei_put(op, lane, (op->slices[q] + at) * bytes, from, n * bytes);
    }
}

/* ---- reduce_scatter ---- */

static char *sum_seat(const struct yokei_op *op, const struct yokei_lane *lane, int host)
{
    return yokei_stage_at(op, op->rank, lane, 1) + (size_t)host * op->chunk * yoke_dtype_bytes(op->wire);
}

static void scatter_send(const struct yokei_op *op, struct yokei_lane *lane)
{
    size_t n;
    const int n_in = yokei_inside(op)->reduce_for(op, lane, lane->step.to, op->inputs, &n);
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .partial = true,
                                     .n_in = n_in,
                                     .n_out = 1,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = (void *const[]){ lane->room } });
}

static void scatter_keep(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(sum_seat(op, lane, op->hosts->of[lane->step.from]), lane->message,
               lane->step.n * yoke_dtype_bytes(op->wire), false);
}

/*
 * Add the sums of the other hosts in their order, and then this host's ranks. No other rank computes this
 * slice.
 */
static void scatter_finish(const struct yokei_op *op, struct yokei_lane *lane)
{
    int n_wire = 0;
    size_t n;
    for (int h = 0; h < op->hosts->n; h++)
        if (h != yokei_own_host(op))
            op->inputs[n_wire++] = h == op->hosts->of[lane->step.from] ? lane->message
                                                                       : sum_seat(op, lane, h);
    const int n_in = n_wire + yokei_inside(op)->reduce_for(op, lane, op->rank, op->inputs + n_wire, &n);
    const size_t at = yokei_part_of(op, lane->step.round, op->rank, &n) * yoke_dtype_bytes(op->dtype);
    void *to = op->staged ? sum_seat(op, lane, yokei_own_host(op)) : (char *)op->recv + at;
    yokei_fold(&(struct yokei_fold){ .n = n,
                                     .reduction = op->reduction,
                                     .dtype = op->dtype,
                                     .wire = op->wire,
                                     .n_wire = n_wire,
                                     .n_in = n_in,
                                     .n_out = 1,
                                     .size = op->size,
                                     .in = op->inputs,
                                     .out = &to,
                                     .stream = !op->staged && yokei_is_long(op) });
}

/* Copy the result to device memory that the host does not see. */
static void scatter_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    size_t n;
    const size_t at = yokei_part_of(op, lane->step.round, op->rank, &n), bytes = yoke_dtype_bytes(op->dtype);
    yokei_put(op, lane, at * bytes, sum_seat(op, lane, yokei_own_host(op)), n * bytes);
}

/* ---- rounds ---- */

static void parts_publish(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_inside(op)->publish_parts(op, lane);
}

/*
 * How many messages this rank sends to the host at distance k, and how many it receives from the host at that
 * distance before it.
 */
static int n_sends(const struct yokei_op *op, int k)
{
    return op->kind == YOKEI_ALL_GATHER
               ? 1
               : n_dealt(op, yokei_own_host(op) + k, yokei_own_place(op), op->hosts->n_local);
}

static int n_receives(const struct yokei_op *op, int k)
{
    return op->kind == YOKEI_ALL_GATHER
               ? n_dealt(op, yokei_own_host(op) - k, yokei_own_place(op), op->hosts->n_local)
               : 1;
}

static int parts_count(const struct yokei_op *op)
{
    int n = 0;
    for (int k = 1; k < op->hosts->n; k++) n += n_sends(op, k) + n_receives(op, k);
    return n;
}

static void send_step(const struct yokei_op *op, const struct yokei_lane *lane, int k, int j,
                      struct yokei_step *step)
{
    const int host = yokei_own_host(op) + k, place = yokei_own_place(op);
    const bool gathers = op->kind == YOKEI_ALL_GATHER;
    step->to = yokei_rank_on(
        op->hosts, host, gathers ? place % yokei_host_size(op->hosts, host) : place + j * op->hosts->n_local);
    step->work = gathers ? gather_send : scatter_send;
    yokei_part_of(op, lane->round, gathers ? op->rank : step->to, &step->n);
}

static void receive_step(const struct yokei_op *op, const struct yokei_lane *lane, int k, int j,
                         struct yokei_step *step)
{
    const int host = yokei_own_host(op) - k, place = yokei_own_place(op);
    const bool gathers = op->kind == YOKEI_ALL_GATHER;
    step->from = yokei_rank_on(
        op->hosts, host, gathers ? place + j * op->hosts->n_local : place % yokei_host_size(op->hosts, host));
    step->work = gathers ? gather_keep : k < op->hosts->n - 1 ? scatter_keep : scatter_finish;
    yokei_part_of(op, lane->round, gathers ? step->from : op->rank, &step->n);
}

/*
 * Exchange with the hosts at distance 1, 2, ...: send to the host k further on, then receive from the host k
 * before. So a message that a rank waits for is sent before its sender waits for a later one.
 */
static void parts_cross(const struct yokei_op *op, const struct yokei_lane *lane, int i,
                        struct yokei_step *step)
{
    int k = 1;
    if (op->kind == YOKEI_REDUCE_SCATTER) {
        step->in = step->out = op->wire;
        step->wait = i == 0 ? YOKEI_STAGED : YOKEI_NOTHING;
        step->until = lane->epoch;
    }
    for (; i >= n_sends(op, k) + n_receives(op, k); k++) i -= n_sends(op, k) + n_receives(op, k);
    if (i < n_sends(op, k))
        send_step(op, lane, k, i, step);
    else
        receive_step(op, lane, k, i - n_sends(op, k), step);
}

static void parts_take(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step)
{
    if (op->kind == YOKEI_REDUCE_SCATTER && op->staged) step->work = scatter_take;
    if (op->kind != YOKEI_ALL_GATHER) return;
    step->work = gather_take;
    /* the data from other hosts is there, and so is the data that this host's ranks showed before */
    step->wait = YOKEI_REDUCED;
    step->until = lane->epoch;
}

const struct yokei_crossing_steps yokei_parts = { parts_count, parts_cross, parts_publish, parts_take };
