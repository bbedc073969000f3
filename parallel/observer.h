/* SPDX-License-Identifier: Apache-2.0 */
/** What stands behind YOKE_CALL: a planner that records ops and their costs, or a profiler that times them. */
#ifndef PARALLEL_OBSERVER_H
#define PARALLEL_OBSERVER_H

#include <yoke/train.h>

/** One op that a layer's call issues. */
struct yokei_op {
    const char *name;
    double flops, bytes;
    size_t scratch_bytes;
};

struct yoke_observer {
    bool runs;               /* profiler; else planner */
    const char *layer, *call; /* what is being observed, for messages and profiles */
    struct yoke_cost cost;   /* of the op in hand */
    yoke_status status;
    /* planner */
    struct yokei_op *ops;
    int n_ops, capacity;
    size_t scratch_bytes;    /* the most that any op wants */
    /* profiler */
    yoke_stream *stream;
    const char *op;
    uint64_t begun_ns;
    yoke_profile_function profile;
    void *profile_context;
};

void yokei_observer_free(yoke_observer *observer);

#endif
