/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether OpenMP's threads will spin on cores that other work needs. A program that links the library may not
 * know that OpenMP's threads spin between two operations. The command bounds this for itself.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "backends/host/host.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    SAMPLES = 8, /* of the number of runnable threads; a crowd is there in all of them */
    SAMPLE_NS = 5000000,
    LEAST_WAIT_NS = 10000000,
    WAIT_SHARE = 4 /* a thread that waited for a core during a quarter of its time has shared the core */
};

/* On a crowded machine these are too many runnable threads, or a thread that has often waited for a core. */
bool yokei_host_is_crowded(const struct yokei_host_load *l)
{
    if (l->n_threads < 2) return false; /* no team: nothing spins */
    if (l->waited_ns >= LEAST_WAIT_NS && WAIT_SHARE * l->waited_ns >= l->ran_ns + l->waited_ns) return true;
    /* The number of runnable threads is that of the whole machine, so it says nothing about a part of it. */
    return l->n_allowed == l->n_units && l->n_others + l->n_threads > l->n_units;
}

static long read_others(void)
{
    FILE *f = fopen("/proc/loadavg", "re");
    int running = 0;
    if (f && fscanf(f, "%*s %*s %*s %d/", &running) != 1) running = 0;
    if (f) fclose(f);
    return YOKE_MAX(running - 1, 0); /* this thread runs too */
}

static void read_waiting(struct yokei_host_load *l)
{
    FILE *f = fopen("/proc/thread-self/schedstat", "re");
    unsigned long long ran = 0, waited = 0;
    if (f && fscanf(f, "%llu %llu", &ran, &waited) != 2) ran = waited = 0;
    if (f) fclose(f);
    l->ran_ns = ran;
    l->waited_ns = waited;
}

void yokei_host_read_load(int n_threads, struct yokei_host_load *l)
{
    cpu_set_t allowed;
    *l = (struct yokei_host_load){ .n_threads = n_threads, .n_units = sysconf(_SC_NPROCESSORS_ONLN) };
    l->n_allowed = sched_getaffinity(0, sizeof allowed, &allowed) ? l->n_units : CPU_COUNT(&allowed);
    read_waiting(l);
    l->n_others = read_others();
    for (int i = 1; i < SAMPLES && yokei_host_is_crowded(l) && l->n_others; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = SAMPLE_NS }, NULL);
        l->n_others = YOKE_MIN(l->n_others, read_others());
    }
}

void host_warn_of_spinning(int n_threads)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    struct yokei_host_load l;
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT") || getenv("KMP_BLOCKTIME")) return;
    if (n_threads < 2) return;
    yokei_host_read_load(n_threads, &l);
    if (!yokei_host_is_crowded(&l) || atomic_flag_test_and_set(&warned)) return;
    yoke_log(
        YOKE_LOG_WARN,
        "host: OpenMP's threads spin while they have no work, and other threads need the same cores (%ld others are runnable "
        "beside the device's %d, on %ld of %ld processing units; this thread has waited for a core for %.0f ms): set "
        "OMP_WAIT_POLICY=passive before the program starts, or see \"Cores that other processes share\" in docs/TUNING.md",
        l.n_others, n_threads, l.n_allowed, l.n_units, (double)l.waited_ns * 1e-6);
}
