/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Each call of the backend makes the device's context current, and then restores the thread's own. On threads
 * that run no code of the caller, the context of the last call stays current instead, which saves two calls
 * of the driver. With the stand-in driver the depth of the thread's stack of contexts is compared at each
 * entry and exit.
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

/* What this thread's last call found or left. */
static _Thread_local struct {
    uint64_t serial;    /* own threads: the device whose context is current; 0: none */
    bool pushed;        /* other threads: the call must pop the context */
    bool was_current;   /* other threads: the caller had made the context current before the last call */
    unsigned n_unasked; /* other threads: calls since the driver was asked for the current context */
} here = { .was_current = true };

/* After so many calls the driver is asked again whether the caller has made the context current. */
enum { ASK_EVERY = 64 };

static CUresult make_current(const struct cuda_device *dev)
{
    if (here.serial == dev->serial) return CUDA_SUCCESS;
    const CUresult error = dev->cu->cuCtxSetCurrent(dev->context);
    here.serial = error ? 0 : dev->serial;
    return error;
}

/* Asking costs less than both, but a caller that never makes the context current would pay for all. */
static CUresult push(const struct cuda_device *dev)
{
    CUcontext current = NULL;
    here.pushed = false;
    if (here.was_current || ++here.n_unasked >= ASK_EVERY) {
        here.n_unasked = 0;
        here.was_current = !dev->cu->cuCtxGetCurrent(&current) && current == dev->context;
        if (here.was_current) return CUDA_SUCCESS;
    }
    const CUresult error = dev->cu->cuCtxPushCurrent_v2(dev->context);
    here.pushed = !error;
    return error;
}

yoke_status yokei_cuda_enter(const yoke_device *device)
{
    const struct cuda_device *dev = cuda_device(device);
    if (atomic_load(&dev->is_dead)) return yoke_fail(YOKE_EBACKEND, "%s", dev->dead);
    const bool own = yokei_thread_is_own();
    const CUresult error = own ? make_current(dev) : CUDA_SUCCESS;
    check_entry(device);
    const CUresult pushed = own ? CUDA_SUCCESS : push(dev);
    if (error || pushed) entry.is_inside = false;
    return error || pushed ? yokei_cuda_fail(device, "making the context current", error ? error : pushed)
                           : YOKE_OK;
}

void yokei_cuda_leave(const yoke_device *device)
{
    CUcontext context;
    if (!yokei_thread_is_own() && here.pushed) cuda_device(device)->cu->cuCtxPopCurrent_v2(&context);
    check_exit(device);
}

void yokei_cuda_forget(const yoke_device *device)
{
    const struct cuda_device *dev = cuda_device(device);
    if (!dev->serial || here.serial != dev->serial) return;
    here.serial = 0;
    dev->cu->cuCtxSetCurrent(NULL);
}
