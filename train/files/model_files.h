/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The models that a run can have, whichever it is: configuration by name or from Hugging Face's config.json, and its tensors in files.
 * To add one: a case in each function of model_files.c, and a member here and in the plan.
 */
#ifndef TRAIN_FILES_MODEL_FILES_H
#define TRAIN_FILES_MODEL_FILES_H

#include "train/files/gpt2_files.h"
#include "train/files/llama_files.h"

/** A model's configuration: one of them, the other NULL. */
struct yokei_model {
    const struct yoke_gpt2_config *gpt2;
    const struct yoke_llama_config *llama;
};
/** The same by value: of the one that is not there, size is 0. */
struct yokei_model_config {
    struct yoke_gpt2_config gpt2;
    struct yoke_llama_config llama;
};
static inline struct yokei_model yokei_model_of(const struct yoke_gpt2_config *gpt2, const struct yoke_llama_config *llama)
{
    return llama && llama->size ? (struct yokei_model){ NULL, llama } : (struct yokei_model){ gpt2, NULL };
}

/** "llama-nano", "nano", …: a model by name. YOKE_ECONFIG lists them. */
yoke_status yokei_model_named(const char *name, struct yokei_model_config *config_out);
/** config.json, or a folder that holds it; its model_type says of which model (none: GPT-2). Errors as of yokei_gpt2_config_read. */
yoke_status yokei_model_read(const char *path, struct yokei_model_config *config_out);
/**
 * What config.json says beside the shape. `source`: the config.json that the model came from, whose keys are kept as they are, but for
 * those that Yoke computes by and the weights' type; NULL: none. bos and eos: the ids of the first and the last token of a text, written
 * where the source does not have them; -1 as null, so that readers do not assume those of another vocabulary; -2: left out.
 */
struct yokei_config_rest {
    const char *source;
    yoke_dtype dtype; /* of the weights beside it: f32, bf16, f16 */
    int64_t bos, eos;
};
/** config.json that Hugging Face's programs read, as one malloc'ed text. YOKE_ECONFIG, YOKE_EDATA (the source is no JSON), YOKE_ENOMEM. */
yoke_status yokei_model_config_text(struct yokei_model model, const struct yokei_config_rest *rest, char **text_out);
/** The same into a file, without a source: f32, ids left out. */
yoke_status yokei_model_write(const char *path, struct yokei_model model);
yoke_status yokei_model_check(struct yokei_model model);
yoke_status yokei_model_create(struct yokei_model model, yoke_model **model_out);
int64_t yokei_model_positions(struct yokei_model model);
int64_t yokei_model_vocabulary(struct yokei_model model);
/** Query heads. */
int64_t yokei_model_heads(struct yokei_model model);
/** What a training step needs per token: 6 for each element of a matrix, and 12 times the channels of all heads per layer and position. */
double yokei_model_flops(struct yokei_model model, int64_t sequence);
/** In words: "GPT-2: 2 layers, 4 heads, 64 channels, 64 positions, 256 tokens". */
void yokei_model_describe(struct yokei_model model, char *text, size_t bytes);

/** Its tensors in Hugging Face's order. */
int64_t yokei_model_n_tensors(struct yokei_model model);
yoke_status yokei_model_tensor(struct yokei_model model, int64_t index, struct yokei_gpt2_tensor *tensor_out);
/**
 * Find all of them in a file; found_out [yokei_model_n_tensors]. Of a GPT-2 as yokei_gpt2_find; of a Llama tables of angles
 * (….rotary_emb.inv_freq) are passed over, and where the head is tied, an lm_head.weight must equal the embedding.
 * Errors: YOKE_EDATA with file, tensors and reasons, all at once.
 */
yoke_status yokei_model_find(const struct yokei_safetensors *tensors, struct yokei_model model, const struct yokei_tensor *found_out[]);

#endif
