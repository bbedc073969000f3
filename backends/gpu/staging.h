/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies between a device and host memory that the device cannot read by itself (pageable memory), for
 * drivers whose queues can call a function of the host (CUDA, HIP).
 *
 * A driver's own asynchronous copy of pageable memory may wait, inside the call, for all earlier work of the
 * queue. A caller whose queue waits for an event that the same caller signals later would wait for ever. So
 * the data goes through a slot of pinned memory, in pieces. To the device, the queue calls the host, which
 * copies a piece into the slot; then the device reads the slot. To the host, it is the other way round. All
 * of this is issued at once and runs in the queue's order, so one slot is enough: it is not written before
 * the piece in it has been taken. No call waits, and the host memory is read and written exactly where the
 * copy stands in the queue's order.
 *
 * The function that the queue calls only copies at most a slot of memory. It never waits, and calls nothing
 * of the driver, which CUDA and HIP forbid there.
 */
#ifndef BACKENDS_GPU_STAGING_H
#define BACKENDS_GPU_STAGING_H

#include "backends/gpu/driver.h"

/** The bytes of a slot. */
#define YOKEI_GPU_SLOT_BYTES ((size_t)2 << 20)

struct yokei_gpu_staging {
    void *slot; /* pinned memory of this stream, YOKEI_GPU_SLOT_BYTES */
    /* Let the queue call function(argument) behind all work that was issued before. */
    yoke_status (*call)(yoke_stream *stream, void (*function)(void *), void *argument);
    /* Copy between the slot and the device, in the queue's order. */
    yoke_status (*to_device)(yoke_stream *stream, void *target, const void *slot, size_t bytes);
    yoke_status (*to_host)(yoke_stream *stream, void *slot, const void *source, size_t bytes);
};

/**
 * Issue a copy of kind YOKE_COPY_TO_DEVICE or YOKE_COPY_TO_HOST. Does not block. If a call fails, the pieces
 * before it have been issued.
 */
yoke_status yokei_gpu_stage(yoke_stream *stream, const struct yokei_gpu_staging *staging,
                            enum yoke_copy_kind kind, void *target, const void *source, size_t bytes);

#endif
