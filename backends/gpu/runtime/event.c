/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Events of the driver. A queue never waits for the host. A GPU has few hardware channels, and a queue that
 * waits holds up all queues of its channel, also those on which the host's signal depends. So this table has
 * no `arm` and no `signal`, and core keeps the commands that wait for the host (core/held.h).
 */
#include <stdlib.h>

#include "backends/gpu/runtime/runtime.h"

/* The newest record: the stream, and the group of commands behind which it stands. */
struct record {
    void *handle;
    _Atomic uint64_t stream; /* 0: nothing is to be learned from the event any more */
    _Atomic uint32_t group;
};

static struct record *record_of(const yoke_event *event) { return event->impl; }
static void *handle_of(const yoke_event *event) { return record_of(event)->handle; }
static const struct yokei_rt_calls *calls_of(const yoke_event *event)
{
    return yokei_rt(event->device)->calls;
}

static yoke_status make_event(yoke_event *event, struct record *r)
{
    YOKEI_RT_TRY(event->device, event_create, event->timed ? YOKEI_RT_TIMED : YOKEI_RT_ORDERS, &r->handle);
    return YOKE_OK;
}

static yoke_status rt_event_create(yoke_event *event)
{
    struct record *r = calloc(1, sizeof *r);
    if (!r) return yokei_gpu_no_host_memory(event->device, "an event");
    yoke_status status = yokei_rt_enter(event->device);
    if (!status) {
        status = make_event(event, r);
        yokei_rt_leave(event->device);
    }
    if (!status)
        event->impl = r;
    else
        free(r);
    return status;
}

static void rt_event_destroy(yoke_event *event)
{
    struct yokei_error saved;
    yokei_error_save(&saved);
    if (!yokei_rt_enter(event->device)) {
        calls_of(event)->event_destroy(yokei_rt(event->device), handle_of(event));
        yokei_rt_leave(event->device);
    }
    free(event->impl);
    yokei_error_restore(&saved);
}

static yoke_status record(yoke_event *event, yoke_stream *stream)
{
    void *last;
    YOKE_TRY(yokei_rt_last_queue(stream, &last));
    YOKEI_RT_TRY(event->device, event_record, handle_of(event), last);
    return YOKE_OK;
}

static yoke_status rt_event_record(yoke_event *event, yoke_stream *stream)
{
    struct yokei_rt_stream *s = yokei_rt_stream(stream);
    YOKE_TRY(yokei_rt_enter(event->device));
    const yoke_status status = record(event, stream);
    s->recorded = atomic_load(&s->group);
    atomic_store(&record_of(event)->group, s->recorded);
    atomic_store(&record_of(event)->stream, s->serial);
    yokei_rt_leave(event->device);
    return status;
}

static yoke_status rt_event_query(yoke_event *event, bool *complete_out)
{
    YOKE_TRY(yokei_rt_enter(event->device));
    yoke_status status = YOKE_OK;
    const int error = calls_of(event)->event_query(yokei_rt(event->device), handle_of(event));
    if (error && calls_of(event)->meaning(error) != YOKEI_RT_NOT_READY)
        status = yokei_rt_fail(event->device, "work that an event was recorded behind", error);
    else
        *complete_out = !error;
    yokei_rt_leave(event->device);
    const uint64_t stream = error ? 0 : atomic_exchange(&record_of(event)->stream, 0);
    if (stream) yokei_rt_ended(event->device, stream, atomic_load(&record_of(event)->group));
    return status;
}

static yoke_status wait_for(yoke_stream *stream, yoke_event *event)
{
    YOKEI_RT_TRY(event->device, event_wait, yokei_rt_stream(stream)->queue, handle_of(event));
    return YOKE_OK;
}

static yoke_status rt_event_wait(yoke_stream *stream, yoke_event *event)
{
    YOKE_TRY(yokei_rt_enter(event->device));
    const yoke_status status = wait_for(stream, event);
    yokei_rt_leave(event->device);
    return status;
}

static yoke_status elapsed(const yoke_event *from, const yoke_event *to, float *milliseconds)
{
    const struct yokei_rt *rt = yokei_rt(from->device);
    const int error = rt->calls->event_elapsed(rt, milliseconds, handle_of(from), handle_of(to));
    if (!error) return YOKE_OK;
    if (rt->calls->meaning(error) == YOKEI_RT_NOT_SUPPORTED)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: the driver has no function %s", from->device->info.spec,
                         rt->calls->names.event_elapsed);
    return yokei_rt_fail(from->device, rt->calls->names.event_elapsed, error);
}

static yoke_status rt_event_seconds(const yoke_event *from, const yoke_event *to, double *seconds_out)
{
    float milliseconds = 0;
    YOKE_TRY(yokei_rt_enter(from->device));
    const yoke_status status = elapsed(from, to, &milliseconds);
    yokei_rt_leave(from->device);
    *seconds_out = (double)milliseconds * 1e-3;
    return status;
}

const struct yoke_event_ops yokei_rt_event_ops = {
    .create = rt_event_create,
    .destroy = rt_event_destroy,
    .record = rt_event_record,
    .query = rt_event_query,
    .wait = rt_event_wait,
    .seconds = rt_event_seconds,
};
