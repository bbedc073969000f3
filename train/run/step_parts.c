/* SPDX-License-Identifier: Apache-2.0 */
#include "train/run/step_parts.h"

#include <math.h>
#include <string.h>

#define NAME(id, name, words) name,
#define WORDS(id, name, words) words,
const char *const yokei_step_part_names[YOKEI_N_STEP_PARTS] = { YOKEI_STEP_PARTS(NAME) };
const char *const yokei_step_part_words[YOKEI_N_STEP_PARTS] = { YOKEI_STEP_PARTS(WORDS) };

/* A measured time. A value that is unknown, or that no clock can have measured, is 0. */
static double known(double seconds) { return isfinite(seconds) && seconds > 0 ? seconds : 0; }

/*
 * The time that a rank of a pipeline was idle between its first and its last pass, from its
 * bubble = 1 - busy / longest. Messages between the stages are part of it.
 */
static double bubble_of(const struct yokei_metrics_rank *r, bool has_pipeline)
{
    const double bubble = known(r->bubble),
                 idle = bubble < 1 ? known(r->busy_seconds) * bubble / (1 - bubble) : 0;
    return has_pipeline ? fmin(idle, known(r->exposed_communication_seconds)) : 0;
}

/* The least exposed communication of all ranks, without the bubble. */
static double least_exposed(const struct yokei_metrics_row *row, bool has_pipeline)
{
    double least = INFINITY;
    for (int64_t r = 0; r < row->n_ranks; r++) {
        const double exposed = row->ranks[r].exposed_communication_seconds;
        if (isfinite(exposed) && exposed >= 0)
            least = fmin(least, exposed - bubble_of(&row->ranks[r], has_pipeline));
    }
    return known(least);
}

/* Divide a step of one rank, whose row has the least exposed communication `least`. */
static void divide_rank(double seconds, const struct yokei_metrics_rank *r, double least, bool has_pipeline,
                        double parts_out[YOKEI_N_STEP_PARTS])
{
    const double bubble = bubble_of(r, has_pipeline),
                 exposed = known(r->exposed_communication_seconds) - bubble, network = fmin(least, exposed);
    const double measured[YOKEI_STEP_OTHER] = { [YOKEI_STEP_COMPUTE] = known(r->busy_seconds),
                                                [YOKEI_STEP_EXPOSED] = network,
                                                [YOKEI_STEP_BUBBLE] = bubble,
                                                [YOKEI_STEP_WAIT] = exposed - network,
                                                [YOKEI_STEP_DATA] = known(r->data_seconds),
                                                [YOKEI_STEP_CHECKPOINT] = known(r->checkpoint_seconds) };
    double left = seconds;
    for (int p = 0; p < YOKEI_STEP_OTHER; p++) {
        parts_out[p] = fmin(measured[p], left);
        left -= parts_out[p];
    }
    parts_out[YOKEI_STEP_OTHER] = left;
}

bool yokei_step_divide_row(double seconds, const struct yokei_metrics_row *row, bool has_pipeline,
                           double (*parts_out)[YOKEI_N_STEP_PARTS])
{
    if (!isfinite(seconds) || seconds <= 0 || row->n_ranks < 1) return false;
    const double least = least_exposed(row, has_pipeline);
    for (int64_t r = 0; r < row->n_ranks; r++)
        divide_rank(seconds, &row->ranks[r], least, has_pipeline, parts_out[r]);
    return true;
}

bool yokei_step_divide(double seconds, const struct yokei_metrics_row *row, int64_t rank, bool has_pipeline,
                       double parts_out[YOKEI_N_STEP_PARTS])
{
    memset(parts_out, 0, YOKEI_N_STEP_PARTS * sizeof *parts_out);
    if (!isfinite(seconds) || seconds <= 0 || rank < 0 || rank >= row->n_ranks) return false;
    divide_rank(seconds, &row->ranks[rank], least_exposed(row, has_pipeline), has_pipeline, parts_out);
    return true;
}
