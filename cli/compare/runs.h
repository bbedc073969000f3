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
    yokei_metrics_visit *visit; /* called with each row while metrics.jsonl is read; NULL */
    void *visit_context;
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

/* ---- runs.c, also for yoke report ---- */
/**
 * Read plan.json and metrics.jsonl of run->folder. What is missing or damaged is noted in the problems.
 * YOKE_ENOMEM. The caller calls compare_run_free() also after an error.
 */
yoke_status compare_run_read(struct compare_run *run);
void compare_run_free(struct compare_run *run);
/** The difference of two losses, relative to the old one. 0 if both are NaN. */
double compare_relative(double old, double new);
/**
 * Read the two runs of curves->request, and compare their plans and losses. The caller has set the request,
 * and the visitors of the runs. YOKE_ENOMEM. The caller calls compare_curves_free() also after an error.
 */
yoke_status compare_curves_read(struct compare_curves *curves);
void compare_curves_free(struct compare_curves *curves);

/* ---- runs_text.c ---- */
/** What differs between two plans in one of curves->plan_differences; free() it. NULL: no memory. */
char *compare_difference_text(const json_t *difference);
void compare_runs_text(const struct compare_curves *curves, FILE *to);
/** Takes over no reference. */
yoke_status compare_runs_json(const struct compare_curves *curves, FILE *to);

#endif
