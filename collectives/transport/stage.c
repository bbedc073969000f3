/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the host does not see is staged chunk by chunk. Through shared memory the copies go
 * directly to and from the stages that the other ranks read and write.
 * For messages each lane has two buffers: one for the rank's own data on the way out, and one for results on
 * the way in. The copies are issued to the communicator's own streams, one for each direction, and events say
 * when they are done. So one lane copies while another sums and a third waits for the network.
 *
 * If the device copies by itself only from and to page-locked memory, the communicator page-locks the shared
 * memory of all ranks of its host, and the lanes' buffers. It does so when it is made, because a driver may
 * let this call wait for all work of the device. The buffers for sends to a rank, and for receives from it,
 * follow when they are first needed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>
#include <sys/mman.h>

#include "collectives/transport/stage.h"

#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"
#include "collectives/transport/shm.h"

bool yokei_is_staged(const yoke_comm *comm, const void *address)
{
    return comm->device && address && !yoke_host_ptr(comm->device, address);
}

/* ---- buffers of lanes, and page-locked memory ---- */

/* A half of a lane's buffers: one direction. */
static size_t half_bytes(size_t chunk_bytes)
{
    return (YOKE_MAX(chunk_bytes, (size_t)YOKEI_PAIR_CHUNK) + 4095) / 4096 * 4096;
}

size_t yokei_stage_lane_bytes(size_t chunk_bytes) { return 2 * (half_bytes(chunk_bytes) + YOKEI_GAP_BYTES); }

/* Forbid the page behind a buffer, if the device checks accesses. */
static yoke_status forbid_gap(const yoke_comm *comm, char *at)
{
    return yokei_annotate(comm->device, NULL,
                          &(struct yokei_annotation){ at, YOKEI_GAP_BYTES, YOKEI_MEMORY_FORBIDDEN, NULL, 0 });
}

/*
 * Page-lock memory, so that the device copies from and to it by itself. After a refusal the communicator asks
 * no more, and the copies pass through pinned memory of the backend. Returns whether the memory is locked.
 */
static bool pin(yoke_comm *comm, void *memory, size_t bytes, const char *name)
{
    struct yokei_staging *staging = &comm->staging;
    struct yokei_pinned *entry = staging->refused[0] ? NULL : malloc(sizeof *entry);
    if (!entry) return false;
    if (yokei_pin(comm->device, memory, bytes, name)) {
        yokei_text(staging->refused, sizeof staging->refused, "%s", yoke_last_error());
        free(entry);
        return false;
    }
    *entry = (struct yokei_pinned){ staging->pinned, memory };
    staging->pinned = entry;
    return true;
}

/*
 * Memory for the buffers of lanes. If it can be page-locked, it is a shared mapping. In private memory a fork
 * would give this process other pages than those that the device writes to.
 */
static char *buffers_new(const yoke_comm *comm, size_t bytes)
{
    if (!comm->staging.is_mapped) return aligned_alloc(4096, bytes);
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void buffers_free(const yoke_comm *comm, char *memory, size_t bytes)
{
    if (!comm->staging.is_mapped)
        free(memory);
    else if (memory)
        munmap(memory, bytes);
}

static yoke_status give_buffers(const yoke_comm *comm, struct yokei_lane *lane, char *memory, bool is_pinned)
{
    const size_t half = half_bytes(comm->settings.chunk_bytes);
    lane->own_copy = memory;
    lane->result_copy = memory + half + YOKEI_GAP_BYTES;
    if (!is_pinned) return YOKE_OK;
    YOKE_TRY(forbid_gap(comm, memory + half));
    return forbid_gap(comm, lane->result_copy + half);
}

/* Page-lock what this rank and the ranks of its host publish. */
static yoke_status pin_segments(yoke_comm *comm)
{
    char name[64];
    size_t bytes, at;
    for (int r = 0; r < comm->size; r++) {
        char *memory = yokei_shm_copied(comm, r, &bytes);
        yokei_text(name, sizeof name, "stages of rank %d", r);
        if (!memory || !pin(comm, memory, bytes, name)) continue;
        for (int i = 0; (at = yokei_shm_gap_at(comm, i)); i++) YOKE_TRY(forbid_gap(comm, memory + at));
    }
    return YOKE_OK;
}

static size_t all_buffers_bytes(const yoke_comm *comm)
{
    return YOKEI_LANES * yokei_stage_lane_bytes(comm->settings.chunk_bytes) + YOKEI_STAGE_FUSED_BYTES;
}

/* Make and page-lock the buffers of all lanes of collectives, and that of fused operations, at once. */
static yoke_status make_all_buffers(yoke_comm *comm)
{
    const size_t each = yokei_stage_lane_bytes(comm->settings.chunk_bytes), bytes = all_buffers_bytes(comm);
    char *memory = buffers_new(comm, bytes);
    if (!memory) return YOKE_OK; /* each lane tries again when it needs its buffers */
    yokei_hold(bytes);
    comm->staging.lanes = memory;
    comm->staging.fused = memory + YOKEI_LANES * each;
    const bool is_pinned = pin(comm, memory, bytes, "buffers of a communicator");
    for (int i = 0; i < YOKEI_LANES; i++)
        YOKE_TRY(give_buffers(comm, &comm->work.lanes[i], memory + (size_t)i * each, is_pinned));
    return is_pinned ? forbid_gap(comm, comm->staging.fused + YOKEI_FUSED_BYTES) : YOKE_OK;
}

char *yokei_stage_fused(yoke_comm *comm)
{
    if (comm->staging.fused) return comm->staging.fused;
    comm->staging.fused = aligned_alloc(4096, YOKEI_STAGE_FUSED_BYTES);
    if (comm->staging.fused) yokei_hold(YOKEI_STAGE_FUSED_BYTES);
    return comm->staging.fused;
}

yoke_status yokei_stage_begin(yoke_comm *comm)
{
    if (comm->size == 1 || !yokei_pins(comm->device)) return YOKE_OK;
    comm->staging.is_mapped = true;
    YOKE_TRY(pin_segments(comm));
    return make_all_buffers(comm);
}

/* Whether the copies of one direction are done, or cannot be asked about any more. */
static bool is_done(yoke_comm *comm, yoke_stream *stream, yoke_event **last)
{
    bool done = true;
    if (!stream) return true;
    if (!*last
        && (yoke_event_create(comm->device, last) || yoke_event_record(*last, stream)
            || yoke_stream_flush(stream)))
        return true;
    return yoke_event_query(*last, &done) || done;
}

bool yokei_stage_is_quiet(yoke_comm *comm)
{
    static const uint64_t MOST_NS = 5000000000;
    struct yokei_staging *staging = &comm->staging;
    struct yokei_error saved;
    if (!staging->last_ns) staging->last_ns = yokei_now_ns();
    yokei_error_save(&saved);
    const bool out = is_done(comm, staging->out_stream, &staging->last[0]);
    const bool in = is_done(comm, staging->in_stream, &staging->last[1]);
    yokei_error_restore(&saved);
    return (out && in) || yokei_now_ns() - staging->last_ns > MOST_NS;
}

void yokei_stage_end(yoke_comm *comm)
{
    struct yokei_staging *staging = &comm->staging;
    const size_t bytes = all_buffers_bytes(comm);
    /* Copies of a failed operation may still use the memory. */
    if (staging->out_stream) yoke_stream_sync(staging->out_stream);
    if (staging->in_stream) yoke_stream_sync(staging->in_stream);
    for (struct yokei_pinned *entry = staging->pinned, *next; entry; entry = next) {
        next = entry->next;
        yokei_unpin(comm->device, entry->memory);
        free(entry);
    }
    staging->pinned = NULL;
    for (int i = 0; i < 2; i++)
        if (staging->last[i]) yoke_event_destroy(staging->last[i]);
    if (!staging->lanes) {
        if (staging->fused) yokei_let_go(YOKEI_STAGE_FUSED_BYTES);
        free(staging->fused);
        staging->fused = NULL;
        return;
    }
    for (int i = 0; i < YOKEI_LANES; i++) comm->work.lanes[i].own_copy = NULL;
    buffers_free(comm, staging->lanes, bytes);
    yokei_let_go(bytes);
    staging->lanes = staging->fused = NULL;
}

static yoke_status make_events(yoke_comm *comm, struct yokei_lane *lane)
{
    if (!comm->staging.out_stream) YOKE_TRY(yoke_stream_create(comm->device, &comm->staging.out_stream));
    if (!comm->staging.in_stream) YOKE_TRY(yoke_stream_create(comm->device, &comm->staging.in_stream));
    if (!lane->own_event) YOKE_TRY(yoke_event_create(comm->device, &lane->own_event));
    return lane->result_event ? YOKE_OK : yoke_event_create(comm->device, &lane->result_event);
}

yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane)
{
    if (!comm->device || (lane->own_copy && lane->result_event)) return YOKE_OK;
    YOKE_TRY(make_events(comm, lane));
    if (lane->own_copy) return YOKE_OK;
    const size_t bytes = yokei_stage_lane_bytes(comm->settings.chunk_bytes);
    char *memory = buffers_new(comm, bytes);
    if (!memory)
        return yoke_fail(YOKE_ENOMEM,
                         "communicator \"%s\": no memory for %zu bytes of staging: lower chunk_bytes",
                         comm->name, bytes);
    yokei_hold(bytes);
    return give_buffers(comm, lane, memory,
                        comm->staging.is_mapped && pin(comm, memory, bytes, "buffers of a send or receive"));
}

void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane)
{
    const size_t bytes = yokei_stage_lane_bytes(comm->settings.chunk_bytes);
    if (lane->own_event) yoke_event_destroy(lane->own_event);
    if (lane->result_event) yoke_event_destroy(lane->result_event);
    lane->own_event = lane->result_event = NULL;
    if (lane->own_copy) {
        buffers_free(comm, lane->own_copy, bytes);
        yokei_let_go(bytes);
    }
    lane->own_copy = lane->result_copy = NULL;
}

/* ---- copies of steps ---- */

/* Issue the copies so far. The event completes when they are done. */
static yoke_status set_out(yoke_event *event, yoke_stream *stream)
{
    YOKE_TRY(yoke_event_record(event, stream));
    return yoke_stream_flush(stream);
}

yoke_status yokei_stage_store_ready(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out)
{
    (void)comm;
    *ready_out = true;
    if (lane->result_pending) YOKE_TRY(yoke_event_query(lane->result_event, ready_out));
    if (*ready_out) lane->result_pending = false;
    return YOKE_OK;
}

yoke_status yokei_stage_fetch(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out)
{
    if (!lane->own_fetched) {
        const struct yokei_step *step = &lane->step;
        YOKE_TRY(yokei_stage_store_ready(comm, lane,
                                         ready_out)); /* the lane may send data that it received before */
        if (!*ready_out) return YOKE_OK;
        if (step->n) {
            YOKE_TRY(yoke_copy_to_host(comm->staging.out_stream, lane->own_copy, step->own,
                                       step->n * yoke_dtype_bytes(step->dtype)));
            YOKE_TRY(set_out(lane->own_event, comm->staging.out_stream));
        }
        lane->own_fetched = true;
        *ready_out = false;
        if (step->n) return YOKE_OK;
    }
    *ready_out = true;
    return lane->step.n ? yoke_event_query(lane->own_event, ready_out) : YOKE_OK;
}

yoke_status yokei_stage_store(yoke_comm *comm, struct yokei_lane *lane)
{
    const struct yokei_step *step = &lane->step;
    if (!step->n) return YOKE_OK;
    YOKE_TRY(yoke_copy_to_device(comm->staging.in_stream, step->store, lane->result_copy,
                                 step->n * yoke_dtype_bytes(step->dtype)));
    lane->result_pending = true;
    return set_out(lane->result_event, comm->staging.in_stream);
}

/* ---- through shared memory ---- */

enum direction { OUT, IN };

static void copy_piece(const struct yokei_op *op, struct yokei_lane *lane, enum direction direction, void *to,
                       const void *from, size_t bytes)
{
    yoke_comm *comm = op->comm;
    if (!bytes || lane->copied) return;
    if (!op->staged)
        yokei_copy(to, from, bytes, direction == IN && yokei_is_long(op));
    else if (direction == OUT)
        lane->copied = yoke_copy_to_host(comm->staging.out_stream, to, from, bytes);
    else
        lane->copied = yoke_copy_to_device(comm->staging.in_stream, to, from, bytes);
    lane->brings |= op->staged && direction == OUT;
    lane->puts |= op->staged && direction == IN;
}

void yokei_bring(const struct yokei_op *op, struct yokei_lane *lane, void *to, size_t at, size_t bytes)
{
    copy_piece(op, lane, OUT, to, (const char *)op->send + at, bytes);
}

void yokei_put(const struct yokei_op *op, struct yokei_lane *lane, size_t at, const void *from, size_t bytes)
{
    copy_piece(op, lane, IN, (char *)op->recv + at, from, bytes);
}

yoke_status yokei_stage_depart(yoke_comm *comm, struct yokei_lane *lane)
{
    YOKE_TRY(lane->copied);
    if (lane->brings) YOKE_TRY(set_out(lane->own_event, comm->staging.out_stream));
    if (lane->puts) YOKE_TRY(set_out(lane->result_event, comm->staging.in_stream));
    return YOKE_OK;
}

yoke_status yokei_stage_arrived(yoke_comm *comm, struct yokei_lane *lane, bool *arrived_out)
{
    (void)comm;
    *arrived_out = true;
    if (lane->brings) YOKE_TRY(yoke_event_query(lane->own_event, arrived_out));
    if (*arrived_out && lane->puts) YOKE_TRY(yoke_event_query(lane->result_event, arrived_out));
    return YOKE_OK;
}

/* ---- operations fused from several calls ---- */

/*
 * Copy the parts to `fused`, or from there. If the host does not see the device's memory, the copies are only
 * issued.
 */
static yoke_status issue_parts(struct yokei_op *op, bool out)
{
    yoke_comm *comm = op->comm;
    struct yokei_lane *lane = op->lanes[0];
    const size_t unit = yoke_dtype_bytes(op->dtype);
    char *at = op->fused;
    lane->brings = lane->puts = false;
    for (int i = 0; i < op->n_parts; i++) {
        const struct yokei_part *part = &op->parts[i];
        const size_t bytes = part->count * unit;
        if (bytes && part->staged) {
            YOKE_TRY(out ? yoke_copy_to_host(comm->staging.out_stream, at, part->send, bytes)
                         : yoke_copy_to_device(comm->staging.in_stream, part->recv, at, bytes));
            *(out ? &lane->brings : &lane->puts) = true;
        } else if (bytes) {
            memcpy(out ? (void *)at : part->recv, out ? part->send : (void *)at, bytes);
        }
        at += bytes;
    }
    return yokei_stage_depart(comm, lane);
}

yoke_status yokei_move_parts(struct yokei_op *op, bool out, bool *done_out)
{
    if (!op->packs) YOKE_TRY(issue_parts(op, out));
    YOKE_TRY(yokei_stage_arrived(op->comm, op->lanes[0], done_out));
    op->packs = !*done_out;
    if (*done_out) op->packed = out;
    return YOKE_OK;
}
