/* SPDX-License-Identifier: Apache-2.0 */
/* The calls: arguments are checked, an operation is made and planned, and it is waited for or left to the stream. */
#include <string.h>

#include "collectives/internal.h"

/* ---- groups: what was called between start and end, per thread ---- */

struct call {
    struct yokei_op *op; /* collectives; NULL for a transfer */
    struct yokei_transfer transfer;
    yoke_comm *comm;
    yoke_stream *stream;
};

static _Thread_local struct {
    int depth;
    struct call *calls;
    size_t n_calls, n_room;
    yoke_status status; /* of the first call that was refused */
} group;

static yoke_status group_add(const struct call *call)
{
    if (group.n_calls == group.n_room) {
        const size_t room = group.n_room ? 2 * group.n_room : 16;
        struct call *grown = realloc(group.calls, room * sizeof *grown);
        if (!grown) return yoke_fail(YOKE_ENOMEM, "group: no memory for %zu calls", room);
        group.calls = grown;
        group.n_room = room;
    }
    group.calls[group.n_calls++] = *call;
    return YOKE_OK;
}

/* A call that is refused inside a group makes the whole group fail at its end. */
static yoke_status refuse(yoke_status status)
{
    if (group.depth && !group.status) group.status = status;
    return status;
}
#define CHECK(x)                                        \
    do {                                                \
        const yoke_status check_status_ = (x);          \
        if (check_status_) return refuse(check_status_); \
    } while (0)

/* ---- planning: algorithm, chunks, lanes. Only facts that all ranks share may decide. ---- */

/* In shared memory 64 KiB was fastest at every size: the chunks in flight stay in the cores' own caches. */
enum { SMALL_BYTES = 16 << 10, LEAST_SHARED_CHUNK = 16 << 10, SHARED_CHUNK = 64 << 10, LEAST_CHUNK = 64 << 10 };

static void plan_chunks(struct yokei_op *op, size_t longest)
{
    const yoke_comm *comm = op->comm;
    const size_t bytes = YOKE_MAX(yoke_dtype_bytes(op->dtype), yoke_dtype_bytes(op->wire));
    const bool in_caches = comm->all_shared && !comm->chunk_is_forced;
    const size_t most = YOKE_MAX((in_caches ? YOKE_MIN(comm->chunk_bytes, (size_t)SHARED_CHUNK) : comm->chunk_bytes) / bytes, 1);
    const size_t worth = comm->all_shared ? LEAST_SHARED_CHUNK : LEAST_CHUNK; /* a message over MPI costs more */
    const size_t least = comm->chunk_is_forced ? most : YOKE_MIN(worth / bytes, most);
    /* Multiples of 64 elements, so that chunks begin where vectors do. */
    const size_t even = ((longest + YOKEI_LANES - 1) / YOKEI_LANES + 63) / 64 * 64;
    op->chunk = YOKE_MIN(YOKE_MAX(even, least), most);
    op->n_rounds = longest ? (longest + op->chunk - 1) / op->chunk : 1;
    op->n_lanes = (int)YOKE_MIN(op->n_rounds, (size_t)YOKEI_LANES);
}

static void plan_slices(struct yokei_op *op, const size_t counts[])
{
    const int size = op->comm->size;
    op->slices = op->slices_room;
    op->slices[0] = 0;
    for (int r = 0; r < size; r++) {
        const size_t length = counts ? counts[r] : op->count / (size_t)size + ((size_t)r < op->count % (size_t)size);
        op->slices[r + 1] = op->slices[r] + length;
    }
}

static size_t longest_slice(const struct yokei_op *op)
{
    size_t longest = 0;
    for (int r = 0; r < op->comm->size; r++) longest = YOKE_MAX(longest, op->slices[r + 1] - op->slices[r]);
    return longest;
}

static void plan(struct yokei_op *op, const size_t counts[])
{
    const yoke_comm *comm = op->comm;
    op->wire = op->kind == YOKEI_ALL_REDUCE || op->kind == YOKEI_REDUCE_SCATTER
                   ? yokei_wire_dtype(op->dtype, op->reduction, comm->accum)
                   : op->dtype;
    op->lanes = op->comm->lane_list;
    const size_t bytes = op->count * yoke_dtype_bytes(op->wire);
    switch (op->kind) {
    case YOKEI_ALL_REDUCE:
        if (comm->forced_algorithm == YOKEI_DOUBLING || (comm->forced_algorithm < 0 && bytes <= SMALL_BYTES)) {
            op->algorithm = &yokei_doubling;
            plan_chunks(op, op->count);
            return;
        }
        /* fallthrough */
    case YOKEI_REDUCE_SCATTER:
    case YOKEI_ALL_GATHER:
        op->algorithm = &yokei_ring;
        plan_slices(op, counts);
        plan_chunks(op, longest_slice(op));
        return;
    case YOKEI_BROADCAST:
        op->algorithm = &yokei_chain;
        plan_chunks(op, op->count);
        return;
    default:
        op->algorithm = &yokei_dissemination;
        op->n_rounds = 1;
        op->n_lanes = 1;
        return;
    }
}

/* ---- arguments ---- */

static yoke_status check_comm(const char *call, yoke_comm *comm, yoke_stream *stream)
{
    if (!comm) return yoke_fail(YOKE_EINVAL, "%s: no communicator", call);
    YOKE_TRY(yokei_sticky(comm));
    if (!stream) return YOKE_OK;
    if (!comm->device)
        return yoke_fail(YOKE_EINVAL, "%s: communicator \"%s\" was created without a device, so it takes no stream", call,
                         comm->name);
    if (yoke_stream_device(stream) != comm->device)
        return yoke_fail(YOKE_EINVAL, "%s: the stream is not of the device of communicator \"%s\"", call, comm->name);
    return YOKE_OK;
}

static yoke_status check_buffer(const char *call, const char *what, const void *buffer, size_t count, yoke_dtype dtype)
{
    if ((unsigned)dtype >= YOKE_N_DTYPES) return yoke_fail(YOKE_EINVAL, "%s: unknown data type %d", call, (int)dtype);
    const size_t bytes = yoke_dtype_bytes(dtype);
    if (count > SIZE_MAX / 2 / bytes) return yoke_fail(YOKE_EINVAL, "%s: count %zu is too large", call, count);
    if (!buffer && count) return yoke_fail(YOKE_EINVAL, "%s: %s is NULL, and count is %zu", call, what, count);
    if ((uintptr_t)buffer % bytes)
        return yoke_fail(YOKE_EINVAL, "%s: %s is not aligned to the %zu bytes of %s", call, what, bytes,
                         yoke_dtype_name(dtype));
    return YOKE_OK;
}

static yoke_status check_reduction(const char *call, yoke_dtype dtype, yoke_reduction op)
{
    if ((unsigned)op >= YOKE_N_REDUCTIONS) return yoke_fail(YOKE_EINVAL, "%s: unknown reduction %d", call, (int)op);
    if (dtype == YOKE_I64 || dtype == YOKE_I8 || dtype == YOKE_U8)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: %s is moved, but not reduced: use f32, f16, bf16, f64 or i32", call,
                         yoke_dtype_name(dtype));
    if (op == YOKE_AVG && dtype == YOKE_I32)
        return yoke_fail(YOKE_EUNSUPPORTED, "%s: the average of i32 is not an i32: use sum and divide", call);
    return YOKE_OK;
}

/* Two buffers may be the same in the place that the call allows, and else must not meet. */
static yoke_status check_overlap(const char *call, const void *send, size_t send_bytes, const void *recv,
                                 size_t recv_bytes, size_t send_offset, size_t recv_offset)
{
    const uintptr_t s = (uintptr_t)send, r = (uintptr_t)recv;
    if (!send_bytes || !recv_bytes || s + send_bytes <= r || r + recv_bytes <= s) return YOKE_OK;
    if (s + send_offset == r + recv_offset) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: send and recv overlap; in place they are the same memory at the rank's slice", call);
}

static yoke_status check_peer(const char *call, const yoke_comm *comm, int peer, const char *what)
{
    if (peer >= 0 && peer < comm->size) return YOKE_OK;
    return yoke_fail(YOKE_EINVAL, "%s: %s %d is not in communicator \"%s\" of %d ranks", call, what, peer, comm->name,
                     comm->size);
}

/* ---- issue ---- */

/* A host stream runs what it is given at once: there is nothing that could go on beside it. */
static bool is_eager(const yoke_comm *comm)
{
    const char *backend = yoke_device_info(comm->device)->backend;
    return !strcmp(backend, "host") || !strcmp(backend, "reference");
}

/* Order the operation with the stream. The lock is held. */
static yoke_status attach_stream(struct yokei_op *op, yoke_stream *stream)
{
    yoke_comm *comm = op->comm;
    if (!stream) return YOKE_OK;
    if (is_eager(comm) || !yokei_process.any_thread) return yoke_stream_sync(stream);
    if (!op->ready) YOKE_TRY(yoke_event_create(comm->device, &op->ready));
    if (!op->done) YOKE_TRY(yoke_event_create(comm->device, &op->done));
    YOKE_TRY(yoke_event_record(op->ready, stream));
    YOKE_TRY(yoke_stream_flush(stream));
    YOKE_TRY(yoke_event_arm(op->done));
    op->is_async = true;
    return YOKE_OK;
}

/* Where the host sees the device's memory, the collective works on it in place. */
static yoke_status resolve(struct yokei_op *op, const void **send, void **recv)
{
    yoke_comm *comm = op->comm;
    if (!comm->device) return YOKE_OK;
    if ((send && yokei_is_staged(comm, *send)) || (recv && yokei_is_staged(comm, *recv))) {
        op->staged = true;
        for (int i = 0; i < op->n_lanes; i++) YOKE_TRY(yokei_stage_reserve(comm, op->lanes[i]));
        return YOKE_OK;
    }
    if (send && *send) *send = yoke_host_ptr(comm->device, *send);
    if (recv && *recv) *recv = yoke_host_ptr(comm->device, *recv);
    return YOKE_OK;
}

/* Stands for a NULL buffer of no elements, so that offsets may be added to it. */
static char nothing[64];

/* Submit under the lock; a stream waits for what it cannot outrun. Takes the operation back when it is refused. */
static yoke_status launch(struct yokei_op *op, yoke_stream *stream)
{
    yoke_status status = attach_stream(op, stream);
    yoke_event *done = op->done;
    const bool is_async = op->is_async;
    if (!status) status = yokei_submit(op);
    if (status) {
        if (is_async) yoke_event_signal(done);
        yokei_op_free(op);
        return status;
    }
    if (!is_async) return YOKE_OK;
    status = yokei_thread_start();
    return status ? status : yoke_stream_wait(stream, done);
}

static yoke_status issue(struct yokei_op *op, yoke_stream *stream)
{
    if (group.depth) return group_add(&(struct call){ .op = op, .comm = op->comm, .stream = stream });
    pthread_mutex_lock(&yokei_process.lock);
    const yoke_status status = launch(op, stream);
    const bool wait = !status && !op->is_async;
    pthread_mutex_unlock(&yokei_process.lock);
    return wait ? yokei_wait_for(&op, 1) : status;
}

static yoke_status collective(const char *call, enum yokei_kind kind, const void *send, void *recv, size_t count,
                              const size_t counts[], yoke_dtype dtype, yoke_reduction reduction, int root,
                              yoke_comm *comm, yoke_stream *stream)
{
    struct yokei_op *op;
    pthread_mutex_lock(&yokei_process.lock);
    yoke_status status = yokei_op_new(comm, kind, &op);
    if (!status) {
        op->send = send;
        op->recv = recv;
        op->count = count;
        op->dtype = dtype;
        op->reduction = reduction;
        op->root = root;
        plan(op, counts);
        status = resolve(op, &op->send, &op->recv);
        if (!op->send) op->send = nothing;
        if (!op->recv) op->recv = nothing;
        if (status) yokei_op_free(op);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    if (!status) status = issue(op, stream);
    return status ? refuse(yoke_fail_context(status, "%s", call)) : YOKE_OK;
}

/* ---- the calls ---- */

yoke_status yoke_all_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                            yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_all_reduce";
    CHECK(check_comm(call, comm, stream));
    CHECK(check_buffer(call, "send", send, count, dtype));
    CHECK(check_buffer(call, "recv", recv, count, dtype));
    CHECK(check_reduction(call, dtype, op));
    const size_t bytes = count * yoke_dtype_bytes(dtype);
    CHECK(check_overlap(call, send, bytes, recv, bytes, 0, 0));
    return collective(call, YOKEI_ALL_REDUCE, send, recv, count, NULL, dtype, op, -1, comm, stream);
}

/* The sum of counts[0..size), and of those before this rank. */
static yoke_status sum_counts(const char *call, const yoke_comm *comm, const size_t counts[], yoke_dtype dtype,
                              size_t *total_out, size_t *before_out)
{
    if (!counts) return yoke_fail(YOKE_EINVAL, "%s: counts is NULL", call);
    *total_out = *before_out = 0;
    for (int r = 0; r < comm->size; r++) {
        if (counts[r] > SIZE_MAX / 16 || *total_out > SIZE_MAX / 16)
            return yoke_fail(YOKE_EINVAL, "%s: counts[%d] = %zu is too large", call, r, counts[r]);
        if (r == comm->rank) *before_out = *total_out;
        *total_out += counts[r];
    }
    return check_buffer(call, "buffer", comm, 0, dtype);
}

yoke_status yoke_reduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                  yoke_reduction op, yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_reduce_scatter";
    size_t total, before;
    CHECK(check_comm(call, comm, stream));
    CHECK(sum_counts(call, comm, counts, dtype, &total, &before));
    CHECK(check_buffer(call, "send", send, total, dtype));
    CHECK(check_buffer(call, "recv", recv, counts[comm->rank], dtype));
    CHECK(check_reduction(call, dtype, op));
    const size_t size = yoke_dtype_bytes(dtype);
    CHECK(check_overlap(call, send, total * size, recv, counts[comm->rank] * size, before * size, 0));
    return collective(call, YOKEI_REDUCE_SCATTER, send, recv, total, counts, dtype, op, -1, comm, stream);
}

yoke_status yoke_all_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, yoke_comm *comm,
                              yoke_stream *stream)
{
    static const char call[] = "yoke_all_gather";
    size_t total, before;
    CHECK(check_comm(call, comm, stream));
    CHECK(sum_counts(call, comm, counts, dtype, &total, &before));
    CHECK(check_buffer(call, "send", send, counts[comm->rank], dtype));
    CHECK(check_buffer(call, "recv", recv, total, dtype));
    const size_t size = yoke_dtype_bytes(dtype);
    CHECK(check_overlap(call, send, counts[comm->rank] * size, recv, total * size, 0, before * size));
    return collective(call, YOKEI_ALL_GATHER, send, recv, total, counts, dtype, YOKE_SUM, -1, comm, stream);
}

/* counts[] of equal slices. */
static yoke_status equal_counts(const char *call, const yoke_comm *comm, size_t count, size_t **counts_out)
{
    if (!comm) return yoke_fail(YOKE_EINVAL, "%s: no communicator", call);
    size_t *counts = malloc((size_t)comm->size * sizeof *counts);
    if (!counts) return yoke_fail(YOKE_ENOMEM, "%s: no memory", call);
    for (int r = 0; r < comm->size; r++) counts[r] = count;
    *counts_out = counts;
    return YOKE_OK;
}

yoke_status yoke_reduce_scatter(const void *send, void *recv, size_t recv_count, yoke_dtype dtype, yoke_reduction op,
                                yoke_comm *comm, yoke_stream *stream)
{
    size_t *counts = NULL;
    CHECK(equal_counts("yoke_reduce_scatter", comm, recv_count, &counts));
    const yoke_status status = yoke_reduce_scatter_v(send, recv, counts, dtype, op, comm, stream);
    free(counts);
    return status;
}

yoke_status yoke_all_gather(const void *send, void *recv, size_t send_count, yoke_dtype dtype, yoke_comm *comm,
                            yoke_stream *stream)
{
    size_t *counts = NULL;
    CHECK(equal_counts("yoke_all_gather", comm, send_count, &counts));
    const yoke_status status = yoke_all_gather_v(send, recv, counts, dtype, comm, stream);
    free(counts);
    return status;
}

yoke_status yoke_broadcast(const void *send, void *recv, size_t count, yoke_dtype dtype, int root, yoke_comm *comm,
                           yoke_stream *stream)
{
    static const char call[] = "yoke_broadcast";
    CHECK(check_comm(call, comm, stream));
    CHECK(check_peer(call, comm, root, "root"));
    CHECK(check_buffer(call, "recv", recv, count, dtype));
    if (comm->rank == root) {
        CHECK(check_buffer(call, "send", send, count, dtype));
        const size_t bytes = count * yoke_dtype_bytes(dtype);
        CHECK(check_overlap(call, send, bytes, recv, bytes, 0, 0));
    }
    return collective(call, YOKEI_BROADCAST, comm->rank == root ? send : recv, recv, count, NULL, dtype, YOKE_SUM, root,
                      comm, stream);
}

yoke_status yoke_barrier(yoke_comm *comm, yoke_stream *stream)
{
    CHECK(check_comm("yoke_barrier", comm, stream));
    return collective("yoke_barrier", YOKEI_BARRIER, NULL, NULL, 0, NULL, YOKE_U8, YOKE_SUM, -1, comm, stream);
}

yoke_status yokei_final_barrier(yoke_comm *comm)
{
    return collective("yoke_comm_destroy", YOKEI_DESTROY, NULL, NULL, 0, NULL, YOKE_U8, YOKE_SUM, -1, comm, NULL);
}

/* ---- point to point and groups ---- */

/* The lane of one peer and direction, made when it is first used. The lock is held. */
static yoke_status pair_lane(yoke_comm *comm, const struct yokei_transfer *transfer, struct yokei_lane **lane_out)
{
    struct yokei_lane **place = &(transfer->is_send ? comm->pair_send : comm->pair_recv)[transfer->peer];
    if (!*place) {
        struct yokei_lane *lane = calloc(1, sizeof *lane);
        if (!lane) return yoke_fail(YOKE_ENOMEM, "communicator \"%s\": no memory for a lane", comm->name);
        lane->id = YOKEI_LANE_PAIR;
        const yoke_status status = yokei_mpi_lane_begin(comm, lane, sizeof(struct yokei_header) + YOKEI_PAIR_CHUNK);
        if (status) {
            free(lane);
            return status;
        }
        *place = lane;
    }
    *lane_out = *place;
    return YOKE_OK;
}

/* Hand the operation's transfers to their lanes, each in the order of the calls. The lock is held. */
static yoke_status assign_transfers(struct yokei_op *op)
{
    yoke_comm *comm = op->comm;
    op->pair_lanes = calloc((size_t)op->n_transfers, sizeof op->pair_lanes[0]);
    if (!op->pair_lanes) return yoke_fail(YOKE_ENOMEM, "communicator \"%s\": no memory for a group", comm->name);
    op->lanes = op->pair_lanes;
    struct yokei_transfer *last = NULL;
    for (int i = 0; i < op->n_transfers; i++) {
        struct yokei_transfer *transfer = &op->transfers[i];
        struct yokei_lane *lane = NULL;
        YOKE_TRY(pair_lane(comm, transfer, &lane));
        int at = 0;
        while (at < op->n_lanes && op->lanes[at] != lane) at++;
        transfer->next = NULL;
        if (at == op->n_lanes) {
            op->lanes[op->n_lanes++] = lane;
            lane->transfer = transfer;
            continue;
        }
        for (last = lane->transfer; last->next; last = last->next) continue;
        last->next = transfer;
    }
    for (int i = 0; i < op->n_transfers; i++) op->staged |= yokei_is_staged(comm, op->transfers[i].data);
    for (int i = 0; op->staged && i < op->n_lanes; i++) YOKE_TRY(yokei_stage_reserve(comm, op->lanes[i]));
    for (int i = 0; comm->device && !op->staged && i < op->n_transfers; i++)
        if (op->transfers[i].data) op->transfers[i].data = yoke_host_ptr(comm->device, op->transfers[i].data);
    for (int i = 0; i < op->n_transfers; i++)
        if (!op->transfers[i].data) op->transfers[i].data = nothing;
    return YOKE_OK;
}

/* One operation of all `n` transfers of one communicator. The lock is held. */
static yoke_status pairs_op(yoke_comm *comm, enum yokei_kind kind, struct yokei_transfer *transfers, int n,
                            struct yokei_op **op_out)
{
    struct yokei_op *op;
    const yoke_status no_op = yokei_op_new(comm, kind, &op);
    if (no_op) {
        free(transfers);
        return no_op;
    }
    op->algorithm = &yokei_pairs;
    op->dtype = op->wire = transfers[0].dtype;
    op->transfers = transfers;
    op->n_transfers = n;
    const yoke_status status = assign_transfers(op);
    if (status) {
        yokei_op_free(op);
        return status;
    }
    for (int i = 0; i < n; i++) {
        struct yokei_peer *peer = &comm->peers[transfers[i].peer];
        yokei_header_transfer(comm, &transfers[i], transfers[i].is_send ? ++peer->pair_sent : ++peer->pair_received);
    }
    *op_out = op;
    return YOKE_OK;
}

static yoke_status pair_call(const char *call, bool is_send, void *data, size_t count, yoke_dtype dtype, int peer,
                             yoke_comm *comm, yoke_stream *stream)
{
    CHECK(check_comm(call, comm, stream));
    CHECK(check_peer(call, comm, peer, "peer"));
    CHECK(check_buffer(call, is_send ? "send" : "recv", data, count, dtype));
    const struct yokei_transfer transfer = { .is_send = is_send, .peer = peer, .count = count, .dtype = dtype, .data = data };
    if (group.depth) return group_add(&(struct call){ .transfer = transfer, .comm = comm, .stream = stream });
    if (peer == comm->rank)
        return yoke_fail(YOKE_EINVAL, "%s: to the rank itself only in a group, together with its counterpart", call);
    struct yokei_transfer *owned = malloc(sizeof *owned);
    if (!owned) return yoke_fail(YOKE_ENOMEM, "%s: no memory", call);
    *owned = transfer;
    struct yokei_op *op;
    pthread_mutex_lock(&yokei_process.lock);
    yoke_status status = pairs_op(comm, is_send ? YOKEI_SEND : YOKEI_RECV, owned, 1, &op);
    pthread_mutex_unlock(&yokei_process.lock);
    if (!status) status = issue(op, stream);
    return status ? yoke_fail_context(status, "%s", call) : YOKE_OK;
}

yoke_status yoke_send(const void *send, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm, yoke_stream *stream)
{
    return pair_call("yoke_send", true, (void *)(uintptr_t)send, count, dtype, peer, comm, stream);
}

yoke_status yoke_recv(void *recv, size_t count, yoke_dtype dtype, int peer, yoke_comm *comm, yoke_stream *stream)
{
    return pair_call("yoke_recv", false, recv, count, dtype, peer, comm, stream);
}

yoke_status yoke_group_start(void)
{
    if (group.depth++ == 0) group.status = YOKE_OK;
    return YOKE_OK;
}

/* Gather all transfers of the communicator and stream of calls[first] into one operation. The lock is held. */
static yoke_status gather_transfers(size_t first, struct yokei_op **op_out)
{
    struct call *head = &group.calls[first];
    int n = 0;
    for (size_t i = first; i < group.n_calls; i++)
        n += !group.calls[i].op && group.calls[i].comm == head->comm;
    struct yokei_transfer *transfers = malloc((size_t)n * sizeof *transfers);
    if (!transfers) return yoke_fail(YOKE_ENOMEM, "group: no memory for %d transfers", n);
    yoke_comm *comm = head->comm;
    n = 0;
    for (size_t i = first; i < group.n_calls; i++) {
        struct call *call = &group.calls[i];
        if (call->op || call->comm != comm) continue;
        transfers[n++] = call->transfer;
        if (i > first) call->comm = NULL; /* taken */
    }
    return pairs_op(comm, YOKEI_GROUP, transfers, n, op_out);
}

static yoke_status check_group_streams(void)
{
    for (size_t i = 0; i < group.n_calls; i++)
        for (size_t j = 0; j < i; j++)
            if (group.calls[i].comm == group.calls[j].comm && group.calls[i].stream != group.calls[j].stream)
                return yoke_fail(YOKE_EINVAL, "yoke_group_end: calls on communicator \"%s\" name different streams; one "
                                 "group takes one stream per communicator", group.calls[i].comm->name);
    return YOKE_OK;
}

/* Launch what was collected; blocking operations are listed in waiting[]. The lock is held. */
static yoke_status launch_group(struct yokei_op *waiting[], int *n_waiting_out)
{
    yoke_status first = YOKE_OK;
    for (size_t i = 0; i < group.n_calls; i++) {
        struct call *call = &group.calls[i];
        if (!call->comm) continue;
        yoke_status status = YOKE_OK;
        if (!call->op) status = gather_transfers(i, &call->op);
        struct yokei_op *op = call->op;
        call->op = NULL;
        if (!status && first) {
            yokei_op_free(op);
            continue;
        }
        if (!status) status = launch(op, call->stream);
        if (!status && !op->is_async) waiting[(*n_waiting_out)++] = op;
        if (status && !first) first = status;
    }
    return first;
}

static void discard_group(void)
{
    for (size_t i = 0; i < group.n_calls; i++)
        if (group.calls[i].op) yokei_op_free(group.calls[i].op);
}

yoke_status yoke_group_end(void)
{
    if (!group.depth) return yoke_fail(YOKE_EINVAL, "yoke_group_end: without yoke_group_start");
    if (--group.depth) return YOKE_OK;
    struct yokei_op **waiting = malloc((group.n_calls + 1) * sizeof *waiting);
    int n_waiting = 0;
    yoke_status status = group.status;
    if (status) yoke_fail(status, "yoke_group_end: a call of the group was refused, so none was issued");
    if (!waiting) status = yoke_fail(YOKE_ENOMEM, "yoke_group_end: no memory for %zu calls", group.n_calls);
    if (!status) status = check_group_streams();
    pthread_mutex_lock(&yokei_process.lock);
    if (status)
        discard_group();
    else
        status = launch_group(waiting, &n_waiting);
    pthread_mutex_unlock(&yokei_process.lock);
    const yoke_status waited = yokei_wait_for(waiting, n_waiting);
    free(waiting);
    free(group.calls);
    group.calls = NULL;
    group.n_calls = group.n_room = 0;
    group.status = YOKE_OK;
    return status ? status : waited;
}

const char *yoke_reduction_name(yoke_reduction op)
{
    static const char *const names[YOKE_N_REDUCTIONS] = { "sum", "avg", "min", "max", "prod" };
    return (unsigned)op < YOKE_N_REDUCTIONS ? names[op] : "?";
}
