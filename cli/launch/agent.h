/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The agent of one rank. The agent is a process that starts the rank. It writes into the rank's flight record
 * that the rank stopped, continued or ended. It carries out the orders of the supervisor (yoke run) and exits
 * on the supervisor's order. If the supervisor or the launcher is gone, the agent ends the rank. Before that
 * it records whether and how the rank had exited by itself. The agent never calls MPI.
 */
#ifndef CLI_LAUNCH_AGENT_H
#define CLI_LAUNCH_AGENT_H

#include <sys/types.h>
#include <time.h>

#include "cli/launch/pmi_relay.h"
#include "collectives/flight/flight.h"

struct cli_agent {
    const char *folder;
    int rank, size;             /* rank and number of ranks in the job */
    int local_rank, local_size; /* rank and number of ranks on this host */
    int supervisor;             /* pidfd of yoke run if it is on this host, else -1 */
    /* pipe that closes when the process that started the agent ends: the holder, or yoke run itself */
    int holder;
    int proxy;     /* pidfd of the launcher's process on this host, which started the holder; else -1 */
    pid_t parent;  /* process id of yoke run if it started the agent, else 0 */
    int parent_fd; /* pidfd of that process; -1: there is none, or it has ended */
    int pmi_fd;    /* the agent's connection to yoke run if that is the launcher; -1: PMI_FD, if it is set */
    /* The fields from here on are the agent's own. */
    int launcher;             /* epoll on holder and proxy; its events have the order in which they ended */
    struct cli_pmi_relay pmi; /* the PMI proxy between the rank and the launcher */
    uint64_t held_ns; /* since when the EOF of the launcher is held back from the rank; 0: it is not */
    pid_t pid;        /* process id of the rank */
    time_t started_s; /* when the rank was started, by the clock of shared memory segments */
    bool ended;
    bool orphaned;  /* the launcher or the supervisor is gone */
    bool ending;    /* the agent has killed the rank */
    int abort_code; /* code of the rank's MPI_Abort, after which the agent killed it; 0: no MPI_Abort */
    int order;      /* number of orders carried out */
    int shared;     /* the job's folder in shared memory; -1: none */
    char shared_path[4096];
    struct yokei_flight_file *record;
};

/**
 * Be the agent of a rank until all is done. The caller has filled in all fields up to `pmi_fd`, and has
 * blocked all signals.
 */
yoke_status cli_agent_be(struct cli_agent *agent, char **words);
/** A whole number from the environment, or `otherwise` if the variable is not set. */
int cli_agent_variable(const char *name, int otherwise);
/**
 * Become the parent of the processes that a descendant leaves behind. The process that starts an agent calls
 * this before, so that cli_agent_lost can distinguish the agent's rank from a later process with the same
 * process id.
 */
void cli_agent_adopt(void);
/**
 * Record that the rank's agent was killed, unless the rank's end is known already. End the rank's processes,
 * and wait for at most 0.3 s until the rank has ended. The caller had started the agent.
 */
void cli_agent_lost(struct cli_agent *agent);

#endif
