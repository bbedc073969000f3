/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank alone has no memory. Each allocation that Yoke's libraries make on this rank fails once, in each
 * call that other ranks wait for. Then this rank must get YOKE_ENOMEM, and all other ranks must get an error
 * that names this rank. No rank may wait until a time-out. A call may also succeed on all ranks, where Yoke
 * can do without the memory.
 *   tests/ranks/no_memory [DEVICE]     DEVICE: the buffers are memory of this device
 * In `make check` a call tries its first allocations only; YOKE_SOAK tries all of them.
 */
#include "tests/ranks/ranks.h"

#include "tests/ranks/scarce.h"

enum { COUNT = 1000, MOST_TRIALS = 400, FEW_TRIALS = 20, FEW_ON_DEVICE = 6, NAMES = 64 };

/* What a trial works with. `comm` and `other` are made without a failure before most trials. */
struct trial {
    yoke_comm *comm, *other, *made;
    bool stands_by; /* the failure may be none of this rank's business */
    yoke_device *device;
    yoke_stream *stream;
    float *send, *recv;
    void *memory;
};
typedef yoke_status trial_function(struct trial *t);

/* If the costs are given, creation runs no operations. So the next call is the communicator's first. */
static const struct yoke_comm_config *config(const char *name, bool is_measured)
{
    static struct yoke_comm_config c;
    static const char costs[] = "sync_us=1,shared_gbps=4,long_gbps=3,sum_gbps=8,message_us=5,"
                                "message_gbps=3,oneshot_bytes=4096";
    c = (struct yoke_comm_config)YOKE_COMM_CONFIG_INIT;
    c.name = name;
    c.timeout_ms = c.stall_ms = 20000;
    c.costs = is_measured ? NULL : costs;
    c.chunk_bytes = is_measured ? 0 : 4096; /* because the system clears the memory of each communicator */
    return &c;
}

/* The result of operations, also of those that the stream runs. */
static yoke_status ended(const struct trial *t, yoke_comm *comm, yoke_status status)
{
    if (!status && t->stream) status = yoke_stream_sync(t->stream);
    if (!status) status = yoke_comm_error(comm);
    if (!status) status = yoke_barrier(comm, NULL);
    return status;
}

/* ---- the calls ---- */

static yoke_status create(struct trial *t)
{
    const yoke_status status = yoke_comm_create(ranks_world, t->device, config("made", true), &t->made);
    return status ? status : yoke_barrier(t->made, NULL);
}

static yoke_status split(struct trial *t)
{
    const int color = ranks_rank == ranks_size - 1 && ranks_size > 2 ? YOKE_NO_COLOR : 0;
    const yoke_status status = yoke_comm_split(t->comm, color, 0, NULL, &t->made);
    t->stands_by = color < 0;
    if (status) return status;
    return t->made ? yoke_barrier(t->made, NULL) : YOKE_OK;
}

static yoke_status shrink(struct trial *t)
{
    if (ranks_hosts()) return YOKE_OK; /* ranks that share neither memory nor a folder cannot shrink */
    const yoke_status status = yoke_comm_shrink(t->comm, NULL, 0, &t->made);
    return status ? status : yoke_barrier(t->made, NULL);
}

static yoke_status allocate(struct trial *t)
{
    return t->device ? YOKE_OK : yoke_comm_alloc(t->comm, 100000, &t->memory);
}

static yoke_status all_reduce(struct trial *t)
{
    return yoke_all_reduce(t->send, t->recv, COUNT, YOKE_F32, YOKE_SUM, t->comm, t->stream);
}

static yoke_status reduce_scatter(struct trial *t)
{
    return yoke_reduce_scatter(t->send, t->recv, COUNT / (size_t)ranks_size, YOKE_F32, YOKE_SUM, t->comm,
                               t->stream);
}

static yoke_status all_gather(struct trial *t)
{
    return yoke_all_gather(t->send, t->recv, COUNT / (size_t)ranks_size, YOKE_F32, t->comm, t->stream);
}

static yoke_status broadcast(struct trial *t)
{
    return yoke_broadcast(t->send, t->recv, COUNT, YOKE_F32, 0, t->comm, t->stream);
}

static yoke_status reduce(struct trial *t)
{
    return yoke_reduce(t->send, t->recv, COUNT, YOKE_F32, YOKE_SUM, 0, t->comm, t->stream);
}

static yoke_status gather(struct trial *t)
{
    return yoke_gather(t->send, t->recv, COUNT / (size_t)ranks_size, YOKE_F32, 0, t->comm, t->stream);
}

static yoke_status scatter(struct trial *t)
{
    return yoke_scatter(t->send, t->recv, COUNT / (size_t)ranks_size, YOKE_F32, 0, t->comm, t->stream);
}

static yoke_status all_to_all(struct trial *t)
{
    return yoke_all_to_all(t->send, t->recv, COUNT / (size_t)ranks_size, YOKE_F32, t->comm, t->stream);
}

static yoke_status barrier(struct trial *t) { return yoke_barrier(t->comm, t->stream); }

static yoke_status ring(struct trial *t)
{
    const int next = (ranks_rank + 1) % ranks_size, previous = (ranks_rank + ranks_size - 1) % ranks_size;
    YOKE_TRY(yoke_group_start());
    yoke_send(t->send, COUNT, YOKE_F32, next, t->comm, t->stream);
    yoke_recv(t->recv, COUNT, YOKE_F32, previous, t->comm, t->stream);
    return yoke_group_end();
}

/* Rank 0 sends to the last rank, without a group. */
static yoke_status send(struct trial *t)
{
    if (ranks_rank == 0) return yoke_send(t->send, COUNT, YOKE_F32, ranks_size - 1, t->comm, t->stream);
    return ranks_rank == ranks_size - 1 ? yoke_recv(t->recv, COUNT, YOKE_F32, 0, t->comm, t->stream)
                                        : YOKE_OK;
}

/* A group of two small sums, which are fused, and of a sum on another communicator. */
static yoke_status group(struct trial *t)
{
    YOKE_TRY(yoke_group_start());
    yoke_all_reduce(t->send, t->recv, COUNT / 2, YOKE_F32, YOKE_SUM, t->comm, t->stream);
    yoke_all_reduce(t->send + COUNT / 2, t->recv + COUNT / 2, COUNT / 2, YOKE_F32, YOKE_SUM, t->comm,
                    t->stream);
    yoke_all_reduce(t->send, t->recv + COUNT, COUNT, YOKE_F32, YOKE_SUM, t->other, t->stream);
    const yoke_status status = yoke_group_end();
    const yoke_status second = ended(t, t->other, YOKE_OK);
    return status ? status : second;
}

static const struct call {
    const char *name;
    trial_function *run;
    bool is_operation; /* it works on t->comm, whose error tells how it ended */
} calls[] = {
    { "yoke_comm_create", create, false },     { "yoke_comm_split", split, false },
    { "yoke_comm_shrink", shrink, false },     { "yoke_comm_alloc", allocate, true },
    { "yoke_all_reduce", all_reduce, true },   { "yoke_reduce_scatter", reduce_scatter, true },
    { "yoke_all_gather", all_gather, true },   { "yoke_broadcast", broadcast, true },
    { "yoke_reduce", reduce, true },           { "yoke_gather", gather, true },
    { "yoke_scatter", scatter, true },         { "yoke_all_to_all", all_to_all, true },
    { "yoke_barrier", barrier, true },         { "yoke_send and yoke_recv in a group", ring, true },
    { "yoke_send and yoke_recv", send, true }, { "a group on two communicators", group, true },
};

/* ---- trials ---- */

static int open_trial(struct trial *t, const char *device, bool has_comms)
{
    const size_t bytes = 3 * COUNT * sizeof(float);
    static float on_host[2][3 * COUNT];
    *t = (struct trial){ .send = on_host[0], .recv = on_host[1] };
    if (device) {
        void *send, *recv;
        RANKS_TRY(yoke_device_open(device, NULL, &t->device));
        RANKS_TRY(yoke_stream_create(t->device, &t->stream));
        RANKS_TRY(yoke_alloc(t->device, bytes, &send));
        RANKS_TRY(yoke_alloc(t->device, bytes, &recv));
        t->send = send, t->recv = recv;
    }
    if (!has_comms) return 1;
    RANKS_TRY(yoke_comm_create(ranks_world, t->device, config("tried", false), &t->comm));
    RANKS_TRY(yoke_comm_create(ranks_world, t->device, config("other", false), &t->other));
    return 1;
}

static int close_trial(struct trial *t)
{
    yoke_comm *const all[] = { t->made, t->comm, t->other };
    if (t->memory) yoke_comm_free(t->comm, t->memory);
    for (size_t i = 0; i < YOKE_COUNT(all); i++) yoke_comm_destroy(all[i]); /* they may have failed */
    if (!t->device) return 1;
    yoke_stream_sync(t->stream);
    RANKS_TRY(yoke_stream_destroy(t->stream));
    RANKS_TRY(yoke_free(t->device, t->send));
    RANKS_TRY(yoke_free(t->device, t->recv));
    RANKS_TRY(yoke_device_close(t->device));
    return 1;
}

/* How a call ended on all ranks. */
struct outcome {
    bool had_failure; /* an allocation failed on the victim */
    bool all_well, is_right;
};

/* What each rank tells of its call. */
struct said {
    int status, failed, names_victim, stands_by;
};

static struct outcome compare(int victim, yoke_status status, bool failed, bool stands_by)
{
    char name[32];
    struct said mine = { (int)status, failed, 0, stands_by }, all[NAMES];
    struct outcome out = { false, true, true };
    snprintf(name, sizeof name, "rank %d", victim);
    mine.names_victim = status && strstr(yoke_last_error(), name);
    PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, ranks_world);
    for (int r = 0; r < ranks_size; r++) {
        out.had_failure = out.had_failure || all[r].failed;
        out.all_well = out.all_well && !all[r].status;
    }
    for (int r = 0; r < ranks_size && !out.all_well; r++) {
        if (all[r].stands_by && !all[r].status) continue;
        out.is_right = out.is_right && all[r].status == YOKE_ENOMEM && (r == victim || all[r].names_victim);
    }
    if (!out.is_right)
        fprintf(stderr, "# rank %d: status %d: %s\n", ranks_rank, status, status ? yoke_last_error() : "");
    return out;
}

static struct outcome try_once(const struct call *call, const char *device, int victim, long at)
{
    struct trial t;
    struct outcome bad = { true, false, false };
    if (!ranks_all(open_trial(&t, device, call->run != create))) return bad;
    scarce_begin(ranks_rank == victim ? at : 0);
    yoke_status status = call->run(&t);
    if (call->is_operation) status = ended(&t, t.comm, status);
    const bool failed = scarce_end();
    const struct outcome out = compare(victim, status, failed, t.stands_by);
    return ranks_all(close_trial(&t)) ? out : bad;
}

/* Numbers of allocations that failed, of all calls. */
static long n_all_failed;

static void check_call(const struct call *call, const char *device, int victim)
{
    const long most = getenv("YOKE_SOAK") ? MOST_TRIALS : device ? FEW_ON_DEVICE : FEW_TRIALS;
    long at = 1, n_failed = 0;
    bool right = true, more = true;
    while (right && more && at <= most) {
        const struct outcome out = try_once(call, device, victim, at);
        right = out.is_right && (out.had_failure || out.all_well);
        more = out.had_failure;
        n_failed += !out.all_well;
        if (!right && ranks_rank == 0) printf("# allocation %ld failed\n", at);
        at++;
    }
    n_all_failed += n_failed;
    ranks_check(right, "%s: each of %ld allocations fails on rank %d; %ld times all ranks say so", call->name,
                at - 2 + (more && right), victim, n_failed);
}

static void keep_quiet(void *context, yoke_log_level level, const char *text)
{
    (void)context, (void)level, (void)text;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : NULL;
    yoke_comm *keeper;
    ranks_start();
    if (ranks_size > NAMES) return 1;
    if (!scarce_works()) {
        ranks_check(1, "allocations fail on purpose # SKIP not under clang's sanitizers");
        return ranks_end();
    }
    yoke_log_set(keep_quiet, NULL, YOKE_LOG_WARN);
    for (int victim = 0; victim < ranks_size; victim += YOKE_MAX(ranks_size - 1, 1))
        check_call(&calls[0], device, victim);
    /* With one communicator alive, the ranks keep one duplicate of MPI's communicator. */
    ranks_check(!yoke_comm_create(ranks_world, NULL, config("keeper", false), &keeper),
                "a communicator is made");
    for (int victim = 0; victim < ranks_size; victim += YOKE_MAX(ranks_size - 1, 1))
        for (size_t i = 0; i < YOKE_COUNT(calls); i++) check_call(&calls[i], device, victim);
    ranks_check(!yoke_barrier(keeper, NULL), "the communicator works to the end");
    yoke_comm_destroy(keeper);
    ranks_check(n_all_failed > 0, "allocations did fail");
    return ranks_end();
}
