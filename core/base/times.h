/* SPDX-License-Identifier: Apache-2.0 */
/** A clock and statistics for measurements. No library is needed. */
#ifndef CORE_BASE_TIMES_H
#define CORE_BASE_TIMES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/** Monotonic time in seconds, from an arbitrary beginning that all processes of the host share. */
static inline double yokei_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** Seconds since 1970. */
static inline double yokei_wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/** For qsort() of doubles: ascending order. No value may be NaN. */
static inline int yokei_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Sort ascending, in place. */
static inline void yokei_sort(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, yokei_by_value);
}

/**
 * The median of n values. If n is even, it is the mean of the two middle values. If n is 0, it is 0. The
 * function sorts the values.
 */
static inline double yokei_median(double *values, int n)
{
    if (n < 1) return 0;
    yokei_sort(values, n);
    return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

/** The same, but the values stay in their order. room: [n] */
static inline double yokei_median_in(double *room, const double *values, int n)
{
    memcpy(room, values, (size_t)n * sizeof *room);
    return yokei_median(room, n);
}

#endif
