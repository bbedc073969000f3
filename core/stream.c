/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, copies and events: each call checks its arguments, then calls the backend. */
#include "core/backend.h"
#include "core/base/base.h"
#include "core/device.h"
#include "core/held.h"

#include <stdlib.h>

#define STREAM_OPS(stream_) ((stream_)->device->backend->stream)
#define EVENT_OPS(event_) ((event_)->device->backend->event)

static yoke_status create(yoke_device *device, const struct yoke_native *native, yoke_stream **stream_out)
{
    yoke_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return yoke_fail(YOKE_ENOMEM, "stream: no memory");
    stream->device = device;
    stream->is_foreign = native != NULL;
    yoke_status status = STREAM_OPS(stream)->create(stream, native);
    if (!status) {
        status = yokei_live_add(&yokei_objects, stream, sizeof *stream);
        if (status) STREAM_OPS(stream)->destroy(stream);
    }
    if (status) {
        free(stream);
        return status;
    }
    atomic_fetch_add(&device->n_children, 1);
    *stream_out = stream;
    return YOKE_OK;
}

yoke_status yoke_stream_create(yoke_device *device, yoke_stream **stream_out)
{
    if (!device || !stream_out) return yoke_fail(YOKE_EINVAL, "yoke_stream_create: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_stream_create", device));
    return create(device, NULL, stream_out);
}

yoke_status yoke_stream_wrap(yoke_device *device, const struct yoke_native *native, yoke_stream **stream_out)
{
    if (!device || !native || !stream_out || native->size < sizeof *native || !native->queue)
        return yoke_fail(YOKE_EINVAL, "yoke_stream_wrap: needs a device and a native queue");
    YOKE_TRY(yokei_check_maker("yoke_stream_wrap", device));
    return create(device, native, stream_out);
}

yoke_status yoke_stream_destroy(yoke_stream *stream)
{
    if (!stream) return YOKE_OK;
    YOKE_TRY(yokei_object_leaves("yoke_stream_destroy", "stream", stream));
    yoke_device *device = stream->device;
    /* the error is reported, but the stream is still destroyed */
    const yoke_status status = yokei_made_here(&device->maker) ? yoke_stream_sync(stream) : YOKE_OK;
    if (!yokei_made_here(&device->maker)) yokei_held_forget(stream);
    if (yokei_may_release(device)) {
        if (stream->scratch) device->backend->memory->free(device, stream->scratch);
        STREAM_OPS(stream)->destroy(stream);
    }
    free(stream);
    atomic_fetch_sub(&device->n_children, 1);
    return status;
}

yoke_device *yoke_stream_device(const yoke_stream *stream) { return stream->device; }

yoke_status yoke_stream_sync(yoke_stream *stream)
{
    if (!stream) return yoke_fail(YOKE_EINVAL, "yoke_stream_sync: no stream");
    YOKE_TRY(yokei_check_maker("yoke_stream_sync", stream->device));
    if (!yokei_is_held(stream)) return STREAM_OPS(stream)->sync(stream);
    struct yokei_error text;
    const yoke_status held = yokei_held_drain(stream);
    yokei_error_save(&text);
    const yoke_status status = STREAM_OPS(stream)->sync(stream); /* also after an error: the rest must end */
    if (held) yokei_error_restore(&text);
    return held ? held : status;
}

yoke_status yoke_stream_flush(yoke_stream *stream)
{
    if (!stream) return yoke_fail(YOKE_EINVAL, "yoke_stream_flush: no stream");
    YOKE_TRY(yokei_check_maker("yoke_stream_flush", stream->device));
    return yokei_is_held(stream) ? YOKE_OK : STREAM_OPS(stream)->flush(stream);
}

yoke_status yoke_stream_reserve(yoke_stream *stream, size_t bytes)
{
    if (!stream) return yoke_fail(YOKE_EINVAL, "yoke_stream_reserve: no stream");
    YOKE_TRY(yokei_check_maker("yoke_stream_reserve", stream->device));
    if (bytes <= stream->scratch_bytes) return YOKE_OK;
    YOKE_TRY(yoke_stream_sync(stream)); /* work in flight may still use the old scratch */
    const struct yoke_memory_ops *memory = stream->device->backend->memory;
    void *scratch;
    const yoke_status status = memory->alloc(stream->device, bytes, &scratch);
    if (status) return yoke_fail_context(status, "scratch memory of a stream");
    if (stream->scratch) memory->free(stream->device, stream->scratch);
    stream->scratch = scratch;
    stream->scratch_bytes = bytes;
    return yokei_annotate(stream->device, NULL,
                          &(struct yokei_annotation){ scratch, bytes, YOKEI_MEMORY_FORBIDDEN,
                                                      "scratch memory", 0 });
}

/* Scratch memory has no content at the beginning of an op, and ends where the op has said. */
static yoke_status annotate_scratch(yoke_stream *stream, size_t bytes)
{
    struct yokei_annotation note = { stream->scratch, bytes, YOKEI_MEMORY_UNDEFINED, NULL, 0 };
    YOKE_TRY(yokei_annotate(stream->device, stream, &note));
    note.address = (const char *)stream->scratch + bytes;
    note.bytes = stream->scratch_bytes - bytes;
    note.state = YOKEI_MEMORY_FORBIDDEN;
    return yokei_annotate(stream->device, stream, &note);
}

yoke_status yokei_check_scratch(const yoke_stream *stream, enum yoke_op_id op, size_t bytes)
{
    if (bytes <= stream->scratch_bytes) return YOKE_OK;
    return yoke_fail(
        YOKE_ENOMEM,
        "%s: needs %zu bytes of scratch, the stream has %zu; call yoke_stream_reserve with what %s_can states",
        yokei_op_names[op], bytes, stream->scratch_bytes, yokei_op_names[op]);
}

yoke_status yokei_scratch(yoke_stream *stream, enum yoke_op_id op, size_t bytes, void **scratch_out)
{
    YOKE_TRY(yokei_check_scratch(stream, op, bytes));
    *scratch_out = stream->scratch;
    return !stream->is_dry && yokei_annotates(stream->device) ? annotate_scratch(stream, bytes) : YOKE_OK;
}

static yoke_status copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                        size_t bytes, const char *name)
{
    if (!stream) return yoke_fail(YOKE_EINVAL, "%s: no stream", name);
    YOKE_TRY(yokei_check_maker(name, stream->device));
    if (!bytes) return YOKE_OK;
    if (!target || !source) return yoke_fail(YOKE_EINVAL, "%s: a NULL address for %zu bytes", name, bytes);
    bool queued = false;
    stream->last_op = name;
    if (yokei_is_held(stream)) YOKE_TRY(yokei_hold_copy(stream, kind, target, source, bytes, name, &queued));
    if (queued) return YOKE_OK;
    return STREAM_OPS(stream)->copy(stream, kind, target, source, bytes);
}

yoke_status yoke_copy(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    return copy(stream, YOKE_COPY_ON_DEVICE, target, source, bytes, "yoke_copy");
}

yoke_status yoke_copy_to_device(yoke_stream *stream, void *target, const void *host_source, size_t bytes)
{
    return copy(stream, YOKE_COPY_TO_DEVICE, target, host_source, bytes, "yoke_copy_to_device");
}

yoke_status yoke_copy_to_host(yoke_stream *stream, void *host_target, const void *source, size_t bytes)
{
    return copy(stream, YOKE_COPY_TO_HOST, host_target, source, bytes, "yoke_copy_to_host");
}

yoke_status yokei_stream_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    bool queued = stream->is_dry;
    if (yokei_is_held(stream)) YOKE_TRY(yokei_hold_fill(stream, target, byte, bytes, &queued));
    return queued ? YOKE_OK : STREAM_OPS(stream)->fill(stream, target, byte, bytes);
}

yoke_status yoke_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    if (!stream) return yoke_fail(YOKE_EINVAL, "yoke_fill: no stream");
    YOKE_TRY(yokei_check_maker("yoke_fill", stream->device));
    if (!bytes) return YOKE_OK;
    if (!target) return yoke_fail(YOKE_EINVAL, "yoke_fill: a NULL address for %zu bytes", bytes);
    stream->last_op = "yoke_fill";
    return yokei_stream_fill(stream, target, byte, bytes);
}

static void destroy_event(yoke_event *event)
{
    if (yokei_holds(event->device))
        yokei_moment_destroy(event);
    else if (yokei_may_release(event->device))
        EVENT_OPS(event)->destroy(event);
}

static yoke_status create_event(yoke_device *device, bool timed, yoke_event **event_out)
{
    yoke_event *event = calloc(1, sizeof *event);
    if (!event) return yoke_fail(YOKE_ENOMEM, "event: no memory");
    event->device = device;
    event->timed = timed;
    yoke_status status = yokei_holds(device) ? yokei_moment_create(event) : EVENT_OPS(event)->create(event);
    if (!status) {
        status = yokei_live_add(&yokei_objects, event, sizeof *event);
        if (status) destroy_event(event);
    }
    if (status) {
        free(event);
        return status;
    }
    atomic_fetch_add(&device->n_children, 1);
    *event_out = event;
    return YOKE_OK;
}

yoke_status yoke_event_create(yoke_device *device, yoke_event **event_out)
{
    if (!device || !event_out) return yoke_fail(YOKE_EINVAL, "yoke_event_create: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_event_create", device));
    return create_event(device, false, event_out);
}

bool yokei_times_events(const yoke_device *device) { return device->backend->event->seconds != NULL; }

yoke_status yokei_timed_event_create(yoke_device *device, yoke_event **event_out)
{
    return create_event(device, true, event_out);
}

yoke_status yokei_event_seconds(const yoke_event *from, const yoke_event *to, double *seconds_out)
{
    return yokei_holds(from->device) ? yokei_moment_seconds(from, to, seconds_out)
                                     : EVENT_OPS(from)->seconds(from, to, seconds_out);
}

yoke_status yoke_event_destroy(yoke_event *event)
{
    if (!event) return YOKE_OK;
    YOKE_TRY(yokei_object_leaves("yoke_event_destroy", "event", event));
    yoke_device *device = event->device;
    destroy_event(event);
    free(event);
    atomic_fetch_sub(&device->n_children, 1);
    return YOKE_OK;
}

yoke_status yoke_event_record(yoke_event *event, yoke_stream *stream)
{
    if (!event || !stream) return yoke_fail(YOKE_EINVAL, "yoke_event_record: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_event_record", event->device));
    if (event->device != stream->device)
        return yoke_fail(YOKE_EINVAL, "yoke_event_record: event and stream are of different devices");
    return yokei_holds(event->device) ? yokei_moment_record(event, stream)
                                      : EVENT_OPS(event)->record(event, stream);
}

yoke_status yoke_event_arm(yoke_event *event)
{
    if (!event) return yoke_fail(YOKE_EINVAL, "yoke_event_arm: no event");
    YOKE_TRY(yokei_check_maker("yoke_event_arm", event->device));
    return yokei_holds(event->device) ? yokei_moment_arm(event) : EVENT_OPS(event)->arm(event);
}

yoke_status yoke_event_signal(yoke_event *event)
{
    if (!event) return yoke_fail(YOKE_EINVAL, "yoke_event_signal: no event");
    YOKE_TRY(yokei_check_maker("yoke_event_signal", event->device));
    return yokei_holds(event->device) ? yokei_moment_signal(event) : EVENT_OPS(event)->signal(event);
}

static yoke_status query(yoke_event *event, bool *complete_out)
{
    return yokei_holds(event->device) ? yokei_moment_query(event, complete_out)
                                      : EVENT_OPS(event)->query(event, complete_out);
}

yoke_status yoke_event_query(yoke_event *event, bool *complete_out)
{
    if (!event || !complete_out) return yoke_fail(YOKE_EINVAL, "yoke_event_query: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_event_query", event->device));
    return query(event, complete_out);
}

yoke_status yoke_event_sync(yoke_event *event)
{
    if (!event) return yoke_fail(YOKE_EINVAL, "yoke_event_sync: no event");
    YOKE_TRY(yokei_check_maker("yoke_event_sync", event->device));
    struct yokei_wait wait;
    yokei_wait_init(&wait, YOKEI_WAIT_AUTO, 1, 1);
    for (bool complete = false;;) {
        YOKE_TRY(query(event, &complete));
        if (complete) return YOKE_OK;
        yokei_wait_idle(&wait);
    }
}

yoke_status yoke_stream_wait(yoke_stream *stream, yoke_event *event)
{
    if (!event || !stream) return yoke_fail(YOKE_EINVAL, "yoke_stream_wait: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_stream_wait", event->device));
    if (event->device != stream->device)
        return yoke_fail(YOKE_EINVAL, "yoke_stream_wait: event and stream are of different devices");
    stream->last_op = "yoke_stream_wait";
    return yokei_holds(event->device) ? yokei_moment_wait(stream, event)
                                      : EVENT_OPS(event)->wait(stream, event);
}
