/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the host does not see is staged chunk by chunk: each lane has a buffer for the rank's own data on
 * its way out and one for results on their way in. The copies are issued to a stream of the communicator's own and
 * looked after by events, so that one lane copies while another sums and a third waits for the network.
 */
#include "collectives/internal.h"

bool yokei_is_staged(const yoke_comm *comm, const void *address)
{
    return comm->device && address && !yoke_host_ptr(comm->device, address);
}

yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane)
{
    if (!comm->device || lane->own_copy) return YOKE_OK;
    const size_t bytes = YOKE_MAX(comm->chunk_bytes, (size_t)YOKEI_PAIR_CHUNK);
    if (!comm->copy_stream) YOKE_TRY(yoke_stream_create(comm->device, &comm->copy_stream));
    if (!lane->own_event) YOKE_TRY(yoke_event_create(comm->device, &lane->own_event));
    if (!lane->result_event) YOKE_TRY(yoke_event_create(comm->device, &lane->result_event));
    char *memory = aligned_alloc(4096, 2 * ((bytes + 4095) / 4096 * 4096));
    if (!memory)
        return yoke_fail(YOKE_ENOMEM, "communicator \"%s\": no memory for %zu bytes of staging: lower chunk_bytes",
                         comm->name, 2 * bytes);
    lane->own_copy = memory;
    lane->result_copy = memory + (bytes + 4095) / 4096 * 4096;
    return YOKE_OK;
}

void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane)
{
    (void)comm;
    if (lane->own_event) yoke_event_destroy(lane->own_event);
    if (lane->result_event) yoke_event_destroy(lane->result_event);
    free(lane->own_copy);
    lane->own_event = lane->result_event = NULL;
    lane->own_copy = lane->result_copy = NULL;
}

yoke_status yokei_stage_fetch(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out)
{
    if (!lane->own_fetched) {
        const struct yokei_step *step = &lane->step;
        if (step->n) {
            YOKE_TRY(yoke_copy_to_host(comm->copy_stream, lane->own_copy, step->own,
                                       step->n * yoke_dtype_bytes(step->dtype)));
            YOKE_TRY(yoke_event_record(lane->own_event, comm->copy_stream));
            YOKE_TRY(yoke_stream_flush(comm->copy_stream));
        }
        lane->own_fetched = true;
        *ready_out = false;
        if (step->n) return YOKE_OK;
    }
    *ready_out = true;
    return lane->step.n ? yoke_event_query(lane->own_event, ready_out) : YOKE_OK;
}

yoke_status yokei_stage_store_ready(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out)
{
    (void)comm;
    *ready_out = true;
    if (lane->result_pending) YOKE_TRY(yoke_event_query(lane->result_event, ready_out));
    if (*ready_out) lane->result_pending = false;
    return YOKE_OK;
}

yoke_status yokei_stage_store(yoke_comm *comm, struct yokei_lane *lane)
{
    const struct yokei_step *step = &lane->step;
    if (!step->n) return YOKE_OK;
    YOKE_TRY(yoke_copy_to_device(comm->copy_stream, step->store, lane->result_copy,
                                 step->n * yoke_dtype_bytes(step->dtype)));
    YOKE_TRY(yoke_event_record(lane->result_event, comm->copy_stream));
    lane->result_pending = true;
    return yoke_stream_flush(comm->copy_stream);
}
