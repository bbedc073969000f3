/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a communicator has for choosing algorithms. The files of choice/ own these parts of struct yoke_comm.
 */
#ifndef COLLECTIVES_CHOICE_PART_H
#define COLLECTIVES_CHOICE_PART_H

#include <stdbool.h>
#include <stdint.h>

/**
 * The cost model: times and rates of the parts of collectives. Each value is the worst of all ranks while all
 * ranks work. 0: not measured.
 */
struct yokei_costs {
    /* time until each rank has seen an announcement of every other rank through shared memory */
    double sync_us;
    /* Bytes that a rank copies to shared memory, sums and copies from there, in 1e9 per second, while the
       data fits the caches. */
    double shared_gbps;
    double long_gbps;     /* the same rate for data that does not fit the caches */
    double sum_gbps;      /* bytes of operands summed in the caches */
    double message_us;    /* time of a small message from one rank to another */
    double message_gbps;  /* bytes from each rank to the next, while all ranks send */
    double oneshot_bytes; /* largest size at which the one-shot algorithm is not slower than slices */
};

/**
 * How the ranks divide the sums of long data: shares.c. `plain`, `staged` and `columns` give slices as
 * running sums, like `before` elsewhere: slice j of n has before[j + 1] - before[j] of before[n] parts.
 */
struct yokei_shares {
    enum yokei_shares_source { YOKEI_SHARES_EQUAL, YOKEI_SHARES_MEASURED, YOKEI_SHARES_GIVEN } source;
    uint32_t *of;    /* [size] the given shares, or the speeds */
    uint32_t *plain; /* [size + 1] the slices as given, or by the speeds alone */
    /* [size + 1] the slices by the speeds and by what else a rank does in an algorithm with stages */
    uint32_t *staged;
    /* [hosts.least + 1] the slices of the hierarchy's columns (hierarchy.c); all 0: no column would sum
       anything */
    uint32_t *columns;
    uint32_t *island_columns; /* [islands.least + 1] the same if the hierarchy runs by islands */
    /* What the configuration says, until the ranks are known. */
    uint32_t *wanted; /* [n_wanted]; NULL: the configuration says nothing */
    int n_wanted;
    bool of_the_job; /* the numbers are for the ranks of the job, not of the communicator */
    bool wanted_as_speeds;
};

#endif
