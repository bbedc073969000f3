/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The run directory, as yoke run (the supervisor) and yoke rank (the agents) use it. The directory holds the
 * flight records and one small file with the supervisor's orders to the agents. Files are read again each
 * time, because hosts may share the folder.
 */
#ifndef CLI_LAUNCH_JOB_DIR_H
#define CLI_LAUNCH_JOB_DIR_H

#include <yoke/base.h>

enum cli_command {
    CLI_COMMAND_NONE,
    CLI_COMMAND_SIGNAL, /* send `argument` to the rank */
    CLI_COMMAND_KILL,   /* end rank `argument` now; -1: every rank */
    /* rank `argument` >> 8 has called MPI_Abort with the code `argument` & 255, and waits to be ended */
    CLI_COMMAND_ABORT,
    CLI_COMMAND_LEAVE, /* every rank has ended: exit */
};

/**
 * Write the supervisor's latest order. Orders are numbered, so that an agent carries out each of them once.
 */
yoke_status cli_order_write(const char *folder, int number, enum cli_command command, int argument);
/** Read the first order after `number`. False: there is none. */
bool cli_order_read(const char *folder, int number, enum cli_command *command_out, int *argument_out);

/** Record that an agent refuses to start its rank. Only the first refusal is kept. */
void cli_refuse(const char *folder, const char *text);
/** Read the text of a refusal. False: there is none. */
bool cli_refused(const char *folder, char *text_out, size_t bytes);

/**
 * Write, or read, which process is the agent of a rank, when that process started (yokei_process_state), on
 * which host it runs, and whether that host is this one.
 */
yoke_status cli_agent_write(const char *folder, int rank);
bool cli_agent_read(const char *folder, int rank, int *pid_out, uint64_t *start_out, bool *here_out,
                    char *host_out, size_t bytes);

/** Write the file devices: what --devices auto decided. */
yoke_status cli_devices_write(const char *folder, const char *text);
/**
 * Write, or read, the text of the file cores-ID of this host (cores.h). False: there is none. The job's other
 * hosts have files of their own in the same folder.
 */
yoke_status cli_cores_write(const char *folder, const char *text);
bool cli_cores_read(const char *folder, char *text_out, size_t bytes);

/** Remove the files that only a running job needs. With `records`, remove the flight records too. */
void cli_job_dir_clean(const char *folder, int n_ranks, bool records);

#endif
