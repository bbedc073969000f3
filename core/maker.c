/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may do with a device that another process has opened. */
#include "core/base/base.h"
#include "core/device.h"

bool yokei_may_release(const yoke_device *device)
{
    return yokei_made_here(&device->maker) || yokei_is_eager(device);
}

yoke_status yokei_refuse_device(const char *call, const yoke_device *device)
{
    char what[64];
    yokei_text(what, sizeof what, "device %s", device->info.spec);
    return yokei_refuse_fork(
        call, &device->maker, what,
        "open a device in this process with yoke_device_open, and allocate memory there");
}
