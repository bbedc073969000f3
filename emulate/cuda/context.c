/* SPDX-License-Identifier: Apache-2.0 */
/* Primary contexts. */
#include "emulate/cuda/cuda.h"

static CUresult device_of(CUdevice device, struct context **context_out)
{
    const CUresult result = emulate_enter_plain();
    if (result) return result;
    if (device < 0 || device >= emulate_settings.n_visible) {
        emulate_unlock();
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *context_out = &emulate_contexts[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_out, CUdevice device)
{
    struct context *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (!context_out) return emulate_leave(EMULATE_INVALID_VALUE);
    /* A device that failed stays so until the process ends. */
    if (context->lost) return emulate_leave(context->lost);
    if (emulate_fails(FAIL_BUSY)) return emulate_leave(EMULATE_DEVICE_UNAVAILABLE);
    if (!context->active) result = emulate_context_open(context);
    if (result) return emulate_leave(result);
    context->references++;
    *context_out = context;
    return emulate_leave(EMULATE_OK);
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct context *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (!context->active) return emulate_leave(EMULATE_INVALID_CONTEXT);
    if (--context->references == 0) result = emulate_context_close(context);
    return emulate_leave(result);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct context *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (context->active) result = emulate_context_close(context);
    return emulate_leave(result);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags_out, int *active_out)
{
    struct context *context;
    const CUresult result = device_of(device, &context);
    if (result) return result;
    if (!flags_out || !active_out) return emulate_leave(EMULATE_INVALID_VALUE);
    *flags_out = context->flags;
    *active_out = context->active;
    return emulate_leave(EMULATE_OK);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    struct context *context;
    const CUresult result = device_of(device, &context);
    if (result) return result;
    /* At most one of the ways to wait: spin 1, yield 2, block 4. */
    const unsigned schedule = flags & 7;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK || (schedule & (schedule - 1)))
        return emulate_leave(EMULATE_INVALID_VALUE);
    context->flags = flags;
    return emulate_leave(EMULATE_OK);
}

CUresult cuCtxSynchronize(void) { return emulate_call_synchronize(); }
