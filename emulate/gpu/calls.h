/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that mean the same in each vendor's interface. A vendor's entry point checks what its interface says
 * of flags, and then makes one of these calls. They check the other arguments. They take the lock and give it
 * back. `call` is the vendor's name of the call, for messages. A handle may be any pointer.
 */
#ifndef EMULATE_GPU_CALLS_H
#define EMULATE_GPU_CALLS_H

#include "emulate/gpu/driver.h"

/* Check the number of a device, and a pointer to what a call gives. */
enum emulate_error emulate_call_device(const void *out, int device);

/* ---- memory ---- */
enum emulate_error emulate_call_free_memory(size_t *free_out, size_t *total_out);
enum emulate_error emulate_call_device_take(const char *call, size_t bytes, uint64_t *address_out);
enum emulate_error emulate_call_device_give(const char *call, uint64_t address);
enum emulate_error emulate_call_pinned_take(const char *call, size_t bytes, bool is_coherent,
                                            void **memory_out);
enum emulate_error emulate_call_pinned_give(const char *call, void *memory);
enum emulate_error emulate_call_register(const char *call, void *memory, size_t bytes);
enum emulate_error emulate_call_unregister(const char *call, void *memory);
/* What a pointer is. EMULATE_INVALID_VALUE: it is nothing that the driver knows. */
enum emulate_error emulate_call_pointer(uint64_t address, struct pointer *out);
/* The same for memory of the host that kernels can use. */
enum emulate_error emulate_call_host_pointer(const char *call, void *memory, struct pointer *out);
/* The allocation to which the address belongs. EMULATE_NOT_FOUND: to none. */
enum emulate_error emulate_call_range(uint64_t address, uint64_t *base_out, uint64_t *bytes_out);
enum emulate_error emulate_call_copy(void *stream, uint64_t to, uint64_t from, size_t bytes, unsigned flags);
enum emulate_error emulate_call_fill(void *stream, uint64_t to, uint32_t value, unsigned value_bytes,
                                     size_t n);

/* ---- streams and events ---- */
enum emulate_error emulate_call_stream_create(unsigned flags, bool blocking, struct stream **stream_out);
enum emulate_error emulate_call_stream_destroy(void *stream);
enum emulate_error emulate_call_stream_synchronize(void *stream);
enum emulate_error emulate_call_stream_query(void *stream);
enum emulate_error emulate_call_stream_flags(void *stream, unsigned *flags_out);
enum emulate_error emulate_call_stream_call(void *stream, void (*function)(void *user_data), void *user_data,
                                            void *owned);
/* Wait for all streams of the current context. */
enum emulate_error emulate_call_synchronize(void);
enum emulate_error emulate_call_event_create(unsigned flags, bool has_no_time, struct event **event_out);
enum emulate_error emulate_call_event_destroy(void *event);
enum emulate_error emulate_call_event_record(void *event, void *stream);
enum emulate_error emulate_call_event_query(void *event);
enum emulate_error emulate_call_event_synchronize(void *event);
enum emulate_error emulate_call_event_elapsed(float *milliseconds_out, void *start, void *end);
enum emulate_error emulate_call_wait_event(void *stream, void *event);
enum emulate_error emulate_call_wait_value(void *stream, uint64_t address, uint32_t value,
                                           unsigned comparison);
enum emulate_error emulate_call_write_value(void *stream, uint64_t address, uint32_t value);

/* ---- modules ---- */
enum emulate_error emulate_call_module_unload(const char *call, void *module);
enum emulate_error emulate_call_module_function(void *module, const char *name,
                                                struct function **function_out);
/*
 * Launch a kernel with parameters in one of two forms: the address of each one, or a block with all of them.
 */
struct call_launch {
    void *function, *stream;
    uint32_t grid[3], block[3], shared_bytes;
    void **parameters;
    const void *parameter_block;
    size_t block_bytes;
    bool has_block; /* the parameters are a block */
};
enum emulate_error emulate_call_launch(const struct call_launch *call);

#endif
