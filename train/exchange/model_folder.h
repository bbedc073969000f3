/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A folder with a model: config.json, weights and, unless it works on bytes, tokenizer.json, as Hugging Face's programs and `yoke train
 * --export` write it; or a checkpoint of Yoke's, or a folder of them.
 */
#ifndef TRAIN_EXCHANGE_MODEL_FOLDER_H
#define TRAIN_EXCHANGE_MODEL_FOLDER_H

#include <yoke/train.h>

#include "train/files/model_files.h"
#include "train/text/bpe.h"
#include "train/text/text.h"

struct yokei_model_folder {
    char path[4096];
    struct yokei_model_config config;
    int64_t vocab_size, n_positions;
    struct yokei_bpe *bpe;         /* NULL: tokens are bytes, and 256, where there is one, ends a text */
    int32_t stop[YOKEI_MAX_STOPS]; /* tokens that end a text */
    int n_stop;
};
/**
 * Read all but the weights. `tokenizer`: another tokenizer.json or its folder; NULL: the folder's own, if it has one.
 * The tokens that end a text are eos_token_id of generation_config.json or config.json, else the tokenizer's <|endoftext|>, <|end_of_text|>,
 * <|eot_id|> and </s>. Errors: YOKE_EDATA, YOKE_ECONFIG (no tokenizer, and a vocabulary that is not one of bytes; a tokenizer with more ids than the
 * model: both numbers), those of yokei_bpe_open.
 */
yoke_status yokei_model_folder_open(const char *path, const char *tokenizer, struct yokei_model_folder *folder_out);
/** The model, to be filled by yokei_model_folder_load. */
yoke_status yokei_model_folder_model(const struct yokei_model_folder *folder, yoke_model **model_out);
yoke_status yokei_model_folder_load(const struct yokei_model_folder *folder, yoke_trainer *trainer);
/** Frees what is inside. */
void yokei_model_folder_close(struct yokei_model_folder *folder);
/** The configuration that belongs to weights: a checkpoint's, or the config.json in or beside what `path` names. YOKE_EDATA, YOKE_ECONFIG. */
yoke_status yokei_model_config(const char *path, struct yokei_model_config *config_out);
/** Refuse a tokenizer that has more ids than a model's vocabulary, with both numbers. YOKE_ECONFIG. */
yoke_status yokei_model_check_tokenizer(const struct yokei_bpe *bpe, int64_t vocab_size);

#endif
