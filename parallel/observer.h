/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The observer behind the macro YOKE_CALL, with which layers call ops. An observer is either a planner, which
 * records ops and their costs without running them, or a profiler, which runs ops and measures their times.
 */
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
    bool runs;                /* true: a profiler; false: a planner */
    const char *layer, *call; /* the layer and its call that are observed, for messages and profiles */
    struct yoke_cost cost;    /* cost of the current op */
    yoke_status status;
    /* planner */
    struct yokei_op *ops;
    int n_ops, capacity;
    size_t scratch_bytes; /* largest scratch memory of any op */
    /* profiler */
    yoke_stream *stream;
    const char *op;
    uint64_t begun_ns;
    struct yokei_op_times *times; /* of a device that measures times itself; NULL until it is needed */
    yoke_profile_function profile;
    void *profile_context;
};

/** Let a planner record ops [first, first + n) again, as the next ones. */
yoke_status yokei_observer_repeat(yoke_observer *observer, int first, int n);
void yokei_observer_free(yoke_observer *observer);

#endif
