/* SPDX-License-Identifier: Apache-2.0 */
/** yoke train: where a run's plan comes from. Each fills t->plan and what goes with it. YOKE_ECONFIG, YOKE_EDATA. */
#ifndef CLI_TRAIN_PLAN_SOURCE_H
#define CLI_TRAIN_PLAN_SOURCE_H

#include <jansson.h>
#include "cli/cli.h"
#include "train/run/loop.h"

/** A model by --model: a preset's name, or the path of a config.json. */
yoke_status cli_plan_model(const char *name, struct yokei_model_config *out);
yoke_status cli_plan_from_options(const struct cli_context *context, struct yokei_training *t);
/** What the running ranks are to choose: --balance and --placement, which planning without ranks does not have. */
void cli_plan_choices(const struct cli_context *context, struct yokei_plan *plan);
yoke_status cli_plan_from_file(const struct cli_context *context, const char *path, struct yokei_training *t);
/** The checkpoint that `path` means; its folder goes to `folder`, which t->resume points to from then on. */
yoke_status cli_plan_from_checkpoint(const struct cli_context *context, const char *path, char *folder, size_t bytes, struct yokei_training *t);
/** A rank's memory by part, in bytes. A new object. */
json_t *cli_memory_json(const struct yoke_memory_report *report);

#endif
