/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Events of the driver. A queue never waits for the host. A GPU has few hardware channels, and a queue that
 * waits holds up all queues of its channel, also those on which the host's signal depends. So this table has
 * no `arm` and no `signal`, and core keeps the commands that wait for the host (core/held.h).
 */
#include <stdlib.h>

#include "backends/cuda/cuda.h"

/* The newest record: the stream, and the group of commands behind which it stands. */
struct record {
    CUevent handle;
    _Atomic uint64_t stream; /* 0: nothing is to be learned from the event any more */
    _Atomic uint32_t group;
};

static struct record *record_of(const yoke_event *event) { return event->impl; }
static CUevent cuda_event(const yoke_event *event) { return record_of(event)->handle; }
static const struct cuda_library *cuda_library_of(const yoke_event *event)
{
    return cuda_device(event->device)->cu;
}

static yoke_status cuda_event_create(yoke_event *event)
{
    struct record *r = calloc(1, sizeof *r);
    if (!r) return yokei_gpu_no_host_memory(event->device, "an event");
    yoke_status status = yokei_cuda_enter(event->device);
    if (!status) {
        const CUresult error = cuda_library_of(event)->cuEventCreate(
            &r->handle, event->timed ? 0 : CU_EVENT_DISABLE_TIMING);
        if (error) status = yokei_cuda_fail(event->device, "cuEventCreate", error);
        yokei_cuda_leave(event->device);
    }
    if (!status)
        event->impl = r;
    else
        free(r);
    return status;
}

static void cuda_event_destroy(yoke_event *event)
{
    struct yokei_error saved;
    yokei_error_save(&saved);
    if (!yokei_cuda_enter(event->device)) {
        cuda_library_of(event)->cuEventDestroy_v2(cuda_event(event));
        yokei_cuda_leave(event->device);
    }
    free(event->impl);
    yokei_error_restore(&saved);
}

static yoke_status cuda_event_record(yoke_event *event, yoke_stream *stream)
{
    struct cuda_stream *s = cuda_stream(stream);
    CUstream end;
    YOKE_TRY(yokei_cuda_enter(event->device));
    yoke_status status = yokei_cuda_end(stream, &end);
    if (!status) {
        const CUresult error = cuda_library_of(event)->cuEventRecord(cuda_event(event), end);
        if (error) status = yokei_cuda_fail(event->device, "cuEventRecord", error);
    }
    s->recorded = atomic_load(&s->group);
    atomic_store(&record_of(event)->group, s->recorded);
    atomic_store(&record_of(event)->stream, s->serial);
    yokei_cuda_leave(event->device);
    return status;
}

static yoke_status cuda_event_query(yoke_event *event, bool *complete_out)
{
    YOKE_TRY(yokei_cuda_enter(event->device));
    yoke_status status = YOKE_OK;
    const CUresult error = cuda_library_of(event)->cuEventQuery(cuda_event(event));
    if (error && error != CUDA_ERROR_NOT_READY)
        status = yokei_cuda_fail(event->device, "work that an event was recorded behind", error);
    else
        *complete_out = error == CUDA_SUCCESS;
    yokei_cuda_leave(event->device);
    const uint64_t stream = error ? 0 : atomic_exchange(&record_of(event)->stream, 0);
    if (stream) yokei_cuda_ended(event->device, stream, atomic_load(&record_of(event)->group));
    return status;
}

static yoke_status cuda_event_wait(yoke_stream *stream, yoke_event *event)
{
    YOKE_TRY(yokei_cuda_enter(event->device));
    const CUresult error = cuda_library_of(event)->cuStreamWaitEvent(cuda_stream(stream)->queue,
                                                                     cuda_event(event), 0);
    const yoke_status status = error ? yokei_cuda_fail(event->device, "cuStreamWaitEvent", error) : YOKE_OK;
    yokei_cuda_leave(event->device);
    return status;
}

static yoke_status cuda_event_seconds(const yoke_event *from, const yoke_event *to, double *seconds_out)
{
    float milliseconds = 0;
    const struct cuda_library *cu = cuda_library_of(from);
    if (!cu->cuEventElapsedTime)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: the driver has no function cuEventElapsedTime",
                         from->device->info.spec);
    YOKE_TRY(yokei_cuda_enter(from->device));
    const CUresult error = cu->cuEventElapsedTime(&milliseconds, cuda_event(from), cuda_event(to));
    const yoke_status status = error ? yokei_cuda_fail(from->device, "cuEventElapsedTime", error) : YOKE_OK;
    yokei_cuda_leave(from->device);
    *seconds_out = (double)milliseconds * 1e-3;
    return status;
}

const struct yoke_event_ops yokei_cuda_event_ops = {
    .create = cuda_event_create,
    .destroy = cuda_event_destroy,
    .record = cuda_event_record,
    .query = cuda_event_query,
    .wait = cuda_event_wait,
    .seconds = cuda_event_seconds,
};
