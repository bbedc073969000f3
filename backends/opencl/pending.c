/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The commands of a stream whose end has not been seen yet. Each command's event is kept until then. So if a
 * command fails after it was issued, the error names its op.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

void yokei_opencl_reap(yoke_stream *stream, bool all)
{
    struct opencl_stream *s = opencl_stream(stream);
    const struct opencl_library *cl = opencl_device(stream->device)->cl;
    int done = 0;
    for (; done < s->n_pending; done++) {
        cl_int state = CL_COMPLETE;
        cl->clGetEventInfo(s->pending[done].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state,
                           NULL);
        if (state > CL_COMPLETE && !all) break;
        if (state < 0 && !s->failed) {
            s->failed = state;
            s->failed_op = s->pending[done].op;
        }
        cl->clReleaseEvent(s->pending[done].event);
    }
    if (!done) return;
    s->n_pending -= done;
    memmove(s->pending, s->pending + done, (size_t)s->n_pending * sizeof *s->pending);
}

yoke_status yokei_opencl_pend(yoke_stream *stream, cl_event event)
{
    struct opencl_stream *s = opencl_stream(stream);
    if (s->n_pending == s->capacity) {
        yokei_opencl_reap(stream, false);
        if (s->n_pending >= s->capacity / 2) {
            int capacity = YOKE_MAX(128, 2 * s->capacity);
            struct opencl_pending *pending = realloc(s->pending, (size_t)capacity * sizeof *pending);
            if (!pending) {
                opencl_device(stream->device)->cl->clReleaseEvent(event);
                return yokei_gpu_no_host_memory(stream->device, "the list of commands");
            }
            s->pending = pending;
            s->capacity = capacity;
        }
    }
    s->pending[s->n_pending++] = (struct opencl_pending){ event, stream->last_op, false };
    return YOKE_OK;
}

bool yokei_opencl_awaits_host(yoke_stream *stream)
{
    const struct opencl_stream *s = opencl_stream(stream);
    if (s->is_foreign) return true; /* its owner may have made it wait for anything */
    if (!s->held) return false;
    yokei_opencl_reap(stream, false);
    for (int i = 0; i < s->n_pending; i++)
        if (s->pending[i].waits) return true;
    return false;
}

yoke_status yokei_opencl_pending_error(yoke_stream *stream)
{
    struct opencl_stream *s = opencl_stream(stream);
    if (!s->failed) return YOKE_OK;
    cl_int failed = s->failed;
    s->failed = 0;
    return yoke_fail(YOKE_EBACKEND, "%s: %s, issued earlier, failed on the device: %s (%d)",
                     stream->device->info.spec, s->failed_op ? s->failed_op : "a command",
                     yokei_opencl_error_name(failed), failed);
}
