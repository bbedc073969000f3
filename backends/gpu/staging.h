/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies between a device and host memory that the device cannot read by itself (pageable memory), for
 * drivers whose queues can call a function of the host (CUDA, HIP).
 *
 * A driver's own asynchronous copy of pageable memory may wait, inside the call, for all earlier work of the
 * queue. A caller whose queue waits for an event that the same caller signals later would wait for ever. So
 * the data goes through slots of pinned memory, in pieces. No call waits, and the host memory is read and
 * written exactly where the copy stands in the stream's order.
 *
 * The device's copies are in the stream's own queue. A second queue, the host queue, calls functions of the
 * host, which copy between the slots and pageable memory. Events of the driver order the two queues. Each
 * piece takes the next slot, so the host copies one piece while the device copies others. A slot is used
 * again when its last piece has left it. Behind a copy to the host the end of the stream's work is the end of
 * the host queue, and the stream's own queue goes on. So pieces of later copies are also in flight.
 *
 * A short copy needs no second queue. Its piece goes through slot 0 in the stream's own queue.
 *
 * The function that a queue calls only copies at most a slot of memory. It never waits, and calls nothing of
 * the driver, which CUDA and HIP forbid there. No queue waits for anything but work that the driver already
 * has.
 */
#ifndef BACKENDS_GPU_STAGING_H
#define BACKENDS_GPU_STAGING_H

#include "backends/gpu/driver.h"

/**
 * The slots of a stream, the bytes of a slot, the least bytes of a piece that has a piece behind it, and the
 * most bytes of a short copy.
 */
#define YOKEI_GPU_SLOTS 4
#define YOKEI_GPU_SLOT_BYTES ((size_t)512 << 10)
#define YOKEI_GPU_PIECE_BYTES ((size_t)256 << 10)
#define YOKEI_GPU_SHORT_BYTES ((size_t)64 << 10)

/** The two queues of a stream. */
enum yokei_gpu_queue { YOKEI_GPU_OWN, YOKEI_GPU_HOST };
/** The events of a stream: one for each slot, and one for the order of the two queues. */
#define YOKEI_GPU_MARKS (YOKEI_GPU_SLOTS + 1)

struct yokei_gpu_staging_calls {
    /* Let a queue call function(argument) behind all work that was issued to it before. */
    yoke_status (*call)(yoke_stream *stream, enum yokei_gpu_queue queue, void (*function)(void *),
                        void *argument);
    /* Copy between a slot and the device, in the order of the stream's own queue. */
    yoke_status (*to_device)(yoke_stream *stream, void *target, const void *slot, size_t bytes);
    yoke_status (*to_host)(yoke_stream *stream, void *slot, const void *source, size_t bytes);
    /*
     * Functions of the host that the own queue calls later see what it has written to a slot. `mark` does
     * this, too. NULL: the slots are coherent memory.
     */
    yoke_status (*release)(yoke_stream *stream);
    /* Record event `mark` behind the work of a queue, and let the other queue wait for it. */
    yoke_status (*mark)(yoke_stream *stream, enum yokei_gpu_queue queue, int mark);
    yoke_status (*wait)(yoke_stream *stream, enum yokei_gpu_queue queue, int mark);
};

/** What a stream has for its copies. All zero at the beginning, except for the slots. */
struct yokei_gpu_staging {
    char *slot[YOKEI_GPU_SLOTS]; /* pinned memory of this stream, YOKEI_GPU_SLOT_BYTES each */
    unsigned next;               /* the slot of the next piece */
    struct {
        bool used, marked;          /* marked: the event of the slot is recorded behind its last use */
        enum yokei_gpu_queue queue; /* the queue of the last use */
    } last[YOKEI_GPU_SLOTS];
    /* The host queue has work that the own queue has not waited for, and which is newer than the own queue's
       last piece. Mark `newest` is behind this work. */
    bool host_is_ahead;
    int newest;
    bool own_has_moved; /* the own queue has work that the host queue has not waited for */
};

/** The bytes of a piece of a copy of so many bytes. */
size_t yokei_gpu_piece_bytes(size_t bytes);

/**
 * Issue a copy of kind YOKE_COPY_TO_DEVICE or YOKE_COPY_TO_HOST. Does not block. If a call fails, the pieces
 * before it have been issued.
 */
yoke_status yokei_gpu_stage(yoke_stream *stream, struct yokei_gpu_staging *staging,
                            const struct yokei_gpu_staging_calls *calls, enum yoke_copy_kind kind,
                            void *target, const void *source, size_t bytes);
/** Let the stream's own queue wait for the host queue, so that all work of the stream ends with it. */
yoke_status yokei_gpu_stage_join(yoke_stream *stream, struct yokei_gpu_staging *staging,
                                 const struct yokei_gpu_staging_calls *calls);
/** The queue behind whose work all work of the stream is done. */
yoke_status yokei_gpu_stage_end(yoke_stream *stream, struct yokei_gpu_staging *staging,
                                const struct yokei_gpu_staging_calls *calls, enum yokei_gpu_queue *queue_out);

#endif
