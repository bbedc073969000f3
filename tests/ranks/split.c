/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yoke_comm_split: which ranks are in which communicator, and in which order; sums in the parts, beside sums
 * in the parent; and errors in one color.
 *   tests/ranks/split
 */
#include <yoke/device.h>

#include "tests/ranks/ranks.h"

/* Sum i + (rank in the parent) over the communicator's ranks, and check each of `count` elements. */
static int sums(yoke_comm *comm, const int worlds[], int n, size_t count)
{
    float *data = calloc(count, sizeof *data);
    int ok = data != NULL;
    float expected = 0;
    for (int i = 0; i < n; i++) expected += (float)worlds[i];
    for (size_t i = 0; ok && i < count; i++) data[i] = (float)ranks_rank + (float)(i % 64);
    ok = ok && !yoke_all_reduce(data, data, count, YOKE_F32, YOKE_SUM, comm, NULL);
    for (size_t i = 0; ok && i < count; i++) ok = data[i] == expected + (float)n * (float)(i % 64);
    free(data);
    return ok;
}

/*
 * Split by rank modulo `colors`. If `backwards`, later ranks come first. If `out`, the ranks of the last
 * color are in no part.
 */
static int modulo(yoke_comm *parent, int colors, int backwards, int out)
{
    const int color = ranks_rank % colors;
    const int stays_out = out && color == colors - 1;
    yoke_comm *comm = parent;
    RANKS_TRY(
        yoke_comm_split(parent, stays_out ? YOKE_NO_COLOR : color, backwards ? -ranks_rank : 0, NULL, &comm));
    int worlds[64] = { 0 }, n = 0, place = -1;
    for (int i = 0; i < ranks_size; i++) {
        const int r = backwards ? ranks_size - 1 - i : i;
        if (r % colors != color) continue;
        if (r == ranks_rank) place = n;
        worlds[n++] = r;
    }
    if (stays_out) return !comm;
    int ok = comm && yoke_comm_size(comm) == n && yoke_comm_rank(comm) == place;
    for (size_t count = 1; ok && count < 400000; count = count * 37 + 1) ok = sums(comm, worlds, n, count);
    /* The parent still works. */
    int all[64] = { 0 };
    for (int r = 0; r < ranks_size; r++) all[r] = r;
    float one = 1;
    if (!out) ok = ok && sums(parent, all, ranks_size, 1000);
    ok = ok && !yoke_broadcast(&one, &one, 1, YOKE_F32, n - 1, comm, NULL);
    return comm && !yoke_comm_destroy(comm) && ok;
}

/* Split in halves, down to communicators of one rank. All communicators are used again on the way back. */
static int halves(yoke_comm *parent, int low, int high)
{
    int worlds[64] = { 0 };
    for (int r = low; r < high; r++) worlds[r - low] = r;
    int ok = sums(parent, worlds, high - low, 5000);
    if (high - low > 1 && ok) {
        const int middle = (low + high) / 2, is_high = ranks_rank >= middle;
        yoke_comm *half = NULL;
        RANKS_TRY(yoke_comm_split(parent, is_high, 0, NULL, &half));
        ok = halves(half, is_high ? middle : low, is_high ? high : middle);
        ok = !yoke_comm_destroy(half) && ok;
    }
    return sums(parent, worlds, high - low, 70000) && ok;
}

/*
 * The configurations differ within color 0. All its ranks must get an error, and the other ranks their
 * communicator.
 */
static int one_color_disagrees(yoke_comm *parent)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    const int color = ranks_rank % 2, in_color = (ranks_size + 1 - color) / 2;
    config.name = "differs";
    config.stall_ms = color == 0 && ranks_rank == 0 ? 5000 : 6000;
    yoke_comm *comm = parent;
    const yoke_status status = yoke_comm_split(parent, color, 0, &config, &comm);
    if (color == 0 && in_color > 1)
        return status == YOKE_EMISMATCH && !comm && strstr(yoke_last_error(), "stall_ms") != NULL;
    if (status || !comm) return 0;
    int worlds[64] = { 0 }, n = 0;
    for (int r = color; r < ranks_size; r += 2) worlds[n++] = r;
    const int ok = sums(comm, worlds, n, 3000);
    return !yoke_comm_destroy(comm) && ok;
}

/*
 * The same with messages that come late. So the ranks that wait look at all ranks' records, also at records
 * that they cannot read.
 */
static int disagrees_slowly(void)
{
    yoke_comm *parent = NULL;
    setenv("YOKE_INJECT", "delay=1:300ms", 1);
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, NULL, &parent));
    const int ok = one_color_disagrees(parent);
    unsetenv("YOKE_INJECT");
    return !yoke_comm_destroy(parent) && ok;
}

static int refusals(yoke_comm *parent)
{
    yoke_comm *comm = parent;
    int ok = yoke_comm_split(parent, -2, 0, NULL, &comm) == YOKE_EINVAL
             && yoke_comm_split(NULL, 0, 0, NULL, &comm) == YOKE_EINVAL;
    ok = ok && yoke_comm_split(parent, 0, 0, NULL, NULL) == YOKE_EINVAL;
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.algorithm = "rign";
    comm = parent;
    /* A bad argument on one rank: all ranks must get an error, and the parent must still work. */
    const yoke_status status = yoke_comm_split(parent, 0, 0, ranks_rank == ranks_size - 1 ? &config : NULL,
                                               &comm);
    return ok && status && !comm
           && strstr(yoke_last_error(), ranks_rank == ranks_size - 1 || ranks_size == 1 ? "ring" : "rank")
           && !yoke_barrier(parent, NULL);
}

static int of_device(const char *spec)
{
    yoke_device *device = NULL;
    yoke_comm *parent = NULL, *comm = NULL;
    RANKS_TRY(yoke_device_open(spec, NULL, &device));
    RANKS_TRY(yoke_comm_create(ranks_world, device, NULL, &parent));
    RANKS_TRY(yoke_comm_split(parent, ranks_rank % 2, 0, NULL, &comm));
    yoke_stream *stream = NULL;
    void *memory = NULL;
    float value = (float)ranks_rank, expected = 0;
    for (int r = ranks_rank % 2; r < ranks_size; r += 2) expected += (float)r;
    RANKS_TRY(yoke_stream_create(device, &stream));
    RANKS_TRY(yoke_alloc(device, sizeof value, &memory));
    RANKS_TRY(yoke_copy_to_device(stream, memory, &value, sizeof value));
    RANKS_TRY(yoke_all_reduce(memory, memory, 1, YOKE_F32, YOKE_SUM, comm, stream));
    RANKS_TRY(yoke_copy_to_host(stream, &value, memory, sizeof value));
    RANKS_TRY(yoke_stream_sync(stream));
    RANKS_TRY(yoke_comm_destroy(comm));
    RANKS_TRY(yoke_comm_destroy(parent));
    yoke_free(device, memory);
    yoke_stream_destroy(stream);
    yoke_device_close(device);
    return value == expected;
}

int main(void)
{
    ranks_start();
    const char *how = ranks_hosts() ? "on several hosts" : "on one host";
    yoke_comm *world = NULL;
    ranks_check(!yoke_comm_create(ranks_world, NULL, NULL, &world), "a parent is made, %s", how);
    for (int colors = 1; colors <= 3; colors++)
        for (int mode = 0; mode < 4; mode++)
            ranks_check(modulo(world, colors, mode & 1, mode >> 1), "%d color%s, %s%s, %s", colors,
                        colors == 1 ? "" : "s", mode & 1 ? "keys backwards" : "keys equal",
                        mode >> 1 ? ", the last in none" : "", how);
    ranks_check(halves(world, 0, ranks_size), "halves of halves, %s", how);
    int ok = 1;
    for (int i = 0; i < 60 && ok; i++) {
        yoke_comm *comm = NULL;
        ok = !yoke_comm_split(world, (ranks_rank + i) % 2, i, NULL, &comm) && comm
             && !yoke_barrier(comm, NULL) && !yoke_comm_destroy(comm);
    }
    ranks_check(ok, "sixty in a row, %s", how);
    ranks_check(one_color_disagrees(world), "a color whose ranks disagree fails alone, %s", how);
    ranks_check(disagrees_slowly(),
                "the error stays the one of the call while ranks wait and look at each other's records, %s",
                how);
    ranks_check(refusals(world), "bad arguments are refused on all ranks, and the parent goes on, %s", how);
    ranks_check(!yoke_comm_destroy(world), "the parent ends, %s", how);
    if (!ranks_hosts()) ranks_check(of_device("host"), "a device's communicator");
    if (ranks_hosts()) ranks_check(ranks_only_records(), "nothing but records is in the run directories");
    return ranks_end();
}
