/* SPDX-License-Identifier: Apache-2.0 */
/** The verdict: which rank is to blame when nothing moves. */
#ifndef COLLECTIVES_FAULTS_VERDICT_H
#define COLLECTIVES_FAULTS_VERDICT_H

#include "collectives/ground/comm.h"

/**
 * Look for the rank to blame, if the head of the queue has made no progress for a while. The lock is held.
 */
void yokei_watch(yoke_comm *comm);
/**
 * Whether the process of a rank is gone, by its agent's word or the kernel's, or its host is silent. For a
 * rank on another host the lock must be held.
 */
bool yokei_is_gone(yoke_comm *comm, int rank);
/** Whether the rank is gone, or was seen to be stopped for long enough to count as gone. */
bool yokei_is_lost(yoke_comm *comm, int rank);

#endif
