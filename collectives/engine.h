/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine: how the operations of a communicator run.
 *
 * A communicator works on one operation at a time, in the order in which they were issued; different communicators
 * work side by side. An operation runs on up to YOKEI_LANES lanes. A lane is a small sequential machine: it takes the
 * next step from the operation's algorithm, waits until what the step needs is there, does it, and takes the next. A
 * step is at most: receive a message, combine it with the rank's own data, store the result, send it. Lanes advance
 * independently, which is what keeps several chunks in flight. Messages between two ranks in one lane keep their order,
 * and every message carries the 64-byte header of the call that it belongs to.
 *
 *   call.c (arguments) -> engine.c (operations, lanes, steps) -> transport/ (messages)
 *                             |-> algorithms/ (which steps)   |-> verdict.c (who is to blame when nothing moves)
 */
#ifndef COLLECTIVES_ENGINE_H
#define COLLECTIVES_ENGINE_H

#include "collectives/comm.h"

/** How messages get from one rank to another. A lane has at most one message at a time in each function's hands. */
struct yokei_transport {
    const char *name;
    /* Room for the lane's next message to `to`; *room_out NULL when there is none yet. */
    yoke_status (*reserve)(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out);
    /* Send what was written there. */
    yoke_status (*post)(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes);
    /* The next message from `from`; *message_out NULL when it is not there yet. */
    yoke_status (*poll)(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out, size_t *bytes_out);
    /* The message was read. */
    void (*release)(yoke_comm *comm, struct yokei_lane *lane, int from);
    /* Whether all that the lane sent is on its way without help from this rank. */
    yoke_status (*drained)(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out);
};
extern const struct yokei_transport yokei_mpi_transport, yokei_shm_transport, yokei_inject_transport;

/* ---- engine.c ---- */
/** A fresh operation, from the communicator's list. The lock is held. */
yoke_status yokei_op_new(yoke_comm *comm, enum yokei_kind kind, struct yokei_op **op_out);
/** Give it back. The lock is held. */
void yokei_op_free(struct yokei_op *op);
/** Append to the communicator's queue. The lock is held. */
yoke_status yokei_submit(struct yokei_op *op);
/** Work on all operations of all communicators once; whether anything moved. The lock is held. */
bool yokei_progress(void);
/** Work until all the operations have ended; take them back; the first error. The lock is not held. */
yoke_status yokei_wait_for(struct yokei_op *const ops[], int n_ops);
/** End every operation of the communicator with its sticky error. The lock is held. */
void yokei_end_all(yoke_comm *comm);
/** The communicator's sticky error, written to the thread's error text. */
yoke_status yokei_sticky(yoke_comm *comm);

/* ---- plan.c: which algorithm, in which chunks ---- */
/** `counts` [size] of the slices, NULL: equal ones; send_counts of all_to_all_v, NULL: the same. */
void yokei_plan(struct yokei_op *op, const size_t counts[], const size_t send_counts[]);

/* ---- fuse.c: many small sums of a group as one ---- */
/** Whether the call may become part of one; the same on all ranks whose calls match. */
bool yokei_may_fuse(const struct yokei_op *op);
/** Let ops[0] do the work of all; with an error all are as before. *n_out of them were taken, at least one: the rest is too much. */
yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out);
/** Copy the parts' data to where the operation works (`out`), or the results from there; to be called until it is done. */
yoke_status yokei_fuse_move(struct yokei_op *op, bool out, bool *done_out);

/* ---- stage.c: device memory that the host does not see ---- */
bool yokei_is_staged(const yoke_comm *comm, const void *address);
yoke_status yokei_stage_fetch(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store_ready(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane);
/** Of a lane whose data is staged. */
size_t yokei_stage_lane_bytes(size_t chunk_bytes);
void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane);
/**
 * For `work`: copy bytes of what this rank sends, from byte `at` on, to shared memory; and from there to where it receives. Of device
 * memory that the host does not see the copies are on their way when these return, and the step ends, and tells, when they are done.
 * What was brought is the rank's own data then: where it is not, `send` is.
 */
void yokei_bring(const struct yokei_op *op, struct yokei_lane *lane, void *to, size_t at, size_t bytes);
void yokei_put(const struct yokei_op *op, struct yokei_lane *lane, size_t at, const void *from, size_t bytes);
/** Let them set out, after `work`; and whether they are done. */
yoke_status yokei_stage_depart(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_stage_arrived(yoke_comm *comm, struct yokei_lane *lane, bool *arrived_out);

/* ---- check.c: the call check ---- */
void yokei_header_begin(yoke_comm *comm, struct yokei_op *op);
void yokei_header_transfer(yoke_comm *comm, struct yokei_transfer *transfer, uint32_t sequence);
/** Compare what came from `from` with what was called here; on a mismatch the communicator fails, and that is returned. */
yoke_status yokei_check(yoke_comm *comm, int from, const struct yokei_header *here, const struct yokei_header *there);

/** Number the message that goes to `to`, and put the sum under it. */
void yokei_seal(yoke_comm *comm, struct yokei_lane *lane, int to, struct yokei_header *header);
/** Whether what came from `from` is whole, and the next one: else the communicator fails with YOKE_EDATA. `here`: the call that waits for it. */
yoke_status yokei_check_seal(yoke_comm *comm, struct yokei_lane *lane, int from, const struct yokei_header *here, const struct yokei_header *there,
                             size_t bytes);
/** Whether the record of a rank of this host, or its answer to a probe, says that it has done its part of call `sequence`. */
bool yokei_has_done(const yoke_comm *comm, int other, uint32_t sequence);
/** The same for a call that a waiting rank asks about: compared when it was made here too. */
yoke_status yokei_check_probe(yoke_comm *comm, int from, const struct yokei_header *there);
/** The same by the flight record of a rank of this host. */
yoke_status yokei_check_record(yoke_comm *comm, int other);

/* ---- transport/mpi.c: the only calls of MPI but those of setup.c ---- */
yoke_status yokei_mpi_lane_begin(yoke_comm *comm, struct yokei_lane *lane, size_t message_bytes);
void yokei_mpi_lane_end(yoke_comm *comm, struct yokei_lane *lane);
/** Of a lane with messages of so many bytes, header included. */
size_t yokei_mpi_lane_bytes(size_t message_bytes);
yoke_status yokei_mpi_control_begin(yoke_comm *comm);
void yokei_mpi_control_end(yoke_comm *comm);
size_t yokei_mpi_control_size(void);
/** Receive control messages, if any came. */
void yokei_mpi_control_poll(yoke_comm *comm);
/** Send one to a rank of the communicator, if a slot is free; false when not. */
bool yokei_mpi_control_send(yoke_comm *comm, int to, const struct yokei_control *message);
/** Bytes of control messages that went and came so far. */
uint64_t yokei_mpi_control_bytes(void);
/** Push pending control messages for at most `ns`. */
void yokei_mpi_control_flush(yoke_comm *comm, uint64_t ns);

/* ---- transport/inject.c: faults on purpose, for tests ---- */
/** Read YOKE_INJECT; comm->inject stays NULL where it is unset or names other ranks. YOKE_ECONFIG. */
yoke_status yokei_inject_begin(yoke_comm *comm);
/** Lie around the transports that were chosen. */
void yokei_inject_wrap(yoke_comm *comm);
void yokei_inject_end(yoke_comm *comm);

#endif
