/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process begins with its first communicator, and ends with its last: its identity and its flight
 * record.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "collectives/faults/witness.h"
#include "collectives/making/making.h"
#include "collectives/making/mpi_end.h"

/* The record lies in the run directory, or, without one, in memory that has no name. */
static yoke_status open_record(void)
{
    static bool opened; /* this process opened it before, and goes on in the same record */
    struct yokei_process *p = &yokei_process;
    const char *folder = getenv("YOKE_RUN_DIR");
    const bool has_agent = getenv("YOKE_SUPERVISOR") != NULL;
    p->run_dir[0] = '\0';
    p->flight_fd = -1;
    p->is_witness = false;
    if (!folder || !*folder) return yokei_flight_create_memory(p->world_rank, &p->flight_fd, &p->flight);
    if (strlen(folder) >= sizeof p->run_dir)
        return yoke_fail(YOKE_EIO, "YOKE_RUN_DIR: longer than %zu letters", sizeof p->run_dir - 1);
    yokei_text(p->run_dir, sizeof p->run_dir, "%s", folder);
    if (!has_agent && !opened) {
        YOKE_TRY(yokei_make_folder(folder));
        if (p->world_rank == 0)
            yokei_flight_drop(folder, p->n_world); /* records of an earlier job with more ranks */
    }
    YOKE_TRY(yokei_flight_create(folder, p->world_rank, !has_agent && !opened, &p->flight));
    p->is_witness = !has_agent;
    opened = true;
    return YOKE_OK;
}

yoke_status yokei_check_mpi(void)
{
    int initialised = 0, finalised = 0;
    PMPI_Initialized(&initialised);
    PMPI_Finalized(&finalised);
    if (initialised && !finalised) return YOKE_OK;
    return yoke_fail(
        YOKE_EINVAL,
        "yoke_comm_create: MPI is not initialised: call yoke_mpi_start or MPI_Init_thread first");
}

yoke_status yokei_process_begin(void)
{
    struct yokei_process *p = &yokei_process;
    int level = MPI_THREAD_SINGLE;
    if (p->flight) return YOKE_OK;
    PMPI_Query_thread(&level);
    PMPI_Comm_rank(MPI_COMM_WORLD, &p->world_rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &p->n_world);
    p->any_thread = level == MPI_THREAD_MULTIPLE;
    p->main_thread = pthread_self();
    struct yokei_topology topology;
    p->l3_bytes = yokei_topology(&topology) || !topology.l3_bytes ? 32 << 20 : topology.l3_bytes;
    if (getrandom(&p->nonce, sizeof p->nonce, 0) != sizeof p->nonce)
        return yoke_fail(YOKE_EIO, "yoke_comm_create: no random number: %s", strerror(errno));
    gethostname(p->host, sizeof p->host - 1);
    yokei_process_state(getpid(), &p->start_time);
    YOKE_TRY(open_record());
    struct yokei_flight_file *f = p->flight;
    memcpy(f->host, p->host, sizeof f->host);
    f->nonce = p->nonce;
    f->start_time = p->start_time;
    f->pid = getpid();
    f->n_ranks = p->n_world;
    atomic_store(&f->heartbeat_ns, yokei_now_ns());
    yokei_finalize_watch();
    atomic_store_explicit(&f->state, YOKEI_RANK_OUTSIDE, memory_order_release);
    return YOKE_OK;
}

void yokei_process_end(void)
{
    struct yokei_process *p = &yokei_process;
    if (!p->flight) return;
    yokei_witness_end();
    if (!p->faulted && !p->copied_from)
        atomic_store_explicit(&p->flight->state, YOKEI_RANK_LEFT, memory_order_release);
    yokei_flight_close(p->flight);
    p->flight = NULL;
    if (p->flight_fd >= 0) close(p->flight_fd);
    p->flight_fd = -1;
}
