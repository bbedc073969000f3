/* SPDX-License-Identifier: Apache-2.0 */
/* The collectives' calls: arguments are checked, an operation is made and planned, and it is waited for or left to the stream. */
#include <string.h>

#include "collectives/call.h"

static yoke_status collective_v(const char *call, enum yokei_kind kind, const void *send, void *recv, size_t count,
                                const size_t counts[], const size_t send_counts[], yoke_dtype dtype, yoke_reduction reduction,
                                int root, yoke_comm *comm, yoke_stream *stream)
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
        yokei_plan(op, counts, send_counts);
        status = yokei_resolve(op, &op->send, &op->recv);
        if (!op->send) op->send = yokei_no_data;
        if (!op->recv) op->recv = yokei_no_data;
        if (status) yokei_op_free(op);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    if (!status) status = yokei_issue(op, stream);
    return status ? yokei_refuse(yoke_fail_context(status, "%s", call)) : YOKE_OK;
}

static yoke_status collective(const char *call, enum yokei_kind kind, const void *send, void *recv, size_t count,
                              const size_t counts[], yoke_dtype dtype, yoke_reduction reduction, int root,
                              yoke_comm *comm, yoke_stream *stream)
{
    return collective_v(call, kind, send, recv, count, counts, NULL, dtype, reduction, root, comm, stream);
}

/* ---- the calls ---- */

yoke_status yoke_all_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op,
                            yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_all_reduce";
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_buffer(call, "send", send, count, dtype));
    CHECK(yokei_check_buffer(call, "recv", recv, count, dtype));
    CHECK(yokei_check_reduction(call, dtype, op));
    const size_t bytes = count * yoke_dtype_bytes(dtype);
    CHECK(yokei_check_overlap(call, send, bytes, recv, bytes, 0, 0));
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
    return yokei_check_buffer(call, "buffer", comm, 0, dtype);
}

yoke_status yoke_reduce_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype,
                                  yoke_reduction op, yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_reduce_scatter";
    size_t total, before;
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(sum_counts(call, comm, counts, dtype, &total, &before));
    CHECK(yokei_check_buffer(call, "send", send, total, dtype));
    CHECK(yokei_check_buffer(call, "recv", recv, counts[comm->rank], dtype));
    CHECK(yokei_check_reduction(call, dtype, op));
    const size_t size = yoke_dtype_bytes(dtype);
    CHECK(yokei_check_overlap(call, send, total * size, recv, counts[comm->rank] * size, before * size, 0));
    return collective(call, YOKEI_REDUCE_SCATTER, send, recv, total, counts, dtype, op, -1, comm, stream);
}

yoke_status yoke_all_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, yoke_comm *comm,
                              yoke_stream *stream)
{
    static const char call[] = "yoke_all_gather";
    size_t total, before;
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(sum_counts(call, comm, counts, dtype, &total, &before));
    CHECK(yokei_check_buffer(call, "send", send, counts[comm->rank], dtype));
    CHECK(yokei_check_buffer(call, "recv", recv, total, dtype));
    const size_t size = yoke_dtype_bytes(dtype);
    CHECK(yokei_check_overlap(call, send, counts[comm->rank] * size, recv, total * size, 0, before * size));
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
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_peer(call, comm, root, "root"));
    CHECK(yokei_check_buffer(call, "recv", recv, count, dtype));
    if (comm->rank == root) {
        CHECK(yokei_check_buffer(call, "send", send, count, dtype));
        const size_t bytes = count * yoke_dtype_bytes(dtype);
        CHECK(yokei_check_overlap(call, send, bytes, recv, bytes, 0, 0));
    }
    return collective(call, YOKEI_BROADCAST, comm->rank == root ? send : recv, recv, count, NULL, dtype, YOKE_SUM, root,
                      comm, stream);
}

yoke_status yoke_reduce(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_reduction op, int root,
                        yoke_comm *comm, yoke_stream *stream)
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
    return collective(call, YOKEI_REDUCE, send, comm->rank == root ? recv : NULL, count, NULL, dtype, op, root, comm, stream);
}

yoke_status yoke_gather_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root, yoke_comm *comm,
                          yoke_stream *stream)
{
    static const char call[] = "yoke_gather";
    size_t total, before;
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_peer(call, comm, root, "root"));
    CHECK(sum_counts(call, comm, counts, dtype, &total, &before));
    CHECK(yokei_check_buffer(call, "send", send, counts[comm->rank], dtype));
    const size_t size = yoke_dtype_bytes(dtype);
    if (comm->rank == root) {
        CHECK(yokei_check_buffer(call, "recv", recv, total, dtype));
        CHECK(yokei_check_overlap(call, send, counts[comm->rank] * size, recv, total * size, 0, before * size));
    }
    return collective(call, YOKEI_GATHER, send, comm->rank == root ? recv : NULL, total, counts, dtype, YOKE_SUM, root, comm, stream);
}

yoke_status yoke_scatter_v(const void *send, void *recv, const size_t counts[], yoke_dtype dtype, int root, yoke_comm *comm,
                           yoke_stream *stream)
{
    static const char call[] = "yoke_scatter";
    size_t total, before;
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(yokei_check_peer(call, comm, root, "root"));
    CHECK(sum_counts(call, comm, counts, dtype, &total, &before));
    CHECK(yokei_check_buffer(call, "recv", recv, counts[comm->rank], dtype));
    const size_t size = yoke_dtype_bytes(dtype);
    if (comm->rank == root) {
        CHECK(yokei_check_buffer(call, "send", send, total, dtype));
        CHECK(yokei_check_overlap(call, send, total * size, recv, counts[comm->rank] * size, before * size, 0));
    }
    return collective(call, YOKEI_SCATTER, comm->rank == root ? send : NULL, recv, total, counts, dtype, YOKE_SUM, root, comm, stream);
}

yoke_status yoke_gather(const void *send, void *recv, size_t count, yoke_dtype dtype, int root, yoke_comm *comm, yoke_stream *stream)
{
    size_t *counts = NULL;
    CHECK(equal_counts("yoke_gather", comm, count, &counts));
    const yoke_status status = yoke_gather_v(send, recv, counts, dtype, root, comm, stream);
    free(counts);
    return status;
}

yoke_status yoke_scatter(const void *send, void *recv, size_t count, yoke_dtype dtype, int root, yoke_comm *comm, yoke_stream *stream)
{
    size_t *counts = NULL;
    CHECK(equal_counts("yoke_scatter", comm, count, &counts));
    const yoke_status status = yoke_scatter_v(send, recv, counts, dtype, root, comm, stream);
    free(counts);
    return status;
}

static yoke_status exchange(const char *call, const void *send, const size_t send_counts[], void *recv, const size_t recv_counts[],
                            yoke_dtype dtype, yoke_comm *comm, yoke_stream *stream)
{
    size_t sent, received, before;
    CHECK(yokei_check_comm(call, comm, stream));
    CHECK(sum_counts(call, comm, recv_counts, dtype, &received, &before));
    CHECK(sum_counts(call, comm, send_counts, dtype, &sent, &before));
    CHECK(yokei_check_buffer(call, "send", send, sent, dtype));
    CHECK(yokei_check_buffer(call, "recv", recv, received, dtype));
    const size_t size = yoke_dtype_bytes(dtype);
    CHECK(yokei_check_overlap(call, send, sent * size, recv, received * size, 0, SIZE_MAX / 2)); /* never in place */
    /* The total is this rank's own matter, and not compared, unless all counts are one. */
    const bool equal = send_counts == recv_counts;
    return collective_v(call, YOKEI_ALL_TO_ALL, send, recv, equal ? received : 0, recv_counts, equal ? NULL : send_counts, dtype,
                        YOKE_SUM, -1, comm, stream);
}

yoke_status yoke_all_to_all_v(const void *send, const size_t send_counts[], void *recv, const size_t recv_counts[], yoke_dtype dtype,
                              yoke_comm *comm, yoke_stream *stream)
{
    static const char call[] = "yoke_all_to_all_v";
    if (!send_counts || !recv_counts) return yokei_refuse(yoke_fail(YOKE_EINVAL, "%s: send_counts or recv_counts is NULL", call));
    if (send_counts == recv_counts && comm) { /* equal for this rank, but maybe not for others */
        size_t *copy = NULL;
        CHECK(equal_counts(call, comm, 0, &copy));
        memcpy(copy, send_counts, (size_t)comm->size * sizeof *copy);
        const yoke_status status = exchange(call, send, copy, recv, recv_counts, dtype, comm, stream);
        free(copy);
        return status;
    }
    return exchange(call, send, send_counts, recv, recv_counts, dtype, comm, stream);
}

yoke_status yoke_all_to_all(const void *send, void *recv, size_t count, yoke_dtype dtype, yoke_comm *comm, yoke_stream *stream)
{
    size_t *counts = NULL;
    CHECK(equal_counts("yoke_all_to_all", comm, count, &counts));
    const yoke_status status = exchange("yoke_all_to_all", send, counts, recv, counts, dtype, comm, stream);
    free(counts);
    return status;
}

yoke_status yoke_barrier(yoke_comm *comm, yoke_stream *stream)
{
    CHECK(yokei_check_comm("yoke_barrier", comm, stream));
    return collective("yoke_barrier", YOKEI_BARRIER, NULL, NULL, 0, NULL, YOKE_U8, YOKE_SUM, -1, comm, stream);
}

yoke_status yokei_final_barrier(yoke_comm *comm)
{
    return collective("yoke_comm_destroy", YOKEI_DESTROY, NULL, NULL, 0, NULL, YOKE_U8, YOKE_SUM, -1, comm, NULL);
}
