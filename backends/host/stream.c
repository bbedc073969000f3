/* SPDX-License-Identifier: Apache-2.0 */
/* Host: streams, copies and events. Work runs when it is issued, so a stream is empty and an event is one flag. */
#include "backends/host/host.h"

#include <stdlib.h>
#include <string.h>

struct host_event {
    atomic_bool complete;
};

static yoke_status stream_create(yoke_stream *stream, const struct yoke_native *native)
{
    if (native) return yoke_fail(YOKE_EUNSUPPORTED, "yoke_stream_wrap: the host has no foreign queues; use yoke_stream_create");
    stream->impl = NULL;
    return YOKE_OK;
}

static void stream_destroy(yoke_stream *stream) { (void)stream; }

static yoke_status stream_nothing_pending(yoke_stream *stream)
{
    (void)stream;
    return YOKE_OK;
}

struct move {
    char *target;
    const char *source; /* NULL: fill */
    uint8_t byte;
};

static void move_range(const void *context, int64_t from, int64_t to)
{
    const struct move *m = context;
    if (m->source)
        memmove(m->target + from, m->source + from, (size_t)(to - from));
    else
        memset(m->target + from, m->byte, (size_t)(to - from));
}

enum { MOVE_GRAIN = 1 << 18 };

static yoke_status stream_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source, size_t bytes)
{
    (void)kind;
    const struct move m = { target, source, 0 };
    const char *t = target, *s = source;
    if (t < s + bytes && s < t + bytes) /* overlapping: pieces in parallel would read what others wrote */
        memmove(target, source, bytes);
    else
        host_for(stream, (int64_t)bytes, MOVE_GRAIN, move_range, &m);
    return YOKE_OK;
}

static yoke_status stream_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    const struct move m = { target, NULL, byte };
    host_for(stream, (int64_t)bytes, MOVE_GRAIN, move_range, &m);
    return YOKE_OK;
}

static yoke_status event_create(yoke_event *event)
{
    struct host_event *e = malloc(sizeof *e);
    if (!e) return yoke_fail(YOKE_ENOMEM, "event on host: no memory");
    atomic_init(&e->complete, true);
    event->impl = e;
    return YOKE_OK;
}

static void event_destroy(yoke_event *event) { free(event->impl); }

static void event_set(yoke_event *event, bool complete)
{
    struct host_event *e = event->impl;
    atomic_store_explicit(&e->complete, complete, memory_order_release);
}

static yoke_status event_record(yoke_event *event, yoke_stream *stream)
{
    (void)stream;
    event_set(event, true);
    return YOKE_OK;
}

static yoke_status event_arm(yoke_event *event)
{
    event_set(event, false);
    return YOKE_OK;
}

static yoke_status event_signal(yoke_event *event)
{
    event_set(event, true);
    return YOKE_OK;
}

static yoke_status event_query(yoke_event *event, bool *complete_out)
{
    struct host_event *e = event->impl;
    *complete_out = atomic_load_explicit(&e->complete, memory_order_acquire);
    return YOKE_OK;
}

static yoke_status event_wait(yoke_stream *stream, yoke_event *event)
{
    (void)stream;
    struct host_event *e = event->impl;
    struct yokei_wait wait;
    yokei_wait_init(&wait, YOKEI_WAIT_YIELD, 1, 1); /* whoever signals may need this core */
    while (!atomic_load_explicit(&e->complete, memory_order_acquire)) yokei_wait_idle(&wait);
    return YOKE_OK;
}

const struct yoke_stream_ops host_stream_ops = {
    .create = stream_create,
    .destroy = stream_destroy,
    .sync = stream_nothing_pending,
    .flush = stream_nothing_pending,
    .copy = stream_copy,
    .fill = stream_fill,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_arm = event_arm,
    .event_signal = event_signal,
    .event_query = event_query,
    .event_wait = event_wait,
};
