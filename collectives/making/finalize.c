/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that call MPI_Finalize themselves. MPI_Finalize waits for all ranks, even for a rank that died.
 * Between hosts MPI_Finalize of MPICH 4.0 does not always return (see leave.c).
 * MPI deletes the attributes of MPI_COMM_SELF before anything else in MPI_Finalize. Yoke sets such an
 * attribute. When it is deleted, this rank records that it is in MPI_Finalize, and starts a thread that
 * watches.
 * If a rank died or is stopped, the thread records which one, and ends the process with that error's code. On
 * several hosts, all ranks may be in MPI_Finalize, and some may not come out of it after a while. Then
 * nothing of the job is left to wait for. The thread flushes the output and ends the process with code 0.
 * What the program would do after MPI_Finalize is not done. This happens only under yoke run. Any other
 * launcher would take such an end for a failure, and only under yoke run can all records be seen.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectives/faults/roll.h"
#include "collectives/ground/process.h"
#include "collectives/making/mpi_end.h"

enum { FINALIZE_SECONDS = 5, LOOK_MS = 20, READ_EVERY = 12 };

static bool installed, by_yoke, is_far;

void yokei_finalize_is_ours(void) { by_yoke = true; }

/* Whether all ranks are in MPI_Finalize, or have ended. */
static bool all_finalize(void)
{
    const struct yokei_process *p = &yokei_process;
    const struct yokei_flight_file *copy = NULL;
    bool all = true;
    for (int r = 0; r < p->n_world && all; r++)
        all = !yokei_flight_look(p->run_dir, r, &copy)
              && (atomic_load(&copy->finalizing) || yokei_agent_gone(yokei_flight_agent(copy).state));
    yokei_flight_close(copy);
    return all;
}

static void *watch_finalize(void *argument)
{
    struct yokei_flight_file *file = argument; /* stays mapped until the process ends */
    uint64_t since = 0;
    int finalised = 0;
    for (int turn = 1;; turn++) {
        nanosleep(&(struct timespec){ .tv_nsec = LOOK_MS * 1000000 }, NULL);
        PMPI_Finalized(&finalised);
        if (finalised) return NULL;
        const yoke_status status = yokei_roll_look("MPI_Finalize");
        if (status) fflush(NULL), _exit(yoke_status_exit_code(status));
        if (is_far && !since && turn % READ_EVERY == 0 && all_finalize()) since = yokei_now_ns();
        if (since && yokei_now_ns() - since > FINALIZE_SECONDS * 1000000000ull) break;
    }
    atomic_store(&file->finalizing, YOKEI_FINALIZE_LEFT); /* yoke run reports it */
    yokei_flight_publish(file);
    fflush(NULL);
    PMPI_Finalized(&finalised);
    if (finalised) return NULL;
    _exit(0);
}

static int finalize_begins(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    struct yokei_flight_file *file = NULL;
    pthread_t thread;
    if (by_yoke || yokei_process.faulted || yokei_process.copied_from
        || yokei_flight_create(yokei_process.run_dir, yokei_process.world_rank, false, &file))
        return MPI_SUCCESS;
    atomic_store(&file->finalizing, YOKEI_FINALIZE_CALLED);
    yokei_flight_publish(file);
    if (!pthread_create(&thread, NULL, watch_finalize, file)) pthread_detach(thread);
    return MPI_SUCCESS;
}

void yokei_finalize_watch(void)
{
    const char *here = getenv("MPI_LOCALNRANKS"), *all = getenv("PMI_SIZE");
    int key = MPI_KEYVAL_INVALID;
    if (installed || !getenv("YOKE_SUPERVISOR") || !yokei_process.run_dir[0] || !here || !all
        || atoi(all) == 1 || !yokei_roll_begin())
        return;
    installed = true;
    is_far = atoi(here) < atoi(all);
    if (!PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_begins, &key, NULL))
        PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
}
