/* SPDX-License-Identifier: Apache-2.0 */
/** The list of the algorithms of the collectives. */
#ifndef YOKE_ALGORITHMS_H
#define YOKE_ALGORITHMS_H

#include <yoke/base.h>

/**
 * The algorithms of the collectives, one in each line: ALGORITHM(ID, name, can_be_named, in_rank_order,
 * reach).
 *   can_be_named    1: struct yoke_comm_config.algorithm (yoke/comm.h) may name the algorithm, for
 *                   all_reduce. 0: only the library chooses it
 *   in_rank_order   1: a sum adds rank 0's data first, then rank 1's, and so on. Its bits are the same in
 *                   every such algorithm
 *   reach           the ranks between which the algorithm works: enum yoke_reach, without YOKE_REACH_
 * A line's place is the algorithm's number in flight records, so new lines come last.
 */
/* clang-format off */
#define YOKE_ALGORITHMS(ALGORITHM) \
    ALGORITHM(RING, ring, 1, 0, MESSAGES) \
    ALGORITHM(DOUBLING, doubling, 1, 0, MESSAGES) \
    ALGORITHM(CHAIN, chain, 1, 1, MESSAGES) \
    ALGORITHM(DISSEMINATION, dissemination, 0, 0, MESSAGES) \
    ALGORITHM(PAIRS, pairs, 0, 0, MESSAGES) \
    ALGORITHM(ONESHOT, oneshot, 1, 1, ON_HOST) \
    ALGORITHM(SLICES, slices, 1, 1, ON_HOST) \
    ALGORITHM(LINEAR, linear, 0, 0, MESSAGES) \
    ALGORITHM(DIRECT, direct, 1, 1, ON_HOST) \
    ALGORITHM(EXCHANGE, exchange, 1, 1, MESSAGES) \
    ALGORITHM(HIERARCHY, hierarchy, 1, 0, ACROSS_HOSTS)
/* clang-format on */
enum yoke_reach {
    YOKE_REACH_MESSAGES,    /* any ranks */
    YOKE_REACH_ON_HOST,     /* all ranks must share memory */
    YOKE_REACH_ACROSS_HOSTS /* some of the ranks share memory, but not all */
};
/**
 * For lists of the algorithms that can be named: YOKE_IF_NAMED(can_be_named)(tokens) is the tokens, or
 * nothing.
 */
#define YOKE_IF_NAMED(can_be_named) YOKE_IF_NAMED_##can_be_named
#define YOKE_IF_NAMED_1(...) __VA_ARGS__
#define YOKE_IF_NAMED_0(...)

#endif
