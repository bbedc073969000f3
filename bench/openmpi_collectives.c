/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open MPI's collectives with the same data, the same check and the same timing as yoke bench collectives.
 * Open MPI and MPICH cannot be in one process. So bench/collectives compiles this file with mpicc.openmpi,
 * together with the command's own files. The program measures sums, out of place, and prints CSV.
 *
 * Usage: openmpi_collectives COLLECTIVES DTYPES LEAST MOST FACTOR SAMPLES SECONDS
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/collectives.h"
#include "core/base/base.h"
#include "core/base/times.h"

struct bench {
    int rank, size, samples;
    double budget, *times;
    char *send, *recv;
};

/* Seconds per call of the slowest rank. */
static double time_calls(const struct bench *b, const struct bench_case *c, int n)
{
    PMPI_Barrier(MPI_COMM_WORLD);
    const double begin = yokei_now();
    for (int i = 0; i < n; i++) bench_mpi_call(c, b->send, b->recv, MPI_COMM_WORLD);
    double mine = (yokei_now() - begin) / n, slowest;
    PMPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static unsigned long long count_wrong(const struct bench *b, const struct bench_case *c)
{
    struct bench_verdict verdict = { 0 };
    unsigned long long all;
    bench_fill(c, BENCH_EXACT, b->send, b->recv);
    bench_mpi_call(c, b->send, b->recv, MPI_COMM_WORLD);
    bench_verify(c, BENCH_EXACT, b->recv, &verdict);
    unsigned long long mine = verdict.n_wrong;
    PMPI_Allreduce(&mine, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static void line(const struct bench *b, const struct bench_case *c)
{
    const unsigned long long wrong = count_wrong(b, c);
    struct bench_speed speed = { 0 };
    struct bench_turns turns;
    if (!wrong) {
        const double first = b->times[0] = time_calls(b, c, 1);
        const int n = bench_probe(first, b->budget);
        bench_turns_fit(n ? time_calls(b, c, n) : first, b->budget, b->samples, &turns);
        if (turns.n_warming) time_calls(b, c, turns.n_warming);
        for (int i = 0; i < turns.n_samples && (turns.n_samples > 1 || turns.n_calls > 1); i++)
            b->times[i] = time_calls(b, c, turns.n_calls);
        speed = bench_summary(b->times, turns.n_samples);
    }
    if (b->rank) return;
    printf("%s,%zu,%s,%llu,", bench_facts[c->kind].name, c->bytes, yoke_dtype_name(c->dtype), wrong);
    printf(wrong ? "\n" : "%.6g\n", speed.median * 1e6);
    fflush(stdout);
}

static void all_sizes(const struct bench *b, const char *kind, const char *dtype, char **argv)
{
    struct bench_case c = {
        .kind = bench_kind_of(kind), .rank = b->rank, .size = b->size, .reduction = YOKE_SUM
    };
    size_t before = 0;
    if (c.kind == BENCH_N_KINDS || yoke_dtype_parse(dtype, &c.dtype)) {
        fprintf(stderr, "openmpi_collectives: what is %s of %s?\n", kind, dtype);
        PMPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (uint64_t bytes = strtoull(argv[0], NULL, 10); bytes <= strtoull(argv[1], NULL, 10);
         bytes *= strtoull(argv[2], NULL, 10)) {
        bench_case_size(&c, bytes);
        const struct bench_case called = bench_mpi_case(&c);
        if (bench_mpi_offers(&c) && (!before || c.bytes != before)) line(b, &called);
        before = c.bytes;
    }
}

int main(int argc, char **argv)
{
    struct bench b;
    MPI_Init(&argc, &argv);
    if (argc != 8 || strtoull(argv[5], NULL, 10) < 2) {
        fprintf(stderr, "usage: openmpi_collectives COLLECTIVES DTYPES LEAST MOST FACTOR SAMPLES SECONDS\n");
        return 2;
    }
    PMPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &b.size);
    b.samples = atoi(argv[6]);
    b.budget = atof(argv[7]);
    const size_t bytes = strtoull(argv[4], NULL, 10) + (size_t)b.size * 8 + BENCH_GUARD;
    b.send = malloc(bytes);
    b.recv = malloc(bytes);
    b.times = malloc((size_t)b.samples * sizeof *b.times);
    if (!b.send || !b.recv || !b.times) return 13;
    if (b.rank == 0) puts("collective,bytes,dtype,wrong,us");
    char *kinds = NULL, *types = NULL, *kind_list = strdup(argv[1]);
    for (char *kind = strtok_r(kind_list, ",", &kinds); kind; kind = strtok_r(NULL, ",", &kinds)) {
        char *type_list = strdup(argv[2]);
        for (char *type = strtok_r(type_list, ",", &types); type; type = strtok_r(NULL, ",", &types))
            all_sizes(&b, kind, type, argv + 3);
        free(type_list);
    }
    free(kind_list);
    free(b.send);
    free(b.recv);
    free(b.times);
    MPI_Finalize();
    return 0;
}
