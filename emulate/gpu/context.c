/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: one for each device. */
#include <stdio.h>
#include <stdlib.h>

#include "emulate/gpu/driver.h"

enum emulate_error emulate_init(void)
{
    static enum emulate_error failed;
    if (emulate_ready) return EMULATE_OK;
    if (emulate_vendor.is_lazy && failed) return failed;
    enum emulate_error result = emulate_settings_read();
    if (!result && emulate_settings.n_visible == 0) result = EMULATE_NO_DEVICE;
    if (!result) result = emulate_share_open();
    if (!result) result = emulate_memory_reserve();
    emulate_ready = !result;
    failed = result;
    if (!result) emulate_watch_host(), emulate_watch_exit();
    return result;
}

enum emulate_error emulate_enter(struct context **context_out)
{
    enum emulate_error result = emulate_enter_plain();
    if (result) return result;
    struct context *context;
    result = emulate_vendor.current(&context);
    if (result) return emulate_leave(result);
    if (emulate_fails(FAIL_LOST))
        emulate_lose(context, EMULATE_UNKNOWN, "the device is lost, as YOKE_EMULATE_FAIL=device-lost asks");
    if (context->lost) return emulate_leave(context->lost);
    *context_out = context;
    return EMULATE_OK;
}

enum emulate_error emulate_enter_uncounted(struct context **context_out)
{
    const enum emulate_error result = emulate_enter(context_out);
    if (!result) emulate_n_calls--;
    return result;
}

enum emulate_error emulate_context_open(struct context *context)
{
    context->ordinal = (int)(context - emulate_contexts);
    emulate_vendor.describe(context);
    enum emulate_error result = emulate_memory_open(context);
    if (!result && !emulate_share_fits(context)) result = EMULATE_OUT_OF_MEMORY;
    if (result) return result;
    context->ending = context->stop = false;
    result = emulate_stream_new(context, 0, true, &context->legacy);
    context->active = !result;
    emulate_share_update(context);
    return result;
}

static void end_events(const struct context *context)
{
    for (struct object *object; (object = emulate_object_any(context, KIND_EVENT));)
        emulate_event_destroy((struct event *)object);
}

enum emulate_error emulate_context_close(struct context *context)
{
    context->ending = true;
    emulate_progress();
    const enum emulate_error result = emulate_context_wait(context, false);
    emulate_streams_end(context);
    if (!result && emulate_report_leaks(context)) emulate_leaks_found();
    emulate_modules_end(context);
    for (struct object *object; (object = emulate_object_any(context, KIND_STREAM));) {
        emulate_object_remove(object);
        free(object);
    }
    end_events(context);
    emulate_memory_close(context);
    emulate_order_end(context);
    context->active = false;
    emulate_share_update(context);
    context->references = 0;
    context->legacy = NULL;
    return result;
}

void emulate_lose(struct context *context, enum emulate_error error, const char *text)
{
    if (context->lost) return;
    context->lost = error;
    context->stop = true;
    char line[1400];
    const char *name = emulate_vendor.error_name(error);
    snprintf(line, sizeof line, "%s:%d: %s: %s", emulate_vendor.word, context->ordinal,
             name ? name : "an unknown error", text);
    emulate_keep_fault(line);
    emulate_print("%s", line);
    emulate_progress();
}
