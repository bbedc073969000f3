/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the host does not see is staged chunk by chunk. Through shared memory the copies go
 * directly to and from the stages that the other ranks read and write.
 * For messages each lane has two buffers: one for the rank's own data on the way out, and one for results on
 * the way in. The copies are issued to the communicator's own streams, one for each direction, and events say
 * when they are done. So one lane copies while another sums and a third waits for the network.
 */
#include <string.h>

#include "collectives/transport/stage.h"

#include "collectives/arithmetic/sum.h"
#include "collectives/transport/shared.h"

bool yokei_is_staged(const yoke_comm *comm, const void *address)
{
    return comm->device && address && !yoke_host_ptr(comm->device, address);
}

size_t yokei_stage_lane_bytes(size_t chunk_bytes)
{
    return 2 * ((YOKE_MAX(chunk_bytes, (size_t)YOKEI_PAIR_CHUNK) + 4095) / 4096 * 4096);
}

yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane)
{
    if (!comm->device || lane->own_copy) return YOKE_OK;
    const size_t bytes = yokei_stage_lane_bytes(comm->settings.chunk_bytes);
    if (!comm->staging.out_stream) YOKE_TRY(yoke_stream_create(comm->device, &comm->staging.out_stream));
    if (!comm->staging.in_stream) YOKE_TRY(yoke_stream_create(comm->device, &comm->staging.in_stream));
    if (!lane->own_event) YOKE_TRY(yoke_event_create(comm->device, &lane->own_event));
    if (!lane->result_event) YOKE_TRY(yoke_event_create(comm->device, &lane->result_event));
    char *memory = aligned_alloc(4096, bytes);
    if (!memory)
        return yoke_fail(YOKE_ENOMEM,
                         "communicator \"%s\": no memory for %zu bytes of staging: lower chunk_bytes",
                         comm->name, bytes);
    yokei_hold(bytes);
    lane->own_copy = memory;
    lane->result_copy = memory + bytes / 2;
    return YOKE_OK;
}

void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane)
{
    if (lane->own_copy) yokei_let_go(yokei_stage_lane_bytes(comm->settings.chunk_bytes));
    if (lane->own_event) yoke_event_destroy(lane->own_event);
    if (lane->result_event) yoke_event_destroy(lane->result_event);
    free(lane->own_copy);
    lane->own_event = lane->result_event = NULL;
    lane->own_copy = lane->result_copy = NULL;
}

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
