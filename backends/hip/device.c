/* SPDX-License-Identifier: Apache-2.0 */
/** HIP devices: how they are listed, opened and closed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/families.h"
#include "backends/gpu/runtime/products.h"
#include "backends/hip/hip.h"
#include "backends/hip/options.h"
#include "core/base/emulated.h"

static int attribute(const struct hip_library *hip, int id, int what)
{
    int value = 0;
    return hip->hipDeviceGetAttribute(&value, what, id) ? 0 : value;
}

/* Whether the architecture has instructions for bf16: those of CDNA 2 and RDNA 3 on. */
static bool has_bf16(const char *arch)
{
    return !strncmp(arch, "gfx90a", 6) || !strncmp(arch, "gfx94", 5) || !strncmp(arch, "gfx95", 5)
           || !strncmp(arch, "gfx11", 5) || !strncmp(arch, "gfx12", 5);
}

/** Describe a device. `compiler` has the kind HIP_NO_COMPILER if programs come from the cache only. */
static void hip_describe(const struct hip_library *hip, const struct hip_compiler *compiler, const char *arch,
                         int index, struct yoke_device_info *info)
{
    const struct hip_version *n = hip->numbers;
    char name[100] = "", text[1100] = "no compiler, compiled programs only";
    size_t bytes = 0;
    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->index = index;
    hip->hipDeviceGetName(name, sizeof name, index);
    hip->hipDeviceTotalMem(&bytes, index);
    if (!name[0]) yokei_text(name, sizeof name, "AMD %s", arch); /* some versions know no names */
    yokei_text(info->backend, sizeof info->backend, "hip");
    yokei_text(info->vendor, sizeof info->vendor, "amd");
    yokei_text(info->spec, sizeof info->spec, "hip:%d", index);
    yokei_text(info->name, sizeof info->name, "%s%s", name,
               hip->emulated && !strstr(name, "emulated") ? " (emulated)" : "");
    if (compiler->kind != HIP_NO_COMPILER) yokei_hip_compiler_text(compiler, text, sizeof text);
    yokei_text(info->driver, sizeof info->driver, "%sHIP %d.%d, %s", hip->emulated ? "emulated " : "",
               hip->version / 10000000, hip->version / 100000 % 100, text);
    info->memory_bytes = info->max_alloc_bytes = bytes;
    info->compute_units = attribute(hip, index, n->compute_units);
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16;
    info->arithmetic = 1u << YOKE_F32 | 1u << YOKE_F64 | 1u << YOKE_F16
                       | (has_bf16(arch) ? 1u << YOKE_BF16 : 0);
    yokei_text(info->features, sizeof info->features, "gpu %s warp=%d group=%d local=%dKiB%s%s", arch,
               attribute(hip, index, n->wavefront), attribute(hip, index, n->max_threads),
               attribute(hip, index, n->shared_bytes) >> 10,
               attribute(hip, index, n->integrated) ? " integrated" : "", hip->emulated ? " emulated" : "");
}

/** Add the address on the PCI bus to the features, for yoke_discover. */
static void hip_add_address(const struct hip_library *hip, int index, struct yoke_device_info *info)
{
    const size_t used = strlen(info->features);
    char id[32] = "";
    unsigned domain, bus, slot, function;
    if (!hip->hipDeviceGetPCIBusId || hip->hipDeviceGetPCIBusId(id, sizeof id, index)
        || sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4)
        return;
    yokei_text(info->features + used, sizeof info->features - used, YOKEI_PCI_FEATURE, domain, bus, slot,
               function);
}

/** Whether the folders have programs that a device of this architecture runs. */
static bool has_programs(const char *folders, const char *arch)
{
    return yokei_gpu_cache_has(folders, yokei_hip_driver.name, yokei_hip_maker_runs, arch);
}

/** List the devices that a compiler, or a program in one of these folders, makes usable. */
static void hip_list_devices(const char *folders, struct yoke_probe *out)
{
    int n = 0, n_usable = 0;
    char arch[HIP_ARCH], reason[YOKE_REASON_BYTES];
    const struct hip_library *hip = yokei_hip_library(out->reason, sizeof out->reason);
    if (!hip) return;
    const hipError_t error = hip->hipGetDeviceCount(&n);
    if (error || !n) {
        yokei_hip_explain(error ? error : hipErrorNoDevice, out->reason, sizeof out->reason);
        return;
    }
    n = YOKE_MIN(n, YOKE_MAX_DEVICES);
    for (int i = 0; i < n; i++) {
        struct hip_compiler compiler;
        if (!yokei_hip_arch(hip, i, arch)) {
            yokei_text(out->reason, sizeof out->reason,
                       "hip:%d: %s does not tell the architecture: install another version of ROCm", i,
                       hip->path);
            memset(&compiler, 0, sizeof compiler);
            hip_describe(hip, &compiler, "unknown", i, &out->devices[i]);
            continue;
        }
        if (yokei_hip_compiler(arch, folders, &compiler, reason, sizeof reason)
            || has_programs(folders, arch))
            n_usable++;
        else
            yokei_text(out->reason, sizeof out->reason, "%s", reason);
        hip_describe(hip, &compiler, arch, i, &out->devices[i]);
        hip_add_address(hip, i, &out->devices[i]);
    }
    out->n_devices = n_usable ? n : 0;
}

static void hip_probe(struct yoke_probe *out)
{
    char folders[sizeof((yoke_device *)0)->cache_dir];
    if (yokei_rt_probe_forked(&yokei_hip_known, out)) return;
    hip_list_devices(yokei_cache_folders(NULL, folders, sizeof folders) ? "" : folders, out);
}

static yoke_status hip_find_by_index(const struct hip_library *hip, int index)
{
    int n = 0;
    char reason[YOKE_REASON_BYTES];
    const char *hides = yokei_hip_hiding_variable();
    const hipError_t error = hip->hipGetDeviceCount(&n);
    if (error || !n) {
        yokei_hip_explain(error ? error : hipErrorNoDevice, reason, sizeof reason);
        return yoke_fail(YOKE_ENODEV, "hip:%d: %s", index, reason);
    }
    if (index < n) return YOKE_OK;
    char list[64] = "is one device, hip:0", more[96] = "";
    if (n > 1) yokei_text(list, sizeof list, "are %d devices, hip:0 to hip:%d", n, n - 1);
    if (hides)
        yokei_text(more, sizeof more, "; %s is '%.40s'", hides, getenv(hides));
    else if (hip->emulated)
        yokei_text(more, sizeof more, "; YOKE_EMULATE_DEVICES=%d emulates more of them", index + 1);
    return yoke_fail(YOKE_ENODEV, "hip:%d: there %s%s", index, list, more);
}

/* HIP has no contexts. A device and its queue belong together by the number of the device. */
static yoke_status hip_find_native(const struct hip_library *hip, const struct yoke_native *native,
                                   int *index_out)
{
    int n = 0;
    const int id = (int)(intptr_t)native->device;
    const hipError_t error = hip->hipGetDeviceCount(&n);
    if (error || id < 0 || id >= n)
        return yoke_fail(
            YOKE_EINVAL,
            "hip: native.device is %d, and there are %d devices; set (void *)(intptr_t)device, where "
            "device is the number of hipGetDevice",
            id, n);
    *index_out = id;
    return YOKE_OK;
}

static void hip_close(yoke_device *device)
{
    struct hip_device *dev = hip_device(device);
    yokei_rt_end(device, true, yokei_hip_products_detach);
    free(dev);
    device->impl = NULL;
}

static yoke_status open_context(yoke_device *device)
{
    YOKE_TRY(yokei_rt_enter(device));
    const yoke_status status = yokei_rt_pinned_create(device);
    if (!status) yokei_hip_products_attach(device);
    yokei_rt_leave(device);
    return status;
}

static void fill_properties(yoke_device *device)
{
    struct hip_device *dev = hip_device(device);
    struct yokei_gpu_device *gpu = &dev->rt.gpu;
    const struct hip_library *hip = dev->hip;
    const struct hip_version *n = hip->numbers;
    gpu->most_groups[0] = attribute(hip, dev->id, n->max_grid_x);
    gpu->most_groups[1] = attribute(hip, dev->id, n->max_grid_y);
    gpu->most_groups[2] = attribute(hip, dev->id, n->max_grid_z);
    gpu->most_threads = UINT32_MAX; /* the packet of a dispatch has 32 bits for them */
    device->annotates = hip->say.annotate != NULL;
    device->loads_programs = true;
    gpu->driver = &yokei_hip_driver;
    gpu->vector_floats = 1;
    gpu->warp = attribute(hip, dev->id, n->wavefront);
    gpu->compute_units = device->info.compute_units;
    gpu->max_group = attribute(hip, dev->id, n->max_threads);
    gpu->local_bytes = (size_t)attribute(hip, dev->id, n->shared_bytes);
    gpu->reserves_private = true;
    yokei_text(gpu->identity, sizeof gpu->identity, "%s", HIP_IDENTITY);
    yokei_text(gpu->ahead, sizeof gpu->ahead, "hip:%s", dev->arch);
}

/* Find what a device needs besides the library. */
static yoke_status describe_new(const struct hip_library *hip, int index, yoke_device *device)
{
    struct hip_device *dev = hip_device(device);
    char reason[YOKE_REASON_BYTES];
    if (!yokei_hip_arch(hip, index, dev->arch))
        return yoke_fail(YOKE_ENODEV,
                         "hip:%d: %s does not tell the architecture: install another version of ROCm", index,
                         hip->path);
    if (!yokei_hip_compiler(dev->arch, device->cache_dir, &dev->compiler, reason, sizeof reason)) {
        if (!has_programs(device->cache_dir, dev->arch))
            return yoke_fail(YOKE_ENODEV,
                             "hip:%d: %s. Or let YOKE_CACHE_DIR name a folder that `yoke compile --device "
                             "hip:%s -o FOLDER` has filled elsewhere",
                             index, reason, dev->arch);
        yokei_text(dev->rt.gpu.no_compiler, sizeof dev->rt.gpu.no_compiler, "%s", reason);
    }
    return YOKE_OK;
}

static yoke_status hip_open(yoke_device *device, int index, const struct yoke_native *native)
{
    char reason[YOKE_REASON_BYTES];
    const struct hip_library *hip = yokei_hip_library(reason, sizeof reason);
    if (!hip) return yoke_fail(YOKE_ENODEV, "hip:%d: %s", index, reason);
    YOKE_TRY(native ? hip_find_native(hip, native, &index) : hip_find_by_index(hip, index));
    struct hip_device *dev = calloc(1, sizeof *dev);
    if (!dev) return yoke_fail(YOKE_ENOMEM, "hip:%d: no host memory", index);
    device->impl = dev;
    yoke_status status = describe_new(hip, index, device);
    if (status) {
        free(dev);
        device->impl = NULL;
        return status;
    }
    dev->hip = hip;
    dev->id = index;
    yokei_rt_begin(&dev->rt, &yokei_hip_calls, &hip->say);
    dev->rt.is_foreign = native != NULL;
    yokei_rt_keep_list(&yokei_hip_known, hip_list_devices, device->cache_dir);
    hip_describe(hip, &dev->compiler, dev->arch, index, &device->info);
    fill_properties(device);
    status = open_context(device);
    if (!status) status = yokei_gpu_programs_create(device);
    if (status) hip_close(device);
    return status;
}

static const struct yoke_device_extras device_extras = {
    .facts = yokei_gpu_variant_facts,
    .detail = yokei_gpu_variant_detail,
    .algorithm = yokei_gpu_algorithm,
    .counts = yokei_rt_counts,
    .products = yokei_hip_products_text,
    .products_used = yokei_rt_products_used,
    .product_set = yokei_rt_product_set,
    .ahead = yokei_hip_ahead,
    .sensors = yokei_hip_sensors,
    .annotate = yokei_rt_annotate,
    .pin = yokei_rt_pin,
    .unpin = yokei_rt_unpin,
};
static const struct yoke_device_ops device_ops = {
    .open = hip_open,
    .close = hip_close,
    .memory = yokei_rt_memory,
    .variant = yokei_gpu_variant_name,
    .extras = &device_extras,
};

#define ENTRY(op) [YOKE_OP_##op] = &yokei_gpu_##op,
const struct yoke_backend yokei_backend_hip = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "hip",
    .summary = "AMD GPUs by HIP: kernels compiled at run time by hipRTC or clang",
    .probe = hip_probe,
    .device = &device_ops,
    .memory = &yokei_rt_memory_ops,
    .stream = &yokei_rt_stream_ops,
    .event = &yokei_rt_event_ops,
    .ops = { YOKE_ALL_OPS(ENTRY) },
};
