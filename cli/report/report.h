/* SPDX-License-Identifier: Apache-2.0 */
/** yoke report: one page about a run, two runs, or devices. */
#ifndef CLI_REPORT_REPORT_H
#define CLI_REPORT_REPORT_H

#include "cli/compare/runs.h"
#include "cli/report/page.h"
#include "train/run/step_parts.h"

/** How a rank spent the run, in seconds of each part. */
struct report_rank {
    char device[32];
    double parts[YOKEI_N_STEP_PARTS];
};

/** A run, and what its rows say about its ranks. */
struct report_run {
    struct compare_run *run;
    const char *side;                    /* "old" or "new", on a page of two runs */
    struct report_rank *ranks;           /* [n_ranks] */
    double (*parts)[YOKEI_N_STEP_PARTS]; /* [n_ranks] of the newest row */
    int64_t n_ranks, n_divided;          /* n_divided: rows that were divided into parts */
    double last_seconds;                 /* of the row before; NaN: there was none */
    bool lacks_parts;                    /* a row does not say for what a rank needed its time */
    /* Columns of the metrics, [run->metrics.n] each, in one allocation. */
    double *step, *loss, *smooth, *validation, *rate, *norm, *scale, *speed, *mfu;
    size_t window; /* rows of the smoothed loss */
};

/** What a path holds. */
enum report_kind { REPORT_RUN, REPORT_PLAN, REPORT_CONFIG, REPORT_TIMELINE, REPORT_OTHER };
enum report_kind report_kind_of(const char *path);

/** Pages. They write what they can, and their status says what was missing. */
/** `timeline` is a file of yoke train --trace. NULL: the one that the run directory names or has. */
yoke_status report_of_run(struct report_page *page, const char *folder, const char *timeline);
yoke_status report_of_plan(struct report_page *page, const char *path);
/** A configuration file that yoke plan takes. */
yoke_status report_of_config(struct report_page *page, const char *path);
yoke_status report_of_timeline(struct report_page *page, const char *path);
yoke_status report_of_two_runs(struct report_page *page, const char *const folders[2]);
enum { REPORT_MOST_FILES = 64 };
/**
 * Files of yoke bench kernels, verify, bench collectives and compare, in any mix; at most
 * REPORT_MOST_FILES.
 */
yoke_status report_of_devices(struct report_page *page, char *const paths[], int n_paths);

/* ---- rows.c ---- */
/** A visitor of rows. The context is a struct report_run. */
yoke_status report_add_row(void *context, const struct yokei_metrics_row *row);
/** Fill in the columns, after the rows were read. YOKE_ENOMEM. */
yoke_status report_columns(struct report_run *r);
void report_run_free(struct report_run *r);
/** The median of the finite values of a column; NaN: there are none. */
double report_median(const double *values, size_t n);
enum { REPORT_REAL = 32 };
/** A number for a sentence, with six digits; "unknown" for NaN and infinities. */
const char *report_real(double value, char out[REPORT_REAL]);
/** The same with four digits. A large number is rounded to an integer, and has no exponent. */
const char *report_short(double value, char out[REPORT_REAL]);
/** Bytes in the largest unit that is not larger than they are, such as "64 KiB". */
const char *report_bytes(double bytes, char out[REPORT_REAL]);
enum { REPORT_MOST_RANKS = 64 };
/**
 * Choose at most `most` of n ranks for a page: half of them have the least keys, and half of them the
 * largest. chosen_out gets the ranks in ascending order. Returns their number.
 */
int report_choose(const double *keys, int64_t n, int most, int64_t *chosen_out);
/** Say which ranks were chosen, if some were left out. `what` is such as "that compute". */
void report_chosen_text(struct report_page *page, int n, int64_t all, const char *what);
/** The share of a part in the time of a rank; NaN. */
double report_share(const struct report_rank *rank, int part);

/* ---- sections.c: sections that the pages of one run and of two runs have ---- */
void report_shares(struct report_page *page, const struct report_run *r);
void report_memory(struct report_page *page, const struct report_run *r);
/** What is missing of a run. The number of items is added to *n. */
void report_missing(struct report_page *page, const struct report_run *r, int *n);
/** One item more. The heading comes before the first one. The caller ends the list if *n is not 0. */
void report_missing_item(struct report_page *page, int *n, const char *text);
/** One sentence: the part that costs some rank the largest share of its time, computing aside. */
void report_waiting_text(const struct report_run *r, char *out, size_t bytes);

#endif
