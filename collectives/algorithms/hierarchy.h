/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the hierarchy share; hierarchy.c explains it. */
#ifndef COLLECTIVES_ALGORITHMS_HIERARCHY_H
#define COLLECTIVES_ALGORITHMS_HIERARCHY_H

#include "collectives/comm.h"

/** Rank `index` of host `host`; hosts count around. */
static inline int yokei_rank_on(const yoke_comm *comm, int host, int index)
{
    const struct yokei_hosts *h = &comm->hosts;
    return h->ranks[h->first[(host + h->n) % h->n] + index];
}

static inline int yokei_host_size(const yoke_comm *comm, int host)
{
    const struct yokei_hosts *h = &comm->hosts;
    const int at = (host + h->n) % h->n;
    return h->first[at + 1] - h->first[at];
}

static inline int yokei_own_host(const yoke_comm *comm) { return comm->hosts.of[comm->rank]; }
static inline int yokei_own_place(const yoke_comm *comm) { return comm->hosts.at[comm->rank]; }

static inline bool yokei_reduces(const struct yokei_op *op)
{
    return op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE || op->kind == YOKEI_REDUCE_SCATTER;
}

/**
 * Step i of 2 (H - 1) by which one rank of each host sends to and receives from one of every other: whether it sends, and the
 * distance k between the hosts: it sends to host + k, or receives from host - k.
 */
static inline bool yokei_swap_sends(int n_hosts, int i, int *k_out)
{
    /* Two sends set out at once, as many as a lane has room for; further ones each wait for a message to be taken. A send waits
       only for the receive of an earlier distance, so there is no circle. */
    const bool sends = i < 2 ? i + 1 < n_hosts : i % 2 && (i + 3) / 2 < n_hosts;
    *k_out = sends ? (i < 2 ? i + 1 : (i + 3) / 2) : i == 2 * n_hosts - 3 ? n_hosts - 1 : i / 2;
    return sends;
}

/** leaders.c: whether the operation is small enough for it, and the next step. */
bool yokei_leaders_fit(const struct yokei_op *op);
bool yokei_leaders_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);

/** leaders_all_to_all.c: the same for all_to_all. */
bool yokei_leaders_all_to_all_fits(const struct yokei_op *op);
bool yokei_leaders_all_to_all_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);

/** What differs between the kinds of rounds. */
struct yokei_crossing_steps {
    int (*count)(const struct yokei_op *op); /* of this rank */
    void (*step)(const struct yokei_op *op, const struct yokei_lane *lane, int i, struct yokei_step *step); /* i of them */
    void (*show)(const struct yokei_op *op, struct yokei_lane *lane);
    void (*take)(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step);        /* the step that takes */
};
/** hierarchy_parts.c: all_gather and reduce_scatter. */
extern const struct yokei_crossing_steps yokei_parts;
/** Chunks of what comes from other hosts for which a stage needs room, at most. */
size_t yokei_parts_seats(const struct yokei_op *op);

#endif
