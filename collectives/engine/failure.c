/* SPDX-License-Identifier: Apache-2.0 */
/* A rank that cannot take part in an operation fails its communicator. */
#include "collectives/engine/engine.h"

yoke_status yokei_give_up(yoke_comm *comm, yoke_status status)
{
    char why[sizeof comm->failure.text - 128];
    if (!status || status == YOKE_EINVAL || atomic_load(&comm->failure.error)) return status;
    yokei_text(why, sizeof why, "%s", yoke_last_error());
    yokei_comm_fail(comm, status, yokei_process.world_rank,
                    "communicator \"%s\": rank %d cannot take part: %s", comm->name, comm->rank, why);
    yokei_settle_failure(comm);
    return yokei_sticky(comm);
}

yoke_status yokei_give_up_outside(yoke_comm *comm, yoke_status status)
{
    if (!status) return YOKE_OK;
    pthread_mutex_lock(&yokei_process.lock);
    status = yokei_give_up(comm, status);
    pthread_mutex_unlock(&yokei_process.lock);
    return status;
}
