/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hosts of a communicator: groups of ranks that all see each other's memory. All ranks find them from the
 * same table. The ranks of a host whose devices have one vendor, or that have one label, are an island.
 */
#include <string.h>

#include "collectives/making/making.h"

/* What each rank sees of each other rank; NULL: all ranks see all. */
struct table {
    const char *sees;
    size_t width;
    int bit;
};

static bool linked(const struct table *t, size_t a, size_t b)
{
    return !t->sees || (t->sees[a * t->width + b] & t->sees[b * t->width + a] & t->bit);
}

/* Whether a rank has no memory to share. It sees the others' memory, and no rank sees its memory. */
static bool any_without(const yoke_comm *comm)
{
    for (int r = 0; r < comm->size; r++)
        if (comm->peers[r].info.segment_fd < 0) return true;
    return false;
}

/* A rank's host is the host of the lowest rank with which it shares memory. */
static void number_hosts(struct yokei_hosts *h, size_t size, const struct table *t)
{
    h->n = 0;
    for (size_t r = 0; r < size; r++) {
        size_t lowest = 0;
        while (lowest < r && !linked(t, r, lowest)) lowest++;
        h->of[r] = lowest == r ? h->n++ : h->of[lowest];
    }
}

/* Whether sharing memory is the same as being on one host. */
static bool is_consistent(const struct yokei_hosts *h, size_t size, const struct table *t)
{
    for (size_t a = 0; a < size; a++)
        for (size_t b = 0; b < a; b++)
            if ((h->of[a] == h->of[b]) != linked(t, a, b)) return false;
    return true;
}

static void list_ranks(struct yokei_hosts *h, int size)
{
    int n = 0;
    h->least = size;
    h->most = 0;
    h->in_order = true;
    for (int host = 0; host < h->n; host++) {
        h->first[host] = n;
        for (int r = 0; r < size; r++) {
            if (h->of[r] != host) continue;
            h->at[r] = n - h->first[host];
            h->in_order &= n == r;
            h->ranks[n++] = r;
        }
        h->least = YOKE_MIN(h->least, n - h->first[host]);
        h->most = YOKE_MAX(h->most, n - h->first[host]);
    }
    h->first[h->n] = n;
}

static void be_alone(struct yokei_hosts *h, int rank)
{
    h->n = 0;
    h->ranks[0] = rank;
    h->local = h->ranks;
    h->n_local = 1;
}

static void stand_alone(yoke_comm *comm)
{
    be_alone(&comm->hosts, comm->rank);
    be_alone(&comm->islands, comm->rank);
    comm->all_shared = comm->size == 1;
}

static void list_local(struct yokei_hosts *h, int rank)
{
    h->local = h->ranks + h->first[h->of[rank]];
    h->n_local = h->first[h->of[rank] + 1] - h->first[h->of[rank]];
}

/* Ranks of one host are on one island if they have the same name of an island. */
static void find_islands(yoke_comm *comm)
{
    struct yokei_hosts *h = &comm->islands;
    h->n = 0;
    for (int r = 0; r < comm->size; r++) {
        int lowest = 0;
        while (comm->hosts.of[lowest] != comm->hosts.of[r]
               || strcmp(comm->peers[lowest].info.island, comm->peers[r].info.island))
            lowest++;
        h->of[r] = lowest == r ? h->n++ : h->of[lowest];
    }
    list_ranks(h, comm->size);
    list_local(h, comm->rank);
}

static void find_groups(yoke_comm *comm, const struct table *t)
{
    struct yokei_hosts *h = &comm->hosts;
    number_hosts(h, (size_t)comm->size, t);
    if (!is_consistent(h, (size_t)comm->size, t) || (comm->size > 1 && any_without(comm))) {
        stand_alone(comm);
        return;
    }
    list_ranks(h, comm->size);
    list_local(h, comm->rank);
    find_islands(comm);
    comm->all_shared = h->n == 1;
}

void yokei_hosts_find(yoke_comm *comm, const char *sees, size_t width, int bit)
{
    find_groups(comm, &(struct table){ sees, width, bit });
}
void yokei_hosts_one(yoke_comm *comm) { find_groups(comm, &(struct table){ .sees = NULL }); }

yoke_status yokei_hosts_begin(yoke_comm *comm)
{
    const size_t size = (size_t)comm->size;
    int *room = calloc(2 * (4 * size + 1), sizeof *room);
    if (!room) return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory for %zu ranks", size);
    struct yokei_hosts *const both[] = { &comm->hosts, &comm->islands };
    for (size_t i = 0; i < 2; i++, room += 4 * size + 1)
        *both[i] = (struct yokei_hosts){
            .of = room, .at = room + size, .ranks = room + 2 * size, .first = room + 3 * size
        };
    comm->islands.are_islands = true;
    stand_alone(comm);
    return YOKE_OK;
}

void yokei_hosts_end(yoke_comm *comm)
{
    free(comm->hosts.of);
    comm->hosts = comm->islands = (struct yokei_hosts){ 0 };
}

/*
 * If some ranks of a group do not see each other, there are no groups by memory. Then the data that the ranks
 * have exchanged about their systems decides.
 */
static bool on_one_host(const yoke_comm *comm, int a, int b)
{
    return comm->hosts.n ? comm->hosts.of[a] == comm->hosts.of[b]
                         : comm->peers[a].info.host_id == comm->peers[b].info.host_id;
}

int yoke_comm_host(const yoke_comm *comm, int rank)
{
    if (!comm || rank < 0 || rank >= comm->size) return -1;
    int lowest = 0, host = 0;
    while (!on_one_host(comm, lowest, rank)) lowest++;
    for (int r = 0; r < lowest; r++) {
        int first = 0;
        while (!on_one_host(comm, first, r)) first++;
        host += first == r;
    }
    return host;
}
