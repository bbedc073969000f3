/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies and fills of a stream. Memory that the driver has page-locked is copied directly. Other memory of
 * the host goes through the stream's slots (backends/gpu/staging.h).
 */
#include "backends/gpu/runtime/runtime.h"

/* ---- what a stream has for copies ---- */

yoke_status yokei_rt_copies_begin(yoke_device *device, struct yokei_rt_stream *s)
{
    for (int i = 0; i < YOKEI_GPU_SLOTS; i++) {
        YOKE_TRY(yokei_rt_pinned_take(device, YOKEI_RT_SLOTS, &s->slot[i]));
        s->staging.slot[i] = s->slot[i].host;
    }
    return YOKE_OK;
}

void yokei_rt_copies_end(yoke_device *device, struct yokei_rt_stream *s)
{
    const struct yokei_rt *rt = yokei_rt(device);
    if (s->host_queue) rt->calls->queue_destroy(rt, s->host_queue);
    for (int i = 0; i < YOKEI_GPU_MARKS; i++)
        if (s->marks[i]) rt->calls->event_destroy(rt, s->marks[i]);
    for (int i = 0; i < YOKEI_GPU_SLOTS; i++)
        if (s->slot[i].host) yokei_rt_pinned_give(device, YOKEI_RT_SLOTS, s->slot[i]);
}

/** Make the host queue before the first long copy of pageable memory. Neither call waits for the device. */
static yoke_status need_host_queue(yoke_stream *stream)
{
    struct yokei_rt_stream *s = yokei_rt_stream(stream);
    for (int i = 0; i < YOKEI_GPU_MARKS; i++)
        if (!s->marks[i]) YOKEI_RT_TRY(stream->device, event_create, YOKEI_RT_ORDERS, &s->marks[i]);
    if (!s->host_queue) YOKEI_RT_TRY(stream->device, queue_create, &s->host_queue);
    return YOKE_OK;
}

/* ---- the calls of staged copies ---- */

static void *queue_of(const yoke_stream *stream, enum yokei_gpu_queue queue)
{
    const struct yokei_rt_stream *s = yokei_rt_stream(stream);
    return queue == YOKEI_GPU_HOST ? s->host_queue : s->queue;
}

static yoke_status call_host(yoke_stream *stream, enum yokei_gpu_queue queue, void (*function)(void *),
                             void *argument)
{
    YOKEI_RT_TRY(stream->device, call_host, queue_of(stream, queue), function, argument);
    return YOKE_OK;
}

static yoke_status mark(yoke_stream *stream, enum yokei_gpu_queue queue, int mark)
{
    YOKEI_RT_TRY(stream->device, event_record, yokei_rt_stream(stream)->marks[mark], queue_of(stream, queue));
    return YOKE_OK;
}

static yoke_status wait_for_mark(yoke_stream *stream, enum yokei_gpu_queue queue, int mark)
{
    YOKEI_RT_TRY(stream->device, event_wait, queue_of(stream, queue), yokei_rt_stream(stream)->marks[mark]);
    return YOKE_OK;
}

/** The driver refuses an address that is no memory of its own at once. */
static yoke_status copied(const yoke_stream *stream, const char *call, int error, const void *target,
                          const void *source)
{
    if (!error) return YOKE_OK;
    if (yokei_rt(stream->device)->calls->meaning(error) == YOKEI_RT_BAD_VALUE)
        return yokei_gpu_refuse_copy(stream, target, source);
    return yokei_rt_fail(stream->device, call, error);
}

/** Copy by this slot of the vendor's calls. */
#define COPY(slot)                                                                                    \
    const struct yokei_rt *rt = yokei_rt(stream->device);                                             \
    return copied(stream, rt->calls->names.slot,                                                      \
                  rt->calls->slot(rt, target, source, bytes, yokei_rt_stream(stream)->queue), target, \
                  source)

static yoke_status to_device(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    COPY(copy_in);
}

static yoke_status to_host(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    COPY(copy_out);
}

/** The event is for waits of the host, which record it again. */
static yoke_status release(yoke_stream *stream)
{
    const struct yokei_rt_stream *s = yokei_rt_stream(stream);
    YOKEI_RT_TRY(stream->device, event_record, s->synced, s->queue);
    return YOKE_OK;
}

static const struct yokei_gpu_staging_calls coherent = { call_host, to_device, to_host,
                                                         NULL,      mark,      wait_for_mark },
                                            cached = { call_host, to_device, to_host,
                                                       release,   mark,      wait_for_mark };

static const struct yokei_gpu_staging_calls *calls_of(const yoke_stream *stream)
{
    return yokei_rt(stream->device)->calls->slots_are_cached ? &cached : &coherent;
}

yoke_status yokei_rt_last_queue(yoke_stream *stream, void **queue_out)
{
    enum yokei_gpu_queue end;
    YOKE_TRY(yokei_gpu_stage_end(stream, &yokei_rt_stream(stream)->staging, calls_of(stream), &end));
    *queue_out = queue_of(stream, end);
    return YOKE_OK;
}

/* ---- copies and fills ---- */

/** Whether the device can read and write this host memory by itself. */
static bool is_pinned(struct yokei_rt *rt, const void *host, size_t bytes)
{
    if (yokei_rt_has_pin(rt, host, bytes)) return true;
    return rt->calls->place(rt, host) == YOKEI_RT_ON_HOST;
}

static yoke_status copy_pageable(yoke_stream *stream, enum yoke_copy_kind kind, void *target,
                                 const void *source, size_t bytes)
{
    struct yokei_gpu_staging *staging = &yokei_rt_stream(stream)->staging;
    const bool moved = staging->own_has_moved;
    YOKE_TRY(yokei_rt_command(stream));
    staging->own_has_moved = moved; /* the pieces of a copy keep their own order */
    if (bytes > YOKEI_GPU_SHORT_BYTES) YOKE_TRY(need_host_queue(stream));
    YOKE_TRY(yokei_gpu_stage(stream, staging, calls_of(stream), kind, target, source, bytes));
    /* The owner of a foreign queue knows nothing of the host queue. */
    return stream->is_foreign ? yokei_gpu_stage_join(stream, staging, calls_of(stream)) : YOKE_OK;
}

static yoke_status copy_on_device(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    YOKE_TRY(yokei_rt_command(stream));
    COPY(copy_on);
}

static yoke_status issue_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                              size_t bytes)
{
    const bool is_in = kind == YOKE_COPY_TO_DEVICE;
    if (kind == YOKE_COPY_ON_DEVICE) return copy_on_device(stream, target, source, bytes);
    if (!is_pinned(yokei_rt(stream->device), is_in ? source : target, bytes))
        return copy_pageable(stream, kind, target, source, bytes);
    /* The memory may have been page-locked after an earlier copy of it was issued. */
    YOKE_TRY(yokei_gpu_stage_join(stream, &yokei_rt_stream(stream)->staging, calls_of(stream)));
    YOKE_TRY(yokei_rt_command(stream));
    return is_in ? to_device(stream, target, source, bytes) : to_host(stream, target, source, bytes);
}

yoke_status yokei_rt_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                          size_t bytes)
{
    YOKE_TRY(yokei_rt_enter(stream->device));
    const yoke_status status = issue_copy(stream, kind, target, source, bytes);
    yokei_rt_leave(stream->device);
    return status;
}

static yoke_status issue_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    const struct yokei_rt *rt = yokei_rt(stream->device);
    YOKE_TRY(yokei_rt_command(stream));
    const int error = rt->calls->fill(rt, target, byte, bytes, yokei_rt_stream(stream)->queue);
    if (!error) return YOKE_OK;
    if (rt->calls->meaning(error) == YOKEI_RT_BAD_VALUE) return yokei_gpu_refuse_fill(stream, target, bytes);
    return yokei_rt_fail(stream->device, rt->calls->names.fill, error);
}

yoke_status yokei_rt_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    YOKE_TRY(yokei_rt_enter(stream->device));
    const yoke_status status = issue_fill(stream, target, byte, bytes);
    yokei_rt_leave(stream->device);
    return status;
}
