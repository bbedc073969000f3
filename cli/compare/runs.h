/* SPDX-License-Identifier: Apache-2.0 */
/** yoke compare RUN RUN: two training runs, side by side. */
#ifndef CLI_COMPARE_RUNS_H
#define CLI_COMPARE_RUNS_H

#include "cli/compare/compare.h"
#include "train/plan/run_plan.h"
#include "train/run/metrics.h"

/** One of the two run directories. */
struct compare_run {
    const char *folder;
    bool has_plan;
    struct yokei_plan plan;
    struct yokei_metrics_rows metrics;
    char plan_problem[600], metrics_problem[600]; /* why a file was not read, or not wholly; "": no problem */
    double tokens_per_second;                     /* median of all steps; NaN: not known */
    double loss;                                  /* of the last step; NaN */
    double validation_loss;                       /* the last one that was measured; NaN */
    int64_t validation_step;
    double memory, largest_memory; /* bytes of all ranks, and of the rank with the most; 0: not known */
};

/** A difference of two losses. */
struct compare_loss {
    int64_t step; /* 0: there is none */
    double loss[2], relative;
    double gate; /* the relative difference that is allowed at this step */
};

struct compare_curves {
    const struct compare_request *request;
    struct compare_run runs[2];
    json_t *plan_differences; /* a list of {key, old, new}: what gives the runs other losses by intention */
    int64_t n_common, first_step; /* steps that both runs have, and the first of them */
    int64_t first_other;          /* the first step with another loss; 0: none */
    int64_t rates_part;           /* the first step with another learning rate; 0: none */
    int64_t gate_steps;           /* steps from first_other on for which yoke parity has a gate */
    int64_t n_early, n_later;     /* steps that were held to the gate of yoke parity, and to --loss-gate */
    struct compare_loss early, later, parted; /* the largest of each, and the first above its gate */
    bool held;                                /* the plans allow a gate */
};

/* ---- runs_text.c ---- */
void compare_runs_text(const struct compare_curves *curves, FILE *to);
/** Takes over no reference. */
yoke_status compare_runs_json(const struct compare_curves *curves, FILE *to);

#endif
