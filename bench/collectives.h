/* SPDX-License-Identifier: Apache-2.0 */
/**
 * bench/collectives: the goals of the collectives as a table of rows. bench/collectives_rows.c says how to
 * add a row. Each row runs yoke bench collectives, whose option --beside measures a variant of Yoke too. The
 * limit is the time that no implementation can go below.
 */
#ifndef BENCH_COLLECTIVES_H
#define BENCH_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

/** The quantity that a goal compares with a value, for each line of a row's tables. */
enum quantity {
    TIMES_MPICH = 1, /* MPICH's time divided by Yoke's, at least */
    TIMES_OPENMPI,   /* Open MPI's time divided by Yoke's, at least */
    TIMES_BESIDE,    /* elements per second divided by those of --beside, at least */
    SHARE_OF_LIMIT,  /* the limit's time divided by Yoke's, at least */
    /* the larger of the limit's time and the time of --beside, divided by Yoke's, at least */
    SHARE_OF_SLOWER,
    AT_MOST_US,      /* Yoke's time in microseconds, at most */
    US_OVER_OPENMPI, /* Yoke's time minus Open MPI's, in microseconds, at most */
    US_OVER_BESIDE,  /* Yoke's time minus that of --beside, in microseconds, at most */
};

struct goal {
    enum quantity quantity;
    double value;
    size_t from, to; /* bytes from which and up to which the goal holds; to 0: no upper end */
    int ranks;       /* number of ranks for which the goal holds; 0: all numbers of the row */
};

enum { MOST_GOALS = 8, MOST_RANK_COUNTS = 8 };

struct row {
    const char *name, *title;
    int ranks[MOST_RANK_COUNTS]; /* ended by 0 */
    const char *collectives, *dtypes;
    const char *least, *most; /* bytes, in the form that the option takes */
    int factor;
    /* environment: words NAME=VALUE; launch: options of yoke run; both may be NULL */
    const char *environment, *launch;
    const char *options;           /* options of bench collectives */
    const char *openmpi;           /* options of Open MPI's mpiexec; NULL: Open MPI is not measured */
    bool neighbour;                /* collectives_neighbour.c makes rank 1's core slow; only for 2 ranks */
    const char *seconds;           /* seconds for each side of a line, per round; NULL: 0.5 */
    struct goal goals[MOST_GOALS]; /* ended by quantity 0 */
};
extern const struct row rows[]; /* a row without a name ends the table */

/**
 * Make every program that is started from now on run on two cores, the second of which is slow. This holds
 * until bench_neighbour_end. Returns NULL, or the reason why it is not possible.
 */
const char *bench_neighbour_begin(void);
void bench_neighbour_end(void);

#endif
