/* SPDX-License-Identifier: Apache-2.0 */
/** Steps of oneshot.c and slices.c with which other algorithms begin, and that choice.c asks about. */
#ifndef COLLECTIVES_ALGORITHMS_SLICES_H
#define COLLECTIVES_ALGORITHMS_SLICES_H

#include "collectives/algorithms/algorithms.h"

/* ---- slices.c ---- */
/**
 * The first two steps of lane 0, chosen by lane->stage. The first announces, and the second waits for the
 * announcements of this host's ranks.
 */
void yokei_announce_step(const struct yokei_op *op, const struct yokei_lane *lane, struct yokei_step *step);
/** The steps of slices' rounds, once lane->stage has reached n_first. */
bool yokei_slices_round(const struct yokei_op *op, struct yokei_lane *lane, struct yokei_step *step,
                        int n_first);
/**
 * The effort of an operation through shared memory. The ranks synchronise `syncs` times. In a sum a rank
 * copies and adds `summed` bytes.
 */
void yokei_shared_effort(const struct yokei_op *op, struct yokei_effort *effort, double syncs, double summed);

/* ---- oneshot.c ---- */
/** The most bytes that a rank publishes, the same on all ranks. */
size_t yokei_published_bytes(const struct yokei_op *op);
/** The first step, in which the rank announces the call and publishes its data. */
void yokei_publish_step(const struct yokei_op *op, struct yokei_step *step);
/** The data that rank r publishes. */
char *yokei_published_by(const struct yokei_op *op, int r);

#endif
