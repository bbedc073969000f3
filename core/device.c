/* SPDX-License-Identifier: Apache-2.0 */
/* What a device is asked, and its end. core/open opens devices. */
#include "core/base/base.h"
#include "core/device.h"
#include "core/held.h"
#include "core/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

yoke_status yokei_cache_folders(const struct yoke_device_config *config, char *folders, size_t bytes)
{
    const char *list = config && config->cache_dir ? config->cache_dir : getenv("YOKE_CACHE_DIR"), *base;
    folders[0] = '\0';
    if (list && strlen(list) >= bytes)
        return yoke_fail(YOKE_ECONFIG,
                         "%s: %zu characters; the folders of compiled programs have at most %zu",
                         config && config->cache_dir ? "cache_dir" : "YOKE_CACHE_DIR", strlen(list),
                         bytes - 1);
    if (list)
        yokei_text(folders, bytes, "%s", list);
    else if ((base = getenv("XDG_CACHE_HOME")) && *base)
        yokei_text(folders, bytes, "%s/yoke", base);
    else if ((base = getenv("HOME")) && *base)
        yokei_text(folders, bytes, "%s/.cache/yoke", base);
    return YOKE_OK;
}

yoke_status yoke_device_close(yoke_device *device)
{
    if (!device) return YOKE_OK;
    if (!yokei_live_has(&yokei_objects, device))
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_device_close: %p is no device, or one that was closed already: close each once",
            (void *)device);
    const int children = atomic_load(&device->n_children);
    if (children)
        return yoke_fail(YOKE_EBUSY,
                         "device %s: %d of its streams, events or allocations still live; destroy them first",
                         device->info.spec, children);
    YOKE_TRY(yokei_object_leaves("yoke_device_close", "device", device));
    yokei_tuning_destroy(device);
    if (device->backend->device->close && yokei_may_release(device)) device->backend->device->close(device);
    yokei_holding_destroy(device);
    free(device);
    return YOKE_OK;
}

const struct yoke_device_info *yoke_device_info(const yoke_device *device) { return &device->info; }

yoke_status yoke_device_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out)
{
    uint64_t free_bytes = 0, total_bytes = 0;
    if (!device) return yoke_fail(YOKE_EINVAL, "yoke_device_memory: no device");
    YOKE_TRY(yokei_check_maker("yoke_device_memory", device));
    YOKE_TRY(device->backend->device->memory(device, &free_bytes, &total_bytes));
    if (free_out) *free_out = free_bytes;
    if (total_out) *total_out = total_bytes;
    return YOKE_OK;
}

void yokei_correct_rounding(yoke_device *device, bool corrects) { device->corrects = corrects; }

void yokei_prepare_programs(yoke_device *device, bool prepares)
{
    device->prepares = prepares && device->loads_programs;
}

void yokei_products_used(const yoke_device *device, yokei_product_function *each, void *context)
{
    const struct yoke_device_extras *extras = device->backend->device->extras;
    if (extras && extras->products_used) extras->products_used(device, each, context);
}

yoke_status yokei_product_set(yoke_device *device, const char *product, const char *algorithm)
{
    const struct yoke_device_extras *extras = device->backend->device->extras;
    return extras && extras->product_set ? extras->product_set(device, product, algorithm) : YOKE_OK;
}
