/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job that loses ranks and goes on. Every rank knows from the seed which rank dies, how and when. The other
 * ranks get an error, shrink the communicator, agree on the current round, and go on until ROUNDS rounds are
 * done. A wrong sum is an error.
 *   yoke run -n N -- tests/faults/survivor kill|stop|exit|abort|lost DEATHS SEED
 * - kill: a thread sends SIGKILL at a random moment.
 * - stop: a thread sends SIGSTOP at a random moment.
 * - exit: the rank exits with a code between two calls.
 * - abort: no rank dies. One rank aborts the communicator, and all ranks shrink it.
 * - lost: another program takes ranks away. The job goes on until it has lost DEATHS ranks, and then for
 *   ROUNDS more rounds.
 *
 * YOKE_DEVICE: the device of the rank, which `yoke run --devices` sets. The sums are then in its memory.
 * SURVIVOR_FOLDER: the folder in which each rank makes a file when it has begun.
 * SURVIVOR_FAILS: at the end the first remaining rank dies, too, and the others give up.
 * SURVIVOR_HOSTS=aabb: one letter for each rank. Ranks with different letters count as on different hosts,
 * and share the run directory. MPI goes over tcp, as between hosts. Through shared memory, a rank that is
 * killed in the middle of a message can make another rank deaf (docs/DETECTION.md).
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <yoke/comm.h>

enum { ROUNDS = 40, LARGEST = 4 << 20 };

static uint32_t state;
static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % below;
}

struct death {
    int rank, round, signal;
    unsigned microseconds;
};

static void *die(void *argument)
{
    const struct death *death = argument;
    usleep(death->microseconds);
    kill(getpid(), death->signal);
    return NULL;
}

/* Tell the program that takes ranks away that this rank is at work. */
static void leave_word(void)
{
    const char *folder = getenv("SURVIVOR_FOLDER"), *rank = getenv("PMI_RANK");
    char path[4200];
    if (!folder || !rank) return;
    snprintf(path, sizeof path, "%s/begun-%s", folder, rank);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

static void choose_host(void)
{
    const char *hosts = getenv("SURVIVOR_HOSTS"), *rank = getenv("PMI_RANK");
    const size_t at = rank ? (size_t)atoi(rank) : 0;
    char letter[2] = "";
    if (!hosts || at >= strlen(hosts)) return;
    letter[0] = hosts[at];
    setenv("YOKE_HOST_ID", letter, 1);
    setenv("UCX_TLS", "tcp,self", 1);
}

/* ---- the rank's device; NULL: the host, whose memory needs no copies ---- */

static struct {
    yoke_device *device;
    yoke_stream *stream;
    void *data;
} on;

static yoke_status open_device(void)
{
    const char *spec = getenv("YOKE_DEVICE");
    if (!spec || !strcmp(spec, "host")) return YOKE_OK;
    yoke_status status = yoke_device_open(spec, NULL, &on.device);
    if (!status) status = yoke_stream_create(on.device, &on.stream);
    if (!status) status = yoke_alloc(on.device, LARGEST * sizeof(float), &on.data);
    if (status) fprintf(stderr, "survivor: %s\n", yoke_last_error());
    return status;
}

/* Reduce `count` elements of 4 bytes, in the memory of the device. */
static yoke_status reduce(yoke_comm *comm, void *data, size_t count, yoke_dtype dtype, yoke_reduction how)
{
    if (!on.device) return yoke_all_reduce(data, data, count, dtype, how, comm, NULL);
    yoke_status status = yoke_copy_to_device(on.stream, on.data, data, 4 * count);
    if (!status) status = yoke_stream_sync(on.stream);
    if (!status) status = yoke_all_reduce(on.data, on.data, count, dtype, how, comm, NULL);
    if (!status) status = yoke_copy_to_host(on.stream, data, on.data, 4 * count);
    return status ? status : yoke_stream_sync(on.stream);
}

/* One round: a sum of which every element is checked. */
static yoke_status work(yoke_comm *comm, int round, float *data)
{
    const size_t count = round % 3 == 0 ? LARGEST : round % 3 == 1 ? 8 : 20000;
    const int rank = yoke_comm_rank(comm), size = yoke_comm_size(comm);
    for (size_t i = 0; i < count; i++) data[i] = (float)(rank + round);
    const yoke_status status = reduce(comm, data, count, YOKE_F32, YOKE_SUM);
    if (status) return status;
    const float expected = (float)(size * (size - 1) / 2 + size * round);
    for (size_t i = 0; i < count; i++)
        if (data[i] != expected)
            return yoke_fail(YOKE_ENUMERIC, "round %d, element %zu: %g, wanted %g", round, i, data[i],
                             expected);
    return YOKE_OK;
}

/*
 * After a failure: get a communicator of the remaining ranks, and the round that the last of them reached. If
 * another rank dies meanwhile, do it again.
 */
static yoke_status recover(yoke_comm **comm, int *round)
{
    for (;;) {
        yoke_comm *rest = NULL;
        yoke_status status = yoke_comm_shrink(*comm, NULL, 0, &rest);
        yoke_comm_destroy(*comm);
        *comm = rest;
        if (status) return status;
        int32_t at = *round;
        status = reduce(rest, &at, 1, YOKE_I32, YOKE_MIN);
        *round = at;
        if (!status) return YOKE_OK;
    }
}

static yoke_status run(yoke_comm **comm, const char *how, const struct death *deaths, int n_deaths,
                       float *data, int *n_lost)
{
    pthread_t thread;
    const int me = yoke_comm_rank(*comm), n = yoke_comm_size(*comm);
    int next = 0; /* index of the next death that this rank must still handle */
    const bool by_others = !strcmp(how, "lost");
    for (int round = 0, more = 0; by_others ? more < ROUNDS : round < ROUNDS;) {
        while (!by_others && next < n_deaths && deaths[next].round <= round) {
            const struct death *death = &deaths[next++];
            if (death->rank != me) continue;
            if (!strcmp(how, "exit")) _exit(3);
            if (!strcmp(how, "abort"))
                yoke_comm_abort(*comm, "tried on purpose");
            else if (pthread_create(&thread, NULL, die, (void *)death))
                return yoke_fail(YOKE_EINTERNAL, "no thread");
        }
        const yoke_status status = work(*comm, round, data);
        if (!status) {
            if (!round) leave_word();
            round++;
            more += n - yoke_comm_size(*comm) >= n_deaths;
            continue;
        }
        if (status == YOKE_ENUMERIC) return status;
        const yoke_status recovered = recover(comm, &round);
        if (recovered) return recovered;
    }
    *n_lost = n - yoke_comm_size(*comm);
    return YOKE_OK;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    struct death deaths[8];
    const int n_deaths = atoi(argv[2]);
    state = (uint32_t)atol(argv[3]) | 1;
    float *data = malloc(LARGEST * sizeof *data);
    choose_host();
    MPI_Comm world;
    yoke_comm *comm = NULL;
    if (!data || n_deaths > 8 || open_device() || yoke_mpi_start(&world)) return 2;
    if (yoke_comm_create(world, on.device, NULL, &comm)) return 2;
    const int size = yoke_comm_size(comm);
    for (int i = 0; i < 10; i++) draw(2);
    for (int i = 0, round = 0; i < n_deaths && strcmp(argv[1], "lost"); i++) {
        int taken = 1;
        while (taken) {
            deaths[i].rank = (int)draw((uint32_t)size);
            taken = 0;
            for (int j = 0; j < i; j++) taken |= deaths[j].rank == deaths[i].rank;
        }
        deaths[i].signal = !strcmp(argv[1], "stop") ? SIGSTOP : SIGKILL;
        round += (int)draw(8);
        deaths[i].round = round;
        deaths[i].microseconds = draw(3) ? draw(3000) : draw(30000);
    }
    int n_lost = 0;
    const int me = yoke_comm_rank(comm);
    const yoke_status status = run(&comm, argv[1], deaths, n_deaths, data, &n_lost);
    if (status) {
        fprintf(stderr, "rank %d: %s\n", me, yoke_last_error());
        _exit(yoke_status_exit_code(status));
    }
    if (getenv("SURVIVOR_FAILS") && yoke_comm_rank(comm) == 0) raise(SIGKILL);
    if (getenv("SURVIVOR_FAILS") && yoke_barrier(comm, NULL)) _exit(16);
    printf("rank %d did %d rounds and lost %d\n", me, ROUNDS, n_lost);
    fflush(stdout);
    yoke_comm_destroy(comm);
    free(data);
    _exit(0); /* MPI cannot be finalised without the dead ranks */
}
