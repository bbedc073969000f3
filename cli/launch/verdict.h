/* SPDX-License-Identifier: Apache-2.0 */
/** What yoke run prints and returns about a job: verdicts on ranks, and the result of the whole job. */
#ifndef CLI_LAUNCH_VERDICT_H
#define CLI_LAUNCH_VERDICT_H

#include "cli/launch/watch.h"

/** Which ranks the start of the job waits for, and where: "ranks 2-3 did not come up (2 of 4 did)". */
const char *cli_start_text(const struct cli_job *job, char *out, size_t bytes);
/**
 * Print at once that a rank died or is stopped, and what follows. The error is printed when the job has
 * ended.
 */
void cli_report_death(const struct cli_job *job, int r);
/** The result of the job: YOKE_OK, or one error that names the rank at fault. */
yoke_status cli_verdict(const struct cli_job *job);
/**
 * For a job that was interrupted and failed: whether the signal was the cause. False: a rank failed by itself
 * meanwhile.
 */
bool cli_ended_as_asked(const struct cli_job *job);

#endif
