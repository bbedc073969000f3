/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted bugs: plants.c can replace the library's own functions by functions with these bugs. The library
 * itself contains none of them.
 */
#ifndef TESTS_RANKS_PLANTS_H
#define TESTS_RANKS_PLANTS_H

/* Each row has the name of a bug and its description. */
/* clang-format off */
#define PLANTS(ROW) \
    ROW(averaged, "gradients averaged twice") \
    ROW(unsummed, "a replica's gradients not summed") \
    ROW(counted, "the norm of what all tensor ranks hold counted once per rank") \
    ROW(dropped, "the last uneven shard dropped") \
    ROW(means, "the loss a mean of the replicas' means") \
    ROW(stale, "a stage's second micro-batch forward with the weights before the last step") \
    ROW(scales, "ranks that overflow skip a step and lower the loss scale alone") \
    ROW(tied, "a tied embedding's gradient summed twice") \
    ROW(last_bit, "recomputation that changes the last bit of a weight")
/* clang-format on */

enum plant {
    PLANT_NONE,
#define PLANT_NUMBER(name, what) PLANT_##name,
    PLANTS(PLANT_NUMBER)
#undef PLANT_NUMBER
        N_PLANTS
};

/* Use this bug from now on. Without a call, the bug is the one that the environment variable PLANT names. */
void plants_choose(enum plant plant);

#endif
