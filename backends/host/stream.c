/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies and fills of the host backend, by all threads. Streams and events are those of every backend that
 * computes on the calling thread.
 */
#include "backends/host/host.h"

#include <string.h>

struct move {
    char *target;
    const char *source; /* NULL: fill */
    uint8_t byte;
};

static void move_range(const void *context, int64_t from, int64_t to)
{
    const struct move *m = context;
    if (m->source)
        memmove(m->target + from, m->source + from, (size_t)(to - from));
    else
        memset(m->target + from, m->byte, (size_t)(to - from));
}

enum { MOVE_GRAIN = 1 << 18 };

static yoke_status stream_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target,
                               const void *source, size_t bytes)
{
    (void)kind;
    const struct move m = { target, source, 0 };
    const char *t = target, *s = source;
    if (t < s + bytes
        && s < t + bytes) /* the ranges overlap, and pieces in parallel would read what other threads wrote */
        memmove(target, source, bytes);
    else
        host_for(stream, (int64_t)bytes, MOVE_GRAIN, move_range, &m);
    return YOKE_OK;
}

static yoke_status stream_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    const struct move m = { target, NULL, byte };
    host_for(stream, (int64_t)bytes, MOVE_GRAIN, move_range, &m);
    return YOKE_OK;
}

const struct yoke_stream_ops host_stream_ops = YOKEI_EAGER_STREAM_OPS(stream_copy, stream_fill);
