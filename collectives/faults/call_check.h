/* SPDX-License-Identifier: Apache-2.0 */
/** The call check: whether all ranks make the same calls, and messages arrive whole. */
#ifndef COLLECTIVES_FAULTS_CALL_CHECK_H
#define COLLECTIVES_FAULTS_CALL_CHECK_H

#include "collectives/ground/comm.h"

/** Fill in the header of a collective, which is the communicator's next call. */
void yokei_header_begin(yoke_comm *comm, struct yokei_op *op, unsigned algorithm);
/** Fill in the header of a send or a receive. */
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
/** Compare the calls as yokei_check does, by the other rank's announcement of a collective. */
yoke_status yokei_check_post(yoke_comm *comm, const struct yokei_op *op, int other);

#endif
