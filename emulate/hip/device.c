/* SPDX-License-Identifier: Apache-2.0 */
/* The devices, their properties, and the device of each thread. Source of the numbers: as in models.c. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "emulate/hip/hip.h"

static __thread int current;

/* A context needs no call that makes it: the first use of a device does. */
enum emulate_error hip_current(struct context **context_out)
{
    if (current >= emulate_settings.n_visible) return EMULATE_INVALID_DEVICE;
    struct context *context = &emulate_contexts[current];
    *context_out = context;
    return context->active ? EMULATE_OK : emulate_context_open(context);
}

/* ---- initialisation ---- */

/* Old versions say that the device is wrong where there is none. */
hipError_t hipInit(unsigned int flags)
{
    if (flags) return hip_result(EMULATE_INVALID_VALUE);
    enum emulate_error error = emulate_enter_plain();
    if (!error) emulate_unlock();
    if (error == EMULATE_NO_DEVICE && hip_settings.major < 6) error = EMULATE_INVALID_DEVICE;
    return hip_result(error);
}

hipError_t hipRuntimeGetVersion(int *version_out)
{
    const enum emulate_error error = emulate_enter_plain();
    if (!error) emulate_unlock();
    if (error && error != EMULATE_NO_DEVICE) return hip_result(error);
    if (!version_out) return hip_result(EMULATE_INVALID_VALUE);
    *version_out = hip_settings.major * 10000000 + hip_settings.minor * 100000;
    return hip_result(EMULATE_OK);
}

hipError_t hipDriverGetVersion(int *version_out) { return hipRuntimeGetVersion(version_out); }

hipError_t hipGetDeviceCount(int *count_out)
{
    const enum emulate_error error = emulate_call_device(count_out, 0);
    if (count_out) *count_out = error ? 0 : emulate_settings.n_visible;
    return hip_result(error);
}

hipError_t hipSetDevice(int device)
{
    const enum emulate_error error = emulate_call_device(&current, device);
    if (!error) current = device;
    return hip_result(error);
}

hipError_t hipGetDevice(int *device_out)
{
    const enum emulate_error error = emulate_call_device(device_out, current);
    if (!error) *device_out = current;
    return hip_result(error);
}

hipError_t hipDeviceGet(hipDevice_t *device_out, int ordinal)
{
    const enum emulate_error error = emulate_call_device(device_out, ordinal);
    if (!error) *device_out = ordinal;
    return hip_result(error);
}

hipError_t hipDeviceReset(void)
{
    enum emulate_error error = emulate_call_device(&current, current);
    if (error) return hip_result(error);
    emulate_lock();
    struct context *context = &emulate_contexts[current];
    if (context->active) error = emulate_context_close(context);
    return hip_result(emulate_leave(error));
}

/* ---- properties ---- */

static void make_name(char *name_out, size_t bytes)
{
    snprintf(name_out, bytes, "Yoke stand-in GPU, %s", hip_settings.model->name);
}

hipError_t hipDeviceGetName(char *name_out, int bytes, hipDevice_t device)
{
    const enum emulate_error error = emulate_call_device(name_out, device);
    if (!error && bytes > 0) make_name(name_out, (size_t)bytes);
    return hip_result(!error && bytes <= 0 ? EMULATE_INVALID_VALUE : error);
}

hipError_t hipDeviceGetUuid(hipUUID *uuid_out, hipDevice_t device)
{
    const enum emulate_error error = emulate_call_device(uuid_out, device);
    if (!error) emulate_device_uuid("yoke-hip", device, uuid_out->bytes);
    return hip_result(error);
}

hipError_t hipDeviceTotalMem(size_t *bytes_out, hipDevice_t device)
{
    const enum emulate_error error = emulate_call_device(bytes_out, device);
    if (!error) *bytes_out = emulate_settings.memory;
    return hip_result(error);
}

/* The bus on which the n-th device is. CUDA's devices have the numbers from 1 on. */
static int bus_of(int device) { return 0x41 + emulate_settings.visible[device]; }

hipError_t hipDeviceGetPCIBusId(char *id_out, int bytes, int device)
{
    const enum emulate_error error = emulate_call_device(id_out, device);
    if (error) return hip_result(error);
    char id[16];
    const int length = snprintf(id, sizeof id, "0000:%02x:00.0", bus_of(device));
    if (bytes <= length) return hip_result(EMULATE_INVALID_VALUE);
    memcpy(id_out, id, (size_t)length + 1);
    return hip_result(EMULATE_OK);
}

hipError_t hipDeviceCanAccessPeer(int *can_out, int device, int peer)
{
    enum emulate_error error = emulate_call_device(can_out, device);
    if (!error) error = emulate_call_device(can_out, peer);
    if (!error) *can_out = 0;
    return hip_result(error);
}

hipError_t hipDeviceGetStreamPriorityRange(int *least_out, int *greatest_out)
{
    if (least_out) *least_out = 1;
    if (greatest_out) *greatest_out = -1;
    return hip_result(EMULATE_OK);
}

struct row {
    int number, value;
};

/* The attributes that the table does not have are 0, as AMD's runtime says of what AMD's devices lack. */
static bool attribute_value(int number, int device, int *value_out)
{
    const struct hip_model *m = hip_settings.model;
    const uint64_t memory = emulate_settings.memory;
    const struct row rows[] = {
        { hipDeviceAttributeEccEnabled, 1 },
        { hipDeviceAttributeCanMapHostMemory, 1 },
        { hipDeviceAttributeClockRate, m->clock_khz },
        { hipDeviceAttributeConcurrentKernels, 1 },
        { hipDeviceAttributeL2CacheSize, m->l2_bytes },
        { hipDeviceAttributeComputeCapabilityMajor, m->target > 0xfff ? 11 : 9 },
        { hipDeviceAttributeMaxBlockDimX, 1024 },
        { hipDeviceAttributeMaxBlockDimY, 1024 },
        { hipDeviceAttributeMaxBlockDimZ, 1024 },
        { hipDeviceAttributeMaxGridDimX, 2147483647 },
        { hipDeviceAttributeMaxGridDimY, 65535 },
        { hipDeviceAttributeMaxGridDimZ, 65535 },
        { hipDeviceAttributeMaxThreadsPerBlock, 1024 },
        { hipDeviceAttributeMaxThreadsPerMultiProcessor, m->threads_per_unit },
        { hipDeviceAttributeMemoryBusWidth, m->bus_bits },
        { hipDeviceAttributeMemoryClockRate, m->memory_clock_khz },
        { hipDeviceAttributeMultiprocessorCount, emulate_settings.multiprocessors },
        { hipDeviceAttributePhysicalMultiProcessorCount, emulate_settings.multiprocessors },
        { hipDeviceAttributePciBusId, bus_of(device) },
        { hipDeviceAttributeMaxRegistersPerBlock, m->registers },
        { hipDeviceAttributeMaxRegistersPerMultiprocessor, m->registers },
        { hipDeviceAttributeMaxSharedMemoryPerBlock, m->shared_bytes },
        { hipDeviceAttributeTotalConstantMemory, 2147483647 },
        { hipDeviceAttributeTotalGlobalMem, memory < 2147483647 ? (int)memory : 2147483647 },
        { hipDeviceAttributeUnifiedAddressing, 1 },
        { hipDeviceAttributeWarpSize, m->lanes },
        { hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, m->shared_bytes },
        { hipDeviceAttributeIsLargeBar, 1 },
        { hipDeviceAttributeCanUseStreamWaitValue, 1 },
        { hipDeviceAttributeFineGrainSupport, 1 },
    };
    const bool known = (number >= 0 && number <= 90) || (number >= 10000 && number <= 10020);
    *value_out = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].number == number) *value_out = rows[i].value;
    return known;
}

hipError_t hipDeviceGetAttribute(int *value_out, hipDeviceAttribute_t attribute, int device)
{
    const enum emulate_error error = emulate_call_device(value_out, device);
    if (error) return hip_result(error);
    return hip_result(attribute_value((int)attribute, device, value_out) ? EMULATE_OK
                                                                         : EMULATE_INVALID_VALUE);
}

/* ---- the struct of all properties ---- */

/*
 * hipDeviceProp_t has two layouts. hipGetDeviceProperties fills the first one in all versions, and
 * hipGetDevicePropertiesR0600, which version 6 brought, the second. The stand-in fills the members that are
 * declared, and the rest with zeros.
 */
struct properties_5 {
    char name[256];
    size_t memory, shared_bytes;
    int registers, lanes, threads, block[3], grid[3], clock_khz, memory_clock_khz, bus_bits;
    char rest[16];
    int units;
    char before_processor[56];
    char processor[256];
    char behind_processor[140];
};
struct properties_6 {
    char name[256], uuid[16], rest[16];
    size_t memory, shared_bytes;
    int registers, lanes;
    char before_threads[8];
    int threads;
    char before_units[64];
    int units;
    char before_processor[768];
    char processor[256];
    char behind_processor[56];
};
_Static_assert(sizeof(struct properties_5) == 792 && offsetof(struct properties_5, processor) == 396
                   && offsetof(struct properties_5, units) == 336,
               "the layout of HIP 5");
_Static_assert(sizeof(struct properties_6) == 1472 && offsetof(struct properties_6, processor) == 1160
                   && offsetof(struct properties_6, units) == 388,
               "the layout of HIP 6");

hipError_t hipGetDeviceProperties(hipDeviceProp_t *properties_out, int device)
{
    const enum emulate_error error = emulate_call_device(properties_out, device);
    if (error) return hip_result(error);
    const struct hip_model *m = hip_settings.model;
    struct properties_5 p = { .memory = emulate_settings.memory,
                              .shared_bytes = (size_t)m->shared_bytes,
                              .registers = m->registers,
                              .lanes = m->lanes,
                              .threads = 1024,
                              .block = { 1024, 1024, 1024 },
                              .grid = { 2147483647, 65535, 65535 },
                              .clock_khz = m->clock_khz,
                              .memory_clock_khz = m->memory_clock_khz,
                              .bus_bits = m->bus_bits,
                              .units = emulate_settings.multiprocessors };
    make_name(p.name, sizeof p.name);
    snprintf(p.processor, sizeof p.processor, "%s", m->full_name);
    memcpy((void *)properties_out, &p, sizeof p);
    return hip_result(EMULATE_OK);
}

hipError_t hipGetDevicePropertiesR0600(void *properties_out, int device)
{
    const enum emulate_error error = emulate_call_device(properties_out, device);
    if (error) return hip_result(error);
    if (hip_settings.major < 6) return hip_result(EMULATE_NOT_SUPPORTED);
    const struct hip_model *m = hip_settings.model;
    struct properties_6 p = { .memory = emulate_settings.memory,
                              .shared_bytes = (size_t)m->shared_bytes,
                              .registers = m->registers,
                              .lanes = m->lanes,
                              .threads = 1024,
                              .units = emulate_settings.multiprocessors };
    make_name(p.name, sizeof p.name);
    emulate_device_uuid("yoke-hip", device, p.uuid);
    snprintf(p.processor, sizeof p.processor, "%s", m->full_name);
    memcpy(properties_out, &p, sizeof p);
    return hip_result(EMULATE_OK);
}
