/* SPDX-License-Identifier: Apache-2.0 */
/** Compilation ahead of time (`yoke compile`): programs for devices that need not be here. */
#include <stdlib.h>
#include <string.h>

#include "core/open/registry.h"

static const struct yoke_backend *backend_of(const char *spec, const char *colon)
{
    char name[32];
    if ((size_t)(colon - spec) >= sizeof name) return NULL;
    yokei_text(name, sizeof name, "%.*s", (int)(colon - spec), spec);
    return yokei_backend_named(name);
}

yoke_status yokei_ahead_compile(struct yokei_ahead *ahead)
{
    const char *colon = ahead->spec + strcspn(ahead->spec, ":");
    const struct yoke_backend *backend = backend_of(ahead->spec, colon);
    if (!backend)
        return yoke_fail(YOKE_EINVAL,
                         "device '%s': programs are compiled ahead of time for kinds of GPUs, such as "
                         "cuda:sm_90 or hip:gfx942",
                         ahead->spec);
    const struct yoke_device_extras *extras = backend->device->extras;
    if (!extras || !extras->ahead)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "device '%s': the backend %s has no programs that can be compiled ahead of time, only "
            "cuda and hip have, such as cuda:sm_90 and hip:gfx942. Programs of OpenCL devices depend on the device and on its "
            "driver, and are compiled at their first use there",
            ahead->spec, backend->name);
    yoke_device *device = calloc(1, sizeof *device);
    if (!device) return yoke_fail(YOKE_ENOMEM, "device: no memory");
    device->backend = backend;
    device->cache_bytes = UINT64_MAX; /* nothing is removed from the folder */
    yokei_text(device->info.spec, sizeof device->info.spec, "%s", ahead->spec);
    yoke_status status;
    if (!*ahead->folder || strchr(ahead->folder, ':') || strlen(ahead->folder) >= sizeof device->cache_dir)
        status = yoke_fail(YOKE_EINVAL,
                           "the folder '%s' cannot be one of YOKE_CACHE_DIR, where colons separate folders: "
                           "name one folder without a colon, of at most %zu characters",
                           ahead->folder, sizeof device->cache_dir - 1);
    else {
        yokei_text(device->cache_dir, sizeof device->cache_dir, "%s", ahead->folder);
        status = extras->ahead(device, *colon ? colon + 1 : "", ahead);
    }
    free(device);
    return status;
}
