/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators: creation, destruction, abort. */
#include <string.h>

#include "collectives/making/making.h"

#include "collectives/algorithms/algorithms.h"
#include "collectives/call/internal.h"
#include "collectives/choice/shares.h"
#include "collectives/engine/engine.h"
#include "collectives/making/measure.h"
#include "collectives/transport/inject.h"
#include "collectives/transport/mpi.h"
#include "collectives/transport/shm.h"
#include "collectives/transport/stage.h"
#include "collectives/transport/transport.h"

static yoke_status make_lanes(yoke_comm *comm)
{
    for (int i = 0; i < YOKEI_LANES; i++) {
        struct yokei_lane *lane = &comm->work.lanes[i];
        lane->id = i;
        comm->work.lane_list[i] = lane;
        lane->acc = aligned_alloc(64, comm->settings.chunk_bytes);
        if (!lane->acc)
            return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory for %zu bytes",
                             comm->settings.chunk_bytes);
        yokei_hold(comm->settings.chunk_bytes);
        YOKE_TRY(yokei_mpi_lane_begin(comm, lane, sizeof(struct yokei_header) + comm->settings.chunk_bytes));
    }
    return YOKE_OK;
}

static void free_lane(yoke_comm *comm, struct yokei_lane *lane)
{
    if (!lane) return;
    yokei_mpi_lane_end(comm, lane);
    yokei_stage_free(comm, lane);
    if (lane->acc) yokei_let_go(comm->settings.chunk_bytes);
    free(lane->acc);
}

static void comm_free(yoke_comm *comm)
{
    yokei_stage_end(comm);
    for (int i = 0; i < YOKEI_LANES; i++) free_lane(comm, &comm->work.lanes[i]);
    for (int r = 0; r < comm->room; r++) {
        if (comm->work.pair_send) free_lane(comm, comm->work.pair_send[r]), free(comm->work.pair_send[r]);
        if (comm->work.pair_recv) free_lane(comm, comm->work.pair_recv[r]), free(comm->work.pair_recv[r]);
    }
    for (struct yokei_op *op = comm->work.free_ops, *next; op; op = next) {
        next = op->next;
        if (op->ready) yoke_event_destroy(op->ready);
        if (op->done) yoke_event_destroy(op->done);
        free(op->slices_room);
        free(op);
    }
    if (comm->staging.out_stream) yoke_stream_destroy(comm->staging.out_stream);
    if (comm->staging.in_stream) yoke_stream_destroy(comm->staging.in_stream);
    yokei_mpi_control_end(comm);
    yokei_free_allocations(comm);
    yokei_shm_destroy(comm);
    yokei_setup_undo(comm);
    yokei_inject_end(comm);
    yokei_shares_end(comm);
    free(comm->peers);
    free(comm->set_rank);
    free(comm->work.inputs);
    free(comm->work.outputs);
    free(comm->work.pair_send);
    free(comm->work.pair_recv);
    free(comm);
}

/* The part that this rank can do alone. Its status goes into the exchange with the other ranks. */
static yoke_status prepare(yoke_comm *comm, const struct yoke_comm_config *config)
{
    const size_t size = (size_t)comm->size;
    comm->work.pair_send = calloc(size, sizeof comm->work.pair_send[0]);
    comm->work.pair_recv = calloc(size, sizeof comm->work.pair_recv[0]);
    if (!comm->work.pair_send || !comm->work.pair_recv)
        return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory for %zu ranks", size);
    YOKE_TRY(yokei_hosts_begin(comm));
    YOKE_TRY(yokei_shares_begin(comm));
    YOKE_TRY(yokei_settings_read(comm, config));
    YOKE_TRY(yokei_inject_begin(comm));
    yokei_wait_init(&comm->work.wait, YOKEI_WAIT_YIELD, 1, 1); /* until the ranks of this host are known */
    YOKE_TRY(make_lanes(comm));
    if (comm->size > 1) YOKE_TRY(yokei_mpi_control_make(comm));
    /* If this fails, messages go over MPI. */
    if (!comm->settings.no_shared && comm->size > 1 && yokei_shm_create(comm))
        yokei_text(comm->memory.no_segment, sizeof comm->memory.no_segment, "%s", yoke_last_error());
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
    if (!atomic_load(&comm->failure.error) && atomic_load(&file->state) != YOKEI_RANK_FAILED)
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
    comm->work.queue_end = &comm->work.queue;
    comm->memory.segment_fd = -1;
    yokei_settings_begin(comm, config);
    yokei_text(comm->name, sizeof comm->name, "%s", config && config->name ? config->name : "world");
    comm->peers = calloc((size_t)size, sizeof comm->peers[0]);
    comm->set_rank = calloc((size_t)size, sizeof comm->set_rank[0]);
    comm->work.inputs = calloc((size_t)size, sizeof comm->work.inputs[0]);
    comm->work.outputs = calloc((size_t)size, sizeof comm->work.outputs[0]);
    if (!comm->peers || !comm->set_rank || !comm->work.inputs || !comm->work.outputs) {
        comm_free(comm);
        *comm_out = NULL;
        return yoke_fail(YOKE_ENOMEM, "yoke_comm_create: no memory");
    }
    return prepare(comm, config);
}

/* Warn in one line if ranks of one host share no memory, although the user did not ask for that. */
static void warn_of_no_memory(const yoke_comm *comm)
{
    const char *why = "";
    int at = -1, here = 0;
    for (int r = comm->size - 1; r >= 0; r--) {
        here += comm->peers[r].flight != NULL;
        if (comm->peers[r].info.reason[0]) at = r, why = comm->peers[r].info.reason;
    }
    if (comm->rank || comm->settings.no_shared || comm->all_shared || comm->size == 1) return;
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
    if (!status) warn_of_no_memory(comm);
    const int named = comm->settings.forced_algorithm;
    if (named >= 0 && yokei_algorithm_reach((unsigned)named) == YOKE_REACH_ACROSS_HOSTS
        && (comm->hosts.n < 2 || comm->hosts.most < 2)
        && (comm->settings.island != YOKE_ISLAND_VENDOR || !yokei_has_islands(comm)))
        comm->settings.forced_algorithm = -1; /* it cannot run here */
    if (!status)
        yokei_wait_init(&comm->work.wait, (enum yokei_wait_policy)comm->settings.wait_policy, comm->n_on_host,
                        comm->n_cores);
    if (!status && comm->all_shared) yokei_mpi_control_end(comm);
    if (!status && comm->mpi.control) status = yokei_mpi_control_begin(comm);
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
    /* After an error this rank still takes part in the exchange, because the other ranks wait for it
       there. */
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

yoke_status yokei_comm_equip(yoke_comm **comm)
{
    struct yokei_error text;
    const yoke_status status = *comm ? yokei_stage_begin(*comm) : YOKE_OK;
    if (!status) return YOKE_OK;
    yokei_error_save(&text);
    yoke_comm_abort(*comm, text.text); /* the other ranks have the communicator, and may already use it */
    yoke_comm_destroy(*comm);
    *comm = NULL;
    yokei_error_restore(&text);
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
    YOKE_TRY(yokei_comm_equip(comm_out));
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
    /* The end of a communicator that has failed is not reported to the other ranks, because it has failed
       there too, nor of the end of a copy in a forked process. */
    const bool is_ours = !p->copied_from;
    const yoke_status status = atomic_load(&comm->failure.error) || !is_ours ? YOKE_OK
                                                                             : yokei_final_barrier(comm);
    pthread_mutex_lock(&p->lock);
    if (is_ours) yokei_settle_wholly(comm);
    pthread_mutex_unlock(&p->lock);
    yokei_stage_end(comm); /* without the lock, because the driver may wait for the device */
    pthread_mutex_lock(&p->lock);
    yoke_comm **place = &p->comms;
    while (*place != comm) place = &(*place)->next;
    *place = comm->next;
    if (is_ours) yokei_wake_thread(comm);
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
    char text[sizeof comm->failure.text];
    yokei_text(text, sizeof text, "communicator \"%s\": aborted by rank %d: %s", comm->name, comm->rank,
               reason ? reason : "no reason given");
    pthread_mutex_lock(&yokei_process.lock);
    /* A rank whose other communicators failed passes an error on, which was logged where it began. */
    yokei_comm_fail_as(comm, YOKE_EABORTED, yokei_process.world_rank, text,
                       YOKEI_FAIL_REPORT | (yokei_process.faulted ? 0 : YOKEI_FAIL_LOG));
    yokei_settle_failure(comm);
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
    if (yokei_may_call_mpi())
        yokei_look_for_failure(comm); /* a failure that another rank found is also known here */
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
