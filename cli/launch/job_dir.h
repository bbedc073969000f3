/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The run directory as yoke run (the supervisor) and yoke rank (the agents) use it: besides the flight records, one
 * small file in which the supervisor writes what the agents shall do. Files are read anew each time, since the folder
 * may be shared between hosts.
 */
#ifndef CLI_LAUNCH_JOB_DIR_H
#define CLI_LAUNCH_JOB_DIR_H

#include <yoke/base.h>

enum cli_command {
    CLI_COMMAND_NONE,
    CLI_COMMAND_SIGNAL, /* send `argument` to the rank */
    CLI_COMMAND_KILL,   /* end rank `argument` now, -1: every rank */
    CLI_COMMAND_ABORT,  /* rank `argument` >> 8 has called MPI_Abort with the code `argument` & 255, and waits to be ended */
    CLI_COMMAND_LEAVE,  /* every rank has ended: leave */
};

/** The supervisor's latest order. Orders are numbered, so that an agent carries each out once. */
yoke_status cli_order_write(const char *folder, int number, enum cli_command command, int argument);
/** The orders after `number`, one at a time: false when there is none. */
bool cli_order_read(const char *folder, int number, enum cli_command *command_out, int *argument_out);

/** An agent's refusal to start its rank: the first to refuse is heard. */
void cli_refuse(const char *folder, const char *text);
/** The text of a refusal; false when there is none. */
bool cli_refused(const char *folder, char *text_out, size_t bytes);

/** Which process is the agent of a rank, on which host, and whether that is this one. */
yoke_status cli_agent_write(const char *folder, int rank);
bool cli_agent_read(const char *folder, int rank, int *pid_out, bool *here_out, char *host_out, size_t bytes);

/** Remove what only a running job needs; with `records` the flight records too. */
void cli_job_dir_clean(const char *folder, int n_ranks, bool records);

#endif
