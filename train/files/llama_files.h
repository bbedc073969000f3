/* SPDX-License-Identifier: Apache-2.0 */
/** Llama in Hugging Face's files: config.json, and the names and shapes of its tensors. */
#ifndef TRAIN_FILES_LLAMA_FILES_H
#define TRAIN_FILES_LLAMA_FILES_H

#include <yoke/train.h>

#include "train/files/config_places.h"
#include "train/files/gpt2_files.h"
#include "train/files/json.h"

/** The fields of struct yoke_llama_config in JSON, for files that contain one. */
extern const struct yokei_json_schema yokei_llama_schema;
/** The fields that transformers reads at more than one place. */
extern const struct yokei_config_field yokei_llama_places[];

/**
 * Read config.json (a file, or a folder that holds it). YOKE_EDATA if it is missing or not JSON (with line
 * and column). YOKE_ECONFIG, with file, key and reason, in these cases:
 *   - a size is missing or out of range;
 *   - Yoke does not compute it: another model_type or hidden_act, attention_bias, mlp_bias, a
 *     partial_rotary_factor that is not 1, or a rope_type that is not "default" (a missing one is);
 *   - the file says a value at two places, and versions 4 and 5 of transformers use different ones.
 * Keys that do not change the computation are ignored.
 */
yoke_status yokei_llama_config_read(const char *path, struct yoke_llama_config *config_out);
/**
 * The config.json that Yoke writes, as one malloc'ed text: the shape, and the keys that must have one value.
 * YOKE_ECONFIG, YOKE_ENOMEM.
 */
yoke_status yokei_llama_config_text(const struct yoke_llama_config *config, char **text_out);

/** The number of tensors: the embedding, nine per layer, the last norm, and the head if it is not tied. */
int64_t yokei_llama_n_tensors(const struct yoke_llama_config *config);
/** Tensor `index` of this list, as in yokei_gpt2_tensor. YOKE_EINVAL if there is no such tensor. */
yoke_status yokei_llama_tensor(const struct yoke_llama_config *config, int64_t index,
                               struct yokei_gpt2_tensor *tensor_out);

#endif
