/* SPDX-License-Identifier: Apache-2.0 */
/** Messages and control messages over MPI: mpi.c. */
#ifndef COLLECTIVES_TRANSPORT_MPI_H
#define COLLECTIVES_TRANSPORT_MPI_H

#include "collectives/ground/comm.h"

yoke_status yokei_mpi_lane_begin(yoke_comm *comm, struct yokei_lane *lane, size_t message_bytes);
void yokei_mpi_lane_end(yoke_comm *comm, struct yokei_lane *lane);
/** Bytes that a lane takes if its messages have so many bytes, header included. */
size_t yokei_mpi_lane_bytes(size_t message_bytes);
/** Allocate the memory of control messages. The second function begins to receive them. */
yoke_status yokei_mpi_control_make(yoke_comm *comm);
yoke_status yokei_mpi_control_begin(yoke_comm *comm);
void yokei_mpi_control_end(yoke_comm *comm);
size_t yokei_mpi_control_size(void);
/** Receive the next control message that has come. False: there is none. */
bool yokei_mpi_control_next(yoke_comm *comm, struct yokei_control *message_out);
/** Send a control message to a rank of the communicator. False: no slot is free. */
bool yokei_mpi_control_send(yoke_comm *comm, int to, const struct yokei_control *message);
/** Bytes of control messages sent and received so far. */
uint64_t yokei_mpi_control_bytes(void);
/** Push pending control messages for at most `ns`. */
void yokei_mpi_control_flush(yoke_comm *comm, uint64_t ns);

#endif
