/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-reduce by islands, and by the flat algorithm in turn (yoke_comm_config.island). The sums are verified
 * first. bench/islands runs this program on hosts with a slow link between them.
 *
 *   mpiexec.mpich -n 4 bench/bridge [ROUNDS [BYTES...]]
 *
 * The islands are those of YOKE_ISLAND_OF. For each size it prints the median times of both sides, the ratio
 * flat / islands, and the bytes that crossed in each direction for one call, as a multiple of the data.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "core/base/base.h"
#include "core/base/times.h"

enum { MOST = 1000, N_SIDES = 2, SMALL_ROUNDS = 5 };

static int rank, size;
static MPI_Comm world;
static yoke_comm *control;

struct side {
    const char *name;
    enum yoke_island island;
    yoke_comm *comm;
    struct yoke_comm_choice choice;
    double times[MOST], crossed[2]; /* bytes from the ranks of rank 0's island, and from the others */
};

static int fail(const char *what)
{
    fprintf(stderr, "bridge: rank %d: %s: %s\n", rank, what, yoke_last_error());
    PMPI_Abort(world, 1);
    return 1;
}

static double value(int r, size_t i) { return (double)((i * 7 + (size_t)r * 5) % 1009); }

/*
 * Make one call; *seconds_out is the time of the slowest rank. The ranks meet by Yoke before and after it,
 * because ranks that wait in MPI take the cores from the others.
 */
static void call(struct side *s, const float *send, float *recv, size_t n, double *seconds_out)
{
    if (yoke_barrier(control, NULL)) fail("barrier");
    const double begin = PMPI_Wtime();
    if (yoke_all_reduce(send, recv, n, YOKE_F32, YOKE_SUM, s->comm, NULL)) fail(s->name);
    *seconds_out = PMPI_Wtime() - begin;
    if (yoke_all_reduce(seconds_out, seconds_out, 1, YOKE_F64, YOKE_MAX, control, NULL)) fail("maximum");
}

/* Check every element of a sum, and count what crosses. */
static void verify(struct side *s, const float *send, float *recv, size_t n, bool is_first_island)
{
    double unused;
    memset(recv, 0, n * sizeof *recv);
    const uint64_t before = yoke_comm_bridged(s->comm);
    call(s, send, recv, n, &unused);
    double mine[2] = { 0, 0 };
    mine[!is_first_island] = (double)(yoke_comm_bridged(s->comm) - before);
    PMPI_Allreduce(mine, s->crossed, 2, MPI_DOUBLE, MPI_SUM, world);
    for (size_t i = 0; i < n; i++) {
        double want = 0;
        for (int r = 0; r < size; r++) want += value(r, i);
        if (recv[i] != (float)want) { /* exact in any order */
            fprintf(stderr, "bridge: %s: element %zu of %zu is %g, not %g\n", s->name, i, n, (double)recv[i],
                    want);
            PMPI_Abort(world, 1);
        }
    }
}

static double median(double *times, int n)
{
    qsort(times, (size_t)n, sizeof *times, yokei_by_value);
    return times[n / 2];
}

static void measure(struct side sides[], size_t bytes, int rounds, bool is_first_island)
{
    const size_t n = bytes / sizeof(float);
    if (bytes <= 1 << 20) rounds = YOKE_MIN(rounds * SMALL_ROUNDS, MOST); /* their times vary more */
    float *send = malloc(n * sizeof *send), *recv = malloc(n * sizeof *recv);
    double unused;
    if (!send || !recv) fail("no memory");
    for (size_t i = 0; i < n; i++) send[i] = (float)value(rank, i);
    for (int s = 0; s < N_SIDES; s++) {
        if (yoke_comm_explain(sides[s].comm, "all_reduce", n, YOKE_F32, YOKE_SUM, &sides[s].choice))
            fail("yoke_comm_explain");
        verify(&sides[s], send, recv, n, is_first_island);
        call(&sides[s], send, recv, n, &unused);
    }
    for (int i = 0; i < rounds; i++)
        for (int s = 0; s < N_SIDES; s++) call(&sides[s], send, recv, n, &sides[s].times[i]);
    const double by_islands = median(sides[0].times, rounds), flat = median(sides[1].times, rounds);
    if (rank == 0)
        printf(
            "%8zu KiB  %s %9.2f ms, %.3f and %.3f times the data cross   %s %9.2f ms, %.3f and %.3f   islands are %.2fx\n",
            bytes >> 10, sides[0].choice.algorithm, by_islands * 1e3, sides[0].crossed[0] / (double)bytes,
            sides[0].crossed[1] / (double)bytes, sides[1].choice.algorithm, flat * 1e3,
            sides[1].crossed[0] / (double)bytes, sides[1].crossed[1] / (double)bytes, flat / by_islands);
    fflush(stdout);
    free(send);
    free(recv);
}

int main(int argc, char **argv)
{
    static struct side sides[N_SIDES] = { { .name = "islands", .island = YOKE_ISLAND_VENDOR },
                                          { .name = "flat", .island = YOKE_ISLAND_OFF } };
    const int rounds = argc > 1 ? atoi(argv[1]) : 9;
    const char *labels = getenv("YOKE_ISLAND_OF");
    if (rounds < 1 || rounds > MOST || !labels)
        return fprintf(stderr, "bridge: [ROUNDS [BYTES...]], with YOKE_ISLAND_OF\n"), 2;
    if (yoke_mpi_start(&world)) return fail("MPI");
    PMPI_Comm_rank(world, &rank);
    PMPI_Comm_size(world, &size);
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    /* The islands of bench/islands share the cores of this machine, and do not know that. A rank that spins
       would take the core from a rank of the other island. */
    config.wait = YOKE_WAIT_YIELD;
    config.name = "control";
    if (yoke_comm_create(world, NULL, &config, &control)) return fail("yoke_comm_create");
    for (int s = 0; s < N_SIDES; s++) {
        config.name = sides[s].name;
        config.island = sides[s].island;
        if (yoke_comm_create(world, NULL, &config, &sides[s].comm)) return fail("yoke_comm_create");
    }
    struct yoke_comm_choice choice;
    if (yoke_comm_explain(sides[0].comm, "all_reduce", 1 << 20, YOKE_F32, YOKE_SUM, &choice))
        return fail("explain");
    /* the ranks of rank 0's island begin the list, "left 0-1, ..." or "0-1, ..." */
    const bool first = yoke_comm_host(sides[0].comm, rank) == yoke_comm_host(sides[0].comm, 0);
    if (rank == 0)
        printf("%d ranks, islands %s, %d columns, model %s\n", size, choice.islands, choice.n_columns,
               choice.costs);
    if (argc < 3)
        for (size_t bytes = 64 << 10; bytes <= 16 << 20; bytes *= 4) measure(sides, bytes, rounds, first);
    for (int i = 2; i < argc; i++) measure(sides, (size_t)atoll(argv[i]), rounds, first);
    for (int s = 0; s < N_SIDES; s++) yoke_comm_destroy(sides[s].comm);
    yoke_comm_destroy(control);
    return yoke_mpi_stop();
}
