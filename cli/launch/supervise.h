/* SPDX-License-Identifier: Apache-2.0 */
/** yoke run's watch over a job: what it knows of each rank, the loop, and the verdict at the end. */
#ifndef CLI_LAUNCH_SUPERVISE_H
#define CLI_LAUNCH_SUPERVISE_H

#include <sys/resource.h>
#include <sys/types.h>
#include <yoke/base.h>

#include "collectives/flight.h"

struct cli_rank_watch {
    const struct yokei_flight_file *record; /* NULL until the agent made it */
    struct yokei_agent_verdict verdict;
    char host[64];
    char device[64];   /* "" when the ranks choose */
    bool here;         /* on our host: its record is mapped, else it is a copy that is read again and again */
    double read_at;    /* when that was */
    struct yokei_beats beats; /* of its agent there */
    pid_t child;       /* its agent, where that is our child and has not been waited for, else 0 */
    int agent;         /* process id, 0 until known */
    int agent_fd;      /* pidfd of an agent on this host, else -1 */
    int rank_fd;       /* and of its rank, while we wait for that */
    int ended_at;      /* how many ranks had ended before this one when we looked; -1: runs */
    int nth_end;       /* the kernel told us of its end as of the nth, 0: it did not */
    bool aborted;      /* it called MPI_Abort, and its agent was told */
    bool strange;      /* it sent what is no PMI-1, and we said so */
    bool killed;       /* ended by us, or by its agent */
    bool abandoned;    /* by its agent, and not on our word: what the launcher had started beside it was gone */
    bool stopped;      /* … while it was stopped by verdict.signal */
    bool forgiven;     /* the others went on without it: yoke_comm_shrink */
    double awaited_at; /* … and others were seen to wait for it inside MPI, 0: they do not */
    double stopped_at; /* when we saw that it was stopped, 0: it runs */
    double ended_when; /* when we saw that it had ended */
    bool told;         /* cli_tell_of */
};

struct cli_job {
    char folder[4096];
    bool temporary;      /* the folder is ours alone: removed after success */
    int n_ranks;
    double grace;        /* seconds */
    double start_seconds; /* in which nothing moves while the job starts, at most */
    int start_place;      /* how far the start has come, a number that changes with it */
    double start_since;   /* since when it has been there, 0: not looked at */
    bool start_warned, start_stood;
    /* Where we are the launcher: spawn.c. */
    struct cli_pmi *pmi; /* our word with the ranks; NULL: mpiexec is the launcher */
    int lifeline;        /* ends with us, on which the agents act, -1: none */
    int shared;          /* the job's folder in shared memory, -1: none */
    char shared_path[4096];
    struct rlimit files; /* of the ranks */
    int deserter;        /* rank that ended well while others wait for it inside MPI, -1: none */
    /* Where mpiexec is: hydra.c. */
    pid_t launcher;
    pid_t relay;         /* passes the ranks' output on */
    pid_t error_relay;   /* … and what they and mpiexec write to stderr */
    bool visited;        /* mpiexec said that it gave up because of a connection that was not of the job */
    int n_orders;
    int interrupted;     /* the signal that we passed on, 0: none */
    bool launcher_ended;
    bool launcher_lost;  /* before we had dismissed it */
    int launcher_signal; /* that ended the launcher before its time, 0: none */
    int ends;            /* epoll on the ranks', the agents' and our signals' descriptors, -1: not made */
    int n_told;          /* ends of ranks that it told of */
    int lost_agent;      /* rank whose agent was the first to vanish, -1: none */
    int n_ended;
    double looked_at;    /* when the supervisor looked at all ranks last */
    char refused[1024];
    struct cli_rank_watch *ranks;
};

/** An agent that we have started; its connection, if it has one, is listened to from now on. */
void cli_watch_agent(struct cli_job *job, int r, pid_t agent);
/** Have the agents end what still runs, and leave; end those that do not. */
void cli_dismiss(struct cli_job *job);
/** Watch until every rank has ended and the launcher has left. */
void cli_supervise(struct cli_job *job);
/** Who the start of the job waits for, or where: "ranks 2, 3 on host b have not come up". */
const char *cli_start_text(const struct cli_job *job, char *out, size_t bytes);
/** Say at once that a rank died or is stopped, and what follows; the error comes when the job has ended. */
void cli_tell_of(const struct cli_job *job, int r);
/** What it came to: YOKE_OK, or one error that names the rank at fault. */
yoke_status cli_verdict(const struct cli_job *job);
/** Of a job that was interrupted and failed: whether that is what the signal did. False: a rank failed by itself meanwhile. */
bool cli_ended_as_asked(const struct cli_job *job);
/** Whether the rank ended badly by itself, and the others did not go on without it. */
bool cli_rank_failed(const struct cli_rank_watch *rank);
/** Whether the rank went on without others that had failed. */
bool cli_rank_went_on(const struct cli_rank_watch *rank);

#endif
