/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Each call of the backend makes the device's context current, and then restores the thread's own. With the
 * stand-in driver the depth of the thread's stack of contexts is compared at each entry and exit.
 */
#include <stdio.h>

#include "backends/cuda/cuda.h"

/* The depth of this thread's stack before its last entry. `is_inside` is true until the call leaves. */
static _Thread_local struct {
    bool is_inside;
    int depth;
} entry;

static void check_entry(const yoke_device *device)
{
    const struct cuda_annotations *say = &cuda_device(device)->cu->say;
    char text[200];
    if (!say->stack_depth) return;
    const int depth = say->stack_depth();
    if (entry.is_inside && depth > entry.depth) {
        snprintf(text, sizeof text, "%s: an earlier call of the CUDA backend has not popped its context",
                 device->info.spec);
        say->leak(text);
    }
    entry.is_inside = true;
    entry.depth = depth;
}

static void check_exit(const yoke_device *device)
{
    const struct cuda_annotations *say = &cuda_device(device)->cu->say;
    char text[200];
    if (!say->stack_depth) return;
    entry.is_inside = false;
    if (say->stack_depth() == entry.depth) return;
    snprintf(text, sizeof text,
             "%s: a call of the CUDA backend leaves %d contexts on the thread's stack, where %d were before",
             device->info.spec, say->stack_depth(), entry.depth);
    say->leak(text);
}

yoke_status yokei_cuda_enter(const yoke_device *device)
{
    const struct cuda_device *dev = cuda_device(device);
    if (atomic_load(&dev->is_dead)) return yoke_fail(YOKE_EBACKEND, "%s", dev->dead);
    check_entry(device);
    const CUresult error = dev->cu->cuCtxPushCurrent_v2(dev->context);
    if (error) entry.is_inside = false;
    return error ? yokei_cuda_fail(device, "cuCtxPushCurrent", error) : YOKE_OK;
}

void yokei_cuda_leave(const yoke_device *device)
{
    CUcontext context;
    cuda_device(device)->cu->cuCtxPopCurrent_v2(&context);
    check_exit(device);
}
