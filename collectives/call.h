/* SPDX-License-Identifier: Apache-2.0 */
/** What arguments.c, group.c and call.c share. */
#ifndef COLLECTIVES_CALL_H
#define COLLECTIVES_CALL_H

#include "collectives/engine.h"

/* ---- arguments.c ---- */
yoke_status yokei_check_comm(const char *call, yoke_comm *comm, yoke_stream *stream);
yoke_status yokei_check_buffer(const char *call, const char *what, const void *buffer, size_t count, yoke_dtype dtype);
yoke_status yokei_check_reduction(const char *call, yoke_dtype dtype, yoke_reduction op);
/** Two buffers may be the same in the place that the call allows, and else must not meet. */
yoke_status yokei_check_overlap(const char *call, const void *send, size_t send_bytes, const void *recv, size_t recv_bytes,
                                size_t send_offset, size_t recv_offset);
yoke_status yokei_check_peer(const char *call, const yoke_comm *comm, int peer, const char *what);

/* ---- group.c ---- */
/** A call that is refused inside a group makes the whole group fail at its end. Returns status. */
yoke_status yokei_refuse(yoke_status status);
#define CHECK(x)                                               \
    do {                                                       \
        const yoke_status check_status_ = (x);                 \
        if (check_status_) return yokei_refuse(check_status_); \
    } while (0)
/** Where the host sees the device's memory, the collective works on it in place; else it is staged. The lock is held. */
yoke_status yokei_resolve(struct yokei_op *op, const void **send, void **recv);
/** Add it to the group, or launch it, and wait for it where there is no stream. Takes the operation back. */
yoke_status yokei_issue(struct yokei_op *op, yoke_stream *stream);
/** For the calls that end by an event: not in a group, and with the event that they need. */
yoke_status yokei_check_at_once(const char *call, const yoke_comm *comm, const yoke_event *done);
/** Begin at once; `done` is complete when it is over. Takes the operation back. */
yoke_status yokei_issue_at_once(struct yokei_op *op, yoke_event *done);
/** Stands for a NULL buffer of no elements, so that offsets may be added to it. */
extern char yokei_no_data[64];

#endif
