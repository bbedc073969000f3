/* SPDX-License-Identifier: Apache-2.0 */
/**
 * When the supervisor ends ranks of a job. The loop in supervise.c calls these functions in each turn. They
 * end a rank that waits for another rank which will never come, and a rank that keeps others waiting. They
 * leave alone a rank that will detect the failure and report it by itself.
 */
#ifndef CLI_LAUNCH_END_RANKS_H
#define CLI_LAUNCH_END_RANKS_H

#include "cli/launch/watch.h"

/** End the ranks that called MPI_Abort. They do nothing more and wait to be ended. */
void cli_end_aborted(struct cli_job *job);
/**
 * End a rank that is stopped while others run, after `stall` seconds, or after three times as long if no rank
 * is starting. A job that is stopped as a whole is left alone.
 */
void cli_end_stopped(struct cli_job *job, double stall);
/** End a stopped rank soon if another rank waits for it inside MPI. */
void cli_end_awaited(struct cli_job *job);
/** `since_failure` seconds after the first failure: end the ranks that cannot detect it, or whose timeout
   has passed. */
void cli_end_the_rest(struct cli_job *job, double since_failure);
/** End the ranks that the others continued without, when all the others have ended. */
void cli_end_forgiven(struct cli_job *job);
/** Whether some ranks have ended and all that still run are stopped. */
bool cli_only_stopped_remain(const struct cli_job *job);

#endif
