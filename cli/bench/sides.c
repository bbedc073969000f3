/* SPDX-License-Identifier: Apache-2.0 */
/* Measure several sides in turn. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/sides.h"
#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST_CALLS = 10000 };
static const double LEAST_SAMPLE = 1e-3, WARM = 5e-3;

static yoke_status time_calls(struct kernels_side *side, int n, double *seconds_out)
{
    const uint64_t start = yokei_now_ns();
    YOKE_TRY(side->run(side->context, n));
    *seconds_out = (double)(yokei_now_ns() - start) * 1e-9;
    return YOKE_OK;
}

/*
 * Find how many calls make a sample. The first call may compile. The next calls find the caches as the call
 * before left them, and give the time of a call.
 */
static yoke_status prepare_sample(struct kernels_side *side, double *sample_out)
{
    double seconds = 0, spent = 0;
    int calls = 0;
    YOKE_TRY(time_calls(side, 1, &seconds));
    do {
        YOKE_TRY(time_calls(side, 1, &seconds));
        spent += seconds;
    } while (++calls < 20 && spent < WARM);
    const double one = fmax(spent / calls, 1e-8);
    side->n_calls = (int)fmin(MOST_CALLS, fmax(1, ceil(LEAST_SAMPLE / one)));
    *sample_out = one * side->n_calls;
    /* The host's wait for a GPU can take longer than the call, so a sample may need more calls. */
    while (side->n_calls > 1 && side->n_calls < MOST_CALLS) {
        YOKE_TRY(time_calls(side, side->n_calls, sample_out));
        if (*sample_out >= 0.8 * LEAST_SAMPLE) break;
        side->n_calls = (int)fmin(MOST_CALLS, ceil(side->n_calls * LEAST_SAMPLE / fmax(*sample_out, 1e-8)));
    }
    return YOKE_OK;
}

double kernels_ratio(const double *x, const double *y, int n)
{
    double ratios[KERNELS_MOST_ROUNDS];
    for (int i = 0; i < n; i++) ratios[i] = x[i] / y[i];
    return yokei_median(ratios, n);
}

double kernels_least_ratio(const double *x, const double *y, int n)
{
    double least_x = x[0], least_y = y[0];
    for (int i = 1; i < n; i++) least_x = fmin(least_x, x[i]), least_y = fmin(least_y, y[i]);
    return least_x / least_y;
}

yoke_status kernels_measure(struct kernels_side *sides, int n_sides, double budget, int *rounds_out)
{
    double round = 0, sample;
    for (int s = 0; s < n_sides; s++) {
        YOKE_TRY(prepare_sample(&sides[s], &sample));
        round += sample;
    }
    const int rounds = (int)fmin(KERNELS_MOST_ROUNDS, fmax(KERNELS_LEAST_ROUNDS, budget / round));
    for (int r = 0; r < rounds; r++)
        for (int s = 0; s < n_sides; s++) {
            YOKE_TRY(time_calls(&sides[s], sides[s].n_calls, &sample));
            sides[s].times[r] = sample / sides[s].n_calls;
        }
    double room[KERNELS_MOST_ROUNDS];
    for (int s = 0; s < n_sides; s++) sides[s].median = yokei_median_in(room, sides[s].times, rounds);
    *rounds_out = rounds;
    return YOKE_OK;
}

void kernels_time_text(double seconds, char *out, size_t bytes)
{
    yokei_text(out, bytes,
               seconds < 1e-5   ? "%.2f us"
               : seconds < 1e-3 ? "%.1f us"
                                : "%.0f us",
               seconds * 1e6);
}
