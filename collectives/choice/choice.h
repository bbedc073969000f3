/* SPDX-License-Identifier: Apache-2.0 */
/** The choice of an operation's algorithm, its chunks and its lanes: choice.c, explain.c. */
#ifndef COLLECTIVES_CHOICE_CHOICE_H
#define COLLECTIVES_CHOICE_CHOICE_H

#include "collectives/ground/comm.h"

/**
 * `counts` [size] are the slices' lengths; NULL: equal slices. `send_counts` are those of all_to_all_v; NULL:
 * the same as counts.
 */
void yokei_choose(struct yokei_op *op, const size_t counts[], const size_t send_counts[]);
/** The time by the cost model, in microseconds; 0: the model has no figures for it. predict.c */
double yokei_predict(const struct yokei_op *op);
/**
 * Whether the operation's bits do not depend on the grouping. Only then may measurements choose the grouping.
 * Integers, least and greatest values are the same in any order, and a reproducible sum keeps the order of
 * the ranks.
 */
bool yokei_grouping_is_free(const struct yokei_op *op);
/** What chose the algorithm, for readers, the groups of ranks, and the time: explain.c. The lock is held. */
void yokei_explain_choice(const struct yokei_op *op, struct yoke_comm_choice *choice_out);

#endif
