/* SPDX-License-Identifier: Apache-2.0 */
/**
 * OpenCL devices. They are numbered over all platforms, in the order of the platforms. A device is opened
 * with a context and a memory mode.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/gpu/families.h"
#include "backends/opencl/opencl.h"
#include "core/base/emulated.h"

struct found {
    cl_platform_id platform;
    cl_device_id id;
};

static void platform_text(const struct opencl_library *cl, cl_platform_id platform, cl_platform_info what,
                          char *text, size_t bytes)
{
    text[0] = '\0';
    if (cl->clGetPlatformInfo(platform, what, bytes, text, NULL)) yokei_text(text, bytes, "?");
}

static void device_text(const struct opencl_library *cl, cl_device_id id, cl_device_info what, char *text,
                        size_t bytes)
{
    text[0] = '\0';
    if (cl->clGetDeviceInfo(id, what, bytes, text, NULL)) yokei_text(text, bytes, "?");
}

#define DEVICE_VALUE(cl, id, what, variable) \
    (cl)->clGetDeviceInfo(id, what, sizeof(variable), &(variable), NULL)

static bool is_pocl(const struct opencl_library *cl, cl_platform_id platform)
{
    char name[64];
    platform_text(cl, platform, CL_PLATFORM_NAME, name, sizeof name);
    return !strcmp(name, "Portable Computing Language");
}

static void opencl_explain_no_device(const struct opencl_library *cl, const cl_platform_id *platforms,
                                     cl_uint n_platforms, char *reason, size_t reason_bytes)
{
    char folder[4096];
    for (cl_uint p = 0; p < n_platforms; p++) {
        const int error = is_pocl(cl, platforms[p]) ? yokei_pocl_cache(folder, sizeof folder) : 0;
        if (!error) continue;
        yokei_text(
            reason, reason_bytes,
            "PoCL has no device, because it cannot make its folder for compiled programs, %.800s (%s): set POCL_CACHE_DIR to a folder that "
            "can be written",
            folder, strerror(error));
        return;
    }
    yokei_text(reason, reason_bytes, "libOpenCL finds %u platform(s) but no device on them", n_platforms);
}

/** List the devices of all platforms, at most `capacity`. If there is none, `reason` says why. */
static int opencl_list_devices(const struct opencl_library *cl, struct found *found, int capacity,
                               char *reason, size_t reason_bytes)
{
    cl_platform_id platforms[16];
    cl_uint n_platforms = 0;
    int n = 0;
    cl_int error = cl->clGetPlatformIDs(YOKE_COUNT(platforms), platforms, &n_platforms);
    if (error || !n_platforms) {
        yokei_text(
            reason, reason_bytes,
            "libOpenCL finds no platform (%s); install a vendor's OpenCL driver, or pocl-opencl-icd for the CPU",
            error ? yokei_opencl_error_name(error) : "/etc/OpenCL/vendors is empty");
        return 0;
    }
    for (cl_uint p = 0; p < YOKE_MIN(n_platforms, YOKE_COUNT(platforms)); p++) {
        cl_device_id ids[YOKE_MAX_DEVICES];
        cl_uint n_ids = 0;
        if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, YOKE_COUNT(ids), ids, &n_ids)) continue;
        for (cl_uint d = 0; d < YOKE_MIN(n_ids, YOKE_COUNT(ids)) && n < capacity; d++)
            found[n++] = (struct found){ platforms[p], ids[d] };
    }
    if (!n)
        opencl_explain_no_device(cl, platforms, YOKE_MIN(n_platforms, YOKE_COUNT(platforms)), reason,
                                 reason_bytes);
    return n;
}

/** Whether a list of extensions, separated by spaces, contains `name`. */
static bool has_extension(const char *extensions, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = extensions; (at = strstr(at, name)); at += n)
        if ((at == extensions || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0')) return true;
    return false;
}

/** The properties that decide how a device is used, in addition to its info. */
struct traits {
    bool is_cpu, svm, unified, exact_division;
    size_t max_group, local_bytes;
    int vector_floats;
};

static struct traits traits_of(const struct opencl_library *cl, cl_device_id id)
{
    struct traits t = { .max_group = 1 };
    cl_device_type type = 0;
    cl_bool unified = CL_FALSE;
    cl_device_svm_capabilities svm = 0;
    cl_device_fp_config single = 0;
    cl_ulong local = 0;
    cl_uint vector_floats = 1;
    DEVICE_VALUE(cl, id, CL_DEVICE_TYPE, type);
    DEVICE_VALUE(cl, id, CL_DEVICE_HOST_UNIFIED_MEMORY, unified);
    if (DEVICE_VALUE(cl, id, CL_DEVICE_SVM_CAPABILITIES, svm)) svm = 0;
    DEVICE_VALUE(cl, id, CL_DEVICE_SINGLE_FP_CONFIG, single);
    DEVICE_VALUE(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE, t.max_group);
    DEVICE_VALUE(cl, id, CL_DEVICE_LOCAL_MEM_SIZE, local);
    DEVICE_VALUE(cl, id, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, vector_floats);
    t.is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    t.unified = unified == CL_TRUE;
    t.svm = cl->has_svm && (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
    t.exact_division = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    t.local_bytes = (size_t)local;
    t.vector_floats = (int)vector_floats;
    return t;
}

/*
 * The vendor of the device, and not of the platform: PoCL also drives GPUs of NVIDIA. A device of type CPU is
 * the host's CPU. The vendors' numbers are those of PCI.
 */
static const char *vendor_of(const struct opencl_library *cl, cl_device_id id, bool is_cpu)
{
    static const struct {
        cl_uint number;
        const char *text, *name;
    } vendors[] = { { 0x10de, "NVIDIA", "nvidia" },
                    { 0x1002, "AMD", "amd" },
                    { 0x1022, "Advanced Micro Devices", "amd" },
                    { 0x8086, "Intel", "intel" } };
    char text[64];
    cl_uint number = 0;
    if (is_cpu) return "host";
    device_text(cl, id, CL_DEVICE_VENDOR, text, sizeof text);
    DEVICE_VALUE(cl, id, CL_DEVICE_VENDOR_ID, number);
    for (size_t i = 0; i < YOKE_COUNT(vendors); i++)
        if (number == vendors[i].number || strstr(text, vendors[i].text)) return vendors[i].name;
    return "other";
}

static void opencl_describe(const struct opencl_library *cl, cl_platform_id platform, cl_device_id id,
                            int index, bool svm, struct yoke_device_info *info)
{
    char version[128], driver[64], extensions[8192];
    cl_ulong memory = 0, most = 0;
    cl_uint units = 0;
    struct traits t = traits_of(cl, id);
    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->index = index;
    yokei_text(info->backend, sizeof info->backend, "opencl");
    yokei_text(info->spec, sizeof info->spec, "opencl:%d", index);
    yokei_text(info->vendor, sizeof info->vendor, "%s", vendor_of(cl, id, t.is_cpu));
    device_text(cl, id, CL_DEVICE_NAME, info->name, sizeof info->name);
    device_text(cl, id, CL_DRIVER_VERSION, driver, sizeof driver);
    platform_text(cl, platform, CL_PLATFORM_VERSION, version, sizeof version);
    yokei_text(info->driver, sizeof info->driver, "%s (%s)", driver, version);
    DEVICE_VALUE(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE, memory);
    DEVICE_VALUE(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, most);
    DEVICE_VALUE(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS, units);
    device_text(cl, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    info->memory_bytes = memory;
    info->max_alloc_bytes = most;
    info->compute_units = (int)units;
    info->host_visible = svm && t.unified;
    info->storage = 1u << YOKE_F32 | 1u << YOKE_F16
                    | 1u << YOKE_BF16; /* 16-bit storage is a part of core OpenCL C */
    bool half = has_extension(extensions, "cl_khr_fp16"),
         subgroups = has_extension(extensions, "cl_khr_subgroups");
    info->arithmetic = 1u << YOKE_F32 | (half ? 1u << YOKE_F16 : 0)
                       | (has_extension(extensions, "cl_khr_fp64") ? 1u << YOKE_F64 : 0);
    yokei_text(info->features, sizeof info->features, "%s %s %s %s%s group=%zu local=%zuKiB vector=%d%s",
               t.is_cpu ? "cpu" : "gpu", svm ? "svm-fine" : "buffer-offsets", half ? "fp16" : "no-fp16",
               subgroups ? "subgroups" : "no-subgroups", t.unified ? " host-unified" : "", t.max_group,
               t.local_bytes >> 10, t.vector_floats, t.exact_division ? " exact-division" : "");
}

/**
 * The address of a GPU on the PCI bus, from the extension of Khronos, of NVIDIA or of AMD. False: the driver
 * does not tell it.
 */
static bool opencl_address(const struct opencl_library *cl, cl_device_id id, cl_device_pci_bus_info_khr *out)
{
    enum { NV_BUS = 0x4008, NV_SLOT = 0x4009, NV_DOMAIN = 0x400a }; /* cl_nv_device_attribute_query */
    char extensions[8192];
    cl_uint bus, slot;
    cl_device_topology_amd amd;
    device_text(cl, id, CL_DEVICE_EXTENSIONS, extensions, sizeof extensions);
    memset(out, 0, sizeof *out);
    if (has_extension(extensions, "cl_khr_pci_bus_info")
        && !DEVICE_VALUE(cl, id, CL_DEVICE_PCI_BUS_INFO_KHR, *out))
        return true;
    if (has_extension(extensions, "cl_nv_device_attribute_query") && !DEVICE_VALUE(cl, id, NV_BUS, bus)
        && !DEVICE_VALUE(cl, id, NV_SLOT, slot)) {
        if (DEVICE_VALUE(cl, id, NV_DOMAIN, out->pci_domain)) out->pci_domain = 0; /* an older driver */
        out->pci_bus = bus;
        out->pci_device = slot >> 3;
        out->pci_function = slot & 7;
        return true;
    }
    if (!has_extension(extensions, "cl_amd_device_attribute_query")
        || DEVICE_VALUE(cl, id, CL_DEVICE_TOPOLOGY_AMD, amd)
        || amd.raw.type != CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD)
        return false;
    out->pci_bus = (cl_uchar)amd.pcie.bus;
    out->pci_device = (cl_uchar)amd.pcie.device;
    out->pci_function = (cl_uchar)amd.pcie.function;
    return true;
}

/** Add this address to the features, for yoke_discover. */
static void opencl_add_address(const struct opencl_library *cl, cl_device_id id,
                               struct yoke_device_info *info)
{
    const size_t used = strlen(info->features);
    cl_device_pci_bus_info_khr at;
    if (traits_of(cl, id).is_cpu || !opencl_address(cl, id, &at)) return;
    yokei_text(info->features + used, sizeof info->features - used, YOKEI_PCI_FEATURE, at.pci_domain,
               at.pci_bus, at.pci_device, at.pci_function);
}

/** Choose one of the two memory modes. YOKE_OPENCL_ADDRESS=svm|buffer forces one; it is read at each open. */
static yoke_status choose_memory(const struct traits *traits, bool *svm_out)
{
    const char *mode = getenv("YOKE_OPENCL_ADDRESS");
    if (!mode || !*mode)
        *svm_out = traits->svm;
    else if (!strcmp(mode, "buffer"))
        *svm_out = false;
    else if (strcmp(mode, "svm") != 0)
        return yoke_fail(YOKE_ECONFIG, "YOKE_OPENCL_ADDRESS is '%s'; it may be svm or buffer", mode);
    else if (!traits->svm)
        return yoke_fail(YOKE_ENODEV,
                         "YOKE_OPENCL_ADDRESS=svm: this device has no fine-grained shared virtual memory");
    else
        *svm_out = true;
    return YOKE_OK;
}

static void opencl_probe(struct yoke_probe *out)
{
    struct found found[YOKE_MAX_DEVICES];
    memset(out, 0, sizeof *out);
    const struct opencl_library *cl = yokei_opencl_library(out->reason, sizeof out->reason);
    if (!cl) return;
    out->n_devices = opencl_list_devices(cl, found, YOKE_MAX_DEVICES, out->reason, sizeof out->reason);
    for (int i = 0; i < out->n_devices; i++) {
        struct traits traits = traits_of(cl, found[i].id);
        bool svm = traits.svm;
        if (choose_memory(&traits, &svm)) svm = traits.svm;
        opencl_describe(cl, found[i].platform, found[i].id, i, svm, &out->devices[i]);
        opencl_add_address(cl, found[i].id, &out->devices[i]);
    }
}

static yoke_status opencl_find_by_index(const struct opencl_library *cl, int index, struct found *out)
{
    struct found found[YOKE_MAX_DEVICES];
    char reason[YOKE_REASON_BYTES] = "";
    int n = opencl_list_devices(cl, found, YOKE_MAX_DEVICES, reason, sizeof reason);
    if (!n) return yoke_fail(YOKE_ENODEV, "opencl:%d: %s", index, reason);
    if (index < 0 || index >= n)
        return yoke_fail(YOKE_ENODEV, "opencl:%d: there %s opencl:0%s%d", index,
                         n > 1 ? "are only" : "is only", n > 1 ? " to opencl:" : ", index ", n - 1);
    *out = found[index];
    return YOKE_OK;
}

/** Find the platform of a foreign device, and the index of the device in Yoke's list. */
static yoke_status opencl_find_native(const struct opencl_library *cl, const struct yoke_native *native,
                                      struct found *out, int *index_out)
{
    struct found found[YOKE_MAX_DEVICES];
    char reason[YOKE_REASON_BYTES];
    if (!native->context || !native->device)
        return yoke_fail(
            YOKE_EINVAL,
            "opencl: wrapping a device needs native.context (cl_context) and native.device (cl_device_id)");
    int n = opencl_list_devices(cl, found, YOKE_MAX_DEVICES, reason, sizeof reason);
    out->id = native->device;
    for (*index_out = 0; *index_out < n; ++*index_out)
        if (found[*index_out].id == out->id) {
            out->platform = found[*index_out].platform;
            return YOKE_OK;
        }
    *index_out = 0; /* a sub-device is in no list */
    cl_int error = DEVICE_VALUE(cl, out->id, CL_DEVICE_PLATFORM, out->platform);
    return error ? yoke_fail(YOKE_EINVAL, "opencl: native.device is no OpenCL device: %s",
                             yokei_opencl_error_name(error))
                 : YOKE_OK;
}

/**
 * A cached program must have the bits that compiling it again would give. With this variable Intel's runtime
 * for CPUs adds in another order.
 */
static void set_identity(const struct opencl_library *cl, const struct found *found, bool exact_division,
                         char *text, size_t bytes)
{
    const char *vectorizer = getenv("CL_CONFIG_CPU_VECTORIZER_MODE");
    char name[128], vendor[64], version[128], driver[64], platform[64], platform_version[128];
    device_text(cl, found->id, CL_DEVICE_NAME, name, sizeof name);
    device_text(cl, found->id, CL_DEVICE_VENDOR, vendor, sizeof vendor);
    device_text(cl, found->id, CL_DEVICE_VERSION, version, sizeof version);
    device_text(cl, found->id, CL_DRIVER_VERSION, driver, sizeof driver);
    platform_text(cl, found->platform, CL_PLATFORM_NAME, platform, sizeof platform);
    platform_text(cl, found->platform, CL_PLATFORM_VERSION, platform_version, sizeof platform_version);
    yokei_text(text, bytes, "%s|%s|%s|%s|%s|%s|%d%s%s", name, vendor, version, driver, platform,
               platform_version, exact_division, vectorizer ? "|vectorizer " : "",
               vectorizer ? vectorizer : "");
}

static void opencl_close(yoke_device *device)
{
    struct opencl_device *ocl = opencl_device(device);
    yokei_gpu_programs_destroy(device);
    yokei_opencl_addresses_destroy(&ocl->addresses);
    if (ocl->context) ocl->cl->clReleaseContext(ocl->context);
    free(ocl->pocl_cache);
    free(ocl);
    device->impl = NULL;
}

static yoke_status opencl_open_context(yoke_device *device, const struct found *found,
                                       const struct yoke_native *native)
{
    struct opencl_device *ocl = opencl_device(device);
    cl_int error;
    if (native) {
        error = ocl->cl->clRetainContext(native->context);
        if (error) return yokei_opencl_fail(device, "clRetainContext", error);
        ocl->context = native->context;
        return YOKE_OK;
    }
    cl_context_properties properties[] = { CL_CONTEXT_PLATFORM, (cl_context_properties)found->platform, 0 };
    ocl->context = ocl->cl->clCreateContext(properties, 1, &found->id, NULL, NULL, &error);
    return error ? yokei_opencl_fail(device, "clCreateContext", error) : YOKE_OK;
}

/**
 * Whether PoCL's own cache is on (POCL_KERNEL_CACHE). PoCL keeps programs on disk itself, per kernel and
 * group size. If it is asked for a binary, it compiles every kernel a second time. So Yoke's cache would only
 * double the time of the first start.
 */
static bool caches_itself(const struct opencl_library *cl, cl_platform_id platform)
{
    const char *on = getenv("POCL_KERNEL_CACHE");
    return is_pocl(cl, platform) && (!on || strcmp(on, "0") != 0);
}

static yoke_status find_pocl_cache(yoke_device *device, const struct found *found)
{
    struct opencl_device *ocl = opencl_device(device);
    char folder[4096];
    if (!is_pocl(ocl->cl, found->platform)) return YOKE_OK;
    yokei_pocl_cache(folder, sizeof folder);
    ocl->pocl_cache = strdup(folder);
    return ocl->pocl_cache ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "%s: no host memory", device->info.spec);
}

static yoke_status opencl_open(yoke_device *device, int index, const struct yoke_native *native)
{
    char reason[YOKE_REASON_BYTES];
    struct found found;
    const struct opencl_library *cl = yokei_opencl_library(reason, sizeof reason);
    if (!cl) return yoke_fail(YOKE_ENODEV, "opencl:%d: %s", index, reason);
    YOKE_TRY(yokei_opencl_check_process(index));
    YOKE_TRY(native ? opencl_find_native(cl, native, &found, &index)
                    : opencl_find_by_index(cl, index, &found));
    struct traits traits = traits_of(cl, found.id);
    bool svm = traits.svm;
    YOKE_TRY(choose_memory(&traits, &svm));
    struct opencl_device *ocl = calloc(1, sizeof *ocl);
    if (!ocl) return yoke_fail(YOKE_ENOMEM, "opencl:%d: no host memory", index);
    device->impl = ocl;
    opencl_describe(cl, found.platform, found.id, index, svm, &device->info);
    *ocl = (struct opencl_device){
        .gpu = { .driver = &yokei_opencl_driver,
                 .is_cpu = traits.is_cpu,
                 .vector_floats = traits.vector_floats,
                 .warp = 1,
                 .compute_units = device->info.compute_units,
                 /* binaries contain the kernels as they were launched, which then start at once */
                 .late_binaries = is_pocl(cl, found.platform),
                 .max_group = (int)YOKE_MIN(traits.max_group, (size_t)1 << 20),
                 .local_bytes = traits.local_bytes },
        .cl = cl,
        .id = found.id,
        .svm = svm,
        .unified = traits.unified,
        .exact_division = traits.exact_division,
    };
    if (caches_itself(cl, found.platform)) device->cache_dir[0] = '\0';
    set_identity(cl, &found, traits.exact_division, ocl->gpu.identity, sizeof ocl->gpu.identity);
    yokei_opencl_addresses_create(&ocl->addresses);
    yoke_status status = find_pocl_cache(device, &found);
    if (!status) status = yokei_opencl_pocl_check(device);
    if (!status) status = opencl_open_context(device, &found, native);
    if (!status) status = yokei_gpu_programs_create(device);
    if (status) opencl_close(device);
    return status;
}

static yoke_status opencl_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out)
{
    uint64_t total = device->info.memory_bytes,
             used = atomic_load(&((yoke_device *)(uintptr_t)device)->allocated);
    uint64_t left = total > used ? total - used
                                 : 0; /* OpenCL does not say how much memory other processes use */
    uint64_t host_left, host_total;
    if (opencl_device(device)->unified && !yokei_host_memory(device, &host_left, &host_total))
        left = YOKE_MIN(left, host_left);
    *free_out = left;
    *total_out = total;
    return YOKE_OK;
}

static const struct yoke_device_ops device_ops = {
    .open = opencl_open, .close = opencl_close, .memory = opencl_memory, .variant = yokei_gpu_variant_name
};

#define ENTRY(op) [YOKE_OP_##op] = &yokei_gpu_##op,
const struct yoke_backend yokei_backend_opencl = {
    .abi = YOKE_BACKEND_ABI,
    .size = sizeof(struct yoke_backend),
    .name = "opencl",
    .summary = "any OpenCL 1.2 device: kernels compiled at run time, 16-bit storage without cl_khr_fp16",
    .probe = opencl_probe,
    .device = &device_ops,
    .memory = &yokei_opencl_memory_ops,
    .stream = &yokei_opencl_stream_ops,
    .event = &yokei_opencl_event_ops,
    .ops = { YOKE_ALL_OPS(ENTRY) },
};
