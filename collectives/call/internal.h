/* SPDX-License-Identifier: Apache-2.0 */
/** Collectives that the library itself calls: call.c. The lock is not held. */
#ifndef COLLECTIVES_CALL_INTERNAL_H
#define COLLECTIVES_CALL_INTERNAL_H

#include <yoke/comm.h>

/** Like yoke_all_gather, for bytes in host memory, whatever the communicator's device is. */
yoke_status yokei_gather_on_host(yoke_comm *comm, const void *mine, void *all, size_t bytes);
/** Like yoke_all_reduce in place, for host memory. */
yoke_status yokei_reduce_on_host(yoke_comm *comm, void *data, size_t count, yoke_dtype dtype,
                                 yoke_reduction op);
/** The barrier of yoke_comm_destroy. */
yoke_status yokei_final_barrier(yoke_comm *comm);

#endif
