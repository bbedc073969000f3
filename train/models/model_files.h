/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A model of any kind: the configuration by name or from Hugging Face's config.json, and the tensors in
 * files. What differs by the kind stands in kind.h and in the kind's file.
 */
#ifndef TRAIN_MODELS_MODEL_FILES_H
#define TRAIN_MODELS_MODEL_FILES_H

#include "train/files/safetensors.h"
#include "train/models/kind.h"

/** The configuration of a model, and the row of its kind. */
struct yokei_model {
    const struct yokei_model_row *row;
    const void *config;
};
/**
 * The same by value, with a member for each kind, such as `gpt2`. One of them is set. The others have size 0.
 */
#define YOKEI_MODEL_MEMBER(id, config, ...) struct config id;
struct yokei_model_config {
    YOKEI_MODEL_KINDS(YOKEI_MODEL_MEMBER)
};
#undef YOKEI_MODEL_MEMBER
/** The number of configurations that are set. */
int yokei_model_n_set(const struct yokei_model_config *config);
/** The model whose configuration is set; the first kind if none is. It points into `config`. */
struct yokei_model yokei_model_of(const struct yokei_model_config *config);
/** A model of this kind. `config` is the struct of its configuration. */
struct yokei_model yokei_model_as(const struct yokei_model_kind *kind, const void *config);

/**
 * A model by name: "llama-nano", "nano", … For an unknown name, YOKE_ECONFIG lists the names of all kinds.
 */
yoke_status yokei_model_named(const char *name, struct yokei_model_config *config_out);
/**
 * Read config.json (a file, or a folder that holds it). Its model_type decides the kind (none: GPT-2). Errors
 * are those of the kind's `read`; YOKE_ECONFIG for another model_type.
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
/**
 * The longest sequence that the model computes. *key_out, if not NULL, is the key in config.json that says
 * so.
 */
int64_t yokei_model_longest(struct yokei_model model, const char **key_out);
/** Whether a sliding window is what bounds yokei_model_longest(). Yoke computes no such window. */
bool yokei_model_is_cut(struct yokei_model model);
int64_t yokei_model_vocabulary(struct yokei_model model);
/** The number of query heads. */
int64_t yokei_model_heads(struct yokei_model model);
int64_t yokei_model_n_layers(struct yokei_model model);
/** Change the number of layers, or all dropouts. */
void yokei_model_set_layers(struct yokei_model_config *config, int64_t n_layers);
void yokei_model_set_dropout(struct yokei_model_config *config, double p);
/** Dropout `index` of the model, and where it is, such as "attention". False: there are no more. */
bool yokei_model_dropout(struct yokei_model model, int index, double *p_out, const char **where_out);
/**
 * Operations of a training step per token: 6 for each element of a matrix, plus 12 times the channels of all
 * heads per layer and position.
 */
double yokei_model_flops(struct yokei_model model, int64_t sequence);
/** Describe the model in words: "GPT-2: 2 layers, 4 heads, 64 channels, 64 positions, 256 tokens". */
void yokei_model_describe(struct yokei_model model, char *text, size_t bytes);

/**
 * The model's weights, in the order in which its layers have them. YOKE_EINVAL if there is no such weight.
 */
int64_t yokei_model_n_tensors(struct yokei_model model);
yoke_status yokei_model_tensor(struct yokei_model model, int64_t index, struct yokei_weight *tensor_out);
/**
 * Find all tensors of a model in a file; found_out is [yokei_model_n_tensors]. If the head is tied, an
 * lm_head.weight must equal the embedding. Everything else must match in name and shape, except where the
 * kind allows more (`prefix`, `may_be_longer` and `is_table` of kind.h). Of a tensor that is longer only its
 * first rows count (copy them with yokei_tensor_copy). Errors: YOKE_EDATA lists all problems at once with
 * file, tensors and reasons (missing, with the most similar name; unknown; wrong shape; a type that is not a
 * float type).
 */
yoke_status yokei_model_find(const struct yokei_safetensors *tensors, struct yokei_model model,
                             const struct yokei_tensor *found_out[]);

#endif
