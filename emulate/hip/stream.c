/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's calls for streams and events. */
#include <stdlib.h>

#include "emulate/hip/hip.h"

hipError_t hipStreamCreateWithPriority(hipStream_t *stream_out, unsigned int flags, int priority)
{
    (void)priority; /* priorities promise nothing */
    const bool good = !(flags & ~(unsigned)hipStreamNonBlocking);
    const bool blocking = !(flags & hipStreamNonBlocking);
    return hip_result(emulate_call_stream_create(flags, blocking, good ? stream_out : NULL));
}

hipError_t hipStreamCreateWithFlags(hipStream_t *stream_out, unsigned int flags)
{
    return hipStreamCreateWithPriority(stream_out, flags, 0);
}

hipError_t hipStreamCreate(hipStream_t *stream_out) { return hipStreamCreateWithPriority(stream_out, 0, 0); }

hipError_t hipStreamDestroy(hipStream_t stream) { return hip_result(emulate_call_stream_destroy(stream)); }

hipError_t hipStreamSynchronize(hipStream_t stream)
{
    return hip_result(emulate_call_stream_synchronize(stream));
}

hipError_t hipStreamQuery(hipStream_t stream) { return hip_result(emulate_call_stream_query(stream)); }

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned int *flags_out)
{
    return hip_result(emulate_call_stream_flags(stream, flags_out));
}

hipError_t hipStreamGetDevice(hipStream_t handle, hipDevice_t *device_out)
{
    struct context *context;
    struct stream *stream;
    const enum emulate_error error = emulate_stream_enter(handle, &context, &stream);
    if (error) return hip_result(error);
    if (device_out) *device_out = context->ordinal;
    return hip_result(emulate_leave(device_out ? EMULATE_OK : EMULATE_INVALID_VALUE));
}

hipError_t hipDeviceSynchronize(void) { return hip_result(emulate_call_synchronize()); }

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *user_data)
{
    return hip_result(emulate_call_stream_call(stream, function, user_data, NULL));
}

struct callback {
    hipStreamCallback_t function;
    hipStream_t stream;
    void *user_data;
};

static void run_callback(void *argument)
{
    const struct callback *callback = argument;
    callback->function(callback->stream, hipSuccess, callback->user_data);
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void *user_data,
                                unsigned int flags)
{
    if (!function || flags) return hip_result(EMULATE_INVALID_VALUE);
    struct callback *callback = malloc(sizeof *callback);
    if (!callback) return hip_result(EMULATE_OUT_OF_MEMORY);
    *callback = (struct callback){ function, stream, user_data };
    return hip_result(emulate_call_stream_call(stream, run_callback, callback, callback));
}

/* ---- events ---- */

/*
 * HIP: an event that releases to the device alone says nothing of the caches that the host sees. So the host
 * does not see what was written to non-coherent memory before such an event. Events without flags are the
 * same where ROC_EVENT_NO_FLUSH is set.
 */
hipError_t hipEventCreateWithFlags(hipEvent_t *event_out, unsigned int flags)
{
    const unsigned disable_system_fence = 0x20000000u; /* hipEventDisableSystemFence of newer versions */
    const unsigned known = hipEventBlockingSync | hipEventDisableTiming | hipEventReleaseToDevice
                           | hipEventReleaseToSystem | disable_system_fence;
    const unsigned both = hipEventReleaseToDevice | hipEventReleaseToSystem;
    if (flags & hipEventInterprocess) return hip_result(EMULATE_NOT_SUPPORTED);
    const bool good = !(flags & ~known) && (flags & both) != both;
    const enum emulate_error error = emulate_call_event_create(flags, flags & hipEventDisableTiming,
                                                               good ? event_out : NULL);
    if (!error) (*event_out)->is_local = !(flags & hipEventReleaseToSystem) || flags & disable_system_fence;
    return hip_result(error);
}

hipError_t hipEventCreate(hipEvent_t *event_out) { return hipEventCreateWithFlags(event_out, 0); }

hipError_t hipEventDestroy(hipEvent_t event) { return hip_result(emulate_call_event_destroy(event)); }

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream)
{
    return hip_result(emulate_call_event_record(event, stream));
}

hipError_t hipEventQuery(hipEvent_t event) { return hip_result(emulate_call_event_query(event)); }

hipError_t hipEventSynchronize(hipEvent_t event) { return hip_result(emulate_call_event_synchronize(event)); }

hipError_t hipEventElapsedTime(float *milliseconds_out, hipEvent_t start, hipEvent_t end)
{
    return hip_result(emulate_call_event_elapsed(milliseconds_out, start, end));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags)
{
    return hip_result(flags ? EMULATE_INVALID_VALUE : emulate_call_wait_event(stream, event));
}

/* ---- values in memory ---- */

/* HIP's numbers of the comparisons are those of enum comparison. */
_Static_assert((int)WAIT_GEQ == hipStreamWaitValueGte && (int)WAIT_EQ == hipStreamWaitValueEq
                   && (int)WAIT_AND == hipStreamWaitValueAnd && (int)WAIT_NOR == hipStreamWaitValueNor,
               "the same numbers");

/* The stand-in has no masks but the one that keeps all bits. */
hipError_t hipStreamWaitValue32(hipStream_t stream, void *address, uint32_t value, unsigned int flags,
                                uint32_t mask)
{
    if (mask != UINT32_MAX) return hip_result(EMULATE_NOT_SUPPORTED);
    return hip_result(emulate_call_wait_value(stream, (uint64_t)(uintptr_t)address, value, flags));
}

hipError_t hipStreamWriteValue32(hipStream_t stream, void *address, uint32_t value, unsigned int flags)
{
    const uint64_t at = (uint64_t)(uintptr_t)address;
    return hip_result(flags ? EMULATE_INVALID_VALUE : emulate_call_write_value(stream, at, value));
}
