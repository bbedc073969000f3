/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory of a communicator: before it is made, and at present. */
#include "collectives/making/making.h"
#include "collectives/transport/mpi.h"
#include "collectives/transport/shm.h"
#include "collectives/transport/stage.h"

/* The arrays that creation makes with an entry for each rank: create.c, setup.c, hosts.c, shares.c. */
static size_t bookkeeping(int n_ranks)
{
    const size_t n = (size_t)n_ranks;
    const size_t of_a_rank = sizeof(struct yokei_peer) + sizeof(int)   /* peers, set_rank */
                             + sizeof(void *) * 2                      /* inputs, outputs */
                             + sizeof(struct yokei_lane *) * 2         /* pair_send, pair_recv */
                             + sizeof(int) * 8 + sizeof(uint32_t) * 5; /* hosts and islands, shares */
    /* the ends of arrays with one entry more */
    return sizeof(yoke_comm) + n * of_a_rank + 2 * sizeof(int) + 4 * sizeof(uint32_t);
}

/* The sum for a communicator, whether it exists or not. */
static void add_up_memory(const struct yoke_comm_shape *s, size_t chunk_bytes, bool has_segment, bool stages,
                          struct yoke_comm_memory *out)
{
    const size_t n_pairs = (size_t)s->n_sends + (size_t)s->n_receives, header = sizeof(struct yokei_header);
    const size_t lane = chunk_bytes + yokei_mpi_lane_bytes(header + chunk_bytes),
                 pair = yokei_mpi_lane_bytes(header + YOKEI_PAIR_CHUNK);
    const size_t of_messages = YOKEI_LANES * lane + n_pairs * pair;
    const bool over_mpi = s->is_far || !has_segment;
    *out = (struct yoke_comm_memory){ sizeof *out, .is_far = over_mpi && s->n_ranks > 1,
                                      .private_bytes = bookkeeping(s->n_ranks)
                                                       + n_pairs * sizeof(struct yokei_lane) };
    if (has_segment) out->shared = (yokei_shm_offsets(s->n_ranks, chunk_bytes).bytes + 4095) / 4096 * 4096;
    *(over_mpi ? &out->private_bytes : &out->reserved) += of_messages;
    if (over_mpi && s->n_ranks > 1) out->private_bytes += yokei_mpi_control_size();
    if (stages)
        out->private_bytes += (YOKEI_LANES + n_pairs) * yokei_stage_lane_bytes(chunk_bytes)
                              + YOKEI_STAGE_FUSED_BYTES;
}

yoke_status yoke_comm_shape_memory(const struct yoke_comm_shape *shape, struct yoke_comm_memory *memory_out)
{
    if (!shape || !memory_out)
        return yoke_fail(YOKE_EINVAL, "yoke_comm_shape_memory: %s is NULL", shape ? "memory_out" : "shape");
    if (shape->size != sizeof *shape)
        return yoke_fail(YOKE_EINVAL,
                         "yoke_comm_shape_memory: the shape's size is %zu, not %zu: use YOKE_COMM_SHAPE_INIT",
                         shape->size, sizeof *shape);
    if (shape->n_ranks < 1 || shape->n_sends < 0 || shape->n_receives < 0)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_shape_memory: %d ranks, %d sends and %d receives: at least 1 rank, and none negative",
            shape->n_ranks, shape->n_sends, shape->n_receives);
    size_t chunk;
    bool no_shared;
    YOKE_TRY(yokei_read_messages(shape->chunk_bytes, shape->no_shared, &chunk, &no_shared));
    const bool alone = shape->n_ranks == 1;
    struct yoke_comm_shape s = *shape;
    s.is_far = s.is_far && !alone;
    add_up_memory(&s, yokei_chunk_bytes(chunk), !no_shared && !alone, s.is_staged && !alone, memory_out);
    if (alone) { /* its lanes are allocated, and never used */
        memory_out->reserved = memory_out->private_bytes - bookkeeping(1);
        memory_out->private_bytes = bookkeeping(1);
    }
    return YOKE_OK;
}

yoke_status yoke_comm_memory(const yoke_comm *comm, struct yoke_comm_memory *memory_out)
{
    if (!comm || !memory_out) return yoke_fail(YOKE_EINVAL, "yoke_comm_memory: a pointer is null");
    YOKE_TRY(yokei_check_process("yoke_comm_memory", comm));
    struct yoke_comm_shape s = YOKE_COMM_SHAPE_INIT;
    s.n_ranks = comm->room;
    s.is_far = comm->size > 1 && !comm->all_shared;
    size_t staged = comm->staging.fused ? YOKEI_STAGE_FUSED_BYTES : 0;
    const size_t stage = yokei_stage_lane_bytes(comm->settings.chunk_bytes);
    for (int i = 0; i < YOKEI_LANES; i++) staged += comm->work.lanes[i].own_copy ? stage : 0;
    for (int r = 0; r < comm->room; r++) {
        s.n_sends += comm->work.pair_send[r] != NULL;
        s.n_receives += comm->work.pair_recv[r] != NULL;
        if (comm->work.pair_send[r]) staged += comm->work.pair_send[r]->own_copy ? stage : 0;
        if (comm->work.pair_recv[r]) staged += comm->work.pair_recv[r]->own_copy ? stage : 0;
    }
    add_up_memory(&s, comm->settings.chunk_bytes, comm->memory.segment != NULL || comm->size == 1, false,
                  memory_out);
    if (!comm->memory.segment) memory_out->shared = 0;
    memory_out->private_bytes += staged;
    return YOKE_OK;
}
