/* SPDX-License-Identifier: Apache-2.0 */
/**
 * GPT-2 as Hugging Face stores it: config.json, and the names and shapes of its tensors.
 */
#ifndef TRAIN_FILES_GPT2_FILES_H
#define TRAIN_FILES_GPT2_FILES_H

#include <yoke/train.h>

#include "train/files/safetensors.h"

/**
 * Read config.json (a file, or a folder that holds it).
 * Refused with YOKE_EDATA (missing, not JSON: line and column) or YOKE_ECONFIG with file, key and reason: no "n_layer"
 * (and the nearest key that is there), out of range, n_embd not a multiple of n_head, and what Yoke does not compute
 * (another model_type or activation_function, n_inner other than 4 n_embd, untied head, scale_attn_weights false,
 * scale_attn_by_inverse_layer_idx, cross attention). Keys that do not change the computation are passed over. A file
 * that is silent of dropout (resid_pdrop, embd_pdrop, attn_pdrop) means 0.1, as with Hugging Face.
 */
yoke_status yokei_gpt2_config_read(const char *path, struct yoke_gpt2_config *config_out);
/** config.json as Yoke means it, one malloc'ed text: the shape, and what must have one value. YOKE_ECONFIG, YOKE_ENOMEM. */
yoke_status yokei_gpt2_config_text(const struct yoke_gpt2_config *config, char **text_out);
/** Write config.json that Hugging Face's GPT2LMHeadModel reads. Errors: YOKE_ECONFIG, YOKE_EIO. */
yoke_status yokei_gpt2_config_write(const char *path, const struct yoke_gpt2_config *config);
/** The tensors of one GPT-2 in Hugging Face's order: wte, wpe, then per layer ln_1 … mlp.c_proj, then ln_f. */
enum { YOKEI_GPT2_TENSORS_PER_LAYER = 12, YOKEI_GPT2_NAME_BYTES = 64 };
struct yokei_gpt2_tensor {
    char name[YOKEI_GPT2_NAME_BYTES]; /* "h.0.attn.c_attn.weight", without "transformer." */
    int n_dims;                       /* 1 or 2 */
    int64_t shape[2];                 /* matrices of Conv1D are [in, out]; wte [V, C], wpe [T, C] */
    bool is_matrix;                   /* a weight of two dimensions: decayed by AdamW */
};
/** 2 + 12 n_layer + 2. */
int64_t yokei_gpt2_n_tensors(const struct yoke_gpt2_config *config);
/** Tensor `index` of that list. YOKE_EINVAL past the end. */
yoke_status yokei_gpt2_tensor(const struct yoke_gpt2_config *config, int64_t index, struct yokei_gpt2_tensor *tensor_out);

/**
 * Find all tensors of a GPT-2 in a file: with or without the prefix "transformer."; found_out [yokei_gpt2_n_tensors].
 * Attention masks (h.N.attn.bias, h.N.attn.masked_bias) are passed over; lm_head.weight must equal wte (it is tied).
 * wpe may be longer than n_positions: its first rows are meant (copy them by yokei_tensor_copy). Everything else must match name by name and shape by shape.
 * Errors: YOKE_EDATA with file, tensors and reasons, all at once (missing with the nearest name, unknown, shape, a type that is no float).
 */
yoke_status yokei_gpt2_find(const struct yokei_safetensors *tensors, const struct yoke_gpt2_config *config,
                            const struct yokei_tensor *found_out[]);

#endif
