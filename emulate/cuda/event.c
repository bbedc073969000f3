/* SPDX-License-Identifier: Apache-2.0 */
/* Events, and waits for values in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/driver.h"

/* The start of the functions below. An event belongs to its context, not to the current one. */
static CUresult enter(CUevent event, struct CUctx_st **context_out)
{
    const CUresult result = emulate_enter(context_out);
    if (result) return result;
    if (!emulate_object_is(event, KIND_EVENT)) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    const CUresult lost = event->object.context->lost;
    return lost ? emulate_leave(lost) : CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *event_out, unsigned int flags)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!event_out || flags & ~7u || ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING)))
        return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (flags & CU_EVENT_INTERPROCESS) return emulate_leave(CUDA_ERROR_NOT_SUPPORTED);
    struct CUevent_st *event = calloc(1, sizeof *event);
    if (!event) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    event->flags = flags;
    emulate_object_add(&event->object, KIND_EVENT, context);
    *event_out = event;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event)
{
    struct CUctx_st *context;
    const CUresult result = enter(event, &context);
    if (result) return result;
    emulate_object_remove(&event->object);
    emulate_mark_drop(event->last);
    free(event);
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = enter(event, &context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    if (result) return emulate_leave(result);
    if (stream->object.context != event->object.context) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    struct mark *mark = calloc(1, sizeof *mark);
    struct command *command = emulate_command_new();
    if (!mark || !command) {
        free(mark);
        free(command);
        return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    command->set = emulate_mark_keep(mark);
    emulate_mark_keep(mark);
    result = emulate_submit(stream, command);
    if (result) {
        emulate_mark_drop(mark);
        return emulate_leave(result);
    }
    emulate_mark_drop(event->last);
    event->last = mark;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuEventQuery(CUevent event)
{
    struct CUctx_st *context;
    const CUresult result = enter(event, &context);
    if (result) return result;
    const bool done = !event->last || event->last->done;
    if (done && event->last) emulate_order_seen(event->object.context, &event->last->clock);
    return emulate_leave(done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuEventSynchronize(CUevent event)
{
    struct CUctx_st *context;
    const CUresult result = enter(event, &context);
    if (result) return result;
    context = event->object.context;
    struct mark *mark = emulate_mark_keep(event->last);
    while (mark && !mark->done) emulate_wait_progress(0);
    if (mark) emulate_order_seen(context, &mark->clock);
    emulate_mark_drop(mark);
    return emulate_leave(context->lost);
}

CUresult cuEventElapsedTime_v2(float *milliseconds_out, CUevent start, CUevent end)
{
    struct CUctx_st *context;
    const CUresult result = enter(start, &context);
    if (result) return result;
    if (!milliseconds_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    if (!emulate_object_is(end, KIND_EVENT) || start->object.context != end->object.context
        || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->last || !end->last)
        return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    if (!start->last->done || !end->last->done) return emulate_leave(CUDA_ERROR_NOT_READY);
    const struct timespec a = start->last->time, b = end->last->time;
    *milliseconds_out = (float)((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuEventElapsedTime(float *milliseconds_out, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds_out, start, end);
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned int flags)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = enter(event, &context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    if (!result && flags) result = CUDA_ERROR_INVALID_VALUE;
    if (result) return emulate_leave(result);
    /* Nothing to wait for: the event was never recorded. */
    if (!event->last) return emulate_leave(CUDA_SUCCESS);
    struct command *command = emulate_command_new();
    if (!command) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    command->wait = emulate_mark_keep(event->last);
    return emulate_leave(emulate_submit(stream, command));
}

/* ---- values in memory ---- */

static bool holds(uint32_t have, uint32_t value, unsigned flags)
{
    switch (flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: return (int32_t)(have - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return have == value;
    case CU_STREAM_WAIT_VALUE_AND: return (have & value) != 0;
    default: return ~(have | value) != 0;
    }
}

static CUresult refuse_place(const struct place *place, bool reads, char *text, size_t text_bytes)
{
    if (!place->state) return CUDA_SUCCESS;
    const char *what = emulate_first_bad(place->state, 4) < 4 ? "memory that it may not touch" : NULL;
    if (!what && reads && memchr(place->state, PTX_UNDEFINED, 4)) what = "memory that was never written";
    if (!what) return CUDA_SUCCESS;
    snprintf(text, text_bytes, "a stream %s a value in %s, at 0x%llx (%s)", reads ? "waits for" : "writes",
             what, (unsigned long long)place->address, emulate_name_of(NULL, place->address));
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/*
 * The value may come from a command of another stream, which wakes this thread, or from the host or another
 * process, which does not. So the thread sleeps for at most half a millisecond.
 */
static CUresult wait_value(struct command *command, char *text, size_t text_bytes)
{
    const struct CUctx_st *context = command->stream->object.context;
    const CUresult result = refuse_place(&command->to, true, text, text_bytes);
    if (result) return result;
    const uint32_t *at = (const uint32_t *)command->to.data;
    emulate_lock();
    while (!holds(__atomic_load_n(at, __ATOMIC_ACQUIRE), command->value, command->flags) && !context->lost
           && !context->ending)
        emulate_wait_progress(500);
    emulate_order_join_host(command->stream);
    emulate_unlock();
    return CUDA_SUCCESS;
}

static CUresult write_value(struct command *command, char *text, size_t text_bytes)
{
    const CUresult result = refuse_place(&command->to, false, text, text_bytes);
    if (result) return result;
    if (command->to.state) memset(command->to.state, PTX_DEFINED, 4);
    /* Without the fence the value says nothing of what came before. */
    emulate_lock();
    if (!(command->flags & CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))
        emulate_order_seen(command->stream->object.context, &command->stream->clock);
    emulate_unlock();
    __atomic_store_n((uint32_t *)command->to.data, command->value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

static CUresult submit_value(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned flags,
                             bool waits)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct place place;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    /* the flag of writes, 1, is not a part of this version of the function */
    if (!result && (flags > (waits ? 3u : 0u) || address % 4)) result = CUDA_ERROR_INVALID_VALUE;
    if (!result && emulate_fails(FAIL_VALUE)) result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result) result = emulate_place(address, 4, true, &place);
    struct command *command = result ? NULL : emulate_command_new();
    if (!result && !command) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) return emulate_leave(result);
    command->run = waits ? wait_value : write_value;
    command->waits_for_value = waits;
    command->to = place;
    command->value = value;
    command->flags = flags;
    return emulate_leave(emulate_submit(stream, command));
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return submit_value(stream, address, value, flags, true);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return submit_value(stream, address, value, flags, false);
}
