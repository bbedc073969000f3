/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a library that has no kernels in PTX: commands that are functions of the host, see emulate.h. */
#include <stdio.h>
#include <string.h>

#include "emulate/cuda/driver.h"

static __thread struct command *running; /* for yoke_emulate_bytes */

static CUresult run_foreign(struct command *command, char *text, size_t text_bytes)
{
    const struct ptx_counts counts = { 0 };
    running = command;
    const int error = command->foreign.run(command->user_data, text, text_bytes);
    running = NULL;
    emulate_lock();
    emulate_tally_add(command->foreign.tally, &counts);
    emulate_unlock();
    return (CUresult)error;
}

static void drop_foreign(struct command *command) { command->foreign.release(command->user_data); }

static CUresult submit(struct CUstream_st *handle, const struct foreign *foreign, void *user)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = emulate_enter(&context);
    if (result) {
        foreign->release(user);
        return result;
    }
    result = emulate_stream_of(context, handle, &stream);
    if (!result) result = stream->object.context->lost;
    struct command *command = result || !foreign->tally ? NULL : emulate_command_new();
    if (!command) {
        foreign->release(user);
        return emulate_leave(result ? result : CUDA_ERROR_OUT_OF_MEMORY);
    }
    command->run = run_foreign;
    command->drop = drop_foreign;
    command->user_data = user;
    command->foreign = *foreign;
    if (emulate_fails(FAIL_ADDRESS)) command->injected = CUDA_ERROR_ILLEGAL_ADDRESS;
    if (emulate_fails(FAIL_TIMEOUT)) command->injected = CUDA_ERROR_LAUNCH_TIMEOUT;
    if (emulate_fails(FAIL_ECC)) command->injected = CUDA_ERROR_ECC_UNCORRECTABLE;
    return emulate_leave(emulate_submit(stream, command));
}

int yoke_emulate_enqueue(struct CUstream_st *stream, const char *name,
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
    while (i < bytes && state[i] == PTX_DEFINED) i++;
    return i;
}

void *yoke_emulate_bytes(uint64_t address, size_t bytes, int writes, const char *what, char *text,
                         size_t text_bytes)
{
    const struct CUctx_st *owner = emulate_context_of(address);
    if (!owner || bytes > owner->zone.end - address) {
        snprintf(text, text_bytes, "%s at 0x%llx is no device memory", what, (unsigned long long)address);
        return NULL;
    }
    const uint64_t offset = address - emulate_base;
    unsigned char *state = owner->memory.state + offset;
    const size_t wrong = first_wrong(state, bytes, writes);
    if (wrong == bytes) {
        if (writes) memset(state, PTX_DEFINED, bytes);
        if (running) ptx_footprint_add(running->footprint, offset, bytes, writes != 0);
        return emulate_data + offset;
    }
    const char *why = state[wrong] == PTX_OUTSIDE     ? "memory that is not allocated"
                      : state[wrong] == PTX_UNDEFINED ? "bytes that were never written"
                                                      : "memory that it may not touch";
    snprintf(text, text_bytes, "%s of %zu bytes at 0x%llx %s %s at 0x%llx (%s)", what, bytes,
             (unsigned long long)address, writes ? "writes to" : "reads", why,
             (unsigned long long)(address + wrong), emulate_name_of(NULL, address + wrong));
    return NULL;
}
