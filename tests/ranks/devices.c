/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives on device buffers. They work in place if the host can access the device's memory, and with
 * staging buffers otherwise. The test makes blocking calls and calls in the order of a stream, with ranks on
 * different devices.
 *   tests/ranks/devices SPEC [SPEC]     the ranks open these devices in turn
 */
#include "tests/ranks/ranks.h"

struct rank_device {
    yoke_device *device;
    yoke_stream *stream;
    char *send, *recv; /* device memory */
    float *host;
};

enum { ROOM = 4 << 20 };

static float value(int r, size_t i) { return (float)((i * 7 + (size_t)r * 13) % 33) - 16; }

static float sum(size_t i)
{
    float s = 0;
    for (int r = 0; r < ranks_size; r++) s += value(r, i);
    return s;
}

static int write_input(struct rank_device *d, char *target, size_t count)
{
    for (size_t i = 0; i < count; i++) d->host[i] = value(ranks_rank, i);
    RANKS_TRY(yoke_copy_to_device(d->stream, target, d->host, count * 4));
    RANKS_TRY(yoke_stream_sync(d->stream)); /* because the host memory is used again */
    return 1;
}

static int all_reduce(struct rank_device *d, yoke_comm *comm, size_t count, int in_place, yoke_stream *stream)
{
    char *recv = in_place ? d->send : d->recv;
    if (!write_input(d, d->send, count)) return 0;
    RANKS_TRY(yoke_all_reduce(d->send, recv, count, YOKE_F32, YOKE_SUM, comm, stream));
    /* in stream order, if there is a stream */
    RANKS_TRY(yoke_copy_to_host(d->stream, d->host, recv, count * 4));
    RANKS_TRY(yoke_stream_sync(d->stream));
    for (size_t i = 0; i < count; i++)
        if (d->host[i] != sum(i)) {
            fprintf(stderr, "# rank %d: element %zu of %zu is %g, not %g\n", ranks_rank, i, count, d->host[i],
                    sum(i));
            return 0;
        }
    return 1;
}

/* A chain of collectives on one stream without any wait. Each one uses the result of the one before it. */
static int chain(struct rank_device *d, yoke_comm *comm, size_t count)
{
    const size_t slice = count / (size_t)ranks_size, before = slice * (size_t)ranks_rank;
    if (!write_input(d, d->send, count)) return 0;
    RANKS_TRY(yoke_reduce_scatter(d->send, d->recv, slice, YOKE_F32, YOKE_SUM, comm, d->stream));
    RANKS_TRY(yoke_copy(d->stream, d->send + before * 4, d->recv, slice * 4));
    RANKS_TRY(yoke_all_gather(d->send + before * 4, d->send, slice, YOKE_F32, comm, d->stream));
    RANKS_TRY(
        yoke_all_reduce(d->send, d->recv, slice * (size_t)ranks_size, YOKE_F32, YOKE_MAX, comm, d->stream));
    RANKS_TRY(yoke_broadcast(d->recv, d->recv, slice, YOKE_F32, ranks_size - 1, comm, d->stream));
    RANKS_TRY(yoke_barrier(comm, d->stream));
    RANKS_TRY(yoke_copy_to_host(d->stream, d->host, d->recv, count * 4));
    RANKS_TRY(yoke_stream_sync(d->stream));
    for (size_t i = 0; i < slice * (size_t)ranks_size; i++)
        if (d->host[i] != sum(i)) return 0;
    return 1;
}

static int transfers(struct rank_device *d, yoke_comm *comm, size_t count, yoke_stream *stream)
{
    const int next = (ranks_rank + 1) % ranks_size, last = (ranks_rank + ranks_size - 1) % ranks_size;
    if (!write_input(d, d->send, count)) return 0;
    RANKS_TRY(yoke_group_start());
    RANKS_TRY(yoke_send(d->send, count, YOKE_F32, next, comm, stream));
    RANKS_TRY(yoke_recv(d->recv, count, YOKE_F32, last, comm, stream));
    RANKS_TRY(yoke_group_end());
    RANKS_TRY(yoke_copy_to_host(d->stream, d->host, d->recv, count * 4));
    RANKS_TRY(yoke_stream_sync(d->stream));
    for (size_t i = 0; i < count; i++)
        if (d->host[i] != value(last, i)) return 0;
    return 1;
}

/* Small sums of a group run as one. Each has its own buffer, here one behind the other with a gap. */
static int sums_in_group(struct rank_device *d, yoke_comm *comm, yoke_stream *stream)
{
    enum { SUMS = 5, N = 300, PITCH = 512 };
    if (!write_input(d, d->send, SUMS * PITCH) || !write_input(d, d->recv, SUMS * PITCH)) return 0;
    RANKS_TRY(yoke_group_start());
    for (size_t i = 0; i < SUMS; i++)
        RANKS_TRY(yoke_all_reduce((i % 2 ? d->recv : d->send) + i * PITCH * 4, d->recv + i * PITCH * 4, N - i,
                                  YOKE_F32, YOKE_SUM, comm, stream));
    RANKS_TRY(yoke_group_end());
    RANKS_TRY(yoke_copy_to_host(d->stream, d->host, d->recv, SUMS * PITCH * 4));
    RANKS_TRY(yoke_stream_sync(d->stream));
    for (size_t i = 0; i < SUMS * PITCH; i++)
        if (d->host[i] != (i % PITCH < N - i / PITCH ? sum(i) : value(ranks_rank, i))) {
            fprintf(stderr, "# rank %d: element %zu is %g\n", ranks_rank, i, d->host[i]);
            return 0;
        }
    return 1;
}

/*
 * If one rank uses staging buffers, all ranks pay for copies. The prediction leaves these copies out, and
 * must say so.
 */
static int is_explained(yoke_comm *comm, int seen)
{
    struct yoke_comm_choice choice;
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", 1 << 20, YOKE_F32, YOKE_SUM, &choice));
    return (strstr(choice.why, "copies from and to devices") != NULL) == !seen && choice.predicted_us > 0;
}

static int open_device(const char *spec, struct rank_device *d)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.n_threads = 1;
    RANKS_TRY(yoke_device_open(spec, &config, &d->device));
    RANKS_TRY(yoke_stream_create(d->device, &d->stream));
    RANKS_TRY(yoke_alloc(d->device, ROOM, (void **)&d->send));
    RANKS_TRY(yoke_alloc(d->device, ROOM, (void **)&d->recv));
    d->host = malloc(ROOM);
    return 1;
}

static int close_device(struct rank_device *d)
{
    free(d->host);
    RANKS_TRY(yoke_free(d->device, d->send));
    RANKS_TRY(yoke_free(d->device, d->recv));
    RANKS_TRY(yoke_stream_destroy(d->stream));
    RANKS_TRY(yoke_device_close(d->device));
    return 1;
}

int main(int argc, char **argv)
{
    static const size_t counts[] = { 0, 1, 1009, 70001, 700001 };
    struct rank_device d;
    ranks_start();
    const char *spec = argv[argc > 1 ? 1 + ranks_rank % (argc - 1) : 0];
    if (!ranks_check(argc > 1 && open_device(spec, &d), "devices %s%s%s", argc > 1 ? argv[1] : "",
                     argc > 2 ? " and " : "", argc > 2 ? argv[2] : ""))
        return ranks_end();
    const int seen = ranks_all(yoke_host_ptr(d.device, d.send) != NULL);
    if (ranks_rank == 0)
        printf("# memory is %s\n", seen ? "seen by the host of every rank" : "staged on some rank");
    for (int v = 0; v < 2; v++) {
        struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
        config.no_shared = v;
        yoke_comm *comm;
        const char *over = v ? "MPI" : "shared memory";
        if (!ranks_check(!yoke_comm_create(ranks_world, d.device, &config, &comm), "a communicator over %s",
                         over))
            break;
        for (size_t c = 0; c < YOKE_COUNT(counts); c++) {
            ranks_check(all_reduce(&d, comm, counts[c], 0, NULL) && all_reduce(&d, comm, counts[c], 1, NULL),
                        "all_reduce of %zu, over %s", counts[c], over);
            ranks_check(all_reduce(&d, comm, counts[c], 0, d.stream)
                            && all_reduce(&d, comm, counts[c], 1, d.stream),
                        "all_reduce of %zu in stream order, over %s", counts[c], over);
        }
        ranks_check(chain(&d, comm, 100000), "collectives that follow one another on a stream, over %s",
                    over);
        ranks_check(transfers(&d, comm, 50001, NULL) && transfers(&d, comm, 50001, d.stream),
                    "a group of send and recv, over %s", over);
        ranks_check(is_explained(comm, seen), "explained, over %s", over);
        ranks_check(sums_in_group(&d, comm, NULL) && sums_in_group(&d, comm, d.stream),
                    "small sums in a group, over %s", over);
        ranks_check(!yoke_comm_destroy(comm), "destroyed");
    }
    ranks_check(close_device(&d), "the device is closed: nothing of the communicators is left on it");
    return ranks_end();
}
