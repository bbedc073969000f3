/* SPDX-License-Identifier: Apache-2.0 */
/* From a checked call to an operation in flight: order with a stream, groups, sends and receives. */
#include <string.h>

#include "collectives/call/call.h"

#include "collectives/algorithms/algorithms.h"
#include "collectives/engine/engine.h"
#include "core/base/bell.h"
#include "collectives/faults/call_check.h"
#include "collectives/faults/report.h"
#include "collectives/transport/mpi.h"
#include "collectives/transport/stage.h"

/* ---- groups: what was called between start and end, per thread ---- */

enum { MOST_FUSED = 1024 };

struct call {
    struct yokei_op *op; /* the operation of a collective; NULL for a transfer */
    struct yokei_transfer transfer;
    yoke_comm *comm;
    yoke_stream *stream;
};

static _Thread_local struct {
    int depth;
    unsigned forks; /* of the process that began the group, as in yokei_forks */
    struct call *calls;
    size_t n_calls, n_room;
    yoke_status refused; /* error of the first call whose arguments are wrong: no call will be launched */
    /* The first communicator that has failed. The calls on the other communicators are launched. */
    yoke_comm *failed;
    yoke_status status;      /* its error, */
    struct yokei_error text; /* and the text of the error */
} group;

static yoke_status group_add(const struct call *call)
{
    if (group.n_calls == group.n_room) {
        const size_t room = group.n_room ? 2 * group.n_room : 16;
        struct call *grown = realloc(group.calls, room * sizeof *grown);
        if (!grown)
            return yokei_give_up_outside(call->comm,
                                         yoke_fail(YOKE_ENOMEM, "no memory for a group of %zu calls", room));
        group.calls = grown;
        group.n_room = room;
    }
    group.calls[group.n_calls++] = *call;
    return YOKE_OK;
}

/* Note that a communicator of the group has failed. The last error says how. */
static void note_failed(yoke_comm *comm, yoke_status status)
{
    if (group.failed) return;
    group.failed = comm;
    group.status = status;
    yokei_error_save(&group.text);
}

yoke_status yokei_refuse(yoke_comm *comm, yoke_status status)
{
    if (!group.depth) return status;
    if (comm && atomic_load(&comm->failure.error))
        note_failed(comm, status);
    else if (!group.refused)
        group.refused = status;
    return status;
}

/* ---- issue ---- */

/* Order the operation with the stream. The lock is held. */
static yoke_status attach_stream(struct yokei_op *op, yoke_stream *stream)
{
    yoke_comm *comm = op->comm;
    if (!stream) return YOKE_OK;
    /* On a stream that runs its work at once, nothing could run concurrently with the operation. */
    if (yokei_is_eager(comm->device) || !yokei_process.any_thread) return yoke_stream_sync(stream);
    if (!op->ready) YOKE_TRY(yoke_event_create(comm->device, &op->ready));
    YOKE_TRY(yoke_event_record(op->ready, stream));
    YOKE_TRY(yoke_stream_flush(stream));
    op->follows = true;
    /* The commands of a foreign queue cannot be held back, so the caller waits for the result. */
    if (yokei_stream_blocks(stream)) return YOKE_OK;
    if (!op->done) YOKE_TRY(yoke_event_create(comm->device, &op->done));
    YOKE_TRY(yoke_event_arm(op->done));
    op->is_async = true;
    return YOKE_OK;
}

/* Work in place if the host sees the device's memory. */
yoke_status yokei_resolve(struct yokei_op *op, const void **send, void **recv)
{
    yoke_comm *comm = op->comm;
    if (!comm->device || op->on_host) return YOKE_OK;
    if ((send && yokei_is_staged(comm, *send)) || (recv && yokei_is_staged(comm, *recv))) {
        op->staged = true;
        for (int i = 0; i < op->n_lanes; i++) YOKE_TRY(yokei_stage_reserve(comm, op->lanes[i]));
        return YOKE_OK;
    }
    if (send && *send) *send = yoke_host_ptr(comm->device, *send);
    if (recv && *recv) *recv = yoke_host_ptr(comm->device, *recv);
    return YOKE_OK;
}

/* Replaces a NULL buffer of no elements, so that offsets may be added to the pointer. */
char yokei_no_data[64];

/*
 * Submit the operation under the lock, ordered with the stream. If it cannot be submitted, it goes back to
 * the list of free ones, and the communicator has failed.
 */
static yoke_status launch(struct yokei_op *op, yoke_stream *stream)
{
    yoke_comm *comm = op->comm;
    yoke_status status = attach_stream(op, stream);
    yoke_event *done = op->done;
    const bool is_async = op->is_async;
    /* start it first, because a submitted operation cannot be withdrawn */
    if (!status && is_async) status = yokei_thread_start();
    if (!status) status = yokei_submit(op);
    if (status) {
        if (is_async) yoke_event_signal(done);
        yokei_op_free(op);
        return yokei_give_up(comm, status);
    }
    /* Without this order the caller cannot use the result. So this rank will not make the next call. */
    return is_async ? yokei_give_up(comm, yoke_stream_wait(stream, done)) : YOKE_OK;
}

yoke_status yokei_issue(struct yokei_op *op, yoke_stream *stream)
{
    yoke_status status = YOKE_OK;
    if (group.depth) status = group_add(&(struct call){ .op = op, .comm = op->comm, .stream = stream });
    if (group.depth && !status) return YOKE_OK;
    yokei_stream_room(stream);
    pthread_mutex_lock(&yokei_process.lock);
    if (status)
        yokei_op_free(op);
    else
        status = launch(op, stream);
    const bool wait = !status && !op->is_async;
    pthread_mutex_unlock(&yokei_process.lock);
    return wait ? yokei_wait_for(&op, 1) : status;
}

/* ---- point to point and groups ---- */

/* The lane for one peer and direction, made when it is first used. The lock is held. */
static yoke_status pair_lane(yoke_comm *comm, const struct yokei_transfer *transfer,
                             struct yokei_lane **lane_out)
{
    struct yokei_lane **place = &(transfer->is_send ? comm->work.pair_send
                                                    : comm->work.pair_recv)[transfer->peer];
    if (!*place) {
        struct yokei_lane *lane = calloc(1, sizeof *lane);
        if (!lane) return yoke_fail(YOKE_ENOMEM, "no memory for a lane");
        lane->id = YOKEI_LANE_PAIR;
        const yoke_status status = yokei_mpi_lane_begin(comm, lane,
                                                        sizeof(struct yokei_header) + YOKEI_PAIR_CHUNK);
        if (status) {
            free(lane);
            return status;
        }
        *place = lane;
    }
    *lane_out = *place;
    return YOKE_OK;
}

/* Give the operation's transfers to their lanes, each in the order of the calls. The lock is held. */
static yoke_status assign_transfers(struct yokei_op *op)
{
    yoke_comm *comm = op->comm;
    op->pair_lanes = calloc((size_t)op->n_transfers, sizeof op->pair_lanes[0]);
    if (!op->pair_lanes) return yoke_fail(YOKE_ENOMEM, "no memory for %d transfers", op->n_transfers);
    op->lanes = op->pair_lanes;
    for (int i = 0; i < op->n_transfers; i++) {
        struct yokei_transfer *transfer = &op->transfers[i];
        struct yokei_lane *lane = NULL;
        YOKE_TRY(pair_lane(comm, transfer, &lane));
        int before = i - 1;
        while (before >= 0
               && (transfer[before - i].peer != transfer->peer
                   || transfer[before - i].is_send != transfer->is_send))
            before--;
        transfer->next = NULL;
        transfer->lane = lane;
        if (before < 0)
            op->lanes[op->n_lanes++] = lane;
        else
            op->transfers[before].next = transfer;
    }
    for (int i = 0; i < op->n_transfers; i++) op->staged |= yokei_is_staged(comm, op->transfers[i].data);
    for (int i = 0; op->staged && i < op->n_lanes; i++) YOKE_TRY(yokei_stage_reserve(comm, op->lanes[i]));
    for (int i = 0; comm->device && !op->staged && i < op->n_transfers; i++)
        if (op->transfers[i].data) op->transfers[i].data = yoke_host_ptr(comm->device, op->transfers[i].data);
    for (int i = 0; i < op->n_transfers; i++)
        if (!op->transfers[i].data) op->transfers[i].data = yokei_no_data;
    return YOKE_OK;
}

/*
 * Make one operation of all `n` transfers of one communicator. If this fails, the communicator has failed.
 * The lock is held.
 */
static yoke_status pairs_op(yoke_comm *comm, enum yokei_kind kind, struct yokei_transfer *transfers, int n,
                            struct yokei_op **op_out)
{
    struct yokei_op *op;
    const yoke_status no_op = yokei_op_new(comm, kind, &op);
    if (no_op) {
        free(transfers);
        return yokei_give_up(comm, no_op);
    }
    op->algorithm = &yokei_pairs;
    op->dtype = op->wire = transfers[0].dtype;
    op->transfers = transfers;
    op->n_transfers = n;
    const yoke_status status = assign_transfers(op);
    if (status) {
        yokei_op_free(op);
        return yokei_give_up(comm, status);
    }
    for (int i = 0; i < n; i++) {
        struct yokei_peer *peer = &comm->peers[transfers[i].peer];
        yokei_header_transfer(comm, &transfers[i],
                              transfers[i].is_send ? ++peer->pair_sent : ++peer->pair_received);
    }
    *op_out = op;
    return YOKE_OK;
}

static yoke_status check_pair(const char *call, const struct yokei_transfer *t, yoke_comm *comm,
                              yoke_stream *stream)
{
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_peer(call, comm, t->peer, "peer"));
    CHECK(yokei_check_buffer(call, t->is_send ? "send" : "recv", t->data, t->count, t->dtype));
    if (t->peer == comm->rank && !group.depth)
        return yoke_fail(YOKE_EINVAL, "%s: to the rank itself only in a group, together with its counterpart",
                         call);
    return YOKE_OK;
}

/* Copy the transfers, so that the operation owns them. */
static yoke_status own_pairs(yoke_comm *comm, const struct yokei_transfer *transfers, int n,
                             struct yokei_transfer **owned_out)
{
    *owned_out = malloc((size_t)n * sizeof **owned_out);
    if (!*owned_out)
        return yokei_give_up_outside(comm, yoke_fail(YOKE_ENOMEM, "no memory for %d transfers", n));
    memcpy(*owned_out, transfers, (size_t)n * sizeof **owned_out);
    return YOKE_OK;
}

static yoke_status pair_call(const char *call, bool is_send, void *data, size_t count, yoke_dtype dtype,
                             int peer, yoke_comm *comm, yoke_stream *stream)
{
    const struct yokei_transfer transfer = {
        .is_send = is_send, .peer = peer, .count = count, .dtype = dtype, .data = data
    };
    YOKE_TRY(check_pair(call, &transfer, comm, stream));
    if (group.depth)
        return yokei_refuse(
            comm, group_add(&(struct call){ .transfer = transfer, .comm = comm, .stream = stream }));
    struct yokei_transfer *owned;
    YOKE_TRY(own_pairs(comm, &transfer, 1, &owned));
    struct yokei_op *op;
    pthread_mutex_lock(&yokei_process.lock);
    yoke_status status = pairs_op(comm, is_send ? YOKEI_SEND : YOKEI_RECV, owned, 1, &op);
    pthread_mutex_unlock(&yokei_process.lock);
    if (!status) status = yokei_issue(op, stream);
    return status ? yoke_fail_context(status, "%s", call) : YOKE_OK;
}

yoke_status yokei_check_at_once(const char *call, const yoke_comm *comm, const yoke_event *done)
{
    if (comm) YOKE_TRY(yokei_check_process(call, comm));
    if (group.depth)
        return yokei_refuse(NULL, yoke_fail(YOKE_EINVAL, "%s: not in a group: its event says when it is over",
                                            call));
    if (!done || !comm || !comm->device)
        return yoke_fail(YOKE_EINVAL, "%s: needs an event, and a communicator over the event's device", call);
    return YOKE_OK;
}

yoke_status yokei_issue_at_once(struct yokei_op *op, yoke_event *done)
{
    yoke_comm *comm = op->comm;
    pthread_mutex_lock(&yokei_process.lock);
    op->completes = done;
    yoke_status status = yoke_event_arm(done);
    const bool is_async = op->is_async = !status && yokei_process.any_thread;
    if (!status && is_async) status = yokei_thread_start();
    if (!status) status = yokei_submit(op);
    if (!status && is_async) yokei_bell_wake(); /* no stream will say that this operation may begin */
    if (status) {
        yokei_op_free(op);
        status = yokei_give_up(comm, status);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    /* If MPI has no threads, no other thread can carry the operation on. */
    if (!status && !is_async) status = yokei_wait_for(&op, 1);
    if (status || !is_async) yoke_event_signal(done);
    return status;
}

/* Begin n >= 1 transfers of one direction and one type. */
static yoke_status pairs_at_once(const char *call, const struct yokei_transfer *transfers, int n,
                                 yoke_comm *comm, yoke_event *done)
{
    struct yokei_transfer *owned;
    YOKE_TRY(yokei_check_at_once(call, comm, done));
    for (int i = 0; i < n; i++) YOKE_TRY(check_pair(call, &transfers[i], comm, NULL));
    YOKE_TRY(own_pairs(comm, transfers, n, &owned));
    struct yokei_op *op = NULL;
    pthread_mutex_lock(&yokei_process.lock);
    yoke_status status = pairs_op(comm,
                                  n > 1                ? YOKEI_GROUP
                                  : transfers->is_send ? YOKEI_SEND
                                                       : YOKEI_RECV,
                                  owned, n, &op);
    pthread_mutex_unlock(&yokei_process.lock);
    if (!status) status = yokei_issue_at_once(op, done);
    return status ? yoke_fail_context(status, "%s", call) : YOKE_OK;
}

yoke_status yoke_isend(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                       yoke_event *done)
{
    const struct yokei_transfer transfer = {
        .is_send = true, .peer = peer, .count = count, .dtype = dtype, .data = (void *)(uintptr_t)send
    };
    return pairs_at_once("yoke_isend", &transfer, 1, comm, done);
}

yoke_status yoke_irecv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                       yoke_event *done)
{
    const struct yokei_transfer transfer = {
        .is_send = false, .peer = peer, .count = count, .dtype = dtype, .data = recv
    };
    return pairs_at_once("yoke_irecv", &transfer, 1, comm, done);
}

static yoke_status pieces_at_once(const char *call, bool is_send, const struct yoke_piece *pieces, int n,
                                  yoke_dtype dtype, yoke_comm *comm, yoke_event *done)
{
    if (n < 1 || !pieces)
        return yokei_refuse(comm, yoke_fail(YOKE_EINVAL, "%s: %d pieces: give at least one", call, n));
    YOKE_TRY(yokei_check_at_once(call, comm, done));
    struct yokei_transfer *transfers = calloc((size_t)n, sizeof *transfers);
    if (!transfers) return yokei_give_up_outside(comm, yoke_fail(YOKE_ENOMEM, "no memory for %d pieces", n));
    for (int i = 0; i < n; i++)
        transfers[i] = (struct yokei_transfer){ .is_send = is_send,
                                                .peer = pieces[i].peer,
                                                .count = pieces[i].count,
                                                .dtype = dtype,
                                                .data = pieces[i].data };
    const yoke_status status = pairs_at_once(call, transfers, n, comm, done);
    free(transfers);
    return status;
}

yoke_status yoke_isend_pieces(const struct yoke_piece pieces[], int n, yoke_dtype dtype, yoke_comm *comm,
                              yoke_event *done)
{
    return pieces_at_once("yoke_isend_pieces", true, pieces, n, dtype, comm, done);
}

yoke_status yoke_irecv_pieces(const struct yoke_piece pieces[], int n, yoke_dtype dtype, yoke_comm *comm,
                              yoke_event *done)
{
    return pieces_at_once("yoke_irecv_pieces", false, pieces, n, dtype, comm, done);
}

yoke_status yoke_send(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                      yoke_stream *stream)
{
    return pair_call("yoke_send", true, (void *)(uintptr_t)send, count, dtype, peer, comm, stream);
}

yoke_status yoke_recv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm,
                      yoke_stream *stream)
{
    return pair_call("yoke_recv", false, recv, count, dtype, peer, comm, stream);
}

/* A forked process has a copy of the group that its parent had begun. The parent makes these calls. */
static void forget_copy(void)
{
    if (!group.depth || group.forks == atomic_load(&yokei_forks)) return;
    free(group.calls);
    memset(&group, 0, sizeof group);
}

yoke_status yoke_group_start(void)
{
    forget_copy();
    if (group.depth++ == 0) {
        group.status = YOKE_OK;
        group.forks = atomic_load(&yokei_forks);
    }
    return YOKE_OK;
}

/* Gather all transfers of the communicator and stream of calls[first] into one operation. The lock is held.
 */
static yoke_status gather_transfers(size_t first, struct yokei_op **op_out)
{
    struct call *head = &group.calls[first];
    int n = 0;
    for (size_t i = first; i < group.n_calls; i++)
        n += !group.calls[i].op && group.calls[i].comm == head->comm;
    struct yokei_transfer *transfers = malloc((size_t)n * sizeof *transfers);
    yoke_comm *comm = head->comm;
    if (!transfers)
        return yokei_give_up(comm, yoke_fail(YOKE_ENOMEM, "no memory for a group of %d transfers", n));
    n = 0;
    for (size_t i = first; i < group.n_calls; i++) {
        struct call *call = &group.calls[i];
        if (call->op || call->comm != comm) continue;
        transfers[n++] = call->transfer;
        if (i > first) call->comm = NULL; /* this transfer is in the operation now */
    }
    return pairs_op(comm, YOKEI_GROUP, transfers, n, op_out);
}

static yoke_status check_group_streams(void)
{
    for (size_t i = 0; i < group.n_calls; i++)
        for (size_t j = 0; j < i; j++)
            if (group.calls[i].comm == group.calls[j].comm && group.calls[i].stream != group.calls[j].stream)
                return yoke_fail(YOKE_EINVAL,
                                 "yoke_group_end: calls on communicator \"%s\" name different streams; one "
                                 "group takes one stream per communicator",
                                 group.calls[i].comm->name);
    return YOKE_OK;
}

/* Fuse calls[first] with the small sums on its communicator that follow it. The lock is held. */
static yoke_status gather_sums(size_t first)
{
    yoke_comm *comm = group.calls[first].comm;
    struct yokei_op *ops[MOST_FUSED];
    size_t at[MOST_FUSED];
    int n = 0, taken = 0;
    for (size_t i = first; i < group.n_calls && n < MOST_FUSED; i++) {
        /* sends and receives do not interrupt a sequence of sums */
        if (group.calls[i].comm != comm || !group.calls[i].op) continue;
        if (!yokei_may_fuse(group.calls[i].op)) break;
        at[n] = i;
        ops[n++] = group.calls[i].op;
    }
    const yoke_status status = yokei_fuse(ops, n, &taken);
    if (status) return yokei_give_up(comm, status);
    for (int i = 1; i < taken; i++) {
        group.calls[at[i]].op = NULL;
        group.calls[at[i]].comm = NULL;
    }
    return YOKE_OK;
}

/*
 * Launch the collected calls. waiting[] lists the blocking operations. Calls on a communicator that has
 * failed are dropped, because they fail on all of its ranks. All other calls are launched. A rank may receive
 * the report of the failure before its group or after it, and its calls on the other communicators must not
 * depend on that. The lock is held.
 */
static void launch_group(struct yokei_op *waiting[], int *n_waiting_out)
{
    for (size_t i = 0; i < group.n_calls; i++) {
        struct call *call = &group.calls[i];
        if (!call->comm) continue;
        yoke_status status = yokei_sticky(call->comm);
        if (!status && !call->op)
            status = gather_transfers(i, &call->op);
        else if (!status && yokei_may_fuse(call->op))
            status = gather_sums(i);
        struct yokei_op *op = call->op;
        call->op = NULL;
        if (!status) {
            status = launch(op, call->stream);
            if (!status && !op->is_async) waiting[(*n_waiting_out)++] = op;
        } else if (op) {
            yokei_op_free(op);
        }
        if (status) note_failed(call->comm, status);
    }
}

/*
 * Launch no call of the group. If the error is this rank's own, the communicators of the calls fail, because
 * their other ranks wait for this rank. The lock is held.
 */
static void discard_group(yoke_status status, bool is_own)
{
    struct yokei_error text; /* a failing communicator replaces the last error */
    yokei_error_save(&text);
    for (size_t i = 0; i < group.n_calls; i++) {
        if (group.calls[i].op) yokei_op_free(group.calls[i].op);
        if (is_own && group.calls[i].comm) yokei_give_up(group.calls[i].comm, status);
        yokei_error_restore(&text);
    }
}

/*
 * Forget the collected calls. Returns the error of the first communicator that had failed before its calls
 * were launched. If a communicator has failed, this rank's record says so again, because the calls that were
 * launched afterwards have replaced that.
 */
static yoke_status close_group(void)
{
    const yoke_status status = group.failed ? group.status : YOKE_OK;
    yoke_comm *failed = group.failed;
    for (size_t i = 0; i < group.n_calls && !failed; i++)
        if (group.calls[i].comm && atomic_load(&group.calls[i].comm->failure.error))
            failed = group.calls[i].comm;
    if (failed) yokei_record_failure(failed);
    if (status) yokei_error_restore(&group.text);
    free(group.calls);
    group.calls = NULL;
    group.n_calls = group.n_room = 0;
    group.failed = NULL;
    group.refused = YOKE_OK;
    return status;
}

yoke_status yoke_group_end(void)
{
    forget_copy();
    if (!group.depth) return yoke_fail(YOKE_EINVAL, "yoke_group_end: without yoke_group_start");
    if (--group.depth) return YOKE_OK;
    struct yokei_op **waiting = malloc((group.n_calls + 1) * sizeof *waiting);
    int n_waiting = 0;
    yoke_status status = group.refused;
    if (status) yoke_fail(status, "yoke_group_end: a call of the group was refused, so none was issued");
    if (!waiting) status = yoke_fail(YOKE_ENOMEM, "yoke_group_end: no memory for %zu calls", group.n_calls);
    if (!status) status = check_group_streams();
    for (size_t i = 0; i < group.n_calls && !status; i++) yokei_stream_room(group.calls[i].stream);
    pthread_mutex_lock(&yokei_process.lock);
    if (status)
        discard_group(status, !waiting);
    else
        launch_group(waiting, &n_waiting);
    pthread_mutex_unlock(&yokei_process.lock);
    const yoke_status waited = yokei_wait_for(waiting, n_waiting);
    free(waiting);
    const yoke_status failed = close_group();
    return status ? status : failed ? failed : waited;
}
