/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hardware channels, which AMD calls hardware queues. A GPU has few of them, and each stream is mapped to
 * one. A channel works on the commands of its streams in the order of submission. So a wait for a value that
 * has not come holds up all later commands of the channel, also those of other streams. If the value depends
 * on one of these commands, nothing goes on. The vendors do not say which streams share a channel. Here the
 * seed YOKE_EMULATE_CHANNELS decides.
 */
#include <stdio.h>

#include "emulate/gpu/driver.h"

void emulate_value_wait_add(struct context *context, struct command *command)
{
    command->next_wait = context->value_waits;
    context->value_waits = command;
}

void emulate_value_wait_remove(struct context *context, const struct command *command)
{
    struct command **at = &context->value_waits;
    while (*at != command) at = &(*at)->next_wait;
    *at = command->next_wait;
}

/* The wait that holds the command up, or NULL. */
static const struct command *holder(const struct command *command)
{
    const struct stream *stream = command->stream;
    for (const struct command *w = stream->object.context->value_waits; w; w = w->next_wait)
        if (w->stream != stream && w->stream->channel == stream->channel && w->number < command->number)
            return w;
    return NULL;
}

static void lose(const struct command *command, const struct command *by)
{
    char text[600];
    snprintf(
        text, sizeof text,
        "stream %llu waits for a value in memory, and this wait has held up stream %llu for %d s, because "
        "both are mapped to channel %d of %d. If the value depends on the held stream, the program hangs. "
        "No program may rely on a mapping (this one has YOKE_EMULATE_CHANNELS=%llu)",
        by->stream->number, command->stream->number, emulate_settings.hold_s, command->stream->channel,
        emulate_settings.channels, (unsigned long long)emulate_settings.channel_seed);
    emulate_lose(command->stream->object.context, EMULATE_LAUNCH_TIMEOUT, text);
}

void emulate_channel_pass(const struct command *command)
{
    const struct context *context = command->stream->object.context;
    struct timespec now, end;
    const struct command *by = holder(command);
    if (!by) return;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += emulate_settings.hold_s;
    while (by && !context->lost && !context->ending) {
        emulate_wait_progress(emulate_settings.hold_s ? 10000 : 0);
        by = holder(command);
        clock_gettime(CLOCK_MONOTONIC, &now);
        const bool over = now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec);
        if (by && !context->lost && emulate_settings.hold_s && over) lose(command, by);
    }
}

int yoke_emulate_channel(void *handle)
{
    emulate_lock();
    const int channel = emulate_object_is(handle, KIND_STREAM) ? ((const struct stream *)handle)->channel
                                                               : -1;
    emulate_unlock();
    return channel;
}
