/* SPDX-License-Identifier: Apache-2.0 */
/** The data that the process has once, for all communicators. */
#ifndef COLLECTIVES_GROUND_PROCESS_H
#define COLLECTIVES_GROUND_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>

#include <yoke/comm.h>

#include "collectives/flight/flight.h"
#include "core/base/base.h"

/**
 * A set of processes. One duplicate of MPI's communicator serves all of Yoke's communicators over this set.
 */
struct yokei_process_set {
    struct yokei_process_set *next;
    MPI_Comm mpi;
    uint32_t next_context;
    int n_comms;
};

struct yokei_process {
    pthread_mutex_t lock; /* protects everything below, every communicator, and all calls of MPI */
    struct yokei_process_set *sets;
    yoke_comm *comms;
    bool faulted; /* an operation failed, so MPI is not finalised any more */
    bool left; /* this rank has reported to MPI's launcher that it is done; then too MPI is not finalised */
    bool any_thread; /* MPI_THREAD_MULTIPLE */
    /* the record is in a folder and there is no agent, so this process runs a witness (witness.c) */
    bool is_witness;
    pthread_t main_thread; /* the thread that made the first communicator */
    struct yokei_flight_file *flight;
    int flight_fd, world_rank, n_world;
    uint64_t nonce, start_time;
    char host[64], run_dir[4096];
    uint64_t l3_bytes;
    int n_cores; /* cores of this host that the job is known to use */
    /* The progress thread, which carries asynchronous operations on: engine/thread.c. */
    pthread_t thread;
    pthread_cond_t wake;
    bool thread_runs, thread_ends;
    /* In a process that was forked from one with MPI: that one, whose communicators this memory is a copy of.
       0: this process is no such copy. */
    int copied_from;
    int n_async;          /* operations that the progress thread looks after */
    yoke_comm *asleep_on; /* the progress thread may sleep on the shared memory of this communicator */
    atomic_int n_blocked; /* threads that wait in a call until their operations have ended */
};
extern struct yokei_process yokei_process;

/**
 * YOKE_EINVAL in a process that was forked from the one that started MPI, and made the communicator. Every
 * public call asks this before it touches anything. comm NULL: the call makes or uses no communicator.
 */
yoke_status yokei_check_process(const char *call, const yoke_comm *comm);
/** Whether the calling thread may call MPI. */
bool yokei_may_call_mpi(void);

/* ---- held.c: bytes of the buffers that communicators hold outside shared memory ---- */
void yokei_hold(size_t bytes);
void yokei_let_go(size_t bytes);
/** The sum over all communicators of the process. Buffers that are left to MPI after an error still count. */
size_t yokei_held(void);

#endif
