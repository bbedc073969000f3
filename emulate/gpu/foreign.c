/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a library that has no kernels here: commands that are functions of the host, see emulate.h. */
#include <stdio.h>
#include <string.h>

#include "emulate/gpu/driver.h"

static __thread struct command *running; /* for yoke_emulate_bytes */

static enum emulate_error run_foreign(struct command *command, char *text, size_t text_bytes)
{
    const struct kernel_counts counts = { 0 };
    running = command;
    const int error = command->foreign.run(command->user_data, text, text_bytes);
    running = NULL;
    emulate_lock();
    emulate_tally_add(command->foreign.tally, &counts);
    emulate_unlock();
    return (enum emulate_error)error;
}

static void drop_foreign(struct command *command) { command->foreign.release(command->user_data); }

static enum emulate_error submit(void *handle, const struct foreign *foreign, void *user)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_enter(&context);
    if (result) {
        foreign->release(user);
        return result;
    }
    result = emulate_stream_of(context, handle, &stream);
    if (!result) result = stream->object.context->lost;
    struct command *command = result || !foreign->tally ? NULL : emulate_command_new();
    if (!command) {
        foreign->release(user);
        return emulate_leave(result ? result : EMULATE_OUT_OF_MEMORY);
    }
    command->run = run_foreign;
    command->drop = drop_foreign;
    command->user_data = user;
    command->foreign = *foreign;
    command->injected = emulate_launch_failure();
    return emulate_leave(emulate_submit(stream, command));
}

int yoke_emulate_enqueue(void *stream, const char *name,
                         int (*run)(void *user, char *text, size_t text_bytes), void (*release)(void *user),
                         void *user)
{
    emulate_lock();
    const struct foreign foreign = { run, release, emulate_tally_of(name) };
    emulate_unlock();
    return (int)submit(stream, &foreign, user);
}

/* The first byte that may not be accessed so; `bytes` if there is none. */
static size_t first_wrong(const unsigned char *state, size_t bytes, int writes)
{
    if (writes) return emulate_first_bad(state, bytes);
    size_t i = 0;
    while (i < bytes && state[i] == BYTE_DEFINED) i++;
    return i;
}

void *yoke_emulate_bytes(uint64_t address, size_t bytes, int writes, const char *what, char *text,
                         size_t text_bytes)
{
    const struct context *owner = emulate_context_of(address);
    if (!owner || bytes > owner->zone.end - address) {
        snprintf(text, text_bytes, "%s at 0x%llx is no device memory", what, (unsigned long long)address);
        return NULL;
    }
    const uint64_t offset = address - emulate_base;
    unsigned char *state = owner->memory.state + offset;
    const size_t wrong = first_wrong(state, bytes, writes);
    if (wrong == bytes) {
        if (writes) memset(state, BYTE_DEFINED, bytes);
        if (running) kernel_footprint_add(running->footprint, offset, bytes, writes != 0);
        return emulate_data + offset;
    }
    const char *why = state[wrong] == BYTE_OUTSIDE     ? "memory that is not allocated"
                      : state[wrong] == BYTE_UNDEFINED ? "bytes that were never written"
                                                       : "memory that it may not touch";
    snprintf(text, text_bytes, "%s of %zu bytes at 0x%llx %s %s at 0x%llx (%s)", what, bytes,
             (unsigned long long)address, writes ? "writes to" : "reads", why,
             (unsigned long long)(address + wrong), emulate_name_of(NULL, address + wrong));
    return NULL;
}
