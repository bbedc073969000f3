/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A trace of some steps of all ranks. It is collected on rank 0, compared with the simulator, and written for
 * chrome://tracing and Perfetto. timeline.c collects the trace, costs.c converts it into the simulator's
 * costs and simulates, and json.c writes the file.
 */
#ifndef TRAIN_TIMELINE_TIMELINE_H
#define TRAIN_TIMELINE_TIMELINE_H

#include <stdio.h>
#include "parallel/mesh.h"
#include "parallel/simulate.h"

/** An instruction of a rank's step program. */
struct yokei_trace_instruction {
    int kind, layer, micro_batch, chunk, bucket, stream, recomputes;
    double flops, bytes; /* as its ops state them; for messages and sums, the data that they carry */
    double memory;       /* bytes of the rank's memory that are in use while it runs */
};
enum { YOKEI_TRACE_WORDS = 10 }; /* doubles in the message of one instruction */

/**
 * Seconds of rank 0's clock since the trace's origin. `posted` is NaN if the instruction did not run in that
 * step.
 */
struct yokei_trace_span {
    double posted, begin, returned, end;
};

struct yokei_trace_rank {
    char host[64], device[32];
    int d, s, t;
    /*
     * seconds that were added to the rank's clock, and their possible error; both 0: the same clock as rank 0
     */
    double clock_offset, clock_error;
    int n;
    struct yokei_trace_instruction *list;
    struct yokei_trace_span *span; /* [n_steps][n] */
};

struct yokei_trace {
    struct yokei_mesh mesh;
    int n_ranks, n_steps;
    int64_t first_step;
    const yoke_layer *const *layers;
    struct yokei_trace_rank *rank;
};
static inline struct yokei_trace_span *yokei_trace_span_of(const struct yokei_trace *t, int rank, int step,
                                                           int n)
{
    return &t->rank[rank].span[(size_t)step * (size_t)t->rank[rank].n + (size_t)n];
}

/** The result of the comparison with the simulator. All values are medians over the steps. */
struct yokei_trace_summary {
    int n_steps;
    double measured, simulated; /* seconds of a step, from the first instruction of any rank to the last */
    double bubble_measured, bubble_simulated;
    double compute; /* seconds in which the busiest rank computes: passes, zeroing, norms, optimizer */
    /* seconds of that rank's sums, messages and agreement; each counts from the moment when all its ranks are
     * there */
    double communication;
    double clock_error; /* the largest of all ranks */
};

/** The simulated step of a trace. */
struct yokei_trace_simulation {
    struct yokei_schedule schedule; /* one line per stage of each replica */
    struct yokei_costs costs;
    struct yokei_timeline timeline;
    struct yokei_trace_span *
        *span; /* [lines][instructions of the line's first rank]; only begin and end are set */
    int n_lines;
    struct yokei_trace_summary summary;
};
/** YOKE_ENOMEM; YOKE_ECONFIG if the trace does not follow a schedule. */
yoke_status yokei_trace_simulate(const struct yokei_trace *trace,
                                 struct yokei_trace_simulation *simulation_out);
void yokei_trace_simulation_free(struct yokei_trace_simulation *simulation);

/** Write the trace and the simulation as JSON text. */
void yokei_trace_json(const struct yokei_trace *trace, const struct yokei_trace_simulation *simulation,
                      FILE *to);

/* ---- collecting a trace during a run ---- */
struct yokei_tracer; /* one per rank */
/**
 * Create the tracer of n_steps steps, beginning with first_step. Only rank 0 uses `path`, the file for the
 * trace.
 */
yoke_status yokei_tracer_create(const char *path, int64_t first_step, int n_steps, yoke_trainer *trainer,
                                struct yokei_tracer **tracer_out);
void yokei_tracer_free(struct yokei_tracer *tracer);
/** Call these functions before and after each step. */
void yokei_tracer_before(struct yokei_tracer *tracer, int64_t step);
yoke_status yokei_tracer_behind(struct yokei_tracer *tracer, int64_t step);
/** Whether all requested steps are recorded. */
bool yokei_tracer_is_full(const struct yokei_tracer *tracer);
/**
 * Collect the trace on rank 0, simulate, and write the file. Collective; call it once. An error that prevents
 * the file does not end the run. It is stored for yokei_tracer_status.
 */
yoke_status yokei_tracer_finish(struct yokei_tracer *tracer);
/** Whether the file could be written. All ranks get the same answer. Collective. */
yoke_status yokei_tracer_status(struct yokei_tracer *tracer);
/** The summary on rank 0 after yokei_tracer_finish; NULL: there is none. */
const struct yokei_trace_summary *yokei_tracer_summary(const struct yokei_tracer *tracer);

#endif
