/* SPDX-License-Identifier: Apache-2.0 */
/* Bugs that plants.c can put in the place of the library's own functions; nothing of them is in the library. */
#ifndef TESTS_RANKS_PLANTS_H
#define TESTS_RANKS_PLANTS_H

/* One row each: name, the bug. */
#define PLANTS(ROW)                                                                                              \
    ROW(averaged, "gradients averaged twice")                                                                    \
    ROW(unsummed, "a replica's gradients not summed")                                                            \
    ROW(counted, "the norm of what all tensor ranks hold counted once per rank")                                 \
    ROW(dropped, "the last uneven shard dropped")                                                                \
    ROW(means, "the loss a mean of the replicas' means")                                                         \
    ROW(stale, "a stage's second micro-batch forward with the weights before the last step")                     \
    ROW(scales, "ranks that overflow skip a step and lower the loss scale alone")                                \
    ROW(tied, "a tied embedding's gradient summed twice")                                                        \
    ROW(last_bit, "recomputation that changes the last bit of a weight")

enum plant {
    PLANT_NONE,
#define PLANT_NUMBER(name, what) PLANT_##name,
    PLANTS(PLANT_NUMBER)
#undef PLANT_NUMBER
    N_PLANTS
};

/* From here on that one. Without a call: the one that the variable PLANT names. */
void plants_choose(enum plant plant);

#endif
