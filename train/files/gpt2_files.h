/* SPDX-License-Identifier: Apache-2.0 */
/** GPT-2 in Hugging Face's files: config.json, and the names and shapes of its tensors. */
#ifndef TRAIN_FILES_GPT2_FILES_H
#define TRAIN_FILES_GPT2_FILES_H

#include <yoke/train.h>

#include "train/files/safetensors.h"

/**
 * Read config.json (a file, or a folder that holds it). YOKE_EDATA if it is missing or not JSON (with line
 * and column). YOKE_ECONFIG, with file, key and reason, in these cases:
 *   - there is no "n_layer" (the message has the most similar key);
 *   - a value is out of range, or n_embd is not a multiple of n_head;
 *   - Yoke does not compute it: another model_type or activation_function, n_inner other than 4 n_embd,
 *     untied head, scale_attn_weights false, scale_attn_by_inverse_layer_idx, cross attention.
 * Keys that do not change the computation are ignored. If a file has no key for a dropout (resid_pdrop,
 * embd_pdrop, attn_pdrop), its value is 0.1, as in Hugging Face's programs.
 */
yoke_status yokei_gpt2_config_read(const char *path, struct yoke_gpt2_config *config_out);
/**
 * The config.json that Yoke writes, as one malloc'ed text: the shape, and the keys that must have one value.
 * YOKE_ECONFIG, YOKE_ENOMEM.
 */
yoke_status yokei_gpt2_config_text(const struct yoke_gpt2_config *config, char **text_out);
/**
 * The tensors of one GPT-2 in Hugging Face's order: wte, wpe, then per layer ln_1 … mlp.c_proj, then ln_f.
 */
enum { YOKEI_GPT2_TENSORS_PER_LAYER = 12, YOKEI_GPT2_NAME_BYTES = 64 };
struct yokei_gpt2_tensor {
    char name[YOKEI_GPT2_NAME_BYTES]; /* "h.0.attn.c_attn.weight", without "transformer." */
    int n_dims;                       /* 1 or 2 */
    int64_t shape[2];                 /* matrices of Conv1D are [in, out]; wte [V, C], wpe [T, C] */
    bool is_matrix;                   /* a weight of two dimensions; AdamW applies weight decay to it */
};
/** 2 + 12 n_layer + 2. */
int64_t yokei_gpt2_n_tensors(const struct yoke_gpt2_config *config);
/** Tensor `index` of the list of tensors. YOKE_EINVAL if there is no such tensor. */
yoke_status yokei_gpt2_tensor(const struct yoke_gpt2_config *config, int64_t index,
                              struct yokei_gpt2_tensor *tensor_out);

#endif
