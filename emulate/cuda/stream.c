/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's calls for streams and events. */
#include "emulate/cuda/cuda.h"

CUresult cuStreamCreateWithPriority(CUstream *stream_out, unsigned int flags, int priority)
{
    (void)priority; /* a value outside the range counts as the nearest one, and priorities promise nothing */
    const bool good = !(flags & ~(unsigned)CU_STREAM_NON_BLOCKING);
    return emulate_call_stream_create(flags, !(flags & CU_STREAM_NON_BLOCKING), good ? stream_out : NULL);
}

CUresult cuStreamCreate(CUstream *stream_out, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream_out, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream stream) { return emulate_call_stream_destroy(stream); }

CUresult cuStreamSynchronize(CUstream stream) { return emulate_call_stream_synchronize(stream); }

CUresult cuStreamQuery(CUstream stream) { return emulate_call_stream_query(stream); }

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags_out)
{
    return emulate_call_stream_flags(stream, flags_out);
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext *context_out)
{
    struct context *context;
    struct stream *stream;
    const CUresult result = emulate_stream_enter(handle, &context, &stream);
    if (result) return result;
    if (context_out) *context_out = context;
    return emulate_leave(context_out ? EMULATE_OK : EMULATE_INVALID_VALUE);
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *user_data)
{
    return emulate_call_stream_call(stream, function, user_data, NULL);
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *event_out, unsigned int flags)
{
    const bool has_no_time = flags & CU_EVENT_DISABLE_TIMING;
    const bool good = !(flags & ~7u) && (has_no_time || !(flags & CU_EVENT_INTERPROCESS));
    if (good && flags & CU_EVENT_INTERPROCESS) return CUDA_ERROR_NOT_SUPPORTED;
    return emulate_call_event_create(flags, has_no_time, good ? event_out : NULL);
}

CUresult cuEventDestroy_v2(CUevent event) { return emulate_call_event_destroy(event); }

CUresult cuEventRecord(CUevent event, CUstream stream) { return emulate_call_event_record(event, stream); }

CUresult cuEventQuery(CUevent event) { return emulate_call_event_query(event); }

CUresult cuEventSynchronize(CUevent event) { return emulate_call_event_synchronize(event); }

CUresult cuEventElapsedTime_v2(float *milliseconds_out, CUevent start, CUevent end)
{
    return emulate_call_event_elapsed(milliseconds_out, start, end);
}

CUresult cuEventElapsedTime(float *milliseconds_out, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds_out, start, end);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : emulate_call_wait_event(stream, event);
}

/* ---- values in memory ---- */

/* CUDA's numbers of the comparisons are those of enum comparison. */
_Static_assert((int)WAIT_GEQ == CU_STREAM_WAIT_VALUE_GEQ && (int)WAIT_EQ == CU_STREAM_WAIT_VALUE_EQ
                   && (int)WAIT_AND == CU_STREAM_WAIT_VALUE_AND && (int)WAIT_NOR == CU_STREAM_WAIT_VALUE_NOR,
               "the same numbers");

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    return emulate_call_wait_value(stream, address, value, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
    /* the flag of writes, 1, is not a part of this version of the function */
    return flags ? CUDA_ERROR_INVALID_VALUE : emulate_call_write_value(stream, address, value);
}
