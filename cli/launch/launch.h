/* SPDX-License-Identifier: Apache-2.0 */
/** The two ways in which yoke run starts a job's agents. */
#ifndef CLI_LAUNCH_LAUNCH_H
#define CLI_LAUNCH_LAUNCH_H

#include "cli/cli.h"
#include "cli/launch/supervise.h"

/**
 * By yoke run itself, on this host: agents are its children, ranks speak PMI-1 with it over inherited sockets (pmi.h), and nothing
 * listens. job->pmi is there then. All signals that the job takes must be blocked.
 */
yoke_status cli_spawn_start(const struct cli_context *context, struct cli_job *job);
/** After all agents have ended, or were ended: give back what the start took. */
void cli_spawn_end(struct cli_job *job);

/** By MPICH's mpiexec. `launcher` is its name or path. */
yoke_status cli_hydra_start(const struct cli_context *context, const char *launcher, struct cli_job *job);
/** Wait until what the ranks wrote has been passed on. */
void cli_hydra_end(struct cli_job *job);

#endif
