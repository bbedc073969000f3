/* SPDX-License-Identifier: Apache-2.0 */
/* One side of the benchmark of collectives: a communicator of Yoke, and two buffers in its memory. */
#include <stdlib.h>
#include <string.h>

#include "cli/bench/collectives.h"

static yoke_status allocate_side(struct bench_yoke *side, size_t bytes)
{
    if (side->device) {
        yoke_status status = yoke_alloc(side->device, bytes, (void **)&side->send);
        if (status) return yoke_fail_context(status, "the send buffer");
        status = yoke_alloc(side->device, bytes, (void **)&side->recv);
        return status ? yoke_fail_context(status, "the receive buffer") : YOKE_OK;
    }
    if (side->shared) {
        YOKE_TRY(yoke_comm_alloc(side->comm, bytes, (void **)&side->send));
        return yoke_comm_alloc(side->comm, bytes, (void **)&side->recv);
    }
    side->send = malloc(bytes);
    side->recv = malloc(bytes);
    if (!side->send || !side->recv)
        return yoke_fail(YOKE_ENOMEM, "no memory for two buffers of %zu bytes: lower --max-bytes", bytes);
    return YOKE_OK;
}

yoke_status bench_yoke_open(struct bench_yoke *side, const char *spec, const struct yoke_comm_config *config,
                            bool shared, size_t bytes)
{
    *side = (struct bench_yoke){ .shared = shared };
    if (strcmp(spec, "host") != 0) {
        YOKE_TRY(yoke_device_open(spec, NULL, &side->device));
        YOKE_TRY(yoke_stream_create(side->device, &side->stream));
    }
    YOKE_TRY(yoke_comm_create(MPI_COMM_WORLD, side->device, config, &side->comm));
    return allocate_side(side, bytes + BENCH_GUARD);
}

yoke_status bench_yoke_close(struct bench_yoke *side)
{
    if (!side->comm) return YOKE_OK;
    if (side->device) {
        YOKE_TRY(yoke_free(side->device, side->send));
        YOKE_TRY(yoke_free(side->device, side->recv));
    } else if (!side->shared) {
        free(side->send);
        free(side->recv);
    }
    YOKE_TRY(yoke_comm_destroy(side->comm)); /* frees the communicator's shared memory too */
    if (!side->device) return YOKE_OK;
    YOKE_TRY(yoke_stream_destroy(side->stream));
    return yoke_device_close(side->device);
}

static yoke_status copy_side(const struct bench_yoke *side, char *target, const char *source, size_t bytes,
                             bool to_device)
{
    if (!side->device) {
        memcpy(target, source, bytes);
        return YOKE_OK;
    }
    YOKE_TRY((to_device ? yoke_copy_to_device : yoke_copy_to_host)(side->stream, target, source, bytes));
    return yoke_stream_sync(side->stream);
}

yoke_status bench_yoke_put(const struct bench_yoke *side, const struct bench_case *c, const char *send,
                           const char *recv)
{
    YOKE_TRY(copy_side(side, side->send, send, c->bytes + BENCH_GUARD, true));
    return copy_side(side, side->recv, recv, c->bytes + BENCH_GUARD, true);
}

yoke_status bench_yoke_get(const struct bench_yoke *side, const struct bench_case *c, char *recv)
{
    return copy_side(side, recv, side->recv, c->bytes + BENCH_GUARD, false);
}

static yoke_status exchange_pairs(const struct bench_places *at, const struct bench_case *c, yoke_comm *comm)
{
    YOKE_TRY(yoke_group_start());
    const yoke_status sent = yoke_send(at->send, c->count, c->dtype, (c->rank + 1) % c->size, comm, NULL);
    const yoke_status received = yoke_recv(at->recv, c->count, c->dtype, (c->rank + c->size - 1) % c->size,
                                           comm, NULL);
    const yoke_status ended = yoke_group_end();
    return sent ? sent : received ? received : ended;
}

yoke_status bench_yoke_call(const struct bench_yoke *side, const struct bench_case *c)
{
    const struct bench_places at = bench_places(c, side->send, side->recv);
    yoke_comm *comm = side->comm;
    switch (c->kind) {
    case BENCH_ALL_REDUCE:
        return yoke_all_reduce(at.send, at.recv, c->count, c->dtype, c->reduction, comm, NULL);
    case BENCH_REDUCE:
        return yoke_reduce(at.send, at.recv, c->count, c->dtype, c->reduction, c->root, comm, NULL);
    case BENCH_REDUCE_SCATTER:
        return yoke_reduce_scatter(at.send, at.recv, c->count, c->dtype, c->reduction, comm, NULL);
    case BENCH_ALL_GATHER: return yoke_all_gather(at.send, at.recv, c->count, c->dtype, comm, NULL);
    case BENCH_BROADCAST: return yoke_broadcast(at.send, at.recv, c->count, c->dtype, c->root, comm, NULL);
    case BENCH_GATHER: return yoke_gather(at.send, at.recv, c->count, c->dtype, c->root, comm, NULL);
    case BENCH_SCATTER: return yoke_scatter(at.send, at.recv, c->count, c->dtype, c->root, comm, NULL);
    case BENCH_ALL_TO_ALL: return yoke_all_to_all(at.send, at.recv, c->count, c->dtype, comm, NULL);
    case BENCH_SENDRECV: return exchange_pairs(&at, c, comm);
    default: return yoke_barrier(comm, NULL);
    }
}
