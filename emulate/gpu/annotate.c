/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program says of its memory: names, states and lifetimes of ranges of bytes. labels.c keeps the
 * names.
 *
 * A lifetime ends behind the last use of its bytes. Several streams may use the bytes, and no stream knows
 * which of them is last. So each stream ends the lifetime behind its own last use, and the last of these
 * commands forbids the bytes. No stream waits for another one because of this. If the lifetime of other bytes
 * begins in the same memory before that, the program has forgotten to wait, and the context is lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"
#include "emulate/gpu/labels.h"

int yoke_emulate_name(uint64_t address, size_t bytes, const char *text)
{
    struct context *context;
    struct place place;
    enum emulate_error result = emulate_enter_uncounted(&context);
    if (result) return result;
    result = bytes ? emulate_place(address, bytes, !emulate_registered_holds(address), &place)
                   : EMULATE_INVALID_VALUE;
    if (result) return emulate_leave(result);
    if (!text || !*text) {
        emulate_names_remove(address, bytes);
        return emulate_leave(EMULATE_OK);
    }
    struct name *name = emulate_name_new(address, bytes, text);
    if (!name) return emulate_leave(EMULATE_OUT_OF_MEMORY);
    emulate_name_add(name);
    return emulate_leave(EMULATE_OK);
}

/* ---- states ---- */

/* The allocation may have been freed since the call. */
static bool was_freed(const struct command *command, const char *what, char *text, size_t text_bytes)
{
    if (!memchr(command->to.state, BYTE_OUTSIDE, command->bytes)) return false;
    snprintf(text, text_bytes, "%s of %zu bytes at 0x%llx that were freed", what, command->bytes,
             (unsigned long long)command->to.address);
    return true;
}

static enum emulate_error run_annotate(struct command *command, char *text, size_t text_bytes)
{
    struct place *to = &command->to;
    if (was_freed(command, "yoke_emulate_annotate", text, text_bytes)) return EMULATE_ILLEGAL_ADDRESS;
    memset(to->state, (int)command->value, command->bytes);
    return EMULATE_OK;
}

/*
 * The place and the stream of an annotation. With EMULATE_OK and a stream there is something to do. The
 * caller has the lock.
 */
static enum emulate_error find_place(struct context *context, uint64_t address, size_t bytes, void *handle,
                                     struct place *place_out, struct stream **stream_out)
{
    enum emulate_error result = emulate_stream_of(context, handle, stream_out);
    if (!result) result = emulate_place(address, bytes, true, place_out);
    if (!result && !place_out->state) result = EMULATE_INVALID_VALUE; /* pinned memory has no states */
    return result;
}

static enum emulate_error submit(struct stream *stream, const struct place *place, size_t bytes,
                                 enum emulate_error (*run)(struct command *, char *, size_t), uint32_t value,
                                 void *owned)
{
    struct command *command = emulate_command_new();
    if (!command) {
        free(owned);
        return EMULATE_OUT_OF_MEMORY;
    }
    command->run = run;
    command->to = *place;
    command->bytes = bytes;
    command->value = value;
    command->owned = owned;
    return emulate_submit(stream, command);
}

static enum emulate_error annotate(uint64_t address, size_t bytes, int state, void *handle, bool async)
{
    struct context *context;
    struct stream *stream;
    struct place place;
    enum emulate_error result = emulate_enter_uncounted(&context);
    if (result) return result;
    if (state < YOKE_EMULATE_UNDEFINED || state > YOKE_EMULATE_FORBIDDEN)
        return emulate_leave(EMULATE_INVALID_VALUE);
    if (emulate_registered_holds(address))
        return emulate_leave(state == YOKE_EMULATE_FORBIDDEN && !async
                                 ? emulate_registered_forbid(address, bytes)
                                 : EMULATE_INVALID_VALUE);
    result = emulate_place(address, bytes, true, &place);
    if (!result && !place.state && state == YOKE_EMULATE_FORBIDDEN && !async)
        return emulate_leave(emulate_pinned_forbid(address, bytes));
    if (!result) result = find_place(context, address, bytes, handle, &place, &stream);
    if (result || !bytes) return emulate_leave(result);
    if (async) return emulate_leave(submit(stream, &place, bytes, run_annotate, (uint32_t)state, NULL));
    memset(place.state, state, bytes);
    return emulate_leave(EMULATE_OK);
}

int yoke_emulate_annotate(uint64_t address, size_t bytes, int state)
{
    return annotate(address, bytes, state, NULL, false);
}

int yoke_emulate_annotate_async(uint64_t address, size_t bytes, int state, void *stream)
{
    return annotate(address, bytes, state, stream, true);
}

/* ---- lifetimes ---- */

static enum emulate_error run_begin(struct command *command, char *text, size_t text_bytes)
{
    struct name *name = command->owned;
    if (was_freed(command, "yoke_emulate_begin", text, text_bytes)) return EMULATE_ILLEGAL_ADDRESS;
    emulate_lock();
    const struct name *other = emulate_names;
    while (other
           && (!other->users || other->address >= name->address + name->bytes
               || name->address >= other->address + other->bytes))
        other = other->next;
    if (other) {
        snprintf(text, text_bytes,
                 "%.200s (%llu bytes at 0x%llx) begins in memory that %.200s still uses: %d of its streams "
                 "have not ended it; the program does not wait for them",
                 name->text, (unsigned long long)name->bytes, (unsigned long long)name->address, other->text,
                 other->users);
    } else {
        command->owned = NULL;
        memset(command->to.state, BYTE_UNDEFINED, command->bytes);
        emulate_name_add(name);
    }
    emulate_unlock();
    return other ? EMULATE_ILLEGAL_ADDRESS : EMULATE_OK;
}

static enum emulate_error run_end(struct command *command, char *text, size_t text_bytes)
{
    if (was_freed(command, "yoke_emulate_end", text, text_bytes)) return EMULATE_ILLEGAL_ADDRESS;
    emulate_lock();
    struct name *name = emulate_names;
    while (name && (!name->users || name->address != command->to.address || name->bytes != command->bytes))
        name = name->next;
    if (name && --name->users == 0) memset(command->to.state, BYTE_FORBIDDEN, command->bytes);
    emulate_unlock();
    if (name) return EMULATE_OK;
    snprintf(text, text_bytes, "yoke_emulate_end of %zu bytes at 0x%llx whose lifetime has not begun (%s)",
             command->bytes, (unsigned long long)command->to.address,
             emulate_name_of(NULL, command->to.address));
    return EMULATE_ILLEGAL_ADDRESS;
}

int yoke_emulate_begin(uint64_t address, size_t bytes, int streams, const char *text, void *handle)
{
    struct context *context;
    struct stream *stream;
    struct place place;
    enum emulate_error result = emulate_enter_uncounted(&context);
    if (result) return result;
    if (!bytes || streams < 1 || !text) return emulate_leave(EMULATE_INVALID_VALUE);
    result = find_place(context, address, bytes, handle, &place, &stream);
    if (result) return emulate_leave(result);
    struct name *name = emulate_name_new(address, bytes, text);
    if (!name) return emulate_leave(EMULATE_OUT_OF_MEMORY);
    name->begins = true;
    name->users = streams;
    return emulate_leave(submit(stream, &place, bytes, run_begin, 0, name));
}

int yoke_emulate_end(uint64_t address, size_t bytes, void *handle)
{
    struct context *context;
    struct stream *stream;
    struct place place;
    enum emulate_error result = emulate_enter_uncounted(&context);
    if (result) return result;
    result = bytes ? find_place(context, address, bytes, handle, &place, &stream) : EMULATE_INVALID_VALUE;
    return emulate_leave(result ? result : submit(stream, &place, bytes, run_end, 0, NULL));
}
