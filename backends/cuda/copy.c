/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies and fills of a stream. Memory that the driver has page-locked is copied directly. Other memory of
 * the host goes through the stream's slots (backends/gpu/staging.h).
 */
#include "backends/cuda/cuda.h"

/* ---- what a stream has for copies ---- */

yoke_status yokei_cuda_copies_begin(yoke_device *device, struct cuda_stream *s)
{
    for (int i = 0; i < YOKEI_GPU_SLOTS; i++) {
        YOKE_TRY(yokei_cuda_pinned_take(device, CUDA_SLOTS, &s->slot[i]));
        s->staging.slot[i] = s->slot[i].host;
    }
    return YOKE_OK;
}

void yokei_cuda_copies_end(yoke_device *device, struct cuda_stream *s)
{
    const struct cuda_library *cu = cuda_device(device)->cu;
    if (s->host_queue) cu->cuStreamDestroy_v2(s->host_queue);
    for (int i = 0; i < YOKEI_GPU_MARKS; i++)
        if (s->marks[i]) cu->cuEventDestroy_v2(s->marks[i]);
    for (int i = 0; i < YOKEI_GPU_SLOTS; i++)
        if (s->slot[i].host) yokei_cuda_pinned_give(device, CUDA_SLOTS, s->slot[i]);
}

/** Make the host queue before the first long copy of pageable memory. Neither call waits for the device. */
static yoke_status need_host_queue(yoke_stream *stream)
{
    const struct cuda_library *cu = cuda_device(stream->device)->cu;
    struct cuda_stream *s = cuda_stream(stream);
    CUresult error = CUDA_SUCCESS;
    for (int i = 0; i < YOKEI_GPU_MARKS && !error; i++)
        if (!s->marks[i]) error = cu->cuEventCreate(&s->marks[i], CU_EVENT_DISABLE_TIMING);
    if (error) return yokei_cuda_fail(stream->device, "cuEventCreate", error);
    if (!s->host_queue) error = cu->cuStreamCreate(&s->host_queue, CU_STREAM_NON_BLOCKING);
    return error ? yokei_cuda_fail(stream->device, "cuStreamCreate", error) : YOKE_OK;
}

/* ---- the calls of staged copies ---- */

static CUstream queue_of(const yoke_stream *stream, enum yokei_gpu_queue queue)
{
    const struct cuda_stream *s = cuda_stream(stream);
    return queue == YOKEI_GPU_HOST ? s->host_queue : s->queue;
}

static yoke_status call_host(yoke_stream *stream, enum yokei_gpu_queue queue, void (*function)(void *),
                             void *argument)
{
    const CUresult error =
        cuda_device(stream->device)->cu->cuLaunchHostFunc(queue_of(stream, queue), function, argument);
    return error ? yokei_cuda_fail(stream->device, "cuLaunchHostFunc", error) : YOKE_OK;
}

static yoke_status mark(yoke_stream *stream, enum yokei_gpu_queue queue, int mark)
{
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuEventRecord(cuda_stream(stream)->marks[mark], queue_of(stream, queue));
    return error ? yokei_cuda_fail(stream->device, "cuEventRecord", error) : YOKE_OK;
}

static yoke_status wait_for_mark(yoke_stream *stream, enum yokei_gpu_queue queue, int mark)
{
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuStreamWaitEvent(queue_of(stream, queue),
                                                       cuda_stream(stream)->marks[mark], 0);
    return error ? yokei_cuda_fail(stream->device, "cuStreamWaitEvent", error) : YOKE_OK;
}

/** The driver refuses an address that is no memory of its own at once. */
static yoke_status copied(const yoke_stream *stream, const char *call, CUresult error, const void *target,
                          const void *source)
{
    if (error == CUDA_ERROR_INVALID_VALUE) return yokei_gpu_refuse_copy(stream, target, source);
    return error ? yokei_cuda_fail(stream->device, call, error) : YOKE_OK;
}

static yoke_status to_device(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)target, source, bytes,
                                                          cuda_stream(stream)->queue);
    return copied(stream, "cuMemcpyHtoDAsync", error, target, source);
}

static yoke_status to_host(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuMemcpyDtoHAsync_v2(target, (CUdeviceptr)(uintptr_t)source, bytes,
                                                          cuda_stream(stream)->queue);
    return copied(stream, "cuMemcpyDtoHAsync", error, target, source);
}

static const struct yokei_gpu_staging_calls calls = { call_host, to_device, to_host, mark, wait_for_mark };

yoke_status yokei_cuda_end(yoke_stream *stream, CUstream *queue_out)
{
    enum yokei_gpu_queue end;
    YOKE_TRY(yokei_gpu_stage_end(stream, &cuda_stream(stream)->staging, &calls, &end));
    *queue_out = queue_of(stream, end);
    return YOKE_OK;
}

/* ---- copies and fills ---- */

/** Whether the device can read and write this host memory by itself. */
static bool is_pinned(struct cuda_device *dev, const void *host, size_t bytes)
{
    int type = 0;
    if (yokei_cuda_has_pin(dev, host, bytes)) return true;
    return !dev->cu->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                           (CUdeviceptr)(uintptr_t)host)
           && type == CU_MEMORYTYPE_HOST;
}

static yoke_status copy_pageable(yoke_stream *stream, enum yoke_copy_kind kind, void *target,
                                 const void *source, size_t bytes)
{
    struct yokei_gpu_staging *staging = &cuda_stream(stream)->staging;
    const bool moved = staging->own_has_moved;
    YOKE_TRY(yokei_cuda_command(stream));
    staging->own_has_moved = moved; /* the pieces of a copy keep their own order */
    if (bytes > YOKEI_GPU_SHORT_BYTES) YOKE_TRY(need_host_queue(stream));
    YOKE_TRY(yokei_gpu_stage(stream, staging, &calls, kind, target, source, bytes));
    /* The owner of a foreign queue knows nothing of the host queue. */
    return stream->is_foreign ? yokei_gpu_stage_join(stream, staging, &calls) : YOKE_OK;
}

static yoke_status copy_on_device(yoke_stream *stream, void *target, const void *source, size_t bytes)
{
    YOKE_TRY(yokei_cuda_command(stream));
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)target,
                                                          (CUdeviceptr)(uintptr_t)source, bytes,
                                                          cuda_stream(stream)->queue);
    return copied(stream, "cuMemcpyDtoDAsync", error, target, source);
}

static yoke_status issue_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                              size_t bytes)
{
    const bool is_in = kind == YOKE_COPY_TO_DEVICE;
    if (kind == YOKE_COPY_ON_DEVICE) return copy_on_device(stream, target, source, bytes);
    if (!is_pinned(cuda_device(stream->device), is_in ? source : target, bytes))
        return copy_pageable(stream, kind, target, source, bytes);
    /* The memory may have been page-locked after an earlier copy of it was issued. */
    YOKE_TRY(yokei_gpu_stage_join(stream, &cuda_stream(stream)->staging, &calls));
    YOKE_TRY(yokei_cuda_command(stream));
    return is_in ? to_device(stream, target, source, bytes) : to_host(stream, target, source, bytes);
}

yoke_status yokei_cuda_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                            size_t bytes)
{
    YOKE_TRY(yokei_cuda_enter(stream->device));
    const yoke_status status = issue_copy(stream, kind, target, source, bytes);
    yokei_cuda_leave(stream->device);
    return status;
}

static yoke_status issue_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    YOKE_TRY(yokei_cuda_command(stream));
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuMemsetD8Async((CUdeviceptr)(uintptr_t)target, byte, bytes,
                                                     cuda_stream(stream)->queue);
    if (error == CUDA_ERROR_INVALID_VALUE) return yokei_gpu_refuse_fill(stream, target, bytes);
    return error ? yokei_cuda_fail(stream->device, "cuMemsetD8Async", error) : YOKE_OK;
}

yoke_status yokei_cuda_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    YOKE_TRY(yokei_cuda_enter(stream->device));
    const yoke_status status = issue_fill(stream, target, byte, bytes);
    yokei_cuda_leave(stream->device);
    return status;
}
