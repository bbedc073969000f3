/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are only modelled. They have no messages, and share memory within this process. */
#include "collectives/replay/model.h"

#include <string.h>
#include <sys/mman.h>

#include "collectives/algorithms/algorithms.h"
#include "collectives/choice/choice.h"
#include "collectives/choice/shares.h"
#include "collectives/making/making.h"
#include "collectives/transport/shm.h"

yoke_status yokei_model_check(const struct yokei_links *links, int group, size_t count)
{
    const struct yokei_links *l = links;
    bool good = l->n_islands >= 1 && l->ranks_per_island >= 1 && l->n_bridges >= 1 && group >= 1 && count
                && l->bridge_gbps > 0 && l->bridge_us >= 0 && l->inner_us >= 0;
    for (int i = 0; good && i < l->n_islands; i++) good = l->inner_gbps[i] > 0;
    if (good && l->ranks_per_island % group == 0 && l->n_islands * l->ranks_per_island > group)
        return YOKE_OK;
    return yoke_fail(
        YOKE_EINVAL,
        "modelled cluster: %d islands of %d ranks with %d bridges, groups of %d, %zu elements: wanted "
        "two groups or more that divide an island, elements, and rates over 0",
        l->n_islands, l->ranks_per_island, l->n_bridges, group, count);
}

static yoke_status no_memory(int size)
{
    return yoke_fail(YOKE_ENOMEM, "modelled ranks: no memory for %d ranks", size);
}

/* ---- the communicator ---- */

/* Group the ranks by hosts and by islands. */
static yoke_status find_groups(yoke_comm *comm, const struct yokei_ranks *ranks)
{
    const size_t n = (size_t)comm->size;
    char *sees = calloc(n, n);
    if (!sees) return no_memory(comm->size);
    for (size_t a = 0; a < n; a++) {
        yokei_text(comm->peers[a].info.island, YOKEI_ISLAND_NAME, "%s",
                   ranks->island_of ? ranks->island_of[a] : "");
        comm->peers[a].info.world_rank = (int32_t)a;
        for (size_t b = 0; b < n; b++) sees[a * n + b] = ranks->host_of[a] == ranks->host_of[b];
    }
    yokei_hosts_find(comm, sees, n, 1);
    free(sees);
    return YOKE_OK;
}

static yoke_status begin_base(yoke_comm *comm, const struct yokei_ranks *ranks)
{
    const size_t n = (size_t)ranks->size;
    comm->size = comm->room = comm->n_on_host = ranks->size;
    comm->n_cores = ranks->n_cores ? ranks->n_cores : ranks->size;
    comm->any_staged = ranks->staged;
    comm->peers = calloc(n, sizeof *comm->peers);
    comm->work.inputs = calloc(n + 1, sizeof *comm->work.inputs);
    if (!comm->peers || !comm->work.inputs) return no_memory(ranks->size);
    YOKE_TRY(yokei_hosts_begin(comm));
    YOKE_TRY(yokei_shares_begin(comm));
    YOKE_TRY(yokei_settings_read(comm, ranks->config));
    YOKE_TRY(find_groups(comm, ranks));
    yokei_shares_settle(comm, NULL);
    comm->memory.offsets = yokei_shm_offsets(comm->room, comm->settings.chunk_bytes);
    return YOKE_OK;
}

yoke_status yokei_model_begin(const struct yokei_ranks *ranks, struct yokei_model **model_out)
{
    struct yokei_model *model = *model_out = calloc(1, sizeof *model);
    if (!model) return no_memory(ranks->size);
    model->size = ranks->size;
    model->staged = ranks->staged;
    model->ranks = calloc((size_t)ranks->size, sizeof *model->ranks);
    model->sent = calloc((size_t)ranks->size, sizeof *model->sent);
    if (!model->ranks || !model->sent) return no_memory(ranks->size);
    YOKE_TRY(begin_base(&model->base, ranks));
    if (!ranks->staged) return YOKE_OK;
    YOKE_TRY(yoke_device_open("host", NULL, &model->device));
    YOKE_TRY(yoke_stream_create(model->device, &model->stream));
    model->base.staging.out_stream = model->base.staging.in_stream = model->stream;
    return YOKE_OK;
}

yoke_status yokei_model_of_groups(int size, int group, struct yokei_model **model_out)
{
    int *host_of = calloc((size_t)size, sizeof *host_of);
    *model_out = NULL;
    if (!host_of) return no_memory(size);
    for (int q = 0; q < size; q++) host_of[q] = q / group;
    const yoke_status status = yokei_model_begin(&(struct yokei_ranks){ .size = size, .host_of = host_of },
                                                 model_out);
    free(host_of);
    return status;
}

static void end_rank(struct yokei_model *model, struct yokei_model_rank *rank)
{
    if (rank->segment) munmap(rank->segment, model->base.memory.offsets.bytes);
    if (rank->comm.peers != model->base.peers) free(rank->comm.peers);
    free(rank->lane_room);
    free(rank->op.slices_room);
}

void yokei_model_end(struct yokei_model *model)
{
    if (!model) return;
    for (int q = 0; model->ranks && q < model->size; q++) end_rank(model, &model->ranks[q]);
    if (model->stream) yoke_stream_destroy(model->stream);
    if (model->device) yoke_device_close(model->device);
    yokei_hosts_end(&model->base);
    yokei_shares_end(&model->base);
    free(model->base.work.inputs);
    free(model->base.peers);
    free(model->ranks);
    free(model->sent);
    free(model);
}

/* ---- a rank ---- */

static yoke_status begin_rank(struct yokei_model *model, int q)
{
    struct yokei_model_rank *rank = &model->ranks[q];
    if (rank->begun) return YOKE_OK;
    yoke_comm *comm = &rank->comm;
    *comm = model->base;
    comm->rank = q;
    struct yokei_hosts *const both[] = { &comm->hosts, &comm->islands };
    for (size_t i = 0; i < 2; i++) {
        both[i]->local = both[i]->ranks + both[i]->first[both[i]->of[q]];
        both[i]->n_local = yokei_host_size(both[i], both[i]->of[q]);
    }
    for (int l = 0; l < YOKEI_LANES; l++) comm->work.lane_list[l] = &comm->work.lanes[l];
    rank->op.slices_room = calloc(2 * ((size_t)model->size + 1), sizeof(size_t));
    rank->begun = true;
    return rank->op.slices_room ? YOKE_OK : no_memory(model->size);
}

/* Buffers of a lane: its accumulator, its own data, and results. */
enum { ACC, OWN, RESULT, N_BUFFERS };

static size_t buffer_bytes(const struct yokei_model *model)
{
    return YOKE_MAX(model->base.settings.chunk_bytes, (size_t)YOKEI_ONESHOT_BYTES);
}

/* Memory to share, and what the steps' work needs. Pages that nobody touches cost nothing. */
static yoke_status bring_memory(struct yokei_model *model, struct yokei_model_rank *rank)
{
    if (rank->segment) return YOKE_OK;
    const size_t size = (size_t)model->size;
    struct yokei_peer *peers = calloc(size, sizeof *peers);
    rank->comm.peers = peers ? peers : model->base.peers;
    rank->lane_room = malloc(YOKEI_LANES * N_BUFFERS * buffer_bytes(model));
    void *segment = mmap(NULL, model->base.memory.offsets.bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    rank->segment = segment == MAP_FAILED ? NULL : segment;
    rank->comm.memory.segment = rank->segment;
    return peers && rank->lane_room && rank->segment ? YOKE_OK : no_memory(model->size);
}

void yokei_model_show_memory(struct yokei_model *model)
{
    for (int q = 0; q < model->size; q++) {
        struct yokei_model_rank *rank = &model->ranks[q];
        for (int p = 0; p < model->size; p++)
            rank->comm.peers[p].segment = rank->op.hosts->of[p] == rank->op.hosts->of[q]
                                              ? model->ranks[p].segment
                                              : NULL;
    }
}

/* The number of elements of the whole buffer, as the public calls count them. */
static size_t whole_count(const struct yokei_model *model, const struct yokei_replay_call *call)
{
    size_t sum = 0;
    switch (call->kind) {
    case YOKEI_REDUCE_SCATTER:
    case YOKEI_ALL_GATHER:
    case YOKEI_GATHER:
    case YOKEI_SCATTER:
    case YOKEI_ALL_TO_ALL:
        for (int q = 0; q < model->size; q++) sum += call->counts ? call->counts[q] : call->count;
        return sum;
    default: return call->count;
    }
}

/* As yokei_op_new, and the public calls, do. */
static void begin_op(struct yokei_model *model, int q, const struct yokei_replay_call *call)
{
    static char buffer[64]; /* the steps have addresses in the buffers, which nobody follows without data */
    struct yokei_model_rank *rank = &model->ranks[q];
    struct yokei_op *op = &rank->op;
    const void *send = call->send ? call->send[q] : NULL;
    void *recv = call->send ? call->recv[q] : NULL;
    if (call->kind == YOKEI_BROADCAST && q != call->root) send = recv;
    *op = (struct yokei_op){ .comm = &rank->comm,
                             .rank = q,
                             .size = model->size,
                             .hosts = &rank->comm.hosts,
                             .inputs = rank->comm.work.inputs,
                             .reproducible = model->base.settings.reproducible != YOKE_REPRODUCIBLE_RUN,
                             .chunk_bytes = model->base.settings.chunk_bytes,
                             .cache_bytes = 32 << 20,
                             .kind = call->kind,
                             .count = whole_count(model, call),
                             .dtype = call->dtype,
                             .reduction = call->reduction,
                             .root = call->root,
                             .send = send ? send : buffer,
                             .recv = recv ? recv : buffer,
                             .staged = model->staged,
                             .slices_room = op->slices_room };
    yokei_choose(op, call->counts, NULL);
    if (op->algorithm->announces) op->number = 1;
}

yoke_status yokei_model_prepare(struct yokei_model *model, int q, const struct yokei_replay_call *call)
{
    struct yokei_model_rank *rank = &model->ranks[q];
    YOKE_TRY(begin_rank(model, q));
    if (call->send) YOKE_TRY(bring_memory(model, rank));
    begin_op(model, q, call);
    for (int l = 0; l < YOKEI_LANES; l++) {
        struct yokei_lane *lane = &rank->comm.work.lanes[l];
        *lane = (struct yokei_lane){ .id = l, .round = (size_t)l };
        if (!call->send) continue;
        char *buffers = rank->lane_room + (size_t)l * N_BUFFERS * buffer_bytes(model);
        lane->acc = buffers + ACC * buffer_bytes(model);
        lane->own_copy = buffers + OWN * buffer_bytes(model);
        lane->result_copy = buffers + RESULT * buffer_bytes(model);
    }
    return YOKE_OK;
}
