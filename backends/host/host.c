/* SPDX-License-Identifier: Apache-2.0 */
/* The device of the host backend, which is this process's share of the CPU. */
#include "backends/host/host.h"

#include <omp.h>
#include <stdlib.h>

/* If `onednn` is NULL, the library is absent, and `reason` says why. */
static yoke_status describe(struct yoke_device_info *info, const struct host_isa *best,
                            const struct host_onednn *onednn, const char *reason)
{
    struct yokei_topology topology;
    YOKE_TRY(yokei_topology(&topology));
    info->size = sizeof *info;
    yokei_text(info->spec, sizeof info->spec, "host");
    yokei_text(info->backend, sizeof info->backend, "host");
    yokei_text(info->vendor, sizeof info->vendor, "host");
    info->index = 0;
    yokei_text(info->name, sizeof info->name, "%s", topology.cpu);
    if (onednn)
        yokei_text(info->driver, sizeof info->driver, "oneDNN %s, OpenMP %d", host_onednn_version(onednn),
                   _OPENMP);
    else
        yokei_text(info->driver, sizeof info->driver, "no oneDNN (%.100s), OpenMP %d", reason, _OPENMP);
    info->memory_bytes = topology.memory_bytes;
    info->max_alloc_bytes = topology.memory_bytes;
    info->compute_units = topology.n_cores;
    info->host_visible = true;
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16;
    info->arithmetic = 1u << YOKE_F32;
    if (onednn && host_onednn_has(onednn, YOKE_F16)) info->arithmetic |= 1u << YOKE_F16;
    if (best->bf16 || (onednn && host_onednn_has(onednn, YOKE_BF16))) info->arithmetic |= 1u << YOKE_BF16;
    yokei_text(info->features, sizeof info->features, "%s%s%s%s%s%s", best->name,
               info->arithmetic & 1u << YOKE_F16 ? " f16" : "",
               info->arithmetic & 1u << YOKE_BF16 ? " bf16" : "", host_onednn_amx(onednn) ? " amx" : "",
               onednn ? " onednn " : "", onednn ? host_onednn_version(onednn) : "");
    return YOKE_OK;
}

static void probe(struct yoke_probe *out)
{
    const struct host_isa *isas[HOST_MAX_ISAS];
    char reason[YOKE_REASON_BYTES] = "";
    host_find_isas(isas);
    struct host_onednn *onednn = host_onednn_open(reason, sizeof reason);
    out->n_devices = describe(&out->devices[0], isas[0], onednn, reason) ? 0 : 1;
    yokei_text(out->reason, sizeof out->reason, "%s", out->n_devices ? "" : yoke_last_error());
    host_onednn_close(onednn);
}

/*
 * The number of threads that OpenMP is set up for, but at most one per core of this process, because
 * OMP_NUM_THREADS may have any value.
 */
static int default_threads(const struct yoke_device_info *info)
{
    const int asked = omp_get_max_threads(), cores = YOKE_MAX(1, info->compute_units);
    if (asked > cores && getenv("OMP_NUM_THREADS"))
        yoke_log(
            YOKE_LOG_WARN,
            "host: OMP_NUM_THREADS asks for %d threads; this process has %d core%s, and takes as many threads",
            asked, cores, cores == 1 ? "" : "s");
    return YOKE_MIN(asked, cores);
}

static yoke_status open_device(yoke_device *device, int index, const struct yoke_native *native)
{
    (void)native;
    if (index) return yoke_fail(YOKE_ENODEV, "device 'host:%d': there is one, 'host'", index);
    YOKE_TRY(host_check_team());
    struct host_device *d = calloc(1, sizeof *d);
    if (!d) return yoke_fail(YOKE_ENOMEM, "device 'host': no memory");
    char reason[YOKE_REASON_BYTES] = "";
    d->n_isas = host_find_isas(d->isas);
    d->onednn = host_onednn_open(reason, sizeof reason);
    const yoke_status status = describe(&device->info, d->isas[0], d->onednn, reason);
    if (status) {
        host_onednn_close(d->onednn);
        free(d);
        return status;
    }
    d->n_threads = device->n_threads > 0 ? device->n_threads : default_threads(&device->info);
    device->impl = d;
    host_warn_of_spinning(d->n_threads);
    return YOKE_OK;
}

static void close_device(yoke_device *device)
{
    struct host_device *d = device->impl;
    host_onednn_close(d->onednn);
    free(d);
    device->impl = NULL;
}

static const struct yoke_device_ops device_ops = {
    .open = open_device,
    .close = close_device,
    .memory = yokei_host_memory,
    .variant = host_variant,
};

#define ENTRY(op) [YOKE_OP_##op] = &host_any_op,
extern const struct yoke_backend yokei_backend_host;
const struct yoke_backend yokei_backend_host = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "host",
    .summary = "this computer's CPU: vectorised C and oneDNN",
    .probe = probe,
    .device = &device_ops,
    .memory = &yokei_host_memory_ops,
    .stream = &host_stream_ops,
    .event = &yokei_eager_event_ops,
    .ops = { YOKE_ALL_OPS(ENTRY) },
};
