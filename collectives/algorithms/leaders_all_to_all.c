/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small all-to-all over several hosts: see hierarchy.c and leaders.c. This saves messages, not bytes. The
 * leaders of two hosts swap all data between their hosts in one message each way, where otherwise each pair
 * of ranks would exchange its own.
 * Each rank publishes all data that it sends. A message has the slices in the order of the sending ranks, and
 * for each sender in the order of the receiving ranks. Slices between ranks of one host are taken from shared
 * memory.
 */
#include "collectives/algorithms/hierarchy.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

/* Most bytes of a message. In longer all-to-alls the ranks' own messages overlap, and only the wire's speed
 * matters. */
enum { MESSAGE_BYTES = 64 << 10 };

/* All slices are equal here. */
static size_t slice_bytes(const struct yokei_op *op) { return op->slices[1] * yoke_dtype_bytes(op->dtype); }

/* Number of slices in the message from one host to another. */
static size_t n_slices(const struct yokei_op *op, int from, int to)
{
    return (size_t)yokei_host_size(op->hosts, from) * (size_t)yokei_host_size(op->hosts, to);
}

/* A seat in the leader's stage: the slices that came from a host. */
static char *swapped_seat_at(const struct yokei_op *op, const struct yokei_lane *lane, int host)
{
    const int own = yokei_own_host(op);
    char *at = yokei_stage_at(op, yokei_leader(op), lane, 1);
    for (int h = 0; h < host; h++)
        if (h != own) at += n_slices(op, h, own) * slice_bytes(op);
    return at;
}

bool yokei_leaders_all_to_all_fits(const struct yokei_op *op)
{
    if (op->send_slices != op->slices || yokei_published_bytes(op) > YOKEI_ONESHOT_BYTES) return false;
    for (int a = 0; a < op->hosts->n; a++) {
        size_t came = 0;
        for (int b = 0; b < op->hosts->n; b++) {
            const size_t message = n_slices(op, b, a) * slice_bytes(op);
            if (a == b) continue;
            if (message > MESSAGE_BYTES || message > op->chunk_bytes) return false;
            came += message;
        }
        if (came > YOKEI_STAGE_BYTES) return false;
    }
    return true;
}

static void pack(const struct yokei_op *op, struct yokei_lane *lane)
{
    const int host = op->hosts->of[lane->step.to];
    const size_t slice = slice_bytes(op);
    char *to = lane->room;
    for (int i = 0; i < op->hosts->n_local; i++)
        for (int j = 0; j < yokei_host_size(op->hosts, host); j++, to += slice)
            yokei_copy(to,
                       yokei_published_by(op, op->hosts->local[i])
                           + (size_t)yokei_rank_on(op->hosts, host, j) * slice,
                       slice, false);
}

static void swapped_keep(const struct yokei_op *op, struct yokei_lane *lane)
{
    yokei_copy(swapped_seat_at(op, lane, op->hosts->of[lane->step.from]), lane->message,
               lane->step.n * yoke_dtype_bytes(op->dtype), false);
}

static void swapped_take(const struct yokei_op *op, struct yokei_lane *lane)
{
    const size_t slice = slice_bytes(op);
    for (int h = 0; h < op->hosts->n; h++) {
        const bool own = h == yokei_own_host(op);
        const char *seat = own ? NULL : swapped_seat_at(op, lane, h);
        for (int i = 0; i < yokei_host_size(op->hosts, h); i++) {
            const int q = yokei_rank_on(op->hosts, h, i);
            const char *from = own ? yokei_published_by(op, q) + (size_t)op->rank * slice
                                   : seat + (size_t)(i * op->hosts->n_local + yokei_own_place(op)) * slice;
            yokei_put(op, lane, (size_t)q * slice, from, slice);
        }
    }
}

static void swapped_swap_step(const struct yokei_op *op, int i, struct yokei_step *step)
{
    const int n_hosts = op->hosts->n, host = yokei_own_host(op);
    int k;
    const bool sends = yokei_swap_sends(n_hosts, i, &k);
    const int other = (host + (sends ? k : n_hosts - k)) % n_hosts;
    step->work = sends ? pack : swapped_keep;
    step->n = op->slices[1] * (sends ? n_slices(op, host, other) : n_slices(op, other, host));
    if (sends)
        step->to = yokei_rank_on(op->hosts, other, 0);
    else
        step->from = yokei_rank_on(op->hosts, other, 0);
    if (i == 0) /* Wait for the data. A rank that has come here has taken the data in the seats. */
        step->wait = YOKEI_POSTED;
    if (i == 2 * n_hosts - 3) step->sets = YOKEI_GIVEN;
}

bool yokei_leaders_all_to_all_next(const struct yokei_op *op, struct yokei_lane *lane,
                                   struct yokei_step *step)
{
    const int n_messages = op->rank == yokei_leader(op) ? 2 * (op->hosts->n - 1) : 0, i = lane->stage++ - 1;
    if (i < 0) {
        yokei_publish_step(op, step);
        return true;
    }
    step->until = step->value = op->number;
    if (i < n_messages) {
        swapped_swap_step(op, i, step);
    } else { /* if the leader has come so far, the data that the host's ranks publish is there too */
        step->work = swapped_take;
        step->wait = YOKEI_GIVEN;
        step->wait_rank = yokei_leader(op);
    }
    return i <= n_messages;
}
