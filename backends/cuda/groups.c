/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The groups of a stream's commands. Commands in a row that belong to one op form a group. If the context is
 * lost, the first group that has not ended names the op.
 */
#include "backends/cuda/cuda.h"

yoke_status yokei_cuda_mark(yoke_stream *stream)
{
    struct cuda_stream *s = cuda_stream(stream);
    if (s->marked) return YOKE_OK;
    const CUresult error = cuda_device(stream->device)
                               ->cu->cuStreamWriteValue32_v2(s->queue, s->done.at, atomic_load(&s->group),
                                                             CU_STREAM_WRITE_VALUE_DEFAULT);
    if (error) return yokei_cuda_fail(stream->device, "cuStreamWriteValue32", error);
    s->marked = true;
    return YOKE_OK;
}

yoke_status yokei_cuda_command(yoke_stream *stream)
{
    struct cuda_stream *s = cuda_stream(stream);
    const uint32_t group = atomic_load(&s->group);
    if (!s->marked && atomic_load(&s->ops[group % CUDA_FOLLOWED]) == stream->last_op) return YOKE_OK;
    YOKE_TRY(yokei_cuda_mark(stream));
    atomic_store(&s->ops[(group + 1) % CUDA_FOLLOWED], stream->last_op);
    atomic_store(&s->group, group + 1);
    s->marked = false;
    return YOKE_OK;
}
