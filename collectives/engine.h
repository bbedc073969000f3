/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine runs the operations of a communicator.
 *
 * A communicator works on one operation at a time, in the order in which the operations were issued.
 * Different communicators work side by side.
 * An operation runs on up to YOKEI_LANES lanes. A lane is a small sequential machine. It takes the next step
 * from the operation's algorithm, waits until all that the step needs is there, does the step, and takes the
 * next one.
 * A step consists of at most four actions: receive a message, combine it with the rank's own data, store the
 * result, send it. Lanes advance independently of each other, so several chunks are in flight.
 * Messages between two ranks in one lane keep their order. Every message carries a 64-byte header with the
 * call that it belongs to.
 *
 *   call.c (arguments) -> engine.c (operations, lanes, steps) -> transport/ (messages)
 *                             |-> algorithms/ (which steps)   |-> verdict.c (which rank is to blame)
 */
#ifndef COLLECTIVES_ENGINE_H
#define COLLECTIVES_ENGINE_H

#include "collectives/comm.h"

/**
 * The functions that bring messages from one rank to another. In each function a lane has at most one message
 * at a time.
 */
struct yokei_transport {
    const char *name;
    /* Room for the lane's next message to `to`. *room_out is NULL if there is none yet. */
    yoke_status (*reserve)(yoke_comm *comm, struct yokei_lane *lane, int to, void **room_out);
    /* Send the message that was written to the room. */
    yoke_status (*post)(yoke_comm *comm, struct yokei_lane *lane, int to, size_t bytes);
    /* The next message from `from`. *message_out is NULL if the message is not there yet. */
    yoke_status (*poll)(yoke_comm *comm, struct yokei_lane *lane, int from, const void **message_out,
                        size_t *bytes_out);
    /* The message was read. */
    void (*release)(yoke_comm *comm, struct yokei_lane *lane, int from);
    /* Whether all messages of the lane are on their way without help from this rank. */
    yoke_status (*drained)(yoke_comm *comm, struct yokei_lane *lane, bool *drained_out);
};
extern const struct yokei_transport yokei_mpi_transport, yokei_shm_transport;

/* ---- engine.c ---- */
/** A new operation, from the communicator's list of free ones. YOKE_ENOMEM. The lock is held. */
yoke_status yokei_op_new(yoke_comm *comm, enum yokei_kind kind, struct yokei_op **op_out);
/** Return the operation to the list. The lock is held. */
void yokei_op_free(struct yokei_op *op);
/** Append the operation to the communicator's queue. The lock is held. */
yoke_status yokei_submit(struct yokei_op *op);
/** Work on all operations of all communicators once. Returns whether anything moved. The lock is held. */
bool yokei_progress(void);
/** End every operation of the communicator with its sticky error. The lock is held. */
void yokei_end_all(yoke_comm *comm);
/**
 * Whether the rank's record may say what this communicator's operation waits for. While a thread is blocked
 * in a call, the record says what that call waits for.
 */
static inline bool yokei_shows_wait(const yoke_comm *comm)
{
    return !atomic_load_explicit(&yokei_process.n_blocked, memory_order_relaxed)
           || atomic_load_explicit(&comm->n_awaited, memory_order_relaxed);
}
/** The communicator's sticky error, which is also written to the thread's error text. */
yoke_status yokei_sticky(yoke_comm *comm);

/* ---- wait.c ---- */
/**
 * Work until all these operations have ended, and return them to the list. Returns the first error. The lock
 * is not held.
 */
yoke_status yokei_wait_for(struct yokei_op *const ops[], int n_ops);

/* ---- choice.c: chooses the algorithm and the chunks ---- */
/**
 * `counts` [size] are the slices' lengths; NULL: equal slices. `send_counts` are those of all_to_all_v; NULL:
 * the same as counts.
 */
void yokei_choose(struct yokei_op *op, const size_t counts[], const size_t send_counts[]);

/* ---- fuse.c: runs many small sums of a group as one ---- */
/**
 * Whether the call may become part of a fused operation. The answer is the same on all ranks whose calls
 * match.
 */
bool yokei_may_fuse(const struct yokei_op *op);
/**
 * Let ops[0] do the work of the first *n_out operations, which is at least one. The others do not fit in it.
 * After an error all operations are unchanged.
 */
yoke_status yokei_fuse(struct yokei_op *const ops[], int n_ops, int *n_out);
/**
 * Copy the parts' data to the fused buffer (`out`), or the results from there. Call this again until it is
 * done.
 */
yoke_status yokei_fuse_move(struct yokei_op *op, bool out, bool *done_out);

/* ---- stage.c: device memory that the host does not see ---- */
bool yokei_is_staged(const yoke_comm *comm, const void *address);
yoke_status yokei_stage_fetch(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store_ready(yoke_comm *comm, struct yokei_lane *lane, bool *ready_out);
yoke_status yokei_stage_store(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_stage_reserve(yoke_comm *comm, struct yokei_lane *lane);
/** Bytes that a lane takes if its data is staged. */
size_t yokei_stage_lane_bytes(size_t chunk_bytes);
void yokei_stage_free(yoke_comm *comm, struct yokei_lane *lane);
/**
 * For `work`: yokei_bring copies bytes of this rank's send buffer, from byte `at` on, to shared memory.
 * yokei_put copies from shared memory to the receive buffer.
 * If the host does not see the device's memory, the copies are still on their way when these functions
 * return. The step ends, and its counter is set, when the copies are done. For staged operations the host
 * finds the rank's own data in the copy, and otherwise in `send`.
 */
void yokei_bring(const struct yokei_op *op, struct yokei_lane *lane, void *to, size_t at, size_t bytes);
void yokei_put(const struct yokei_op *op, struct yokei_lane *lane, size_t at, const void *from, size_t bytes);
/** Issue the copies after `work`. The second function says whether they are done. */
yoke_status yokei_stage_depart(yoke_comm *comm, struct yokei_lane *lane);
yoke_status yokei_stage_arrived(yoke_comm *comm, struct yokei_lane *lane, bool *arrived_out);

/* ---- call_check.c: the call check ---- */
void yokei_header_begin(yoke_comm *comm, struct yokei_op *op);
void yokei_header_transfer(yoke_comm *comm, struct yokei_transfer *transfer, uint32_t sequence);
/**
 * Compare the call in a header from `from` with the call that was made here. On a mismatch the communicator
 * fails, and its error is returned.
 */
yoke_status yokei_check(yoke_comm *comm, int from, const struct yokei_header *here,
                        const struct yokei_header *there);

/** Write the message's number and checksum to the header of a message to `to`. */
void yokei_seal(yoke_comm *comm, struct yokei_lane *lane, int to, struct yokei_header *header);
/**
 * Check that a message from `from` is undamaged and is the next one. Otherwise the communicator fails with
 * YOKE_EDATA. `here` is the call that waits for the message.
 */
yoke_status yokei_check_seal(yoke_comm *comm, struct yokei_lane *lane, int from,
                             const struct yokei_header *here, const struct yokei_header *there, size_t bytes);
/**
 * Whether rank `other` has done its part of call `sequence`. The source is its record if it is on this host,
 * else its answer to a probe.
 */
bool yokei_has_done(const yoke_comm *comm, int other, uint32_t sequence);
/**
 * Compare the calls as yokei_check does, for a call that a waiting rank asks about, if that call was made
 * here too.
 */
yoke_status yokei_check_probe(yoke_comm *comm, int from, const struct yokei_header *there);
/** Compare the calls as yokei_check does, by the flight record of a rank of this host. */
yoke_status yokei_check_record(yoke_comm *comm, int other);

/* ---- transport/mpi.c: messages over MPI ---- */
yoke_status yokei_mpi_lane_begin(yoke_comm *comm, struct yokei_lane *lane, size_t message_bytes);
void yokei_mpi_lane_end(yoke_comm *comm, struct yokei_lane *lane);
/** Bytes that a lane takes if its messages have so many bytes, header included. */
size_t yokei_mpi_lane_bytes(size_t message_bytes);
/** Allocate the memory of control messages. The second function begins to receive them. */
yoke_status yokei_mpi_control_make(yoke_comm *comm);
yoke_status yokei_mpi_control_begin(yoke_comm *comm);
void yokei_mpi_control_end(yoke_comm *comm);
size_t yokei_mpi_control_size(void);
/** Receive the control messages that have come. */
void yokei_mpi_control_poll(yoke_comm *comm);
/** Send a control message to a rank of the communicator. False: no slot is free. */
bool yokei_mpi_control_send(yoke_comm *comm, int to, const struct yokei_control *message);
/** Bytes of control messages sent and received so far. */
uint64_t yokei_mpi_control_bytes(void);
/** Push pending control messages for at most `ns`. */
void yokei_mpi_control_flush(yoke_comm *comm, uint64_t ns);

/* ---- transport/inject.c: faults on purpose, for tests ---- */
/** Read YOKE_INJECT. comm->inject stays NULL if the variable is unset or names other ranks. YOKE_ECONFIG. */
yoke_status yokei_inject_begin(yoke_comm *comm);
/** Put this transport around the transports that were chosen. */
void yokei_inject_wrap(yoke_comm *comm);
void yokei_inject_end(yoke_comm *comm);

#endif
