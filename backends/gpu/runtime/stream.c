/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Streams are queues of the driver that do not wait for its default stream. The work of a yoke_stream runs in
 * order in one queue. A second queue, which copy.c makes and orders, calls the host for long copies of
 * pageable memory. The work of several streams overlaps. Waits of the host sleep in the driver: a wait
 * that spins would take a core from the host's own ranks.
 */
#include <stdlib.h>

#include "backends/gpu/runtime/runtime.h"

/** Free what the stream has. The context is current, unless it is lost. */
static void release_stream(yoke_device *device, struct yokei_rt_stream *s)
{
    struct yokei_rt *rt = yokei_rt(device);
    pthread_mutex_lock(&rt->lock);
    for (struct yokei_rt_stream **at = &rt->streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&rt->lock);
    if (s->queue && !s->is_foreign) rt->calls->queue_destroy(rt, s->queue);
    if (s->synced) rt->calls->event_destroy(rt, s->synced);
    yokei_rt_copies_end(device, s);
    if (s->done.host) yokei_rt_pinned_give(device, YOKEI_RT_WORDS, s->done);
    free(s);
}

static yoke_status open_queue(yoke_device *device, const struct yoke_native *native,
                              struct yokei_rt_stream *s)
{
    bool is_other = false;
    if (!native) {
        YOKEI_RT_TRY(device, queue_create, &s->queue);
        return YOKE_OK;
    }
    s->queue = native->queue;
    s->is_foreign = true;
    YOKEI_RT_TRY(device, queue_is_other, s->queue, &is_other);
    return is_other ? yokei_gpu_refuse_context(device, "stream") : YOKE_OK;
}

static yoke_status open_stream(yoke_device *device, const struct yoke_native *native,
                               struct yokei_rt_stream *s)
{
    struct yokei_rt *rt = yokei_rt(device);
    YOKE_TRY(open_queue(device, native, s));
    YOKEI_RT_TRY(device, event_create, YOKEI_RT_SLEEPS, &s->synced);
    /* now and not at the first copy, because another block of slots may have to wait for the device */
    YOKE_TRY(yokei_rt_copies_begin(device, s));
    YOKE_TRY(yokei_rt_pinned_take(device, YOKEI_RT_WORDS, &s->done));
    s->marked = s->recorded = atomic_load(yokei_rt_word(s->done));
    atomic_store(&s->group, s->marked);
    atomic_store(&s->ended, s->marked);
    static atomic_ullong streams;
    s->serial = atomic_fetch_add(&streams, 1) + 1;
    pthread_mutex_lock(&rt->lock);
    s->next = rt->streams;
    rt->streams = s;
    pthread_mutex_unlock(&rt->lock);
    return YOKE_OK;
}

static yoke_status rt_stream_create(yoke_stream *stream, const struct yoke_native *native)
{
    YOKE_TRY(yokei_rt_enter(stream->device));
    struct yokei_rt_stream *s = calloc(1, sizeof *s);
    yoke_status status = s ? open_stream(stream->device, native, s)
                           : yokei_gpu_no_host_memory(stream->device, "a stream");
    if (status && s) release_stream(stream->device, s);
    if (!status) stream->impl = s;
    yokei_rt_leave(stream->device);
    return status;
}

/** Wait until the queue has ended its work. The context is current. */
static yoke_status wait_for_queue(yoke_stream *stream)
{
    const struct yokei_rt_stream *s = yokei_rt_stream(stream);
    void *last;
    YOKE_TRY(yokei_rt_mark(stream));
    YOKE_TRY(yokei_rt_last_queue(stream, &last));
    YOKEI_RT_TRY(stream->device, event_record, s->synced, last);
    YOKEI_RT_TRY(stream->device, event_sync, s->synced);
    return YOKE_OK;
}

static void rt_stream_destroy(yoke_stream *stream)
{
    struct yokei_error saved;
    yokei_error_save(&saved);
    const bool entered = !yokei_rt_enter(stream->device);
    if (entered) (void)wait_for_queue(stream); /* the caller has seen the error already */
    release_stream(stream->device, yokei_rt_stream(stream));
    if (entered) yokei_rt_leave(stream->device);
    yokei_error_restore(&saved);
}

static yoke_status rt_stream_sync(yoke_stream *stream)
{
    YOKE_TRY(yokei_rt_enter(stream->device));
    const yoke_status status = wait_for_queue(stream);
    yokei_rt_leave(stream->device);
    return status;
}

/** The driver hands work to the device at once, so this only reports an error of earlier work. */
static yoke_status rt_stream_flush(yoke_stream *stream)
{
    YOKE_TRY(yokei_rt_enter(stream->device));
    yokei_rt_leave(stream->device);
    return YOKE_OK;
}

const struct yoke_stream_ops yokei_rt_stream_ops = {
    .create = rt_stream_create,
    .destroy = rt_stream_destroy,
    .sync = rt_stream_sync,
    .flush = rt_stream_flush,
    .copy = yokei_rt_copy,
    .fill = yokei_rt_fill,
};
