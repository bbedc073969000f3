/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which commands are ordered, and races between commands of different streams. All functions are called with
 * the lock held.
 */
#ifndef EMULATE_GPU_ORDER_H
#define EMULATE_GPU_ORDER_H

#include <stdbool.h>

#include "emulate/gpu/errors.h"
#include "emulate/gpu/kernel_footprint.h"

struct context;
struct stream;
struct command;

enum { ORDER_SLOTS = 64 };

/* For each slot (stream) how many of its commands come before this point. */
struct order_clock {
    uint64_t at[ORDER_SLOTS];
};

struct order_record;
struct order {                   /* of a context */
    struct order_clock host;     /* what the host has seen */
    uint64_t count[ORDER_SLOTS]; /* commands that have begun */
    bool taken[ORDER_SLOTS];
    uint64_t called[ORDER_SLOTS]; /* the place of the newest function of the program that has ended */
    bool called_elsewhere;        /* a function has ended in a stream without a slot */
    struct order_record *newest[ORDER_SLOTS];
    unsigned n_records;
};

/* A stream gets a slot, and gives it back. A stream without a slot is not checked. */
void emulate_order_open(struct stream *stream);
void emulate_order_close(struct stream *stream);
/* The host submits a command: the command comes behind everything that the host has seen. */
void emulate_order_submit(struct command *command);
/* A command begins. What it waits for has ended. */
void emulate_order_begin(struct command *command);
/* The command has ended. */
void emulate_order_complete(const struct command *command);
/* What comes before a command that has begun and has not ended. */
struct order_clock emulate_order_before(const struct command *command);
/* The host has seen that all commands before this point have ended. */
void emulate_order_seen(struct context *context, const struct order_clock *clock);
/* The command is a function of the program, and it has ended. */
void emulate_order_called(const struct command *command);
/*
 * Whether a command that begins comes behind a function of the program that had not ended when the host
 * submitted the command. True if this is not known.
 */
bool emulate_order_follows_call(const struct command *command);
/* The stream has seen what the host has seen. */
void emulate_order_join_host(struct stream *stream);
/*
 * A command has touched these bytes. If a command of another stream touched them too, one of the two wrote
 * them, and nothing orders the two commands, then return an error with a text. `ranges` belongs to this
 * function.
 */
enum emulate_error emulate_order_check(const struct command *command, struct kernel_range *ranges, size_t n,
                                       char *text, size_t text_bytes);
/* Memory is freed: forget who touched these bytes. */
void emulate_order_forget(struct context *context, uint64_t from, uint64_t to);
/* Forget everything. */
void emulate_order_end(struct context *context);

#endif
