/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of failures, and questions about what another rank does. They go to ranks of this host through
 * shared memory, and to all other ranks as control messages.
 */
#include <string.h>

#include "collectives/faults/report.h"

#include "collectives/faults/call_check.h"
#include "collectives/faults/far.h"
#include "collectives/transport/mpi.h"
#include "collectives/transport/shm.h"

static const uint64_t FLUSH_NS = 20000000;

void yokei_record_failure(const yoke_comm *comm)
{
    struct yokei_flight_file *file = yokei_process.flight;
    memcpy(file->error, comm->failure.text, sizeof file->error);
    atomic_store(&file->status, (uint32_t)atomic_load(&comm->failure.error));
    atomic_store(&file->culprit, comm->failure.culprit);
    atomic_store(&file->comm, comm->uid);
    atomic_store(&file->heartbeat_ns, yokei_now_ns());
    atomic_store_explicit(&file->state, YOKEI_RANK_FAILED, memory_order_release);
    if (yokei_process.run_dir[0] && yokei_has_far(comm)) yokei_flight_publish(file);
}

void yokei_report_failure(yoke_comm *comm)
{
    const yoke_status status = (yoke_status)atomic_load(&comm->failure.error);
    const bool may_call = yokei_may_call_mpi();
    struct yokei_control message = { .kind = YOKEI_CONTROL_ERROR,
                                     .origin = comm->rank,
                                     .culprit = comm->failure.culprit,
                                     .status = (int32_t)status };
    memcpy(message.text, comm->failure.text, sizeof message.text);
    comm->failure.unreported = !may_call;
    bool sent = false;
    for (int r = 0; r < comm->size; r++) {
        const bool is_culprit = status == YOKE_EDEAD
                                && comm->peers[r].info.world_rank == comm->failure.culprit;
        if (r == comm->rank || is_culprit || yokei_shm_alarm(comm, r, &message) || !may_call) continue;
        sent |= yokei_mpi_control_send(comm, r, &message);
    }
    if (sent) yokei_mpi_control_flush(comm, FLUSH_NS);
}

static void fill_state(const yoke_comm *comm, struct yokei_control *message)
{
    const struct yokei_op *op = comm->work.queue;
    message->origin = comm->rank;
    message->state = op ? YOKEI_RANK_INSIDE : YOKEI_RANK_OUTSIDE;
    message->waits_for = op ? op->waits_for : YOKEI_WAITS_FOR_NONE;
    message->moved_ns = op ? YOKE_MAX(op->progress_ns, op->network_ns) : 0;
    if (op)
        message->header = op->header;
    else if (comm->calls.sequence)
        message->header = comm->calls.recent[comm->calls.sequence % YOKEI_RECENT];
}

/*
 * Act on a message. An error without a culprit is some rank's own. That rank logs it, so it is not logged
 * here.
 */
static void receive(yoke_comm *comm, const struct yokei_control *message)
{
    const int from = message->origin;
    if (from < 0 || from >= comm->size || atomic_load(&comm->failure.error)) return;
    struct yokei_peer *peer = &comm->peers[from];
    if (message->kind == YOKEI_CONTROL_ERROR) {
        yokei_comm_fail_as(comm, (yoke_status)message->status, message->culprit, message->text,
                           message->culprit < 0 ? 0 : YOKEI_FAIL_LOG);
        return;
    }
    peer->watch.view_ns = yokei_now_ns();
    peer->watch.view_waits_for = message->waits_for;
    peer->watch.view_moved_ns = message->moved_ns;
    peer->watch.view_state = message->state;
    peer->watch.view_sequence = message->header.sequence;
    if (message->header.kind != YOKEI_SEND && message->header.sequence
        && yokei_check_probe(comm, from, &message->header))
        return;
    if (message->kind == YOKEI_CONTROL_PROBE) {
        struct yokei_control answer = { .kind = YOKEI_CONTROL_STATE };
        fill_state(comm, &answer);
        yokei_mpi_control_send(comm, from, &answer);
    }
}

void yokei_receive_reports(yoke_comm *comm)
{
    const struct yokei_control *report = yokei_shm_alarmed(comm);
    struct yokei_control message;
    if (report && !atomic_load(&comm->failure.error)) receive(comm, report);
    while (!atomic_load(&comm->failure.error) && yokei_mpi_control_next(comm, &message))
        receive(comm, &message);
}

void yokei_probe(yoke_comm *comm, struct yokei_op *op, uint64_t now)
{
    op->probed_ns = now;
    /* At the end a rank may be gone already. A message to it would keep MPI from finalising. */
    if (op->kind == YOKEI_DESTROY) return;
    struct yokei_control message = { .kind = YOKEI_CONTROL_PROBE };
    fill_state(comm, &message);
    for (int r = 0; r < comm->size; r++)
        if (!comm->peers[r].flight) yokei_mpi_control_send(comm, r, &message);
}
