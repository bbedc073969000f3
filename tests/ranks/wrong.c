/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library to preload, with a wrong all_gather: on rank 1 it changes the last bit of the middle element, if
 * the elements are f32 and there are enough of them.
 */
#include <dlfcn.h>
#include <yoke/comm.h>

yoke_status yoke_all_gather(const void *send, void *recv, size_t send_count, yoke_dtype dtype,
                            yoke_comm *comm, yoke_stream *stream)
{
    yoke_status (*right)(const void *, void *, size_t, yoke_dtype, yoke_comm *, yoke_stream *);
    *(void **)&right = dlsym(RTLD_NEXT, "yoke_all_gather");
    const yoke_status status = right(send, recv, send_count, dtype, comm, stream);
    if (!status && dtype == YOKE_F32 && send_count >= 256 && yoke_comm_rank(comm) == 1)
        ((char *)recv)[send_count * (size_t)yoke_comm_size(comm) * 2] ^= 1;
    return status;
}
