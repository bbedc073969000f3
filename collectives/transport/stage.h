/* SPDX-License-Identifier: Apache-2.0 */
/** Copies from and to device memory that the host does not see: stage.c. */
#ifndef COLLECTIVES_TRANSPORT_STAGE_H
#define COLLECTIVES_TRANSPORT_STAGE_H

#include "collectives/ground/comm.h"

/** Whether the address is device memory that the host does not see. */
bool yokei_is_staged(const yoke_comm *comm, const void *address);
/** Copy the step's own data to the lane's buffer. Call this again until it is ready. */
yoke_status yokei_stage_fetch(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
/** Whether the lane's buffer of results may be used again. The second function copies it to the device. */
yoke_status yokei_stage_store_ready(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store(yoke_comm *comm, struct yokei_lane *lane);
/**
 * When the communicator's ranks know each other: page-lock the memory that devices copy from and to, if this
 * helps the device. A refusal by the driver is no error.
 */
yoke_status yokei_stage_begin(yoke_comm *comm);
/**
 * After a failure: whether no copy is on its way any more. The first call asks the device. A device that does
 * not answer within five seconds counts as quiet.
 */
bool yokei_stage_is_quiet(yoke_comm *comm);
/** Wait for the last copies, and unlock the memory, before it is unmapped. */
void yokei_stage_end(yoke_comm *comm);
/** Make the lane's buffers, when they are first needed. YOKE_ENOMEM */
yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane);
/**
 * The communicator's buffer for the data of fused operations with device memory that the host does not see,
 * made when it is first needed. NULL: there is no memory.
 */
char *yokei_stage_fused(yoke_comm *comm);
/** Bytes that this buffer takes. */
enum { YOKEI_STAGE_FUSED_BYTES = YOKEI_FUSED_BYTES + YOKEI_GAP_BYTES };
/** Bytes that a lane takes if its data is staged. */
size_t yokei_stage_lane_bytes(size_t chunk_bytes);
void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane);
/** Issue the copies after `work`. The second function says whether they are done. */
yoke_status yokei_stage_depart(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_stage_arrived(yoke_comm *comm, struct yokei_lane *lane, bool *arrived_out);
/**
 * For an operation fused from several calls: copy the parts' data to the fused buffer (`out`), or the results
 * from there. Call this again until it is done.
 */
yoke_status yokei_move_parts(struct yokei_op *op, bool out, bool *done_out);

#endif
