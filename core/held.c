/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of the process for streams that wait for armed events. The lock of a device protects the queues of
 * its streams and the states of its events. While a thread submits commands, it holds the lock, so the
 * commands of a stream reach the driver in order.
 *
 * A state of an event is a moment. An event that is recorded or armed anew gets another moment if queued
 * commands still refer to the earlier one. So these commands wait for what they were issued to wait for.
 */
#include "core/held.h"
#include "core/base/base.h"
#include "core/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The most commands of a stream that are queued before a call blocks. */
enum { MOST_HELD = 1024 };

enum state {
    COMPLETE,
    ARMED,    /* yoke_event_signal completes it */
    QUEUED,   /* the command that records it is in the queue of a stream */
    RECORDED, /* the driver knows when it is complete */
    FAILED    /* the work before it failed */
};

struct yokei_moment {
    yoke_event event; /* for the backend. impl is NULL before the first record */
    int references;
    enum state state;
    yoke_status error; /* of FAILED */
    char *text;        /* the error's text */
};

struct yokei_holding {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* commands were submitted, or a moment has another state */
    yoke_stream *streams;   /* those with commands in their queue */
};

enum kind { CALL, COPY, FILL, ANNOTATE, RECORD, WAIT };

struct yokei_held_command {
    struct yokei_held_command *next;
    enum kind kind;
    const char *name; /* the op, for messages */
    yokei_held_call *call;
    enum yoke_copy_kind copy;
    void *target;
    const void *source;
    size_t bytes;
    uint8_t byte;
    struct yokei_annotation note;
    struct yokei_moment *moment;
    max_align_t data[]; /* the data of a call, or the name of an annotation */
};

/*
 * This thread submits queued commands, of this op. What they call on their stream is not queued. NULL: it
 * does not.
 */
static _Thread_local const char *submits;

yoke_status yokei_holding_create(yoke_device *device)
{
    if (device->backend->event->arm) return YOKE_OK;
    struct yokei_holding *holding = calloc(1, sizeof *holding);
    if (!holding) return yoke_fail(YOKE_ENOMEM, "device: no memory");
    pthread_mutex_init(&holding->lock, NULL);
    pthread_cond_init(&holding->changed, NULL);
    device->holding = holding;
    return YOKE_OK;
}

void yokei_holding_destroy(yoke_device *device)
{
    struct yokei_holding *holding = device->holding;
    if (holding && yokei_made_here(&device->maker)) {
        pthread_cond_destroy(&holding->changed);
        pthread_mutex_destroy(&holding->lock);
    }
    free(holding);
}

static void lock(const yoke_device *device) { pthread_mutex_lock(&device->holding->lock); }
static void unlock(const yoke_device *device) { pthread_mutex_unlock(&device->holding->lock); }

bool yokei_is_held(const yoke_stream *stream) { return atomic_load(&stream->held.is_held) && !submits; }

const char *yokei_stream_op(const yoke_stream *stream) { return submits ? submits : stream->last_op; }

/* ---- moments; the lock is held ---- */

static bool is_pending(const struct yokei_moment *m) { return m->state == ARMED || m->state == QUEUED; }

static struct yokei_moment *moment_new(yoke_device *device, bool timed)
{
    struct yokei_moment *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->event.device = device;
    m->event.timed = timed;
    m->references = 1;
    return m;
}

static void moment_drop(struct yokei_moment *m)
{
    if (!m || --m->references) return;
    const yoke_device *device = m->event.device;
    if (m->event.impl && yokei_may_release(device)) device->backend->event->destroy(&m->event);
    free(m->text);
    free(m);
}

static void set_failed(struct yokei_moment *m, yoke_status error, const char *text)
{
    free(m->text);
    m->state = FAILED;
    m->error = error;
    m->text = strdup(text);
}

static yoke_status error_of(const struct yokei_moment *m)
{
    return yoke_fail(m->error, "%s", m->text ? m->text : "work before an event failed");
}

/* Give the event a moment to which no queued command refers. */
static yoke_status renew(yoke_event *event)
{
    if (event->moment->references == 1) return YOKE_OK;
    struct yokei_moment *m = moment_new(event->device, event->timed);
    if (!m) return yoke_fail(YOKE_ENOMEM, "event: no memory");
    moment_drop(event->moment);
    event->moment = m;
    return YOKE_OK;
}

/* Let the driver record the moment behind the stream's work so far. */
static yoke_status record_now(struct yokei_moment *m, yoke_stream *stream)
{
    const struct yoke_event_ops *ops = m->event.device->backend->event;
    if (!m->event.impl) YOKE_TRY(ops->create(&m->event));
    YOKE_TRY(ops->record(&m->event, stream));
    m->state = RECORDED;
    return YOKE_OK;
}

static yoke_status wait_now(yoke_stream *stream, struct yokei_moment *m)
{
    if (m->state == FAILED) return error_of(m);
    return m->state == RECORDED ? m->event.device->backend->event->wait(stream, &m->event) : YOKE_OK;
}

/* ---- queues; the lock is held ---- */

static void command_free(struct yokei_held_command *c)
{
    moment_drop(c->moment);
    free(c);
}

static struct yokei_held_command *command_new(enum kind kind, const char *name, const void *data,
                                              size_t data_bytes)
{
    struct yokei_held_command *c = calloc(1, sizeof *c + data_bytes);
    if (!c) {
        yoke_fail(YOKE_ENOMEM, "%s: no memory for a command that waits for an event", name);
        return NULL;
    }
    c->kind = kind;
    c->name = name;
    if (data_bytes) memcpy(c->data, data, data_bytes);
    return c;
}

static void append(yoke_stream *stream, struct yokei_held_command *command)
{
    struct yokei_held *held = &stream->held;
    struct yokei_holding *holding = stream->device->holding;
    if (!held->first) {
        held->last = &held->first;
        held->next = holding->streams;
        holding->streams = stream;
    }
    *held->last = command;
    held->last = &command->next;
    held->n++;
    atomic_store(&held->is_held, true);
}

static yoke_status run(yoke_stream *stream, struct yokei_held_command *c)
{
    const struct yoke_backend *backend = stream->device->backend;
    switch (c->kind) {
    case CALL: return c->call(stream, c->data);
    case COPY: return backend->stream->copy(stream, c->copy, c->target, c->source, c->bytes);
    case FILL: return backend->stream->fill(stream, c->target, c->byte, c->bytes);
    case ANNOTATE: return backend->device->extras->annotate(stream->device, stream, &c->note);
    case RECORD: return record_now(c->moment, stream);
    case WAIT: break;
    }
    return wait_now(stream, c->moment);
}

/*
 * Submit one command. After an error the stream's later commands are not submitted, and the events that they
 * would record have failed, so nothing waits for them for ever.
 */
static void submit(yoke_stream *stream, struct yokei_held_command *c)
{
    struct yokei_held *held = &stream->held;
    if (!held->error) {
        submits = c->name;
        held->error = run(stream, c);
        if (held->error) {
            char text[1024];
            yokei_text(text, sizeof text, "%s, which had waited for an event, could not be issued: %s",
                       c->name, yoke_last_error());
            held->text = strdup(text);
        }
    }
    if (held->error && c->kind == RECORD)
        set_failed(c->moment, held->error, held->text ? held->text : c->name);
}

/* Submit the commands of a stream up to the next one that must wait. Returns whether there were any. */
static bool submit_ready(yoke_stream *stream)
{
    struct yokei_held *held = &stream->held;
    bool moved = false;
    for (struct yokei_held_command *c; (c = held->first); moved = true) {
        if (c->kind == WAIT && is_pending(c->moment)) break;
        submit(stream, c);
        held->first = c->next;
        held->n--;
        command_free(c);
    }
    return moved;
}

/* Submit all commands that nothing holds back any more. */
static void release(const yoke_device *device)
{
    struct yokei_holding *holding = device->holding;
    struct yokei_error saved;
    yokei_error_save(&saved);
    for (bool moved = true; moved;) {
        moved = false;
        for (yoke_stream *s = holding->streams; s; s = s->held.next) moved |= submit_ready(s);
    }
    submits = NULL;
    yokei_error_restore(&saved);
    for (yoke_stream **at = &holding->streams, *s; (s = *at);) {
        if (s->held.first) {
            at = &s->held.next;
            continue;
        }
        *at = s->held.next;
        atomic_store(&s->held.is_held, s->held.error != YOKE_OK);
    }
    pthread_cond_broadcast(&holding->changed);
}

static yoke_status error_of_stream(const yoke_stream *stream)
{
    const struct yokei_held *held = &stream->held;
    return held->error ? yoke_fail(held->error, "%s", held->text ? held->text : "a command failed") : YOKE_OK;
}

/* Append a command, if need be when there is room. Takes the lock. `command` NULL: there was no memory. */
static yoke_status hold(yoke_stream *stream, struct yokei_held_command *command, bool *queued_out)
{
    struct yokei_holding *holding = stream->device->holding;
    if (!command) return YOKE_ENOMEM;
    pthread_mutex_lock(&holding->lock);
    while (stream->held.n >= MOST_HELD) pthread_cond_wait(&holding->changed, &holding->lock);
    const yoke_status status = error_of_stream(stream);
    *queued_out = !status && stream->held.n;
    if (*queued_out)
        append(stream, command);
    else
        command_free(command);
    pthread_mutex_unlock(&holding->lock);
    return status;
}

yoke_status yokei_hold_call(yoke_stream *stream, yokei_held_call *call, const void *data, size_t bytes,
                            bool *queued_out)
{
    struct yokei_held_command *c = command_new(CALL, stream->last_op, data, bytes);
    if (c) c->call = call;
    return hold(stream, c, queued_out);
}

yoke_status yokei_hold_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                            size_t bytes, const char *name, bool *queued_out)
{
    struct yokei_held_command *c = command_new(COPY, name, NULL, 0);
    if (c) c->copy = kind, c->target = target, c->source = source, c->bytes = bytes;
    return hold(stream, c, queued_out);
}

yoke_status yokei_hold_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes, bool *queued_out)
{
    struct yokei_held_command *c = command_new(FILL, "yoke_fill", NULL, 0);
    if (c) c->target = target, c->byte = byte, c->bytes = bytes;
    return hold(stream, c, queued_out);
}

yoke_status yokei_hold_annotation(yoke_stream *stream, const struct yokei_annotation *note, bool *queued_out)
{
    const size_t bytes = note->name ? strlen(note->name) + 1 : 0;
    struct yokei_held_command *c = command_new(
        ANNOTATE, stream->last_op ? stream->last_op : "an annotation of memory", note->name, bytes);
    if (c) c->note = *note;
    if (c && bytes) c->note.name = (const char *)c->data;
    return hold(stream, c, queued_out);
}

yoke_status yokei_held_drain(yoke_stream *stream)
{
    struct yokei_held *held = &stream->held;
    struct yokei_holding *holding = stream->device->holding;
    pthread_mutex_lock(&holding->lock);
    while (held->n) pthread_cond_wait(&holding->changed, &holding->lock);
    const yoke_status status = error_of_stream(stream);
    free(held->text);
    held->text = NULL;
    held->error = YOKE_OK;
    atomic_store(&held->is_held, false);
    pthread_mutex_unlock(&holding->lock);
    return status;
}

void yokei_held_forget(yoke_stream *stream)
{
    for (struct yokei_held_command *c = stream->held.first, *next; c; c = next) {
        next = c->next;
        command_free(c);
    }
    free(stream->held.text);
}

void yokei_stream_room(yoke_stream *stream)
{
    if (!stream || !yokei_is_held(stream)) return;
    struct yokei_holding *holding = stream->device->holding;
    pthread_mutex_lock(&holding->lock);
    while (stream->held.n >= MOST_HELD) pthread_cond_wait(&holding->changed, &holding->lock);
    pthread_mutex_unlock(&holding->lock);
}

bool yokei_stream_blocks(const yoke_stream *stream)
{
    return yokei_holds(stream->device) && stream->is_foreign;
}

/* ---- events ---- */

yoke_status yokei_moment_create(yoke_event *event)
{
    event->moment = moment_new(event->device, event->timed);
    return event->moment ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "event: no memory");
}

/* If streams wait for a signal that can no longer come, they are released. */
static void complete(yoke_event *event)
{
    if (event->moment->state != ARMED) return;
    event->moment->state = COMPLETE;
    release(event->device);
}

void yokei_moment_destroy(yoke_event *event)
{
    if (!yokei_made_here(&event->device->maker)) { /* another thread may have held the lock at the fork */
        moment_drop(event->moment);
        return;
    }
    lock(event->device);
    complete(event);
    moment_drop(event->moment);
    unlock(event->device);
}

/* Append a command on a moment. The lock is held. */
static yoke_status hold_moment(yoke_stream *stream, enum kind kind, const char *name, struct yokei_moment *m)
{
    struct yokei_held_command *c = command_new(kind, name, NULL, 0);
    if (!c) return YOKE_ENOMEM;
    c->moment = m;
    m->references++;
    append(stream, c);
    return YOKE_OK;
}

static yoke_status record(yoke_event *event, yoke_stream *stream)
{
    YOKE_TRY(error_of_stream(stream));
    complete(event);
    YOKE_TRY(renew(event));
    if (!stream->held.n) return record_now(event->moment, stream);
    YOKE_TRY(hold_moment(stream, RECORD, "yoke_event_record", event->moment));
    event->moment->state = QUEUED;
    return YOKE_OK;
}

yoke_status yokei_moment_record(yoke_event *event, yoke_stream *stream)
{
    lock(event->device);
    const yoke_status status = record(event, stream);
    unlock(event->device);
    return status;
}

yoke_status yokei_moment_arm(yoke_event *event)
{
    lock(event->device);
    const yoke_status status = event->moment->state == ARMED ? YOKE_OK : renew(event);
    if (!status) event->moment->state = ARMED;
    unlock(event->device);
    return status;
}

yoke_status yokei_moment_signal(yoke_event *event)
{
    lock(event->device);
    complete(event);
    unlock(event->device);
    return YOKE_OK;
}

yoke_status yokei_moment_query(yoke_event *event, bool *complete_out)
{
    lock(event->device);
    const struct yokei_moment *m = event->moment;
    yoke_status status = YOKE_OK;
    if (m->state == FAILED)
        status = error_of(m);
    else if (m->state == RECORDED)
        status = event->device->backend->event->query((yoke_event *)&m->event, complete_out);
    else
        *complete_out = m->state == COMPLETE;
    unlock(event->device);
    return status;
}

static yoke_status wait_for(yoke_stream *stream, yoke_event *event)
{
    struct yokei_moment *m = event->moment;
    YOKE_TRY(error_of_stream(stream));
    if (stream->is_foreign) { /* its owner issues commands without this library, so it cannot be held */
        m->references++;
        while (is_pending(m))
            pthread_cond_wait(&event->device->holding->changed, &event->device->holding->lock);
        const yoke_status status = wait_now(stream, m);
        moment_drop(m);
        return status;
    }
    if (!stream->held.n && !is_pending(m)) return wait_now(stream, m);
    return m->state == COMPLETE ? YOKE_OK : hold_moment(stream, WAIT, "yoke_stream_wait", m);
}

yoke_status yokei_moment_wait(yoke_stream *stream, yoke_event *event)
{
    lock(event->device);
    const yoke_status status = wait_for(stream, event);
    unlock(event->device);
    return status;
}

yoke_status yokei_moment_seconds(const yoke_event *from, const yoke_event *to, double *seconds_out)
{
    yoke_status status = YOKE_OK;
    lock(from->device);
    const struct yokei_moment *a = from->moment, *b = to->moment;
    if (a->state == RECORDED && b->state == RECORDED)
        status = from->device->backend->event->seconds(&a->event, &b->event, seconds_out);
    else
        status = yoke_fail(YOKE_EINVAL, "the time between two events: they are not both recorded");
    unlock(from->device);
    return status;
}
