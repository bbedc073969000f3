/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills. The state of bytes travels with them: a copy of bytes that were never written gives
 * bytes that were never written. In host memory there are no states, so such bytes arrive as 0xff there,
 * which is NaN in every floating-point type.
 *
 * What a copy of pageable memory promises is in CUDA Driver API, "API synchronization behavior": such
 * memory is read before the call returns, and has been written when the call returns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulate/cuda/driver.h"

size_t emulate_first_bad(const unsigned char *state, size_t bytes)
{
    /*
     * PTX_UNDEFINED is 1 and PTX_DEFINED is 2; of these two numbers exactly one of the two lowest bits
     * is set.
     */
    unsigned bad = 0;
    for (size_t i = 0; i < bytes; i++) bad |= ~(state[i] ^ (unsigned)state[i] >> 1) & 1;
    if (!bad) return bytes;
    size_t i = 0;
    while ((state[i] ^ (unsigned)state[i] >> 1) & 1) i++;
    return i;
}

CUresult emulate_place(CUdeviceptr address, size_t bytes, bool device_only, struct place *place_out)
{
    const struct CUctx_st *owner = emulate_context_of(address);
    const bool inside = address >= emulate_base && address < emulate_base + emulate_bytes;
    if (!inside) {
        if (device_only) return CUDA_ERROR_INVALID_VALUE;
        *place_out = (struct place){ (unsigned char *)(uintptr_t)address, NULL, NULL, address };
        return emulate_registered_place(address, bytes, place_out);
    }
    const struct block *block = emulate_block_of(owner ? &owner->zone : &emulate_host_zone, address);
    if (!block || bytes > block->address + block->bytes - address) return CUDA_ERROR_INVALID_VALUE;
    const uint64_t offset = address - emulate_base;
    *place_out = (struct place){ emulate_data + offset, owner ? owner->memory.state + offset : NULL,
                                 owner ? NULL : emulate_pinned_guard(address), address };
    return CUDA_SUCCESS;
}

/* Say which byte a copy or a fill may not touch. */
static CUresult check(const struct place *place, size_t bytes, const char *what, char *text,
                      size_t text_bytes)
{
    const unsigned char *state = place->state ? place->state : place->guard;
    const size_t bad = state ? emulate_first_bad(state, bytes) : bytes;
    if (bad == bytes) return CUDA_SUCCESS;
    const char *why = state[bad] == PTX_OUTSIDE ? "memory that is not allocated"
                                                : "memory that it may not touch";
    snprintf(text, text_bytes, "%s of %zu bytes at 0x%llx touches %s at 0x%llx (%s)", what, bytes,
             (unsigned long long)place->address, why, (unsigned long long)(place->address + bad),
             emulate_name_of(NULL, place->address + bad));
    return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void touch(struct command *command, const struct place *place, bool writes)
{
    const uint64_t from = place->address - emulate_base;
    command->touched[command->n_touched++] = (struct ptx_range){ from, from + command->bytes, writes };
}

static CUresult run_copy(struct command *command, char *text, size_t text_bytes)
{
    const struct place *to = &command->to, *from = &command->from;
    const size_t bytes = command->bytes;
    CUresult result = check(from, bytes, "a copy from", text, text_bytes);
    if (!result) result = check(to, bytes, "a copy to", text, text_bytes);
    if (result) return result;
    if (!command->owned) touch(command, from, false);
    touch(command, to, true);
    memmove(to->data, from->data, bytes);
    if (to->state && from->state) {
        memmove(to->state, from->state, bytes);
    } else if (to->state) {
        memset(to->state, PTX_DEFINED, bytes);
    } else if (from->state && memchr(from->state, PTX_UNDEFINED, bytes)) {
        for (size_t i = 0; i < bytes; i++)
            if (from->state[i] == PTX_UNDEFINED) to->data[i] = 0xff;
    }
    return CUDA_SUCCESS;
}

static CUresult run_fill(struct command *command, char *text, size_t text_bytes)
{
    const struct place *to = &command->to;
    const CUresult result = check(to, command->bytes, "a fill", text, text_bytes);
    if (result) return result;
    if (command->value_bytes == 1) {
        memset(to->data, (int)command->value, command->bytes);
    } else {
        for (size_t i = 0; i < command->bytes; i += 4) memcpy(to->data + i, &command->value, 4);
    }
    if (to->state) memset(to->state, PTX_DEFINED, command->bytes);
    touch(command, to, true);
    return CUDA_SUCCESS;
}

/* Which sides of a copy the caller calls device memory, and whether the call waits. */
enum copy_flags { TO_DEVICE = 1, FROM_DEVICE = 2, WAITS = 4 };

/* Is the place host memory that is not pinned? */
static bool is_pageable(const struct place *place, size_t bytes)
{
    return place->data == (unsigned char *)(uintptr_t)place->address
           && !emulate_is_pinned(place->data, bytes);
}

static CUresult submit_copy(struct CUstream_st *stream, struct command *command, bool waits)
{
    command->run = run_copy;
    if (emulate_fails(FAIL_ECC)) command->injected = CUDA_ERROR_ECC_UNCORRECTABLE;
    if (is_pageable(&command->from, command->bytes)) {
        command->owned = malloc(command->bytes);
        if (!command->owned) {
            free(command);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(command->owned, command->from.data, command->bytes);
        command->from.data = command->owned;
    }
    waits = waits || is_pageable(&command->to, command->bytes);
    const CUresult result = emulate_submit(stream, command);
    return !result && waits ? emulate_stream_wait(stream) : result;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle, unsigned flags)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct place place_to, place_from;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    if (result || !bytes) return emulate_leave(result);
    if (!to || !from) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    result = emulate_place(to, bytes, flags & TO_DEVICE, &place_to);
    if (!result) result = emulate_place(from, bytes, flags & FROM_DEVICE, &place_from);
    /* A side that the caller calls host memory may not be device memory. */
    if (!result
        && ((flags & FROM_DEVICE && !(flags & TO_DEVICE) && place_to.state)
            || (flags & TO_DEVICE && !(flags & FROM_DEVICE) && place_from.state)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result) return emulate_leave(result);
    struct command *command = emulate_command_new();
    if (!command) return emulate_leave(CUDA_ERROR_OUT_OF_MEMORY);
    command->to = place_to;
    command->from = place_from;
    command->bytes = bytes;
    return emulate_leave(submit_copy(stream, command, flags & WAITS));
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(to, from, bytes, stream, 0);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy(to, (CUdeviceptr)(uintptr_t)from, bytes, stream, TO_DEVICE);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy((CUdeviceptr)(uintptr_t)to, from, bytes, stream, FROM_DEVICE);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy(to, from, bytes, stream, TO_DEVICE | FROM_DEVICE);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy(to, (CUdeviceptr)(uintptr_t)from, bytes, NULL, TO_DEVICE | WAITS);
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    return copy((CUdeviceptr)(uintptr_t)to, from, bytes, NULL, FROM_DEVICE | WAITS);
}

static CUresult fill(CUdeviceptr to, uint32_t value, unsigned value_bytes, size_t n, CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct place place;
    CUresult result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    if (result || !n) return emulate_leave(result);
    if (to % value_bytes || n > SIZE_MAX / value_bytes) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    result = emulate_place(to, n * value_bytes, true, &place);
    struct command *command = result ? NULL : emulate_command_new();
    if (!command) return emulate_leave(result ? result : CUDA_ERROR_OUT_OF_MEMORY);
    command->run = run_fill;
    command->to = place;
    command->bytes = n * value_bytes;
    command->value = value;
    command->value_bytes = value_bytes;
    if (emulate_fails(FAIL_ECC)) command->injected = CUDA_ERROR_ECC_UNCORRECTABLE;
    return emulate_leave(emulate_submit(stream, command));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream)
{
    return fill(to, value, 1, n, stream);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t n, CUstream stream)
{
    return fill(to, value, 4, n, stream);
}
