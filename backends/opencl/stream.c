/* SPDX-License-Identifier: Apache-2.0 */
/** Streams are in-order command queues. */
#include <stdlib.h>

#include "backends/opencl/opencl.h"

static yoke_status check_foreign_queue(yoke_device *device, cl_command_queue queue)
{
    const struct opencl_device *ocl = opencl_device(device);
    cl_context context = NULL;
    cl_device_id id = NULL;
    cl_command_queue_properties properties = 0;
    cl_int error = ocl->cl->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (!error) error = ocl->cl->clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    if (!error)
        error = ocl->cl->clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties,
                                               NULL);
    if (error) return yokei_opencl_fail(device, "clGetCommandQueueInfo", error);
    if (context != ocl->context || id != ocl->id)
        return yoke_fail(YOKE_EINVAL, "%s: the queue to wrap is of another %s", device->info.spec,
                         id != ocl->id ? "device" : "context");
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "%s: the queue to wrap is out of order; a stream needs one in order",
                         device->info.spec);
    return YOKE_OK;
}

static yoke_status opencl_stream_create(yoke_stream *stream, const struct yoke_native *native)
{
    yoke_device *device = stream->device;
    const struct opencl_device *ocl = opencl_device(device);
    if (native) YOKE_TRY(check_foreign_queue(device, native->queue));
    struct opencl_stream *s = calloc(1, sizeof *s);
    if (!s) return yokei_gpu_no_host_memory(device, "a stream");
    cl_int error = CL_SUCCESS;
    if (native) {
        s->queue = native->queue;
        s->is_foreign = true;
        error = ocl->cl->clRetainCommandQueue(s->queue);
    } else {
        s->queue = ocl->cl->clCreateCommandQueue(ocl->context, ocl->id, 0, &error);
    }
    if (error) {
        free(s);
        return yokei_opencl_fail(device, native ? "clRetainCommandQueue" : "clCreateCommandQueue", error);
    }
    stream->impl = s;
    return YOKE_OK;
}

static void release_held(yoke_stream *stream)
{
    struct opencl_stream *s = opencl_stream(stream);
    if (s->held) opencl_device(stream->device)->cl->clReleaseEvent(s->held);
    s->held = NULL;
}

void yokei_opencl_hold(yoke_stream *stream, cl_event event)
{
    release_held(stream);
    if (!opencl_device(stream->device)->cl->clRetainEvent(event)) opencl_stream(stream)->held = event;
}

/**
 * Wait until the host has signalled the event that a command waits for. In clFinish, Intel's runtime for CPUs
 * would poll all the time, and take the core from the rank that the host waits for.
 */
static void wait_for_host(yoke_stream *stream)
{
    struct opencl_stream *s = opencl_stream(stream);
    const struct opencl_library *cl = opencl_device(stream->device)->cl;
    struct yokei_wait wait;
    cl_int state = CL_COMPLETE;
    if (!s->held || cl->clFlush(s->queue)) return; /* clFinish reports the error */
    yokei_wait_init(&wait, YOKEI_WAIT_YIELD, 1, 1);
    while (!cl->clGetEventInfo(s->held, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL)
           && state > CL_COMPLETE)
        yokei_wait_idle(&wait);
    release_held(stream);
}

static void opencl_stream_destroy(yoke_stream *stream)
{
    struct opencl_stream *s = opencl_stream(stream);
    const struct opencl_library *cl = opencl_device(stream->device)->cl;
    cl->clFinish(s->queue);
    release_held(stream);
    yokei_opencl_reap(stream, true);
    cl->clReleaseCommandQueue(s->queue);
    free(s->pending);
    free(s);
}

static yoke_status opencl_stream_sync(yoke_stream *stream)
{
    wait_for_host(stream);
    cl_int error = opencl_device(stream->device)->cl->clFinish(opencl_stream(stream)->queue);
    yokei_opencl_reap(stream, true);
    YOKE_TRY(yokei_opencl_pending_error(stream)); /* this error says more than the error of clFinish */
    return error ? yokei_opencl_fail(stream->device, "clFinish", error) : YOKE_OK;
}

static yoke_status opencl_stream_flush(yoke_stream *stream)
{
    cl_int error = opencl_device(stream->device)->cl->clFlush(opencl_stream(stream)->queue);
    return error ? yokei_opencl_fail(stream->device, "clFlush", error) : YOKE_OK;
}

/**
 * The place that an address points to: a buffer and an offset, or the address itself (host memory, shared
 * virtual memory).
 */
struct place {
    cl_mem buffer;
    size_t offset;
    void *plain;
};

static yoke_status resolve_address(const yoke_device *device, const void *address, size_t bytes,
                                   struct place *out)
{
    const struct opencl_device *ocl = opencl_device(device);
    *out = (struct place){ .plain = (void *)(uintptr_t)address };
    if (!yokei_opencl_in_range(&ocl->addresses, address)) return YOKE_OK;
    struct opencl_allocation allocation;
    if (!yokei_opencl_addresses_find(&ocl->addresses, address, &allocation, &out->offset)
        || bytes > allocation.bytes - out->offset)
        return yoke_fail(YOKE_EINVAL, "%s: %zu bytes at %p do not lie in one allocation", device->info.spec,
                         bytes, address);
    out->buffer = allocation.buffer;
    return YOKE_OK;
}

static bool is_device_memory(const struct opencl_device *ocl, const void *address)
{
    struct opencl_allocation allocation;
    size_t offset;
    return ocl->svm || yokei_opencl_addresses_find(&ocl->addresses, address, &allocation, &offset);
}

static yoke_status opencl_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target,
                               const void *source, size_t bytes)
{
    const struct opencl_device *ocl = opencl_device(stream->device);
    const struct opencl_library *cl = ocl->cl;
    cl_command_queue queue = opencl_stream(stream)->queue;
    struct place to, from;
    YOKE_TRY(yokei_opencl_pending_error(stream));
    if ((kind != YOKE_COPY_TO_HOST && !is_device_memory(ocl, target))
        || (kind != YOKE_COPY_TO_DEVICE && !is_device_memory(ocl, source)))
        return yokei_gpu_refuse_copy(stream, target, source);
    YOKE_TRY(resolve_address(stream->device, target, bytes, &to));
    YOKE_TRY(resolve_address(stream->device, source, bytes, &from));
    cl_event event = NULL;
    cl_int error;
    if (to.buffer && from.buffer)
        error = cl->clEnqueueCopyBuffer(queue, from.buffer, to.buffer, from.offset, to.offset, bytes, 0, NULL,
                                        &event);
    else if (to.buffer)
        error = cl->clEnqueueWriteBuffer(queue, to.buffer, CL_FALSE, to.offset, bytes, from.plain, 0, NULL,
                                         &event);
    else if (from.buffer)
        error = cl->clEnqueueReadBuffer(queue, from.buffer, CL_FALSE, from.offset, bytes, to.plain, 0, NULL,
                                        &event);
    else
        error = cl->clEnqueueSVMMemcpy(queue, CL_FALSE, to.plain, from.plain, bytes, 0, NULL, &event);
    return error ? yokei_opencl_fail(stream->device, "enqueueing a copy", error)
                 : yokei_opencl_pend(stream, event);
}

static yoke_status opencl_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    const struct opencl_device *ocl = opencl_device(stream->device);
    cl_command_queue queue = opencl_stream(stream)->queue;
    struct place to;
    YOKE_TRY(yokei_opencl_pending_error(stream));
    if (!is_device_memory(ocl, target)) return yokei_gpu_refuse_fill(stream, target, bytes);
    YOKE_TRY(resolve_address(stream->device, target, bytes, &to));
    cl_event event = NULL;
    cl_int error;
    if (to.buffer)
        error = ocl->cl->clEnqueueFillBuffer(queue, to.buffer, &byte, 1, to.offset, bytes, 0, NULL, &event);
    else
        error = ocl->cl->clEnqueueSVMMemFill(queue, to.plain, &byte, 1, bytes, 0, NULL, &event);
    return error ? yokei_opencl_fail(stream->device, "enqueueing a fill", error)
                 : yokei_opencl_pend(stream, event);
}

const struct yoke_stream_ops yokei_opencl_stream_ops = {
    .create = opencl_stream_create,
    .destroy = opencl_stream_destroy,
    .sync = opencl_stream_sync,
    .flush = opencl_stream_flush,
    .copy = opencl_copy,
    .fill = opencl_fill,
};
