/* SPDX-License-Identifier: Apache-2.0 */
/* yoke_comm_explain: what the library would choose for a call. */
#include <string.h>

#include "collectives/call/call.h"
#include "collectives/choice/choice.h"
#include "collectives/engine/engine.h"

yoke_status yoke_comm_explain(yoke_comm *comm, const char *collective, size_t count, yoke_dtype dtype,
                              yoke_reduction reduction, struct yoke_comm_choice *choice_out)
{
    static const char call[] = "yoke_comm_explain";
    if (!comm || !collective || !choice_out) return yoke_fail(YOKE_EINVAL, "%s: a NULL argument", call);
    YOKE_TRY(yokei_check_process(call, comm));
    unsigned kind = 0;
    while (kind < YOKEI_N_KINDS && strcmp(yokei_kind_name(kind), collective)) kind++;
    if (kind == YOKEI_N_KINDS || kind == YOKEI_SEND || kind == YOKEI_RECV || kind == YOKEI_GROUP
        || kind == YOKEI_DESTROY)
        return yoke_fail(
            YOKE_EINVAL,
            "%s: '%s' is none of all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all, gather, scatter, barrier",
            call, collective);
    YOKE_TRY(yokei_check_buffer(call, "buffer", comm, 0, dtype));
    const bool reduces = yokei_kind_reduces(kind);
    if (reduces) YOKE_TRY(yokei_check_reduction(call, dtype, reduction));
    const bool each = kind == YOKEI_REDUCE_SCATTER || kind == YOKEI_ALL_GATHER || kind == YOKEI_GATHER
                      || kind == YOKEI_SCATTER || kind == YOKEI_ALL_TO_ALL;
    if (count > SIZE_MAX / 16 / (size_t)comm->size)
        return yoke_fail(YOKE_EINVAL, "%s: count %zu is too large", call, count);
    struct yokei_op *op;
    pthread_mutex_lock(&yokei_process.lock);
    const yoke_status status = yokei_op_new(comm, (enum yokei_kind)kind, &op);
    if (!status) {
        op->count = kind == YOKEI_BARRIER ? 0 : count * (each ? (size_t)comm->size : 1);
        op->dtype = dtype;
        op->reduction = reduction;
        op->root = kind == YOKEI_BROADCAST || kind == YOKEI_REDUCE || kind == YOKEI_GATHER
                           || kind == YOKEI_SCATTER
                       ? 0
                       : -1;
        yokei_choose(op, NULL, NULL);
        yokei_explain_choice(op, choice_out);
        yokei_op_free(op);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    return status;
}

uint64_t yoke_comm_bridged(const yoke_comm *comm)
{
    if (!comm) return 0;
    pthread_mutex_lock(&yokei_process.lock);
    const uint64_t bytes = comm->work.bridged;
    pthread_mutex_unlock(&yokei_process.lock);
    return bytes;
}
