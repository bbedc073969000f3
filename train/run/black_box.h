/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The black box of a run: each rank notes its steps in a file of the run directory (train/blackbox/box.h).
 * All functions do nothing without a run directory, and with black_box_every 0.
 */
#ifndef TRAIN_RUN_BLACK_BOX_H
#define TRAIN_RUN_BLACK_BOX_H

#include "train/blackbox/box.h"
#include "train/run/loop.h"

/**
 * Make this rank's file. A step has run, so the device's choices are known. If the file cannot be made, the
 * log says so, and the run goes on without it. YOKE_ENOMEM.
 */
yoke_status yokei_run_box_begin(struct yokei_run_state *s);
/** A step begins. The batch is read, and s->next_sample is its first sample. */
void yokei_run_box_step(struct yokei_run_state *s, int64_t step);
/**
 * The optimizer has stepped, or has not because of an overflow. After an overflow this function may repeat
 * the passes of the step, to find where the overflow began. Collective. Errors: those of a step.
 */
yoke_status yokei_run_box_applied(struct yokei_run_state *s, const struct yoke_step_result *step);
/** Write the record of a step, and whether an audit after it failed. */
void yokei_run_box_note(struct yokei_run_state *s, const struct yoke_step_result *step, double rate,
                        yoke_status audited);
/**
 * Write how the run ended, and the record of a step that did not end. After YOKE_ENUMERIC this is collective,
 * because the passes of the step are repeated. The last error of the thread stays.
 */
void yokei_run_box_end(struct yokei_run_state *s, yoke_status status);

#endif
