/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rate of MPI's point-to-point messages between two ranks, in both directions at once. A collective
 * cannot get more from the link.
 *
 *   mpiexec.mpich -n 2 -ppn 1 bench/goodput [BYTES [TURNS]]
 *
 * Prints bytes per second in each direction, for the median turn.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>

#include "core/base/times.h"

int main(int argc, char **argv)
{
    enum { MOST = 1000 };
    const int bytes = argc > 1 ? atoi(argv[1]) : 16 << 20, turns = argc > 2 ? atoi(argv[2]) : 5;
    int rank, size;
    double times[MOST], slowest[MOST];
    MPI_Comm world;
    if (yoke_mpi_start(&world)) return 1;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
    if (size != 2 || !out || !in || turns < 1 || turns > MOST)
        return fprintf(stderr, "goodput: two ranks, BYTES, TURNS\n"), 1;
    memset(out, rank, (size_t)bytes);
    for (int i = -1; i < turns; i++) { /* the first turn is not counted */
        MPI_Request request;
        MPI_Barrier(world);
        const double begin = MPI_Wtime();
        MPI_Irecv(in, bytes, MPI_BYTE, 1 - rank, 0, world, &request);
        MPI_Send(out, bytes, MPI_BYTE, 1 - rank, 0, world);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        if (i >= 0) times[i] = MPI_Wtime() - begin;
    }
    const int wrong = in[0] != 1 - rank || in[bytes - 1] != 1 - rank;
    MPI_Reduce(times, slowest, turns, MPI_DOUBLE, MPI_MAX, 0, world);
    qsort(slowest, (size_t)turns, sizeof *slowest, yokei_by_value);
    if (rank == 0) printf("%.0f\n", bytes / slowest[turns / 2]);
    free(out);
    free(in);
    return yoke_mpi_stop() || wrong;
}
