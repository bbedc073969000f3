/* SPDX-License-Identifier: Apache-2.0 */
/** How a rank spends the time of a step: one division for everything that shows or judges it. */
#ifndef TRAIN_RUN_STEP_PARTS_H
#define TRAIN_RUN_STEP_PARTS_H

#include "train/run/metrics.h"

/** The parts: P(id, name, words). */
#define YOKEI_STEP_PARTS(P)                                                                            \
    P(COMPUTE, "compute", "the passes of the rank")                                                    \
    P(EXPOSED, "exposed communication", "messages and sums that computing does not hide, on any rank") \
    P(BUBBLE, "bubble", "idle between the passes of a pipeline, also for its messages")                \
    P(WAIT, "wait", "waiting for slower ranks")                                                        \
    P(DATA, "data", "reading the step's tokens")                                                       \
    P(CHECKPOINT, "checkpoint", "saving after the step before")                                        \
    P(OTHER, "other", "all else: the optimizer, validation, the agreement of the ranks")
#define YOKEI_STEP_PART_ID(id, name, words) YOKEI_STEP_##id,
enum yokei_step_part { YOKEI_STEP_PARTS(YOKEI_STEP_PART_ID) YOKEI_N_STEP_PARTS };
#undef YOKEI_STEP_PART_ID

/** The names and the words of the parts. */
extern const char *const yokei_step_part_names[YOKEI_N_STEP_PARTS];
extern const char *const yokei_step_part_words[YOKEI_N_STEP_PARTS];

/**
 * Divide `seconds` of rank `rank` into parts_out. `seconds` is the time from the row before to this row, so
 * it includes a save after the step before, and a validation after this step. The parts are at least 0, and
 * their sum is `seconds`. If the measured values are longer than `seconds`, the later parts are cut. A value
 * that is unknown counts as 0, so its time is in YOKEI_STEP_OTHER.
 *
 * With a pipeline, the bubble is the time in which the rank was idle between its first and its last pass, as
 * the row's `bubble` says. The rest of the exposed communication is divided. The rank that has the least of
 * this rest shows the cost of the network. This cost is the exposed communication of each rank. The time that
 * a rank has beyond it is waiting.
 *
 * False: `seconds` is not a positive number, so there are no parts.
 */
bool yokei_step_divide(double seconds, const struct yokei_metrics_row *row, int64_t rank, bool has_pipeline,
                       double parts_out[YOKEI_N_STEP_PARTS]);
/**
 * The same for all ranks of a row, in one pass: parts_out is [row->n_ranks]. yokei_step_divide looks at all
 * ranks to divide the time of one rank, so a caller that wants all ranks calls this function.
 * False: there are no parts, and parts_out is unchanged.
 */
bool yokei_step_divide_row(double seconds, const struct yokei_metrics_row *row, bool has_pipeline,
                           double (*parts_out)[YOKEI_N_STEP_PARTS]);

#endif
