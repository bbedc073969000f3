/* SPDX-License-Identifier: Apache-2.0 */
/** The model that --model names. */
#ifndef CLI_TRAIN_PLAN_MODEL_H
#define CLI_TRAIN_PLAN_MODEL_H

#include "train/run/loop.h"

/** Whether --model names a file, and no preset. */
bool cli_is_model_file(const char *name);
/** The model of that name: a preset's name, or the path of a config.json. */
yoke_status cli_plan_model(const char *name, struct yokei_model_config *out);

#endif
