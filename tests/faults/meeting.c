/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank is killed or stopped while the other ranks wait inside MPI, make a communicator, or end. This is the
 * program under test of tests/faults/meetings.
 *   meeting WHERE kill|stop     rank 1 does this to itself before WHERE, where the others wait for it
 * The other ranks print the error that they got, and after how many seconds. If a rank waits in the program's
 * own MPI_Finalize, the library ends this wait.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <yoke/comm.h>

#include "collectives/faults/roll.h"
#include "core/base/times.h"

static const char *where;
static int rank, harm;

static void come_to(const char *place)
{
    if (rank == 1 && !strcmp(where, place)) raise(harm);
}

/* A communicator fails, but all ranks live. Rank 1 does not come to the agreement on the ranks that go on. */
static yoke_status shrink(yoke_comm *comm)
{
    yoke_comm *rest = NULL;
    if (rank == 2) yoke_comm_abort(comm, "a test");
    yoke_status status = YOKE_OK;
    while (!status) status = yoke_barrier(comm, NULL);
    come_to("shrink");
    YOKE_TRY(yoke_comm_shrink(comm, NULL, 0, &rest));
    return yoke_comm_size(rest) == 2 ? yoke_barrier(rest, NULL) : YOKE_OK;
}

static yoke_status live(MPI_Comm world)
{
    yoke_comm *first = NULL, *second = NULL, *part = NULL;
    come_to("first");
    YOKE_TRY(yoke_comm_create(world, NULL, NULL, &first));
    come_to("second");
    YOKE_TRY(yoke_comm_create(world, NULL, NULL, &second));
    come_to("split");
    YOKE_TRY(yoke_comm_split(second, 0, 0, NULL, &part));
    if (!strcmp(where, "shrink")) return shrink(part);
    yokei_guard_begin("a guard");
    come_to("blocked");
    MPI_Barrier(world);
    yokei_guard_end();
    come_to("destroy");
    YOKE_TRY(yoke_comm_destroy(part));
    YOKE_TRY(yoke_comm_destroy(second));
    YOKE_TRY(yoke_comm_destroy(first));
    come_to("end");
    if (strcmp(where, "finalize")) return yoke_mpi_stop();
    come_to("finalize");
    MPI_Finalize();
    return YOKE_OK;
}

int main(int argc, char **argv)
{
    MPI_Comm world;
    if (argc < 3) return 99;
    where = argv[1];
    harm = strcmp(argv[2], "stop") ? SIGKILL : SIGSTOP;
    if (yoke_mpi_start(&world)) return 1;
    MPI_Comm_rank(world, &rank);
    const double begin = yokei_now();
    const yoke_status status = live(world);
    if (!strcmp(where, "shrink"))
        printf("rank %d went on: %s\n", rank, status ? yoke_last_error() : "all is well");
    else
        printf("rank %d was told after %.3f s: %s\n", rank, yokei_now() - begin,
               status ? yoke_last_error() : "nothing");
    fflush(stdout);
    _exit(strcmp(where, "shrink") ? yoke_status_exit_code(status) : status != YOKE_OK);
}
