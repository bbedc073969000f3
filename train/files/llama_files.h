/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Llama as Hugging Face stores it: config.json, and the names and shapes of its tensors.
 */
#ifndef TRAIN_FILES_LLAMA_FILES_H
#define TRAIN_FILES_LLAMA_FILES_H

#include <yoke/train.h>

#include "train/files/gpt2_files.h"
#include "train/files/json.h"

/** The fields of struct yoke_llama_config in JSON, for files that contain one. */
extern const struct yokei_json_schema yokei_llama_schema;

/**
 * Read config.json (a file, or a folder that holds it).
 * Refused with YOKE_EDATA (missing, not JSON: line and column) or YOKE_ECONFIG with file, key and reason: a missing size, out of range,
 * and what Yoke does not compute (another model_type or hidden_act, attention_bias, mlp_bias, rope_scaling or a rope_type that is not
 * "default"). Keys that do not change the computation are passed over.
 */
yoke_status yokei_llama_config_read(const char *path, struct yoke_llama_config *config_out);
/** config.json as Yoke means it, one malloc'ed text: the shape, and what must have one value. YOKE_ECONFIG, YOKE_ENOMEM. */
yoke_status yokei_llama_config_text(const struct yoke_llama_config *config, char **text_out);

/** The embedding, per layer nine, the last norm, and the head where it is not tied. */
int64_t yokei_llama_n_tensors(const struct yoke_llama_config *config);
/** Tensor `index` of that list, as of GPT-2. YOKE_EINVAL past the end. */
yoke_status yokei_llama_tensor(const struct yoke_llama_config *config, int64_t index, struct yokei_gpt2_tensor *tensor_out);

#endif
