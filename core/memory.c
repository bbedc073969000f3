/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: allocation, release, and the count of allocated bytes. */
#include "core/backend.h"
#include "core/base/base.h"
#include "core/device.h"
#include "core/held.h"

void yokei_account(yoke_device *device, int64_t bytes)
{
    /* the sum wraps around for releases */
    const size_t now = atomic_fetch_add(&device->allocated, (size_t)bytes) + (size_t)bytes;
    size_t peak = atomic_load(&device->allocated_peak);
    while (now > peak && !atomic_compare_exchange_weak(&device->allocated_peak, &peak, now)) {}
}

yoke_status yoke_device_allocated(const yoke_device *device, uint64_t *now_out, uint64_t *peak_out)
{
    if (!device) return yoke_fail(YOKE_EINVAL, "yoke_device_allocated: no device");
    YOKE_TRY(yokei_check_maker("yoke_device_allocated", device));
    if (now_out) *now_out = atomic_load(&device->allocated);
    if (peak_out) *peak_out = atomic_load(&device->allocated_peak);
    return YOKE_OK;
}

bool yokei_annotates(const yoke_device *device) { return device && device->annotates; }

size_t yokei_red_zone(const yoke_device *device) { return yokei_annotates(device) ? YOKEI_RED_ZONE : 0; }

yoke_status yokei_annotate(yoke_device *device, yoke_stream *stream, const struct yokei_annotation *what)
{
    if (!yokei_annotates(device) || !what->bytes) return YOKE_OK;
    bool queued = false;
    if (stream && yokei_is_held(stream)) YOKE_TRY(yokei_hold_annotation(stream, what, &queued));
    return queued ? YOKE_OK : device->backend->device->extras->annotate(device, stream, what);
}

/* Enter a new address in the list of addresses that may be freed, then give it to the caller. */
static yoke_status hand_out(yoke_device *device, const char *call, void *address, size_t bytes,
                            void **address_out)
{
    const yoke_status status = yokei_live_add(&device->allocations, address, bytes);
    if (status) {
        char why[512];
        yokei_text(why, sizeof why, "%s", yoke_last_error());
        device->backend->memory->free(device, address);
        return yoke_fail(status, "%s: device %s: %s", call, device->info.spec, why);
    }
    atomic_fetch_add(&device->n_children, 1);
    *address_out = address;
    return YOKE_OK;
}

static yoke_status check_device(const char *call, const yoke_device *device)
{
    if (yokei_live_has(&yokei_objects, device)) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %p is no device, or one that was closed", call, (const void *)device);
}

yoke_status yoke_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    if (!device || !address_out) return yoke_fail(YOKE_EINVAL, "yoke_alloc: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_alloc", device));
    void *address;
    YOKE_TRY(device->backend->memory->alloc(device, bytes, &address));
    return hand_out(device, "yoke_alloc", address, bytes, address_out);
}

yoke_status yoke_buffer_wrap(yoke_device *device, void *native_buffer, size_t bytes, void **address_out)
{
    if (!device || !native_buffer || !address_out)
        return yoke_fail(YOKE_EINVAL, "yoke_buffer_wrap: a NULL argument");
    YOKE_TRY(yokei_check_maker("yoke_buffer_wrap", device));
    if (!device->backend->memory->wrap)
        return yoke_fail(YOKE_EUNSUPPORTED,
                         "yoke_buffer_wrap: backend %s takes addresses as they are; no wrapping is needed",
                         device->backend->name);
    void *address;
    YOKE_TRY(device->backend->memory->wrap(device, native_buffer, bytes, &address));
    return hand_out(device, "yoke_buffer_wrap", address, bytes, address_out);
}

yoke_status yoke_free(yoke_device *device, void *address)
{
    const void *begin = NULL;
    size_t bytes = 0;
    if (!address) return YOKE_OK;
    if (!device) return yoke_fail(YOKE_EINVAL, "yoke_free: no device");
    YOKE_TRY(check_device("yoke_free", device));
    const enum yokei_live_answer answer = yokei_live_remove(&device->allocations, address, &begin, &bytes);
    if (answer == YOKEI_LIVE_INSIDE)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_free: device %s: %p lies %zu bytes inside the allocation of %zu bytes at %p: free that address",
            device->info.spec, address, (size_t)((const char *)address - (const char *)begin), bytes, begin);
    if (answer == YOKEI_LIVE_NOT)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_free: device %s: %p was freed already, or never came from yoke_alloc or yoke_buffer_wrap of this device: free "
            "each of their addresses once",
            device->info.spec, address);
    if (yokei_may_release(device)) device->backend->memory->free(device, address);
    atomic_fetch_sub(&device->n_children, 1);
    return YOKE_OK;
}

void *yoke_host_ptr(const yoke_device *device, const void *address)
{
    if (!device || !address || yokei_check_maker("yoke_host_ptr", device)) return NULL;
    return device->backend->memory->host_ptr(device, address);
}
