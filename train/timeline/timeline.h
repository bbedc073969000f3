/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A trace of some steps of all ranks: collected on rank 0, held against the simulator, and written for chrome://tracing and Perfetto.
 * timeline.c collects, costs.c turns it into the simulator's costs and simulates, json.c writes.
 */
#ifndef TRAIN_TIMELINE_TIMELINE_H
#define TRAIN_TIMELINE_TIMELINE_H

#include <stdio.h>
#include "parallel/mesh.h"
#include "parallel/simulate.h"

/** An instruction of a rank's step program. */
struct yokei_trace_instruction {
    int kind, layer, micro_batch, chunk, bucket, stream, recomputes;
    double flops, bytes; /* as its ops state them; of messages and sums what they carry */
    double memory;       /* bytes of the rank's memory that are in use while it runs */
};
enum { YOKEI_TRACE_WORDS = 10 }; /* doubles that an instruction is sent as */

/** Seconds of rank 0's clock since the trace's origin. `posted` NaN: it did not run in that step. */
struct yokei_trace_span {
    double posted, begin, returned, end;
};

struct yokei_trace_rank {
    char host[64], device[32];
    int d, s, t;
    double clock_offset, clock_error; /* seconds that were added to its clock, and how far off that may be; both 0: one clock */
    int n;
    struct yokei_trace_instruction *list;
    struct yokei_trace_span *span;    /* [n_steps][n] */
};

struct yokei_trace {
    struct yokei_mesh mesh;
    int n_ranks, n_steps;
    int64_t first_step;
    const yoke_layer *const *layers;
    struct yokei_trace_rank *rank;
};
static inline struct yokei_trace_span *yokei_trace_span_of(const struct yokei_trace *t, int rank, int step, int n)
{
    return &t->rank[rank].span[(size_t)step * (size_t)t->rank[rank].n + (size_t)n];
}

/** What comes of holding it against the simulator. Medians over the steps. */
struct yokei_trace_summary {
    int n_steps;
    double measured, simulated;           /* seconds of a step: from its first instruction to its last, of all ranks */
    double bubble_measured, bubble_simulated;
    double compute;                       /* seconds that the busiest rank computes: passes, zeroing, norms, optimizer */
    double communication;                 /* seconds of that rank's sums, messages and the agreement, each from when all were there */
    double clock_error;                   /* the largest of all ranks */
};

/** The simulated step, beside the trace it was made from. */
struct yokei_trace_simulation {
    struct yokei_schedule schedule;       /* a line per stage of each replica */
    struct yokei_costs costs;
    struct yokei_timeline timeline;
    struct yokei_trace_span **span;       /* [lines][instructions of the line's first rank]; only begin and end */
    int n_lines;
    struct yokei_trace_summary summary;
};
/** YOKE_ENOMEM; YOKE_ECONFIG where the trace is of no schedule. */
yoke_status yokei_trace_simulate(const struct yokei_trace *trace, struct yokei_trace_simulation *simulation_out);
void yokei_trace_simulation_free(struct yokei_trace_simulation *simulation);

/** As JSON text. */
void yokei_trace_json(const struct yokei_trace *trace, const struct yokei_trace_simulation *simulation, FILE *to);

/* ---- collecting, during a run ---- */
struct yokei_tracer; /* one per rank */
/** Trace `n_steps` steps from `first_step` on into the file `path`, of which only rank 0 makes use. */
yoke_status yokei_tracer_create(const char *path, int64_t first_step, int n_steps, yoke_trainer *trainer, struct yokei_tracer **tracer_out);
void yokei_tracer_free(struct yokei_tracer *tracer);
/** Before a step, and behind it. */
void yokei_tracer_before(struct yokei_tracer *tracer, int64_t step);
yoke_status yokei_tracer_behind(struct yokei_tracer *tracer, int64_t step);
/** Whether all steps are there that shall be. */
bool yokei_tracer_is_full(const struct yokei_tracer *tracer);
/**
 * Collect on rank 0, simulate, and write. Collective, once. What keeps the file from being written does not end the run: it is kept
 * for yokei_tracer_status.
 */
yoke_status yokei_tracer_finish(struct yokei_tracer *tracer);
/** Whether the file could be written. On all ranks alike. Collective. */
yoke_status yokei_tracer_status(struct yokei_tracer *tracer);
/** On rank 0, once it is finished; NULL: there is none. */
const struct yokei_trace_summary *yokei_tracer_summary(const struct yokei_tracer *tracer);

#endif
