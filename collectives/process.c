/* SPDX-License-Identifier: Apache-2.0 */
/* The data that a process has once: its identity, its flight record, its progress thread. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "collectives/engine.h"
#include "collectives/verdict.h"

struct yokei_process yokei_process = { .lock = PTHREAD_MUTEX_INITIALIZER,
                                       .wake = PTHREAD_COND_INITIALIZER,
                                       .flight_fd = -1 };

/* ---- fork ---- */

/* The process before a fork that has MPI or communicators; 0: it has neither. */
static _Thread_local int forking;

static void before_fork(void)
{
    int initialised = 0, finalised = 0;
    PMPI_Initialized(&initialised);
    PMPI_Finalized(&finalised);
    forking = (initialised && !finalised) || yokei_process.flight ? (int)getpid() : 0;
}

/*
 * The child has a copy of the communicators and maps the same shared memory, but it is no rank, and has no
 * thread but this one. Another thread may have held the lock.
 */
static void in_child(void)
{
    struct yokei_process *p = &yokei_process;
    if (!p->copied_from) p->copied_from = forking;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->thread_runs = false;
    p->n_async = 0;
    yokei_witness_forget();
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, NULL, in_child); }

yoke_status yokei_check_process(const char *call, const yoke_comm *comm)
{
    const struct yokei_process *p = &yokei_process;
    if (!p->copied_from) return YOKE_OK;
    const struct yokei_maker maker = { .pid = p->copied_from };
    char what[64] = "MPI";
    if (comm) yokei_text(what, sizeof what, "communicator \"%s\"", comm->name);
    return yokei_refuse_fork(call, &maker, what,
                             "a forked process is no rank of the job, so let the rank make the call");
}

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

/* ---- the progress thread ---- */

static void *progress_thread(void *unused)
{
    (void)unused;
    struct yokei_process *p = &yokei_process;
    struct yokei_wait wait;
    yokei_wait_init(&wait, YOKEI_WAIT_SLEEP, 1, 1);
    pthread_mutex_lock(&p->lock);
    while (!p->thread_ends) {
        if (!p->n_async) {
            pthread_cond_wait(&p->wake, &p->lock);
            continue;
        }
        const bool moved = yokei_progress();
        pthread_mutex_unlock(&p->lock);
        if (moved)
            yokei_wait_progress(&wait);
        else
            yokei_wait_idle(&wait);
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

yoke_status yokei_thread_start(void)
{
    struct yokei_process *p = &yokei_process;
    if (!p->thread_runs) {
        p->thread_ends = false;
        const int error = yokei_thread_without_signals(&p->thread, progress_thread, NULL);
        if (!error) pthread_setname_np(p->thread, "yoke-progress");
        if (error)
            return yoke_fail(YOKE_ENOMEM, "the progress thread could not be started: %s", strerror(error));
        p->thread_runs = true;
    }
    pthread_cond_signal(&p->wake);
    return YOKE_OK;
}

void yokei_thread_end(void)
{
    struct yokei_process *p = &yokei_process;
    pthread_mutex_lock(&p->lock);
    const bool runs = p->thread_runs;
    p->thread_runs = false;
    p->thread_ends = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
    if (runs) pthread_join(p->thread, NULL);
}
