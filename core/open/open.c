/* SPDX-License-Identifier: Apache-2.0 */
/* Opening devices: from a text such as "opencl:1" to the backend that opens it. */
#include "core/base/base.h"
#include "core/held.h"
#include "core/open/registry.h"
#include "core/tune.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool fits(size_t given, size_t least, const char *what, yoke_status *status)
{
    if (given >= least) return true;
    *status = yoke_fail(
        YOKE_EINVAL, "%s: its first field `size` is %zu, at least %zu is expected; use the initialiser macro",
        what, given, least);
    return false;
}

/* "opencl:1" -> the backend and 1. */
static yoke_status parse_spec(const char *spec, const struct yoke_backend **backend_out, int *index_out)
{
    char name[32];
    int index = 0, taken = 0;
    const char *colon = strchr(spec, ':');
    const size_t n = colon ? (size_t)(colon - spec) : strlen(spec);
    yokei_text(name, sizeof name, "%.*s", (int)YOKE_MIN(n, sizeof name - 1), spec);
    if (colon && (sscanf(colon, ":%d%n", &index, &taken) != 1 || colon[taken] || index < 0))
        return yoke_fail(YOKE_ENODEV, "device '%s': after the colon stands an index, 0 or greater", spec);
    const struct yoke_backend *backend = yokei_backend_named(name);
    if (!backend) {
        char known[256] = "";
        const char *names[16] = { NULL };
        for (int i = 0; i + 1 < (int)YOKE_COUNT(names) && (backend = yokei_backend_at(i)); i++) {
            const size_t used = strlen(known);
            yokei_text(known + used, sizeof known - used, "%s%s", i ? ", " : "", backend->name);
            names[i] = backend->name;
        }
        const char *near = yokei_nearest(name, names);
        return yoke_fail(
            YOKE_ENODEV,
            "device '%s': no backend is called '%s'%s%s%s; there are %s (`yoke info` lists their devices)",
            spec, name, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", known);
    }
    *backend_out = backend;
    *index_out = index;
    return YOKE_OK;
}

#define USUAL_CACHE_BYTES ((uint64_t)1 << 30)

static yoke_status choose_cache_bytes(yoke_device *device, const struct yoke_device_config *config)
{
    const char *text = getenv("YOKE_CACHE_BYTES");
    device->cache_bytes = config && config->cache_bytes ? config->cache_bytes : USUAL_CACHE_BYTES;
    if ((config && config->cache_bytes) || !text || !*text) return YOKE_OK;
    char *end;
    errno = 0;
    device->cache_bytes = strtoull(text, &end, 10);
    if (*end || errno || text[0] < '0' || text[0] > '9' || !device->cache_bytes)
        return yoke_fail(
            YOKE_ECONFIG,
            "YOKE_CACHE_BYTES is '%s'; it must be a number of bytes above 0, such as 1073741824 (YOKE_CACHE_DIR= turns the "
            "cache of compiled programs off)",
            text);
    return YOKE_OK;
}

static yoke_status open_device(const struct yoke_backend *backend, int index,
                               const struct yoke_native *native, const struct yoke_device_config *config,
                               yoke_device **device_out)
{
    if (backend->abi != YOKE_BACKEND_ABI || backend->size < sizeof *backend)
        return yoke_fail(YOKE_ENODEV,
                         "backend %s: built for interface %u of %u bytes, this library has %d of %zu",
                         backend->name, backend->abi, backend->size, YOKE_BACKEND_ABI, sizeof *backend);
    if (native && !backend->memory->wrap)
        return yoke_fail(
            YOKE_EUNSUPPORTED,
            "yoke_device_wrap: the %s backend has no foreign context to wrap; use yoke_device_open",
            backend->name);
    yoke_device *device = calloc(1, sizeof *device);
    if (!device) return yoke_fail(YOKE_ENOMEM, "device: no memory");
    device->backend = backend;
    device->maker = yokei_this_process();
    device->info.size = sizeof device->info;
    device->n_threads = config ? config->n_threads : 0;
    yoke_status status;
    YOKE_TRY_GOTO(yokei_cache_folders(config, device->cache_dir, sizeof device->cache_dir), free_device);
    YOKE_TRY_GOTO(choose_cache_bytes(device, config), free_device);
    YOKE_TRY_GOTO(yokei_holding_create(device), free_device);
    YOKE_TRY_GOTO(backend->device->open(device, index, native), free_device);
    YOKE_TRY_GOTO(yokei_tuning_create(device, config ? config->tune_file : NULL), close_device);
    YOKE_TRY_GOTO(yokei_live_add(&yokei_objects, device, sizeof *device), destroy_tuning);
    *device_out = device;
    return YOKE_OK;
destroy_tuning:
    yokei_tuning_destroy(device);
close_device:
    if (backend->device->close) backend->device->close(device);
free_device:
    yokei_holding_destroy(device);
    free(device);
    return status;
}

static yoke_status check_config(const char *what, const struct yoke_device_config *config)
{
    yoke_status status = YOKE_OK;
    if (config && fits(config->size, sizeof *config, what, &status) && config->n_threads < 0)
        status = yoke_fail(YOKE_EINVAL, "%s: n_threads is %d, 0 means the default", what, config->n_threads);
    return status;
}

yoke_status yoke_device_open(const char *spec, const struct yoke_device_config *config,
                             yoke_device **device_out)
{
    if (!spec || !device_out) return yoke_fail(YOKE_EINVAL, "yoke_device_open: a NULL argument");
    YOKE_TRY(check_config("yoke_device_open", config));
    const struct yoke_backend *backend;
    int index;
    YOKE_TRY(parse_spec(spec, &backend, &index));
    return open_device(backend, index, NULL, config, device_out);
}

yoke_status yoke_device_wrap(const char *backend_name, const struct yoke_native *native,
                             const struct yoke_device_config *config, yoke_device **device_out)
{
    yoke_status status = YOKE_OK;
    if (!backend_name || !native || !device_out)
        return yoke_fail(YOKE_EINVAL, "yoke_device_wrap: a NULL argument");
    if (!fits(native->size, sizeof *native, "yoke_device_wrap: native", &status)) return status;
    YOKE_TRY(check_config("yoke_device_wrap", config));
    const struct yoke_backend *backend;
    int index;
    YOKE_TRY(parse_spec(backend_name, &backend, &index));
    return open_device(backend, index, native, config, device_out);
}
