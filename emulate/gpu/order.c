/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races between streams. Each stream has a vector clock: for each stream the number of its commands that come
 * before. A wait for an event, the rules of the legacy stream, and the host order commands. The host has seen
 * a command when a call of the driver has said that the command has ended, when a function of the program
 * runs behind it in a stream, or when a stream has written a value behind it with the fence. A command
 * comes behind all that the host had seen when it submitted the command.
 *
 * Two commands of different streams race if none of them is ordered before the other, both touch a byte, and
 * one of them writes it. It does not matter which of them has run first. A command is compared only with
 * those commands of other streams that are not ordered before it, so few are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"

enum { MOST_RECORDS = 20000, PRUNE_EVERY = 64 };

struct order_record { /* a command that has ended */
    struct order_record *older;
    uint64_t count;    /* its place in its slot, from 1 */
    uint64_t sequence; /* its place in its stream, from 1 */
    uint64_t number;   /* in the order of submission */
    unsigned long long stream;
    struct order_clock clock;
    char what[120];
    size_t n;
    struct kernel_range *ranges;
};

static void join(struct order_clock *to, const struct order_clock *from)
{
    for (int i = 0; i < ORDER_SLOTS; i++)
        if (from->at[i] > to->at[i]) to->at[i] = from->at[i];
}

static struct order *order_of(const struct stream *stream) { return &stream->object.context->order; }

void emulate_order_open(struct stream *stream)
{
    struct order *order = order_of(stream);
    stream->slot = 0;
    while (stream->slot < ORDER_SLOTS && order->taken[stream->slot]) stream->slot++;
    if (stream->slot == ORDER_SLOTS) {
        stream->slot = -1;
        return;
    }
    order->taken[stream->slot] = true;
    stream->clock.at[stream->slot] = order->count[stream->slot];
}

void emulate_order_close(struct stream *stream)
{
    if (stream->slot >= 0) order_of(stream)->taken[stream->slot] = false;
}

void emulate_order_submit(struct command *command) { command->host = order_of(command->stream)->host; }

void emulate_order_begin(struct command *command)
{
    struct stream *stream = command->stream;
    join(&stream->clock, &command->host);
    for (int i = 0; i < command->n_after; i++) {
        join(&stream->clock, &command->after[i].stream->ended);
        join(&stream->released, &command->after[i].stream->released);
    }
    if (command->wait) {
        join(&stream->clock, &command->wait->clock);
        join(&stream->released, &command->wait->released);
    }
    if (stream->slot >= 0) stream->clock.at[stream->slot] = ++order_of(stream)->count[stream->slot];
}

void emulate_order_complete(const struct command *command)
{
    struct stream *stream = command->stream;
    struct mark *mark = command->set;
    stream->ended = stream->clock;
    if (!mark) return;
    if (mark->releases) stream->released = stream->clock;
    mark->clock = stream->clock;
    mark->released = stream->released;
}

struct order_clock emulate_order_before(const struct command *command)
{
    const struct stream *stream = command->stream;
    struct order_clock clock = stream->clock;
    if (stream->slot >= 0) clock.at[stream->slot]--;
    return clock;
}

void emulate_order_seen(struct context *context, const struct order_clock *clock)
{
    join(&context->order.host, clock);
}

void emulate_order_join_host(struct stream *stream) { join(&stream->clock, &order_of(stream)->host); }

void emulate_order_called(const struct command *command)
{
    const struct stream *stream = command->stream;
    if (stream->slot >= 0)
        order_of(stream)->called[stream->slot] = stream->clock.at[stream->slot];
    else
        order_of(stream)->called_elsewhere = true;
}

bool emulate_order_follows_call(const struct command *command)
{
    const struct stream *stream = command->stream;
    const uint64_t *called = order_of(stream)->called, *seen = command->host.at, *before = stream->clock.at;
    for (int i = 0; i < ORDER_SLOTS; i++)
        if (called[i] > seen[i] && before[i] > seen[i]) return true;
    return stream->slot < 0 || order_of(stream)->called_elsewhere;
}

/* ---- what is remembered ---- */

static void free_record(struct order *order, struct order_record *record)
{
    free(record->ranges);
    free(record);
    order->n_records--;
}

/*
 * What every later command comes behind. A stream comes behind what it waits for, and its commands that have
 * not begun come behind what the host had seen when it submitted the first of them.
 */
static struct order_clock floor_of(const struct context *context)
{
    struct order_clock floor = context->order.host;
    for (const struct stream *s = context->streams; s; s = s->next) {
        if (!s->first || s->slot < 0) continue;
        for (int i = 0; i < ORDER_SLOTS; i++) {
            const uint64_t own = s->clock.at[i], host = s->first->host.at[i], known = own > host ? own : host;
            if (i != s->slot && known < floor.at[i]) floor.at[i] = known;
        }
    }
    return floor;
}

/* Free the records that can race with no later command, and the oldest ones if there are too many. */
static void prune(struct context *context)
{
    struct order *order = &context->order;
    const struct order_clock floor = floor_of(context);
    const unsigned most = order->n_records > MOST_RECORDS ? MOST_RECORDS / 2 / ORDER_SLOTS : MOST_RECORDS;
    for (int s = 0; s < ORDER_SLOTS; s++) {
        struct order_record **at = &order->newest[s];
        for (unsigned n = 0; *at && (*at)->count > floor.at[s] && n < most; n++) at = &(*at)->older;
        struct order_record *old = *at;
        *at = NULL;
        for (struct order_record *older; old; old = older) {
            older = old->older;
            free_record(order, old);
        }
    }
}

void emulate_order_forget(struct context *context, uint64_t from, uint64_t to)
{
    for (int s = 0; s < ORDER_SLOTS; s++)
        for (struct order_record *r = context->order.newest[s]; r; r = r->older) {
            size_t n = 0;
            for (size_t i = 0; i < r->n; i++)
                if (r->ranges[i].to <= from || r->ranges[i].from >= to) r->ranges[n++] = r->ranges[i];
            r->n = n;
        }
}

void emulate_order_end(struct context *context)
{
    struct order *order = &context->order;
    for (int s = 0; s < ORDER_SLOTS; s++)
        for (struct order_record *r = order->newest[s], *older; r; r = older) {
            older = r->older;
            free_record(order, r);
        }
    *order = (struct order){ .n_records = 0 };
}

/* ---- races ---- */

/* The first byte that both touch and one writes; false: there is none. */
static bool meet(const struct kernel_range *a, size_t n_a, const struct kernel_range *b, size_t n_b,
                 struct kernel_range *a_out, struct kernel_range *b_out)
{
    for (size_t i = 0, j = 0; i < n_a && j < n_b;) {
        const uint64_t from = a[i].from > b[j].from ? a[i].from : b[j].from;
        const uint64_t to = a[i].to < b[j].to ? a[i].to : b[j].to;
        if (from < to && (a[i].written || b[j].written)) {
            *a_out = (struct kernel_range){ from, to, a[i].written };
            *b_out = (struct kernel_range){ from, to, b[j].written };
            return true;
        }
        if (a[i].to < b[j].to)
            i++;
        else
            j++;
    }
    return false;
}

/* "a copy of 512 bytes (command 7 of stream 2)" */
static void describe(const char *what, uint64_t sequence, unsigned long long stream, char text[200])
{
    snprintf(text, 200, "%s (command %llu of stream %llu)", what, (unsigned long long)sequence, stream);
}

/* Which wait is missing. The later of the two commands should wait for the earlier one. */
static void describe_wait(const struct command *command, const struct order_record *other, int slot,
                          char text[300])
{
    const struct stream *stream = command->stream;
    const bool is_later = command->number > other->number;
    const uint64_t count = order_of(stream)->count[stream->slot];
    const uint64_t known = is_later ? stream->clock.at[slot] : other->clock.at[stream->slot];
    const uint64_t before = is_later ? other->count - other->sequence : count - command->sequence;
    const int n = snprintf(text, 300, "Stream %llu lacks a wait for stream %llu before the later command; ",
                           is_later ? stream->number : other->stream,
                           is_later ? other->stream : stream->number);
    if (known > before)
        snprintf(text + n, 300 - (size_t)n, "its last wait covers the commands up to number %llu",
                 (unsigned long long)(known - before));
    else
        snprintf(text + n, 300 - (size_t)n, "it has never waited for that stream");
}

static enum emulate_error fail(const struct command *command, const struct order_record *other, int slot,
                               const char *what, struct kernel_range mine, struct kernel_range theirs,
                               char *text, size_t text_bytes)
{
    char a[200], b[200], name[300], wait[300];
    describe(what, command->sequence, command->stream->number, a);
    describe(other->what, other->sequence, other->stream, b);
    describe_wait(command, other, slot, wait);
    emulate_describe(emulate_base + mine.from, name, sizeof name);
    snprintf(text, text_bytes,
             "a race between streams: %s %s %llu bytes at 0x%llx (%s) that %s %s, and nothing orders "
             "the two commands. %s",
             a, mine.written ? "writes" : "reads", (unsigned long long)(mine.to - mine.from),
             (unsigned long long)(emulate_base + mine.from), name, b, theirs.written ? "writes" : "reads",
             wait);
    return EMULATE_LAUNCH_FAILED;
}

/* "the kernel layernorm_forward" */
static void name_command(const struct command *command, char text[120])
{
    if (command->launch.function)
        snprintf(text, 120, "the kernel %.100s", command->launch.function->info.name);
    else if (command->foreign.tally)
        snprintf(text, 120, "%.100s", command->foreign.tally->name);
    else
        snprintf(text, 120, "a %s of %zu bytes", command->value_bytes ? "fill" : "copy", command->bytes);
}

static void remember(const struct command *command, const char *what, struct kernel_range *ranges, size_t n)
{
    const struct stream *stream = command->stream;
    struct order *order = order_of(stream);
    struct order_record *record = malloc(sizeof *record);
    if (!record) {
        free(ranges);
        return;
    }
    *record = (struct order_record){ .older = order->newest[stream->slot],
                                     .count = order->count[stream->slot],
                                     .sequence = command->sequence,
                                     .number = command->number,
                                     .stream = stream->number,
                                     .clock = stream->clock,
                                     .n = n,
                                     .ranges = ranges };
    snprintf(record->what, sizeof record->what, "%s", what);
    order->newest[stream->slot] = record;
    if (++order->n_records % PRUNE_EVERY == 0) prune(stream->object.context);
}

enum emulate_error emulate_order_check(const struct command *command, struct kernel_range *ranges, size_t n,
                                       char *text, size_t text_bytes)
{
    const struct stream *stream = command->stream;
    const struct order *order = order_of(stream);
    enum emulate_error result = EMULATE_OK;
    struct kernel_range mine, theirs;
    char what[120];
    if (!n || stream->slot < 0) {
        free(ranges);
        return EMULATE_OK;
    }
    name_command(command, what);
    for (int s = 0; s < ORDER_SLOTS && !result; s++) {
        const struct order_record *r = s == stream->slot ? NULL : order->newest[s];
        for (; r && r->count > stream->clock.at[s] && !result; r = r->older)
            if (meet(ranges, n, r->ranges, r->n, &mine, &theirs))
                result = fail(command, r, s, what, mine, theirs, text, text_bytes);
    }
    remember(command, what, ranges, n);
    return result;
}
