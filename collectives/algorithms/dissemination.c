/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barrier by dissemination (Hensgen, Finkel and Manber 1988). In round k each rank sends a message to the
 * rank 2^k further on. After ceil(log2(size)) rounds every rank has heard of every other, for any size.
 */
#include "collectives/comm.h"

static bool dissemination_next(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step)
{
    const int size = op->comm->size, rank = op->comm->rank;
    const int distance = 1 << lane->stage / 2;
    if (distance >= size) return false;
    if (lane->stage % 2)
        step->from = (rank - distance + size) % size;
    else
        step->to = (rank + distance) % size;
    lane->stage++;
    return true;
}

static void dissemination_traffic(const struct yokei_op *op, double all, double *steps, double *bytes)
{
    (void)all;
    *steps = *bytes = 0;
    for (int n = 1; n < op->comm->size; n *= 2) ++*steps;
}

const struct yokei_algorithm yokei_dissemination = { dissemination_next, .traffic = dissemination_traffic };
