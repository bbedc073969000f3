/* SPDX-License-Identifier: Apache-2.0 */
/** The functions that the files of call/ share. */
#ifndef COLLECTIVES_CALL_CALL_H
#define COLLECTIVES_CALL_CALL_H

#include "collectives/ground/comm.h"

/* ---- arguments.c ---- */
yoke_status yokei_check_comm(const char *call, yoke_comm *comm, yoke_stream *stream);
yoke_status yokei_check_buffer(const char *call, const char *what, const void *buffer, size_t count,
                               yoke_dtype dtype);
yoke_status yokei_check_reduction(const char *call, yoke_dtype dtype, yoke_reduction op);
/** The two buffers may be the same where the call allows it. Any other overlap is an error. */
yoke_status yokei_check_overlap(const char *call, const void *send, size_t send_bytes, const void *recv,
                                size_t recv_bytes, size_t send_offset, size_t recv_offset);
yoke_status yokei_check_peer(const char *call, const yoke_comm *comm, int peer, const char *what);

/* ---- group.c ---- */
/**
 * A call cannot be made. Inside a group, the whole group fails at its end. If the communicator has failed,
 * only the calls on this communicator are dropped. `comm` may be NULL. Returns status.
 */
yoke_status yokei_refuse(yoke_comm *comm, yoke_status status);
/** Refuse the call on the function's `comm` if x fails. */
#define CHECK(x)                                                     \
    do {                                                             \
        const yoke_status check_status_ = (x);                       \
        if (check_status_) return yokei_refuse(comm, check_status_); \
    } while (0)
/**
 * Work in place if the host sees the device's memory. Otherwise the collective is staged: its data goes
 * through host buffers. The lock is held.
 */
yoke_status yokei_resolve(struct yokei_op *op, const void **send, void **recv);
/**
 * Add the operation to the group, or launch it. Without a stream, wait for it. Takes ownership of the
 * operation.
 */
yoke_status yokei_issue(struct yokei_op *op, yoke_stream *stream);
/** For calls whose completion an event signals: check that there is no group, and that the event fits. */
yoke_status yokei_check_at_once(const char *call, const yoke_comm *comm, const yoke_event *done);
/** Begin the operation at once. `done` completes when it is over. Takes ownership of the operation. */
yoke_status yokei_issue_at_once(struct yokei_op *op, yoke_event *done);
/** Replaces a NULL buffer of no elements, so that offsets may be added to the pointer. */
extern char yokei_no_data[64];

/* ---- fuse.c: runs many small sums of a group as one ---- */
/**
 * Whether the call may become part of a fused operation. The answer is the same on all ranks whose calls
 * match.
 */
bool yokei_may_fuse(const struct yokei_op *op);
/**
 * Let ops[0] do the work of the first *n_out operations, which is at least one. The others do not fit in it.
 * After an error all operations are unchanged.
 */
yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out);

#endif
