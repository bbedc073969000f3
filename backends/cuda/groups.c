/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The groups of a stream's commands. Commands in a row that belong to one op form a group. If the context is
 * lost, the groups that may not have ended name the ops that may have failed.
 *
 * The queue writes its progress to pinned memory, because after a fault all queries of events return the
 * fault. A write costs a call and a fence. The flag that leaves the fence out is not a part of
 * cuStreamWriteValue32_v2 (cuda.h of CUDA 13), so a queue writes behind several groups.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

uint32_t yokei_cuda_mark_every(void)
{
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    return blocking && *blocking && strcmp(blocking, "0") != 0 ? 1 : CUDA_MARK_EVERY;
}

/* Drivers without value operations, such as that of WSL, write the number as a fill of four bytes. */
static CUresult write_number(yoke_device *device, const struct cuda_stream *s, uint32_t number)
{
    struct cuda_device *dev = cuda_device(device);
    if (!atomic_load(&dev->no_value_writes)) {
        const CUresult error = dev->cu->cuStreamWriteValue32_v2(s->queue, s->done.at, number,
                                                                CU_STREAM_WRITE_VALUE_DEFAULT);
        if (error != CUDA_ERROR_NOT_SUPPORTED) return error;
        atomic_store(&dev->no_value_writes, true);
    }
    return dev->cu->cuMemsetD32Async(s->done.at, number, 1, s->queue);
}

yoke_status yokei_cuda_mark(yoke_stream *stream)
{
    struct cuda_stream *s = cuda_stream(stream);
    const uint32_t group = atomic_load(&s->group);
    if (s->marked == group) return YOKE_OK;
    const CUresult error = write_number(stream->device, s, group);
    if (error) return yokei_cuda_fail(stream->device, "a write of the stream's progress", error);
    s->marked = group;
    return YOKE_OK;
}

yoke_status yokei_cuda_command(yoke_stream *stream)
{
    struct cuda_stream *s = cuda_stream(stream);
    const uint32_t group = atomic_load(&s->group);
    s->staging.own_has_moved = true;
    if (s->marked != group && s->recorded != group
        && atomic_load(&s->ops[group % CUDA_FOLLOWED]) == yokei_stream_op(stream))
        return YOKE_OK;
    if (group - s->marked >= cuda_device(stream->device)->mark_every) YOKE_TRY(yokei_cuda_mark(stream));
    atomic_store(&s->ops[(group + 1) % CUDA_FOLLOWED], yokei_stream_op(stream));
    atomic_store(&s->group, group + 1);
    return YOKE_OK;
}

void yokei_cuda_ended(yoke_device *device, uint64_t stream_serial, uint32_t group)
{
    struct cuda_device *dev = cuda_device(device);
    pthread_mutex_lock(&dev->lock);
    for (struct cuda_stream *s = dev->streams; s; s = s->next)
        if (s->serial == stream_serial) atomic_store(&s->ended, cuda_later(atomic_load(&s->ended), group));
    pthread_mutex_unlock(&dev->lock);
}
