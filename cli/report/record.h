/* SPDX-License-Identifier: Apache-2.0 */
/** run.json of a run directory: the options with which the run was started, and its machines. */
#ifndef CLI_REPORT_RECORD_H
#define CLI_REPORT_RECORD_H

#include <jansson.h>

#include "cli/report/report.h"

struct report_record {
    json_t *root;      /* NULL: the file was not read */
    char problem[700]; /* why the file was not read; "": no problem */
};

/**
 * Read folder/run.json. Why it is not shown is noted in the problem. The caller calls report_record_free().
 */
void report_record_read(const char *folder, struct report_record *record_out);
void report_record_free(struct report_record *record);
/** A text of the record, or of its object `object`. NULL: there is none. */
const char *report_record_text(const struct report_record *record, const char *object, const char *key);
/** A text about a rank of the job. NULL: there is none. */
const char *report_record_of_rank(const struct report_record *record, int64_t rank, const char *key);
/** The first rank of the job whose device is emulated. -1: none, or unknown. */
int report_record_emulated(const struct report_record *record);
/**
 * The file of the timeline that the run wrote, or the file of its name in the run directory. False: none.
 */
bool report_record_timeline(const struct report_record *record, const char *folder, char *out, size_t bytes);

/** The commands that repeat the run. */
void report_repeat_section(struct report_page *page, const struct report_run *r,
                           const struct report_record *record);
/** The command that starts the run of a plan. */
void report_start_section(struct report_page *page, const struct yokei_plan *plan, const char *path);
/** Devices, machines and settings. */
void report_environment_section(struct report_page *page, const struct report_run *r,
                                const struct report_record *record);

#endif
