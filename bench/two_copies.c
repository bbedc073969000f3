/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least time of an all_gather of two ranks on private buffers. Each rank copies its part to shared memory
 * in chunks, and copies the other rank's part from there. It does nothing else. The times of Yoke's and MPI's
 * calls can be compared with this time (row `others` of bench/collectives).
 *
 *   bench/two_copies [MIB_OF_THE_RESULT...]      default: 2 64
 *
 * Prints the median of each way to copy, in us. Also prints the median of plain copies of as many bytes,
 * without the way through shared memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/times.h"

enum { MOST_CHUNK = 1 << 20, SLOTS = 4, SAMPLES = 25, WARMING = 3 };

static struct shared {
    struct {
        _Alignas(128) _Atomic long met, shown, taken;
    } rank[2];
    char stage[2][SLOTS][MOST_CHUNK];
} * shared;
static int rank;
static long n_met, n_before; /* number of meetings; number of chunks in earlier runs */

static void meet(void)
{
    const double begin = yokei_now();
    atomic_store(&shared->rank[rank].met, ++n_met);
    while (atomic_load(&shared->rank[!rank].met) < n_met)
        if (yokei_now() - begin > 60) _exit(1); /* the other process has ended */
}

/*
 * Set recv to both ranks' parts of n bytes each, in chunks. A rank copies its own part while the other rank's
 * part is not there yet.
 */
static void gather(const char *send, char *recv, size_t n, size_t chunk)
{
    const long n_chunks = (long)((n + chunk - 1) / chunk);
    long shown = 0, taken = 0;
    while (shown < n_chunks || taken < n_chunks) {
        if (shown < n_chunks
            && n_before + shown - atomic_load_explicit(&shared->rank[!rank].taken, memory_order_acquire)
                   < SLOTS) {
            const size_t at = (size_t)shown * chunk, m = n - at < chunk ? n - at : chunk;
            memcpy(shared->stage[rank][(n_before + shown) % SLOTS], send + at, m);
            shown++;
            atomic_store_explicit(&shared->rank[rank].shown, n_before + shown, memory_order_release);
            memcpy(recv + (size_t)rank * n + at, send + at, m);
        }
        if (taken < n_chunks
            && atomic_load_explicit(&shared->rank[!rank].shown, memory_order_acquire) > n_before + taken) {
            const size_t at = (size_t)taken * chunk, m = n - at < chunk ? n - at : chunk;
            memcpy(recv + (size_t)!rank * n + at, shared->stage[!rank][(n_before + taken) % SLOTS], m);
            taken++;
            atomic_store_explicit(&shared->rank[rank].taken, n_before + taken, memory_order_release);
        }
    }
    n_before += n_chunks;
}

/* Median time of a gather. With chunk 0 it is the time of plain copies. */
static double median_of(const char *send, char *recv, size_t n, size_t chunk)
{
    double times[SAMPLES];
    for (int i = -WARMING; i < SAMPLES; i++) {
        meet();
        const double begin = yokei_now();
        if (chunk) gather(send, recv, n, chunk);
        for (int part = 0; part < 2 && !chunk; part++) memcpy(recv + (size_t)part * n, send, n);
        meet();
        if (i >= 0) times[i] = yokei_now() - begin;
    }
    return yokei_median(times, SAMPLES) * 1e6;
}

static int measure(double mib)
{
    const size_t n = (size_t)(mib * (1 << 20)) / 2;
    char *send = malloc(n), *recv = malloc(2 * n);
    if (!send || !recv || !n) return 1;
    for (size_t i = 0; i < n; i++) send[i] = (char)(i * 2654435761u >> 13) + (char)rank;
    memset(recv, 1, 2 * n);
    const double plain = median_of(send, recv, n, 0);
    if (!rank) printf("all_gather of %g MiB: plain copies %.1f us; through shared memory", mib, plain);
    for (size_t chunk = 16 << 10; chunk <= MOST_CHUNK; chunk *= 2) {
        const double us = median_of(send, recv, n, chunk);
        if (memcmp(recv + (size_t)rank * n, send, n)
            || recv[(size_t)!rank * n] != (char)(send[0] - (char)rank + (char)!rank))
            return 1;
        if (!rank) printf(" %zuK %.1f", chunk >> 10, us);
    }
    if (!rank) printf("\n");
    fflush(stdout);
    free(send);
    free(recv);
    return 0;
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1,
                  0);
    if (shared == MAP_FAILED) return 1;
    const pid_t child = fork();
    if (child < 0) return 1;
    rank = child == 0;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(rank, &cpus);
    sched_setaffinity(0, sizeof cpus, &cpus);
    int wrong = 0;
    for (int i = 1; i < argc && !wrong; i++) wrong = measure(atof(argv[i]));
    if (argc == 1) wrong = measure(2) || measure(64);
    if (rank) _exit(wrong);
    if (wrong) printf("wrong data: no speed\n");
    int status = 0;
    waitpid(child, &status, 0);
    return wrong || status;
}
