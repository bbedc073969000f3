/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over MPI. This file uses only PMPI_* functions, and only non-blocking point-to-point calls, on a
 * private duplicate of MPI's communicator.
 * MPI sees only memory that the library owns. After an error the library never frees this memory, because
 * data for a posted receive may still arrive.
 * The tag stands for a communicator and a lane. MPI keeps the order of messages with equal tags between two
 * ranks.
 */
#include <string.h>
#include <sys/mman.h>

#include "collectives/transport/mpi.h"
#include "collectives/transport/transport.h"

struct yokei_mpi_lane {
    char *memory; /* YOKEI_SLOTS buffers to send from, and one to receive into */
    size_t message_bytes, memory_bytes;
    MPI_Request sends[YOKEI_SLOTS], receive;
    int to[YOKEI_SLOTS];
    int at; /* the next send slot */
    bool posted, arrived;
    int received_bytes;
    struct yokei_mpi_lane *next_leaked;
};

/*
 * Behind each message its number comes again. If a peer dies in the middle of a long message over TCP, MPICH
 * 4.0 completes the receive without an error. The buffer then holds what came until then, followed by the
 * rest of the message before.
 */
struct trailer {
    uint32_t number, mark;
};
static const uint32_t TRAILER_MARK = 0x594b5452u; /* "YKTR" */

enum { CONTROL_SENDS = 64 };
struct yokei_mpi_control {
    struct yokei_control in, out[CONTROL_SENDS];
    MPI_Request receive, sends[CONTROL_SENDS];
    bool listens; /* the receive was posted */
    struct yokei_mpi_control *next_leaked;
};

/*
 * Memory left after faults, which MPI may still write. It stays reachable, so that leak checkers see that
 * this is meant.
 */
static struct yokei_mpi_lane *leaked_lanes;
static struct yokei_mpi_control *leaked_controls;

static int tag_of(const yoke_comm *comm, int lane)
{
    return (int)(comm->context * YOKEI_LANE_KINDS + (uint32_t)lane);
}

/*
 * An error of MPI is most often the first sign that the peer died, but the error does not say so. So the text
 * is kept, and MPI is not used from here on. yokei_watch, which sees the peer's record, decides what to
 * report.
 */
static yoke_status mpi_error(yoke_comm *comm, int code, const char *call, int peer)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (comm->mpi.broken_ns) return YOKE_OK;
    PMPI_Error_string(code, text, &length);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ';';
    yokei_text(comm->mpi.broken_text, sizeof comm->mpi.broken_text, "%s between rank %d and rank %d: %s",
               call, comm->rank, peer, text);
    comm->mpi.broken_ns = yokei_now_ns();
    return YOKE_OK;
}

static size_t lane_message(size_t message_bytes)
{
    return (message_bytes + sizeof(struct trailer) + 63) / 64 * 64;
}

size_t yokei_mpi_lane_bytes(size_t message_bytes) { return lane_message(message_bytes) * (YOKEI_SLOTS + 1); }

yoke_status yokei_mpi_lane_begin(yoke_comm *comm, struct yokei_lane *lane, size_t message_bytes)
{
    struct yokei_mpi_lane *m = calloc(1, sizeof *m);
    if (!m) return yoke_fail(YOKE_ENOMEM, "communicator \"%s\": no memory for a lane", comm->name);
    m->message_bytes = lane_message(message_bytes);
    m->memory_bytes = yokei_mpi_lane_bytes(message_bytes);
    m->memory = mmap(NULL, m->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->memory == MAP_FAILED) {
        free(m);
        return yoke_fail(YOKE_ENOMEM,
                         "communicator \"%s\": no memory for %zu bytes of staging: lower chunk_bytes",
                         comm->name, (size_t)message_bytes * (YOKEI_SLOTS + 1));
    }
    yokei_hold(m->memory_bytes);
    for (int i = 0; i < YOKEI_SLOTS; i++) m->sends[i] = MPI_REQUEST_NULL;
    m->receive = MPI_REQUEST_NULL;
    lane->mpi = m;
    return YOKE_OK;
}

void yokei_mpi_lane_end(yoke_comm *comm, struct yokei_lane *lane)
{
    struct yokei_mpi_lane *m = lane->mpi;
    if (!m) return;
    lane->mpi = NULL;
    bool busy = m->posted;
    for (int i = 0; i < YOKEI_SLOTS; i++) busy |= m->sends[i] != MPI_REQUEST_NULL;
    if (busy && atomic_load(&comm->failure.error) && !yokei_process.copied_from) {
        m->next_leaked = leaked_lanes;
        leaked_lanes = m;
        return;
    }
    munmap(m->memory, m->memory_bytes);
    yokei_let_go(m->memory_bytes);
    free(m);
}

static yoke_status mpi_reserve(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out)
{
    struct yokei_mpi_lane *m = lane->mpi;
    *room_out = NULL;
    if (comm->mpi.broken_ns) return YOKE_OK;
    if (m->sends[m->at] != MPI_REQUEST_NULL) {
        int complete = 0;
        const int code = PMPI_Test(&m->sends[m->at], &complete, MPI_STATUS_IGNORE);
        if (code) return mpi_error(comm, code, "MPI_Test of a send", to);
        if (!complete) return YOKE_OK;
    }
    *room_out = m->memory + (size_t)m->at * m->message_bytes;
    return YOKE_OK;
}

static yoke_status mpi_post(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes)
{
    struct yokei_mpi_lane *m = lane->mpi;
    char *room = m->memory + (size_t)m->at * m->message_bytes;
    const struct trailer trailer = { ((const struct yokei_header *)(void *)room)->number, TRAILER_MARK };
    memcpy(room + bytes, &trailer, sizeof trailer);
    const int code = PMPI_Isend(room, (int)(bytes + sizeof trailer), MPI_BYTE, comm->set_rank[to],
                                tag_of(comm, lane->id), comm->set->mpi, &m->sends[m->at]);
    if (code) return mpi_error(comm, code, "MPI_Isend", to);
    m->to[m->at] = to;
    m->at = (m->at + 1) % YOKEI_SLOTS;
    return YOKE_OK;
}

static bool is_whole_message(const char *room, size_t room_bytes, int bytes)
{
    struct trailer trailer;
    if (bytes < (int)(sizeof(struct yokei_header) + sizeof trailer) || (size_t)bytes > room_bytes)
        return false;
    memcpy(&trailer, room + bytes - sizeof trailer, sizeof trailer);
    return trailer.mark == TRAILER_MARK
           && trailer.number == ((const struct yokei_header *)(const void *)room)->number;
}

static yoke_status torn(yoke_comm *comm, int from)
{
    comm->mpi.broken_ns = yokei_now_ns();
    yokei_text(comm->mpi.broken_text, sizeof comm->mpi.broken_text,
               "a message from rank %d to rank %d was cut off", from, comm->rank);
    return YOKE_OK;
}

static yoke_status mpi_poll(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out,
                            size_t *bytes_out)
{
    struct yokei_mpi_lane *m = lane->mpi;
    char *room = m->memory + YOKEI_SLOTS * m->message_bytes;
    *message_out = NULL;
    if (comm->mpi.broken_ns) return YOKE_OK;
    if (!m->posted) {
        memset(room, 0, sizeof(struct yokei_header));
        /* Receive at full size, whatever is expected. So a message of a rank that made another call also
           fits, and can be compared. */
        const int code = PMPI_Irecv(room, (int)m->message_bytes, MPI_BYTE, comm->set_rank[from],
                                    tag_of(comm, lane->id), comm->set->mpi, &m->receive);
        if (code) return mpi_error(comm, code, "MPI_Irecv", from);
        m->posted = true;
        m->arrived = false;
    }
    if (!m->arrived) {
        int complete = 0;
        MPI_Status status;
        const int code = PMPI_Test(&m->receive, &complete, &status);
        if (code) return mpi_error(comm, code, "MPI_Test of a receive", from);
        if (!complete) return YOKE_OK;
        PMPI_Get_count(&status, MPI_BYTE, &m->received_bytes);
        if (!is_whole_message(room, m->message_bytes, m->received_bytes)) return torn(comm, from);
        m->arrived = true;
    }
    *message_out = room;
    *bytes_out = (size_t)m->received_bytes - sizeof(struct trailer);
    return YOKE_OK;
}

static void mpi_release(yoke_comm *comm, struct yokei_lane *lane, int from)
{
    (void)comm, (void)from;
    lane->mpi->posted = lane->mpi->arrived = false;
}

static yoke_status mpi_drained(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out)
{
    struct yokei_mpi_lane *m = lane->mpi;
    *drained_out = true;
    for (int i = 0; i < YOKEI_SLOTS; i++) {
        if (m->sends[i] == MPI_REQUEST_NULL) continue;
        int complete = 0;
        if (!comm->mpi.broken_ns) {
            const int code = PMPI_Test(&m->sends[i], &complete, MPI_STATUS_IGNORE);
            if (code) mpi_error(comm, code, "MPI_Test of a send", m->to[i]);
        }
        if (complete) continue;
        *drained_out = false;
        lane->undrained = m->to[i];
    }
    return YOKE_OK;
}

const struct yokei_transport yokei_mpi_transport = { "mpi",    mpi_reserve, mpi_post,
                                                     mpi_poll, mpi_release, mpi_drained };

/* ---- control messages ---- */

static uint64_t control_bytes;
uint64_t yokei_mpi_control_bytes(void) { return control_bytes; }

size_t yokei_mpi_control_size(void) { return sizeof(struct yokei_mpi_control); }

static bool control_listen(yoke_comm *comm)
{
    struct yokei_mpi_control *c = comm->mpi.control;
    return PMPI_Irecv(&c->in, sizeof c->in, MPI_BYTE, MPI_ANY_SOURCE, tag_of(comm, YOKEI_LANE_CONTROL),
                      comm->set->mpi, &c->receive)
           == MPI_SUCCESS;
}

yoke_status yokei_mpi_control_make(yoke_comm *comm)
{
    struct yokei_mpi_control *c = calloc(1, sizeof *c);
    if (!c) return yoke_fail(YOKE_ENOMEM, "communicator \"%s\": no memory for control messages", comm->name);
    for (int i = 0; i < CONTROL_SENDS; i++) c->sends[i] = MPI_REQUEST_NULL;
    comm->mpi.control = c;
    return YOKE_OK;
}

yoke_status yokei_mpi_control_begin(yoke_comm *comm)
{
    if (!control_listen(comm))
        return yoke_fail(YOKE_EBACKEND, "communicator \"%s\": MPI_Irecv failed", comm->name);
    comm->mpi.control->listens = true;
    yokei_hold(sizeof *comm->mpi.control);
    return YOKE_OK;
}

void yokei_mpi_control_end(yoke_comm *comm)
{
    struct yokei_mpi_control *c = comm->mpi.control;
    if (!c) return;
    comm->mpi.control = NULL;
    if (!c->listens || yokei_process.copied_from) {
        free(c);
        return;
    }
    if (atomic_load(&comm->failure.error)) {
        c->next_leaked = leaked_controls;
        leaked_controls = c;
        return;
    }
    /* A cancelled receive completes by this rank's own doing. Probes that were sent were small, and have
       left. */
    PMPI_Cancel(&c->receive);
    PMPI_Wait(&c->receive, MPI_STATUS_IGNORE);
    bool pending = false;
    for (int i = 0; i < CONTROL_SENDS; i++) {
        int complete = 1;
        if (c->sends[i] != MPI_REQUEST_NULL) PMPI_Test(&c->sends[i], &complete, MPI_STATUS_IGNORE);
        pending |= !complete;
    }
    if (pending) {
        c->next_leaked = leaked_controls;
        leaked_controls = c;
    } else {
        free(c);
        yokei_let_go(sizeof *c);
    }
}

bool yokei_mpi_control_next(yoke_comm *comm, struct yokei_control *message_out)
{
    struct yokei_mpi_control *c = comm->mpi.control;
    while (c && !comm->mpi.broken_ns) {
        int complete = 0, bytes = 0;
        MPI_Status status;
        if (PMPI_Test(&c->receive, &complete, &status) != MPI_SUCCESS || !complete) return false;
        PMPI_Get_count(&status, MPI_BYTE, &bytes);
        *message_out = c->in;
        message_out->text[sizeof message_out->text - 1] = '\0';
        if (!control_listen(comm)) return false;
        control_bytes += (uint64_t)bytes;
        if (bytes == (int)sizeof *message_out) return true;
    }
    return false;
}

bool yokei_mpi_control_send(yoke_comm *comm, int to, const struct yokei_control *message)
{
    struct yokei_mpi_control *c = comm->mpi.control;
    if (!c || comm->mpi.broken_ns) return false;
    for (int i = 0; i < CONTROL_SENDS; i++) {
        int complete = 1;
        if (c->sends[i] != MPI_REQUEST_NULL && PMPI_Test(&c->sends[i], &complete, MPI_STATUS_IGNORE))
            return false;
        if (!complete) continue;
        c->out[i] = *message;
        control_bytes += sizeof *message;
        return PMPI_Isend(&c->out[i], sizeof c->out[i], MPI_BYTE, comm->set_rank[to],
                          tag_of(comm, YOKEI_LANE_CONTROL), comm->set->mpi, &c->sends[i])
               == MPI_SUCCESS;
    }
    return false;
}

void yokei_mpi_control_flush(yoke_comm *comm, uint64_t ns)
{
    struct yokei_mpi_control *c = comm->mpi.control;
    const uint64_t end = yokei_now_ns() + ns;
    for (bool pending = c != NULL; pending && yokei_now_ns() < end;) {
        pending = false;
        for (int i = 0; i < CONTROL_SENDS; i++) {
            int complete = 1;
            if (c->sends[i] != MPI_REQUEST_NULL && PMPI_Test(&c->sends[i], &complete, MPI_STATUS_IGNORE))
                return;
            pending |= !complete;
        }
    }
}
