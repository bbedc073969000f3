/* SPDX-License-Identifier: Apache-2.0 */
/** Ranks on other hosts, and the network: far.c. */
#ifndef COLLECTIVES_FAULTS_FAR_H
#define COLLECTIVES_FAULTS_FAR_H

#include "collectives/ground/comm.h"

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
