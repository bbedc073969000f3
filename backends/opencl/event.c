/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Events. The OpenCL event is either that of the last command of a queue, or a user event that the host
 * completes. An event that was never used is complete. Queues are in order, so the last command stands for
 * all commands. A queue that the caller owns may have got other commands since, so it gets a marker.
 */
#include <stdlib.h>

#include "backends/opencl/opencl.h"
#include "core/base/bell.h"

struct opencl_event {
    pthread_mutex_t lock; /* because the host may signal from any thread */
    cl_event event;       /* NULL: complete */
    bool armed;           /* a user event that has not been signalled yet */
    cl_event held;        /* the user event for which the recorded work may wait; NULL: none */
};

static struct opencl_event *opencl_event(const yoke_event *event) { return event->impl; }
static const struct opencl_library *opencl_library_of(const yoke_event *event)
{
    return opencl_device(event->device)->cl;
}

static yoke_status opencl_event_create(yoke_event *event)
{
    struct opencl_event *e = calloc(1, sizeof *e);
    if (!e) return yokei_gpu_no_host_memory(event->device, "an event");
    pthread_mutex_init(&e->lock, NULL);
    event->impl = e;
    return YOKE_OK;
}

/** Reset the event's state. If streams wait for a signal that can no longer come, they are released. */
static void opencl_event_reset(const yoke_event *event)
{
    struct opencl_event *e = opencl_event(event);
    if (e->armed) opencl_library_of(event)->clSetUserEventStatus(e->event, CL_COMPLETE);
    if (e->event) opencl_library_of(event)->clReleaseEvent(e->event);
    if (e->held) opencl_library_of(event)->clReleaseEvent(e->held);
    e->event = e->held = NULL;
    e->armed = false;
}

static void opencl_event_destroy(yoke_event *event)
{
    struct opencl_event *e = opencl_event(event);
    opencl_event_reset(event);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static void CL_CALLBACK ring(cl_event event, cl_int state, void *unused)
{
    (void)event, (void)state, (void)unused;
    yokei_bell_ring();
}

static yoke_status opencl_event_record(yoke_event *event, yoke_stream *stream)
{
    struct opencl_event *e = opencl_event(event);
    const struct opencl_library *cl = opencl_library_of(event);
    const struct opencl_stream *s = opencl_stream(stream);
    cl_event last = NULL;
    cl_int error = CL_SUCCESS;
    if (s->is_foreign)
        error = cl->clEnqueueMarkerWithWaitList(s->queue, 0, NULL, &last);
    else if (s->n_pending)
        error = cl->clRetainEvent(last = s->pending[s->n_pending - 1].event);
    if (!error && last)
        error = cl->clFlush(s->queue); /* another queue can wait for the command only after it was flushed */
    if (error) {
        if (last) cl->clReleaseEvent(last);
        return yokei_opencl_fail(event->device, "recording an event", error);
    }
    /* without the callback the thread that waits for the event sees its end a little later */
    if (last && yokei_bell_hangs()) {
        yokei_bell_expect();
        if (cl->clSetEventCallback(last, CL_COMPLETE, ring, NULL)) yokei_bell_ring();
    }
    pthread_mutex_lock(&e->lock);
    opencl_event_reset(event);
    e->event = last;
    if (last && s->held && !cl->clRetainEvent(s->held)) e->held = s->held;
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

static yoke_status opencl_event_arm(yoke_event *event)
{
    struct opencl_event *e = opencl_event(event);
    cl_int error = CL_SUCCESS;
    pthread_mutex_lock(&e->lock);
    if (!e->armed) { /* arming an armed event changes nothing */
        cl_event user = opencl_library_of(event)->clCreateUserEvent(opencl_device(event->device)->context,
                                                                    &error);
        if (!error) {
            opencl_event_reset(event);
            e->event = user;
            e->armed = true;
        }
    }
    pthread_mutex_unlock(&e->lock);
    return error ? yokei_opencl_fail(event->device, "clCreateUserEvent", error) : YOKE_OK;
}

static yoke_status opencl_event_signal(yoke_event *event)
{
    struct opencl_event *e = opencl_event(event);
    cl_int error = CL_SUCCESS;
    pthread_mutex_lock(&e->lock);
    if (e->armed) {
        e->armed = false;
        error = opencl_library_of(event)->clSetUserEventStatus(e->event, CL_COMPLETE);
    }
    pthread_mutex_unlock(&e->lock);
    return error ? yokei_opencl_fail(event->device, "clSetUserEventStatus", error) : YOKE_OK;
}

static yoke_status opencl_event_query(yoke_event *event, bool *complete_out)
{
    struct opencl_event *e = opencl_event(event);
    cl_int state = CL_COMPLETE, error = CL_SUCCESS;
    pthread_mutex_lock(&e->lock);
    if (e->event)
        error = opencl_library_of(event)->clGetEventInfo(e->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                                         sizeof state, &state, NULL);
    pthread_mutex_unlock(&e->lock);
    if (error) return yokei_opencl_fail(event->device, "clGetEventInfo", error);
    if (state < 0) return yokei_opencl_fail(event->device, "work that an event was recorded behind", state);
    *complete_out = state == CL_COMPLETE;
    return YOKE_OK;
}

static yoke_status opencl_event_wait(yoke_stream *stream, yoke_event *event)
{
    struct opencl_event *e = opencl_event(event);
    const struct opencl_library *cl = opencl_library_of(event);
    cl_event awaited, barrier = NULL;
    pthread_mutex_lock(&e->lock);
    awaited = e->event;
    if (awaited) cl->clRetainEvent(awaited);
    if (e->armed || e->held) yokei_opencl_hold(stream, e->armed ? awaited : e->held);
    pthread_mutex_unlock(&e->lock);
    if (!awaited) return YOKE_OK;
    cl_int error = cl->clEnqueueBarrierWithWaitList(opencl_stream(stream)->queue, 1, &awaited, &barrier);
    cl->clReleaseEvent(awaited);
    if (error) return yokei_opencl_fail(event->device, "clEnqueueBarrierWithWaitList", error);
    YOKE_TRY(yokei_opencl_pend(stream, barrier));
    opencl_stream(stream)->pending[opencl_stream(stream)->n_pending - 1].waits = true;
    return YOKE_OK;
}

const struct yoke_event_ops yokei_opencl_event_ops = {
    .create = opencl_event_create,
    .destroy = opencl_event_destroy,
    .record = opencl_event_record,
    .arm = opencl_event_arm,
    .signal = opencl_event_signal,
    .query = opencl_event_query,
    .wait = opencl_event_wait,
};
