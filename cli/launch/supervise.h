/* SPDX-License-Identifier: Apache-2.0 */
/** The loop by which yoke run monitors a job. "We" is yoke run's process, as in watch.h. */
#ifndef CLI_LAUNCH_SUPERVISE_H
#define CLI_LAUNCH_SUPERVISE_H

#include "cli/launch/watch.h"

/** Monitor an agent that we have started. If it has a connection, we serve the connection from now on. */
void cli_watch_agent(struct cli_job *job, int r, pid_t agent);
/** Order the agents to end the ranks that still run, and to exit. End the agents that do not exit. */
void cli_dismiss(struct cli_job *job);
/** Monitor the job until every rank has ended and the launcher has exited. */
void cli_supervise(struct cli_job *job);

#endif
