/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Streams are queues of the driver that do not wait for its default stream. The work of a yoke_stream runs in
 * order in one queue. A second queue, which copy.c makes and orders, calls the host for long copies of
 * pageable memory. The work of several streams overlaps. Waits of the host sleep in the driver: a wait
 * that spins would take a core from the host's own ranks.
 */
#include <stdlib.h>

#include "backends/cuda/cuda.h"

/** Free what the stream has. The context is current, unless it is lost. */
static void release_stream(yoke_device *device, struct cuda_stream *s)
{
    struct cuda_device *dev = cuda_device(device);
    pthread_mutex_lock(&dev->lock);
    for (struct cuda_stream **at = &dev->streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    pthread_mutex_unlock(&dev->lock);
    if (s->queue && !s->is_foreign) dev->cu->cuStreamDestroy_v2(s->queue);
    if (s->synced) dev->cu->cuEventDestroy_v2(s->synced);
    yokei_cuda_copies_end(device, s);
    if (s->done.host) yokei_cuda_pinned_give(device, CUDA_WORDS, s->done);
    free(s);
}

static yoke_status open_queue(yoke_device *device, const struct yoke_native *native, struct cuda_stream *s)
{
    const struct cuda_device *dev = cuda_device(device);
    CUcontext context = NULL;
    if (!native) {
        const CUresult error = dev->cu->cuStreamCreate(&s->queue, CU_STREAM_NON_BLOCKING);
        return error ? yokei_cuda_fail(device, "cuStreamCreate", error) : YOKE_OK;
    }
    s->queue = native->queue;
    s->is_foreign = true;
    const CUresult error = dev->cu->cuStreamGetCtx(s->queue, &context);
    if (error) return yokei_cuda_fail(device, "cuStreamGetCtx", error);
    if (context != dev->context) return yokei_gpu_refuse_context(device, "stream");
    return YOKE_OK;
}

static yoke_status open_stream(yoke_device *device, const struct yoke_native *native, struct cuda_stream *s)
{
    struct cuda_device *dev = cuda_device(device);
    YOKE_TRY(open_queue(device, native, s));
    const CUresult error = dev->cu->cuEventCreate(&s->synced,
                                                  CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    if (error) return yokei_cuda_fail(device, "cuEventCreate", error);
    /* now and not at the first copy, because another block of slots may have to wait for the device */
    YOKE_TRY(yokei_cuda_copies_begin(device, s));
    YOKE_TRY(yokei_cuda_pinned_take(device, CUDA_WORDS, &s->done));
    s->marked = s->recorded = atomic_load(cuda_word(s->done));
    atomic_store(&s->group, s->marked);
    atomic_store(&s->ended, s->marked);
    static atomic_ullong streams;
    s->serial = atomic_fetch_add(&streams, 1) + 1;
    pthread_mutex_lock(&dev->lock);
    s->next = dev->streams;
    dev->streams = s;
    pthread_mutex_unlock(&dev->lock);
    return YOKE_OK;
}

static yoke_status cuda_stream_create(yoke_stream *stream, const struct yoke_native *native)
{
    YOKE_TRY(yokei_cuda_enter(stream->device));
    struct cuda_stream *s = calloc(1, sizeof *s);
    yoke_status status = s ? open_stream(stream->device, native, s)
                           : yokei_gpu_no_host_memory(stream->device, "a stream");
    if (status && s) release_stream(stream->device, s);
    if (!status) stream->impl = s;
    yokei_cuda_leave(stream->device);
    return status;
}

/** Wait until the queue has ended its work. The context is current. */
static yoke_status wait_for_queue(yoke_stream *stream)
{
    const struct cuda_library *cu = cuda_device(stream->device)->cu;
    const struct cuda_stream *s = cuda_stream(stream);
    CUstream end;
    YOKE_TRY(yokei_cuda_mark(stream));
    YOKE_TRY(yokei_cuda_end(stream, &end));
    CUresult error = cu->cuEventRecord(s->synced, end);
    if (error) return yokei_cuda_fail(stream->device, "cuEventRecord", error);
    error = cu->cuEventSynchronize(s->synced);
    return error ? yokei_cuda_fail(stream->device, "cuEventSynchronize", error) : YOKE_OK;
}

static void cuda_stream_destroy(yoke_stream *stream)
{
    struct yokei_error saved;
    yokei_error_save(&saved);
    const bool entered = !yokei_cuda_enter(stream->device);
    if (entered) (void)wait_for_queue(stream); /* the caller has seen the error already */
    release_stream(stream->device, cuda_stream(stream));
    if (entered) yokei_cuda_leave(stream->device);
    yokei_error_restore(&saved);
}

static yoke_status cuda_stream_sync(yoke_stream *stream)
{
    YOKE_TRY(yokei_cuda_enter(stream->device));
    const yoke_status status = wait_for_queue(stream);
    yokei_cuda_leave(stream->device);
    return status;
}

/** The driver hands work to the device at once, so this only reports an error of earlier work. */
static yoke_status cuda_stream_flush(yoke_stream *stream)
{
    YOKE_TRY(yokei_cuda_enter(stream->device));
    yokei_cuda_leave(stream->device);
    return YOKE_OK;
}

const struct yoke_stream_ops yokei_cuda_stream_ops = {
    .create = cuda_stream_create,
    .destroy = cuda_stream_destroy,
    .sync = cuda_stream_sync,
    .flush = cuda_stream_flush,
    .copy = yokei_cuda_copy,
    .fill = yokei_cuda_fill,
};
