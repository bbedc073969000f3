/* SPDX-License-Identifier: Apache-2.0 */
/**
 * All models that a run can have, behind one interface: the configuration by name or from Hugging Face's
 * config.json, and the tensors in files. To add a model, add a case to each function of model_files.c, a
 * member here, and a member to the plan.
 */
#ifndef TRAIN_FILES_MODEL_FILES_H
#define TRAIN_FILES_MODEL_FILES_H

#include "train/files/gpt2_files.h"
#include "train/files/llama_files.h"

/** The configuration of a model. One pointer is set, the other is NULL. */
struct yokei_model {
    const struct yoke_gpt2_config *gpt2;
    const struct yoke_llama_config *llama;
};
/** The same by value. The configuration that is not used has size 0. */
struct yokei_model_config {
    struct yoke_gpt2_config gpt2;
    struct yoke_llama_config llama;
};
static inline struct yokei_model yokei_model_of(const struct yoke_gpt2_config *gpt2,
                                                const struct yoke_llama_config *llama)
{
    return llama && llama->size ? (struct yokei_model){ NULL, llama } : (struct yokei_model){ gpt2, NULL };
}

/** A model by name: "llama-nano", "nano", … For an unknown name, YOKE_ECONFIG lists the names. */
yoke_status yokei_model_named(const char *name, struct yokei_model_config *config_out);
/**
 * Read config.json (a file, or a folder that holds it). Its model_type decides the model (none: GPT-2).
 * Errors are as in yokei_gpt2_config_read.
 */
yoke_status yokei_model_read(const char *path, struct yokei_model_config *config_out);
/**
 * The keys of config.json beside the shape. `source` is the text of the config.json that the model came from;
 * NULL: none. Its keys are kept, except for the keys that Yoke's computation uses and the type of the
 * weights. bos and eos are the ids of the first and the last token of a text. They are written if the source
 * does not have them. -1 is written as null, so that readers do not assume ids of another vocabulary. -2 is
 * not written.
 */
struct yokei_config_rest {
    const char *source;
    yoke_dtype dtype; /* type of the weights beside config.json: f32, bf16 or f16 */
    int64_t bos, eos;
};
/**
 * The config.json that Hugging Face's programs read, as one malloc'ed text. YOKE_ECONFIG, YOKE_EDATA (the
 * source is not JSON), YOKE_ENOMEM.
 */
yoke_status yokei_model_config_text(struct yokei_model model, const struct yokei_config_rest *rest,
                                    char **text_out);
yoke_status yokei_model_check(struct yokei_model model);
yoke_status yokei_model_create(struct yokei_model model, yoke_model **model_out);
int64_t yokei_model_positions(struct yokei_model model);
int64_t yokei_model_vocabulary(struct yokei_model model);
/** The number of query heads. */
int64_t yokei_model_heads(struct yokei_model model);
/**
 * Operations of a training step per token: 6 for each element of a matrix, plus 12 times the channels of all
 * heads per layer and position.
 */
double yokei_model_flops(struct yokei_model model, int64_t sequence);
/** Describe the model in words: "GPT-2: 2 layers, 4 heads, 64 channels, 64 positions, 256 tokens". */
void yokei_model_describe(struct yokei_model model, char *text, size_t bytes);

/** The model's tensors in Hugging Face's order. */
int64_t yokei_model_n_tensors(struct yokei_model model);
yoke_status yokei_model_tensor(struct yokei_model model, int64_t index, struct yokei_gpt2_tensor *tensor_out);
/**
 * Find all tensors of a model in a file; found_out is [yokei_model_n_tensors]. If the head is tied, an
 * lm_head.weight must equal the embedding. Everything else must match in name and shape, except:
 * - A GPT-2's names may have the prefix "transformer.". Its attention masks (h.N.attn.bias,
 *   h.N.attn.masked_bias) are ignored. wpe may be longer than n_positions; then only its first rows count
 *   (copy them with yokei_tensor_copy).
 * - A Llama's tables of angles (….rotary_emb.inv_freq) are ignored.
 * Errors: YOKE_EDATA lists all problems at once with file, tensors and reasons (missing, with the most
 * similar name; unknown; wrong shape; a type that is not a float type).
 */
yoke_status yokei_model_find(const struct yokei_safetensors *tensors, struct yokei_model model,
                             const struct yokei_tensor *found_out[]);

#endif
