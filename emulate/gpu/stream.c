/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is a thread that runs a queue of commands. The thread starts with the first command. A command may
 * wait for commands of other streams. The numbers of commands in a stream count up, so that "the stream has
 * completed number 7" says enough.
 *
 * The legacy stream, which HIP calls the null stream, follows these rules: its commands wait for all earlier
 * commands of the blocking streams of the context, and later commands of those wait for it. (CUDA Driver API,
 * "Stream synchronization behavior"; HIP documentation, "Stream management")
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"

struct mark *emulate_mark_keep(struct mark *mark)
{
    if (mark) mark->references++;
    return mark;
}

void emulate_mark_drop(struct mark *mark)
{
    if (mark && --mark->references == 0) free(mark);
}

struct command *emulate_command_new(void) { return calloc(1, sizeof(struct command)); }

/* Free a stream that nobody can refer to any more. */
static void stream_put(struct stream *stream)
{
    if (!stream->destroyed || stream->has_thread || stream->references || stream->first) return;
    struct context *context = stream->object.context;
    struct stream **at = &context->streams;
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    emulate_order_close(stream);
    pthread_cond_destroy(&stream->work);
    free(stream);
}

static void command_free(struct command *command)
{
    if (command->drop) command->drop(command);
    for (int i = 0; i < command->n_after; i++) {
        command->after[i].stream->references--;
        stream_put(command->after[i].stream);
    }
    emulate_mark_drop(command->wait);
    emulate_mark_drop(command->set);
    free(command->after);
    free(command->owned);
    free(command);
}

static bool may_run(const struct command *command)
{
    for (int i = 0; i < command->n_after; i++)
        if (command->after[i].stream->completed < command->after[i].sequence) return false;
    return !command->wait || command->wait->done;
}

static void delay(const struct command *command)
{
    if (!emulate_settings.delay_us) return;
    const uint64_t random = emulate_random(
        command->stream->number << 8 | (unsigned)command->stream->object.context->ordinal, command->sequence);
    const uint64_t us = random % (emulate_settings.delay_us + 1ull);
    const struct timespec time = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000 };
    nanosleep(&time, NULL);
}

/* The ranges of a copy or a fill, in the order of addresses. */
static struct kernel_range *sorted(const struct command *command, size_t *n_out)
{
    struct kernel_range *ranges = malloc(sizeof command->touched);
    *n_out = ranges ? (size_t)command->n_touched : 0;
    const bool swap = *n_out == 2 && command->touched[1].from < command->touched[0].from;
    for (size_t i = 0; i < *n_out; i++) ranges[i] = command->touched[swap ? 1 - i : i];
    return ranges;
}

/* Run the command's work; called and left with the lock. */
static enum emulate_error run(struct command *command, char *text, size_t text_bytes)
{
    struct kernel_footprint footprint = { .n = 0 };
    struct kernel_range *ranges = NULL;
    size_t n = 0;
    emulate_order_begin(command);
    if (emulate_order_follows_call(command)) emulate_apart_publish_for(command);
    emulate_unlock();
    delay(command);
    command->footprint = &footprint;
    enum emulate_error error = command->injected;
    if (error)
        snprintf(text, text_bytes, "a failure that YOKE_EMULATE_FAIL asks for");
    else if (command->run)
        error = command->run(command, text, text_bytes);
    if (!error && command->n_touched)
        ranges = sorted(command, &n);
    else if (!error && !footprint.incomplete)
        ranges = kernel_footprint_ranges(&footprint, &n);
    kernel_footprint_free(&footprint);
    emulate_lock();
    if (!error) emulate_apart_wrote(command->stream, ranges, n);
    return error ? error : emulate_order_check(command, ranges, n, text, text_bytes);
}

/* Run one command; called and left with the lock. */
static void execute(struct stream *stream, struct command *command)
{
    struct context *context = stream->object.context;
    emulate_channel_pass(command);
    while (!may_run(command)) emulate_wait_progress(0);
    if (!context->lost) {
        char text[1200] = "";
        const enum emulate_error error = run(command, text, sizeof text);
        if (error) emulate_lose(context, error, text);
    }
    emulate_order_complete(command);
    if (command->set) {
        command->set->done = true;
        clock_gettime(CLOCK_MONOTONIC, &command->set->time);
    }
    if (command->waits_for_value) emulate_value_wait_remove(context, command);
    stream->completed = command->sequence;
    stream->first = command->next;
    if (!stream->first) stream->last = &stream->first;
    command_free(command);
    emulate_progress();
}

static void *stream_thread(void *argument)
{
    struct stream *stream = argument;
    struct context *context = stream->object.context;
    emulate_lock();
    while (stream->first || !stream->destroyed) {
        if (stream->first)
            execute(stream, stream->first);
        else
            emulate_wait_work(&stream->work);
    }
    stream->has_thread = false;
    stream_put(stream);
    context->n_threads--;
    emulate_progress();
    emulate_unlock();
    return NULL;
}

static enum emulate_error start_thread(struct stream *stream)
{
    if (stream->has_thread) return EMULATE_OK;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* a function of the program may touch a red zone, see report.c */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, stream_thread, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error) {
        emulate_print("the thread of a stream did not start: %s", strerror(error));
        return EMULATE_OUT_OF_MEMORY;
    }
    pthread_setname_np(thread, "emulated-stream"); /* not the name of the thread that started it */
    stream->has_thread = true;
    stream->object.context->n_threads++;
    return EMULATE_OK;
}

/* The rules of the legacy stream: what the command must come after. */
static enum emulate_error find_after(struct stream *stream, struct command *command)
{
    struct context *context = stream->object.context;
    if (!stream->blocking) return EMULATE_OK;
    size_t n = 0;
    for (struct stream *s = context->streams; s; s = s->next) n++;
    struct after *after = calloc(n, sizeof *after);
    if (!after) return EMULATE_OUT_OF_MEMORY;
    command->after = after;
    for (struct stream *s = context->streams; s; s = s->next) {
        const bool ordered = stream == context->legacy ? s->blocking : s == context->legacy;
        if (!ordered || s == stream) continue;
        s->references++;
        after[command->n_after++] = (struct after){ .stream = s, .sequence = s->submitted };
    }
    return EMULATE_OK;
}

enum emulate_error emulate_submit(struct stream *stream, struct command *command)
{
    enum emulate_error result = start_thread(stream);
    if (!result) result = find_after(stream, command);
    if (result) {
        command_free(command);
        return result;
    }
    command->stream = stream;
    command->sequence = ++stream->submitted;
    command->number = ++stream->object.context->n_commands;
    emulate_order_submit(command);
    if (command->waits_for_value) emulate_value_wait_add(stream->object.context, command);
    *stream->last = command;
    stream->last = &command->next;
    pthread_cond_signal(&stream->work);
    return EMULATE_OK;
}

static void wait_for(struct stream *stream, uint64_t sequence)
{
    stream->references++;
    while (stream->completed < sequence) emulate_wait_progress(0);
    emulate_host_sees(stream->object.context, &stream->ended, &stream->ended);
    stream->references--;
    stream_put(stream);
}

enum emulate_error emulate_stream_wait(struct stream *stream)
{
    struct context *context = stream->object.context;
    wait_for(stream, stream->submitted);
    return context->lost;
}

enum emulate_error emulate_context_wait(struct context *context, bool blocking)
{
    /* Other threads may submit more while this thread sleeps; only what came before is waited for. */
    int n = 0;
    for (struct stream *s = context->streams; s; s = s->next) n++;
    struct after *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) return EMULATE_OUT_OF_MEMORY;
    n = 0;
    for (struct stream *s = context->streams; s; s = s->next) {
        if (blocking && !s->blocking) continue;
        all[n++] = (struct after){ .stream = s, .sequence = s->submitted };
        s->references++;
    }
    for (int i = 0; i < n; i++) {
        struct stream *s = all[i].stream;
        while (s->completed < all[i].sequence) emulate_wait_progress(0);
        emulate_host_sees(context, &s->ended, &s->ended);
        s->references--;
        stream_put(s);
    }
    free(all);
    return context->lost;
}

enum emulate_error emulate_may_wait(struct context *context, const char *call)
{
    struct timespec now, end;
    char text[300];
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += emulate_settings.wait_s;
    for (struct stream *s = emulate_settings.wait_s ? context->streams : NULL; s && !context->lost;) {
        const uint64_t sequence = s->submitted;
        const bool idle = s->completed >= sequence;
        s->references++;
        do {
            if (!idle) emulate_wait_progress(100000);
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while (s->completed < sequence && !context->lost && now.tv_sec < end.tv_sec);
        if (s->completed < sequence && !context->lost) {
            snprintf(
                text, sizeof text,
                "%s waited %d s for stream %llu. %s may let this call wait for all work of the device, and "
                "then the program would wait for ever",
                call, emulate_settings.wait_s, s->number, emulate_vendor.maker);
            emulate_lose(context, EMULATE_LAUNCH_TIMEOUT, text);
        }
        struct stream *next = s->next;
        s->references--;
        stream_put(s);
        s = next;
    }
    return context->lost;
}

enum emulate_error emulate_stream_new(struct context *context, unsigned flags, bool blocking,
                                      struct stream **stream_out)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) return EMULATE_OUT_OF_MEMORY;
    pthread_cond_init(&stream->work, NULL);
    stream->object.context = context;
    stream->flags = flags;
    stream->blocking = blocking;
    stream->number = context->n_streams++;
    stream->channel = emulate_channel_of(context, stream->number);
    stream->last = &stream->first;
    emulate_order_open(stream);
    stream->next = context->streams;
    context->streams = stream;
    *stream_out = stream;
    return EMULATE_OK;
}

void emulate_streams_end(struct context *context)
{
    for (struct stream *s = context->streams; s; s = s->next) {
        s->destroyed = true;
        /* Keep the memory of a stream whose handle is not destroyed until the leaks are reported. */
        s->references++;
        pthread_cond_signal(&s->work);
    }
    while (context->n_threads) emulate_wait_progress(0);
    for (struct stream *s = context->streams, *next; s; s = next) {
        next = s->next;
        pthread_cond_destroy(&s->work);
        if (!emulate_object_is(s, KIND_STREAM)) free(s);
    }
    context->streams = NULL;
}

/* ---- handles ---- */

enum emulate_error emulate_stream_of(struct context *context, void *handle, struct stream **stream_out)
{
    /* Both vendors also have a number for the legacy stream, and one for a thread's own stream. */
    if (!handle || handle == (void *)1) {
        *stream_out = context->legacy;
        return EMULATE_OK;
    }
    if (handle == (void *)2) return EMULATE_NOT_SUPPORTED;
    if (!emulate_object_is(handle, KIND_STREAM)) return EMULATE_INVALID_HANDLE;
    *stream_out = handle;
    return EMULATE_OK;
}

enum emulate_error emulate_stream_enter(void *handle, struct context **context_out,
                                        struct stream **stream_out)
{
    enum emulate_error result = emulate_enter(context_out);
    if (result) return result;
    result = emulate_stream_of(*context_out, handle, stream_out);
    if (result) return emulate_leave(result);
    *context_out = (*stream_out)->object.context;
    return (*context_out)->lost ? emulate_leave((*context_out)->lost) : EMULATE_OK;
}

enum emulate_error emulate_stream_create(struct context *context, unsigned flags, bool blocking,
                                         struct stream **stream_out)
{
    const enum emulate_error result = emulate_stream_new(context, flags, blocking, stream_out);
    if (!result) emulate_object_add(&(*stream_out)->object, KIND_STREAM, context);
    return result;
}

void emulate_stream_destroy(struct stream *stream)
{
    /* The last of the commands that wait frees the stream. */
    emulate_object_remove(&stream->object);
    stream->destroyed = true;
    pthread_cond_signal(&stream->work);
    stream_put(stream);
}

/* ---- the host waits ---- */

enum emulate_error emulate_stream_synchronize(struct stream *stream)
{
    struct context *context = stream->object.context;
    return stream == context->legacy ? emulate_context_wait(context, true) : emulate_stream_wait(stream);
}

enum emulate_error emulate_stream_query(struct stream *stream)
{
    struct context *context = stream->object.context;
    bool ready = stream->completed >= stream->submitted;
    if (stream == context->legacy)
        for (struct stream *s = context->streams; s; s = s->next)
            ready = ready && (!s->blocking || s->completed >= s->submitted);
    for (struct stream *s = ready ? context->streams : NULL; s; s = s->next)
        if (s == stream || (stream == context->legacy && s->blocking))
            emulate_host_sees(context, &s->ended, &s->released);
    return ready ? EMULATE_OK : EMULATE_NOT_READY;
}

static enum emulate_error call_host(struct command *command, char *text, size_t text_bytes)
{
    (void)text, (void)text_bytes;
    emulate_lock();
    /* The function itself has not ended, so the host has not seen what it writes. */
    const struct order_clock before = emulate_order_before(command);
    emulate_host_sees(command->stream->object.context, &before, &command->stream->released);
    emulate_unlock();
    emulate_set_in_callback(true);
    command->function(command->user_data);
    emulate_set_in_callback(false);
    emulate_lock();
    emulate_order_called(command);
    emulate_unlock();
    return EMULATE_OK;
}

enum emulate_error emulate_stream_call(struct stream *stream, void (*function)(void *user_data),
                                       void *user_data, void *owned)
{
    struct command *command = emulate_command_new();
    if (!command) {
        free(owned);
        return EMULATE_OUT_OF_MEMORY;
    }
    command->run = call_host;
    command->owned = owned;
    command->function = function;
    command->user_data = user_data;
    return emulate_submit(stream, command);
}
