/* SPDX-License-Identifier: Apache-2.0 */
/* Page-locked host memory: from and to such memory a device copies without help of the host. */
#include "core/backend.h"
#include "core/base/base.h"
#include "core/device.h"

bool yokei_pins(const yoke_device *device)
{
    const struct yoke_device_extras *extras = device ? device->backend->device->extras : NULL;
    return extras && extras->pin;
}

/* The reason is the last error. */
static void say_refused(yoke_device *device)
{
    if (!atomic_exchange(&device->said_no_pins, true))
        yoke_log(
            YOKE_LOG_WARN,
            "%s: the driver does not page-lock the memory of collectives, so their copies pass through other "
            "memory, which costs time of the host: %s",
            device->info.spec, yoke_last_error());
}

void yokei_unpin(yoke_device *device, void *memory)
{
    struct yokei_error saved;
    yokei_error_save(&saved);
    if (yokei_may_release(device)) device->backend->device->extras->unpin(device, memory);
    atomic_fetch_sub(&device->n_children, 1);
    yokei_error_restore(&saved);
}

yoke_status yokei_pin(yoke_device *device, void *memory, size_t bytes, const char *name)
{
    YOKE_TRY(yokei_check_maker("yokei_pin", device));
    const yoke_status status = device->backend->device->extras->pin(device, memory, bytes);
    if (status) {
        say_refused(device);
        return status;
    }
    atomic_fetch_add(&device->n_children, 1);
    const yoke_status named = yokei_annotate(
        device, NULL, &(struct yokei_annotation){ memory, bytes, YOKEI_MEMORY_AS_IS, name, 0 });
    if (named) yokei_unpin(device, memory);
    return named;
}
