/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that mean the same in each vendor's interface: streams and events. */
#include <stdlib.h>

#include "emulate/gpu/calls.h"

enum emulate_error emulate_call_stream_create(unsigned flags, bool blocking, struct stream **stream_out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!stream_out) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_stream_create(context, flags, blocking, stream_out));
}

enum emulate_error emulate_call_stream_destroy(void *handle)
{
    struct context *context;
    struct stream *stream;
    const enum emulate_error result = emulate_stream_enter(handle, &context, &stream);
    if (result) return emulate_no_object(result, "stream", handle);
    if (stream == context->legacy) return emulate_leave(EMULATE_INVALID_HANDLE);
    emulate_stream_destroy(stream);
    return emulate_leave(EMULATE_OK);
}

enum emulate_error emulate_call_stream_synchronize(void *handle)
{
    struct context *context;
    struct stream *stream;
    const enum emulate_error result = emulate_stream_enter(handle, &context, &stream);
    return result ? result : emulate_leave(emulate_stream_synchronize(stream));
}

enum emulate_error emulate_call_stream_query(void *handle)
{
    struct context *context;
    struct stream *stream;
    const enum emulate_error result = emulate_stream_enter(handle, &context, &stream);
    return result ? result : emulate_leave(emulate_stream_query(stream));
}

enum emulate_error emulate_call_stream_flags(void *handle, unsigned *flags_out)
{
    struct context *context;
    struct stream *stream;
    const enum emulate_error result = emulate_stream_enter(handle, &context, &stream);
    if (result) return result;
    if (flags_out) *flags_out = stream->flags;
    return emulate_leave(flags_out ? EMULATE_OK : EMULATE_INVALID_VALUE);
}

enum emulate_error emulate_call_stream_call(void *handle, void (*function)(void *user_data), void *user_data,
                                            void *owned)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_stream_enter(handle, &context, &stream);
    if (result || !function) {
        free(owned);
        return result ? result : emulate_leave(EMULATE_INVALID_VALUE);
    }
    return emulate_leave(emulate_stream_call(stream, function, user_data, owned));
}

enum emulate_error emulate_call_synchronize(void)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    return result ? result : emulate_leave(emulate_context_wait(context, false));
}

/* ---- events ---- */

enum emulate_error emulate_call_event_create(unsigned flags, bool has_no_time, struct event **event_out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!event_out) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_event_create(context, flags, has_no_time, event_out));
}

enum emulate_error emulate_call_event_destroy(void *event)
{
    struct context *context;
    const enum emulate_error result = emulate_event_enter(event, &context);
    if (result) return emulate_no_object(result, "event", event);
    emulate_event_destroy(event);
    return emulate_leave(EMULATE_OK);
}

enum emulate_error emulate_call_event_record(void *event, void *handle)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_event_enter(event, &context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    return emulate_leave(result ? result : emulate_event_record(event, stream));
}

enum emulate_error emulate_call_event_query(void *event)
{
    struct context *context;
    const enum emulate_error result = emulate_event_enter(event, &context);
    return result ? result : emulate_leave(emulate_event_query(event));
}

enum emulate_error emulate_call_event_synchronize(void *event)
{
    struct context *context;
    const enum emulate_error result = emulate_event_enter(event, &context);
    return result ? result : emulate_leave(emulate_event_synchronize(event));
}

enum emulate_error emulate_call_event_elapsed(float *milliseconds_out, void *start, void *end)
{
    struct context *context;
    const enum emulate_error result = emulate_event_enter(start, &context);
    if (result) return result;
    if (!milliseconds_out) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_event_elapsed(milliseconds_out, start, end));
}

enum emulate_error emulate_call_wait_event(void *handle, void *event)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_event_enter(event, &context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    return emulate_leave(result ? result : emulate_stream_wait_event(stream, event));
}

/* ---- values in memory ---- */

enum emulate_error emulate_call_wait_value(void *handle, uint64_t address, uint32_t value,
                                           unsigned comparison)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    if (!result && comparison > WAIT_NOR) result = EMULATE_INVALID_VALUE;
    return emulate_leave(result ? result
                                : emulate_wait_value(stream, address, value, (enum comparison)comparison));
}

enum emulate_error emulate_call_write_value(void *handle, uint64_t address, uint32_t value)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    return emulate_leave(result ? result : emulate_write_value(stream, address, value, true));
}
