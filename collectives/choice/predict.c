/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of an operation by the cost model. What differs between algorithms is in their own files. The
 * rates were measured with all ranks at work, so nothing is divided by the number of cores.
 */
#include "collectives/choice/choice.h"

#include "collectives/algorithms/algorithms.h"

/* Seconds per 1e9 bytes are nanoseconds per byte. The result is in microseconds. */
static double at_rate(double bytes, double gbps) { return gbps > 0 ? bytes / (gbps * 1e3) : 0; }

double yokei_predict(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    const struct yokei_costs *c = &comm->costs;
    const bool on_host = yokei_algorithm_reach(yokei_algorithm_id(op->algorithm)) == YOKE_REACH_ON_HOST;
    const bool slices = op->kind == YOKEI_ALL_GATHER || op->kind == YOKEI_GATHER;
    const double p = comm->size,
                 all = (double)op->count * (double)yoke_dtype_bytes(on_host ? op->dtype : op->wire);
    struct yokei_effort effort = { .all = all, .own = all / (slices ? p : 1), .steps = p - 1 };
    if (comm->size == 1 || (on_host ? c->shared_gbps : c->message_gbps) <= 0) return 0; /* not measured */
    effort.sent = effort.own;
    effort.summed = yokei_reduces(op) ? 2 * effort.own : 0;
    if (op->algorithm->effort) op->algorithm->effort(op, &effort);
    return effort.steps * c->message_us + effort.syncs * c->sync_us + at_rate(effort.sent, c->message_gbps)
           + at_rate(effort.touched, yokei_is_long(op) ? c->long_gbps : c->shared_gbps)
           + at_rate(effort.summed, c->sum_gbps);
}
