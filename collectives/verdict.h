/* SPDX-License-Identifier: Apache-2.0 */
/** Who is to blame when nothing moves, and how all ranks come to know it. */
#ifndef COLLECTIVES_VERDICT_H
#define COLLECTIVES_VERDICT_H

#include "collectives/comm.h"

/* ---- verdict.c ---- */
/** Fail the communicator, once: tell the other ranks, end its operations, touch its MPI messages no more. Returns status. */
yoke_status yokei_comm_fail(yoke_comm *comm, yoke_status status, int culprit, const char *format, ...) YOKE_PRINTF(4, 5);
/** Tell the others now, if the thread that failed the communicator could not. The lock is held. */
void yokei_tell_late(yoke_comm *comm);
/** Fail when another rank said so; cheap enough for every call. The lock is held. */
void yokei_look_for_failure(yoke_comm *comm);
/** Look who is to blame, when the head of the queue made no progress for a while. The lock is held. */
void yokei_watch(yoke_comm *comm);
void yokei_control_arrived(yoke_comm *comm, const struct yokei_control *message);
/** Whether the process of a rank is gone, by its agent's word or the kernel's, or its host is silent. The lock is held where it is on another host. */
bool yokei_is_gone(yoke_comm *comm, int rank);
/** The same, or it is stopped and was seen so for long enough to be taken for that. */
bool yokei_is_lost(yoke_comm *comm, int rank);

/* ---- witness.c: which rank of this host ends first, for records that no agent writes to ---- */
/** Watch a rank of this host, whose record is in the run directory, from now on. Without success nothing is known; that is no error. */
void yokei_witness_add(int world_rank);
/** A rank that is waited for has the mark of the dead: note it now, without waiting for the thread's turn. */
void yokei_witness_glance(void);
void yokei_witness_end(void);

/* ---- far.c: ranks of other hosts, and the network ---- */
/** Whether some rank of the communicator is on another host. */
bool yokei_has_far(const yoke_comm *comm);
/** The record of a rank: mapped where it is on this host, else as it was a moment ago; NULL: it cannot be seen. The lock is held. */
const struct yokei_flight_file *yokei_record_of(yoke_comm *comm, int rank, uint64_t now);
/** The rank whose record on another host comes next in turn; -1: there is none. */
int yokei_next_far(yoke_comm *comm);
/** Whether much came or went over the connections of this process, or of one of its host that waits too, since the last call that said so. */
bool yokei_network_moved(const yoke_comm *comm);

#endif
