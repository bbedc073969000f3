/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What yoke run, the supervisor, knows of a job and of each rank, and what all parts of the supervisor need.
 * "We" is the supervisor's process. A verdict is the record of how a rank ended, or at the end of the job how
 * the whole job did. An agent is the process that starts one rank and monitors it. If mpiexec does not start
 * the agents, yoke run itself is the launcher.
 */
#ifndef CLI_LAUNCH_WATCH_H
#define CLI_LAUNCH_WATCH_H

#include <sys/resource.h>
#include <sys/types.h>
#include <yoke/base.h>

#include "cli/launch/job_dir.h"
#include "collectives/flight/flight.h"

struct cli_rank_watch {
    const struct yokei_flight_file *record; /* NULL until the agent has made it */
    struct yokei_agent_verdict verdict;
    char host[64];
    char device[64]; /* "" if the ranks choose their devices */
    /* on our host, with its record mapped; else the record is a copy that we read repeatedly */
    bool here;
    double read_at;           /* when the copy was read last */
    struct yokei_beats beats; /* heartbeats of the agent on the other host */
    pid_t child;  /* process id of its agent, if the agent is our child and has not been waited for, else 0 */
    int agent;    /* process id of its agent, 0 until known */
    int agent_fd; /* pidfd of the agent on this host, else -1 */
    int rank_fd;  /* pidfd of the rank, while we wait for the rank's end */
    int ended_at; /* how many ranks had ended before this one at our last check; -1: the rank runs */
    int nth_end;  /* its place, from 1, among the exits that the kernel reported; 0: not reported */
    bool aborted; /* it called MPI_Abort, and its agent got the order to end it */
    bool strange; /* it sent something that is not PMI-1, and we printed a warning */
    bool killed;  /* ended by us, or by its agent */
    /* ended by its agent without an order of ours, because the launcher's processes on that host were gone */
    bool abandoned;
    bool stopped;  /* ended while it was stopped by verdict.signal */
    bool forgiven; /* the other ranks continued without it (yoke_comm_shrink) */
    /* since when it is stopped and other ranks wait for it inside MPI; 0: they do not wait */
    double awaited_at;
    double stopped_at; /* when we saw that it was stopped; 0: it is not stopped */
    double ended_when; /* when we saw that it had ended */
    bool reported;     /* cli_report_death (verdict.h) was called for it */
};

struct cli_job {
    char folder[4096];
    bool temporary; /* we made the folder for this job alone; it is removed after success */
    int n_ranks;
    char devices[16384]; /* the list of devices that the ranks have in turn; "": the verb's own device */
    char left_out[1024]; /* the devices that --devices auto left out; "": none */
    char hosts[4096];    /* the hosts and their numbers of ranks, "a:2,b:1", chosen by auto; "": as --hosts */
    double grace;        /* seconds that the other ranks get after a failure, to end by themselves */
    double start_seconds; /* the longest time, in seconds, in which nothing changes while the job starts */
    int start_place;      /* a number for how far the start has come; it changes when the start proceeds */
    double start_since;   /* since when start_place is unchanged; 0: not checked */
    bool start_warned, start_stood;
    /* The fields for a job that we launch ourselves (spawn.c). */
    struct cli_pmi *pmi; /* our PMI-1 server for the ranks; NULL: mpiexec is the launcher */
    int lifeline;        /* pipe that closes when we end, so that the agents act; -1: none */
    int shared;          /* the job's folder in shared memory, -1: none */
    char shared_path[4096];
    struct rlimit files; /* limit of open files for the ranks */
    int deserter;        /* rank that ended well while others wait for it inside MPI; -1: none */
    /* The fields for a job that mpiexec launches (hydra.c). */
    pid_t launcher;
    pid_t relay;       /* process that forwards the ranks' output */
    pid_t error_relay; /* process that forwards the stderr of the ranks and of mpiexec */
    bool visited;      /* mpiexec reported that it aborted because of a connection from outside the job */
    int n_orders;
    int interrupted; /* the signal that we forwarded, 0: none */
    bool launcher_ended;
    bool launcher_lost;  /* the launcher ended before we had dismissed it */
    int launcher_signal; /* signal that ended the launcher too early; 0: none */
    int ends;    /* epoll on the descriptors of the ranks, of the agents and of our signals; -1: not made */
    int n_exits; /* number of exits of ranks that the kernel reported */
    int lost_agent; /* rank whose agent was the first to vanish; -1: none */
    int n_ended;
    double looked_at; /* when we last checked all ranks */
    char refused[1024];
    struct cli_rank_watch *ranks;
};

/** Order something of all agents of the job (job_dir.h), and wake those that are our children. */
void cli_order_all(struct cli_job *job, enum cli_command command, int argument);
/**
 * The first rank that called MPI_Abort, unless the others continued without it. -1: there is none, or mpiexec
 * is the launcher, and handles the abort itself.
 */
int cli_aborted_rank(const struct cli_job *job);
/** Whether the rank failed by itself, and the others did not continue without it. */
bool cli_rank_failed(const struct cli_rank_watch *rank);
/** Whether the rank continued without other ranks that had failed. */
bool cli_rank_went_on(const struct cli_rank_watch *rank);

/** Wake an agent that is our child. */
void cli_wake_agent(const struct cli_rank_watch *rank);

#endif
