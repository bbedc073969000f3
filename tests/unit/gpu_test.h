/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers for tests of devices that launch kernels: open an OpenCL device in a given memory mode, or skip the
 * test.
 */
#ifndef TESTS_UNIT_GPU_TEST_H
#define TESTS_UNIT_GPU_TEST_H

#include "tests/unit/test.h"

#include "backends/gpu/launch.h"
#include "backends/opencl/opencl.h"
#include <stdlib.h>

static const char *const gpu_modes[] = { "svm", "buffer" };

/**
 * Open opencl:0 with the memory mode `mode`: "svm" (shared virtual memory), "buffer", or NULL for the
 * device's own choice. Returns NULL if there is no such device.
 */
static inline yoke_device *gpu_open(const char *mode, const char *cache_dir)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.cache_dir = cache_dir;
    if (mode)
        setenv("YOKE_OPENCL_ADDRESS", mode, 1);
    else
        unsetenv("YOKE_OPENCL_ADDRESS");
    yoke_device *device = NULL;
    yoke_status status = yoke_device_open("opencl:0", &config, &device);
    unsetenv("YOKE_OPENCL_ADDRESS");
    if (status != YOKE_ENODEV) assert_ok(status);
    return device;
}

/** Open the device `device`, or skip the test if there is no such device. */
#define GPU_OPEN(device, mode, cache_dir)                    \
    yoke_device *device = gpu_open(mode, cache_dir);         \
    if (!device) {                                           \
        print_message("no device: %s\n", yoke_last_error()); \
        skip();                                              \
    }

/**
 * Compute z = x + y on n floats. The arrays are in host memory; the function allocates and frees device
 * memory.
 */
static inline yoke_status gpu_add(yoke_stream *stream, const float *x, const float *y, float *z, size_t n)
{
    yoke_device *device = yoke_stream_device(stream);
    float *d;
    YOKE_TRY(yoke_alloc(device, 2 * n * sizeof(float), (void **)&d));
    yoke_status status;
    YOKE_TRY_GOTO(yoke_copy_to_device(stream, d, x, n * sizeof(float)), out);
    YOKE_TRY_GOTO(yoke_copy_to_device(stream, d + n, y, n * sizeof(float)), out);
    YOKE_TRY_GOTO(yoke_add(stream,
                           &YOKE_ARGS(add, .dtype = YOKE_F32, .n = (int64_t)n, .x = d, .y = d + n, .z = d)),
                  out);
    YOKE_TRY_GOTO(yoke_copy_to_host(stream, z, d, n * sizeof(float)), out);
    YOKE_TRY_GOTO(yoke_stream_sync(stream), out);
out:
    yoke_free(device, d);
    return status;
}

#endif
