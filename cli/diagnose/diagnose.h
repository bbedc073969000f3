/* SPDX-License-Identifier: Apache-2.0 */
/** yoke diagnose: where the time of a step went, which causes fit, and what to change. */
#ifndef CLI_DIAGNOSE_DIAGNOSE_H
#define CLI_DIAGNOSE_DIAGNOSE_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/report/record.h"
#include "train/diagnose/diagnose.h"
#include "train/plan/run_plan.h"
#include "train/timeline/timeline.h"

enum { DIAGNOSE_MOST_PROBLEMS = 12 };

/** A timeline that was read from a file, and the costs that follow from it. */
struct diagnose_timeline {
    struct yokei_timeline timeline;
    struct yokei_timeline_simulation simulation;
    double *sum_bytes, *hop_bytes, *flops; /* as in struct yokei_facts; operations of each rank in a step */
    bool is_there;
};

/** A run that is diagnosed, or a job of another program. */
struct diagnose_run {
    const char *name; /* the folder, or the first file */
    bool is_foreign;
    bool has_plan, has_rows;
    struct yokei_plan plan;
    struct report_record record;
    struct diagnose_timeline timeline;
    struct yokei_facts facts;
    int64_t *blocks, *shares;
    struct yokei_costs costs; /* of a foreign job */
    struct yokei_schedule schedule;
    double *sum_bytes, *hop_bytes;
    struct yokei_diagnosis found;
    char problems[DIAGNOSE_MOST_PROBLEMS][400]; /* what is missing or damaged, and what cannot be said */
    int n_problems;
};

/** Note a problem. */
void diagnose_problem(struct diagnose_run *run, const char *format, ...) YOKE_PRINTF(2, 3);

/* ---- read.c ---- */
/**
 * Read a run directory, and diagnose it. What is missing is noted in run_out->problems, and the rest is
 * diagnosed. YOKE_ENOMEM; YOKE_EDATA: nothing can be said. The caller calls diagnose_free() also after an
 * error.
 */
yoke_status diagnose_read(const char *folder, struct diagnose_run *run_out);
void diagnose_free(struct diagnose_run *run);

/* ---- timeline.c ---- */
/** Read a file of yoke train --trace. YOKE_EDATA says why it is not used. */
yoke_status diagnose_timeline_read(const char *path, struct diagnose_timeline *timeline_out);
void diagnose_timeline_free(struct diagnose_timeline *timeline);

/* ---- foreign.c ---- */
/** Read the timelines of a job of another program, and diagnose it. The errors are those of diagnose_read. */
yoke_status diagnose_foreign(char *const *paths, int n_paths, struct diagnose_run *run_out);

/* ---- text.c, json.c, apply.c ---- */
struct diagnose_shown {
    struct diagnose_run *run, *before; /* before: NULL without RUN_BEFORE */
    bool markdown, json;
};
void diagnose_text(const struct diagnose_shown *shown, FILE *to);
yoke_status diagnose_json(const struct diagnose_shown *shown, FILE *to);
/**
 * Write a file of options for yoke train -c, with the changes of the causes. YOKE_EUNSUPPORTED: no cause has
 * a change that an option makes.
 */
yoke_status diagnose_apply(const struct diagnose_run *run, const char *path);

#endif
