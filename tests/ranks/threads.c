/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads of a rank, each with communicators of its own: operations in the order of streams, which the progress
 * thread looks after, beside blocking ones; and one communicator of each round is aborted by another thread at a random
 * moment. That one ends on all ranks in bounded time, all others give right results. For the thread sanitizer too.
 *   tests/ranks/threads SPEC [ROUNDS [SEED]]     a device with streams, such as opencl:0; host: all calls block
 */
#include <pthread.h>

#include "tests/ranks/ranks.h"

enum { WORKERS = 4, TURNS = 60, LARGEST = 40000, LIMIT_S = 20 };
static const double ABORT_LIMIT_S = 5; /* far above what is usual: sanitizers, and more threads than cores */

struct worker {
    pthread_t thread;
    yoke_device *device;   /* NULL: host memory, blocking */
    yoke_stream *stream;
    yoke_comm *comm;
    float *host, *data;    /* data: of the device */
    bool doomed;           /* its communicator is aborted: it works until then */
    uint64_t end_ns;
    yoke_status status;
    char text[512];
    int n_done, wrong;
};

static yoke_device *device;

static float value(int r, size_t i, int turn) { return (float)((i + (size_t)r * 3 + (size_t)turn) % 11); }

static yoke_status work_once(struct worker *w, int turn)
{
    const size_t n = turn % 5 == 4 ? LARGEST : 1 + (size_t)turn * 131 % 2000;
    for (size_t i = 0; i < n; i++) w->host[i] = value(ranks_rank, i, turn);
    if (!w->device) {
        YOKE_TRY(yoke_all_reduce(w->host, w->host, n, YOKE_F32, YOKE_SUM, w->comm, NULL));
    } else {
        YOKE_TRY(yoke_copy_to_device(w->stream, w->data, w->host, n * sizeof(float)));
        YOKE_TRY(yoke_all_reduce(w->data, w->data, n, YOKE_F32, YOKE_SUM, w->comm, w->stream));
        if (turn % 3 == 0) YOKE_TRY(yoke_broadcast(w->data, w->data, n, YOKE_F32, turn % ranks_size, w->comm, w->stream)); /* two in flight */
        YOKE_TRY(yoke_copy_to_host(w->stream, w->host, w->data, n * sizeof(float)));
        YOKE_TRY(yoke_stream_sync(w->stream));
        YOKE_TRY(yoke_comm_error(w->comm));
    }
    for (size_t i = 0; i < n; i++) {
        float sum = 0;
        for (int r = 0; r < ranks_size; r++) sum += value(r, i, turn);
        w->wrong += w->host[i] != sum;
    }
    return YOKE_OK;
}

static void *work(void *argument)
{
    struct worker *w = argument;
    const uint64_t end = yokei_now_ns() + (uint64_t)LIMIT_S * 1000000000u;
    for (int turn = 0; !w->status && (w->doomed ? yokei_now_ns() < end : turn < TURNS); turn++) {
        w->status = work_once(w, turn);
        w->n_done += !w->status;
    }
    w->end_ns = yokei_now_ns();
    snprintf(w->text, sizeof w->text, "%s", w->status ? yoke_last_error() : "");
    return NULL;
}

static int open_worker(struct worker *w, int i)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    char name[32];
    snprintf(name, sizeof name, "worker %d", i);
    config.name = name;
    config.no_shared = i == 1; /* over MPI, which the progress thread calls too */
    w->device = i < WORKERS - 1 ? device : NULL;
    if (!w->host && !(w->host = malloc(LARGEST * sizeof(float)))) return 0;
    if (w->device && !w->stream) {
        RANKS_TRY(yoke_stream_create(device, &w->stream));
        RANKS_TRY(yoke_alloc(device, LARGEST * sizeof(float), (void **)&w->data));
    }
    w->status = YOKE_OK;
    w->n_done = w->wrong = 0;
    RANKS_TRY(yoke_comm_create(ranks_world, w->device, &config, &w->comm));
    return 1;
}

static int judge(const struct worker *w, int i, uint64_t aborted_ns)
{
    const double seconds = w->end_ns > aborted_ns ? (double)(w->end_ns - aborted_ns) * 1e-9 : 0;
    const int ok = !w->wrong && (w->doomed ? w->status == YOKE_EABORTED && strstr(w->text, "on purpose") && seconds < ABORT_LIMIT_S
                                           : !w->status && w->n_done == TURNS);
    if (!ok)
        fprintf(stderr, "# rank %d: worker %d%s: status %d, %d turns, %d wrong elements, %.3f s after the abort: %s\n", ranks_rank, i,
                w->doomed ? " (aborted)" : "", (int)w->status, w->n_done, w->wrong, seconds, w->text);
    return ok;
}

static int run_round(struct worker workers[WORKERS])
{
    const int doomed = (int)draw(WORKERS), aborter = (int)draw((uint32_t)ranks_size);
    const useconds_t delay = draw(60000);
    int ok = 1;
    for (int i = 0; i < WORKERS && ok; i++) {
        ok = open_worker(&workers[i], i);
        workers[i].doomed = i == doomed;
    }
    if (!ranks_all(ok)) return 0;
    for (int i = 0; i < WORKERS; i++) ok &= !pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    if (!ok) exit(99);
    usleep(delay);
    const uint64_t aborted_ns = yokei_now_ns(); /* about the same moment on all ranks: they drew the same delay */
    if (ranks_rank == aborter) RANKS_TRY(yoke_comm_abort(workers[doomed].comm, "on purpose"));
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++) ok &= judge(&workers[i], i, aborted_ns);
    ok = ranks_all(ok);
    for (int i = 0; i < WORKERS; i++) RANKS_TRY(yoke_comm_destroy(workers[i].comm));
    return ok;
}

int main(int argc, char **argv)
{
    struct worker workers[WORKERS] = { { .thread = 0 } };
    const int rounds = argc > 2 ? atoi(argv[2]) : getenv("YOKE_SOAK") ? 200 : 8;
    ranks_start();
    begin_drawing(argc > 3 ? argv[3] : NULL);
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.n_threads = 1;
    if (!ranks_check(argc > 1 && !yoke_device_open(argv[1], &config, &device), "device %s", argc > 1 ? argv[1] : "")) return ranks_end();
    int done = 0;
    while (done < rounds && run_round(workers)) done++;
    ranks_check(done == rounds, "%d rounds of %d threads, one communicator aborted in each: the others go on", rounds, WORKERS);
    int ok = 1;
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].data) ok &= !yoke_free(device, workers[i].data);
        if (workers[i].stream) ok &= !yoke_stream_destroy(workers[i].stream);
        free(workers[i].host);
    }
    ranks_check(ok && !yoke_device_close(device), "the device is closed: nothing of the communicators is left on it");
    return ranks_end();
}
