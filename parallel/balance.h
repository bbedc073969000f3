/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How much of the work each rank gets, from the time that each rank takes for it. These functions only
 * compute. All ranks get the same result. Times may have any unit, as long as all of them have the same one.
 */
#ifndef PARALLEL_BALANCE_H
#define PARALLEL_BALANCE_H

#include <yoke/base.h>

/**
 * Deal `batch` sequences to n ranks so that the last rank to finish finishes as early as possible. Each
 * sequence goes to the rank that would finish it first. If several ranks would, the lowest rank gets it. A
 * rank of speed 0 gets none. speeds: sequences per second.
 */
void yokei_balance(const double *speeds, int n, int64_t batch, int64_t *shares_out);

/**
 * Deal n equal units of work to `parties` parties, at least `least` units to each. The result minimises the
 * maximum over i of base[i] + units[i] * cost[i]. The minimum is exact: each further unit goes to the party
 * that would finish it first (the lowest of equal parties), so no other deal can finish earlier. base NULL
 * means zeros. n must be at least parties * least. Returns the maximum.
 */
double yokei_balance_deal(int64_t n, int parties, const double *base, const double *cost, int64_t least,
                          int64_t *units_out);

/**
 * Find one deal for several groups that work side by side, each at its own pace. Party i of group g takes
 * base[g * parties + i] + units[i] * cost[g * parties + i]. The pace of a group is 1 / the time of its
 * slowest party. The function compares the best deal of each single group with the best deal for all groups
 * together. It chooses the deal with the largest sum of paces. If the sums are equal, it prefers the deal for
 * all groups. With one group the result is exact. Returns the sum of paces.
 */
double yokei_balance_groups(int64_t n, int groups, int parties, const double *base, const double *cost,
                            int64_t least, int64_t *units_out);

/**
 * Deal the model's blocks to virtual stages, at least one block to each. Virtual stage c * stages + s is
 * chunk c of stage s. The stages are the parties of yokei_balance_groups, and the replicas are its groups.
 * `base` is the time of a stage's other layers (embedding, head). The chunks of a stage get equal parts of
 * its blocks; where a division leaves a remainder, the first chunks get one block more. n_blocks must be at
 * least stages * chunks. blocks_out [stages * chunks]. Returns the sum of paces.
 */
double yokei_balance_stages(int64_t n_blocks, int replicas, int stages, int chunks, const double *base,
                            const double *cost, int64_t *blocks_out);

/*
 * A replica must bring at least this fraction of the gain that it would bring if sequences were divisible and
 * sums free.
 */
#define YOKEI_WORTH 0.25

/**
 * Seconds that it takes to sum the gradients over the replicas d with used[d], for yokei_balance_replicas.
 */
typedef yoke_status (*yokei_sums_function)(void *context, const bool *used, double *seconds_out);
/**
 * Choose which of n replicas work, and the number of sequences of each. Replica d takes fixed[d] + share *
 * cost[d]. A step takes as long as the slowest replica in use, plus the sums of gradients over the replicas
 * in use. The function tries all replicas, then all but the slowest, and so on. A replica is never used if
 * the other replicas would finish its sequences earlier. A slow replica must be worth its cost: let a step
 * take t seconds with the best set. Of all sets whose step takes at most t * (1 + YOKEI_WORTH * (p / q - 1)),
 * the function takes the smallest set. Here p is the sum of 1 / cost over the best set, and q the same sum
 * over the smaller set.
 * `sums` is called only for sets that could be chosen.
 * shares_out [n]: 0 for a replica that is not used. *seconds_out: the time of a step. Errors: those of
 * `sums`, and YOKE_ENOMEM.
 */
yoke_status yokei_balance_replicas(int n, int64_t batch, const double *fixed, const double *cost,
                                   yokei_sums_function sums, void *context, int64_t *shares_out,
                                   double *seconds_out);

#endif
