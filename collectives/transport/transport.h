/* SPDX-License-Identifier: Apache-2.0 */
/** The functions that bring messages from one rank to another. */
#ifndef COLLECTIVES_TRANSPORT_TRANSPORT_H
#define COLLECTIVES_TRANSPORT_TRANSPORT_H

#include "collectives/ground/comm.h"

/**
 * The functions that bring messages from one rank to another. In each function a lane has at most one message
 * at a time.
 */
struct yokei_transport {
    const char *name;
    /* Room for the lane's next message to `to`. *room_out is NULL if there is none yet. */
    yoke_status (*reserve)(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out);
    /* Send the message that was written to the room. */
    yoke_status (*post)(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes);
    /* The next message from `from`. *message_out is NULL if the message is not there yet. */
    yoke_status (*poll)(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out,
                        size_t *bytes_out);
    /* The message was read. */
    void (*release)(yoke_comm *comm, struct yokei_lane *lane, int from);
    /* Whether all messages of the lane are on their way without help from this rank. */
    yoke_status (*drained)(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out);
};
extern const struct yokei_transport yokei_mpi_transport, yokei_shm_transport;

#endif
