/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: configuration, creation, destruction, abort. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectives/engine.h"
#include "collectives/shm.h"
#include "collectives/verdict.h"

enum { DEFAULT_STALL_MS = 10000, DEFAULT_CHUNK_BYTES = 256 << 10, LEAST_CHUNK = 64 };

/* ---- configuration ---- */

yoke_status yokei_read_number(const char *variable, int64_t least, int64_t *value)
{
    const char *text = getenv(variable);
    if (!text || !*text || *value) return YOKE_OK;
    char *end;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    if (errno || *end || number < least)
        return yoke_fail(YOKE_ECONFIG, "%s=%s: must be a whole number of at least %lld", variable, text,
                         (long long)least);
    *value = number;
    return YOKE_OK;
}

static yoke_status read_algorithm(const char *name, int *algorithm_out)
{
#define TEXT_OF(ID, name, can_be_named, in_rank_order, reach) YOKE_IF_NAMED(can_be_named)(#name, )
#define LISTED(ID, name, can_be_named, in_rank_order, reach) YOKE_IF_NAMED(can_be_named)(#name ", ")
    static const char *const names[] = { YOKE_ALGORITHMS(TEXT_OF) NULL };
    static const char list[] = YOKE_ALGORITHMS(LISTED) "auto";
#undef TEXT_OF
#undef LISTED
    *algorithm_out = -1;
    if (!name || !*name) name = getenv("YOKE_ALGORITHM");
    if (!name || !*name || !strcmp(name, "auto")) return YOKE_OK;
    for (unsigned id = 0; id < YOKEI_N_ALGORITHMS; id++)
        if (yokei_algorithm_can_be_named(id) && !strcmp(yokei_algorithm_name(id), name))
            *algorithm_out = (int)id;
    if (*algorithm_out >= 0) return YOKE_OK;
    const char *near = yokei_nearest(name, names);
    return yoke_fail(YOKE_ECONFIG, "algorithm '%s': one of %s%s%s%s", name, list,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static yoke_status read_check(enum yoke_check *check)
{
    static const char *const names[] = { "header", "off", "full", NULL };
    const char *text = getenv("YOKE_CHECK");
    if (!text || !*text || *check) return YOKE_OK;
    for (int i = 0; names[i]; i++)
        if (!strcmp(text, names[i])) {
            *check = (enum yoke_check)i;
            return YOKE_OK;
        }
    return yoke_fail(YOKE_ECONFIG, "YOKE_CHECK=%s: one of off, header, full", text);
}

/*
 * The variable overrides the field, because the user who starts a program decides whether its results will be
 * compared with others.
 */
static yoke_status read_reproducible(enum yoke_reproducible *reproducible)
{
    const char *text = getenv("YOKE_REPRODUCIBLE");
    if (!text || !*text) return YOKE_OK;
    if (strcmp(text, "run") != 0 && strcmp(text, "shape") != 0)
        return yoke_fail(YOKE_ECONFIG, "YOKE_REPRODUCIBLE=%s: one of run, shape", text);
    *reproducible = strcmp(text, "shape") == 0 ? YOKE_REPRODUCIBLE_SHAPE : YOKE_REPRODUCIBLE_RUN;
    return YOKE_OK;
}

yoke_status yokei_read_messages(size_t chunk_bytes, bool no_shared, size_t *chunk_out, bool *no_shared_out)
{
    int64_t chunk = (int64_t)chunk_bytes, none = no_shared;
    YOKE_TRY(yokei_read_number("YOKE_CHUNK_BYTES", LEAST_CHUNK, &chunk));
    YOKE_TRY(yokei_read_number("YOKE_NO_SHARED", 0, &none));
    if (chunk && (chunk < LEAST_CHUNK || chunk > 64 << 20))
        return yoke_fail(YOKE_EINVAL, "yoke_comm_create: chunk_bytes %lld is not between %d and %d",
                         (long long)chunk, LEAST_CHUNK, 64 << 20);
    *chunk_out = (size_t)chunk;
    *no_shared_out = none != 0;
    return YOKE_OK;
}

size_t yokei_chunk_bytes(size_t given) { return given ? given / 64 * 64 : DEFAULT_CHUNK_BYTES; }

static yoke_status check_ranges(const struct yoke_comm_config *config)
{
    const struct {
        const char *name;
        int64_t value, most;
    } fields[] = { { "accum", config->accum, YOKE_ACCUM_NATIVE },
                   { "reproducible", config->reproducible, YOKE_REPRODUCIBLE_SHAPE },
                   { "wait", config->wait, YOKE_WAIT_SLEEP },
                   { "check", config->check, YOKE_CHECK_FULL },
                   { "timeout_ms", config->timeout_ms, INT64_MAX },
                   { "stall_ms", config->stall_ms, INT64_MAX } };
    for (size_t i = 0; i < YOKE_COUNT(fields); i++)
        if (fields[i].value < 0 || fields[i].value > fields[i].most)
            return yoke_fail(YOKE_EINVAL, "yoke_comm_create: %s is out of range: %lld", fields[i].name,
                             (long long)fields[i].value);
    return YOKE_OK;
}

static yoke_status configure(yoke_comm *comm, const struct yoke_comm_config *config)
{
    const struct yoke_comm_config defaults = YOKE_COMM_CONFIG_INIT;
    if (!config) config = &defaults;
    if (config->size != sizeof *config)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_create: the configuration's size is %zu, not %zu: use YOKE_COMM_CONFIG_INIT",
            config->size, sizeof *config);
    YOKE_TRY(check_ranges(config));
    int64_t timeout = config->timeout_ms, stall = config->stall_ms;
    size_t chunk;
    bool no_shared;
    YOKE_TRY(yokei_read_number("YOKE_TIMEOUT_MS", 1, &timeout));
    YOKE_TRY(yokei_read_number("YOKE_STALL_MS", 1, &stall));
    YOKE_TRY(yokei_read_messages(config->chunk_bytes, config->no_shared, &chunk, &no_shared));
    /* Up to here the default timeouts hold. After an error above, this rank must still tell the other ranks,
       and that may take time. */
    if (timeout) comm->timeout_ms = timeout;
    if (stall) comm->stall_ms = stall;
    comm->chunk_is_forced = chunk != 0;
    comm->chunk_bytes = yokei_chunk_bytes(chunk);
    comm->accum = config->accum;
    comm->reproducible = config->reproducible;
    YOKE_TRY(read_reproducible(&comm->reproducible));
    comm->check = config->check;
    YOKE_TRY(read_check(&comm->check));
    comm->no_shared = no_shared;
    const char *costs = config->costs ? config->costs : getenv("YOKE_COSTS");
    comm->costs_given = costs && *costs;
    if (comm->costs_given) YOKE_TRY(yokei_costs_read(costs, &comm->costs));
    YOKE_TRY(yokei_shares_read(comm, config->shares));
    YOKE_TRY(read_algorithm(config->algorithm, &comm->forced_algorithm));
    const unsigned forced = (unsigned)comm->forced_algorithm;
    if (comm->reproducible && comm->forced_algorithm >= 0 && yokei_algorithm_is_of_messages(forced)
        && !yokei_algorithm_adds_in_rank_order(forced))
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_create: algorithm '%s' adds in an order that depends on the shape; with reproducible leave it out, "
            "or use exchange or chain",
            yokei_algorithm_name(forced));
    return YOKE_OK;
}

struct yoke_comm_config yokei_comm_config(const yoke_comm *comm, const char *name)
{
    return (struct yoke_comm_config){
        .size = sizeof(struct yoke_comm_config),
        .name = name,
        .accum = comm->accum,
        .wait = comm->wait_policy,
        .timeout_ms = comm->timeout_ms,
        .stall_ms = comm->stall_ms,
        .chunk_bytes = comm->chunk_is_forced ? comm->chunk_bytes : 0,
        .algorithm = comm->forced_algorithm < 0 ? "auto"
                                                : yokei_algorithm_name((unsigned)comm->forced_algorithm),
        .reproducible = comm->reproducible,
        .check = comm->check,
        .no_shared = comm->no_shared,
    };
}

/* ---- creation ---- */

static yoke_status make_lanes(yoke_comm *comm)
{
    for (int i = 0; i < YOKEI_LANES; i++) {
        struct yokei_lane *lane = &comm->lanes[i];
        lane->id = i;
        comm->lane_list[i] = lane;
        lane->acc = aligned_alloc(64, comm->chunk_bytes);
        if (!lane->acc)
            return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory for %zu bytes", comm->chunk_bytes);
        yokei_hold(comm->chunk_bytes);
        YOKE_TRY(yokei_mpi_lane_begin(comm, lane, sizeof(struct yokei_header) + comm->chunk_bytes));
    }
    return YOKE_OK;
}

static void free_lane(yoke_comm *comm, struct yokei_lane *lane)
{
    if (!lane) return;
    yokei_mpi_lane_end(comm, lane);
    yokei_stage_free(comm, lane);
    if (lane->acc) yokei_let_go(comm->chunk_bytes);
    free(lane->acc);
}

static void comm_free(yoke_comm *comm)
{
    /* Copies of a failed operation may still use the memory that is freed here. */
    if (comm->out_stream) yoke_stream_sync(comm->out_stream);
    if (comm->in_stream) yoke_stream_sync(comm->in_stream);
    for (int i = 0; i < YOKEI_LANES; i++) free_lane(comm, &comm->lanes[i]);
    for (int r = 0; r < comm->room; r++) {
        if (comm->pair_send) free_lane(comm, comm->pair_send[r]), free(comm->pair_send[r]);
        if (comm->pair_recv) free_lane(comm, comm->pair_recv[r]), free(comm->pair_recv[r]);
    }
    for (struct yokei_op *op = comm->free_ops, *next; op; op = next) {
        next = op->next;
        if (op->ready) yoke_event_destroy(op->ready);
        if (op->done) yoke_event_destroy(op->done);
        free(op->slices_room);
        free(op);
    }
    if (comm->out_stream) yoke_stream_destroy(comm->out_stream);
    if (comm->in_stream) yoke_stream_destroy(comm->in_stream);
    yokei_mpi_control_end(comm);
    yokei_free_allocations(comm);
    yokei_shm_destroy(comm);
    yokei_setup_undo(comm);
    yokei_inject_end(comm);
    yokei_shares_end(comm);
    free(comm->peers);
    free(comm->set_rank);
    free(comm->inputs);
    free(comm->outputs);
    free(comm->pair_send);
    free(comm->pair_recv);
    free(comm);
}

/* The part that this rank can do alone. Its status goes into the exchange with the other ranks. */
static yoke_status prepare(yoke_comm *comm, const struct yoke_comm_config *config)
{
    const size_t size = (size_t)comm->size;
    comm->pair_send = calloc(size, sizeof comm->pair_send[0]);
    comm->pair_recv = calloc(size, sizeof comm->pair_recv[0]);
    if (!comm->pair_send || !comm->pair_recv)
        return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory for %zu ranks", size);
    YOKE_TRY(yokei_hosts_begin(comm));
    YOKE_TRY(yokei_shares_begin(comm));
    YOKE_TRY(configure(comm, config));
    YOKE_TRY(yokei_inject_begin(comm));
    yokei_wait_init(&comm->wait, YOKEI_WAIT_YIELD, 1, 1); /* until the ranks of this host are known */
    YOKE_TRY(make_lanes(comm));
    if (comm->size > 1) YOKE_TRY(yokei_mpi_control_make(comm));
    /* If this fails, messages go over MPI. */
    if (!comm->no_shared && comm->size > 1 && yokei_shm_create(comm))
        yokei_text(comm->no_segment, sizeof comm->no_segment, "%s", yoke_last_error());
    return YOKE_OK;
}

void yokei_comm_record(const yoke_comm *comm)
{
    struct yokei_flight_file *file = yokei_process.flight;
    const uint32_t n = atomic_load(&file->n_comms);
    struct yokei_flight_comm *entry = &file->comms[n % YOKEI_FLIGHT_COMMS];
    *entry = (struct yokei_flight_comm){ .uid = comm->uid, .rank = comm->rank, .size = comm->size };
    memcpy(entry->name, comm->name, sizeof entry->name);
    /* A rank that went on after an error, with a communicator that works, does not have that error any
       more. */
    if (!atomic_load(&comm->error) && atomic_load(&file->state) != YOKEI_RANK_FAILED)
        atomic_store(&file->status, YOKE_OK), atomic_store(&file->culprit, -1);
    if (!n)
        yokei_text(file->device, sizeof file->device, "%s",
                   comm->device ? yoke_device_info(comm->device)->spec : "host");
    atomic_store_explicit(&file->n_comms, n + 1, memory_order_release);
}

yoke_status yokei_comm_new(int rank, int size, yoke_device *device, const struct yoke_comm_config *config,
                           yoke_comm **comm_out)
{
    yoke_comm *comm = calloc(1, sizeof *comm);
    if (!comm) return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory");
    *comm_out = comm;
    comm->rank = rank;
    comm->size = comm->room = size;
    comm->device = device;
    comm->queue_end = &comm->queue;
    comm->segment_fd = -1;
    comm->timeout_ms = YOKEI_DEFAULT_TIMEOUT_MS;
    comm->stall_ms = DEFAULT_STALL_MS;
    comm->wait_policy = config ? config->wait : YOKE_WAIT_AUTO;
    yokei_text(comm->name, sizeof comm->name, "%s", config && config->name ? config->name : "world");
    comm->peers = calloc((size_t)size, sizeof comm->peers[0]);
    comm->set_rank = calloc((size_t)size, sizeof comm->set_rank[0]);
    comm->inputs = calloc((size_t)size, sizeof comm->inputs[0]);
    comm->outputs = calloc((size_t)size, sizeof comm->outputs[0]);
    if (!comm->peers || !comm->set_rank || !comm->inputs || !comm->outputs) {
        comm_free(comm);
        *comm_out = NULL;
        return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory");
    }
    return prepare(comm, config);
}

/* Warn in one line if ranks of one host share no memory, although the user did not ask for that. */
static void tell_of_no_memory(const yoke_comm *comm)
{
    const char *why = "";
    int at = -1, here = 0;
    for (int r = comm->size - 1; r >= 0; r--) {
        here += comm->peers[r].flight != NULL;
        if (comm->peers[r].info.reason[0]) at = r, why = comm->peers[r].info.reason;
    }
    if (comm->rank || comm->no_shared || comm->all_shared || comm->size == 1) return;
    if (at >= 0)
        yoke_log(
            YOKE_LOG_WARN,
            "communicator \"%s\": rank %d has no memory to share (%s): messages of ranks of one host go over MPI, which is slower",
            comm->name, at, why);
    else if (here == comm->size)
        yoke_log(
            YOKE_LOG_WARN,
            "communicator \"%s\": its ranks are on one host but cannot map each other's memory (/proc/PID/fd): messages go over "
            "MPI, which is slower",
            comm->name);
}

yoke_status yokei_comm_enter(yoke_comm *comm, yoke_status status, yoke_comm **comm_out)
{
    if (!status) tell_of_no_memory(comm);
    /* the hierarchy cannot run here */
    if (comm->forced_algorithm == YOKEI_HIERARCHY && (comm->hosts.n < 2 || comm->hosts.most < 2))
        comm->forced_algorithm = -1;
    if (!status)
        yokei_wait_init(&comm->wait, (enum yokei_wait_policy)comm->wait_policy, comm->n_on_host,
                        comm->n_cores);
    if (!status && comm->all_shared) yokei_mpi_control_end(comm);
    if (!status && comm->control) status = yokei_mpi_control_begin(comm);
    if (status) {
        comm_free(comm);
        return status;
    }
    comm->next = yokei_process.comms;
    yokei_process.comms = comm;
    *comm_out = comm;
    return YOKE_OK;
}

static yoke_status create(MPI_Comm mpi_comm, yoke_device *device, const struct yoke_comm_config *config,
                          yoke_comm **comm_out)
{
    YOKE_TRY(yokei_check_mpi());
    int rank = 0, size = 0;
    PMPI_Comm_rank(mpi_comm, &rank);
    PMPI_Comm_size(mpi_comm, &size);
    yoke_comm *comm = NULL;
    /* After an error this rank still meets the other ranks, because they wait for it there. */
    yoke_status status = yokei_process_begin();
    struct yokei_flight_file *file = yokei_process.flight;
    if (!status) status = yokei_comm_new(rank, size, device, config, &comm);
    if (file && atomic_load(&file->state) != YOKEI_RANK_FAILED) {
        memcpy(file->comm_name, comm ? comm->name : "", comm ? sizeof file->comm_name : 1);
        atomic_store_explicit(&file->state, YOKEI_RANK_MEETING, memory_order_release);
    }
    status = yokei_setup(comm, mpi_comm, config && config->name ? config->name : "world", status);
    if (comm) status = yokei_comm_enter(comm, status, comm_out);
    if (file && atomic_load(&file->state) == YOKEI_RANK_MEETING)
        atomic_store_explicit(&file->state, YOKEI_RANK_OUTSIDE, memory_order_release);
    return status;
}

yoke_status yoke_comm_create(MPI_Comm mpi_comm, yoke_device *device, const struct yoke_comm_config *config,
                             yoke_comm **comm_out)
{
    if (!comm_out || mpi_comm == MPI_COMM_NULL)
        return yoke_fail(YOKE_EINVAL, "yoke_comm_create: a NULL argument");
    YOKE_TRY(yokei_check_process("yoke_comm_create", NULL));
    pthread_mutex_lock(&yokei_process.lock);
    yoke_status status = create(mpi_comm, device, config, comm_out);
    if (status && !yokei_process.comms) yokei_process_end();
    pthread_mutex_unlock(&yokei_process.lock);
    if (status) return status;
    status = yokei_costs_begin(*comm_out);
    if (status) {
        char text[1024];
        yokei_text(text, sizeof text, "%s", yoke_last_error());
        yoke_comm_destroy(*comm_out);
        *comm_out = NULL;
        return yoke_fail(status, "yoke_comm_create: %s", text);
    }
    yokei_inject_wrap(*comm_out); /* the measurements ran without faults */
    yokei_comm_record(*comm_out);
    return YOKE_OK;
}

yoke_status yoke_comm_destroy(yoke_comm *comm)
{
    if (!comm) return YOKE_OK;
    struct yokei_process *p = &yokei_process;
    pthread_mutex_lock(&p->lock);
    const yoke_comm *known = p->comms;
    while (known && known != comm) known = known->next;
    pthread_mutex_unlock(&p->lock);
    if (!known)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke_comm_destroy: %p is no communicator, or one that was destroyed already: destroy each once",
            (void *)comm);
    /* The other ranks are not told of the end of a communicator that has failed, because it has failed there
       too, nor of the end of a copy in a forked process. */
    const bool is_ours = !p->copied_from;
    const yoke_status status = atomic_load(&comm->error) || !is_ours ? YOKE_OK : yokei_final_barrier(comm);
    pthread_mutex_lock(&p->lock);
    yoke_comm **place = &p->comms;
    while (*place != comm) place = &(*place)->next;
    *place = comm->next;
    if (p->flight && is_ours && atomic_load(&p->flight->state) == YOKEI_RANK_FAILED
        && atomic_load(&p->flight->comm) == comm->uid)
        /* the rank goes on without this communicator */
        atomic_store_explicit(&p->flight->state, YOKEI_RANK_OUTSIDE, memory_order_release);
    comm_free(comm);
    const bool last = !p->comms;
    pthread_mutex_unlock(&p->lock);
    if (last) {
        yokei_thread_end();
        pthread_mutex_lock(&p->lock);
        if (!p->comms) yokei_process_end();
        pthread_mutex_unlock(&p->lock);
    }
    return status;
}

/* ---- the rest ---- */

yoke_status yoke_comm_abort(yoke_comm *comm, const char *reason)
{
    if (!comm) return yoke_fail(YOKE_EINVAL, "yoke_comm_abort: no communicator");
    YOKE_TRY(yokei_check_process("yoke_comm_abort", comm));
    pthread_mutex_lock(&yokei_process.lock);
    yokei_comm_fail(comm, YOKE_EABORTED, yokei_process.world_rank,
                    "communicator \"%s\": aborted by rank %d: %s", comm->name, comm->rank,
                    reason ? reason : "no reason given");
    pthread_mutex_unlock(&yokei_process.lock);
    return YOKE_OK;
}

int yoke_comm_rank(const yoke_comm *comm) { return comm->rank; }
int yoke_comm_size(const yoke_comm *comm) { return comm->size; }

yoke_status yoke_comm_error(yoke_comm *comm)
{
    if (!comm) return yoke_fail(YOKE_EINVAL, "yoke_comm_error: no communicator");
    YOKE_TRY(yokei_check_process("yoke_comm_error", comm));
    pthread_mutex_lock(&yokei_process.lock);
    const bool may_call = yokei_process.any_thread
                          || pthread_equal(pthread_self(), yokei_process.main_thread);
    if (may_call) yokei_look_for_failure(comm); /* a failure that another rank found is also known here */
    const yoke_status status = yokei_sticky(comm);
    pthread_mutex_unlock(&yokei_process.lock);
    return status;
}

yoke_status yoke_comm_busy(yoke_comm *comm, const char *what)
{
    if (!comm) return yoke_fail(YOKE_EINVAL, "yoke_comm_busy: no communicator");
    YOKE_TRY(yokei_check_process("yoke_comm_busy", comm));
    struct yokei_flight_file *file = yokei_process.flight;
    pthread_mutex_lock(&yokei_process.lock);
    if (atomic_load(&file->state) != YOKEI_RANK_FAILED) {
        yokei_text(file->busy, sizeof file->busy, "%s", what ? what : "");
        atomic_store(&file->heartbeat_ns, yokei_now_ns());
        atomic_store_explicit(&file->state, YOKEI_RANK_BUSY, memory_order_release);
    }
    pthread_mutex_unlock(&yokei_process.lock);
    return YOKE_OK;
}
