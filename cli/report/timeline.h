/* SPDX-License-Identifier: Apache-2.0 */
/** One step of all ranks, measured and simulated, from a file of yoke train --trace. */
#ifndef CLI_REPORT_TIMELINE_H
#define CLI_REPORT_TIMELINE_H

#include "cli/report/lanes.h"

/**
 * The kinds of boxes of steps, which timelines and schedules share: K(id, name, colour, top, height,
 * track).
 */
#define REPORT_WORK_KINDS(K)                            \
    K(F, "F, forward", 0, 0, 70, 0)                     \
    K(B, "B, gradient of the input", 2, 20, 50, 0)      \
    K(W, "W, gradient of the weights", 3, 0, 45, 0)     \
    K(R, "R, forward again", 4, 35, 35, 0)              \
    K(OTHER, "zeroing, norms, optimizer", 6, 25, 20, 0) \
    K(MESSAGE, "messages and sums", 1, 78, 22, 1)
#define REPORT_WORK_KIND(id, ...) REPORT_WORK_##id,
enum report_work_kind { REPORT_WORK_KINDS(REPORT_WORK_KIND) REPORT_N_WORK_KINDS };
#undef REPORT_WORK_KIND
extern const struct lane_kind report_work_kinds[REPORT_N_WORK_KINDS];

struct timeline_rank {
    char name[160];
    struct lane lanes[2]; /* measured, simulated */
    double busy[2];       /* seconds in which the rank computes */
};

struct report_timeline {
    const char *path;
    char problem[700];     /* why the file was not read; "": no problem */
    int64_t n_damaged;     /* events without a place or a time */
    int64_t n_steps, step; /* number of measured steps, and the step that is shown */
    /* seconds of that step, from the first instruction of any rank to the last, measured and simulated */
    double seconds[2];
    /* medians of all measured steps, as the file says; NaN: unknown */
    double median[2], bubble[2];
    struct timeline_rank *ranks;
    int n_ranks;
};

/**
 * Read a file. Why a file is not shown is noted in timeline_out->problem, with status YOKE_OK. The shown
 * step is the one that took the time nearest to the median. YOKE_ENOMEM. The caller calls
 * report_timeline_free() also after an error.
 */
yoke_status report_timeline_read(const char *path, struct report_timeline *timeline_out);
void report_timeline_free(struct report_timeline *timeline);
/** Say how many events were left out, if any. */
void report_timeline_damage(struct report_page *page, const struct report_timeline *timeline);
/** The section: a chart and a table. Nothing is written if the file was not read. */
void report_timeline_section(struct report_page *page, struct report_timeline *timeline);
/**
 * The rank that computes least of its step, and the share of the step in which it computes nothing. -1:
 * none.
 */
int report_timeline_idlest(const struct report_timeline *timeline, int which, double *share_out);

#endif
