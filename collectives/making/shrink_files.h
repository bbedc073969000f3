/* SPDX-License-Identifier: Apache-2.0 */
/** yoke_comm_shrink by files, between ranks that do not all share memory: shrink_files.c. */
#ifndef COLLECTIVES_MAKING_SHRINK_FILES_H
#define COLLECTIVES_MAKING_SHRINK_FILES_H

#include "collectives/ground/comm.h"

/**
 * Whether this rank can read the records of all other ranks, which means that they share a run directory. The
 * lock is held.
 */
bool yokei_shrink_has_folder(yoke_comm *comm);
/** Write this rank's post for the other ranks to read, once for each shrink number. YOKE_EIO. */
yoke_status yokei_shrink_write(const yoke_comm *comm, const struct yokei_shrink_post *post);
/** Read the post of rank r. If rank r has written it, post_out->number is `number`. */
bool yokei_shrink_read(const yoke_comm *comm, int r, uint32_t number, struct yokei_shrink_post *post_out);
/**
 * Propose posts[0..size) as the decision. This rank's own post says which ranks are left out. The proposal
 * becomes the decision if there is none yet. YOKE_EIO.
 */
yoke_status yokei_shrink_propose(const yoke_comm *comm, uint32_t number,
                                 const struct yokei_shrink_post posts[]);
/**
 * Read the decision, if there is one: posts_out[0..size) as the deciding rank saw them, and the number of
 * that rank.
 */
bool yokei_shrink_decided(const yoke_comm *comm, uint32_t number, struct yokei_shrink_post posts_out[],
                          int *winner_out);

#endif
