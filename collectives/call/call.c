/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public calls of the collectives. A call checks its arguments, makes an operation, and chooses its
 * algorithm. Then it waits for the operation, or leaves it to the stream.
 */
#include <string.h>

#include "collectives/call/call.h"

#include "collectives/call/internal.h"
#include "collectives/choice/choice.h"
#include "collectives/engine/engine.h"

/* A call whose arguments were checked. counts NULL: slices of equal length, if the kind has slices. */
struct request {
    enum yokei_kind kind;
    const void *send;
    void *recv;
    size_t count; /* number of elements of the whole buffer */
    const size_t *counts, *send_counts;
    yoke_dtype dtype;
    yoke_reduction reduction;
    int root;     /* -1: none */
    bool on_host; /* the buffers are host memory, whatever the communicator's device */
    /* Begin at once, and complete this event when the call is over. NULL: the call is ordered with the
       stream. */
    yoke_event *done;
};

static yoke_status collective(const char *call, const struct request *r, yoke_comm *comm, yoke_stream *stream)
{
    struct yokei_op *op;
    pthread_mutex_lock(&yokei_process.lock);
    yoke_status status = yokei_op_new(comm, r->kind, &op);
    if (!status) {
        op->send = r->send;
        op->recv = r->recv;
        op->count = r->count;
        op->dtype = r->dtype;
        op->reduction = r->reduction;
        op->root = r->root;
        op->on_host = r->on_host;
        yokei_choose(op, r->counts, r->send_counts);
        status = yokei_resolve(op, &op->send, &op->recv);
        if (!op->send) op->send = yokei_no_data;
        if (!op->recv) op->recv = yokei_no_data;
        if (status) yokei_op_free(op);
    }
    if (status) status = yokei_give_up(comm, status);
    pthread_mutex_unlock(&yokei_process.lock);
    if (!status) status = r->done ? yokei_issue_at_once(op, r->done) : yokei_issue(op, stream);
    return status ? yokei_refuse(comm, yoke_fail_context(status, "%s", call)) : YOKE_OK;
}

/* ---- the calls ---- */

static yoke_status all_reduce(const char *call, const void *send, void *recv, size_t count, yoke_dtype dtype,
                              yoke_reduction op, yoke_comm *comm, yoke_stream *stream, yoke_event *done)
{
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_buffer(call, "send", send, count, dtype));
    CHECK(yokei_check_buffer(call, "recv", recv, count, dtype));
    CHECK(yokei_check_reduction(call, dtype, op));
    const size_t bytes = count * yoke_dtype_bytes(dtype);
    CHECK(yokei_check_overlap(call, send, bytes, recv, bytes, 0, 0));
    return collective(call,
                      &(struct request){ .kind = YOKEI_ALL_REDUCE,
                                         .send = send,
                                         .recv = recv,
                                         .count = count,
                                         .dtype = dtype,
                                         .reduction = op,
                                         .root = -1,
                                         .done = done },
                      comm, stream);
}

yoke_status yoke_all_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                            yoke_comm *comm, yoke_stream *stream)
{
    return all_reduce("yoke_all_reduce", send, recv, count, dtype, op, comm, stream, NULL);
}

yoke_status yoke_iall_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                             yoke_comm *comm, yoke_event *done)
{
    static const char call[] = "yoke_iall_reduce";
    CHECK(yokei_check_at_once(call, comm, done));
    return all_reduce(call, send, recv, count, dtype, op, comm, NULL, done);
}

yoke_status yokei_reduce_on_host(yoke_comm *comm, void *data, size_t count, yoke_dtype dtype,
                                 yoke_reduction op)
{
    return collective("yoke_all_reduce",
                      &(struct request){ .kind = YOKEI_ALL_REDUCE,
                                         .send = data,
                                         .recv = data,
                                         .count = count,
                                         .dtype = dtype,
                                         .reduction = op,
                                         .root = -1,
                                         .on_host = true },
                      comm, NULL);
}

/* The slices of a call: counts[r] elements for rank r; counts NULL: `each` elements per rank. */
struct slices {
    const size_t *counts;
    size_t each, total, own, before; /* elements of this rank's slice, and elements before it */
};

static yoke_status sum_slices(const char *call, const yoke_comm *comm, yoke_dtype dtype, struct slices *s)
{
    s->total = s->before = 0;
    for (int r = 0; r < comm->size; r++) {
        const size_t count = s->counts ? s->counts[r] : s->each;
        if (count > SIZE_MAX / 16 || s->total > SIZE_MAX / 16)
            return yoke_fail(YOKE_EINVAL, "%s: %zu elements for rank %d are too many", call, count, r);
        if (r == comm->rank) s->before = s->total;
        s->total += count;
    }
    s->own = s->counts ? s->counts[comm->rank] : s->each;
    return yokei_check_buffer(call, "buffer", comm, 0, dtype);
}

/*
 * A call with slices has the whole buffer at one end, and a slice of it at the other. reduce_scatter and
 * scatter send the whole buffer, and the gathers receive it. With a root, only the root has the whole buffer.
 * This function sets r->count and r->counts.
 */
static yoke_status sliced(const char *call, struct request r, struct slices s, yoke_comm *comm,
                          yoke_stream *stream)
{
    const bool sends_whole = r.kind == YOKEI_REDUCE_SCATTER || r.kind == YOKEI_SCATTER;
    const bool rooted = r.kind == YOKEI_GATHER || r.kind == YOKEI_SCATTER;
    CHECK(yokei_check_comm(call, comm, stream));
    if (rooted)
        CHECK(yokei_check_peer(call, comm, r.root, "root"));
    else
        r.root = -1;
    const bool has_whole = !rooted || comm->rank == r.root;
    CHECK(sum_slices(call, comm, r.dtype, &s));
    const size_t sent = sends_whole ? s.total : s.own, received = sends_whole ? s.own : s.total;
    if (has_whole || !sends_whole)
        CHECK(yokei_check_buffer(call, "send", r.send, sent, r.dtype));
    else
        r.send = NULL;
    if (has_whole || sends_whole)
        CHECK(yokei_check_buffer(call, "recv", r.recv, received, r.dtype));
    else
        r.recv = NULL;
    if (r.kind == YOKEI_REDUCE_SCATTER) CHECK(yokei_check_reduction(call, r.dtype, r.reduction));
    const size_t size = yoke_dtype_bytes(r.dtype), before = s.before * size;
    if (has_whole)
        CHECK(yokei_check_overlap(call, r.send, sent * size, r.recv, received * size,
                                  sends_whole ? before : 0, sends_whole ? 0 : before));
    r.count = s.total;
    r.counts = s.counts;
    return collective(call, &r, comm, stream);
}

/* Check the counts of a call that takes them. */
static yoke_status given(const char *call, const size_t counts[])
{
    return counts ? YOKE_OK : yoke_fail(YOKE_EINVAL, "%s: counts is NULL", call);
}

yoke_status yoke_reduce_scatter(const void *send, void *recv, size_t recv_count, yoke_dtype dtype,
                                yoke_reduction op, yoke_comm *comm, yoke_stream *stream)
{
    return sliced(
        "yoke_reduce_scatter",
        (struct request){
            .kind = YOKEI_REDUCE_SCATTER, .send = send, .recv = recv, .dtype = dtype, .reduction = op },
        (struct slices){ .each = recv_count }, comm, stream);
}

yoke_status yoke_reduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                  yoke_reduction op, yoke_comm *comm, yoke_stream *stream)
{
    CHECK(given("yoke_reduce_scatter_v", counts));
    return sliced(
        "yoke_reduce_scatter_v",
        (struct request){
            .kind = YOKEI_REDUCE_SCATTER, .send = send, .recv = recv, .dtype = dtype, .reduction = op },
        (struct slices){ .counts = counts }, comm, stream);
}

yoke_status yoke_ireduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                   yoke_reduction op, yoke_comm *comm, yoke_event *done)
{
    static const char call[] = "yoke_ireduce_scatter_v";
    CHECK(yokei_check_at_once(call, comm, done));
    CHECK(given(call, counts));
    return sliced(call,
                  (struct request){ .kind = YOKEI_REDUCE_SCATTER,
                                    .send = send,
                                    .recv = recv,
                                    .dtype = dtype,
                                    .reduction = op,
                                    .done = done },
                  (struct slices){ .counts = counts }, comm, NULL);
}

yoke_status yoke_iall_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                               yoke_comm *comm, yoke_event *done)
{
    static const char call[] = "yoke_iall_gather_v";
    CHECK(yokei_check_at_once(call, comm, done));
    CHECK(given(call, counts));
    return sliced(call,
                  (struct request){
                      .kind = YOKEI_ALL_GATHER, .send = send, .recv = recv, .dtype = dtype, .done = done },
                  (struct slices){ .counts = counts }, comm, NULL);
}

yoke_status yoke_all_gather(const void *send, void *recv, size_t send_count, yoke_dtype dtype,
                            yoke_comm *comm, yoke_stream *stream)
{
    return sliced("yoke_all_gather",
                  (struct request){ .kind = YOKEI_ALL_GATHER, .send = send, .recv = recv, .dtype = dtype },
                  (struct slices){ .each = send_count }, comm, stream);
}

yoke_status yoke_all_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                              yoke_comm *comm, yoke_stream *stream)
{
    CHECK(given("yoke_all_gather_v", counts));
    return sliced("yoke_all_gather_v",
                  (struct request){ .kind = YOKEI_ALL_GATHER, .send = send, .recv = recv, .dtype = dtype },
                  (struct slices){ .counts = counts }, comm, stream);
}

yoke_status yokei_gather_on_host(yoke_comm *comm, const void *mine, void *all, size_t bytes)
{
    return sliced(
        "yoke_all_gather",
        (struct request){
            .kind = YOKEI_ALL_GATHER, .send = mine, .recv = all, .dtype = YOKE_U8, .on_host = true },
        (struct slices){ .each = bytes }, comm, NULL);
}

yoke_status yoke_gather(const void *send, void *recv, size_t count, yoke_dtype dtype, int root,
                        yoke_comm *comm, yoke_stream *stream)
{
    return sliced(
        "yoke_gather",
        (struct request){ .kind = YOKEI_GATHER, .send = send, .recv = recv, .dtype = dtype, .root = root },
        (struct slices){ .each = count }, comm, stream);
}

yoke_status yoke_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root,
                          yoke_comm *comm, yoke_stream *stream)
{
    CHECK(given("yoke_gather_v", counts));
    return sliced(
        "yoke_gather_v",
        (struct request){ .kind = YOKEI_GATHER, .send = send, .recv = recv, .dtype = dtype, .root = root },
        (struct slices){ .counts = counts }, comm, stream);
}

yoke_status yoke_scatter(const void *send, void *recv, size_t count, yoke_dtype dtype, int root,
                         yoke_comm *comm, yoke_stream *stream)
{
    return sliced(
        "yoke_scatter",
        (struct request){ .kind = YOKEI_SCATTER, .send = send, .recv = recv, .dtype = dtype, .root = root },
        (struct slices){ .each = count }, comm, stream);
}

yoke_status yoke_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root,
                           yoke_comm *comm, yoke_stream *stream)
{
    CHECK(given("yoke_scatter_v", counts));
    return sliced(
        "yoke_scatter_v",
        (struct request){ .kind = YOKEI_SCATTER, .send = send, .recv = recv, .dtype = dtype, .root = root },
        (struct slices){ .counts = counts }, comm, stream);
}

yoke_status yoke_broadcast(const void *send, void *recv, size_t count, yoke_dtype dtype, int root,
                           yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_broadcast";
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_peer(call, comm, root, "root"));
    CHECK(yokei_check_buffer(call, "recv", recv, count, dtype));
    if (comm->rank == root) {
        CHECK(yokei_check_buffer(call, "send", send, count, dtype));
        const size_t bytes = count * yoke_dtype_bytes(dtype);
        CHECK(yokei_check_overlap(call, send, bytes, recv, bytes, 0, 0));
    }
    return collective(call,
                      &(struct request){ .kind = YOKEI_BROADCAST,
                                         .send = comm->rank == root ? send : recv,
                                         .recv = recv,
                                         .count = count,
                                         .dtype = dtype,
                                         .root = root },
                      comm, stream);
}

yoke_status yoke_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                        int root, yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_reduce";
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_peer(call, comm, root, "root"));
    CHECK(yokei_check_buffer(call, "send", send, count, dtype));
    CHECK(yokei_check_reduction(call, dtype, op));
    if (comm->rank == root) {
        CHECK(yokei_check_buffer(call, "recv", recv, count, dtype));
        const size_t bytes = count * yoke_dtype_bytes(dtype);
        CHECK(yokei_check_overlap(call, send, bytes, recv, bytes, 0, 0));
    }
    return collective(call,
                      &(struct request){ .kind = YOKEI_REDUCE,
                                         .send = send,
                                         .recv = comm->rank == root ? recv : NULL,
                                         .count = count,
                                         .dtype = dtype,
                                         .reduction = op,
                                         .root = root },
                      comm, stream);
}

static yoke_status all_to_all(const char *call, const void *send, struct slices out, void *recv,
                              struct slices in, yoke_dtype dtype, yoke_comm *comm, yoke_stream *stream)
{
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(sum_slices(call, comm, dtype, &in));
    CHECK(sum_slices(call, comm, dtype, &out));
    CHECK(yokei_check_buffer(call, "send", send, out.total, dtype));
    CHECK(yokei_check_buffer(call, "recv", recv, in.total, dtype));
    const size_t size = yoke_dtype_bytes(dtype);
    CHECK(yokei_check_overlap(call, send, out.total * size, recv, in.total * size, 0,
                              SIZE_MAX / 2)); /* never in place */
    /* If a rank has counts of its own, the total is only this rank's, and is not compared. */
    return collective(call,
                      &(struct request){ .kind = YOKEI_ALL_TO_ALL,
                                         .send = send,
                                         .recv = recv,
                                         .count = in.counts ? 0 : in.total,
                                         .counts = in.counts,
                                         .send_counts = out.counts,
                                         .dtype = dtype,
                                         .root = -1 },
                      comm, stream);
}

yoke_status yoke_all_to_all_v(const void *send, const size_t send_counts[], void *recv,
                              const size_t recv_counts[], yoke_dtype dtype, yoke_comm *comm,
                              yoke_stream *stream)
{
    static const char call[] = "yoke_all_to_all_v";
    if (!send_counts || !recv_counts)
        return yokei_refuse(comm, yoke_fail(YOKE_EINVAL, "%s: %s is NULL", call,
                                            send_counts ? "recv_counts" : "send_counts"));
    return all_to_all(call, send, (struct slices){ .counts = send_counts }, recv,
                      (struct slices){ .counts = recv_counts }, dtype, comm, stream);
}

yoke_status yoke_all_to_all(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_comm *comm,
                            yoke_stream *stream)
{
    return all_to_all("yoke_all_to_all", send, (struct slices){ .each = count }, recv,
                      (struct slices){ .each = count }, dtype, comm, stream);
}

yoke_status yoke_barrier(yoke_comm *comm, yoke_stream *stream)
{
    CHECK(yokei_check_comm("yoke_barrier", comm, stream));
    return collective("yoke_barrier",
                      &(struct request){ .kind = YOKEI_BARRIER, .dtype = YOKE_U8, .root = -1 }, comm, stream);
}

yoke_status yokei_final_barrier(yoke_comm *comm)
{
    return collective("yoke_comm_destroy",
                      &(struct request){ .kind = YOKEI_DESTROY, .dtype = YOKE_U8, .root = -1 }, comm, NULL);
}
