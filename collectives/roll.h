/* SPDX-License-Identifier: Apache-2.0 */
/** The ranks of the job, for waits inside MPI, outside the operations of a communicator: roll.c. The command has some of its own. */
#ifndef COLLECTIVES_ROLL_H
#define COLLECTIVES_ROLL_H

#include <yoke/comm.h>

/** A wait for a request of MPI: whose ranks take part, what the errors begin with, MPI's call, and how long a rank that lives may take. */
struct yokei_mpi_wait {
    MPI_Comm comm;
    const char *what, *call;
    int64_t timeout_ms;
};
/**
 * Wait for the request that a call of MPI gave, which returned `code`. Not blocking inside MPI: YOKE_EDEAD when a rank of `comm` dies or
 * is stopped, its own error when it ended with one, YOKE_ETIMEOUT, YOKE_EBACKEND. After an error the request is pending still: what it reads and writes
 * must stay for ever (yokei_keep), and this rank's record tells the error. The lock is held, or the process has no communicator.
 */
yoke_status yokei_mpi_finish(MPI_Request *request, int code, const struct yokei_mpi_wait *how);
/** One look at all ranks, for waits of another kind at the end of the job: who has ended in order is no failure. The same errors, and the lock. */
yoke_status yokei_roll_look(const char *what);
/** Know of the ranks of the job; false: no memory. MPI is initialised. Called by the others where it was not. */
bool yokei_roll_begin(void);
/**
 * Calls that block inside MPI, between the two: a thread looks at the ranks, and ends this process, its error recorded and its output flushed, when one dies
 * or is stopped. For measurements of MPI itself.
 */
void yokei_guard_begin(const char *what);
void yokei_guard_end(void);
/** Memory that a pending request of MPI may still use: never freed, but reachable, so that leak checkers see that it is meant. */
void yokei_keep(void *memory);
/** MPI's own collectives report errors to the world's handler: have them returned on the world and on `parent` (NULL: none), and undo that. */
struct yokei_handlers {
    MPI_Comm of[3];
    MPI_Errhandler was[3];
    int n;
};
void yokei_handlers_set(struct yokei_handlers *saved, const MPI_Comm *parent);
void yokei_handlers_restore(struct yokei_handlers *saved);

#endif
