/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CUDA devices. A device uses the primary context, which it shares with the CUDA runtime and with PyTorch in
 * the same process. The context is retained, and its flags stay as they are.
 */
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/gpu/families.h"
#include "core/base/emulated.h"

static int attribute(const struct cuda_library *cu, CUdevice id, int what)
{
    int value = 0;
    return cu->cuDeviceGetAttribute(&value, what, id) ? 0 : value;
}

static int capability(const struct cuda_library *cu, CUdevice id)
{
    return 10 * attribute(cu, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
           + attribute(cu, id, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

/**
 * Describe a device. `nvrtc` is NULL if its programs come from the cache only. `lt` is NULL if there is no
 * cuBLASLt, or if it shall not be loaded.
 */
static void cuda_describe(const struct cuda_library *cu, const struct cuda_nvrtc *nvrtc,
                          const struct cuda_cublaslt *lt, CUdevice id, int index,
                          struct yoke_device_info *info)
{
    char name[100] = "?", library[40] = "";
    char compiler[1100] = "no NVRTC, compiled programs only";
    size_t bytes = 0;
    const int cc = capability(cu, id);
    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->index = index;
    cu->cuDeviceGetName(name, sizeof name, id);
    cu->cuDeviceTotalMem_v2(&bytes, id);
    yokei_text(info->backend, sizeof info->backend, "cuda");
    yokei_text(info->vendor, sizeof info->vendor, "nvidia");
    yokei_text(info->spec, sizeof info->spec, "cuda:%d", index);
    yokei_text(info->name, sizeof info->name, "%s%s", name,
               cu->emulated && !strstr(name, "emulated") ? " (emulated)" : "");
    if (lt) yokei_text(library, sizeof library, ", cuBLASLt %s", lt->version_text);
    if (nvrtc)
        yokei_text(compiler, sizeof compiler, "NVRTC %d.%d (%s)", nvrtc->major, nvrtc->minor, nvrtc->path);
    yokei_text(info->driver, sizeof info->driver, "%sdriver CUDA %d.%d%s, %s",
               cu->emulated ? "emulated " : "", cu->version / 1000, cu->version % 1000 / 10, library,
               compiler);
    info->memory_bytes = info->max_alloc_bytes = bytes;
    info->compute_units = attribute(cu, id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16 | 1u << YOKE_BF16;
    info->arithmetic = 1u << YOKE_F32 | 1u << YOKE_F64 | (cc >= 53 ? 1u << YOKE_F16 : 0)
                       | (cc >= 80 ? 1u << YOKE_BF16 : 0);
    yokei_text(info->features, sizeof info->features, "gpu sm_%d warp=%d group=%d local=%dKiB%s%s%s", cc,
               attribute(cu, id, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
               attribute(cu, id, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
               attribute(cu, id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) >> 10,
               strstr(name, " MIG ") ? " mig" : "",
               attribute(cu, id, CU_DEVICE_ATTRIBUTE_INTEGRATED) ? " integrated" : "",
               cu->emulated ? " emulated" : "");
}

/** Add the address on the PCI bus to the features, for yoke_discover. */
static void cuda_add_address(const struct cuda_library *cu, CUdevice id, struct yoke_device_info *info)
{
    const size_t used = strlen(info->features);
    int bus;
    if (cu->cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, id)) return;
    yokei_text(info->features + used, sizeof info->features - used, YOKEI_PCI_FEATURE,
               (unsigned)attribute(cu, id, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID), (unsigned)bus,
               (unsigned)attribute(cu, id, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID), 0u);
}

/** Whether the folders have programs that a device of this compute capability runs. */
static bool has_programs(const char *folders, int cc)
{
    return yokei_gpu_cache_has(folders, yokei_cuda_driver.name, yokei_cuda_maker_runs, &cc);
}

/**
 * List the devices that NVRTC, or a program in one of these folders, makes usable. cuBLASLt is not loaded
 * for this, because it has 0.5 GB.
 */
static void cuda_list_devices(const char *folders, struct yoke_probe *out)
{
    int n = 0;
    const struct cuda_library *cu = yokei_cuda_library(out->reason, sizeof out->reason);
    if (!cu) return;
    CUdevice id;
    CUresult error = cu->cuDeviceGetCount(&n);
    if (error || !n) {
        yokei_cuda_explain(error ? error : CUDA_ERROR_NO_DEVICE, out->reason, sizeof out->reason);
        return;
    }
    const struct cuda_nvrtc *nvrtc = yokei_cuda_nvrtc(cu->version, out->reason, sizeof out->reason);
    bool usable = nvrtc != NULL;
    n = YOKE_MIN(n, YOKE_MAX_DEVICES);
    for (int i = 0; i < n && !usable; i++)
        usable = !cu->cuDeviceGet(&id, i) && has_programs(folders, capability(cu, id));
    if (!usable) return;
    out->n_devices = n;
    for (int i = 0; i < n; i++) {
        if (cu->cuDeviceGet(&id, i)) continue;
        cuda_describe(cu, nvrtc, NULL, id, i, &out->devices[i]);
        cuda_add_address(cu, id, &out->devices[i]);
    }
}

static void cuda_probe(struct yoke_probe *out)
{
    char folders[sizeof((yoke_device *)0)->cache_dir];
    if (yokei_rt_probe_forked(&yokei_cuda_known, out)) return;
    cuda_list_devices(yokei_cache_folders(NULL, folders, sizeof folders) ? "" : folders, out);
}

static yoke_status cuda_find_by_index(const struct cuda_library *cu, int index, CUdevice *id_out)
{
    int n = 0;
    char reason[YOKE_REASON_BYTES];
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const CUresult error = cu->cuDeviceGetCount(&n);
    if (error || !n) {
        yokei_cuda_explain(error ? error : CUDA_ERROR_NO_DEVICE, reason, sizeof reason);
        return yoke_fail(YOKE_ENODEV, "cuda:%d: %s", index, reason);
    }
    if (index < n && !cu->cuDeviceGet(id_out, index)) return YOKE_OK;
    char list[64] = "is one device, cuda:0", more[96] = "";
    if (n > 1) yokei_text(list, sizeof list, "are %d devices, cuda:0 to cuda:%d", n, n - 1);
    if (visible)
        yokei_text(more, sizeof more, "; CUDA_VISIBLE_DEVICES is '%.40s'", visible);
    else if (cu->emulated)
        yokei_text(more, sizeof more, "; YOKE_EMULATE_DEVICES=%d emulates more of them", index + 1);
    return yoke_fail(YOKE_ENODEV, "cuda:%d: there %s%s", index, list, more);
}

/** Find the device of a foreign context, and the index of the device in Yoke's list. */
static yoke_status cuda_find_native(const struct cuda_library *cu, const struct yoke_native *native,
                                    CUdevice *id_out, int *index_out)
{
    CUcontext context;
    CUdevice id;
    int n = 0;
    if (!native->context)
        return yoke_fail(YOKE_EINVAL, "cuda: wrapping a device needs native.context (CUcontext)");
    CUresult error = cu->cuCtxPushCurrent_v2(native->context);
    if (!error) {
        error = cu->cuCtxGetDevice(id_out);
        cu->cuCtxPopCurrent_v2(&context);
    }
    if (error)
        return yoke_fail(YOKE_EINVAL, "cuda: native.context is no CUDA context: %s (%d)",
                         yokei_cuda_error_name(cu, error), error);
    if ((CUdevice)(intptr_t)native->device != *id_out)
        return yoke_fail(
            YOKE_EINVAL,
            "cuda: native.device is %d, but the context is of CUdevice %d; set (void *)(intptr_t)device",
            (int)(intptr_t)native->device, *id_out);
    cu->cuDeviceGetCount(&n);
    for (*index_out = n - 1; *index_out > 0; --*index_out)
        if (!cu->cuDeviceGet(&id, *index_out) && id == *id_out) break;
    return YOKE_OK;
}

static void cuda_close(yoke_device *device)
{
    struct cuda_device *dev = cuda_device(device);
    yokei_rt_end(device, dev->context != NULL, yokei_cuda_cublaslt_detach);
    if (dev->context && !dev->rt.is_foreign) dev->cu->cuDevicePrimaryCtxRelease_v2(dev->id);
    free(dev);
    device->impl = NULL;
}

/** The error of a device whose context cannot be made. */
static yoke_status no_context(const yoke_device *device, CUresult error)
{
    const struct cuda_device *dev = cuda_device(device);
    const int mode = attribute(dev->cu, dev->id, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
    if (mode == CU_COMPUTEMODE_PROHIBITED)
        return yoke_fail(YOKE_ENODEV,
                         "%s: the device's compute mode is 'prohibited'; nvidia-smi -c DEFAULT changes it",
                         device->info.spec);
    if (mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS && error == CUDA_ERROR_DEVICE_UNAVAILABLE)
        return yoke_fail(
            YOKE_ENODEV,
            "%s: another process uses the device, and its compute mode is 'exclusive process': only one process "
            "may use it, so only one rank. Give each rank a device of its own (--devices cuda:0,cuda:1), or "
            "change the mode by nvidia-smi -c DEFAULT, or start NVIDIA's service MPS",
            device->info.spec);
    return yokei_rt_fail(device, "cuDevicePrimaryCtxRetain", error);
}

static yoke_status cuda_open_context(yoke_device *device, const struct yoke_native *native)
{
    struct cuda_device *dev = cuda_device(device);
    if (native) {
        dev->context = native->context;
        dev->rt.is_foreign = true;
    } else {
        const CUresult error = dev->cu->cuDevicePrimaryCtxRetain(&dev->context, dev->id);
        if (error) return no_context(device, error);
    }
    YOKE_TRY(yokei_rt_enter(device));
    const yoke_status status = yokei_rt_pinned_create(device);
    if (!status) yokei_cuda_cublaslt_attach(device);
    yokei_rt_leave(device);
    return status;
}

static void fill_properties(yoke_device *device)
{
    struct cuda_device *dev = cuda_device(device);
    const struct cuda_library *cu = dev->cu;
    const int axes[] = { CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                         CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z };
    for (int i = 0; i < 3; i++) dev->rt.gpu.most_groups[i] = attribute(cu, dev->id, axes[i]);
    dev->cc = capability(cu, dev->id);
    dev->ptx_only = cu->emulated;
    device->annotates = cu->say.annotate != NULL;
    device->loads_programs = true;
    dev->rt.gpu.driver = &yokei_cuda_driver;
    dev->rt.gpu.vector_floats = 1;
    dev->rt.gpu.warp = attribute(cu, dev->id, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    dev->rt.gpu.compute_units = device->info.compute_units;
    dev->rt.gpu.max_group = attribute(cu, dev->id, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    dev->rt.gpu.local_bytes = (size_t)attribute(cu, dev->id, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    dev->rt.gpu.reserves_private = true;
    dev->rt.gpu.multiplies_squares = dev->cc >= 80;
    yokei_text(dev->rt.gpu.identity, sizeof dev->rt.gpu.identity, "%s", CUDA_IDENTITY);
    yokei_text(dev->rt.gpu.ahead, sizeof dev->rt.gpu.ahead, "cuda:sm_%d", dev->cc);
}

static yoke_status cuda_open(yoke_device *device, int index, const struct yoke_native *native)
{
    char reason[YOKE_REASON_BYTES], option[48], package[48];
    CUdevice id = 0;
    const struct cuda_library *cu = yokei_cuda_library(reason, sizeof reason);
    if (!cu) return yoke_fail(YOKE_ENODEV, "cuda:%d: %s", index, reason);
    YOKE_TRY(native ? cuda_find_native(cu, native, &id, &index) : cuda_find_by_index(cu, index, &id));
    const struct cuda_nvrtc *nvrtc = yokei_cuda_nvrtc(cu->version, reason, sizeof reason);
    const int cc = capability(cu, id);
    if (!nvrtc && !has_programs(device->cache_dir, cc))
        return yoke_fail(YOKE_ENODEV,
                         "cuda:%d: %s. Or let YOKE_CACHE_DIR name a folder that `yoke compile --device "
                         "cuda:sm_%d -o FOLDER` has filled elsewhere",
                         index, reason, cc);
    if (nvrtc && !yokei_cuda_architecture(nvrtc, cc, false, option, sizeof option))
        return yoke_fail(
            YOKE_ENODEV,
            "cuda:%d: NVRTC %d.%d (%s) supports only devices newer than this one of %d.%d; install "
            "an older NVRTC: pip install %s",
            index, nvrtc->major, nvrtc->minor, nvrtc->path, cc / 10, cc % 10,
            yokei_cuda_nvrtc_package(YOKE_MIN(cu->version, 12090), package));
    struct cuda_device *dev = calloc(1, sizeof *dev);
    if (!dev) return yoke_fail(YOKE_ENOMEM, "cuda:%d: no host memory", index);
    device->impl = dev;
    dev->cu = cu;
    dev->nvrtc = nvrtc;
    dev->id = id;
    yokei_rt_begin(&dev->rt, &yokei_cuda_calls, &cu->say);
    if (!nvrtc) yokei_text(dev->rt.gpu.no_compiler, sizeof dev->rt.gpu.no_compiler, "%s", reason);
    yokei_rt_keep_list(&yokei_cuda_known, cuda_list_devices, device->cache_dir);
    cuda_describe(cu, nvrtc, yokei_cuda_cublaslt(cu, reason, sizeof reason), id, index, &device->info);
    fill_properties(device);
    yoke_status status = cuda_open_context(device, native);
    if (!status) status = yokei_gpu_programs_create(device);
    if (status) cuda_close(device);
    return status;
}

static const struct yoke_device_extras device_extras = {
    .facts = yokei_gpu_variant_facts,
    .detail = yokei_gpu_variant_detail,
    .algorithm = yokei_gpu_algorithm,
    .counts = yokei_rt_counts,
    .products = yokei_cuda_cublaslt_text,
    .products_used = yokei_rt_products_used,
    .product_set = yokei_rt_product_set,
    .ahead = yokei_cuda_ahead,
    .annotate = yokei_rt_annotate,
    .pin = yokei_rt_pin,
    .unpin = yokei_rt_unpin,
};
static const struct yoke_device_ops device_ops = {
    .open = cuda_open,
    .close = cuda_close,
    .memory = yokei_rt_memory,
    .variant = yokei_gpu_variant_name,
    .extras = &device_extras,
};

#define ENTRY(op) [YOKE_OP_##op] = &yokei_gpu_##op,
const struct yoke_backend yokei_backend_cuda = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "cuda",
    .summary = "NVIDIA GPUs by the CUDA driver: kernels compiled at run time by NVRTC",
    .probe = cuda_probe,
    .device = &device_ops,
    .memory = &yokei_rt_memory_ops,
    .stream = &yokei_rt_stream_ops,
    .event = &yokei_rt_event_ops,
    .ops = { YOKE_ALL_OPS(ENTRY) },
};
