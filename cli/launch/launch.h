/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The two ways in which yoke run starts a job's agents. An agent is the process that starts one rank and
 * watches it.
 */
#ifndef CLI_LAUNCH_LAUNCH_H
#define CLI_LAUNCH_LAUNCH_H

#include "cli/cli.h"
#include "cli/launch/watch.h"

/**
 * Yoke run starts the agents itself, on this host. The agents are its children. The ranks speak PMI-1 with it
 * over inherited sockets (pmi.h), so no port is open. The function sets job->pmi. The caller must have
 * blocked all signals that the job takes.
 */
yoke_status cli_spawn_start(const struct cli_context *context, struct cli_job *job);
/** Release everything that cli_spawn_start acquired. All agents must have ended. */
void cli_spawn_end(struct cli_job *job);

/** MPICH's mpiexec starts the agents. `launcher` is its name or path. */
yoke_status cli_hydra_start(const struct cli_context *context, const char *launcher, struct cli_job *job);
/** Wait until the output of the ranks has been passed on. */
void cli_hydra_end(struct cli_job *job);

#endif
