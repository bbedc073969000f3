/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs of tests/ranks share this header: start and stop, TAP from rank 0, and agreement of all ranks
 * on a result.
 */
#ifndef TESTS_RANKS_RANKS_H
#define TESTS_RANKS_RANKS_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <yoke/comm.h>

#include "core/base/base.h"

bool yokei_finalize_was_left(void); /* from collectives/comm.h */
bool yokei_flight_ended_badly(const char *folder, int rank, int *signal_out,
                              int *code_out); /* from collectives/flight.h */

static int ranks_rank, ranks_size, ranks_n_checks, ranks_n_failed;
static MPI_Comm ranks_world;

static inline void ranks_log(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level;
    fprintf(stderr, "# rank %d: %s\n", ranks_rank, text);
}

/*
 * The hosts of the ranks, from tests/ranks/run -H: one letter per rank. NULL without -H. Each host has its
 * own run directory.
 */
static inline const char *ranks_hosts(void) { return getenv("RANKS_HOSTS"); }

static inline void ranks_run_dir(char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/%c", getenv("RANKS_HOSTS_DIR"), ranks_hosts()[ranks_rank]);
}

static inline int ranks_same_host(int a, int b)
{
    return !ranks_hosts() || ranks_hosts()[a] == ranks_hosts()[b];
}

static inline void ranks_start(void)
{
    char path[4096];
    if (yoke_mpi_start(&ranks_world)) {
        printf("not ok 1 - MPI starts: %s\n1..1\n", yoke_last_error());
        exit(1);
    }
    PMPI_Comm_rank(ranks_world, &ranks_rank);
    PMPI_Comm_size(ranks_world, &ranks_size);
    if (!ranks_hosts()) return;
    ranks_run_dir(path, sizeof path);
    setenv("YOKE_RUN_DIR", path, 1);
}

/*
 * Whether the run directory contains only the flight records of the ranks of its host. (A flight record is a
 * file in which a rank notes its collective calls.)
 */
static inline int ranks_only_records(void)
{
    char path[4096];
    int n_wanted = 0, n_found = 0;
    ranks_run_dir(path, sizeof path);
    for (int r = 0; r < ranks_size; r++) n_wanted += ranks_same_host(r, ranks_rank);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        if (entry->d_name[0] != '.') n_found += strncmp(entry->d_name, "flight-", 7) ? ranks_size : 1;
    if (folder) closedir(folder);
    return n_found == n_wanted;
}

/*
 * End the test on all ranks, with a line of TAP that gives the reason. Use this if the other ranks may wait
 * for this rank in a place where they would wait long. The launcher ends the other ranks. If each rank has an
 * agent (the process that starts and watches a rank), the launcher ends the agents, and the agents end the
 * ranks. The launcher may lose what a rank has just printed, so tests/ranks/run reads the line from the file
 * RANKS_WHY.
 */
static inline void ranks_abandon(const char *format, ...) YOKE_PRINTF(1, 2) __attribute__((noreturn));
static inline void ranks_abandon(const char *format, ...)
{
    char why[600];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    const char *path = getenv("RANKS_WHY");
    FILE *file = path ? fopen(path, "a") : stdout;
    if (file) fprintf(file, "not ok %d - %s\n", ranks_n_checks + 1, why);
    if (file) fflush(file);
    PMPI_Abort(ranks_world, 1);
    _exit(1);
}

/*
 * A rank that died or ended with an error, as its agent has noted; -1 if there is none. Without agents the
 * launcher ends the test by itself.
 */
static inline int ranks_ended(int *signal_out, int *code_out)
{
    const char *folder = getenv("RANKS_RUN_DIR");
    for (int r = 0; folder && r < ranks_size; r++)
        if (yokei_flight_ended_badly(folder, r, signal_out, code_out)) return r;
    return -1;
}

/*
 * Whether `ok` holds on all ranks. It uses MPI, so that the tested library does not judge itself, and sleeps
 * while it waits. If `ok` is false on this rank, the other ranks may never come. Then the test is ended on
 * all ranks after `seconds` seconds.
 */
enum { RANKS_FAILED_SECONDS = 2, RANKS_NO_SECONDS = 30 };
static inline int ranks_all_named(int ok, int seconds, const char *name)
{
    enum { TURNS = 20, LOOK_EVERY = 1 };
    int all = 0, complete = 0, signal = 0, code = 0;
    const uint64_t begin = yokei_now_ns();
    uint64_t looked = begin;
    MPI_Request request;
    PMPI_Iallreduce(&ok, &all, 1, MPI_INT, MPI_MIN, ranks_world, &request);
    for (PMPI_Test(&request, &complete, MPI_STATUS_IGNORE); !complete;
         PMPI_Test(&request, &complete, MPI_STATUS_IGNORE)) {
        usleep(TURNS);
        const uint64_t now = yokei_now_ns();
        if (!ok && now - begin > (uint64_t)seconds * 1000000000)
            ranks_abandon("rank %d of %d: %s: %.300s; the others wait elsewhere, and were ended", ranks_rank,
                          ranks_size, name, yoke_last_error());
        if (now - looked < LOOK_EVERY * 1000000000ull) continue;
        looked = now;
        const int ended = ranks_ended(&signal, &code);
        if (ended >= 0)
            ranks_abandon("%s: rank %d of %d ended with code %d, signal %d; the others were ended", name,
                          ended, ranks_size, code, signal);
    }
    return all;
}
/* The same for a result that is not yet a failure if it is false: the other ranks get more time to come. */
static inline int ranks_all(int ok) { return ranks_all_named(ok, RANKS_NO_SECONDS, "a step of the test"); }

/*
 * Print one line of TAP: ok if `ok` holds on every rank. A rank on which it does not hold says so on stderr.
 * Collective.
 */
static inline int ranks_check(int ok, const char *format, ...) YOKE_PRINTF(2, 3);
static inline int ranks_check(int ok, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (!ok)
        fprintf(stderr, "# rank %d of %d: failed: %s (last error: %s)\n", ranks_rank, ranks_size, name,
                yoke_last_error());
    const int all = ranks_all_named(ok, RANKS_FAILED_SECONDS, name);
    ranks_n_checks++;
    ranks_n_failed += !all;
    if (ranks_rank == 0) {
        printf("%sok %d - %s, %d ranks\n", all ? "" : "not ", ranks_n_checks, name, ranks_size);
        fflush(stdout);
    }
    return all;
}

static inline int ranks_end(void)
{
    if (ranks_rank == 0) printf("1..%d\n", ranks_n_checks);
    fflush(stdout);
    if (yoke_mpi_stop()) {
        fprintf(stderr, "# rank %d of %d: the end of the job: %s\n", ranks_rank, ranks_size,
                yoke_last_error());
        return 1;
    }
    if (yokei_finalize_was_left()) return ranks_n_failed != 0;
    int finalised = 0;
    PMPI_Finalized(&finalised);
    /*
     * MPI may not be finalised after a fault that the test provoked. A program that does so runs with agents.
     */
    if (!finalised) {
        ranks_all(1);
        _exit(ranks_n_failed != 0);
    }
    return ranks_n_failed != 0;
}

/*
 * The same random numbers on all ranks. The seed is rank 0's: from the command line, or else from the clock.
 * It is printed.
 */
static uint64_t ranks_state __attribute__((unused));
static inline uint32_t draw(uint32_t below)
{
    ranks_state ^= ranks_state << 13, ranks_state ^= ranks_state >> 7, ranks_state ^= ranks_state << 17;
    return (uint32_t)(ranks_state >> 32) % below;
}

static inline void begin_drawing(const char *seed)
{
    ranks_state = seed ? (uint64_t)atoll(seed) : (uint64_t)time(NULL);
    PMPI_Bcast(&ranks_state, 8, MPI_BYTE, 0, ranks_world);
    if (ranks_rank == 0) printf("# seed %llu\n", (unsigned long long)ranks_state);
    ranks_state = ranks_state * 2654435761u + 88172645463325252ull;
}

/*
 * The most seconds that a step may take that is promised to take `promised` at the most. Only `make soak`
 * checks the promise itself. Elsewhere other programs may keep the processors busy, so the limit is one that
 * only a wait without end exceeds.
 */
static inline double ranks_limit(double promised) { return getenv("YOKE_SOAK") ? promised : promised + 60; }

/* If a call fails that the test needs, print where it failed, and return 0. */
#define RANKS_TRY(x)                                                                          \
    do {                                                                                      \
        if (x) {                                                                              \
            fprintf(stderr, "# rank %d: %s:%d: %s: %s\n", ranks_rank, __FILE__, __LINE__, #x, \
                    yoke_last_error());                                                       \
            return 0;                                                                         \
        }                                                                                     \
    } while (0)

/* Whether this rank can open the device `spec`. */
static inline bool ranks_has_device(const char *spec)
{
    yoke_device *device;
    if (yoke_device_open(spec, NULL, &device)) return false;
    yoke_device_close(device);
    return true;
}

#endif
