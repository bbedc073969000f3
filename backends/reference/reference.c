/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/reference/reference.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- device ---- */

static uint64_t pages_bytes(int name)
{
    const long pages = sysconf(name), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
}

static void describe(struct yoke_device_info *info)
{
    *info = (struct yoke_device_info){ .size = sizeof *info };
    yokei_text(info->spec, sizeof info->spec, "reference");
    yokei_text(info->backend, sizeof info->backend, "reference");
    yokei_text(info->vendor, sizeof info->vendor, "host");
    yokei_text(info->name, sizeof info->name, "float64 oracle in plain C");
    yokei_text(info->driver, sizeof info->driver, "yoke %s", yoke_version());
    yokei_text(info->features, sizeof info->features, "f64 storage");
    info->memory_bytes = pages_bytes(_SC_PHYS_PAGES);
    info->max_alloc_bytes = info->memory_bytes;
    info->compute_units = 1;
    info->host_visible = true;
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16 | 1u << YOKE_F64;
    info->arithmetic = 1u << YOKE_F64;
}

static void reference_probe(struct yoke_probe *out)
{
    out->n_devices = 1;
    out->reason[0] = '\0';
    describe(&out->devices[0]);
}

static yoke_status device_open(yoke_device *device, int index, const struct yoke_native *native)
{
    (void)native;
    if (index != 0)
        return yoke_fail(YOKE_ENODEV, "reference device %d: there is only one; open \"reference\"", index);
    describe(&device->info);
    return YOKE_OK;
}

static const struct yoke_device_ops device_ops = {
    .open = device_open,
    .memory = yokei_host_memory,
};

#define ENTRY(op) [YOKE_OP_##op] = &reference_##op,
extern const struct yoke_backend yokei_backend_reference;
const struct yoke_backend yokei_backend_reference = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "reference",
    .summary = "the oracle: every op in plain C with float64 arithmetic, also for f64 data; slow",
    .probe = reference_probe,
    .device = &device_ops,
    .memory = &yokei_host_memory_ops,
    .stream = &yokei_eager_stream_ops,
    .event = &yokei_eager_event_ops,
    .ops = { YOKE_ALL_OPS(ENTRY) },
};
