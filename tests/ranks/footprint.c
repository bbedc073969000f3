/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke_comm_shape_memory must predict the memory that communicators of all sizes and configurations map, and
 * yoke_comm_memory must report it. The test finds segments of shared memory by their names among the
 * process's mappings. Other memory has no names, and other threads take some at any time (MPI's, OpenMP's,
 * the C library's arenas). So the library itself counts the other memory that it takes.
 */
#include <stdint.h>

#include "tests/ranks/ranks.h"

size_t yokei_held(void); /* from collectives/ground/process.h */
enum {
    MOST_LISTS = 64 << 10
}; /* bytes of a communicator's lists, which the plan includes and the count does not */

/* The segments of communicators in this process's address space. */
struct maps {
    size_t segments; /* bytes */
    int n_segments;
};

static struct maps look(void)
{
    struct maps m = { 0 };
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long begin, end;
        if (sscanf(line, "%lx-%lx", &begin, &end) < 2 || !strstr(line, "yoke-slots")) continue;
        m.n_segments++;
        m.segments += end - begin;
    }
    if (f) fclose(f);
    return m;
}

static yoke_status differs(const char *what, size_t is, size_t should)
{
    return is == should ? YOKE_OK : yoke_fail(YOKE_EDATA, "%s: %zu bytes, not %zu", what, is, should);
}

static yoke_status compare(const struct yoke_comm_memory *is, const struct yoke_comm_memory *should)
{
    YOKE_TRY(differs("shared", is->shared, should->shared));
    YOKE_TRY(differs("private", is->private_bytes, should->private_bytes));
    return differs("reserved", is->reserved, should->reserved);
}

/* Each rank sends to the next rank, and receives from the one before. */
static yoke_status pass_on(yoke_comm *comm, int rank, int size)
{
    int out = rank, in = -1;
    YOKE_TRY(yoke_group_start());
    YOKE_TRY(yoke_send(&out, 1, YOKE_I32, (rank + 1) % size, comm, NULL));
    YOKE_TRY(yoke_recv(&in, 1, YOKE_I32, (rank + size - 1) % size, comm, NULL));
    YOKE_TRY(yoke_group_end());
    return in == (rank + size - 1) % size ? YOKE_OK
                                          : yoke_fail(YOKE_EDATA, "%d came from rank %d", in, rank - 1);
}

static yoke_status look_at(yoke_comm *world, int size, const struct yoke_comm_config *config)
{
    struct yoke_comm_shape shape = YOKE_COMM_SHAPE_INIT;
    struct yoke_comm_memory planned, is;
    yoke_comm *comm = NULL;
    shape.n_ranks = size, shape.chunk_bytes = config->chunk_bytes, shape.no_shared = config->no_shared;
    int near = 0;
    for (int r = 0; r < size; r++) near += ranks_same_host(r, ranks_rank);
    for (int r = 0; r < size; r++) shape.is_far |= !ranks_same_host(r, 0);
    YOKE_TRY(yoke_comm_shape_memory(&shape, &planned));
    const struct maps before = look();
    const size_t held = yokei_held();
    YOKE_TRY(yoke_comm_split(world, ranks_rank < size ? 0 : YOKE_NO_COLOR, ranks_rank, config, &comm));
    const struct maps after = look();
    if (!comm) return differs("held for the others", yokei_held(), held);
    YOKE_TRY(yoke_comm_memory(comm, &is));
    YOKE_TRY(compare(&is, &planned));
    const bool shares = size > 1 && !config->no_shared;
    YOKE_TRY(
        differs("segments", after.segments - before.segments, shares ? (size_t)near * planned.shared : 0));
    YOKE_TRY(differs("the number of segments", (size_t)(after.n_segments - before.n_segments),
                     shares ? (size_t)near : 0));
    const size_t grown = yokei_held() - held, said = planned.private_bytes + planned.reserved;
    if (grown > said || said - grown > MOST_LISTS)
        return yoke_fail(YOKE_EDATA, "%zu bytes were taken, %zu and %zu were said", grown,
                         planned.private_bytes, planned.reserved);
    if (size > 1) {
        YOKE_TRY(pass_on(comm, ranks_rank, size));
        shape.n_sends = shape.n_receives = 1;
        YOKE_TRY(yoke_comm_shape_memory(&shape, &planned));
        YOKE_TRY(yoke_comm_memory(comm, &is));
        YOKE_TRY(compare(&is, &planned));
        const size_t pairs = yokei_held() - held - grown,
                     more = planned.private_bytes + planned.reserved - said;
        if (pairs > more || more - pairs > MOST_LISTS)
            return yoke_fail(YOKE_EDATA, "sends and receives took %zu bytes, %zu were said", pairs, more);
    }
    YOKE_TRY(yoke_comm_destroy(comm));
    YOKE_TRY(differs("held", yokei_held(), held));
    const struct maps end = look();
    return differs("left behind", end.segments, before.segments);
}

static yoke_status bad_shapes(void)
{
    struct yoke_comm_shape shape = YOKE_COMM_SHAPE_INIT;
    struct yoke_comm_memory memory;
    shape.n_ranks = 0;
    if (yoke_comm_shape_memory(&shape, &memory) != YOKE_EINVAL)
        return yoke_fail(YOKE_EDATA, "no ranks were taken");
    shape.n_ranks = 2, shape.n_sends = -1;
    if (yoke_comm_shape_memory(&shape, &memory) != YOKE_EINVAL)
        return yoke_fail(YOKE_EDATA, "a negative number was taken");
    shape.n_sends = 0, shape.chunk_bytes = 1;
    if (yoke_comm_shape_memory(&shape, &memory) != YOKE_EINVAL)
        return yoke_fail(YOKE_EDATA, "chunks of a byte were taken");
    return yoke_comm_shape_memory(NULL, &memory) == YOKE_EINVAL
                   && yoke_comm_memory(NULL, &memory) == YOKE_EINVAL
               ? YOKE_OK
               : yoke_fail(YOKE_EDATA, "NULL was taken");
}

int main(void)
{
    ranks_start();
    const size_t chunks[] = { 0, 64 << 10, 1 << 20 };
    yoke_comm *world;
    ranks_check(!yoke_comm_create(ranks_world, NULL, NULL, &world), "communicators are made");
    for (int size = 1; size <= ranks_size; size++)
        for (int no_shared = 0; no_shared < 2; no_shared++)
            for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
                struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
                config.chunk_bytes = chunks[c];
                config.no_shared = no_shared != 0;
                ranks_check(!look_at(world, size, &config), "a communicator of %d, chunks of %zu bytes%s",
                            size, chunks[c], no_shared ? ", over MPI" : "");
            }
    ranks_check(!bad_shapes(), "shapes that cannot be are refused");
    ranks_check(!yoke_comm_destroy(world), "and ended");
    return ranks_end();
}
