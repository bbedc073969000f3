/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager streams: when a call on such a stream returns, its work has ended. They are for backends that compute
 * on the calling thread. An event is incomplete only between arm and signal.
 */
#include "core/backend.h"
#include "core/base/base.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

yoke_status yokei_eager_create(yoke_stream *stream, const struct yoke_native *native)
{
    if (!native) return YOKE_OK;
    return yoke_fail(YOKE_EUNSUPPORTED, "device %s: it has no foreign queues to wrap",
                     stream->device->info.spec);
}

void yokei_eager_destroy(yoke_stream *stream) { (void)stream; }

yoke_status yokei_eager_nothing(yoke_stream *stream)
{
    (void)stream;
    return YOKE_OK;
}

static yoke_status eager_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                              size_t bytes)
{
    (void)stream, (void)kind;
    memmove(target, source, bytes);
    return YOKE_OK;
}

static yoke_status eager_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    (void)stream;
    memset(target, byte, bytes);
    return YOKE_OK;
}

struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool complete;
    uint64_t completed_ns;
};

static yoke_status event_create(yoke_event *event)
{
    struct event *e = malloc(sizeof *e);
    if (!e) return yoke_fail(YOKE_ENOMEM, "event: no memory");
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->complete = true;
    e->completed_ns = yokei_now_ns();
    event->impl = e;
    return YOKE_OK;
}

static void event_destroy(yoke_event *event)
{
    struct event *e = event->impl;
    /* In a forked process a thread that exists only in the parent may count as waiting here. */
    if (yokei_made_here(&event->device->maker)) {
        pthread_cond_destroy(&e->changed);
        pthread_mutex_destroy(&e->lock);
    }
    free(e);
}

static yoke_status set(yoke_event *event, bool complete)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    e->complete = complete;
    if (complete) e->completed_ns = yokei_now_ns();
    if (complete) pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static yoke_status event_record(yoke_event *event, yoke_stream *stream)
{
    (void)stream;
    return set(event, true);
}

static yoke_status event_arm(yoke_event *event) { return set(event, false); }
static yoke_status event_signal(yoke_event *event) { return set(event, true); }

static yoke_status event_query(yoke_event *event, bool *complete_out)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    *complete_out = e->complete;
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static yoke_status event_wait(yoke_stream *stream, yoke_event *event)
{
    (void)stream;
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    while (!e->complete) pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

uint64_t yokei_eager_event_ns(const yoke_event *event)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    const uint64_t ns = e->complete ? e->completed_ns : 0;
    pthread_mutex_unlock(&e->lock);
    return ns;
}

const struct yoke_stream_ops yokei_eager_stream_ops = YOKEI_EAGER_STREAM_OPS(eager_copy, eager_fill);

const struct yoke_event_ops yokei_eager_event_ops = {
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .arm = event_arm,
    .signal = event_signal,
    .query = event_query,
    .wait = event_wait,
};

bool yokei_is_eager(const yoke_device *device)
{
    return device->backend->stream->create == yokei_eager_create;
}
