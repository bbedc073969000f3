/* SPDX-License-Identifier: Apache-2.0 */
/** The fields of struct yoke_gpt2_config in JSON, for files that contain one. */
#ifndef TRAIN_DATA_GPT2_SCHEMA_H
#define TRAIN_DATA_GPT2_SCHEMA_H

#include <jansson.h>

#include "train/data/gpt2_files.h"
#include "train/data/json.h"
#include "train/data/map.h"

extern const struct yokei_json_schema yokei_gpt2_schema;

#endif
