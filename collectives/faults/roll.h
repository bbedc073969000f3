/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Watching the ranks of the job during waits inside MPI, outside the operations of a communicator: roll.c.
 * The command (`yoke`) has functions of its own for this.
 */
#ifndef COLLECTIVES_FAULTS_ROLL_H
#define COLLECTIVES_FAULTS_ROLL_H

#include <yoke/comm.h>

/**
 * A wait for an MPI request. It names the communicator, the words with which errors begin, MPI's call, and
 * how long a living rank may take.
 */
struct yokei_mpi_wait {
    MPI_Comm comm;
    const char *what, *call;
    int64_t timeout_ms;
};
/**
 * Wait for the request of an MPI call that returned `code`, without blocking inside MPI. After an error the
 * request is still pending. Then its buffers must stay for ever (yokei_keep), and this rank's record has the
 * error. The lock is held, or the process has no communicator.
 * Errors: YOKE_EDEAD (a rank of `comm` dies or is stopped), the error with which a rank of `comm` ended,
 *         YOKE_ETIMEOUT, YOKE_EBACKEND
 */
yoke_status yokei_mpi_finish(MPI_Request *request, int code, const struct yokei_mpi_wait *how);
/**
 * Check the state of all ranks once. Use this function at the end of the job, where the wait is not for an
 * MPI request. A rank that has ended normally is not a failure. The errors are those of yokei_mpi_finish, and
 * the caller holds the lock as there.
 */
yoke_status yokei_roll_look(const char *what);
/**
 * Make the list of the job's ranks. MPI must be initialised. False: there is no memory, so no rank is
 * watched. The other functions call this if nobody has.
 */
bool yokei_roll_begin(void);
/**
 * Call these two functions around calls that block inside MPI, in measurements of MPI itself. In between, a
 * thread watches the ranks. If one dies or is stopped, the thread records the error, flushes the output and
 * ends this process.
 */
void yokei_guard_begin(const char *what);
void yokei_guard_end(void);
/**
 * Memory that a pending MPI request may still use. It is never freed. It stays reachable, so that leak
 * checkers see that this is meant.
 */
void yokei_keep(void *memory);
/**
 * MPI's own collectives report errors to the error handler of the world. Make errors return on the world and
 * on `parent` (NULL: none). The second function restores the old handlers.
 */
struct yokei_handlers {
    MPI_Comm of[3];
    MPI_Errhandler was[3];
    int n;
};
void yokei_handlers_set(struct yokei_handlers *saved, const MPI_Comm *parent);
void yokei_handlers_restore(struct yokei_handlers *saved);
struct yokei_peer_info;
/** Note what a rank has reported of itself, so that its process can be watched if it has no agent. */
void yokei_roll_note(const struct yokei_peer_info *info);

#endif
