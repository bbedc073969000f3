/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The groups of a stream's commands. Commands in a row that belong to one op form a group. If the context is
 * lost, the groups that may not have ended name the ops that may have failed.
 *
 * The queue writes its progress to pinned memory, because after a fault all queries of events return the
 * fault. A write costs a call and a fence, so a queue writes behind several groups.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/runtime/runtime.h"

uint32_t yokei_rt_mark_every(const struct yokei_rt_calls *calls)
{
    const char *blocking = getenv(calls->blocking);
    return blocking && *blocking && strcmp(blocking, "0") != 0 ? 1 : YOKEI_RT_MARK_EVERY;
}

/* Drivers without value operations, such as that of WSL, write the number as a fill of four bytes. */
static int write_number(yoke_device *device, const struct yokei_rt_stream *s, uint32_t number)
{
    struct yokei_rt *rt = yokei_rt(device);
    if (!atomic_load(&rt->no_value_writes)) {
        const int error = rt->calls->write_word(rt, s->done.at, number, s->queue);
        if (!error || rt->calls->meaning(error) != YOKEI_RT_NOT_SUPPORTED) return error;
        atomic_store(&rt->no_value_writes, true);
    }
    return rt->calls->fill_word(rt, s->done.at, number, s->queue);
}

yoke_status yokei_rt_mark(yoke_stream *stream)
{
    struct yokei_rt_stream *s = yokei_rt_stream(stream);
    const uint32_t group = atomic_load(&s->group);
    if (s->marked == group) return YOKE_OK;
    const int error = write_number(stream->device, s, group);
    if (error) return yokei_rt_fail(stream->device, "a write of the stream's progress", error);
    s->marked = group;
    return YOKE_OK;
}

yoke_status yokei_rt_command(yoke_stream *stream)
{
    struct yokei_rt_stream *s = yokei_rt_stream(stream);
    const uint32_t group = atomic_load(&s->group);
    s->staging.own_has_moved = true;
    if (s->marked != group && s->recorded != group
        && atomic_load(&s->ops[group % YOKEI_RT_FOLLOWED]) == yokei_stream_op(stream))
        return YOKE_OK;
    if (group - s->marked >= yokei_rt(stream->device)->mark_every) YOKE_TRY(yokei_rt_mark(stream));
    atomic_store(&s->ops[(group + 1) % YOKEI_RT_FOLLOWED], yokei_stream_op(stream));
    atomic_store(&s->group, group + 1);
    return YOKE_OK;
}

void yokei_rt_ended(yoke_device *device, uint64_t stream_serial, uint32_t group)
{
    struct yokei_rt *rt = yokei_rt(device);
    pthread_mutex_lock(&rt->lock);
    for (struct yokei_rt_stream *s = rt->streams; s; s = s->next)
        if (s->serial == stream_serial)
            atomic_store(&s->ended, yokei_rt_later(atomic_load(&s->ended), group));
    pthread_mutex_unlock(&rt->lock);
}
