/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A folder with a model. It holds config.json, weights and, unless the tokens are bytes, tokenizer.json.
 * Hugging Face's programs and `yoke train --export` write such folders. The folder may also be a checkpoint
 * of Yoke's, or a folder of checkpoints.
 */
#ifndef TRAIN_EXCHANGE_MODEL_FOLDER_H
#define TRAIN_EXCHANGE_MODEL_FOLDER_H

#include <yoke/train.h>

#include "train/models/model_files.h"
#include "train/text/bpe.h"
#include "train/text/text.h"

struct yokei_model_folder {
    char path[4096];
    struct yokei_model_config config;
    int64_t vocab_size, n_positions;
    struct yokei_bpe *bpe; /* NULL: tokens are bytes, and token 256 ends a text if the vocabulary has it */
    int32_t stop[YOKEI_MAX_STOPS]; /* tokens that end a text */
    int n_stop;
};
/**
 * Read everything except the weights. `tokenizer` is another tokenizer.json or its folder; NULL means the
 * folder's own tokenizer, if it has one. The tokens that end a text are eos_token_id of
 * generation_config.json, where null or no such key means none. Without this file they are eos_token_id of
 * config.json, where null means none. If config.json does not have the key either, they are the tokenizer's
 * <|endoftext|>, <|end_of_text|>, <|eot_id|> and </s>. Errors: YOKE_EDATA, YOKE_ECONFIG (there is no
 * tokenizer, and the vocabulary is not one of bytes; or the tokenizer has more ids than the model, and the
 * message has both numbers), those of yokei_bpe_open.
 */
yoke_status yokei_model_folder_open(const char *path, const char *tokenizer,
                                    struct yokei_model_folder *folder_out);
/** Create the model. Its weights are not set; yokei_model_folder_load sets them. */
yoke_status yokei_model_folder_model(const struct yokei_model_folder *folder, yoke_model **model_out);
yoke_status yokei_model_folder_load(const struct yokei_model_folder *folder, yoke_trainer *trainer);
/** Free the members of `folder`, not `folder` itself. */
void yokei_model_folder_close(struct yokei_model_folder *folder);
/**
 * The configuration that belongs to weights. It is the checkpoint's, or the config.json in or beside `path`.
 * YOKE_EDATA, YOKE_ECONFIG.
 */
yoke_status yokei_model_config(const char *path, struct yokei_model_config *config_out);
/**
 * Refuse a tokenizer that has more ids than the model's vocabulary. The message has both numbers.
 * YOKE_ECONFIG.
 */
yoke_status yokei_model_check_tokenizer(const struct yokei_bpe *bpe, int64_t vocab_size);

#endif
