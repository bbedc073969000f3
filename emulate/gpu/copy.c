/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. The state of bytes travels with them: a copy of bytes that were never written gives
 * bytes that were never written. In host memory there are no states, so such bytes arrive as 0xff there,
 * which is NaN in every floating-point type.
 *
 * A copy promises of pageable memory what CUDA Driver API says in "API synchronization behavior": such memory
 * is read before the call returns, and has been written when the call returns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/gpu/driver.h"

size_t emulate_first_bad(const unsigned char *state, size_t bytes)
{
    /*
     * BYTE_UNDEFINED is 1 and BYTE_DEFINED is 2; of these two numbers exactly one of the two lowest bits
     * is set.
     */
    unsigned bad = 0;
    for (size_t i = 0; i < bytes; i++) bad |= ~(state[i] ^ (unsigned)state[i] >> 1) & 1;
    if (!bad) return bytes;
    size_t i = 0;
    while ((state[i] ^ (unsigned)state[i] >> 1) & 1) i++;
    return i;
}

enum emulate_error emulate_place(uint64_t address, size_t bytes, bool device_only, struct place *place_out)
{
    const struct context *owner = emulate_context_of(address);
    const bool inside = address >= emulate_base && address < emulate_base + emulate_bytes;
    if (!inside) {
        if (device_only) return EMULATE_INVALID_VALUE;
        *place_out = (struct place){ (unsigned char *)(uintptr_t)address, NULL, NULL, address };
        return emulate_registered_place(address, bytes, place_out);
    }
    const struct block *block = emulate_block_of(owner ? &owner->zone : &emulate_host_zone, address);
    if (!block || bytes > block->address + block->bytes - address) return EMULATE_INVALID_VALUE;
    const uint64_t offset = address - emulate_base;
    *place_out = (struct place){ emulate_data + offset, owner ? owner->memory.state + offset : NULL,
                                 owner ? NULL : emulate_pinned_guard(address), address };
    return EMULATE_OK;
}

/* Say which byte a copy or a fill may not touch. */
static enum emulate_error check(const struct place *place, size_t bytes, const char *what, char *text,
                                size_t text_bytes)
{
    const unsigned char *state = place->state ? place->state : place->guard;
    const size_t bad = state ? emulate_first_bad(state, bytes) : bytes;
    if (bad == bytes) return EMULATE_OK;
    const char *why = state[bad] == BYTE_OUTSIDE ? "memory that is not allocated"
                                                 : "memory that it may not touch";
    snprintf(text, text_bytes, "%s of %zu bytes at 0x%llx touches %s at 0x%llx (%s)", what, bytes,
             (unsigned long long)place->address, why, (unsigned long long)(place->address + bad),
             emulate_name_of(NULL, place->address + bad));
    return EMULATE_ILLEGAL_ADDRESS;
}

static void touch(struct command *command, const struct place *place, bool writes)
{
    const uint64_t from = place->address - emulate_base;
    command->touched[command->n_touched++] = (struct kernel_range){ from, from + command->bytes, writes };
}

static enum emulate_error run_copy(struct command *command, char *text, size_t text_bytes)
{
    const struct place *to = &command->to, *from = &command->from;
    const size_t bytes = command->bytes;
    enum emulate_error result = check(from, bytes, "a copy from", text, text_bytes);
    if (!result) result = check(to, bytes, "a copy to", text, text_bytes);
    if (result) return result;
    if (!command->owned) touch(command, from, false);
    touch(command, to, true);
    memmove(to->data, from->data, bytes);
    if (to->state && from->state) {
        memmove(to->state, from->state, bytes);
    } else if (to->state) {
        memset(to->state, BYTE_DEFINED, bytes);
    } else if (from->state && memchr(from->state, BYTE_UNDEFINED, bytes)) {
        for (size_t i = 0; i < bytes; i++)
            if (from->state[i] == BYTE_UNDEFINED) to->data[i] = 0xff;
    }
    return EMULATE_OK;
}

static enum emulate_error run_fill(struct command *command, char *text, size_t text_bytes)
{
    const struct place *to = &command->to;
    const enum emulate_error result = check(to, command->bytes, "a fill", text, text_bytes);
    if (result) return result;
    if (command->value_bytes == 1) {
        memset(to->data, (int)command->value, command->bytes);
    } else {
        for (size_t i = 0; i < command->bytes; i += 4) memcpy(to->data + i, &command->value, 4);
    }
    if (to->state) memset(to->state, BYTE_DEFINED, command->bytes);
    touch(command, to, true);
    return EMULATE_OK;
}

/* Is the place host memory that is not pinned? */
static bool is_pageable(const struct place *place, size_t bytes)
{
    return place->data == (unsigned char *)(uintptr_t)place->address
           && !emulate_is_pinned(place->data, bytes);
}

static enum emulate_error submit_copy(struct stream *stream, struct command *command, bool waits)
{
    command->run = run_copy;
    if (emulate_fails(FAIL_ECC)) command->injected = EMULATE_ECC_UNCORRECTABLE;
    if (is_pageable(&command->from, command->bytes)) {
        command->owned = malloc(command->bytes);
        if (!command->owned) {
            free(command);
            return EMULATE_OUT_OF_MEMORY;
        }
        memcpy(command->owned, command->from.data, command->bytes);
        command->from.data = command->owned;
    }
    waits = waits || is_pageable(&command->to, command->bytes);
    const enum emulate_error result = emulate_submit(stream, command);
    return !result && waits ? emulate_stream_wait(stream) : result;
}

enum emulate_error emulate_copy(struct stream *stream, uint64_t to, uint64_t from, size_t bytes,
                                unsigned flags)
{
    struct place place_to, place_from;
    if (!bytes) return EMULATE_OK;
    if (!to || !from) return EMULATE_INVALID_VALUE;
    enum emulate_error result = emulate_place(to, bytes, flags & COPY_TO_DEVICE, &place_to);
    if (!result) result = emulate_place(from, bytes, flags & COPY_FROM_DEVICE, &place_from);
    /* A side that the caller calls host memory may not be device memory. */
    if (!result
        && ((flags & COPY_FROM_DEVICE && !(flags & COPY_TO_DEVICE) && place_to.state)
            || (flags & COPY_TO_DEVICE && !(flags & COPY_FROM_DEVICE) && place_from.state)))
        result = EMULATE_INVALID_VALUE;
    if (result) return result;
    struct command *command = emulate_command_new();
    if (!command) return EMULATE_OUT_OF_MEMORY;
    command->to = place_to;
    command->from = place_from;
    command->bytes = bytes;
    emulate_apart_publish_for(command);
    return submit_copy(stream, command, flags & COPY_WAITS);
}

enum emulate_error emulate_fill(struct stream *stream, uint64_t to, uint32_t value, unsigned value_bytes,
                                size_t n)
{
    struct place place;
    if (!n) return EMULATE_OK;
    if (to % value_bytes || n > SIZE_MAX / value_bytes) return EMULATE_INVALID_VALUE;
    const enum emulate_error result = emulate_place(to, n * value_bytes, true, &place);
    struct command *command = result ? NULL : emulate_command_new();
    if (!command) return result ? result : EMULATE_OUT_OF_MEMORY;
    command->run = run_fill;
    command->to = place;
    command->bytes = n * value_bytes;
    command->value = value;
    command->value_bytes = value_bytes;
    if (emulate_fails(FAIL_ECC)) command->injected = EMULATE_ECC_UNCORRECTABLE;
    return emulate_submit(stream, command);
}
