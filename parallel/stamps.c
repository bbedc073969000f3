/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/stamps.h"
#include "core/base/base.h"

#include <stdlib.h>

struct yokei_stamps {
    yoke_event *origin;
    uint64_t origin_ns; /* when the origin was complete, by the host's clock */
    int n;
    yoke_event **events; /* [2 n]: before and behind each instruction */
};

yoke_status yokei_stamps_create(yoke_device *device, int n, struct yokei_stamps **stamps_out)
{
    *stamps_out = NULL;
    if (!yokei_times_events(device)) return YOKE_OK;
    struct yokei_stamps *s = calloc(1, sizeof *s);
    if (s) s->events = calloc(2 * (size_t)n + 1, sizeof *s->events);
    if (!s || !s->events) {
        free(s);
        return yoke_fail(YOKE_ENOMEM, "times of a step: no host memory for %d instructions", n);
    }
    s->n = n;
    yoke_status status = yokei_timed_event_create(device, &s->origin);
    for (int i = 0; i < 2 * n && !status; i++) status = yokei_timed_event_create(device, &s->events[i]);
    if (status) {
        yokei_stamps_free(s);
        return status;
    }
    *stamps_out = s;
    return YOKE_OK;
}

void yokei_stamps_free(struct yokei_stamps *s)
{
    if (!s) return;
    for (int i = 0; i < 2 * s->n; i++) yoke_event_destroy(s->events[i]);
    yoke_event_destroy(s->origin);
    free(s->events);
    free(s);
}

yoke_status yokei_stamps_start(struct yokei_stamps *s, yoke_stream *stream)
{
    YOKE_TRY(yoke_event_record(s->origin, stream));
    YOKE_TRY(yoke_stream_sync(stream));
    s->origin_ns = yokei_now_ns();
    return YOKE_OK;
}

yoke_status yokei_stamps_begin(struct yokei_stamps *s, int n, yoke_stream *stream)
{
    return yoke_event_record(s->events[2 * n], stream);
}

yoke_status yokei_stamps_end(struct yokei_stamps *s, int n, yoke_stream *stream)
{
    return yoke_event_record(s->events[2 * n + 1], stream);
}

static yoke_status time_of(const struct yokei_stamps *s, const yoke_event *event, uint64_t *ns_out)
{
    double seconds = 0;
    YOKE_TRY(yokei_event_seconds(s->origin, event, &seconds));
    *ns_out = s->origin_ns + (uint64_t)(YOKE_MAX(seconds, 0) * 1e9);
    return YOKE_OK;
}

yoke_status yokei_stamps_read(const struct yokei_stamps *s, int n, uint64_t *begin_out, uint64_t *end_out)
{
    bool complete = false;
    *begin_out = *end_out = 0;
    YOKE_TRY(yoke_event_query(s->events[2 * n + 1], &complete));
    if (!complete) return YOKE_OK;
    YOKE_TRY(time_of(s, s->events[2 * n], begin_out));
    return time_of(s, s->events[2 * n + 1], end_out);
}
