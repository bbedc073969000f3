/* SPDX-License-Identifier: Apache-2.0 */
/** The list of memory of yoke_comm_alloc that a communicator has. The lock is held. */
#ifndef COLLECTIVES_TRANSPORT_ALLOCATIONS_H
#define COLLECTIVES_TRANSPORT_ALLOCATIONS_H

#include "collectives/ground/comm.h"

/** Where a buffer lies in memory of yoke_comm_alloc; id 0: elsewhere. */
void yokei_find_allocation(const yoke_comm *comm, const void *address, size_t bytes, uint32_t *id_out,
                           uint64_t *offset_out);
/** The same place in rank r's part, at the address where this rank sees it. */
char *yokei_in_allocation(const yoke_comm *comm, int r, uint32_t id, uint64_t offset, size_t bytes);

#endif
