/* SPDX-License-Identifier: Apache-2.0 */
/* Start and stop of MPI. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "collectives/faults/roll.h"
#include "collectives/flight/mpi_limits.h"
#include "collectives/ground/process.h"
#include "collectives/making/making.h"
#include "collectives/making/mpi_end.h"

enum { FINALIZE_SECONDS = 3 };

/*
 * Over tcp, UCX sends a message of more than a few KiB only after the receiver has asked for it. Both sides
 * must serve the network for that. If ranks share cores, or sum while they wait, they do not always serve it,
 * and the wire stands still. Over 1 Gbit/s all_reduce of 32 MiB took 1.25 times as long.
 * Yoke's messages always have a receive buffer ready, so they can be sent at once. An RDMA adapter moves long
 * messages without either side's help, so there UCX keeps its own choice.
 */
static void send_at_once(void)
{
    DIR *adapters = opendir("/sys/class/infiniband");
    bool any = false;
    for (struct dirent *entry; adapters && (entry = readdir(adapters));) any |= entry->d_name[0] != '.';
    if (adapters) closedir(adapters);
    if (!any) setenv("UCX_RNDV_THRESH", "512k", 0);
}

/*
 * Start MPI. A rank waits there for the other ranks, and no error from another rank reaches it. So its record
 * says that it is there, and yoke run ends it if another rank dies.
 */
static int start_mpi(int *level_out)
{
    const char *folder = getenv("YOKE_RUN_DIR"), *rank = getenv("PMI_RANK");
    struct yokei_flight_file *file = NULL;
    if (folder && *folder && rank && getenv("YOKE_SUPERVISOR")
        && yokei_flight_create(folder, atoi(rank), false, &file))
        file = NULL;
    if (file && atomic_load(&file->state) != YOKEI_RANK_UNBORN) yokei_flight_close(file), file = NULL;
    if (file) atomic_store_explicit(&file->state, YOKEI_RANK_STARTING, memory_order_release);
    const int code = PMPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, level_out);
    if (file) atomic_store_explicit(&file->state, YOKEI_RANK_UNBORN, memory_order_release);
    yokei_flight_close(file);
    return code;
}

yoke_status yoke_mpi_start(MPI_Comm *world_out)
{
    if (!world_out) return yoke_fail(YOKE_EINVAL, "yoke_mpi_start: a NULL argument");
    YOKE_TRY(yokei_check_process("yoke_mpi_start", NULL));
    int initialised = 0, level = 0, size = 0;
    PMPI_Initialized(&initialised);
    if (!initialised) {
        const char *ranks = getenv("MPI_LOCALNRANKS"), *rank = getenv("MPI_LOCALRANKID");
        char note[512];
        YOKE_TRY(yokei_make_room(ranks ? atoi(ranks) : 1, note, sizeof note));
        if (*note && (!rank || !atoi(rank))) yoke_log(YOKE_LOG_WARN, "%s", note);
        send_at_once();
        const int code = start_mpi(&level);
        if (code) return yoke_fail(YOKE_EBACKEND, "MPI_Init_thread failed with code %d", code);
    }
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    int64_t expected = 0;
    YOKE_TRY(yokei_read_number("YOKE_EXPECT_SIZE", 1, &expected));
    if (expected && expected != size)
        return yoke_fail(YOKE_ECONFIG,
                         "%lld ranks were started, and MPI knows of %d: the launcher belongs to another MPI "
                         "than the library; use mpiexec.mpich",
                         (long long)expected, size);
    *world_out = MPI_COMM_WORLD;
    return YOKE_OK;
}

/*
 * MPICH's MPI_Finalize may hang if a connection between two ranks is still being made and one of them no
 * longer serves the network. So all ranks synchronise first, and serve the network for a moment longer. This
 * helps, but not always.
 */
static yoke_status quieten(void)
{
    static const uint64_t LONGER_NS = 20000000;
    struct yokei_wait wait;
    struct yokei_handlers saved;
    yoke_status status = YOKE_OK;
    /* This wait has no time limit, so the ranks must be watched. */
    if (!yokei_roll_begin()) return yoke_fail(YOKE_ENOMEM, "yoke_mpi_stop: no memory for the list of ranks");
    yokei_wait_init(&wait, YOKEI_WAIT_YIELD, 1, 1);
    yokei_handlers_set(&saved, NULL);
    for (int round = 0; round < 2 && !status; round++) {
        MPI_Request request = MPI_REQUEST_NULL;
        int found = 0;
        const int code = PMPI_Ibarrier(MPI_COMM_WORLD, &request);
        status = yokei_mpi_finish(&request, code,
                                  &(struct yokei_mpi_wait){ .comm = MPI_COMM_WORLD,
                                                            .what = "yoke_mpi_stop",
                                                            .call = "MPI_Ibarrier",
                                                            .timeout_ms = YOKE_NO_TIMEOUT });
        for (const uint64_t since = yokei_now_ns(); !status && yokei_now_ns() - since < LONGER_NS;) {
            PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE);
            yokei_wait_idle(&wait);
        }
    }
    yokei_handlers_restore(&saved);
    return status;
}

/*
 * MPI_Finalize in a thread of its own, if MPI has threads. Over tcp, in one of ten runs, a rank never
 * finished closing a connection. The other ranks waited for it in the launcher's barrier and did not serve
 * the network any more.
 */
struct finalizer {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool ended, left;
    int code;
};
static struct finalizer finalizer = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static void *finalize(void *unused)
{
    (void)unused;
    const int code = PMPI_Finalize();
    pthread_mutex_lock(&finalizer.lock);
    finalizer.code = code;
    finalizer.ended = true;
    pthread_cond_signal(&finalizer.wake);
    pthread_mutex_unlock(&finalizer.lock);
    return NULL;
}

bool yokei_finalize_was_left(void) { return finalizer.left || yokei_process.left; }

/*
 * Runs in place of the libraries' own work at exit, because the thread inside MPI_Finalize still uses the
 * libraries.
 */
static void leave(int code, void *unused)
{
    (void)unused;
    fflush(NULL);
    _exit(code);
}

/* Whether MPI_Finalize has returned, or returns within `ns` nanoseconds. */
static bool finalizer_ended(long ns)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&finalizer.lock);
    while (!finalizer.ended
           && pthread_cond_timedwait(&finalizer.wake, &finalizer.lock, &until) != ETIMEDOUT) {}
    const bool ended = finalizer.ended;
    pthread_mutex_unlock(&finalizer.lock);
    return ended;
}

static yoke_status finalize_in_time(void)
{
    pthread_t thread;
    yokei_finalize_is_ours();
    if (!yokei_process.any_thread || pthread_create(&thread, NULL, finalize, NULL)) {
        const int code = PMPI_Finalize();
        return code ? yoke_fail(YOKE_EBACKEND, "MPI_Finalize failed") : YOKE_OK;
    }
    const uint64_t begin = yokei_now_ns();
    yoke_status status = YOKE_OK;
    bool ended = false;
    while (!ended && !status && yokei_now_ns() - begin < FINALIZE_SECONDS * 1000000000ull) {
        ended = finalizer_ended(10000000);
        if (!ended) status = yokei_roll_look("yoke_mpi_stop: MPI_Finalize");
    }
    if (ended) {
        pthread_join(thread, NULL);
        return finalizer.code ? yoke_fail(YOKE_EBACKEND, "MPI_Finalize failed") : YOKE_OK;
    }
    finalizer.left = true;
    if (!status)
        yoke_log(YOKE_LOG_WARN,
                 "MPI_Finalize did not return within %d s, after all ranks had done: going on without it",
                 FINALIZE_SECONDS);
    on_exit(leave, NULL);
    return status;
}

yoke_status yoke_mpi_stop(void)
{
    int initialised = 0, finalised = 0;
    if (yokei_process.copied_from) return YOKE_OK; /* the parent ends its MPI itself */
    PMPI_Initialized(&initialised);
    PMPI_Finalized(&finalised);
    if (!initialised || finalised || yokei_process.faulted) return YOKE_OK;
    if (yokei_process.comms)
        return yoke_fail(YOKE_EBUSY, "yoke_mpi_stop: communicators still live: destroy them first");
    if (yokei_process.left) return YOKE_OK;
    const yoke_status status = quieten();
    /* MPI's connections are broken, and no rank died. So nothing more can be sent over them. */
    if (status == YOKE_EBACKEND) return YOKE_OK;
    YOKE_TRY(status);
    YOKE_TRY(yokei_leave_launcher(&yokei_process.left));
    return yokei_process.left ? YOKE_OK : finalize_in_time();
}
