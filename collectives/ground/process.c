/* SPDX-License-Identifier: Apache-2.0 */
/* The data that a process has once: its lock, its communicators, and forks. */
#include <unistd.h>

#include "collectives/ground/comm.h"

struct yokei_process yokei_process = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                       .wake = PTHREAD_COND_INITIALIZER,
                                       .flight_fd = -1 };

/* ---- fork ---- */

/* The process before a fork that has MPI or communicators; 0: it has neither. */
static _Thread_local int forking;

static void before_fork(void)
{
    int initialised = 0, finalised = 0;
    PMPI_Initialized(&initialised);
    PMPI_Finalized(&finalised);
    forking = (initialised && !finalised) || yokei_process.flight ? (int)getpid() : 0;
}

/*
 * The child has a copy of the communicators and maps the same shared memory, but it is no rank, and has no
 * thread but this one. Another thread may have held the lock.
 */
static void in_child(void)
{
    struct yokei_process *p = &yokei_process;
    if (!p->copied_from) p->copied_from = forking;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->thread_runs = false;
    p->n_async = 0;
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, NULL, in_child); }

yoke_status yokei_check_process(const char *call, const yoke_comm *comm)
{
    const struct yokei_process *p = &yokei_process;
    if (!p->copied_from) return YOKE_OK;
    const struct yokei_maker maker = { .pid = p->copied_from };
    char what[64] = "MPI";
    if (comm) yokei_text(what, sizeof what, "communicator \"%s\"", comm->name);
    return yokei_refuse_fork(call, &maker, what,
                             "a forked process is no rank of the job, so let the rank make the call");
}

bool yokei_may_call_mpi(void)
{
    return yokei_process.any_thread || pthread_equal(pthread_self(), yokei_process.main_thread);
}
