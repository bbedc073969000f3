/* SPDX-License-Identifier: Apache-2.0 */
/** Messages and announcements through memory that ranks of one host share. */
#ifndef COLLECTIVES_SHM_H
#define COLLECTIVES_SHM_H

#include "collectives/comm.h"

/* ---- transport/shm.c ---- */
/** Where what lies in a segment of a communicator with room for so many ranks. */
struct yokei_layout yokei_shm_layout(int room, size_t chunk_bytes);
yoke_status yokei_shm_create(yoke_comm *comm);                 /* this rank's segment, and its descriptor */
bool yokei_shm_map(yoke_comm *comm, int peer);                 /* a peer's segment, by its process's descriptor */
/** Sleep until a peer gives this rank a message or a free slot: begin, look once more, end (ns 0: do not sleep). */
uint32_t yokei_shm_sleep_begin(yoke_comm *comm);
void yokei_shm_sleep_end(yoke_comm *comm, uint32_t rung, uint64_t ns);
/** Tell a peer that this communicator has failed; false when they share no slots. */
bool yokei_shm_alarm(yoke_comm *comm, int peer, const struct yokei_control *message);
/** What a peer has told so; NULL: nothing. */
const struct yokei_control *yokei_shm_alarmed(const yoke_comm *comm);
/** Places in the segment of rank r, this one included. Stages: `part` 0 is what it shows, 1 what it computed. */
struct yokei_post *yokei_shm_post_at(const yoke_comm *comm, int r, uint32_t number);
_Atomic uint32_t *yokei_shm_counter_at(const yoke_comm *comm, int r, const struct yokei_lane *lane, enum yokei_counter counter, uint32_t until);
char *yokei_shm_oneshot_at(const yoke_comm *comm, int r, uint32_t number);
char *yokei_shm_stage_at(const yoke_comm *comm, int r, const struct yokei_lane *lane, int part);
/** Of yoke_comm_shrink: a rank's word, and the one place where all read what was decided: number << 32 | deciding rank + 1. */
struct yokei_shrink_post *yokei_shm_shrink_at(const yoke_comm *comm, int r, uint32_t number);
_Atomic uint64_t *yokei_shm_decision_at(const yoke_comm *comm);
/** Wake the ranks that sleep: what they wait for may be there. */
void yokei_shm_ring_all(const yoke_comm *comm);
void yokei_shm_close_fd(yoke_comm *comm);                      /* all peers have mapped it */
void yokei_shm_destroy(yoke_comm *comm);

/* ---- check.c: announcements ---- */
/** The same by its announcement of a collective through shared memory. */
yoke_status yokei_check_post(yoke_comm *comm, const struct yokei_op *op, int other);
/** This rank's own, filled in but for what the algorithm adds. */
struct yokei_post *yokei_announce(const struct yokei_op *op);

/* ---- algorithms/slices.c and algorithms/oneshot.c: steps that other algorithms begin with ---- */
/** slices.c: step lane->stage of the first two of lane 0, which announce and look at the announcements of this host's ranks. */
void yokei_announce_step(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step);
/** The steps of its rounds, once lane->stage has come to n_first. */
bool yokei_slices_round(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step, int n_first);
/** oneshot.c: bytes that a rank shows at most, the same on all ranks; its first step, in which it announces and shows. */
size_t yokei_shown_bytes(const struct yokei_op *op);
void yokei_show_step(const struct yokei_op *op, struct yokei_step *step);
char *yokei_shown_by(const struct yokei_op *op, int r);

#endif
