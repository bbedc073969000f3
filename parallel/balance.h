/* SPDX-License-Identifier: Apache-2.0 */
/** Who does how much, from what each takes for it: pure arithmetic, the same on all ranks. Times are in any one unit. */
#ifndef PARALLEL_BALANCE_H
#define PARALLEL_BALANCE_H

#include <yoke/base.h>

/**
 * Deal `batch` sequences to n ranks so that the last one to end ends as early as can be: each sequence goes to the rank
 * that would be done with it first (of equals, the lower rank). A rank of speed 0 gets none. speeds: sequences per second.
 */
void yokei_balance(const double *speeds, int n, int64_t batch, int64_t *shares_out);

/**
 * Deal n equal units to so many parties, at least `least` to each, so that max over i of base[i] + units[i] * cost[i] is least. That is exact:
 * each further unit goes to the party that would end first with it (of equals, the first), and no other deal can end before the last of
 * these. base NULL: zeros. n must be at least parties * least. Returns that maximum.
 */
double yokei_balance_deal(int64_t n, int parties, const double *base, const double *cost, int64_t least, int64_t *units_out);

/**
 * One deal for several groups that work beside each other at their own pace: party i of group g takes base[g * parties + i] + units[i] *
 * cost[g * parties + i], and a group's pace is 1 / the time of its slowest party. Of the deals that end earliest for one of the groups or for
 * all together, the one with the largest sum of paces (of equals, the one for all). With one group it is exact. Returns that sum.
 */
double yokei_balance_groups(int64_t n, int groups, int parties, const double *base, const double *cost, int64_t least, int64_t *units_out);

/**
 * Blocks of each virtual stage (c * stages + s is chunk c of stage s), at least one each, the stages being the parties of
 * yokei_balance_groups and the replicas its groups; base is what a stage holds besides: embedding, head. A stage's chunks get equal parts of
 * its blocks, the earlier ones one more. n_blocks must be at least stages * chunks. blocks_out [stages * chunks]. Returns the sum of paces.
 */
double yokei_balance_stages(int64_t n_blocks, int replicas, int stages, int chunks, const double *base, const double *cost, int64_t *blocks_out);

#define YOKEI_WORTH 0.25 /* of what a replica could bring if sequences were divisible and sums free */

/** Seconds that summing gradients over the replicas with used[d] takes, for yokei_balance_replicas. */
typedef yoke_status (*yokei_sums_function)(void *context, const bool *used, double *seconds_out);
/**
 * Which of n replicas work, and on how many sequences each. Replica d takes fixed[d] + share * cost[d]; a step takes what the slowest of
 * those that are used takes, and the sums over them. Tried are all of them, all but the slowest, and so on. Those whose sequences others would
 * have done before them are never used. Whoever is slower than the rest must be worth it: of the
 * sets with which a step takes at most 1 + YOKEI_WORTH * (p / q - 1) times as long as with the best one the fewest are taken, p and q being
 * the sums of 1 / cost of the best one and of the fewer. `sums` is asked only for sets that could be taken.
 * shares_out [n], 0: not used. *seconds_out: of the step. Errors: those of `sums`.
 */
yoke_status yokei_balance_replicas(int n, int64_t batch, const double *fixed, const double *cost, yokei_sums_function sums, void *context,
                                   int64_t *shares_out, double *seconds_out);

#endif
