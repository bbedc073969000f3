/* SPDX-License-Identifier: Apache-2.0 */
/** A verb's process as one rank of a job: MPI's start and end, options from rank 0, the record of an error. */
#ifndef CLI_LAUNCH_JOB_H
#define CLI_LAUNCH_JOB_H

#include "cli/cli.h"

/**
 * Start MPI, refuse when fewer ranks came up than the launcher was asked for, and give every rank the options that
 * rank 0 resolved. The only place of the command that blocks inside MPI. `heard_out` is true when another rank
 * reports the error: this one stays silent.
 */
yoke_status cli_job_start(uint32_t verb, int argc, char **argv, struct cli_context *context_out,
                          struct cli_options **options_out, bool *heard_out);
/** Whether the command was built with MPI; if not, no_mpi.c stands for what needs it. */
extern const bool cli_has_mpi;
/** After success: end MPI. */
yoke_status cli_job_end(void);

/** Whether yoke run collects this process's error; then the error is written to the rank's record. */
bool cli_job_report(yoke_status status, const char *text);

#endif
