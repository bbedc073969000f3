/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier by dissemination (Hensgen, Finkel and Manber 1988). In round k each rank sends a message to the
 * rank 2^k further on. After ceil(log2(size)) rounds every rank has, directly or not, received a message of
 * every other, for any size.
 */
#include "collectives/algorithms/algorithms.h"

static bool dissemination_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    const int size = op->size, rank = op->rank;
    const int distance = 1 << lane->stage / 2;
    if (distance >= size) return false;
    if (lane->stage % 2)
        step->from = (rank - distance + size) % size;
    else
        step->to = (rank + distance) % size;
    lane->stage++;
    return true;
}

static void dissemination_effort(const struct yokei_op *op, struct yokei_effort *effort)
{
    effort->steps = effort->sent = 0;
    for (int n = 1; n < op->size; n *= 2) effort->steps++;
}

const struct yokei_algorithm yokei_dissemination = { dissemination_next, .effort = dissemination_effort };
