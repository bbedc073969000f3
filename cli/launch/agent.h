/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The agent of one rank. It starts the rank, records in the rank's flight record that it stopped, goes on or ended, does what the
 * supervisor (yoke run) orders, and leaves when that says so. When the supervisor or the launcher is gone it ends the rank, but
 * first records how the rank had ended by itself. It calls nothing of MPI.
 */
#ifndef CLI_LAUNCH_AGENT_H
#define CLI_LAUNCH_AGENT_H

#include <sys/types.h>

#include "collectives/flight.h"

struct cli_agent {
    const char *folder;
    int rank, size;             /* of the job */
    int local_rank, local_size; /* on this host */
    int supervisor;             /* pidfd of yoke run where it is on this host, else -1 */
    int holder;                 /* a pipe that ends with who started us: the holder, or yoke run itself */
    int proxy;                  /* pidfd of the launcher's process on this host, which started the holder, else -1 */
    pid_t parent;               /* yoke run where that started us, else 0 */
    int pmi_fd;                 /* the rank's connection where yoke run is the launcher; -1: PMI_FD is inherited */
    /* The agent's own. */
    int launcher;               /* epoll on holder and proxy: the order in which they ended */
    pid_t pid;                  /* of the rank */
    bool ended;
    bool orphaned;              /* the launcher or the supervisor is gone */
    bool ending;                /* we have killed the rank */
    int abort_code;             /* … as its MPI_Abort asks, 0: it did not */
    int order;                  /* orders carried out */
    int shared, new_files;      /* the job's folder in shared memory, and word of files beside it; -1: none */
    char shared_path[4096];
    struct yokei_flight_file *record;
};

/** Be the agent of a rank, of which all up to `pmi_fd` is filled in, until all is done. All signals are blocked by then. */
yoke_status cli_agent_be(struct cli_agent *agent, char **words);
/** A whole number from the environment. */
int cli_agent_variable(const char *name, int otherwise);
/** Write down that the rank's agent was killed, unless the rank's end is known. */
void cli_agent_lost(struct cli_agent *agent);

#endif
