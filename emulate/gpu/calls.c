/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that mean the same in each vendor's interface: memory, copies, modules and launches. */
#include <stdlib.h>

#include "emulate/gpu/calls.h"

enum emulate_error emulate_call_device(const void *out, int device)
{
    const enum emulate_error error = emulate_enter_plain();
    if (error) return error;
    emulate_unlock();
    if (!out) return EMULATE_INVALID_VALUE;
    return device < 0 || device >= emulate_settings.n_visible ? EMULATE_INVALID_DEVICE : EMULATE_OK;
}

enum emulate_error emulate_call_free_memory(size_t *free_out, size_t *total_out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!free_out || !total_out) return emulate_leave(EMULATE_INVALID_VALUE);
    *total_out = emulate_settings.memory;
    *free_out = emulate_memory_free(context);
    return emulate_leave(EMULATE_OK);
}

enum emulate_error emulate_call_device_take(const char *call, size_t bytes, uint64_t *address_out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!address_out || !bytes) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_device_take(context, call, bytes, address_out));
}

enum emulate_error emulate_call_device_give(const char *call, uint64_t address)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    return emulate_leave(address ? emulate_device_give(call, address) : EMULATE_OK);
}

enum emulate_error emulate_call_pinned_take(const char *call, size_t bytes, bool is_coherent,
                                            void **memory_out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!memory_out || !bytes) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_pinned_take(context, call, bytes, is_coherent, memory_out));
}

enum emulate_error emulate_call_pinned_give(const char *call, void *memory)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    return result ? result : emulate_leave(emulate_pinned_give(context, call, memory));
}

enum emulate_error emulate_call_register(const char *call, void *memory, size_t bytes)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!memory || !bytes) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_register(context, call, memory, bytes));
}

enum emulate_error emulate_call_unregister(const char *call, void *memory)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    return emulate_leave(memory ? emulate_unregister(context, call, memory) : EMULATE_INVALID_VALUE);
}

enum emulate_error emulate_call_pointer(uint64_t address, struct pointer *out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    return emulate_leave(emulate_pointer(address, out) ? EMULATE_OK : EMULATE_INVALID_VALUE);
}

enum emulate_error emulate_call_host_pointer(const char *call, void *memory, struct pointer *out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    return emulate_leave(memory ? emulate_host_pointer(call, memory, out) : EMULATE_INVALID_VALUE);
}

enum emulate_error emulate_call_range(uint64_t address, uint64_t *base_out, uint64_t *bytes_out)
{
    struct context *context;
    struct pointer pointer;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!emulate_pointer(address, &pointer) || pointer.is_registered) return emulate_leave(EMULATE_NOT_FOUND);
    *base_out = pointer.base;
    *bytes_out = pointer.bytes;
    return emulate_leave(EMULATE_OK);
}

enum emulate_error emulate_call_copy(void *handle, uint64_t to, uint64_t from, size_t bytes, unsigned flags)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    return emulate_leave(result ? result : emulate_copy(stream, to, from, bytes, flags));
}

enum emulate_error emulate_call_fill(void *handle, uint64_t to, uint32_t value, unsigned value_bytes,
                                     size_t n)
{
    struct context *context;
    struct stream *stream;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, handle, &stream);
    return emulate_leave(result ? result : emulate_fill(stream, to, value, value_bytes, n));
}

/* ---- modules ---- */

enum emulate_error emulate_call_module_unload(const char *call, void *module)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    return result ? result : emulate_leave(emulate_module_unload(context, call, module));
}

enum emulate_error emulate_call_module_function(void *module, const char *name,
                                                struct function **function_out)
{
    struct context *context;
    const enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    if (!function_out || !name) return emulate_leave(EMULATE_INVALID_VALUE);
    return emulate_leave(emulate_module_function(module, name, function_out));
}

static void *parameters_of(const struct call_launch *call, const struct function *function,
                           enum emulate_error *result_out)
{
    if (!call->has_block) return emulate_launch_gather(function, call->parameters, result_out);
    return emulate_launch_copy(function, call->parameters ? NULL : call->parameter_block, call->block_bytes,
                               result_out);
}

enum emulate_error emulate_call_launch(const struct call_launch *call)
{
    struct context *context;
    struct stream *stream;
    struct function *function = call->function;
    enum emulate_error result = emulate_enter(&context);
    if (result) return result;
    result = emulate_stream_of(context, call->stream, &stream);
    if (!result && !emulate_object_is(function, KIND_FUNCTION)) result = EMULATE_INVALID_HANDLE;
    /* A kernel runs on the device of its module. */
    if (!result && stream->object.context != function->object.context) result = EMULATE_INVALID_HANDLE;
    if (result) return emulate_leave(result);
    context = function->object.context;
    const struct launch launch = { .function = function,
                                   .grid = { call->grid[0], call->grid[1], call->grid[2] },
                                   .block = { call->block[0], call->block[1], call->block[2] },
                                   .shared_bytes = call->shared_bytes };
    result = context->lost;
    if (!result) result = emulate_launch_check(context, &launch);
    if (!result) result = emulate_launch_prepare(function);
    void *block = result ? NULL : parameters_of(call, function, &result);
    if (block) result = emulate_launch(stream, &launch, block);
    return emulate_leave(result);
}
