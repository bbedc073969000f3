/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Streams that are held back by the process. The queues of some drivers must not wait for the host, because
 * such a wait can hold up other queues (docs/decisions/devices.md). A backend of such a driver has no `arm`
 * and no `signal` in its table of events. Then a stream that waits for an armed event is held: its later
 * commands stay in a queue of the process, and yoke_event_signal submits them. All commands that the driver
 * gets can run without the host.
 */
#ifndef CORE_HELD_H
#define CORE_HELD_H

#include "core/backend.h"

/** Whether streams of the device are held back by the process. */
static inline bool yokei_holds(const yoke_device *device) { return device->holding != NULL; }
/** Make what holding needs, if the backend's events have no `arm`. */
yoke_status yokei_holding_create(yoke_device *device);
void yokei_holding_destroy(yoke_device *device);

/**
 * Append a command to the stream's queue, as yokei_hold_call does (core/backend.h). The arguments are copied.
 */
yoke_status yokei_hold_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                            size_t bytes, const char *name, bool *queued_out);
yoke_status yokei_hold_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes, bool *queued_out);
yoke_status yokei_hold_annotation(yoke_stream *stream, const struct yokei_annotation *note, bool *queued_out);
/** Block until the queue is empty. Returns and forgets the error of a command that failed. */
yoke_status yokei_held_drain(yoke_stream *stream);
/** Free the commands of a stream in a forked process, which cannot submit them. */
void yokei_held_forget(yoke_stream *stream);

/* Events of a device that holds its streams. The functions have the meaning of their namesakes. */
yoke_status yokei_moment_create(yoke_event *event);
void yokei_moment_destroy(yoke_event *event);
yoke_status yokei_moment_record(yoke_event *event, yoke_stream *stream);
yoke_status yokei_moment_arm(yoke_event *event);
yoke_status yokei_moment_signal(yoke_event *event);
yoke_status yokei_moment_query(yoke_event *event, bool *complete_out);
yoke_status yokei_moment_wait(yoke_stream *stream, yoke_event *event);
yoke_status yokei_moment_seconds(const yoke_event *from, const yoke_event *to, double *seconds_out);

#endif
