/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/op_times.h"
#include "core/base/base.h"

#include <stdlib.h>

enum { MOST = 512 };

struct yokei_op_times {
    int n; /* ops that are not reported yet */
    struct timed {
        const char *layer, *call, *op;
        struct yoke_cost cost;
        yoke_event *before, *after; /* they are made at the first use, and used again */
    } ops[MOST];
};

bool yokei_op_times_offered(const yoke_observer *o)
{
    return yokei_times_events(yoke_stream_device(o->stream));
}

yoke_status yokei_op_times_begin(yoke_observer *o)
{
    if (!o->times && !(o->times = calloc(1, sizeof *o->times)))
        return yoke_fail(YOKE_ENOMEM, "the profile of a step: no host memory");
    if (o->times->n == MOST) YOKE_TRY(yokei_op_times_report(o));
    struct timed *t = &o->times->ops[o->times->n];
    yoke_device *device = yoke_stream_device(o->stream);
    if (!t->before) YOKE_TRY(yokei_timed_event_create(device, &t->before));
    if (!t->after) YOKE_TRY(yokei_timed_event_create(device, &t->after));
    return yoke_event_record(t->before, o->stream);
}

yoke_status yokei_op_times_end(yoke_observer *o)
{
    struct timed *t = &o->times->ops[o->times->n];
    t->layer = o->layer, t->call = o->call, t->op = o->op, t->cost = o->cost;
    YOKE_TRY(yoke_event_record(t->after, o->stream));
    o->times->n++;
    return YOKE_OK;
}

yoke_status yokei_op_times_report(yoke_observer *o)
{
    const int n = o->times ? o->times->n : 0;
    if (!n) return YOKE_OK;
    o->times->n = 0;
    YOKE_TRY(yoke_stream_sync(o->stream));
    for (int i = 0; i < n; i++) {
        const struct timed *t = &o->times->ops[i];
        double seconds = 0;
        YOKE_TRY(yokei_event_seconds(t->before, t->after, &seconds));
        if (o->profile)
            o->profile(o->profile_context, t->layer, t->call, t->op, &t->cost, YOKE_MAX(seconds, 0.0));
    }
    return YOKE_OK;
}

void yokei_op_times_free(yoke_observer *o)
{
    if (!o->times) return;
    for (int i = 0; i < MOST; i++) {
        yoke_event_destroy(o->times->ops[i].before);
        yoke_event_destroy(o->times->ops[i].after);
    }
    free(o->times);
    o->times = NULL;
}
