/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of collectives on an emulated CUDA device, which two ranks of one host share memory for.
 *   copies             the device copies straight from and to the shared memory
 *   copies slots       the same on a driver that registers no memory (YOKE_EMULATE_FAIL=no-register@1)
 *   copies fault       a copy fails on the device (YOKE_EMULATE_FAIL=ecc@N)
 * The test stands between the backend and the driver. It sees the begin and the end of each copy, and holds
 * copies at gates. A gate opens when the pipeline has come to a place that it can reach only while the held
 * copies are in flight. Nothing here measures time. The first line of the output has counts.
 */
#include "tests/ranks/ranks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"

enum { MIB = 1 << 20, N = 4 * MIB, MOST_PIECES = 256, MOST_SECONDS = 60 };
enum { LINES = 1 }; /* of the log, for a driver that registers no memory */

static yoke_device *device;
static struct cuda_library *cu,
    own; /* the functions of the driver, as the backend calls them, and as they are */
static yoke_comm *comm;
static yoke_stream *stream;
static float *send, *recv; /* [N] on the device */
static size_t chunk;       /* bytes of a piece */
static int n_lines;        /* lines of the log about memory that is not registered */

/* ---- what the driver is asked for ---- */

/* A copy between the device and the host. Its command runs between two functions of the host. */
struct copy {
    bool is_out;
    size_t piece, bytes;
    atomic_bool begun, ended;
};
static struct copy copies[4 * MOST_PIECES];
static atomic_int n_copies,
    n_polls; /* n_polls: queries of events, and what makes a context current for a call */
static atomic_size_t through_slots; /* bytes that the host copies from or to slots */
static atomic_int outs_issued[MOST_PIECES], outs_ended, ins_begun, ins_issued[MOST_PIECES];
static atomic_size_t in_bytes[MOST_PIECES]; /* of each piece, that have been copied in */
static atomic_int most_in_flight, n_calls_of_host, n_unregistered;
static bool holds_copies, holds_host; /* gates for the pipeline, and for the host's part of slots */
static atomic_bool is_open, was_stuck, unlocked_too_early;
static bool waits_for_open; /* copies out of piece 2 and later wait until is_open */

static void set_up(void)
{
    memset(copies, 0, sizeof copies);
    n_copies = n_polls = outs_ended = ins_begun = most_in_flight = n_calls_of_host = 0;
    through_slots = 0;
    for (int i = 0; i < MOST_PIECES; i++) {
        outs_issued[i] = ins_issued[i] = 0;
        in_bytes[i] = 0;
    }
}

/* Hold a queue until the number has come, or until it is clear that it does not come. */
static void wait_until(atomic_int *number, int value)
{
    for (uint64_t begin = yokei_now_ns(); atomic_load(number) < value; usleep(200))
        if (atomic_load(&was_stuck) || yokei_now_ns() - begin > MOST_SECONDS * 1000000000ull) {
            atomic_store(&was_stuck, true);
            return;
        }
}

/* Pieces whose copy out has been issued and whose copies in have not ended. */
static void count_in_flight(void)
{
    int n = 0;
    for (int i = 0; i < MOST_PIECES; i++)
        n += atomic_load(&outs_issued[i]) && atomic_load(&in_bytes[i]) < chunk;
    if (n > atomic_load(&most_in_flight)) atomic_store(&most_in_flight, n);
}

static void copy_begins(void *argument)
{
    struct copy *c = argument;
    atomic_store(&c->begun, true);
    if (!c->is_out) atomic_fetch_add(&ins_begun, 1);
}

/*
 * While the copy out of piece 2 and the first copy in of piece 0 are held, the ranks sum piece 1. Only then
 * is the copy in of piece 1 issued.
 */
static void copy_ends(void *argument)
{
    struct copy *c = argument;
    if (holds_copies && c->is_out && c->piece == 2) wait_until(&ins_begun, 1);
    if (holds_copies && c->piece == (c->is_out ? 2u : 0u)) wait_until(&ins_issued[1], 1);
    for (uint64_t begin = yokei_now_ns();
         waits_for_open && c->is_out && c->piece >= 2 && !atomic_load(&is_open); usleep(200))
        if (yokei_now_ns() - begin > MOST_SECONDS * 1000000000ull) break;
    atomic_store(&c->ended, true);
    if (c->is_out)
        atomic_fetch_add(&outs_ended, 1);
    else
        atomic_fetch_add(&in_bytes[c->piece], c->bytes);
}

static bool is_locked(const void *host, size_t bytes)
{
    return yokei_rt_has_pin(yokei_rt(device), host, bytes);
}

/* Note a copy of this device address, or return NULL for a copy of other memory. */
static struct copy *note(bool is_out, CUdeviceptr at, const void *host, size_t bytes)
{
    const CUdeviceptr base = (CUdeviceptr)(uintptr_t)(is_out ? send : recv);
    if (!chunk || at < base || at >= base + (CUdeviceptr)N * sizeof *send) return NULL;
    struct copy *c = &copies[atomic_fetch_add(&n_copies, 1)];
    *c = (struct copy){ .is_out = is_out, .piece = (size_t)(at - base) / chunk, .bytes = bytes };
    if (!is_locked(host, bytes)) atomic_fetch_add(&through_slots, bytes);
    atomic_fetch_add(is_out ? &outs_issued[c->piece] : &ins_issued[c->piece], 1);
    count_in_flight();
    return c;
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream queue)
{
    struct copy *c = note(true, from, to, bytes);
    if (c) own.cuLaunchHostFunc(queue, copy_begins, c);
    const CUresult error = own.cuMemcpyDtoHAsync_v2(to, from, bytes, queue);
    if (c) own.cuLaunchHostFunc(queue, copy_ends, c);
    return error;
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream queue)
{
    struct copy *c = note(false, to, from, bytes);
    if (c) own.cuLaunchHostFunc(queue, copy_begins, c);
    const CUresult error = own.cuMemcpyHtoDAsync_v2(to, from, bytes, queue);
    if (c) own.cuLaunchHostFunc(queue, copy_ends, c);
    return error;
}

static CUresult query(CUevent event)
{
    atomic_fetch_add(&n_polls, 1);
    return own.cuEventQuery(event);
}

static CUresult push(CUcontext context)
{
    atomic_fetch_add(&n_polls, 1);
    return own.cuCtxPushCurrent_v2(context);
}

static CUresult pop(CUcontext *context)
{
    atomic_fetch_add(&n_polls, 1);
    return own.cuCtxPopCurrent_v2(context);
}

static CUresult get_current(CUcontext *context)
{
    atomic_fetch_add(&n_polls, 1);
    return own.cuCtxGetCurrent(context);
}

struct held_call {
    CUhostFn function;
    void *argument;
};

/* The host does its first part only when the device has copied three pieces. */
static void held_call(void *argument)
{
    struct held_call call = *(struct held_call *)argument;
    free(argument);
    wait_until(&outs_ended, 3);
    call.function(call.argument);
}

static CUresult call_host(CUstream queue, CUhostFn function, void *argument)
{
    const int number = atomic_fetch_add(&n_calls_of_host, 1);
    struct held_call *held = number || !holds_host ? NULL : malloc(sizeof *held);
    if (!held) return own.cuLaunchHostFunc(queue, function, argument);
    *held = (struct held_call){ function, argument };
    return own.cuLaunchHostFunc(queue, held_call, held);
}

/* No copy may be on its way to memory that is unregistered. */
static CUresult unregister(void *memory)
{
    const int n = atomic_load(&n_copies);
    atomic_fetch_add(&n_unregistered, 1);
    for (int i = 0; i < n; i++)
        if (!atomic_load(&copies[i].ended)) atomic_store(&unlocked_too_early, true);
    return own.cuMemHostUnregister(memory);
}

static void stand_between(void)
{
    cu = (struct cuda_library *)(uintptr_t)cuda_device(device)->cu;
    own = *cu;
    cu->cuMemcpyDtoHAsync_v2 = copy_out;
    cu->cuMemcpyHtoDAsync_v2 = copy_in;
    cu->cuLaunchHostFunc = call_host;
    cu->cuEventQuery = query;
    cu->cuCtxPushCurrent_v2 = push;
    cu->cuCtxPopCurrent_v2 = pop;
    cu->cuCtxGetCurrent = get_current;
    cu->cuMemHostUnregister = unregister;
}

/* ---- sums ---- */

static void count_lines(void *context, yoke_log_level level, const char *text)
{
    n_lines += strstr(text, "does not page-lock") != NULL;
    ranks_log(context, level, text);
}

static uint32_t bits_of(int rank, size_t i)
{
    const uint32_t random = ((uint32_t)i + (uint32_t)rank * 77777u) * 2654435761u;
    return (random & 0x807fffffu) | (120u + (random >> 9) % 12) << 23; /* numbers from 2^-7 to 2^5 */
}

static float value_of(int rank, size_t i)
{
    const uint32_t bits = bits_of(rank, i);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static int fill(void)
{
    float *host = malloc(N * sizeof *host);
    if (!host) return 0;
    for (size_t i = 0; i < N; i++) host[i] = value_of(ranks_rank, i);
    RANKS_TRY(yoke_copy_to_device(stream, send, host, N * sizeof *host));
    RANKS_TRY(yoke_fill(stream, recv, 0xff, N * sizeof *host));
    RANKS_TRY(yoke_stream_sync(stream));
    free(host);
    return 1;
}

static int is_right(size_t n)
{
    float *host = malloc(N * sizeof *host);
    int good = host != NULL;
    if (!good) return 0;
    RANKS_TRY(yoke_copy_to_host(stream, host, recv, N * sizeof *host));
    RANKS_TRY(yoke_stream_sync(stream));
    for (size_t i = 0; i < n && good; i++) {
        const float want = value_of(0, i) + value_of(1, i);
        good = !memcmp(&host[i], &want, sizeof want);
    }
    free(host);
    return good;
}

static int open_all(void)
{
    struct yoke_comm_choice choice = YOKE_COMM_CHOICE_INIT;
    RANKS_TRY(yoke_device_open("cuda:0", NULL, &device));
    RANKS_TRY(yoke_comm_create(ranks_world, device, NULL, &comm));
    RANKS_TRY(yoke_stream_create(device, &stream));
    RANKS_TRY(yoke_alloc(device, N * sizeof *send, (void **)&send));
    RANKS_TRY(yoke_alloc(device, N * sizeof *recv, (void **)&recv));
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", N, YOKE_F32, YOKE_SUM, &choice));
    if (choice.chunk_bytes * MOST_PIECES < N * sizeof *send || strcmp(choice.algorithm, "slices")) return 0;
    chunk = choice.chunk_bytes;
    return fill();
}

static int last_calls_of_host; /* of the last sum */

/* A blocking sum, counted. */
static int sum(const char *what)
{
    void *driver = dlopen("libcuda-emulated.so.1", RTLD_NOW | RTLD_NOLOAD);
    uint64_t (*calls)(void) = NULL;
    void *symbol = driver ? dlsym(driver, "yoke_emulate_calls") : NULL;
    memcpy(&calls, &symbol, sizeof calls);
    set_up();
    const uint64_t before = calls ? calls() : 0;
    RANKS_TRY(yoke_all_reduce(send, recv, N, YOKE_F32, YOKE_SUM, comm, NULL));
    /* The test's own two functions around each copy are no calls of the backend. */
    const uint64_t after = calls ? calls() : 0, notes = 2ull * (uint64_t)atomic_load(&n_copies);
    if (!ranks_rank)
        printf(
            "# %s: a sum of 16 MiB: %llu calls of the driver beside polls and contexts, %d copies, %zu bytes copied by the host "
            "beside the sum, %d functions of the host, %d pieces in flight at most\n",
            what, (unsigned long long)(after - before - notes - (uint64_t)atomic_load(&n_polls)),
            atomic_load(&n_copies), atomic_load(&through_slots), atomic_load(&n_calls_of_host),
            atomic_load(&most_in_flight));
    last_calls_of_host = atomic_load(&n_calls_of_host);
    return is_right(N);
}

/* A sum whose copies are held at gates. */
static int overlaps(bool *gate)
{
    set_up();
    *gate = true;
    RANKS_TRY(yoke_all_reduce(send, recv, N, YOKE_F32, YOKE_SUM, comm, NULL));
    *gate = false;
    return !atomic_load(&was_stuck) && atomic_load(&most_in_flight) >= 3 && is_right(N);
}

/* Small sums of a group are one operation. Its data goes straight from and to the communicator's memory. */
static int small_sums(bool slots)
{
    enum { SUMS = 20, LENGTH = 500 };
    RANKS_TRY(yoke_fill(stream, recv, 0xff, N * sizeof *recv));
    RANKS_TRY(yoke_stream_sync(stream));
    set_up();
    RANKS_TRY(yoke_group_start());
    for (int i = 0; i < SUMS; i++)
        RANKS_TRY(
            yoke_all_reduce(send + i * LENGTH, recv + i * LENGTH, LENGTH, YOKE_F32, YOKE_SUM, comm, NULL));
    RANKS_TRY(yoke_group_end());
    const bool straight = !atomic_load(&through_slots) && !atomic_load(&n_calls_of_host);
    return atomic_load(&n_copies) == 2 * SUMS && straight == !slots && is_right(SUMS * LENGTH);
}

/*
 * Messages over MPI, and sends and receives, have buffers of their own. The device copies straight from and
 * to these too. A communicator takes exactly the memory that was predicted for it.
 */
static int by_messages(bool slots)
{
    enum { LENGTH = MIB };
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    struct yoke_comm_shape shape = YOKE_COMM_SHAPE_INIT;
    struct yoke_comm_memory is, planned;
    yoke_comm *other;
    config.no_shared = shape.no_shared = shape.is_staged = true;
    shape.n_ranks = 2;
    RANKS_TRY(yoke_comm_split(comm, 0, ranks_rank, &config, &other));
    RANKS_TRY(yoke_fill(stream, recv, 0xff, N * sizeof *recv));
    RANKS_TRY(yoke_stream_sync(stream));
    set_up();
    RANKS_TRY(yoke_all_reduce(send, recv, LENGTH, YOKE_F32, YOKE_SUM, other, NULL));
    RANKS_TRY(yoke_comm_memory(other, &is));
    RANKS_TRY(yoke_comm_shape_memory(&shape, &planned));
    const bool exact = is.private_bytes + is.reserved == planned.private_bytes + planned.reserved;
    RANKS_TRY(yoke_group_start());
    RANKS_TRY(yoke_send(send, LENGTH, YOKE_F32, 1 - ranks_rank, other, NULL));
    RANKS_TRY(yoke_recv(recv + LENGTH, LENGTH, YOKE_F32, 1 - ranks_rank, other, NULL));
    RANKS_TRY(yoke_group_end());
    const bool straight = !atomic_load(&through_slots) && !atomic_load(&n_calls_of_host);
    RANKS_TRY(yoke_comm_destroy(other));
    float *host = malloc(LENGTH * sizeof *host);
    int good = host != NULL && straight == !slots && exact && is_right(LENGTH);
    if (!good) return 0;
    RANKS_TRY(yoke_copy_to_host(stream, host, recv + LENGTH, LENGTH * sizeof *host));
    RANKS_TRY(yoke_stream_sync(stream));
    for (size_t i = 0; i < LENGTH && good; i++) good = host[i] == value_of(1 - ranks_rank, i);
    free(host);
    return good;
}

/* Another process is forked while copies are on their way. The sum is the same. */
static int forks(void)
{
    set_up();
    RANKS_TRY(yoke_fill(stream, recv, 0xff, N * sizeof *recv));
    RANKS_TRY(yoke_all_reduce(send, recv, N, YOKE_F32, YOKE_SUM, comm, stream));
    const pid_t child = fork();
    if (!child) _exit(0);
    return child > 0 && is_right(N);
}

static void *open_later(void *unused)
{
    (void)unused;
    usleep(100000);
    atomic_store(&is_open, true);
    return NULL;
}

/* Copies are on their way when the communicator is aborted and destroyed. Its memory stays until they end. */
static int aborted(bool slots)
{
    pthread_t thread;
    set_up();
    waits_for_open = true;
    const int before = atomic_load(&n_unregistered);
    bool good = true;
    RANKS_TRY(yoke_all_reduce(send, recv, N, YOKE_F32, YOKE_SUM, comm, stream));
    wait_until(&outs_issued[2], 1);
    if (!ranks_all(!atomic_load(&was_stuck))) return 0;
    RANKS_TRY(yoke_comm_abort(comm, "the test"));
    if (pthread_create(&thread, NULL, open_later, NULL)) return 0;
    /* The stream's work behind the sum, which may use its buffers, begins when no copy uses them any more. */
    yoke_stream_sync(stream);
    for (int i = 0; i < atomic_load(&n_copies); i++) good = good && atomic_load(&copies[i].ended);
    RANKS_TRY(yoke_comm_destroy(comm));
    pthread_join(thread, NULL);
    waits_for_open = false;
    /* the segments of both ranks, and the buffers of the lanes */
    return good && !atomic_load(&unlocked_too_early) && !atomic_load(&was_stuck)
           && atomic_load(&n_unregistered) - before == (slots ? 0 : 3);
}

static int close_all(void)
{
    RANKS_TRY(yoke_free(device, send));
    RANKS_TRY(yoke_free(device, recv));
    RANKS_TRY(yoke_stream_destroy(stream));
    RANKS_TRY(yoke_device_close(device));
    return 1;
}

static int explains(bool slots)
{
    struct yoke_comm_choice choice = YOKE_COMM_CHOICE_INIT;
    RANKS_TRY(yoke_comm_explain(comm, "all_reduce", N, YOKE_F32, YOKE_SUM, &choice));
    const bool said = strstr(choice.why, "they pass through other memory")
                      && strstr(choice.why, "NOT_SUPPORTED");
    return said == slots && n_lines == (slots ? LINES : 0);
}

/* Another communicator of the same device says nothing about its memory again. */
static int second(bool slots)
{
    yoke_comm *other;
    RANKS_TRY(yoke_comm_split(comm, 0, ranks_rank, NULL, &other));
    RANKS_TRY(yoke_comm_destroy(other));
    return n_lines == (slots ? LINES : 0);
}

/* A copy fails on rank 0's device. Both ranks get an error, and all can be given back. */
static int faulty(void)
{
    RANKS_TRY(yoke_device_open("cuda:0", NULL, &device));
    RANKS_TRY(yoke_comm_create(ranks_world, device, NULL, &comm));
    RANKS_TRY(yoke_stream_create(device, &stream));
    RANKS_TRY(yoke_alloc(device, N * sizeof *send, (void **)&send));
    int failed = 0;
    for (int i = 0; i < 4 && !failed; i++)
        failed = yoke_all_reduce(send, send, N, YOKE_F32, YOKE_SUM, comm, NULL) != YOKE_OK;
    const bool is_mine = strstr(yoke_last_error(), "ECC_UNCORRECTABLE")
                         && strstr(yoke_last_error(), "yoke_copy_to_");
    if (!failed || (ranks_rank == 0 && !is_mine)) return 0;
    yoke_comm_destroy(comm);
    yoke_free(device, send);
    yoke_stream_destroy(stream);
    return !yoke_device_close(device);
}

int main(int argc, char **argv)
{
    const bool slots = argc > 1 && !strcmp(argv[1], "slots"), fault = argc > 1 && !strcmp(argv[1], "fault");
    ranks_start();
    yoke_log_set(count_lines, NULL, YOKE_LOG_WARN);
    if (fault) {
        if (ranks_rank) unsetenv("YOKE_EMULATE_FAIL");
        ranks_check(faulty(), "a copy fails on a device");
        return ranks_end();
    }
    if (!ranks_check(open_all(), "two ranks share memory, and have devices")) return ranks_end();
    stand_between();
    ranks_check(sum("the first"), "a sum has the right bits");
    ranks_check(sum(slots ? "through slots" : "straight from and to shared memory"),
                "and so has the next one");
    if (slots)
        ranks_check(atomic_load(&through_slots) == 2 * N * sizeof *send, "all data passes through slots");
    else
        ranks_check(!atomic_load(&through_slots) && !last_calls_of_host,
                    "the device copies all data, and the host none");
    ranks_check(overlaps(&holds_copies),
                "a copy out, the sum of another piece and a copy in run at the same time");
    if (slots)
        ranks_check(overlaps(&holds_host), "the device copies three pieces before the host has copied one");
    ranks_check(small_sums(slots), "small sums of a group have the right bits");
    ranks_check(by_messages(slots), "messages have the right data");
    ranks_check(explains(slots), "how the data is copied can be read");
    ranks_check(second(slots), "and the log says it once");
    ranks_check(forks(), "a fork changes nothing");
    ranks_check(aborted(slots), "memory stays registered until the copies of an aborted sum have ended");
    ranks_check(close_all(), "all is closed");
    return ranks_end();
}
