/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A timeline of some steps of all ranks. It is collected on rank 0, compared with the simulator, and written
 * for chrome://tracing and Perfetto. timeline.c collects the timeline, costs.c converts it into the
 * simulator's costs and simulates, and json.c writes the file.
 */
#ifndef TRAIN_TIMELINE_TIMELINE_H
#define TRAIN_TIMELINE_TIMELINE_H

#include <stdio.h>
#include "parallel/mesh.h"
#include "parallel/simulate.h"

/** An instruction of a rank's step program. */
struct yokei_timeline_instruction {
    int kind, layer, micro_batch, chunk, bucket, stream, recomputes;
    double flops, bytes; /* as its ops state them; for messages and sums, the data that they carry */
    double memory;       /* bytes of the rank's memory that are in use while it runs */
};
enum { YOKEI_TIMELINE_WORDS = 10 }; /* doubles in the message of one instruction */

/**
 * Seconds of rank 0's clock since the timeline's origin. `posted` is NaN if the instruction did not run in
 * that step.
 */
struct yokei_timeline_span {
    double posted, begin, returned, end;
};

struct yokei_timeline_rank {
    char host[64], device[32];
    int d, s, t;
    /*
     * seconds that were added to the rank's clock, and their possible error; both 0: the same clock as rank 0
     */
    double clock_offset, clock_error;
    int n;
    struct yokei_timeline_instruction *list;
    struct yokei_timeline_span *span; /* [n_steps][n] */
};

struct yokei_timeline {
    struct yokei_mesh mesh;
    int n_ranks, n_steps;
    int64_t first_step;
    const yoke_layer *const *layers;
    struct yokei_timeline_rank *rank;
};
static inline struct yokei_timeline_span *yokei_timeline_span_of(const struct yokei_timeline *t, int rank,
                                                                 int step, int n)
{
    return &t->rank[rank].span[(size_t)step * (size_t)t->rank[rank].n + (size_t)n];
}

/** The result of the comparison with the simulator. All values are medians over the steps. */
struct yokei_timeline_summary {
    int n_steps;
    double measured, simulated; /* seconds of a step, from the first instruction of any rank to the last */
    double bubble_measured, bubble_simulated;
    double compute; /* seconds in which the busiest rank computes: passes, zeroing, norms, optimizer */
    /* seconds of that rank's sums, messages and agreement; each counts from the moment when all its ranks are
     * there */
    double communication;
    double clock_error; /* the largest of all ranks */
};

/** The simulated step of a timeline. */
struct yokei_timeline_simulation {
    struct yokei_schedule schedule; /* one line per stage of each replica */
    struct yokei_costs costs;
    struct yokei_simulated simulated;
    /* [lines][instructions of the line's first rank]; only begin and end are set */
    struct yokei_timeline_span **span;
    int n_lines;
    struct yokei_timeline_summary summary;
};
/** YOKE_ENOMEM; YOKE_ECONFIG if the timeline does not follow a schedule. */
yoke_status yokei_timeline_simulate(const struct yokei_timeline *timeline,
                                    struct yokei_timeline_simulation *simulation_out);
void yokei_timeline_simulation_free(struct yokei_timeline_simulation *simulation);

/** Write the timeline and the simulation as JSON text. */
void yokei_timeline_json(const struct yokei_timeline *timeline,
                         const struct yokei_timeline_simulation *simulation, FILE *to);

/* ---- collecting a timeline during a run ---- */
struct yokei_collector; /* one per rank */
/**
 * Create the collector of n_steps steps, beginning with first_step. Only rank 0 uses `path`, the file for the
 * timeline.
 */
yoke_status yokei_collector_create(const char *path, int64_t first_step, int n_steps, yoke_trainer *trainer,
                                   struct yokei_collector **collector_out);
void yokei_collector_free(struct yokei_collector *collector);
/** Call these functions before and after each step. */
void yokei_collector_before(struct yokei_collector *collector, int64_t step);
yoke_status yokei_collector_behind(struct yokei_collector *collector, int64_t step);
/** Whether all requested steps are recorded. */
bool yokei_collector_is_full(const struct yokei_collector *collector);
/**
 * Collect the timeline on rank 0, simulate, and write the file. Collective; call it once. An error that
 * prevents the file does not end the run. It is stored for yokei_collector_status.
 */
yoke_status yokei_collector_finish(struct yokei_collector *collector);
/** Whether the file could be written. All ranks get the same answer. Collective. */
yoke_status yokei_collector_status(struct yokei_collector *collector);
/** The summary on rank 0 after yokei_collector_finish; NULL: there is none. */
const struct yokei_timeline_summary *yokei_collector_summary(const struct yokei_collector *collector);

#endif
