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
 *   call/ (arguments) -> engine/ (operations, lanes, steps) -> transport/ (messages)
 *     |                    |-> algorithms/ (which steps)
 *     |-> choice/          |-> faults/ (which rank is to blame)
 */
#ifndef COLLECTIVES_ENGINE_ENGINE_H
#define COLLECTIVES_ENGINE_ENGINE_H

#include "collectives/ground/comm.h"

/* ---- engine.c ---- */
/** A new operation, from the communicator's list of free ones. YOKE_ENOMEM. The lock is held. */
yoke_status yokei_op_new(yoke_comm *comm, enum yokei_kind kind, struct yokei_op **op_out);
/** Return the operation to the list. The lock is held. */
void yokei_op_free(struct yokei_op *op);
/** Append the operation to the communicator's queue. The lock is held. */
yoke_status yokei_submit(struct yokei_op *op);
/** Work on all operations of all communicators once. Returns whether anything moved. The lock is held. */
bool yokei_progress(void);
/**
 * The arithmetic of a step without `work`: target = message OP own. The target is the message to send, the
 * caller's buffer, and the accumulator. message NULL, room NULL: there is none.
 */
void yokei_compute(const struct yokei_op *op, const struct yokei_lane *lane, const void *message, void *room);
/**
 * If the communicator has failed: end its operations with its sticky error, write the error to this rank's
 * record, and report it to the other ranks. What was done before is not done again. Call this after every
 * function that may fail the communicator, outside of steps. The lock is held.
 */
void yokei_settle_failure(yoke_comm *comm);
/** The same, and wait until it is done. Lets the lock go meanwhile. */
void yokei_settle_wholly(yoke_comm *comm);
/** Settle also a failure that another rank has reported. The lock is held. */
void yokei_look_for_failure(yoke_comm *comm);

/* ---- wait.c ---- */
/**
 * Work until all these operations have ended, and return them to the list. Returns the first error. The lock
 * is not held.
 */
yoke_status yokei_wait_for(struct yokei_op *const ops[], int n_ops);
/** What the progress thread does until it is to end. The lock is held, but not all the time. */
void yokei_wait_in_thread(void);
/** Wait until the progress thread does not sleep on the communicator's shared memory. The lock is held. */
void yokei_wake_thread(const yoke_comm *comm);

/* ---- failure.c ---- */
/**
 * This rank cannot take part in an operation although its arguments are right, most often for lack of memory.
 * The other ranks may already wait for it. So the communicator fails on all ranks, with an error that names
 * this rank and its last error. An error of the arguments (YOKE_EINVAL) does not fail the communicator.
 * Returns the error. The lock is held.
 */
yoke_status yokei_give_up(yoke_comm *comm, yoke_status status);
/** The same. The lock is not held. */
yoke_status yokei_give_up_outside(yoke_comm *comm, yoke_status status);

/* ---- thread.c: the progress thread ---- */
/** Start the progress thread if it does not run, and wake it. The lock is held. */
yoke_status yokei_thread_start(void);
/** End the progress thread if it runs. The lock is not held. */
void yokei_thread_end(void);

#endif
