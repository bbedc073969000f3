/* SPDX-License-Identifier: Apache-2.0 */
/** The step of a run as a model: what the simulator needs, and what comes before and after. */
#ifndef TRAIN_DIAGNOSE_MODEL_H
#define TRAIN_DIAGNOSE_MODEL_H

#include "train/diagnose/diagnose.h"

/** A state of the model. Causes are taken away from a copy of it. */
struct yokei_step_model {
    const struct yokei_facts *facts;
    struct yokei_costs costs;         /* its own */
    struct yokei_schedule schedule;   /* its own */
    double *sum_bytes, *hop_bytes;    /* [lines][n_sums] and [lines] */
    double *busy;                     /* [n_ranks] seconds of the passes of each rank */
    double data, checkpoint, compile; /* seconds of a step, on the rank with most */
    double rest;                      /* seconds of a step that the model does not explain */
    bool has_sums;                    /* the costs of messages and sums are known */
    double latency;                   /* seconds of the smallest exchange; 0: unknown */
    double sum_latency;               /* seconds of a sum of no bytes; 0: unknown */
    int micro_batches;                /* of a replica; the most of all */
};
yoke_status yokei_step_model_create(const struct yokei_facts *facts, struct yokei_step_model *state_out);
yoke_status yokei_step_model_copy(const struct yokei_step_model *from, struct yokei_step_model *state_out);
void yokei_step_model_free(struct yokei_step_model *state);
/** The seconds of the step. */
yoke_status yokei_step_model_seconds(const struct yokei_step_model *state, double *seconds_out);
/** Give the ranks other times of their passes: busy [n_ranks]. */
void yokei_step_model_set_busy(struct yokei_step_model *state, const double *busy);
/** The seconds of all passes of a line. */
double yokei_step_model_passes(const struct yokei_step_model *state, int line);
/** `factor` times as many micro-batches (2, 4, 0.5). YOKE_ECONFIG: the schedule does not allow it. */
yoke_status yokei_step_model_micro_batches(struct yokei_step_model *state, double factor);
/** Other buckets, all of the same size: n of each line. */
yoke_status yokei_step_model_buckets(struct yokei_step_model *state, int n);
static inline int yokei_step_model_lines(const struct yokei_step_model *s)
{
    return s->facts->data * s->facts->pipeline;
}

#endif
