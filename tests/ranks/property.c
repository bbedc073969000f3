/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares random legal sequences of collectives with a simple model. It covers every call, type, reduction
 * and root, in place or not, with even and uneven counts; in private memory and in shared memory; alone and
 * in groups; on communicators of all ranks and of some; over shared memory and over MPI; and every algorithm.
 * The data are such that every order of summation gives the exact result, so a single wrong element is
 * noticed.
 *   tests/ranks/property [CALLS [SEED [DEVICE...]]]
 * If devices are given, the ranks open them in turn. All buffers are then in device memory, and calls block
 * or go to a stream. A SEED of - draws a seed. All ranks draw the same numbers. The seed is printed.
 */
#include "tests/ranks/calls.h"

/* The memory of each call of a group: device memory, if ranks have devices. */
static struct {
    yoke_device *device;
    yoke_stream *stream;
    char *send[IN_GROUP], *recv[IN_GROUP];
} own;

static bool open_device(const char *spec)
{
    if (yoke_device_open(spec, NULL, &own.device) || yoke_stream_create(own.device, &own.stream))
        return false;
    for (int i = 0; i < IN_GROUP; i++)
        if (yoke_alloc(own.device, MOST_BYTES + GUARD, (void **)&own.send[i])
            || yoke_alloc(own.device, MOST_BYTES + GUARD, (void **)&own.recv[i]))
            return false;
    return true;
}

static bool close_device(void)
{
    bool ok = true;
    for (int i = 0; i < IN_GROUP; i++)
        ok &= !yoke_free(own.device, own.send[i]) && !yoke_free(own.device, own.recv[i]);
    yoke_stream_destroy(own.stream);
    yoke_device_close(own.device);
    return ok;
}

/* Copy both buffers of call i to the device, where the call then works; or copy them back. */
static bool move(struct call *c, int i, bool to_device)
{
    const size_t bytes = MOST_BYTES + GUARD;
    bool ok;
    if (!own.device) return true;
    if (to_device)
        ok = !yoke_copy_to_device(own.stream, own.send[i], c->private_send, bytes)
             && !yoke_copy_to_device(own.stream, own.recv[i], c->private_recv, bytes);
    else
        ok = !yoke_copy_to_host(own.stream, c->private_send, own.send[i], bytes)
             && !yoke_copy_to_host(own.stream, c->private_recv, own.recv[i], bytes);
    c->send = to_device ? own.send[i] : c->private_send;
    c->recv = to_device ? own.recv[i] : c->private_recv;
    ok = ok && !yoke_stream_sync(own.stream);
    if (!ok) fprintf(stderr, "# rank %d: copying: %s\n", ranks_rank, yoke_last_error());
    return ok;
}

/*
 * Make one call, or a few in a group. Every rank draws all of them, also those of communicators that it is
 * not in.
 */
static bool turn(struct place places[], int n_places, struct call calls[IN_GROUP], int *n_calls)
{
    struct place *at[IN_GROUP];
    const int n = draw(4) ? 1 : 2 + (int)draw(IN_GROUP - 1);
    const bool in_stream = draw(2);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        at[i] = &places[draw((uint32_t)n_places)];
        at[i]->stream = in_stream ? own.stream : NULL;
        draw_call(&calls[i], at[i]);
        /*
         * Both buffers, one, or none are in memory that all ranks can access; such memory is used only once
         * in a group.
         */
        const uint32_t which = draw(SHARES);
        bool again = false;
        for (int j = 0; j < i; j++) again |= at[j] == at[i];
        if (at[i]->send && !again && which != 1) calls[i].send = at[i]->send;
        if (at[i]->recv && !again && which > 1) calls[i].recv = at[i]->recv;
        if (at[i]->rank < 0) continue;
        prepare(&calls[i], at[i]);
        if (!move(&calls[i], i, true)) return false;
    }
    if (n > 1 && yoke_group_start()) return false;
    for (int i = 0; i < n; i++)
        if (at[i]->rank >= 0 && issue(&calls[i], at[i])) {
            fprintf(stderr, "# rank %d: %s on %s: %s\n", ranks_rank, names[calls[i].what], at[i]->name,
                    yoke_last_error());
            ok = false;
        }
    if (n > 1 && yoke_group_end()) {
        fprintf(stderr, "# rank %d: a group of %d: %s\n", ranks_rank, n, yoke_last_error());
        return false;
    }
    for (int i = 0; i < n && ok; i++)
        ok = at[i]->rank < 0 || (move(&calls[i], i, false) && is_right(&calls[i], at[i]));
    *n_calls += n;
    return ok;
}

static int make_places(struct place places[])
{
    static const struct {
        const char *algorithm;
        bool no_shared;
        size_t chunk;
        enum yoke_accum accum;
    } kinds[] = {
        { NULL, false, 0, YOKE_ACCUM_F32 },         { NULL, true, 0, YOKE_ACCUM_F32 },
        { "slices", false, 0, YOKE_ACCUM_F32 },     { "ring", false, 0, YOKE_ACCUM_F32 },
        { "chain", true, 1024, YOKE_ACCUM_F32 },    { "doubling", false, 4096, YOKE_ACCUM_NATIVE },
        { "exchange", true, 2048, YOKE_ACCUM_F32 }, { "hierarchy", false, 8192, YOKE_ACCUM_NATIVE },
    };
    const char *island = getenv("YOKE_ISLAND");
    const bool flat = island && !strcmp(island, "off"); /* then the hierarchy is refused */
    int n = 0;
    for (size_t k = 0; k < YOKE_COUNT(kinds); k++)
        for (int part = 0; part < 2; part++) {
            struct place *p = &places[n++];
            struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
            MPI_Comm mpi = ranks_world;
            config.algorithm = kinds[k].algorithm;
            if (config.algorithm && !strcmp(config.algorithm, "hierarchy") && flat) config.algorithm = NULL;
            config.no_shared = kinds[k].no_shared;
            config.chunk_bytes = kinds[k].chunk;
            config.accum = kinds[k].accum;
            snprintf(p->name, sizeof p->name, "%s, %s, %s ranks",
                     kinds[k].algorithm ? kinds[k].algorithm : "auto",
                     kinds[k].no_shared ? "MPI" : "shared memory", part ? "some" : "all");
            /* A communicator of some ranks has the first two thirds, in reverse order. */
            const int members = part ? (2 * ranks_size + 2) / 3 : ranks_size;
            p->size = members;
            p->rank = ranks_rank < members ? (part ? members - 1 - ranks_rank : ranks_rank) : -1;
            if (part) MPI_Comm_split(ranks_world, p->rank < 0 ? MPI_UNDEFINED : 0, p->rank, &mpi);
            if (p->rank >= 0 && yoke_comm_create(mpi, own.device, &config, &p->comm)) return -1;
            if (p->rank >= 0 && k < 2 && !own.device
                && (yoke_comm_alloc(p->comm, MOST_BYTES + GUARD, &p->send)
                    || yoke_comm_alloc(p->comm, MOST_BYTES + GUARD, &p->recv)))
                return -1;
        }
    return n;
}

int main(int argc, char **argv)
{
    static struct place places[18];
    struct call calls[IN_GROUP];
    const int wanted = argc > 1 ? atoi(argv[1]) : 1000;
    ranks_start();
    begin_drawing(argc > 2 && strcmp(argv[2], "-") ? argv[2] : NULL);
    if (argc > 3 && !open_device(argv[3 + ranks_rank % (argc - 3)])) {
        fprintf(stderr, "# rank %d: %s\n", ranks_rank, yoke_last_error());
        return 99;
    }
    for (int i = 0; i < IN_GROUP; i++)
        if (!(calls[i].private_send = malloc(MOST_BYTES + GUARD))
            || !(calls[i].private_recv = malloc(MOST_BYTES + GUARD)))
            return 99;
    const int n_places = make_places(places);
    int done = 0, ok = n_places > 0;
    while (ok && done < wanted) ok = turn(places, n_places, calls, &done);
    ranks_check(ok, "%d random calls on %d communicators", wanted, n_places);
    for (int i = 0; i < n_places; i++)
        if (places[i].rank >= 0) ok &= !yoke_comm_destroy(places[i].comm);
    if (own.device) ok &= close_device();
    ranks_check(ok, "destroyed");
    for (int i = 0; i < IN_GROUP; i++) free(calls[i].private_send), free(calls[i].private_recv);
    return ranks_end();
}
