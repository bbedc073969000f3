/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The times of ops on a device that measures times between events. The stream records one event before an
 * op and one after it. So within a step the host does not wait, and the device runs the ops as in any other
 * step.
 */
#ifndef PARALLEL_OP_TIMES_H
#define PARALLEL_OP_TIMES_H

#include "parallel/observer.h"

struct yokei_op_times;

/** Whether the times of this device's ops are measured in this way. */
bool yokei_op_times_offered(const yoke_observer *observer);
/**
 * Record the event before the op that the observer is told of, or the event after it. If a few hundred ops
 * are not reported yet, the first call reports them. Errors: YOKE_ENOMEM, YOKE_EBACKEND.
 */
yoke_status yokei_op_times_begin(yoke_observer *observer);
yoke_status yokei_op_times_end(yoke_observer *observer);
/** Block until the timed ops have ended, and report them to the profile's function, in their order. */
yoke_status yokei_op_times_report(yoke_observer *observer);
void yokei_op_times_free(yoke_observer *observer);

#endif
