/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads of a rank, each with its own communicators. Some operations are in the order of streams,
 * which the library's progress thread runs; others block. In each round another thread aborts one
 * communicator at a random moment. This communicator must end on all ranks in bounded time, and all others
 * must give right results. The test is also meant for the thread sanitizer.
 * It also checks other statements of comm.h and train.h: threads may take turns at one communicator; each
 * thread has its own groups and error texts; another thread may ask for errors; and the library's thread
 * takes no signals.
 *   tests/ranks/threads SPEC [ROUNDS [SEED]]
 *     SPEC is a device with streams, such as opencl:0. On host all calls block.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>

#include "tests/ranks/ranks.h"

enum { WORKERS = 4, TURNS = 60, LARGEST = 40000, LIMIT_S = 80 };
static const double ABORT_LIMIT_S = 5; /* by ranks_limit; sanitizers and more threads than cores are slow */

struct worker {
    pthread_t thread;
    yoke_device *device; /* NULL: host memory and blocking calls */
    yoke_stream *stream;
    yoke_comm *comm;
    float *host, *data; /* data: device memory */
    bool doomed;        /* another thread aborts its communicator; it works until then */
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
        /* Two operations in flight. */
        if (turn % 3 == 0)
            YOKE_TRY(yoke_broadcast(w->data, w->data, n, YOKE_F32, turn % ranks_size, w->comm, w->stream));
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
    config.no_shared = i == 1; /* over MPI, which the progress thread also calls */
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
    const int ok = !w->wrong
                   && (w->doomed ? w->status == YOKE_EABORTED && strstr(w->text, "on purpose")
                                       && seconds < ranks_limit(ABORT_LIMIT_S)
                                 : !w->status && w->n_done == TURNS);
    if (!ok)
        fprintf(
            stderr,
            "# rank %d: worker %d%s: status %d, %d turns, %d wrong elements, %.3f s after the abort: %s\n",
            ranks_rank, i, w->doomed ? " (aborted)" : "", (int)w->status, w->n_done, w->wrong, seconds,
            w->text);
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
    /* about the same moment on all ranks, because they drew the same delay */
    const uint64_t aborted_ns = yokei_now_ns();
    if (ranks_rank == aborter) RANKS_TRY(yoke_comm_abort(workers[doomed].comm, "on purpose"));
    for (int i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WORKERS; i++) ok &= judge(&workers[i], i, aborted_ns);
    ok = ranks_all(ok);
    for (int i = 0; i < WORKERS; i++) RANKS_TRY(yoke_comm_destroy(workers[i].comm));
    return ok;
}

/* ---- threads that share one communicator, one at a time ---- */

struct turns {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    yoke_comm *comm;
    int turn, wrong;
    bool ended;
};
static struct turns turns = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0, 0, false };

/*
 * Threads take turns, so that all ranks see one order of the calls. In each turn a thread makes a group, and
 * a refused call whose error text only this thread may see.
 */
static void *take_turns(void *argument)
{
    const int mine = *(const int *)argument;
    char expected[32];
    snprintf(expected, sizeof expected, "thread %d", mine);
    yoke_fail(YOKE_EINVAL, "%s", expected);
    for (int turn = mine; turn < TURNS; turn += WORKERS) {
        float a = (float)turn, b = (float)ranks_rank;
        pthread_mutex_lock(&turns.lock);
        while (turns.turn != turn) pthread_cond_wait(&turns.wake, &turns.lock);
        bool wrong = strcmp(yoke_last_error(), expected) != 0;
        wrong |= yoke_group_start() || yoke_all_reduce(&a, &a, 1, YOKE_F32, YOKE_SUM, turns.comm, NULL)
                 || yoke_all_reduce(&b, &b, 1, YOKE_F32, YOKE_MAX, turns.comm, NULL) || yoke_group_end();
        wrong |= a != (float)(turn * ranks_size) || b != (float)(ranks_size - 1);
        wrong |= yoke_group_end() != YOKE_EINVAL; /* no group of another thread may be open here */
        yoke_fail(YOKE_EINVAL, "%s", expected);
        turns.wrong += wrong;
        turns.turn++;
        pthread_cond_broadcast(&turns.wake);
        pthread_mutex_unlock(&turns.lock);
    }
    return NULL;
}

/*
 * Ask for the error all the time. This thread also has a group open, and the calls of other threads are not
 * part of it.
 */
static void *look_on(void *unused)
{
    (void)unused;
    int errors = yoke_group_start() != YOKE_OK;
    for (;;) {
        pthread_mutex_lock(&turns.lock);
        const bool ended = turns.ended;
        pthread_mutex_unlock(&turns.lock);
        if (ended) break;
        errors += yoke_comm_error(turns.comm) != YOKE_OK || yoke_comm_size(turns.comm) != ranks_size;
        usleep(200);
    }
    errors += yoke_group_end() != YOKE_OK;
    pthread_mutex_lock(&turns.lock);
    turns.wrong += errors;
    pthread_mutex_unlock(&turns.lock);
    return NULL;
}

static int in_turn(void)
{
    pthread_t threads[WORKERS], watcher;
    int numbers[WORKERS];
    RANKS_TRY(yoke_comm_create(ranks_world, NULL, NULL, &turns.comm));
    if (pthread_create(&watcher, NULL, look_on, NULL)) exit(99);
    for (int i = 0; i < WORKERS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, take_turns, &numbers[i])) exit(99);
    }
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    pthread_mutex_lock(&turns.lock);
    turns.ended = true;
    pthread_mutex_unlock(&turns.lock);
    pthread_join(watcher, NULL);
    const int ok = ranks_all(turns.turn == TURNS && !turns.wrong);
    RANKS_TRY(yoke_comm_destroy(turns.comm));
    return ok;
}

/* The number of the library's threads in this process that block a signal. */
static int n_blocking(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300], line[256];
        unsigned long long mask = 0;
        bool is_ours = false;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            is_ours |= !strcmp(line, "Name:\tyoke-progress\n");
            sscanf(line, "SigBlk: %llx", &mask);
        }
        if (file) fclose(file);
        n += is_ours && mask >> (SIGUSR2 - 1) & 1;
    }
    if (tasks) closedir(tasks);
    return n;
}

/* An asynchronous operation starts the library's thread, which takes no signals. */
static int keeps_signals(struct worker *w)
{
    int ok = open_worker(w, 0);
    if (!ranks_all(ok)) return 0;
    ok = ranks_all(!work_once(w, 0) && n_blocking() == 1);
    RANKS_TRY(yoke_comm_destroy(w->comm));
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
    if (!ranks_check(argc > 1 && !yoke_device_open(argv[1], &config, &device), "device %s",
                     argc > 1 ? argv[1] : ""))
        return ranks_end();
    int done = 0;
    while (done < rounds && run_round(workers)) done++;
    ranks_check(done == rounds, "%d rounds of %d threads, one communicator aborted in each: the others go on",
                rounds, WORKERS);
    ranks_check(in_turn(),
                "%d threads take turns at one communicator, each with groups and error texts of its own",
                WORKERS);
    if (strcmp(argv[1], "host")) /* on the host nothing is asynchronous */
        ranks_check(keeps_signals(&workers[0]), "the library's thread takes no signals");
    int ok = 1;
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].data) ok &= !yoke_free(device, workers[i].data);
        if (workers[i].stream) ok &= !yoke_stream_destroy(workers[i].stream);
        free(workers[i].host);
    }
    ranks_check(ok && !yoke_device_close(device),
                "the device is closed: nothing of the communicators is left on it");
    return ranks_end();
}
