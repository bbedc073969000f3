/* SPDX-License-Identifier: Apache-2.0 */
/* The places of an operation in shared memory, for algorithms. */
#include "collectives/transport/shared.h"

#include "collectives/transport/allocations.h"
#include "collectives/transport/shm.h"

struct yokei_post *yokei_post_at(const struct yokei_op *op, int r)
{
    return yokei_shm_post_at(op->comm, r, op->number);
}

struct yokei_post *yokei_announce(const struct yokei_op *op)
{
    struct yokei_post *post = yokei_post_at(op, op->rank);
    post->history = op->history;
    post->header = op->header;
    return post;
}

char *yokei_oneshot_at(const struct yokei_op *op, int r)
{
    return yokei_shm_oneshot_at(op->comm, r, op->number);
}

char *yokei_stage_at(const struct yokei_op *op, int r, const struct yokei_lane *lane, int part)
{
    return yokei_shm_stage_at(op->comm, r, lane, part);
}

void yokei_announce_buffers(const struct yokei_op *op, size_t own_bytes, struct yokei_post *post)
{
    post->allocations = op->comm->memory.n_allocations;
    post->freed = op->comm->memory.n_freed;
    yokei_find_allocation(op->comm, op->send, own_bytes, &post->send_id, &post->send_at);
    yokei_find_allocation(op->comm, op->recv, op->count * yoke_dtype_bytes(op->dtype), &post->recv_id,
                          &post->recv_at);
}

char *yokei_send_buffer_of(const struct yokei_op *op, int r)
{
    const struct yokei_post *post = yokei_post_at(op, r);
    return yokei_in_allocation(op->comm, r, post->send_id, post->send_at, 0);
}

char *yokei_recv_buffer_of(const struct yokei_op *op, int r)
{
    const struct yokei_post *post = yokei_post_at(op, r);
    return yokei_in_allocation(op->comm, r, post->recv_id, post->recv_at, 0);
}
