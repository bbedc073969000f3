/* SPDX-License-Identifier: Apache-2.0 */
/** Staged copies; staging.h says how they work. */
#include "backends/gpu/staging.h"

#include <stdlib.h>
#include <string.h>

struct piece {
    void *target;
    const void *source;
    size_t bytes;
};

/** Called by the queue, on a thread of the driver. */
static void copy_piece(void *argument)
{
    struct piece *piece = argument;
    memcpy(piece->target, piece->source, piece->bytes);
    free(piece);
}

static yoke_status call_copy(yoke_stream *stream, const struct yokei_gpu_staging *staging, void *target,
                             const void *source, size_t bytes)
{
    struct piece *piece = malloc(sizeof *piece);
    if (!piece) return yokei_gpu_no_host_memory(stream->device, "a copy");
    *piece = (struct piece){ target, source, bytes };
    const yoke_status status = staging->call(stream, copy_piece, piece);
    if (status) free(piece);
    return status;
}

yoke_status yokei_gpu_stage(yoke_stream *stream, const struct yokei_gpu_staging *staging,
                            enum yoke_copy_kind kind, void *target, const void *source, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        char *to = (char *)target + at;
        const char *from = (const char *)source + at;
        n = YOKE_MIN(bytes - at, YOKEI_GPU_SLOT_BYTES);
        if (kind == YOKE_COPY_TO_DEVICE) {
            YOKE_TRY(call_copy(stream, staging, staging->slot, from, n));
            YOKE_TRY(staging->to_device(stream, to, staging->slot, n));
        } else {
            YOKE_TRY(staging->to_host(stream, staging->slot, from, n));
            YOKE_TRY(call_copy(stream, staging, to, staging->slot, n));
        }
    }
    return YOKE_OK;
}
