/* SPDX-License-Identifier: Apache-2.0 */
/** The fields of struct yoke_gpt2_config in JSON, for files that contain one. */
#ifndef TRAIN_FILES_GPT2_SCHEMA_H
#define TRAIN_FILES_GPT2_SCHEMA_H

#include <jansson.h>

#include "train/files/config_places.h"
#include "train/files/gpt2_files.h"
#include "train/files/json.h"
#include "train/files/map.h"

extern const struct yokei_json_schema yokei_gpt2_schema;
/** The fields that transformers reads at more than one place. */
extern const struct yokei_config_field yokei_gpt2_places[];

#endif
