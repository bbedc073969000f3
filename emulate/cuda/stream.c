/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream is a thread that runs a queue of commands. The thread starts with the first command. A command may
 * wait for commands of other streams. The numbers of commands in a stream count up, so that "the stream has
 * completed number 7" says enough.
 *
 * The legacy stream follows CUDA's rules: its commands wait for all earlier commands of the blocking
 * streams of the context, and later commands of those wait for it. (CUDA Driver API, "Stream
 * synchronization behavior")
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/driver.h"

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
static void stream_put(struct CUstream_st *stream)
{
    if (!stream->destroyed || stream->has_thread || stream->references || stream->first) return;
    struct CUctx_st *context = stream->object.context;
    struct CUstream_st **at = &context->streams;
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
static struct ptx_range *sorted(const struct command *command, size_t *n_out)
{
    struct ptx_range *ranges = malloc(sizeof command->touched);
    *n_out = ranges ? (size_t)command->n_touched : 0;
    const bool swap = *n_out == 2 && command->touched[1].from < command->touched[0].from;
    for (size_t i = 0; i < *n_out; i++) ranges[i] = command->touched[swap ? 1 - i : i];
    return ranges;
}

/* Run the command's work; called and left with the lock. */
static CUresult run(struct command *command, char *text, size_t text_bytes)
{
    struct ptx_footprint footprint = { .n = 0 };
    struct ptx_range *ranges = NULL;
    size_t n = 0;
    emulate_order_begin(command);
    emulate_unlock();
    delay(command);
    command->footprint = &footprint;
    CUresult error = command->injected;
    if (error)
        snprintf(text, text_bytes, "a failure that YOKE_EMULATE_FAIL asks for");
    else if (command->run)
        error = command->run(command, text, text_bytes);
    if (!error && command->n_touched)
        ranges = sorted(command, &n);
    else if (!error && !footprint.incomplete)
        ranges = ptx_footprint_ranges(&footprint, &n);
    ptx_footprint_free(&footprint);
    emulate_lock();
    return error ? error : emulate_order_check(command, ranges, n, text, text_bytes);
}

/* Run one command; called and left with the lock. */
static void execute(struct CUstream_st *stream, struct command *command)
{
    struct CUctx_st *context = stream->object.context;
    emulate_channel_pass(command);
    while (!may_run(command)) emulate_wait_progress(0);
    if (!context->lost) {
        char text[1200] = "";
        const CUresult error = run(command, text, sizeof text);
        if (error) emulate_lose(context, error, text);
    }
    if (command->set) {
        command->set->done = true;
        command->set->clock = stream->clock;
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
    struct CUstream_st *stream = argument;
    struct CUctx_st *context = stream->object.context;
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

static CUresult start_thread(struct CUstream_st *stream)
{
    if (stream->has_thread) return CUDA_SUCCESS;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* a function of cuLaunchHostFunc may touch a red zone, see report.c */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const int error = pthread_create(&thread, &attributes, stream_thread, stream);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error) {
        emulate_print("the thread of a stream did not start: %s", strerror(error));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_setname_np(thread, "emulated-stream"); /* not the name of the thread that started it */
    stream->has_thread = true;
    stream->object.context->n_threads++;
    return CUDA_SUCCESS;
}

static bool follows_legacy(const struct CUstream_st *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The rules of the legacy stream: what the command must come after. */
static CUresult find_after(struct CUstream_st *stream, struct command *command)
{
    struct CUctx_st *context = stream->object.context;
    if (!follows_legacy(stream)) return CUDA_SUCCESS;
    size_t n = 0;
    for (struct CUstream_st *s = context->streams; s; s = s->next) n++;
    struct after *after = calloc(n, sizeof *after);
    if (!after) return CUDA_ERROR_OUT_OF_MEMORY;
    command->after = after;
    for (struct CUstream_st *s = context->streams; s; s = s->next) {
        const bool ordered = stream == context->legacy ? follows_legacy(s) : s == context->legacy;
        if (!ordered || s == stream) continue;
        s->references++;
        after[command->n_after++] = (struct after){ .stream = s, .sequence = s->submitted };
    }
    return CUDA_SUCCESS;
}

CUresult emulate_submit(struct CUstream_st *stream, struct command *command)
{
    CUresult result = start_thread(stream);
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
    return CUDA_SUCCESS;
}

static void wait_for(struct CUstream_st *stream, uint64_t sequence)
{
    stream->references++;
    while (stream->completed < sequence) emulate_wait_progress(0);
    emulate_order_seen(stream->object.context, &stream->clock);
    stream->references--;
    stream_put(stream);
}

CUresult emulate_stream_wait(struct CUstream_st *stream)
{
    struct CUctx_st *context = stream->object.context;
    wait_for(stream, stream->submitted);
    return context->lost;
}

CUresult emulate_context_wait(struct CUctx_st *context, bool blocking)
{
    /* Other threads may submit more while this thread sleeps; only what came before is waited for. */
    int n = 0;
    for (struct CUstream_st *s = context->streams; s; s = s->next) n++;
    struct after *all = calloc((size_t)n + 1, sizeof *all);
    if (!all) return CUDA_ERROR_OUT_OF_MEMORY;
    n = 0;
    for (struct CUstream_st *s = context->streams; s; s = s->next) {
        if (blocking && !follows_legacy(s)) continue;
        all[n++] = (struct after){ .stream = s, .sequence = s->submitted };
        s->references++;
    }
    for (int i = 0; i < n; i++) {
        struct CUstream_st *s = all[i].stream;
        while (s->completed < all[i].sequence) emulate_wait_progress(0);
        emulate_order_seen(context, &s->clock);
        s->references--;
        stream_put(s);
    }
    free(all);
    return context->lost;
}

CUresult emulate_may_wait(struct CUctx_st *context, const char *call)
{
    struct timespec now, end;
    char text[300];
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += emulate_settings.wait_s;
    for (struct CUstream_st *s = emulate_settings.wait_s ? context->streams : NULL; s && !context->lost;) {
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
                "%s waited %d s for stream %llu. NVIDIA's driver may let this call wait for all work of the "
                "device, and then the program would wait for ever",
                call, emulate_settings.wait_s, s->number);
            emulate_lose(context, CUDA_ERROR_LAUNCH_TIMEOUT, text);
        }
        struct CUstream_st *next = s->next;
        s->references--;
        stream_put(s);
        s = next;
    }
    return context->lost;
}

CUresult emulate_stream_new(struct CUctx_st *context, unsigned flags, struct CUstream_st **stream_out)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_cond_init(&stream->work, NULL);
    stream->object.context = context;
    stream->flags = flags;
    stream->number = context->n_streams++;
    stream->channel = emulate_channel_of(context, stream->number);
    stream->last = &stream->first;
    emulate_order_open(stream);
    stream->next = context->streams;
    context->streams = stream;
    *stream_out = stream;
    return CUDA_SUCCESS;
}

void emulate_streams_end(struct CUctx_st *context)
{
    for (struct CUstream_st *s = context->streams; s; s = s->next) {
        s->destroyed = true;
        /* Keep the memory of a stream whose handle is not destroyed until the leaks are reported. */
        s->references++;
        pthread_cond_signal(&s->work);
    }
    while (context->n_threads) emulate_wait_progress(0);
    for (struct CUstream_st *s = context->streams, *next; s; s = next) {
        next = s->next;
        pthread_cond_destroy(&s->work);
        if (!emulate_object_is(s, KIND_STREAM)) free(s);
    }
    context->streams = NULL;
}

CUresult emulate_stream_of(struct CUctx_st *context, CUstream handle, struct CUstream_st **stream_out)
{
    if (!handle || handle == CU_STREAM_LEGACY) {
        *stream_out = context->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD) return CUDA_ERROR_NOT_SUPPORTED;
    if (!emulate_object_is(handle, KIND_STREAM)) return CUDA_ERROR_INVALID_HANDLE;
    *stream_out = handle;
    return CUDA_SUCCESS;
}

/* ---- the functions ---- */

CUresult cuStreamCreateWithPriority(CUstream *stream_out, unsigned int flags, int priority)
{
    (void)priority; /* a value outside the range counts as the nearest one, and priorities promise nothing */
    struct CUctx_st *context;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    if (!stream_out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    result = emulate_stream_new(context, flags, stream_out);
    if (!result) emulate_object_add(&(*stream_out)->object, KIND_STREAM, context);
    return emulate_leave(result);
}

CUresult cuStreamCreate(CUstream *stream_out, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream_out, flags, 0);
}

/* The start of the functions below: a stream, and the lock of a context that is not lost. */
static CUresult enter(CUstream handle, struct CUctx_st **context_out, struct CUstream_st **stream_out)
{
    CUresult result = emulate_enter(context_out);
    if (result) return result;
    result = emulate_stream_of(*context_out, handle, stream_out);
    if (result) return emulate_leave(result);
    *context_out = (*stream_out)->object.context;
    return (*context_out)->lost ? emulate_leave((*context_out)->lost) : CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    const CUresult result = enter(handle, &context, &stream);
    if (result) return result;
    if (stream == context->legacy) return emulate_leave(CUDA_ERROR_INVALID_HANDLE);
    /* The commands that wait still run; the last of them frees the stream. */
    emulate_object_remove(&stream->object);
    stream->destroyed = true;
    pthread_cond_signal(&stream->work);
    stream_put(stream);
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    const CUresult result = enter(handle, &context, &stream);
    if (result) return result;
    return emulate_leave(stream == context->legacy ? emulate_context_wait(context, true)
                                                   : emulate_stream_wait(stream));
}

CUresult cuStreamQuery(CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    const CUresult result = enter(handle, &context, &stream);
    if (result) return result;
    bool ready = stream->completed >= stream->submitted;
    if (stream == context->legacy)
        for (struct CUstream_st *s = context->streams; s; s = s->next)
            ready = ready && (!follows_legacy(s) || s->completed >= s->submitted);
    for (struct CUstream_st *s = ready ? context->streams : NULL; s; s = s->next)
        if (s == stream || (stream == context->legacy && follows_legacy(s)))
            emulate_order_seen(context, &s->clock);
    return emulate_leave(ready ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context_out)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    const CUresult result = enter(handle, &context, &stream);
    if (result) return result;
    if (context_out) *context_out = context;
    return emulate_leave(context_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetFlags(CUstream handle, unsigned int *flags_out)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    const CUresult result = enter(handle, &context, &stream);
    if (result) return result;
    if (flags_out) *flags_out = stream->flags;
    return emulate_leave(flags_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult call_host(struct command *command, char *text, size_t text_bytes)
{
    (void)text, (void)text_bytes;
    emulate_lock();
    emulate_order_seen(command->stream->object.context, &command->stream->clock);
    emulate_unlock();
    emulate_set_in_callback(true);
    command->function(command->user_data);
    emulate_set_in_callback(false);
    return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *user_data)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    const CUresult result = enter(handle, &context, &stream);
    if (result) return result;
    struct command *command = function ? emulate_command_new() : NULL;
    if (!command) return emulate_leave(function ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE);
    command->run = call_host;
    command->function = function;
    command->user_data = user_data;
    return emulate_leave(emulate_submit(stream, command));
}
