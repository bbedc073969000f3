/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages and announcements through memory that ranks of one host share. An announcement (struct yokei_post)
 * says which collective a rank has entered.
 */
#ifndef COLLECTIVES_TRANSPORT_SHM_H
#define COLLECTIVES_TRANSPORT_SHM_H

#include "collectives/ground/comm.h"

/* ---- transport/shm.c ---- */
/**
 * The offsets of a segment's parts, for a communicator with room for `room` ranks. A segment is the shared
 * memory that one rank owns.
 */
struct yokei_offsets yokei_shm_offsets(int room, size_t chunk_bytes);
yoke_status yokei_shm_create(yoke_comm *comm); /* create this rank's segment and its descriptor */
/* map a peer's segment through the descriptor of the peer's process */
bool yokei_shm_map(yoke_comm *comm, int peer);
/**
 * Sleep until a peer gives this rank a message or a free slot. Call begin, look once more for work, then call
 * end. ns 0: do not sleep.
 */
uint32_t yokei_shm_sleep_begin(yoke_comm *comm);
void yokei_shm_sleep_end(yoke_comm *comm, uint32_t rung, uint64_t ns);
/** Report to a peer that this communicator has failed. False: the two ranks share no slots. */
bool yokei_shm_alarm(yoke_comm *comm, int peer, const struct yokei_control *message);
/** The failure that a peer has reported through shared memory; NULL: none. */
const struct yokei_control *yokei_shm_alarmed(const yoke_comm *comm);
/**
 * Places in the segment of rank r, which may be this rank. A stage has two parts: `part` 0 is the data that
 * the rank publishes, 1 the data that it computed.
 */
struct yokei_post *yokei_shm_post_at(const yoke_comm *comm, int r, uint32_t number);
_Atomic uint32_t *yokei_shm_counter_at(const yoke_comm *comm, int r, const struct yokei_lane *lane,
                                       enum yokei_counter counter, uint32_t until);
char *yokei_shm_oneshot_at(const yoke_comm *comm, int r, uint32_t number);
char *yokei_shm_stage_at(const yoke_comm *comm, int r, const struct yokei_lane *lane, int part);
/** The memory of rank r from and to which devices copy. NULL: this rank does not see it. */
char *yokei_shm_copied(const yoke_comm *comm, int r, size_t *bytes_out);
/** Where the i-th page that nothing uses (YOKEI_GAP_BYTES) lies in this memory. 0: there are no more. */
size_t yokei_shm_gap_at(const yoke_comm *comm, int i);
/**
 * For yoke_comm_shrink: a rank's post, and the one word that holds the decision for all ranks. That word is
 * number << 32 | deciding rank + 1.
 */
struct yokei_shrink_post *yokei_shm_shrink_at(const yoke_comm *comm, int r, uint32_t number);
_Atomic uint64_t *yokei_shm_decision_at(const yoke_comm *comm);
/** Wake the ranks that sleep, because the data that they wait for may be there. */
void yokei_shm_ring_all(const yoke_comm *comm);
void yokei_shm_close_fd(yoke_comm *comm); /* call this when all peers have mapped the segment */
void yokei_shm_destroy(yoke_comm *comm);

/**
 * Whether stages are fewer and longer than usual, because ranks share cores and must give each other the
 * core. The answer is the same in all operations of a communicator.
 */
bool yokei_has_wide_stages(const yoke_comm *comm);
/**
 * Bytes of each of the two parts of a lane's stage: the data that a rank publishes to its peers, and the data
 * that it computed.
 */
size_t yokei_stage_bytes(const yoke_comm *comm);

#endif
