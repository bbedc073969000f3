/* SPDX-License-Identifier: Apache-2.0 */
/* Primary contexts. */
#include <stdlib.h>

#include "emulate/cuda/driver.h"

static CUresult device_of(CUdevice device, struct CUctx_st **context_out)
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

static CUresult activate(struct CUctx_st *context)
{
    const struct device_model *model = emulate_model(emulate_settings.capability);
    context->ordinal = (int)(context - emulate_contexts);
    context->limits = (struct ptx_limits){
        .grid = { 2147483647, 65535, 65535 },
        .block = { 1024, 1024, 64 },
        .threads = 1024,
        .shared_bytes = (uint32_t)model->shared_most,
        .compute_capability = (uint32_t)emulate_settings.capability,
    };
    CUresult result = emulate_memory_open(context);
    if (!result && !emulate_share_fits(context)) result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) return result;
    context->ending = context->stop = false;
    result = emulate_stream_new(context, 0, &context->legacy);
    context->active = !result;
    emulate_share_update(context);
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context_out, CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (!context_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    /* A device that failed stays so until the process ends. */
    if (context->lost) return emulate_leave(context->lost);
    if (emulate_fails(FAIL_BUSY)) return emulate_leave(CUDA_ERROR_DEVICE_UNAVAILABLE);
    if (!context->active) result = activate(context);
    if (result) return emulate_leave(result);
    context->references++;
    *context_out = context;
    return emulate_leave(CUDA_SUCCESS);
}

static CUresult deactivate(struct CUctx_st *context)
{
    context->ending = true;
    emulate_progress();
    const CUresult result = emulate_context_wait(context, false);
    emulate_streams_end(context);
    if (!result && emulate_report_leaks(context)) emulate_leaks_found();
    emulate_modules_end(context);
    static const enum kind kinds[] = { KIND_STREAM, KIND_EVENT };
    for (int i = 0; i < 2; i++) {
        for (struct object *object; (object = emulate_object_any(context, kinds[i]));) {
            if (kinds[i] == KIND_EVENT) emulate_mark_drop(((struct CUevent_st *)object)->last);
            emulate_object_remove(object);
            free(object);
        }
    }
    emulate_memory_close(context);
    emulate_order_end(context);
    context->active = false;
    emulate_share_update(context);
    context->references = 0;
    context->legacy = NULL;
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (!context->active) return emulate_leave(CUDA_ERROR_INVALID_CONTEXT);
    if (--context->references == 0) result = deactivate(context);
    return emulate_leave(result);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    struct CUctx_st *context;
    CUresult result = device_of(device, &context);
    if (result) return result;
    if (context->active) result = deactivate(context);
    return emulate_leave(result);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags_out, int *active_out)
{
    struct CUctx_st *context;
    const CUresult result = device_of(device, &context);
    if (result) return result;
    if (!flags_out || !active_out) return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    *flags_out = context->flags;
    *active_out = context->active;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    struct CUctx_st *context;
    const CUresult result = device_of(device, &context);
    if (result) return result;
    /* At most one of the ways to wait: spin 1, yield 2, block 4. */
    const unsigned schedule = flags & 7;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK || (schedule & (schedule - 1)))
        return emulate_leave(CUDA_ERROR_INVALID_VALUE);
    context->flags = flags;
    return emulate_leave(CUDA_SUCCESS);
}

CUresult cuCtxSynchronize(void)
{
    struct CUctx_st *context;
    const CUresult result = emulate_enter(&context);
    return result ? result : emulate_leave(emulate_context_wait(context, false));
}
