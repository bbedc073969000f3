/* SPDX-License-Identifier: Apache-2.0 */
/** Staged copies; staging.h says how they work. */
#include "backends/gpu/staging.h"

#include <stdlib.h>
#include <string.h>

/** The mark that orders the two queues. */
enum { ORDER = YOKEI_GPU_SLOTS };

struct piece {
    void *target;
    const void *source;
    size_t bytes;
};

/* One copy, and what its pieces need. */
struct staged {
    yoke_stream *stream;
    struct yokei_gpu_staging *staging;
    const struct yokei_gpu_staging_calls *calls;
};

/*
 * A long copy has as many pieces as there are slots, or more. So the host works on one piece while the device
 * works on others. Shorter pieces would cost more calls of the driver than they gain: a chunk of a collective
 * is one piece.
 */
size_t yokei_gpu_piece_bytes(size_t bytes)
{
    const size_t page = 4096, quarter = (bytes + YOKEI_GPU_SLOTS - 1) / YOKEI_GPU_SLOTS;
    const size_t piece = (quarter + page - 1) / page * page;
    return YOKE_MIN(YOKE_MAX(piece, YOKEI_GPU_PIECE_BYTES), YOKEI_GPU_SLOT_BYTES);
}

/** Called by a queue, on a thread of the driver. */
static void copy_piece(void *argument)
{
    struct piece *piece = argument;
    memcpy(piece->target, piece->source, piece->bytes);
    free(piece);
}

static yoke_status call_copy(const struct staged *s, enum yokei_gpu_queue queue, void *target,
                             const void *source, size_t bytes)
{
    struct piece *piece = malloc(sizeof *piece);
    if (!piece) return yokei_gpu_no_host_memory(s->stream->device, "a copy");
    *piece = (struct piece){ target, source, bytes };
    const yoke_status status = s->calls->call(s->stream, queue, copy_piece, piece);
    if (status) free(piece);
    return status;
}

/** The queue has used the slot. If `marked`, its event says when. */
static void use(const struct staged *s, int slot, enum yokei_gpu_queue queue, bool marked)
{
    s->staging->last[slot].used = true;
    s->staging->last[slot].queue = queue;
    s->staging->last[slot].marked = marked;
}

/** Let the queue wait until the slot may be used again. */
static yoke_status reserve(const struct staged *s, int slot, enum yokei_gpu_queue queue)
{
    struct yokei_gpu_staging *staging = s->staging;
    if (!staging->last[slot].used || staging->last[slot].queue == queue) return YOKE_OK;
    if (!staging->last[slot].marked) YOKE_TRY(s->calls->mark(s->stream, staging->last[slot].queue, slot));
    staging->last[slot].marked = true;
    return s->calls->wait(s->stream, queue, slot);
}

yoke_status yokei_gpu_stage_join(yoke_stream *stream, struct yokei_gpu_staging *staging,
                                 const struct yokei_gpu_staging_calls *calls)
{
    if (!staging->host_is_ahead) return YOKE_OK;
    YOKE_TRY(calls->wait(stream, YOKEI_GPU_OWN, staging->newest));
    staging->host_is_ahead = false;
    return YOKE_OK;
}

/** Let the host queue wait for all work of the own queue. */
static yoke_status follow_own(yoke_stream *stream, struct yokei_gpu_staging *staging,
                              const struct yokei_gpu_staging_calls *calls)
{
    if (!staging->own_has_moved) return YOKE_OK;
    YOKE_TRY(calls->mark(stream, YOKEI_GPU_OWN, ORDER));
    YOKE_TRY(calls->wait(stream, YOKEI_GPU_HOST, ORDER));
    staging->own_has_moved = false;
    return YOKE_OK;
}

yoke_status yokei_gpu_stage_end(yoke_stream *stream, struct yokei_gpu_staging *staging,
                                const struct yokei_gpu_staging_calls *calls, enum yokei_gpu_queue *queue_out)
{
    *queue_out = YOKEI_GPU_OWN;
    if (!staging->host_is_ahead) return YOKE_OK;
    YOKE_TRY(follow_own(stream, staging, calls));
    *queue_out = YOKEI_GPU_HOST;
    return YOKE_OK;
}

static yoke_status short_copy(const struct staged *s, bool to_device, char *to, const char *from, size_t n)
{
    char *slot = s->staging->slot[0];
    YOKE_TRY(yokei_gpu_stage_join(s->stream, s->staging, s->calls));
    YOKE_TRY(reserve(s, 0, YOKEI_GPU_OWN));
    use(s, 0, YOKEI_GPU_OWN, false);
    s->staging->own_has_moved = true;
    if (to_device) {
        YOKE_TRY(call_copy(s, YOKEI_GPU_OWN, slot, from, n));
        return s->calls->to_device(s->stream, to, slot, n);
    }
    YOKE_TRY(s->calls->to_host(s->stream, slot, from, n));
    if (s->calls->release) YOKE_TRY(s->calls->release(s->stream));
    return call_copy(s, YOKEI_GPU_OWN, to, slot, n);
}

/** Mark the end of a queue's work on a slot, and let the other queue wait for it. */
static yoke_status hand_over(const struct staged *s, int slot, enum yokei_gpu_queue from)
{
    YOKE_TRY(s->calls->mark(s->stream, from, slot));
    return s->calls->wait(s->stream, from == YOKEI_GPU_OWN ? YOKEI_GPU_HOST : YOKEI_GPU_OWN, slot);
}

static yoke_status piece_to_device(const struct staged *s, int slot, char *to, const char *from, size_t n)
{
    char *memory = s->staging->slot[slot];
    YOKE_TRY(reserve(s, slot, YOKEI_GPU_HOST));
    YOKE_TRY(call_copy(s, YOKEI_GPU_HOST, memory, from, n));
    YOKE_TRY(hand_over(s, slot, YOKEI_GPU_HOST));
    s->staging->host_is_ahead = false;
    YOKE_TRY(s->calls->to_device(s->stream, to, memory, n));
    YOKE_TRY(s->calls->mark(s->stream, YOKEI_GPU_OWN, slot));
    use(s, slot, YOKEI_GPU_OWN, true);
    return YOKE_OK;
}

static yoke_status piece_to_host(const struct staged *s, int slot, char *to, const char *from, size_t n)
{
    char *memory = s->staging->slot[slot];
    YOKE_TRY(reserve(s, slot, YOKEI_GPU_OWN));
    YOKE_TRY(s->calls->to_host(s->stream, memory, from, n));
    YOKE_TRY(hand_over(s, slot, YOKEI_GPU_OWN));
    s->staging->own_has_moved = false;
    YOKE_TRY(call_copy(s, YOKEI_GPU_HOST, to, memory, n));
    YOKE_TRY(s->calls->mark(s->stream, YOKEI_GPU_HOST, slot));
    use(s, slot, YOKEI_GPU_HOST, true);
    s->staging->host_is_ahead = true;
    s->staging->newest = slot;
    return YOKE_OK;
}

yoke_status yokei_gpu_stage(yoke_stream *stream, struct yokei_gpu_staging *staging,
                            const struct yokei_gpu_staging_calls *calls, enum yoke_copy_kind kind,
                            void *target, const void *source, size_t bytes)
{
    const struct staged s = { stream, staging, calls };
    const bool to_device = kind == YOKE_COPY_TO_DEVICE;
    const size_t most = yokei_gpu_piece_bytes(bytes);
    if (bytes <= YOKEI_GPU_SHORT_BYTES) return short_copy(&s, to_device, target, source, bytes);
    if (to_device) YOKE_TRY(follow_own(stream, staging, calls));
    for (size_t at = 0, n; at < bytes; at += n) {
        const int slot = (int)(staging->next++ % YOKEI_GPU_SLOTS);
        char *to = (char *)target + at;
        const char *from = (const char *)source + at;
        n = YOKE_MIN(bytes - at, most);
        YOKE_TRY(to_device ? piece_to_device(&s, slot, to, from, n) : piece_to_host(&s, slot, to, from, n));
    }
    return YOKE_OK;
}
