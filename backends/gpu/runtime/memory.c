/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Device memory. The addresses are those of the device, so pointer arithmetic on them is legal.
 */
#include <stdlib.h>

#include "backends/gpu/runtime/runtime.h"

static yoke_status no_memory(const yoke_device *device, size_t bytes)
{
    const struct yokei_rt *rt = yokei_rt(device);
    size_t left = 0, total = 0;
    rt->calls->mem_info(rt, &left, &total);
    return yoke_fail(YOKE_ENOMEM,
                     "%s: cannot allocate %zu bytes: %zu of %zu are free, and this process holds %zu of them",
                     device->info.spec, bytes, left, total, atomic_load(&device->allocated));
}

static yoke_status allocate_on_device(yoke_device *device, size_t bytes, void **address_out)
{
    struct yokei_rt *rt = yokei_rt(device);
    const int error = rt->calls->mem_alloc(rt, address_out, bytes);
    if (error && rt->calls->meaning(error) == YOKEI_RT_NO_MEMORY) return no_memory(device, bytes);
    if (error) return yokei_rt_fail(device, rt->calls->names.mem_alloc, error);
    const yoke_status status = yokei_live_add(&rt->owned, *address_out, bytes);
    if (status) rt->calls->mem_free(rt, *address_out);
    return status;
}

static yoke_status rt_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    void *address = NULL;
    if (!bytes) bytes = 1;
    YOKE_TRY(yokei_rt_enter(device));
    const yoke_status status = allocate_on_device(device, bytes, &address);
    yokei_rt_leave(device);
    if (status) return status;
    yokei_account(device, (int64_t)bytes);
    *address_out = address;
    return YOKE_OK;
}

static void rt_free(yoke_device *device, void *address)
{
    struct yokei_rt *rt = yokei_rt(device);
    size_t bytes = 0;
    /* an address that is wrapped twice, or wrapped and owned, was added last to the foreign ones */
    if (yokei_live_remove(&rt->foreign, address, NULL, NULL) == YOKEI_LIVE_IS) return;
    if (yokei_live_remove(&rt->owned, address, NULL, &bytes) != YOKEI_LIVE_IS) {
        yokei_gpu_log_bad_free(device, address);
        return;
    }
    yokei_account(device, -(int64_t)bytes);
    if (yokei_rt_enter(device)) return; /* the context is lost, and its memory with it */
    const int error = rt->calls->mem_free(rt, address);
    if (error) {
        struct yokei_error saved;
        yokei_error_save(&saved);
        (void)yokei_rt_fail(device, rt->calls->names.mem_free, error);
        yoke_log(YOKE_LOG_ERROR, "%s", yoke_last_error());
        yokei_error_restore(&saved);
    }
    yokei_rt_leave(device);
}

/** Check that `bytes` bytes at an address are memory of this device that the driver knows. */
static yoke_status check_foreign_buffer(const yoke_device *device, const void *address, size_t bytes)
{
    const struct yokei_rt *rt = yokei_rt(device);
    void *base = NULL;
    size_t size = 0;
    if (rt->calls->place(rt, address) != YOKEI_RT_ON_DEVICE)
        return yoke_fail(YOKE_EINVAL, "%s: the buffer to wrap, %#llx, is no device memory of %s",
                         device->info.spec, (unsigned long long)(uintptr_t)address, rt->calls->name);
    if (rt->calls->is_of_other(rt, address)) return yokei_gpu_refuse_context(device, "buffer");
    YOKEI_RT_TRY(device, mem_range, address, &base, &size);
    const size_t has = (size_t)((char *)base + size - (const char *)address);
    return bytes > has ? yokei_gpu_refuse_size(device, "buffer", has, bytes) : YOKE_OK;
}

static yoke_status rt_wrap(yoke_device *device, void *native_buffer, size_t bytes, void **address_out)
{
    YOKE_TRY(yokei_rt_enter(device));
    const yoke_status status = check_foreign_buffer(device, native_buffer, bytes);
    yokei_rt_leave(device);
    YOKE_TRY(status);
    YOKE_TRY(yokei_live_add(&yokei_rt(device)->foreign, native_buffer, bytes));
    *address_out = native_buffer;
    return YOKE_OK;
}

static void *rt_host_ptr(const yoke_device *device, const void *address)
{
    (void)device;
    (void)address;
    return NULL;
}

const struct yoke_memory_ops yokei_rt_memory_ops = {
    .alloc = rt_alloc, .free = rt_free, .wrap = rt_wrap, .host_ptr = rt_host_ptr
};
