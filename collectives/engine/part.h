/* SPDX-License-Identifier: Apache-2.0 */
/** What a communicator has for running operations. The files of engine/ own this part of struct yoke_comm. */
#ifndef COLLECTIVES_ENGINE_PART_H
#define COLLECTIVES_ENGINE_PART_H

#include <stdatomic.h>

#include "collectives/operation/operation.h"
#include "core/base/base.h"

struct yokei_work {
    struct yokei_op *queue, **queue_end, *free_ops;
    struct yokei_lane lanes[YOKEI_LANES], *lane_list[YOKEI_LANES];
    struct yokei_lane **pair_send, **pair_recv; /* [size] lanes for send and recv, made when first used */
    const void **inputs;                        /* [size] room for a sum's operands */
    void **outputs;                             /* [size] room for a sum's results */
    struct yokei_wait wait;
    uint32_t n_polls;
    bool watch_soon; /* the thread that waits for this communicator sleeps between two looks */
    /* the groups of the last operation through shared memory; NULL: there was none */
    const struct yokei_hosts *grouped;
    uint64_t bridged;     /* bytes of data sent to ranks of other islands */
    atomic_int n_awaited; /* operations for whose end a thread waits in a call */
};

#endif
