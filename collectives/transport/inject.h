/* SPDX-License-Identifier: Apache-2.0 */
/** Faults on purpose, for tests: inject.c. */
#ifndef COLLECTIVES_TRANSPORT_INJECT_H
#define COLLECTIVES_TRANSPORT_INJECT_H

#include "collectives/ground/comm.h"

/** Read YOKE_INJECT. comm->inject stays NULL if the variable is unset or names other ranks. YOKE_ECONFIG. */
yoke_status yokei_inject_begin(yoke_comm *comm);
/** Put this transport around the transports that were chosen. */
void yokei_inject_wrap(yoke_comm *comm);
void yokei_inject_end(yoke_comm *comm);

#endif
