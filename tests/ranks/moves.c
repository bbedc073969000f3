/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that move data without arithmetic: all_gather, broadcast, send and recv, groups, and barrier. Several
 * communicators are used side by side, with all ranks and with some. Bytes are compared exactly.
 */
#include "tests/ranks/ranks.h"

static uint8_t pattern(int r, size_t i) { return (uint8_t)(i * 31 + (size_t)r * 101 + (i >> 8) * 7 + 3); }

static void fill(uint8_t *buffer, int r, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) buffer[i] = pattern(r, i);
}

static int is_filled(const uint8_t *buffer, int r, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (buffer[i] != pattern(r, i)) return 0;
    return 1;
}

static int gather(yoke_comm *comm, uint8_t *send, uint8_t *recv, size_t most, yoke_dtype dtype, int even,
                  int in_place)
{
    const int size = yoke_comm_size(comm), rank = yoke_comm_rank(comm);
    const size_t bytes = yoke_dtype_bytes(dtype);
    size_t counts[64], at[65] = { 0 };
    for (int r = 0; r < size; r++) {
        counts[r] = even ? most : (r % 3 == 1 ? 0 : most / (size_t)(r + 1) + (size_t)r);
        at[r + 1] = at[r] + counts[r];
    }
    memset(recv, 0, at[size] * bytes);
    uint8_t *mine = in_place ? recv + at[rank] * bytes : send;
    fill(mine, rank, counts[rank] * bytes);
    if (even)
        RANKS_TRY(yoke_all_gather(mine, recv, most, dtype, comm, NULL));
    else
        RANKS_TRY(yoke_all_gather_v(mine, recv, counts, dtype, comm, NULL));
    for (int r = 0; r < size; r++)
        if (!is_filled(recv + at[r] * bytes, r, counts[r] * bytes)) return 0;
    return 1;
}

static int broadcasts(yoke_comm *comm, uint8_t *send, uint8_t *recv, size_t count)
{
    for (int root = 0; root < yoke_comm_size(comm); root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const int is_root = root == yoke_comm_rank(comm);
            memset(recv, 0, count * 2);
            uint8_t *from = in_place ? recv : send;
            if (is_root) fill(from, root + 5, count * 2);
            RANKS_TRY(yoke_broadcast(is_root ? from : NULL, recv, count, YOKE_BF16, root, comm, NULL));
            if (!is_filled(recv, root + 5, count * 2)) return 0;
        }
    return 1;
}

/* Several calls in a row, so that places in shared memory are used again. Every slice has other data. */
static int slices_to_all(yoke_comm *comm, uint8_t *send, uint8_t *recv, size_t count)
{
    const int rank = yoke_comm_rank(comm), size = yoke_comm_size(comm);
    for (int turn = 0; turn < 4; turn++) {
        memset(recv, 0, (size_t)size * count);
        for (int r = 0; r < size; r++) fill(send + (size_t)r * count, rank * 64 + r + turn, count);
        RANKS_TRY(yoke_all_to_all(send, recv, count, YOKE_U8, comm, NULL));
        for (int r = 0; r < size; r++)
            if (!is_filled(recv + (size_t)r * count, r * 64 + rank + turn, count)) return 0;
    }
    return 1;
}

/* Every rank sends to its neighbour and back, in order, with several messages in a row. */
static int ping_pong(yoke_comm *comm, uint8_t *send, uint8_t *recv, size_t count)
{
    const int rank = yoke_comm_rank(comm), size = yoke_comm_size(comm), peer = rank ^ 1;
    if (peer >= size) return 1;
    for (int i = 0; i < 3; i++) {
        fill(send, rank + i, count * 4);
        if (rank < peer) {
            RANKS_TRY(yoke_send(send, count, YOKE_F32, peer, comm, NULL));
            RANKS_TRY(yoke_recv(recv, count, YOKE_F32, peer, comm, NULL));
        } else {
            RANKS_TRY(yoke_recv(recv, count, YOKE_F32, peer, comm, NULL));
            RANKS_TRY(yoke_send(send, count, YOKE_F32, peer, comm, NULL));
        }
        if (!is_filled(recv, peer + i, count * 4)) return 0;
    }
    return 1;
}

/*
 * An all-to-all made from a group of sends and receives, with the rank itself included. Counts depend on both
 * ends. Each pair exchanges twice.
 */
static int exchange_all(yoke_comm *comm, uint8_t *send, uint8_t *recv, size_t most)
{
    const int size = yoke_comm_size(comm), rank = yoke_comm_rank(comm);
    const size_t room = (most + 64) * 2;
    RANKS_TRY(yoke_group_start());
    for (int turn = 0; turn < 2; turn++)
        for (int r = 0; r < size; r++) {
            const size_t out = most / (size_t)(rank + r + 1) + (size_t)turn,
                         in = out; /* symmetric in sender and receiver */
            uint8_t *to = send + (size_t)(turn * size + r) * room,
                    *from = recv + (size_t)(turn * size + r) * room;
            fill(to, rank * 16 + r + turn, out * 2);
            memset(from, 0, in * 2);
            RANKS_TRY(yoke_send(to, out, YOKE_F16, r, comm, NULL));
            RANKS_TRY(yoke_recv(from, in, YOKE_F16, r, comm, NULL));
        }
    RANKS_TRY(yoke_group_end());
    for (int turn = 0; turn < 2; turn++)
        for (int r = 0; r < size; r++)
            if (!is_filled(recv + (size_t)(turn * size + r) * room, r * 16 + rank + turn,
                           (most / (size_t)(rank + r + 1) + (size_t)turn) * 2))
                return 0;
    return 1;
}

/*
 * One group on two communicators, which every second rank uses in another order. Collectives and transfers
 * are mixed.
 */
static int mixed_group(yoke_comm *a, yoke_comm *b, uint8_t *send, uint8_t *recv)
{
    const int rank = yoke_comm_rank(a), size = yoke_comm_size(a);
    enum { N = 30000 };
    float *x = (float *)(void *)send, *ya = (float *)(void *)recv, *yb = ya + N, *yc = yb + N;
    for (int i = 0; i < N; i++) x[i] = (float)(i % 100 + rank);
    RANKS_TRY(yoke_group_start());
    for (int i = 0; i < 2; i++) {
        yoke_comm *comm = (i + rank) % 2 ? a : b;
        RANKS_TRY(yoke_all_reduce(x, comm == a ? ya : yb, N, YOKE_F32, YOKE_SUM, comm, NULL));
    }
    RANKS_TRY(yoke_send(x, N, YOKE_F32, (rank + 1) % size, a, NULL));
    RANKS_TRY(yoke_recv(yc, N, YOKE_F32, (rank + size - 1) % size, a, NULL));
    RANKS_TRY(yoke_group_end());
    for (int i = 0; i < N; i++) {
        const float sum = (float)(i % 100 * size + size * (size - 1) / 2);
        if (ya[i] != sum || yb[i] != sum || yc[i] != (float)(i % 100 + (rank + size - 1) % size)) return 0;
    }
    return 1;
}

/* No rank may leave a barrier before all ranks have entered it. */
static int barrier_holds(yoke_comm *comm)
{
    int ok = 1;
    for (int turn = 0; turn < yoke_comm_size(comm) && turn < 4; turn++) {
        struct {
            double entered, left;
        } mine, all[64];
        if (turn == yoke_comm_rank(comm)) usleep(3000);
        mine.entered = (double)yokei_now_ns();
        RANKS_TRY(yoke_barrier(comm, NULL));
        mine.left = (double)yokei_now_ns();
        RANKS_TRY(yoke_all_gather(&mine, all, sizeof mine, YOKE_U8, comm, NULL));
        for (int a = 0; a < yoke_comm_size(comm); a++)
            for (int b = 0; b < yoke_comm_size(comm); b++) ok &= all[a].left >= all[b].entered;
    }
    return ok;
}

/* Communicators of some of the ranks. All ranks make and use them at the same time. */
static int parts(uint8_t *send, uint8_t *recv)
{
    MPI_Comm half;
    MPI_Comm_split(ranks_world, ranks_rank % 2, ranks_rank, &half);
    int ok = 1;
    for (int i = 0; i < 3; i++) {
        yoke_comm *comm;
        RANKS_TRY(yoke_comm_create(half, NULL, NULL, &comm));
        ok &= gather(comm, send, recv, 1000, YOKE_I64, i & 1, 0) && broadcasts(comm, send, recv, 500);
        RANKS_TRY(yoke_comm_destroy(comm));
    }
    MPI_Comm_free(&half);
    return ok;
}

static int sums(yoke_comm *comm, float *from, float *to, size_t count)
{
    const int rank = yoke_comm_rank(comm), size = yoke_comm_size(comm);
    for (size_t i = 0; i < count; i++) to[i] = -1;
    for (size_t i = 0; i < count; i++)
        from[i] = (float)(i % 1000 + (size_t)rank); /* both may be the same memory */
    RANKS_TRY(yoke_all_reduce(from, to, count, YOKE_F32, YOKE_SUM, comm, NULL));
    for (size_t i = 0; i < count; i++)
        if (to[i] != (float)((size_t)size * (i % 1000) + (size_t)(size * (size - 1) / 2))) return 0;
    return 1;
}

/*
 * Memory that all ranks can access: which calls are refused, what is freed, and collectives on it and next to
 * it.
 */
static void shared_allocations(yoke_comm *comm, uint8_t *own)
{
    enum { COUNT = 300000 };
    void *a = NULL, *b = NULL, *c = NULL;
    const int rank = yoke_comm_rank(comm), size = yoke_comm_size(comm);
    const yoke_status uneven = yoke_comm_alloc(comm, rank == size - 1 ? 8192 : 4096, &c);
    ranks_check(uneven == (size == 1 ? YOKE_OK : YOKE_EMISMATCH),
                "sizes that differ are refused on every rank");
    if (!uneven) yoke_comm_free(comm, c);
    ranks_check(yoke_comm_alloc(comm, 0, &c) == YOKE_EINVAL, "nothing is not allocated");
    ranks_check(yoke_comm_free(comm, own) == YOKE_EINVAL, "foreign memory is not freed");
    if (!ranks_check(!yoke_comm_alloc(comm, COUNT * 4, &a) && !yoke_comm_alloc(comm, COUNT * 4 + 7, &b),
                     "two allocations"))
        return;
    ranks_check(yoke_comm_free(comm, (char *)a + 4096) == YOKE_EINVAL
                    && strstr(yoke_last_error(), "4096 bytes inside"),
                "an address inside shared memory is not freed, and the text says where it lies");
    int ok = ((char *)b)[COUNT * 4 + 6] == 0 && (uintptr_t)b % 4096 == 0;
    ranks_check(ok && sums(comm, a, b, COUNT), "all_reduce in shared memory");
    ranks_check(sums(comm, a, a, COUNT - 1), "in place");
    ranks_check(sums(comm, (float *)a + 16, b, COUNT - 100), "from the middle");
    ranks_check(sums(comm, rank % 2 ? (void *)own : a, rank % 3 ? b : (void *)(own + COUNT * 4), COUNT),
                "with some buffers elsewhere");
    /* This is not allowed, but harmless: one rank frees the memory later than the others. */
    if (rank) yoke_comm_free(comm, a);
    ranks_check(sums(comm, rank ? (void *)own : a, b, COUNT),
                "while one rank has memory that the others have freed");
    if (!rank) yoke_comm_free(comm, a);
    ranks_check(sums(comm, (void *)own, b, COUNT), "after it was freed");
    ranks_check(yoke_comm_free(comm, a) == YOKE_EINVAL && strstr(yoke_last_error(), "freed already"),
                "shared memory is freed once");
    if (rank != size - 1) yoke_comm_free(comm, b);
    ranks_check(sums(comm, (void *)own, (void *)(own + COUNT * 4), COUNT), "while one rank alone has any");
}

static void refused_group(yoke_comm *comm, uint8_t *send, uint8_t *recv)
{
    yoke_group_start();
    yoke_all_reduce(send, recv, 16, YOKE_F32, YOKE_SUM, comm, NULL);
    const yoke_status status = yoke_all_reduce(send, recv, 16, YOKE_U8, YOKE_AVG, comm, NULL);
    ranks_check(status == YOKE_EUNSUPPORTED && yoke_group_end() == YOKE_EUNSUPPORTED,
                "a refused call refuses its group");
    ranks_check(yoke_group_end() == YOKE_EINVAL, "a group that was not started does not end");
    ranks_check(yoke_send(send, 4, YOKE_U8, ranks_rank, comm, NULL) == YOKE_EINVAL,
                "a send to oneself needs a group");
    ranks_check(!yoke_barrier(comm, NULL), "the communicator still works");
}

int main(void)
{
    static const size_t counts[] = { 0, 1, 7, 1000, 70001 };
    /* Hosts of 4 and 2 ranks swap 64 KiB if each slice has 8192. They do not swap longer slices. */
    static const size_t slices[] = { 0, 1, 8, 1000, 8192, 8193, 70001 };
    static const char *const names[] = { "shared memory", "MPI" };
    uint8_t *send = malloc(8 << 20), *recv = malloc(8 << 20);
    ranks_start();
    for (int v = 0; v < 2; v++) {
        struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
        config.no_shared = v;
        yoke_comm *comm, *other;
        if (!ranks_check(!yoke_comm_create(ranks_world, NULL, &config, &comm)
                             && !yoke_comm_create(ranks_world, NULL, &config, &other),
                         "two communicators over %s", names[v]))
            return ranks_end();
        for (size_t c = 0; c < YOKE_COUNT(counts); c++) {
            int ok = 1;
            for (int i = 0; i < 4; i++)
                ok &= gather(comm, send, recv, counts[c], i < 2 ? YOKE_I64 : YOKE_I8, i & 1, i & 2);
            ranks_check(ok, "all_gather of %zu, even and not, in place and not, over %s", counts[c],
                        names[v]);
            ranks_check(broadcasts(comm, send, recv, counts[c]), "broadcast of %zu from every root, over %s",
                        counts[c], names[v]);
            ranks_check(ping_pong(comm, send, recv, counts[c]), "send and recv of %zu, over %s", counts[c],
                        names[v]);
            ranks_check(exchange_all(comm, send, recv, counts[c]), "all to all by a group, %zu, over %s",
                        counts[c], names[v]);
        }
        int ok = 1;
        for (size_t i = 0; i < YOKE_COUNT(slices); i++) ok &= slices_to_all(comm, send, recv, slices[i]);
        ranks_check(ok, "all_to_all, over %s", names[v]);
        ranks_check(mixed_group(comm, other, send, recv),
                    "a group on two communicators in different orders, over %s", names[v]);
        ranks_check(barrier_holds(comm), "nobody leaves a barrier early, over %s", names[v]);
        shared_allocations(comm, send);
        refused_group(comm, send, recv);
        ranks_check(!yoke_comm_destroy(comm) && !yoke_comm_destroy(other), "destroyed");
    }
    ranks_check(parts(send, recv), "communicators of every second rank, side by side");
    free(send);
    free(recv);
    return ranks_end();
}
