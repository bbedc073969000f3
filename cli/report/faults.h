/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How a run ended, from the flight records in its run directory: who died first, and who waited for whom.
 */
#ifndef CLI_REPORT_FAULTS_H
#define CLI_REPORT_FAULTS_H

#include "cli/report/report.h"
#include "cli/show/trace.h"

struct report_faults {
    struct cli_trace trace;
    bool are_there;    /* there are flight records, and at least one can be read */
    bool failed;       /* a rank failed, died, or was lost */
    char problem[700]; /* a record that could not be read; "": none */
    int n_unreadable;  /* how many records could not be read */
};

/**
 * Read the flight records of a folder. YOKE_ENOMEM. The caller calls report_faults_free() also after an
 * error.
 */
yoke_status report_faults_read(const char *folder, struct report_faults *faults_out);
void report_faults_free(struct report_faults *faults);
/**
 * One line without faults, else a chart and tables. Without records, one line about a job of n_ranks > 1
 * ranks; nothing is written for one rank.
 */
void report_faults_section(struct report_page *page, const struct report_faults *faults, int64_t n_ranks);
/** What became of the run, in one sentence. */
void report_faults_text(const struct report_faults *faults, char *out, size_t bytes);

#endif
