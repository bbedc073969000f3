/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms by their numbers. The list itself is YOKE_ALGORITHMS in yoke/algorithms.h. */
#include "collectives/algorithms/algorithms.h"

#define DEFINITION(ID, name, can_be_named, in_rank_order, reach) &yokei_##name,
static const struct yokei_algorithm *const algorithms[YOKEI_N_ALGORITHMS] = { YOKE_ALGORITHMS(DEFINITION) };
#undef DEFINITION

/* clang-format off */
#define FACTS(ID, name, can_be_named, in_rank_order, reach) { can_be_named, in_rank_order, \
        YOKE_REACH_##reach },
/* clang-format on */
static const struct {
    bool can_be_named, in_rank_order;
    enum yoke_reach reach;
} facts[YOKEI_N_ALGORITHMS] = { YOKE_ALGORITHMS(FACTS) };
#undef FACTS

const struct yokei_algorithm *yokei_algorithm(unsigned id)
{
    return id < YOKEI_N_ALGORITHMS ? algorithms[id] : NULL;
}

enum yokei_algorithm_id yokei_algorithm_id(const struct yokei_algorithm *algorithm)
{
    unsigned id = 0;
    while (algorithms[id] != algorithm) id++;
    return (enum yokei_algorithm_id)id;
}

bool yokei_algorithm_can_be_named(unsigned id) { return facts[id].can_be_named; }

bool yokei_algorithm_adds_in_rank_order(unsigned id) { return facts[id].in_rank_order; }

enum yoke_reach yokei_algorithm_reach(unsigned id) { return facts[id].reach; }
