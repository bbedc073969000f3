/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What algorithms use of the memory that ranks of a host share. An announcement (struct yokei_post) says
 * which collective a rank has entered.
 */
#ifndef COLLECTIVES_TRANSPORT_SHARED_H
#define COLLECTIVES_TRANSPORT_SHARED_H

#include "collectives/operation/operation.h"

/* ---- shared.c ---- */
/** The announcement of this operation by rank r, which may be this rank. */
struct yokei_post *yokei_post_at(const struct yokei_op *op, int r);
/** Make this rank's own announcement, except for the algorithm's own fields. */
struct yokei_post *yokei_announce(const struct yokei_op *op);
/** Where rank r publishes the data of this operation in one piece. */
char *yokei_oneshot_at(const struct yokei_op *op, int r);
/** The lane's stage of rank r. `part` 0 is the data that the rank publishes, 1 the data that it computed. */
char *yokei_stage_at(const struct yokei_op *op, int r, const struct yokei_lane *lane, int part);
/**
 * Fill in where the operation's buffers lie in memory of yoke_comm_alloc: `own_bytes` of the data to send.
 */
void yokei_announce_buffers(const struct yokei_op *op, size_t own_bytes, struct yokei_post *post);
/** Rank r's buffers of the operation, by its announcement, at the address where this rank sees them. */
char *yokei_send_buffer_of(const struct yokei_op *op, int r);
char *yokei_recv_buffer_of(const struct yokei_op *op, int r);

/* ---- stage.c ---- */
/**
 * For `work`: yokei_bring copies bytes of this rank's send buffer, from byte `at` on, to shared memory.
 * yokei_put copies from shared memory to the receive buffer.
 * If the host does not see the device's memory, the copies are still on their way when these functions
 * return. The step ends, and its counter is set, when the copies are done. For staged operations the host
 * finds the rank's own data in the copy, and otherwise in `send`.
 */
void yokei_bring(const struct yokei_op *op, struct yokei_lane *lane, void *to, size_t at, size_t bytes);
void yokei_put(const struct yokei_op *op, struct yokei_lane *lane, size_t at, const void *from, size_t bytes);

#endif
