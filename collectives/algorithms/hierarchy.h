/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the hierarchy share. hierarchy.c explains the algorithm. */
#ifndef COLLECTIVES_ALGORITHMS_HIERARCHY_H
#define COLLECTIVES_ALGORITHMS_HIERARCHY_H

#include "collectives/algorithms/slices.h"

/** The leader of this rank's host. */
static inline int yokei_leader(const struct yokei_op *op) { return op->hosts->local[0]; }

/**
 * Step i of 2 (H - 1), in which one rank of each host exchanges messages with one rank of every other host.
 * Returns whether the step sends. *k_out is the distance between the hosts: the rank sends to host + k, or
 * receives from host - k.
 */
static inline bool yokei_swap_sends(int n_hosts, int i, int *k_out)
{
    /* Two sends start at once, because a lane has room for two. Each further send waits until a message
       was taken. A send waits only for the receive of a smaller distance, so there is no circle. */
    const bool sends = i < 2 ? i + 1 < n_hosts : i % 2 && (i + 3) / 2 < n_hosts;
    *k_out = sends ? (i < 2 ? i + 1 : (i + 3) / 2) : i == 2 * n_hosts - 3 ? n_hosts - 1 : i / 2;
    return sends;
}

/** leaders.c: whether the operation is small enough for the leaders' algorithm, and its next step. */
bool yokei_leaders_fit(const struct yokei_op *op);
bool yokei_leaders_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);

/** leaders_all_to_all.c: the same for all_to_all. */
bool yokei_leaders_all_to_all_fits(const struct yokei_op *op);
bool yokei_leaders_all_to_all_next(const struct yokei_op *op, struct yokei_lane *lane,
                                   struct yokei_step *step);

/** The functions that differ between the kinds of rounds. */
struct yokei_crossing_steps {
    int (*count)(const struct yokei_op *op); /* number of this rank's steps */
    /* step i of them */
    void (*step)(const struct yokei_op *op, const struct yokei_lane *lane, int i, struct yokei_step *step);
    void (*publish)(const struct yokei_op *op, struct yokei_lane *lane);
    /* the step that takes the results */
    void (*take)(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step);
};
/** hierarchy.c: the bytes of data that all hosts together send to other hosts in the operation. */
double yokei_bridge_bytes(const struct yokei_op *op);
/** hierarchy_parts.c: the functions for all_gather and reduce_scatter. */
extern const struct yokei_crossing_steps yokei_parts;
/** The most chunks from other hosts for which a stage needs room. */
size_t yokei_parts_seats(const struct yokei_op *op);

#endif
