/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The plan of a run of yoke train, from options, from a file or from a checkpoint. Each function fills
 * t->plan and the fields that belong to it.
 * Errors: YOKE_ECONFIG, YOKE_EDATA.
 */
#ifndef CLI_TRAIN_PLAN_SOURCE_H
#define CLI_TRAIN_PLAN_SOURCE_H

#include <jansson.h>
#include "cli/cli.h"
#include "cli/options/json_values.h"
#include "train/run/loop.h"

/** Of a batch or a precision with several values the plan gets the first one. */
yoke_status cli_plan_from_options(const struct cli_context *context, struct yokei_training *t);
/** Set the precision by the word of --precision. plan.json says fp32 and fp16. */
void cli_plan_set_precision(struct yokei_plan *plan, const char *word);
/**
 * The choices that the running ranks make: --balance and --placement. Planning without ranks does not have
 * these options.
 */
void cli_plan_choices(const struct cli_context *context, struct yokei_plan *plan);
yoke_status cli_plan_from_file(const struct cli_context *context, const char *path, struct yokei_training *t);
/**
 * Use the checkpoint that `path` means. The checkpoint's folder is written to `folder`, and t->resume points
 * to `folder` from then on.
 */
yoke_status cli_plan_from_checkpoint(const struct cli_context *context, const char *path, char *folder,
                                     size_t bytes, struct yokei_training *t);
/**
 * The plan that yoke plan makes of a configuration file, with the memory of its ranks. `why_out` gets the
 * reason why the run does not fit into memory; "": it fits. The caller frees the plan with yokei_plan_free().
 */
yoke_status cli_plan_of_config(const char *path, struct yokei_plan *plan_out, char *why_out, size_t bytes);
/** A rank's memory by part, in bytes. Returns a new object. */
json_t *cli_memory_json(const struct yoke_memory_report *report);

#endif
