/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of a cluster that is only modelled. They have no messages, and share memory within this process. */
#include "collectives/replay/model.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "collectives/algorithms/algorithms.h"

#include "collectives/choice/choice.h"
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

yoke_status yokei_model_hosts_begin(int size, int group, struct yokei_hosts *hosts_out)
{
    const size_t n = (size_t)size;
    yoke_comm comm = { .size = size, .peers = calloc(n, sizeof *comm.peers) };
    char *sees = calloc(n, n);
    yoke_status status = sees && comm.peers
                             ? yokei_hosts_begin(&comm)
                             : yoke_fail(YOKE_ENOMEM, "modelled cluster: no memory for %d ranks", size);
    for (size_t a = 0; !status && a < n * n; a++) sees[a] = a / n / (size_t)group == a % n / (size_t)group;
    if (!status) yokei_hosts_find(&comm, sees, n, 1);
    *hosts_out = comm.hosts;
    free(comm.peers);
    free(sees);
    return status;
}

void yokei_model_hosts_end(struct yokei_hosts *hosts)
{
    yoke_comm comm = { .hosts = *hosts };
    yokei_hosts_end(&comm);
    *hosts = comm.hosts;
}

/* Memory to share, and what the steps' work needs. Pages that nobody touches cost nothing. */
static yoke_status bring_data(struct yokei_model_rank *model, const struct yokei_replay_data *data)
{
    yoke_comm *comm = &model->comm;
    const size_t size = (size_t)comm->size;
    if (model->op.algorithm != &yokei_hierarchy)
        return yoke_fail(YOKE_EINVAL, "replay with data: groups of one rank do not use the hierarchy");
    model->op.send = data->send[comm->rank];
    model->op.recv = data->recv[comm->rank];
    model->op.inputs = calloc(size + 1, sizeof *model->op.inputs);
    comm->peers = calloc(size, sizeof *comm->peers);
    comm->memory.offsets = yokei_shm_offsets(comm->size, comm->settings.chunk_bytes);
    void *segment = mmap(NULL, comm->memory.offsets.bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    model->segment = segment == MAP_FAILED ? NULL : segment;
    comm->memory.segment = model->segment;
    if (model->op.inputs && comm->peers && model->segment) return YOKE_OK;
    return yoke_fail(YOKE_ENOMEM, "replay with data: no memory for %d ranks", comm->size);
}

void yokei_model_rank_see(struct yokei_model_rank *model, const struct yokei_model_rank *other)
{
    model->comm.peers[other->comm.rank].segment = other->segment;
}

yoke_status yokei_model_rank_begin(struct yokei_model_rank *model, int rank, int size,
                                   const struct yokei_hosts *hosts, size_t count,
                                   const struct yokei_replay_data *data)
{
    static char buffer; /* the steps have addresses in the buffers, which nobody follows */
    const struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    yoke_comm *comm = &model->comm;
    comm->rank = rank;
    comm->size = size;
    comm->hosts = *hosts;
    comm->hosts.local = hosts->ranks + hosts->first[hosts->of[rank]];
    comm->hosts.n_local = yokei_host_size(hosts, hosts->of[rank]);
    comm->islands = comm->hosts;
    comm->n_on_host = comm->n_cores = comm->hosts.n_local;
    YOKE_TRY(yokei_settings_read(comm, &config));
    model->op = (struct yokei_op){ .comm = comm,
                                   .rank = rank,
                                   .size = size,
                                   .hosts = &comm->hosts,
                                   .chunk_bytes = comm->settings.chunk_bytes,
                                   .kind = YOKEI_ALL_REDUCE,
                                   .dtype = data ? data->dtype : YOKE_F32,
                                   .reduction = data ? data->reduction : YOKE_SUM,
                                   .count = count,
                                   .send = &buffer,
                                   .recv = &buffer,
                                   .number = 1,
                                   .on_host = true };
    model->op.slices_room = calloc(2 * ((size_t)size + 1), sizeof *model->op.slices_room);
    if (!model->op.slices_room)
        return yoke_fail(YOKE_ENOMEM, "modelled cluster: no memory for %d ranks", size);
    yokei_choose(&model->op, NULL, NULL);
    model->op.lanes = model->lane_list;
    return data ? bring_data(model, data) : YOKE_OK;
}

void yokei_model_rank_end(struct yokei_model_rank *model)
{
    if (model->segment) munmap(model->segment, model->comm.memory.offsets.bytes);
    free(model->comm.peers);
    free(model->op.inputs);
    free(model->op.slices_room);
}
