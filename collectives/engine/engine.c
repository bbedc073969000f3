/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: operations, their lanes, and the steps of lanes. Everything here runs under the process's lock.
 */
#include <string.h>
#include <time.h>

#include "collectives/engine/engine.h"

#include "collectives/algorithms/algorithms.h"
#include "collectives/arithmetic/sum.h"
#include "collectives/faults/call_check.h"
#include "collectives/faults/report.h"
#include "collectives/faults/verdict.h"
#include "collectives/faults/witness.h"
#include "collectives/transport/mpi.h"
#include "collectives/transport/shm.h"
#include "collectives/transport/stage.h"
#include "collectives/transport/transport.h"

/* ---- operations ---- */

yoke_status yokei_op_new(yoke_comm *comm, enum yokei_kind kind, struct yokei_op **op_out)
{
    struct yokei_op *op = comm->work.free_ops;
    if (op) {
        comm->work.free_ops = op->next;
        size_t *slices = op->slices_room;
        yoke_event *ready = op->ready, *done = op->done;
        *op = (struct yokei_op){ .slices_room = slices, .ready = ready, .done = done };
    } else {
        op = calloc(1, sizeof *op);
        if (op) op->slices_room = calloc(2 * ((size_t)comm->size + 1), sizeof op->slices_room[0]);
        if (!op || !op->slices_room) {
            free(op);
            return yoke_fail(YOKE_ENOMEM, "no memory for an operation");
        }
    }
    op->comm = comm;
    op->rank = comm->rank;
    op->size = comm->size;
    op->hosts = &comm->hosts;
    op->inputs = comm->work.inputs;
    op->outputs = comm->work.outputs;
    op->reproducible = comm->settings.reproducible != YOKE_REPRODUCIBLE_RUN;
    op->chunk_bytes = comm->settings.chunk_bytes;
    op->cache_bytes = yokei_process.l3_bytes;
    op->kind = kind;
    op->root = -1;
    op->waits_for = YOKEI_WAITS_FOR_NONE;
    *op_out = op;
    return YOKE_OK;
}

void yokei_op_free(struct yokei_op *op)
{
    free(op->transfers);
    op->transfers = NULL;
    free(op->parts);
    /* a copy of a failed operation may still be on its way to the communicator's buffer */
    if (op->fused != op->comm->staging.fused) free(op->fused);
    op->packs = false;
    op->parts = NULL;
    op->fused = NULL;
    free(op->pair_lanes);
    op->pair_lanes = NULL;
    op->next = op->comm->work.free_ops;
    op->comm->work.free_ops = op;
}

/*
 * Set the rank for which the operation waits, in the record too. So the record has it even if this rank is
 * killed while it waits.
 */
static void waits_for(struct yokei_op *op, int rank)
{
    const struct yokei_peer *peer = &op->comm->peers[rank];
    if (yokei_process.is_witness && peer->flight
        && atomic_load_explicit(&peer->flight->life, memory_order_relaxed) & YOKEI_LIFE_ENDED)
        yokei_witness_glance();
    if (op->waits_for == rank) return;
    op->waits_for = rank;
    atomic_store_explicit(&op->entry->waits_for, peer->info.world_rank, memory_order_relaxed);
    if (yokei_records_wait(op->comm))
        atomic_store_explicit(&yokei_process.flight->waits_for, peer->info.world_rank, memory_order_relaxed);
}

/* The operation waits for no rank, but for copies of its own device. */
static void waits_for_device(struct yokei_op *op)
{
    if (op->waits_for == YOKEI_WAITS_FOR_DEVICE) return;
    op->waits_for = YOKEI_WAITS_FOR_DEVICE;
    atomic_store_explicit(&op->entry->waits_for, YOKEI_WAITS_FOR_DEVICE, memory_order_relaxed);
    if (yokei_records_wait(op->comm))
        atomic_store_explicit(&yokei_process.flight->waits_for, YOKEI_WAITS_FOR_DEVICE, memory_order_relaxed);
}

static void record_begin(struct yokei_op *op)
{
    struct yokei_flight_file *file = yokei_process.flight;
    const struct yokei_header *h = op->transfers ? &op->transfers[0].header : &op->header;
    const uint64_t number = atomic_load_explicit(&file->n_operations, memory_order_relaxed);
    struct yokei_flight_entry *entry = &file->entries[number % YOKEI_FLIGHT_ENTRIES];
    atomic_store_explicit(&entry->state, 0, memory_order_relaxed);
    entry->start_ns = op->begun_ns;
    entry->end_ns = 0;
    entry->count = h->count;
    entry->sequence = h->sequence;
    entry->comm = op->comm->uid;
    entry->counts_hash = h->counts_hash;
    entry->hash = h->history;
    entry->root = op->transfers ? op->transfers[0].peer : h->root;
    entry->step = 0;
    entry->kind = (uint8_t)op->kind;
    entry->dtype = h->dtype;
    entry->reduction = h->reduction;
    entry->algorithm = h->algorithm;
    entry->status = 0;
    atomic_store_explicit(&entry->waits_for, YOKEI_WAITS_FOR_NONE, memory_order_relaxed);
    atomic_store_explicit(&entry->state, 1, memory_order_release);
    atomic_store_explicit(&file->n_operations, number + 1, memory_order_release);
    op->entry = entry;
    memcpy(file->comm_name, op->comm->name, sizeof file->comm_name);
    atomic_store_explicit(&file->comm, op->comm->uid, memory_order_relaxed);
    atomic_store_explicit(&file->sequence, h->sequence, memory_order_relaxed);
    atomic_store_explicit(&file->kind, op->kind, memory_order_relaxed);
    atomic_store_explicit(&file->step, 0, memory_order_relaxed);
    atomic_store_explicit(&file->waits_for, YOKEI_WAITS_FOR_NONE, memory_order_relaxed);
    atomic_store_explicit(&file->heartbeat_ns, op->begun_ns, memory_order_relaxed);
    atomic_store_explicit(&file->progress_ns, op->begun_ns, memory_order_relaxed);
    /* A rank that failed and goes on with another communicator does not count as failed any more. */
    atomic_store_explicit(&file->state, YOKEI_RANK_INSIDE, memory_order_release);
}

static void record_end(struct yokei_op *op)
{
    struct yokei_flight_file *file = yokei_process.flight;
    if (op->entry
        && op->entry->sequence == (op->transfers ? op->transfers[0].header.sequence : op->header.sequence)) {
        op->entry->end_ns = yokei_now_ns();
        op->entry->status = (uint32_t)op->status;
        atomic_store_explicit(&op->entry->state, 2, memory_order_release);
    }
    atomic_store_explicit(&file->waits_for, YOKEI_WAITS_FOR_NONE, memory_order_relaxed);
    atomic_store_explicit(&file->heartbeat_ns, yokei_now_ns(), memory_order_relaxed);
    if (atomic_load_explicit(&file->state, memory_order_relaxed) == YOKEI_RANK_INSIDE)
        atomic_store_explicit(&file->state, YOKEI_RANK_OUTSIDE, memory_order_release);
}

/*
 * In an operation by islands a rank waits only for the ranks of its island. So it does not know whether the
 * host's other ranks have left the operation, and still read its memory. Each rank counts the operations that
 * it has left. An operation with other groups than the one before it begins when all ranks of the host have
 * left that one.
 */
static void leave(const struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    if (!yokei_has_islands(comm)) return;
    atomic_store_explicit(yokei_shm_counter_at(comm, comm->rank, &comm->work.lanes[0], YOKEI_LEFT, 0),
                          op->number, memory_order_release);
    yokei_shm_ring_all(comm);
}

static bool have_all_left(struct yokei_op *op)
{
    const yoke_comm *comm = op->comm;
    for (int i = 0; i < comm->hosts.n_local; i++) {
        const int q = comm->hosts.local[i];
        if (q == comm->rank) continue;
        const uint32_t left = atomic_load_explicit(
            yokei_shm_counter_at(comm, q, &comm->work.lanes[0], YOKEI_LEFT, 0), memory_order_acquire);
        if ((int32_t)(left - (op->number - 1)) >= 0) continue;
        waits_for(op, q);
        return false;
    }
    return true;
}

/*
 * Remove the operation at the head of the queue, because it has ended. An asynchronous operation is freed
 * here, because no caller waits for it.
 */
static void op_end(struct yokei_op *op, yoke_status status)
{
    yoke_comm *comm = op->comm;
    comm->work.queue = op->next;
    if (!comm->work.queue) comm->work.queue_end = &comm->work.queue;
    op->status = status;
    if (op->begun) record_end(op);
    if (op->number && !status) leave(op);
    if (!op->is_async) {
        atomic_store(&op->ended, true);
        return;
    }
    yokei_process.n_async--;
    /* Signal after a failure too, because the stream must not wait for ever. The communicator's next call
       reports the error. */
    if (yoke_event_signal(op->completes ? op->completes : op->done) && !status)
        yokei_comm_fail(comm, YOKE_EBACKEND, -1,
                        "communicator \"%s\": the stream's event could not be signalled: %s", comm->name,
                        yoke_last_error());
    yokei_op_free(op);
}

/* ---- failures: a step only sets the communicator's error, ground/error.c ---- */

/*
 * Copies of the failed operation may still be on their way. Its buffers belong to the caller again when it
 * ends, so it ends behind these copies.
 */
static bool copies_are_done(yoke_comm *comm)
{
    const struct yokei_op *op = comm->work.queue;
    return !op || !op->begun || !(op->staged || op->n_parts) || yokei_stage_is_quiet(comm);
}

void yokei_settle_failure(yoke_comm *comm)
{
    struct yokei_failure *failure = &comm->failure;
    if (failure->unsettled) {
        if (!copies_are_done(comm)) return; /* yokei_progress asks again */
        failure->unsettled = false;
        while (comm->work.queue) op_end(comm->work.queue, (yoke_status)atomic_load(&failure->error));
        yokei_record_failure(comm);
        if (failure->unreported) yokei_report_failure(comm);
    } else if (failure->unreported && yokei_may_call_mpi()) {
        yokei_report_failure(comm);
    }
}

void yokei_settle_wholly(yoke_comm *comm)
{
    while (comm->failure.unsettled) {
        yokei_settle_failure(comm);
        if (!comm->failure.unsettled) return;
        pthread_mutex_unlock(&yokei_process.lock);
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
        pthread_mutex_lock(&yokei_process.lock);
    }
}

void yokei_look_for_failure(yoke_comm *comm)
{
    yokei_receive_reports(comm);
    yokei_settle_failure(comm);
}

yoke_status yokei_submit(struct yokei_op *op)
{
    yoke_comm *comm = op->comm;
    yokei_look_for_failure(comm);
    if (atomic_load(&comm->failure.error)) return yokei_sticky(comm);
    if (op->kind != YOKEI_GROUP && op->kind != YOKEI_SEND && op->kind != YOKEI_RECV)
        yokei_header_begin(comm, op, yokei_algorithm_id(op->algorithm));
    if (op->algorithm->announces) {
        op->number = ++comm->memory.n_shared;
        op->regroups = comm->work.grouped && comm->work.grouped != op->hosts;
        comm->work.grouped = op->hosts;
    }
    op->history = comm->calls.history;
    op->next = NULL;
    *comm->work.queue_end = op;
    comm->work.queue_end = &op->next;
    if (op->is_async) yokei_process.n_async++;
    return YOKE_OK;
}

/* ---- steps ---- */

static yoke_status check_message(struct yokei_op *op, struct yokei_lane *lane,
                                 const struct yokei_header *message, size_t bytes)
{
    yoke_comm *comm = op->comm;
    const struct yokei_step *step = &lane->step;
    YOKE_TRY(yokei_check_seal(comm, lane, step->from, step->header, message, bytes));
    YOKE_TRY(yokei_check(comm, step->from, step->header, message));
    const size_t expected = step->n * yoke_dtype_bytes(step->in);
    lane->checked = true;
    if (bytes == sizeof *message + expected && message->bytes == expected) return YOKE_OK;
    return yokei_comm_fail(
        comm, YOKE_EMISMATCH, comm->peers[step->from].info.world_rank,
        "communicator \"%s\": %s #%u: rank %d sent %u bytes where rank %d expects %zu; the ranks' "
        "calls differ",
        comm->name, yokei_kind_name(op->kind), op->header.sequence, step->from, message->bytes, comm->rank,
        expected);
}

void yokei_compute(const struct yokei_op *op, const struct yokei_lane *lane, const void *message, void *room)
{
    const struct yokei_step *step = &lane->step;
    if (!step->n) return;
    const bool acc_is_own = step->use_acc && !step->own, acc_is_other = step->use_acc && step->own;
    const void *own = acc_is_own ? lane->acc : op->staged && step->own ? lane->own_copy : step->own;
    const void *other = acc_is_other ? lane->acc : message;
    const yoke_dtype own_dtype = acc_is_own ? op->wire : step->dtype,
                     other_dtype = acc_is_other ? op->wire : step->in;
    const bool own_first = own && (step->own_first || !other);
    yokei_combine(&(struct yokei_combine){
        .n = step->n,
        .reduction = op->reduction,
        .a = own_first ? own : other,
        .a_dtype = own_first ? own_dtype : other_dtype,
        .b = own && other ? (own_first ? other : own) : NULL,
        .b_dtype = own_first ? other_dtype : own_dtype,
        .finish = step->finish,
        .canonical = step->canonical,
        .size = op->comm->size,
        .out = { room, op->staged && step->store ? lane->result_copy : step->store,
                 step->store_acc ? lane->acc : NULL },
        .out_dtype = { step->out, step->dtype, op->wire },
    });
}

/* The lane waits for a message from `rank`, or until `rank` takes a message. */
static void waits_for_message(struct yokei_op *op, struct yokei_lane *lane, int rank)
{
    lane->rings = op->comm->peers[rank].transport == &yokei_shm_transport;
    waits_for(op, rank);
}

/* Whether the counters of this host's ranks have reached the values that the step needs. */
static yoke_status counters_ready(struct yokei_op *op, struct yokei_lane *lane, bool *ready_out)
{
    yoke_comm *comm = op->comm;
    const struct yokei_step *step = &lane->step;
    *ready_out = true;
    for (; lane->seen < step->n_wait; lane->seen++) {
        const int q = op->hosts->local[lane->seen];
        if (q == comm->rank || (step->wait_rank >= 0 && q != step->wait_rank)) continue;
        const uint32_t at = atomic_load_explicit(yokei_shm_counter_at(comm, q, lane, step->wait, step->until),
                                                 memory_order_acquire);
        if ((int32_t)(at - step->until) < 0) {
            waits_for(op, q);
            lane->rings = true;
            *ready_out = false;
            /* Messages to other hosts may need a push, and only this rank can give it. */
            return comm->all_shared ? YOKE_OK : yokei_mpi_transport.drained(comm, lane, &(bool){ false });
        }
        if (step->wait == YOKEI_POSTED && step->until == op->number) YOKE_TRY(yokei_check_post(comm, op, q));
    }
    return YOKE_OK;
}

/* Whether the copies from and to device memory are ready for the step. */
static yoke_status staging_ready(struct yokei_op *op, struct yokei_lane *lane, bool *ready_out)
{
    *ready_out = true;
    if (!op->staged) return YOKE_OK;
    if (lane->step.own) YOKE_TRY(yokei_stage_fetch(op->comm, lane, ready_out));
    if (*ready_out && lane->step.store) YOKE_TRY(yokei_stage_store_ready(op->comm, lane, ready_out));
    return YOKE_OK;
}

static yoke_status post_message(const struct yokei_op *op, struct yokei_lane *lane,
                                struct yokei_header *message)
{
    yoke_comm *comm = op->comm;
    const struct yokei_step *step = &lane->step;
    const size_t payload = step->n * yoke_dtype_bytes(step->out);
    if (comm->islands.n && comm->islands.of[step->to] != comm->islands.of[comm->rank])
        comm->work.bridged += payload;
    memcpy(message, step->header, sizeof *message);
    message->bytes = (uint32_t)payload;
    yokei_seal(comm, lane, step->to, message);
    return comm->peers[step->to].transport->post(comm, lane, step->to, sizeof *message + payload);
}

/* Do the lane's step if all that it needs is there. *done_out false: not yet. */
static yoke_status lane_step(struct yokei_op *op, struct yokei_lane *lane, bool *done_out)
{
    yoke_comm *comm = op->comm;
    const struct yokei_step *step = &lane->step;
    const void *message = NULL;
    void *room = NULL;
    size_t bytes = 0;
    bool ready = true;
    if (step->wait) YOKE_TRY(counters_ready(op, lane, &ready));
    if (!ready) return YOKE_OK;
    if (step->from >= 0) {
        YOKE_TRY(comm->peers[step->from].transport->poll(comm, lane, step->from, &message, &bytes));
        if (!message) {
            waits_for_message(op, lane, step->from);
            return YOKE_OK;
        }
        if (!lane->checked) YOKE_TRY(check_message(op, lane, message, bytes));
    }
    YOKE_TRY(staging_ready(op, lane, &ready));
    if (!ready) {
        waits_for_device(op);
        return YOKE_OK;
    }
    if (step->to >= 0) {
        YOKE_TRY(comm->peers[step->to].transport->reserve(comm, lane, step->to, &room));
        if (!room) {
            waits_for_message(op, lane, step->to);
            return YOKE_OK;
        }
    }
    lane->message = message ? (const char *)message + sizeof(struct yokei_header) : NULL;
    lane->room = room ? (char *)room + sizeof(struct yokei_header) : NULL;
    if (step->work)
        step->work(op, lane);
    else
        yokei_compute(op, lane, lane->message, lane->room);
    if (room) YOKE_TRY(post_message(op, lane, room));
    if (message) comm->peers[step->from].transport->release(comm, lane, step->from);
    if (op->staged && step->store) YOKE_TRY(yokei_stage_store(comm, lane));
    *done_out = true;
    return op->staged && step->work ? yokei_stage_depart(comm, lane) : YOKE_OK;
}

/* The step's work is done, its copies included, so set this rank's counter. */
static void set_counter(const struct yokei_op *op, const struct yokei_lane *lane)
{
    const yoke_comm *comm = op->comm;
    const struct yokei_step *step = &lane->step;
    if (!step->sets) return;
    atomic_store_explicit(yokei_shm_counter_at(comm, comm->rank, lane, step->sets, step->value), step->value,
                          memory_order_release);
    yokei_shm_ring_all(comm);
}

/* The lane has done its last step. The data that it stored and sent must arrive without this rank's help. */
static yoke_status lane_finish(struct yokei_op *op, struct yokei_lane *lane, bool *done_out)
{
    yoke_comm *comm = op->comm;
    if (op->staged) {
        YOKE_TRY(yokei_stage_store_ready(comm, lane, done_out));
        if (!*done_out) {
            waits_for_device(op);
            return YOKE_OK;
        }
    }
    YOKE_TRY(yokei_mpi_transport.drained(comm, lane, done_out));
    if (!*done_out) op->waits_for = lane->undrained;
    return YOKE_OK;
}

static yoke_status lane_work(struct yokei_op *op, struct yokei_lane *lane, bool *moved)
{
    while (lane->phase != YOKEI_LANE_DONE) {
        bool done = false;
        if (lane->phase == YOKEI_LANE_NEXT) {
            lane->step = (struct yokei_step){ .from = -1,
                                              .to = -1,
                                              .dtype = op->dtype,
                                              .in = op->dtype,
                                              .out = op->dtype,
                                              .header = &op->header,
                                              .n_wait = op->hosts->n_local,
                                              .wait_rank = -1 };
            lane->seen = 0;
            lane->own_fetched = lane->checked = lane->brings = lane->puts = false;
            lane->copied = YOKE_OK;
            lane->phase = op->algorithm->next(op, lane, &lane->step) ? YOKEI_LANE_WORK : YOKEI_LANE_STORING;
            if (lane->phase == YOKEI_LANE_WORK && op->staged && lane->step.own)
                YOKE_TRY(yokei_stage_fetch(op->comm, lane, &(bool){ false })); /* start the copies early */
        } else if (lane->phase == YOKEI_LANE_WORK) {
            lane->rings = false;
            YOKE_TRY(lane_step(op, lane, &done));
            if (!done) return YOKE_OK;
            lane->phase = YOKEI_LANE_COPYING;
        } else if (lane->phase == YOKEI_LANE_COPYING) {
            YOKE_TRY(yokei_stage_arrived(op->comm, lane, &done));
            if (!done) {
                waits_for_device(op);
                return YOKE_OK;
            }
            set_counter(op, lane);
            lane->phase = YOKEI_LANE_NEXT;
            op->n_steps++;
            *moved = true;
        } else {
            YOKE_TRY(lane_finish(op, lane, &done));
            if (!done) return YOKE_OK;
            lane->phase = YOKEI_LANE_DONE;
            op->n_lanes_done++;
            *moved = true;
        }
    }
    return YOKE_OK;
}

static void op_begin(struct yokei_op *op)
{
    op->begun = true;
    op->begun_ns = op->progress_ns = yokei_now_ns();
    for (int i = 0; i < op->n_lanes; i++) {
        struct yokei_lane *lane = op->lanes[i];
        lane->phase = YOKEI_LANE_NEXT;
        lane->round = op->transfers ? 0 : (size_t)i;
        lane->stage = 0;
    }
    /* Operations before this one used the same lanes until now. So each lane begins with its first
       transfer here. */
    for (int i = op->n_transfers - 1; i >= 0; i--) op->transfers[i].lane->transfer = &op->transfers[i];
    record_begin(op);
}

static void record_progress(struct yokei_op *op)
{
    struct yokei_flight_file *file = yokei_process.flight;
    op->moved = true;
    op->warned = false;
    op->entry->step = (int32_t)op->n_steps;
    atomic_store_explicit(&file->step, op->n_steps, memory_order_relaxed);
}

/* Begin the operation when the stream has reached it. *ready_out false: not yet. */
static yoke_status begin_when_ready(struct yokei_op *op, bool *ready_out)
{
    *ready_out = true;
    if (!op->begun && op->follows && yoke_event_query(op->ready, ready_out))
        return yoke_fail(YOKE_EBACKEND, "the stream's work before it failed: %s", yoke_last_error());
    if (!*ready_out) return YOKE_OK;
    if (!op->begun) op_begin(op);
    if (op->regroups) {
        *ready_out = have_all_left(op);
        if (!*ready_out) return YOKE_OK;
        op->regroups = false;
    }
    return op->n_parts && !op->packed && op->n_lanes_done < op->n_lanes
               ? yokei_move_parts(op, true, ready_out)
               : YOKE_OK;
}

/*
 * Work on the lanes. *ended_out: all is done, and the results of a fused operation are in the callers'
 * buffers.
 */
static yoke_status op_work(struct yokei_op *op, bool *moved, bool *ended_out)
{
    bool ready = true;
    *ended_out = false;
    YOKE_TRY(begin_when_ready(op, &ready));
    if (!ready) return YOKE_OK;
    for (int i = 0; i < op->n_lanes; i++)
        if (op->lanes[i]->phase != YOKEI_LANE_DONE) YOKE_TRY(lane_work(op, op->lanes[i], moved));
    if (op->n_lanes_done < op->n_lanes) return YOKE_OK;
    *ended_out = true;
    return op->n_parts ? yokei_move_parts(op, false, ended_out) : YOKE_OK;
}

/* Work on the operation at the head of the communicator's queue. Returns whether anything moved. */
static bool comm_progress(yoke_comm *comm)
{
    struct yokei_op *op = comm->work.queue;
    bool moved = false, ended;
    if (!op || atomic_load_explicit(&comm->failure.error, memory_order_relaxed)) return false;
    const yoke_status status = op_work(op, &moved, &ended);
    /* an error of a step itself, such as a copy that the driver refused, also fails the communicator */
    if (status) {
        if (!atomic_load(&comm->failure.error))
            yokei_comm_fail(comm, status, comm->peers[comm->rank].info.world_rank,
                            "communicator \"%s\": %s on rank %d: %s", comm->name, yokei_kind_name(op->kind),
                            comm->rank, yoke_last_error());
        return true;
    }
    if (moved) record_progress(op);
    if (ended) op_end(op, YOKE_OK);
    return moved || ended;
}

bool yokei_progress(void)
{
    bool moved = false;
    for (yoke_comm *comm = yokei_process.comms, *next; comm; comm = next) {
        next = comm->next;
        if (!comm->work.queue) continue;
        if (comm_progress(comm)) {
            comm->work.n_polls = 0;
            moved = true;
        } else if (!comm->failure.unsettled && (++comm->work.n_polls % 16 == 0 || comm->work.watch_soon)) {
            yokei_watch(comm);
        }
        yokei_settle_failure(comm);
    }
    return moved;
}
