/* SPDX-License-Identifier: Apache-2.0 */
/* The devices and their properties. Source of the numbers: as in models.c. */
#include <stdio.h>
#include <string.h>

#include "emulate/cuda/cuda.h"

#define KIB 1024

CUresult cuInit(unsigned int flags)
{
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    emulate_lock();
    return emulate_leave(emulate_init());
}

CUresult cuDriverGetVersion(int *version_out)
{
    if (!version_out) return CUDA_ERROR_INVALID_VALUE;
    *version_out = 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count_out)
{
    const CUresult result = emulate_call_device(count_out, 0);
    if (!result) *count_out = emulate_settings.n_visible;
    return result;
}

CUresult cuDeviceGet(CUdevice *device_out, int ordinal)
{
    const CUresult result = emulate_call_device(device_out, ordinal);
    if (!result) *device_out = ordinal;
    return result;
}

CUresult cuDeviceGetName(char *name_out, int bytes, CUdevice device)
{
    const CUresult result = emulate_call_device(name_out, device);
    if (result) return result;
    if (bytes <= 0) return CUDA_ERROR_INVALID_VALUE;
    const int capability = cuda_settings.capability;
    snprintf(name_out, (size_t)bytes, "Yoke stand-in GPU, compute capability %d.%d", capability / 10,
             capability % 10);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid_out, CUdevice device)
{
    const CUresult result = emulate_call_device(uuid_out, device);
    if (result) return result;
    emulate_device_uuid("yoke-gpu", device, uuid_out->bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes_out, CUdevice device)
{
    const CUresult result = emulate_call_device(bytes_out, device);
    if (!result) *bytes_out = emulate_settings.memory;
    return result;
}

CUresult cuDeviceGetPCIBusId(char *id_out, int bytes, CUdevice device)
{
    const CUresult result = emulate_call_device(id_out, device);
    if (result) return result;
    char id[16];
    const int length = snprintf(id, sizeof id, "0000:%02X:00.0", 1 + emulate_settings.visible[device]);
    if (bytes <= length) return CUDA_ERROR_INVALID_VALUE;
    memcpy(id_out, id, (size_t)length + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can_out, CUdevice device, CUdevice peer)
{
    const CUresult result = emulate_call_device(can_out, device);
    if (result) return result;
    if (emulate_call_device(can_out, peer)) return CUDA_ERROR_INVALID_DEVICE;
    *can_out = 0;
    return CUDA_SUCCESS;
}

struct attribute {
    int number, value;
};

/*
 * The attributes that are the same for all devices; those up to the last one of CUDA 13.0 that no table
 * has are 0.
 */
enum { LAST_ATTRIBUTE = 147 };
// clang-format off
static const struct attribute fixed[] = {
    {  1, 1024 },       /* MAX_THREADS_PER_BLOCK */
    {  2, 1024 }, {  3, 1024 }, {  4, 64 },            /* MAX_BLOCK_DIM_X, Y, Z */
    {  5, 2147483647 }, {  6, 65535 }, {  7, 65535 },  /* MAX_GRID_DIM_X, Y, Z */
    {  8, 48 * KIB },   /* MAX_SHARED_MEMORY_PER_BLOCK */
    {  9, 64 * KIB },   /* TOTAL_CONSTANT_MEMORY */
    { 10, 32 },         /* WARP_SIZE */
    { 11, 2147483647 }, /* MAX_PITCH */
    { 12, 65536 },      /* MAX_REGISTERS_PER_BLOCK */
    { 14, 512 },        /* TEXTURE_ALIGNMENT */
    { 15, 1 },          /* GPU_OVERLAP */
    { 19, 1 },          /* CAN_MAP_HOST_MEMORY */
    { 21, 131072 }, { 22, 131072 }, { 23, 65536 },     /* MAXIMUM_TEXTURE1D_WIDTH, 2D_WIDTH, 2D_HEIGHT */
    { 24, 16384 }, { 25, 16384 }, { 26, 16384 },       /* MAXIMUM_TEXTURE3D_* */
    { 30, 512 },        /* SURFACE_ALIGNMENT */
    { 31, 1 },          /* CONCURRENT_KERNELS */
    { 32, 1 },          /* ECC_ENABLED */
    { 40, 3 },          /* ASYNC_ENGINE_COUNT */
    { 41, 1 },          /* UNIFIED_ADDRESSING */
    { 51, 32 },         /* TEXTURE_PITCH_ALIGNMENT */
    { 78, 1 }, { 79, 1 }, { 80, 1 },                   /* STREAM_PRIORITIES, GLOBAL_L1, LOCAL_L1 */
    { 82, 65536 },      /* MAX_REGISTERS_PER_MULTIPROCESSOR */
    { 87, 2 },          /* SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO */
    { 90, 1 },          /* COMPUTE_PREEMPTION_SUPPORTED */
    { 92, 1 }, { 94, 1 }, { 122, 0 }, { 123, 1 },      /* stream memory operations: 32 bits, with NOR */
    { 99, 1 },          /* HOST_REGISTER_SUPPORTED */
    { 111, KIB },       /* RESERVED_SHARED_MEMORY_PER_BLOCK */
};
// clang-format on

static bool of_model(int attribute, int device, int *value_out)
{
    const struct settings *s = &emulate_settings;
    const struct device_model *m = cuda_model(cuda_settings.capability);
    const struct attribute rows[] = {
        { 13, m->clock_khz },
        { 16, s->multiprocessors },
        { 20, s->fail_at[FAIL_BUSY] ? 3 : 0 }, /* COMPUTE_MODE: exclusive process, or default */
        { 33, 1 + s->visible[device] },        /* PCI_BUS_ID */
        { 36, m->memory_clock_khz },
        { 37, m->bus_bits },
        { 38, m->l2_bytes },
        { 39, m->threads_per_multiprocessor },
        { 75, cuda_settings.capability / 10 },
        { 76, cuda_settings.capability % 10 },
        { 81, m->shared_per_multiprocessor },
        { 97, m->shared_most }, /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
        { 106, m->blocks_per_multiprocessor },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].number != attribute) continue;
        *value_out = rows[i].value;
        return true;
    }
    return false;
}

CUresult cuDeviceGetAttribute(int *value_out, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult result = emulate_call_device(value_out, device);
    if (result) return result;
    if (attribute < 1 || attribute > LAST_ATTRIBUTE) return CUDA_ERROR_INVALID_VALUE;
    if (of_model(attribute, device, value_out)) return CUDA_SUCCESS;
    *value_out = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (fixed[i].number == attribute) *value_out = fixed[i].value;
    return CUDA_SUCCESS;
}
