/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A verb's process as one rank of a job: start and end of MPI, the options from rank 0, and the record of an
 * error.
 */
#ifndef CLI_LAUNCH_JOB_H
#define CLI_LAUNCH_JOB_H

#include "cli/cli.h"

/**
 * Start MPI. Fail if fewer ranks came up than the launcher was asked for. Rank 0 resolves the options of its
 * command line, and every rank gets them. This is the only place of the command that blocks inside MPI.
 * *reported_out is true if another rank reports the error, so this rank prints nothing.
 */
yoke_status cli_job_start(const struct cli_line *line, struct cli_context *context_out,
                          struct cli_options **options_out, bool *reported_out);
/** End MPI, after success. */
yoke_status cli_job_end(void);

/** Whether yoke run collects this process's error. If so, the error is written to the rank's record. */
bool cli_job_report(yoke_status status, const char *text);

/* ---- lost_file.c ---- */
/**
 * From now on, a mapped file that becomes shorter is reported as an error with its name, where the process
 * would die by SIGBUS otherwise. Call it before the first file is mapped. `is_rank`: if yoke run has started
 * this process as a rank, the error goes into the rank's record.
 */
void cli_report_lost_files(bool is_rank);

#endif
