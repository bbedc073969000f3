/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program between hosts that calls MPI_Finalize itself. Rank 1 never returns from it. MPICH 4.0 sometimes
 * hangs in this way; here it is done on purpose.
 *   finalizer hang|late
 * late: nothing hangs, but rank 0 still computes for 8 s when the others are in MPI_Finalize.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <yoke/comm.h>

static int hang(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    for (;;) pause();
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    MPI_Comm world;
    yoke_comm *comm;
    int key, rank = 0;
    float one = 1;
    if (argc < 2 || yoke_mpi_start(&world)) return 2;
    MPI_Comm_rank(world, &rank);
    /* Attributes are deleted in the reverse order, so the library's attribute is deleted first. */
    if (!strcmp(argv[1], "hang") && rank == 1
        && (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, hang, &key, NULL)
            || MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL)))
        return 2;
    if (yoke_comm_create(world, NULL, NULL, &comm)
        || yoke_all_reduce(&one, &one, 1, YOKE_F32, YOKE_SUM, comm, NULL))
        return 2;
    yoke_comm_destroy(comm);
    if (!strcmp(argv[1], "late") && rank == 0) sleep(8);
    printf("rank %d: %g\n", rank, one); /* stays in the buffer */
    MPI_Finalize();
    return 0;
}
