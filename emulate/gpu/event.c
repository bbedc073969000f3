/* SPDX-License-Identifier: Apache-2.0 */
/* Events, and waits for values in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"

enum emulate_error emulate_event_enter(void *event, struct context **context_out)
{
    /* An event belongs to its context, not to the current one. */
    const enum emulate_error result = emulate_enter(context_out);
    if (result) return result;
    if (!emulate_object_is(event, KIND_EVENT)) return emulate_leave(EMULATE_INVALID_HANDLE);
    const enum emulate_error lost = ((struct event *)event)->object.context->lost;
    return lost ? emulate_leave(lost) : EMULATE_OK;
}

enum emulate_error emulate_event_create(struct context *context, unsigned flags, bool has_no_time,
                                        struct event **event_out)
{
    struct event *event = calloc(1, sizeof *event);
    if (!event) return EMULATE_OUT_OF_MEMORY;
    event->flags = flags;
    event->has_no_time = has_no_time;
    emulate_object_add(&event->object, KIND_EVENT, context);
    *event_out = event;
    return EMULATE_OK;
}

void emulate_event_destroy(struct event *event)
{
    emulate_object_remove(&event->object);
    emulate_mark_drop(event->last);
    free(event);
}

enum emulate_error emulate_event_record(struct event *event, struct stream *stream)
{
    if (stream->object.context != event->object.context) return EMULATE_INVALID_HANDLE;
    struct mark *mark = calloc(1, sizeof *mark);
    struct command *command = emulate_command_new();
    if (!mark || !command) {
        free(mark);
        free(command);
        return EMULATE_OUT_OF_MEMORY;
    }
    mark->releases = !event->is_local;
    command->set = emulate_mark_keep(mark);
    emulate_mark_keep(mark);
    const enum emulate_error result = emulate_submit(stream, command);
    if (result) {
        emulate_mark_drop(mark);
        return result;
    }
    emulate_mark_drop(event->last);
    event->last = mark;
    return EMULATE_OK;
}

enum emulate_error emulate_event_query(struct event *event)
{
    const bool done = !event->last || event->last->done;
    if (done && event->last)
        emulate_host_sees(event->object.context, &event->last->clock, &event->last->released);
    return done ? EMULATE_OK : EMULATE_NOT_READY;
}

enum emulate_error emulate_event_synchronize(struct event *event)
{
    struct context *context = event->object.context;
    struct mark *mark = emulate_mark_keep(event->last);
    while (mark && !mark->done) emulate_wait_progress(0);
    if (mark) emulate_host_sees(context, &mark->clock, &mark->released);
    emulate_mark_drop(mark);
    return context->lost;
}

enum emulate_error emulate_event_elapsed(float *milliseconds_out, struct event *start, void *other)
{
    const struct event *end = other;
    if (!emulate_object_is(end, KIND_EVENT) || start->object.context != end->object.context
        || start->has_no_time || end->has_no_time || !start->last || !end->last)
        return EMULATE_INVALID_HANDLE;
    if (!start->last->done || !end->last->done) return EMULATE_NOT_READY;
    const struct timespec a = start->last->time, b = end->last->time;
    *milliseconds_out = (float)((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
    return EMULATE_OK;
}

enum emulate_error emulate_stream_wait_event(struct stream *stream, struct event *event)
{
    /* Nothing to wait for: the event was never recorded. */
    if (!event->last) return EMULATE_OK;
    struct command *command = emulate_command_new();
    if (!command) return EMULATE_OUT_OF_MEMORY;
    command->wait = emulate_mark_keep(event->last);
    return emulate_submit(stream, command);
}

/* ---- values in memory ---- */

static bool holds(uint32_t have, uint32_t value, int comparison)
{
    switch (comparison) {
    case WAIT_GEQ: return (int32_t)(have - value) >= 0;
    case WAIT_EQ: return have == value;
    case WAIT_AND: return (have & value) != 0;
    default: return ~(have | value) != 0;
    }
}

static enum emulate_error refuse_place(const struct place *place, bool reads, char *text, size_t text_bytes)
{
    if (!place->state) return EMULATE_OK;
    const char *what = emulate_first_bad(place->state, 4) < 4 ? "memory that it may not touch" : NULL;
    if (!what && reads && memchr(place->state, BYTE_UNDEFINED, 4)) what = "memory that was never written";
    if (!what) return EMULATE_OK;
    snprintf(text, text_bytes, "a stream %s a value in %s, at 0x%llx (%s)", reads ? "waits for" : "writes",
             what, (unsigned long long)place->address, emulate_name_of(NULL, place->address));
    return EMULATE_ILLEGAL_ADDRESS;
}

/*
 * The value may come from a command of another stream, which wakes this thread, or from the host or another
 * process, which does not. So the thread sleeps for at most half a millisecond.
 */
static enum emulate_error wait_value(struct command *command, char *text, size_t text_bytes)
{
    const struct context *context = command->stream->object.context;
    const enum emulate_error result = refuse_place(&command->to, true, text, text_bytes);
    if (result) return result;
    const uint32_t *at = (const uint32_t *)command->to.data;
    emulate_lock();
    while (!holds(__atomic_load_n(at, __ATOMIC_ACQUIRE), command->value, command->comparison)
           && !context->lost && !context->ending)
        emulate_wait_progress(500);
    emulate_order_join_host(command->stream);
    emulate_unlock();
    return EMULATE_OK;
}

static enum emulate_error write_value(struct command *command, char *text, size_t text_bytes)
{
    const enum emulate_error result = refuse_place(&command->to, false, text, text_bytes);
    if (result) return result;
    if (command->to.state) memset(command->to.state, BYTE_DEFINED, 4);
    const uint64_t at = command->to.address - emulate_base;
    const struct kernel_range range = { at, at + 4, true };
    /* Without the fence the value says nothing of what came before. */
    emulate_lock();
    if (command->has_fence) emulate_order_seen(command->stream->object.context, &command->stream->clock);
    emulate_apart_wrote(command->stream, &range, 1);
    emulate_unlock();
    __atomic_store_n((uint32_t *)command->to.data, command->value, __ATOMIC_RELEASE);
    return EMULATE_OK;
}

static enum emulate_error submit_value(struct stream *stream, uint64_t address, const struct command *what)
{
    struct place place;
    if (address % 4) return EMULATE_INVALID_VALUE;
    if (emulate_fails(FAIL_VALUE)) return EMULATE_NOT_SUPPORTED;
    const enum emulate_error result = emulate_place(address, 4, true, &place);
    struct command *command = result ? NULL : emulate_command_new();
    if (!command) return result ? result : EMULATE_OUT_OF_MEMORY;
    *command = *what;
    command->to = place;
    return emulate_submit(stream, command);
}

enum emulate_error emulate_wait_value(struct stream *stream, uint64_t address, uint32_t value,
                                      enum comparison comparison)
{
    const struct command what = {
        .run = wait_value, .waits_for_value = true, .value = value, .comparison = (int)comparison
    };
    return submit_value(stream, address, &what);
}

enum emulate_error emulate_write_value(struct stream *stream, uint64_t address, uint32_t value,
                                       bool has_fence)
{
    const struct command what = { .run = write_value, .value = value, .has_fence = has_fence };
    return submit_value(stream, address, &what);
}
