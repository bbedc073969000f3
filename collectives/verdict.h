/* SPDX-License-Identifier: Apache-2.0 */
/** Finding the rank that is to blame when nothing moves (the verdict), and telling all ranks. */
#ifndef COLLECTIVES_VERDICT_H
#define COLLECTIVES_VERDICT_H

#include "collectives/comm.h"

/* ---- verdict.c ---- */
/**
 * Fail the communicator, once. This tells the other ranks and ends the communicator's operations. Its MPI
 * messages are not touched any more. Returns status.
 */
yoke_status yokei_comm_fail(yoke_comm *comm, yoke_status status, int culprit, const char *format, ...)
    YOKE_PRINTF(4, 5);
/**
 * This rank cannot take part in an operation although its arguments are right, most often for lack of memory.
 * The other ranks may already wait for it. So the communicator fails on all ranks, with an error that names
 * this rank and its last error. An error of the arguments (YOKE_EINVAL) does not fail the communicator.
 * Returns the error. The lock is held.
 */
yoke_status yokei_give_up(yoke_comm *comm, yoke_status status);
/** The same. The lock is not held. */
yoke_status yokei_give_up_outside(yoke_comm *comm, yoke_status status);
/** Write into this rank's record that the communicator has failed, and why. */
void yokei_record_failure(const yoke_comm *comm);
/** Tell the other ranks now, if the thread that failed the communicator could not. The lock is held. */
void yokei_tell_late(yoke_comm *comm);
/**
 * Fail if another rank has said that the communicator failed. Cheap enough for every call. The lock is held.
 */
void yokei_look_for_failure(yoke_comm *comm);
/**
 * Look for the rank to blame, if the head of the queue has made no progress for a while. The lock is held.
 */
void yokei_watch(yoke_comm *comm);
void yokei_control_arrived(yoke_comm *comm, const struct yokei_control *message);
/**
 * Whether the process of a rank is gone, by its agent's word or the kernel's, or its host is silent. For a
 * rank on another host the lock must be held.
 */
bool yokei_is_gone(yoke_comm *comm, int rank);
/** Whether the rank is gone, or was seen to be stopped for long enough to count as gone. */
bool yokei_is_lost(yoke_comm *comm, int rank);

/* ---- witness.c: which rank of this host ends first, for jobs without agents ---- */
/**
 * From now on watch a rank of this host whose record is in the run directory. If this does not succeed, the
 * rank is not watched, which is no error.
 */
void yokei_witness_add(int world_rank);
/**
 * Call this when a rank that is waited for has the kernel's mark of a dead process. It notes the rank at
 * once, without waiting for the witness thread.
 */
void yokei_witness_glance(void);
void yokei_witness_end(void);
/** In a child process: there is no witness thread here. */
void yokei_witness_forget(void);

/* ---- far.c: ranks on other hosts, and the network ---- */
/** Whether some rank of the communicator is on another host. */
bool yokei_has_far(const yoke_comm *comm);
/**
 * The record of a rank: mapped if the rank is on this host, else a copy that is at most a moment old. NULL:
 * it cannot be seen. The lock is held.
 */
const struct yokei_flight_file *yokei_record_of(yoke_comm *comm, int rank, uint64_t now);
/** The next rank on another host whose record is to be looked at; -1: none. */
int yokei_next_far(yoke_comm *comm);
/**
 * Whether this process's connections carried much data since the last call that returned true. Connections of
 * another waiting process of this host count too.
 */
bool yokei_network_moved(const yoke_comm *comm);

#endif
