/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The algorithms. An algorithm makes the steps of an operation, lane by lane. It sees the operation, the lane
 * and the step, and nothing of communicators.
 */
#ifndef COLLECTIVES_ALGORITHMS_ALGORITHMS_H
#define COLLECTIVES_ALGORITHMS_ALGORITHMS_H

#include <yoke/algorithms.h>

#include "collectives/operation/operation.h"
#include "core/base/base.h"

/** What an operation costs, for the cost model. `all` and `own` are given, the others are to be set. */
struct yokei_effort {
    double all, own; /* bytes of the whole data, and of this rank's data, in the type of messages */
    double steps;    /* number of messages that follow one another; before: size - 1 */
    double sent;     /* bytes that a rank sends; before: own */
    double syncs;    /* how often the ranks of a host synchronise through shared memory; before: 0 */
    double touched;  /* bytes that a rank copies and sums there; before: 0 */
    double summed;   /* bytes of operands that a rank sums elsewhere; before: 2 own in a reduction, else 0 */
};

struct yokei_algorithm {
    /* Write the lane's next step, and advance the lane's counters. False: the lane has nothing more to do. */
    bool (*next)(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step);
    bool announces; /* works through shared memory, and begins with an announcement */
    /* For message algorithms: in all_reduce each rank completes one slice of the data, so op->slices must be
       set. */
    bool by_slices;
    bool one_piece;      /* a rank publishes its data in one piece, of YOKEI_ONESHOT_BYTES at most */
    bool in_allocations; /* the ranks work in memory of yoke_comm_alloc, if the buffers lie there */
    /* For message algorithms: why a sum uses this algorithm, for yoke_comm_explain. NULL: the collective has
       no other algorithm. */
    const char *why;
    /* For the other algorithms: why the operation uses this algorithm. */
    void (*explain)(const struct yokei_op *op, char *text, size_t bytes);
    /* NULL: all fields stay as they are. */
    void (*effort)(const struct yokei_op *op, struct yokei_effort *effort);
};
#define YOKEI_ALGORITHM_EXTERN(ID, name, can_be_named, in_rank_order, reach) \
    extern const struct yokei_algorithm yokei_##name;
YOKE_ALGORITHMS(YOKEI_ALGORITHM_EXTERN)
#undef YOKEI_ALGORITHM_EXTERN

/* ---- table.c: id < YOKEI_N_ALGORITHMS ---- */
/** NULL: no algorithm has this number. */
const struct yokei_algorithm *yokei_algorithm(unsigned id);
enum yokei_algorithm_id yokei_algorithm_id(const struct yokei_algorithm *algorithm);
bool yokei_algorithm_can_be_named(unsigned id);
bool yokei_algorithm_adds_in_rank_order(unsigned id);
enum yoke_reach yokei_algorithm_reach(unsigned id);

#endif
