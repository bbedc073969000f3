/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a call's arguments, before anything is sent. */
#include "collectives/call/call.h"

yoke_status yokei_check_comm(const char *call, yoke_comm *comm, yoke_stream *stream)
{
    if (!comm) return yoke_fail(YOKE_EINVAL, "%s: no communicator", call);
    YOKE_TRY(yokei_check_process(call, comm));
    YOKE_TRY(yokei_sticky(comm));
    if (!stream) return YOKE_OK;
    if (!comm->device)
        return yoke_fail(YOKE_EINVAL,
                         "%s: communicator \"%s\" was created without a device, so it takes no stream", call,
                         comm->name);
    if (yoke_stream_device(stream) != comm->device)
        return yoke_fail(YOKE_EINVAL, "%s: the stream is not of the device of communicator \"%s\"", call,
                         comm->name);
    return YOKE_OK;
}

yoke_status yokei_check_buffer(const char *call, const char *what, const void *buffer, size_t count,
                               yoke_dtype dtype)
{
    if ((unsigned)dtype >= YOKE_N_DTYPES)
        return yoke_fail(YOKE_EINVAL, "%s: unknown data type %d", call, (int)dtype);
    const size_t bytes = yoke_dtype_bytes(dtype);
    if (count > SIZE_MAX / 2 / bytes)
        return yoke_fail(YOKE_EINVAL, "%s: count %zu is too large", call, count);
    if (!buffer && count)
        return yoke_fail(YOKE_EINVAL, "%s: %s is NULL, and count is %zu", call, what, count);
    if ((uintptr_t)buffer % bytes)
        return yoke_fail(YOKE_EINVAL, "%s: %s is not aligned to the %zu bytes of %s", call, what, bytes,
                         yoke_dtype_name(dtype));
    return YOKE_OK;
}

yoke_status yokei_check_reduction(const char *call, yoke_dtype dtype, yoke_reduction op)
{
    if ((unsigned)op >= YOKE_N_REDUCTIONS)
        return yoke_fail(YOKE_EINVAL, "%s: unknown reduction %d", call, (int)op);
    if (op == YOKE_AVG && (dtype == YOKE_I32 || dtype == YOKE_I64 || dtype == YOKE_I8 || dtype == YOKE_U8))
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: the average of %s is no %s: use sum and divide", call,
                         yoke_dtype_name(dtype), yoke_dtype_name(dtype));
    return YOKE_OK;
}

/* The two buffers may be the same where the call allows it. Any other overlap is an error. */
yoke_status yokei_check_overlap(const char *call, const void *send, size_t send_bytes, const void *recv,
                                size_t recv_bytes, size_t send_offset, size_t recv_offset)
{
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    if (!send_bytes || !recv_bytes || s + send_bytes <= r || r + recv_bytes <= s) return YOKE_OK;
    if (s + send_offset == r + recv_offset) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL,
                     "%s: send and recv overlap; in place they are the same memory at the rank's slice",
                     call);
}

yoke_status yokei_check_peer(const char *call, const yoke_comm *comm, int peer, const char *what)
{
    if (peer >= 0 && peer < comm->size) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %s %d is not in communicator \"%s\" of %d ranks", call, what, peer,
                     comm->name, comm->size);
}
