/* SPDX-License-Identifier: Apache-2.0 */
/** bench/collectives: the goals of the collectives as a table of rows; see bench/collectives_rows.c to add one. */
#ifndef BENCH_COLLECTIVES_H
#define BENCH_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

/** What is asked of Yoke's time, per line of a row's tables. */
enum quantity {
    TIMES_MPICH = 1,   /* MPICH's time over Yoke's, at least */
    TIMES_OPENMPI,     /* Open MPI's time over Yoke's, at least */
    TIMES_BESIDE,      /* elements per second over those of --beside, at least */
    SHARE_OF_LIMIT,    /* the limit's time over Yoke's, at least */
    SHARE_OF_SLOWER,   /* the larger of the limit's time and that of --beside over Yoke's, at least */
    AT_MOST_US,        /* Yoke's time in microseconds */
    US_OVER_OPENMPI,   /* Yoke's time less Open MPI's, at most */
    US_OVER_BESIDE,    /* Yoke's time less that of --beside, at most */
};

struct goal {
    enum quantity quantity;
    double value;
    size_t from, to; /* bytes for which it holds; to 0: without end */
    int ranks;       /* for which it holds; 0: all of the row */
};

enum { MOST_GOALS = 8, MOST_RANK_COUNTS = 8 };

struct row {
    const char *name, *title;
    int ranks[MOST_RANK_COUNTS];                      /* ended by 0 */
    const char *collectives, *dtypes;
    const char *least, *most;                         /* bytes, as the option takes them */
    int factor;
    const char *environment, *launch;                 /* NAME=VALUE words; options of yoke run; either may be NULL */
    const char *options;                              /* of bench collectives */
    const char *openmpi;                              /* options of its mpiexec; NULL: it is not asked */
    bool neighbour;                                   /* rank 1's core is made slow: collectives_neighbour.c; for 2 ranks */
    const char *seconds;                              /* for each side of a line, per round; NULL: 0.5 */
    struct goal goals[MOST_GOALS];                    /* ended by quantity 0 */
};
extern const struct row rows[]; /* ended by a row without a name */

/** From now on what is started runs on two cores, the second of which is slow; NULL, or why that cannot be. Until the end. */
const char *bench_neighbour_begin(void);
void bench_neighbour_end(void);

#endif
