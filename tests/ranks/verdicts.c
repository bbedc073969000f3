/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waits that must end. The others wait for a late rank, and then name it. An abort from another thread
 * reaches all ranks. A communicator that failed leaves other communicators unharmed. Three ranks or more. The
 * test runs on one host, and with tests/ranks/run -H on several.
 */
#include <pthread.h>

#include "tests/ranks/ranks.h"

static float send_buffer[200000], recv_buffer[200000];
static int n_warnings, n_events;
/* the rank that the warnings are about; on a busy machine others may be late, too */
static char late_name[32] = "nobody";
static bool warnings_tell; /* a warning is an event that the late rank waits for */
static char folder[256];   /* of the events' files; the ranks of all hosts see it */

/* Rank 0 makes the folder. */
static void make_folder(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/yoke-verdicts.XXXXXX", tmp ? tmp : "/tmp");
    if (ranks_rank == 0 && !mkdtemp(folder)) folder[0] = '\0';
    PMPI_Bcast(folder, sizeof folder, MPI_CHAR, 0, ranks_world);
}

/* The file that says that `rank` has seen the current event. */
static void event_path(char *path, size_t bytes, int rank)
{
    snprintf(path, bytes, "%s/%d.%d", folder, n_events, rank);
}

/* Rank 0 removes the folder, with the files of events that nobody waited for. */
static void remove_folder(void)
{
    char path[4200];
    ranks_all(1);
    if (ranks_rank) return;
    for (; n_events > 0; n_events--)
        for (int r = 0; r < ranks_size; r++) {
            event_path(path, sizeof path, r);
            unlink(path);
        }
    if (rmdir(folder)) fprintf(stderr, "# %s is left\n", folder);
}

/* Begin the next event. All ranks call this, outside other calls. */
static void begin_event(void)
{
    n_events++;
    ranks_all(1);
}

static void tell(void)
{
    char path[4200];
    event_path(path, sizeof path, ranks_rank);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

/* Wait until all other ranks have told of the event, but not longer than 60 s. Their files are removed. */
static void wait_for_others(void)
{
    char path[4200];
    const uint64_t end = yokei_now_ns() + 60000000000u;
    for (int r = 0; r < ranks_size; r++) {
        event_path(path, sizeof path, r);
        while (r != ranks_rank && access(path, F_OK) && yokei_now_ns() < end) usleep(5000);
        if (r != ranks_rank) unlink(path);
    }
}

static void count_warnings(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    if (level != YOKE_LOG_WARN || !strstr(text, "is late") || !strstr(text, late_name)) return;
    n_warnings++;
    if (warnings_tell) tell();
}

static yoke_status create(int64_t stall_ms, int64_t timeout_ms, yoke_comm **comm_out)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    config.stall_ms = stall_ms;
    config.timeout_ms = timeout_ms;
    config.name = "verdicts";
    return yoke_comm_create(ranks_world, NULL, &config, comm_out);
}

static yoke_status reduce(yoke_comm *comm, size_t count)
{
    return yoke_all_reduce(send_buffer, recv_buffer, count, YOKE_F32, YOKE_SUM, comm, NULL);
}

static void watch(int late, bool tells)
{
    snprintf(late_name, sizeof late_name, "rank %d (", late);
    begin_event();
    n_warnings = 0;
    warnings_tell = tells;
}

/*
 * A rank comes late: after all others have warned that it is late. The warning must come once and name the
 * rank, and there must be no error.
 */
static int late_is_waited_for(int late)
{
    yoke_comm *comm;
    RANKS_TRY(create(300, 120000, &comm));
    RANKS_TRY(yoke_barrier(comm, NULL));
    watch(late, true);
    if (ranks_rank == late) wait_for_others();
    RANKS_TRY(reduce(comm, 100));
    warnings_tell = false;
    const int ok = ranks_rank == late || n_warnings == 1;
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

/* The same, but the rank has announced that it is busy. No warning may come if the records can be read. */
static int busy_is_no_warning(int late)
{
    yoke_comm *comm;
    RANKS_TRY(create(300, 120000, &comm));
    RANKS_TRY(yoke_barrier(comm, NULL));
    watch(late, false);
    if (ranks_rank == late) RANKS_TRY(yoke_comm_busy(comm, "compiling"));
    ranks_all(1);
    if (ranks_rank == late) usleep(800000);
    RANKS_TRY(reduce(comm, 100));
    RANKS_TRY(yoke_comm_destroy(comm));
    return !ranks_same_host(ranks_rank, late) || n_warnings == 0;
}

/*
 * A rank comes after the others have waited for longer than stall_ms. Then it stands still for a while
 * because its messages are late. A rank that looks at it must not count the time before it came as time in
 * which it stood still.
 */
static int late_is_not_stuck(int late)
{
    char spec[64];
    snprintf(spec, sizeof spec, "rank=%d,delay=1:600ms", late);
    setenv("YOKE_INJECT", spec, 1);
    setenv("YOKE_NO_SHARED", "1", 1);
    yoke_comm *comm;
    RANKS_TRY(create(3000, 120000, &comm));
    unsetenv("YOKE_NO_SHARED");
    unsetenv("YOKE_INJECT");
    if (ranks_rank == late) usleep(4000000);
    RANKS_TRY(reduce(comm, 100));
    RANKS_TRY(reduce(comm, 100));
    RANKS_TRY(yoke_comm_destroy(comm));
    return 1;
}

/*
 * A pipeline of three ranks with a communicator for each neighbouring pair. The first rank comes late. The
 * second waits for it, and the third waits for the second, for longer than stall_ms. The second is not stuck,
 * although the third sees it inside a call and cannot see for whom it waits.
 */
static int late_elsewhere_is_not_stuck(void)
{
    yoke_comm *comm, *first, *second;
    const int rank = ranks_rank;
    RANKS_TRY(create(300, 120000, &comm));
    RANKS_TRY(yoke_comm_split(comm, rank < 2 ? 0 : -1, 0, NULL, &first));
    RANKS_TRY(yoke_comm_split(comm, rank == 1 || rank == 2 ? 0 : -1, 0, NULL, &second));
    RANKS_TRY(yoke_barrier(comm, NULL));
    if (rank == 0) usleep(1500000);
    if (rank == 0) RANKS_TRY(yoke_send(send_buffer, 100, YOKE_F32, 1, first, NULL));
    if (rank == 1) RANKS_TRY(yoke_recv(recv_buffer, 100, YOKE_F32, 0, first, NULL));
    if (rank == 1) RANKS_TRY(yoke_send(send_buffer, 100, YOKE_F32, 1, second, NULL));
    if (rank == 2) RANKS_TRY(yoke_recv(recv_buffer, 100, YOKE_F32, 0, second, NULL));
    RANKS_TRY(yoke_comm_destroy(first));
    RANKS_TRY(yoke_comm_destroy(second));
    RANKS_TRY(yoke_comm_destroy(comm));
    return 1;
}

/*
 * Rank 0 begins to receive from rank 1 beside its own work. After this work it sends to rank 1 on another
 * communicator. Rank 1 waits for that for longer than stall_ms, before it sends what rank 0 receives. Each of
 * them waits for the other meanwhile, but rank 0 is not stuck. It is late.
 */
static int receiving_beside_work_is_not_stuck(void)
{
    yoke_device *device;
    yoke_comm *comm, *back;
    yoke_event *done;
    struct yoke_comm_config c = YOKE_COMM_CONFIG_INIT;
    c.stall_ms = 300, c.timeout_ms = 120000, c.name = "verdicts";
    bool complete = false;
    RANKS_TRY(yoke_device_open("host", NULL, &device));
    RANKS_TRY(yoke_comm_create(ranks_world, device, &c, &comm));
    c.name = "back";
    RANKS_TRY(yoke_comm_split(comm, 0, ranks_rank, &c, &back));
    RANKS_TRY(yoke_event_create(device, &done));
    RANKS_TRY(yoke_barrier(comm, NULL));
    if (ranks_rank == 0) {
        RANKS_TRY(yoke_irecv(recv_buffer, 100, YOKE_F32, 1, back, done));
        usleep(1500000);
        RANKS_TRY(yoke_send(send_buffer, 100, YOKE_F32, 1, comm, NULL));
        while (!complete) RANKS_TRY(yoke_event_query(done, &complete));
    } else if (ranks_rank == 1) {
        RANKS_TRY(yoke_recv(recv_buffer, 100, YOKE_F32, 0, comm, NULL));
        RANKS_TRY(yoke_send(send_buffer, 100, YOKE_F32, 0, back, NULL));
    }
    RANKS_TRY(yoke_barrier(comm, NULL));
    RANKS_TRY(yoke_event_destroy(done));
    RANKS_TRY(yoke_comm_destroy(back));
    RANKS_TRY(yoke_comm_destroy(comm));
    RANKS_TRY(yoke_device_close(device));
    return 1;
}

/*
 * A rank does not come until all others have returned. All others must name it. The rank itself learns of
 * the error when it comes, at the latest by its next call.
 */
static int absent_is_named(int absent)
{
    yoke_comm *comm;
    char who[32];
    RANKS_TRY(create(300, 1200, &comm));
    RANKS_TRY(yoke_barrier(comm, NULL));
    begin_event();
    const uint64_t begin = yokei_now_ns();
    if (ranks_rank == absent) wait_for_others();
    yoke_status status = reduce(comm, 150000);
    const double seconds = yokei_seconds_since(begin);
    if (ranks_rank != absent) tell();
    /* All messages of the others may already be there when it comes. Then its next call returns the error. */
    if (ranks_rank == absent && !status) status = yoke_barrier(comm, NULL);
    snprintf(who, sizeof who, "rank %d (", absent);
    int ok = status == YOKE_ETIMEOUT && strstr(yoke_last_error(), who)
             && strstr(yoke_last_error(), "has not called");
    if (ranks_rank != absent) ok = ok && seconds < ranks_limit(2.3);
    if (!ok)
        fprintf(stderr, "# rank %d: status %d after %.3f s: %s\n", ranks_rank, (int)status, seconds,
                yoke_last_error());
    ok = ranks_all(ok);
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

static void *abort_soon(void *comm)
{
    usleep(100000);
    yoke_comm_abort(comm, "a test");
    return NULL;
}

static int abort_reaches_all(int aborter)
{
    yoke_comm *comm, *other;
    pthread_t thread;
    RANKS_TRY(create(10000, 60000, &comm));
    RANKS_TRY(create(10000, 60000, &other));
    begin_event();
    const uint64_t begin = yokei_now_ns();
    if (ranks_rank == aborter) pthread_create(&thread, NULL, abort_soon, comm);
    yoke_status status = YOKE_OK;
    /* One rank calls only after the others have returned, so that they are waiting when the abort comes. */
    const int away = (aborter + 1) % ranks_size;
    if (ranks_rank == away) wait_for_others();
    status = reduce(comm, 1000);
    if (ranks_rank != away) tell();
    /*
     * The messages that the others had sent before may complete its first call, while the news of the abort
     * is still on its way.
     */
    if (!status && ranks_rank == away) status = reduce(comm, 1000);
    int ok = status == YOKE_EABORTED && strstr(yoke_last_error(), "a test")
             && yokei_seconds_since(begin) < ranks_limit(2);
    if (!ok)
        fprintf(stderr, "# rank %d: status %d after %.3f s: %s\n", ranks_rank, (int)status,
                yokei_seconds_since(begin), yoke_last_error());
    ok &= yoke_comm_error(comm) == YOKE_EABORTED && reduce(comm, 4) == YOKE_EABORTED;
    if (ranks_rank == aborter) pthread_join(thread, NULL);
    ok = ranks_all(ok);
    /* The other communicator is not affected. */
    for (int i = 0; i < 50; i++) RANKS_TRY(reduce(other, 1000));
    RANKS_TRY(yoke_comm_destroy(other));
    RANKS_TRY(yoke_comm_destroy(comm));
    return ok;
}

int main(void)
{
    ranks_start();
    yoke_log_set(count_warnings, NULL, YOKE_LOG_WARN);
    char how[80] = "on one host";
    if (ranks_hosts()) snprintf(how, sizeof how, "on hosts %s", ranks_hosts());
    make_folder();
    ranks_check(folder[0] != '\0', "there is a folder for events, %s", how);
    ranks_check(late_is_waited_for(ranks_size - 1), "a late rank is waited for, with one warning, %s", how);
    ranks_check(busy_is_no_warning(1), "a rank that said it is busy is no reason for a warning, %s", how);
    for (int r = 0; r < ranks_size; r++)
        ranks_check(late_is_not_stuck(r), "rank %d comes late and is slow then: it is not called stuck, %s",
                    r, how);
    ranks_check(late_elsewhere_is_not_stuck(),
                "a rank that waits in another communicator for a late rank is not stuck, %s", how);
    ranks_check(receiving_beside_work_is_not_stuck(), "a rank that receives beside its work is not stuck, %s",
                how);
    for (int r = 0; r < ranks_size; r += 2)
        ranks_check(absent_is_named(r), "rank %d does not call and is named by all, %s", r, how);
    for (int r = 0; r < ranks_size; r++)
        ranks_check(abort_reaches_all(r), "an abort by another thread of rank %d ends all waits, %s", r, how);
    if (ranks_hosts()) ranks_check(ranks_only_records(), "nothing but records is in the run directories");
    remove_folder();
    return ranks_end();
}
