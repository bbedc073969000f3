/* SPDX-License-Identifier: Apache-2.0 */
/** Read and write weights and gradients of a trainer as safetensors, with Hugging Face's names. */
#ifndef TRAIN_EXCHANGE_WEIGHTS_FILE_H
#define TRAIN_EXCHANGE_WEIGHTS_FILE_H

#include <yoke/train.h>

#include "train/models/companions.h"

/**
 * Load weights from a safetensors file, an index, a folder with one of these, a checkpoint, or a folder of
 * checkpoints (then the newest one).
 */
yoke_status yokei_weights_load(yoke_trainer *trainer, struct yokei_model model, const char *path);
/**
 * Check that all ranks hold the same weights. Two hosts may have read different files. YOKE_EMISMATCH.
 * Collective.
 */
yoke_status yokei_weights_compare(yoke_trainer *trainer);
/**
 * Write DIR/model.safetensors, config.json and the companion files. Collective if the model is divided. Ranks
 * that write nothing pass NULL as `dir`.
 */
yoke_status yokei_weights_save(yoke_trainer *trainer, struct yokei_model model,
                               const struct yokei_companions *companions, const char *dir);
/**
 * Write one kind of tensor to `path` under the parameters' names. Collective if the model is divided. Ranks
 * that write nothing pass NULL as `path`.
 */
yoke_status yokei_weights_dump(yoke_trainer *trainer, enum yoke_tensor_kind kind, const char *path);

#endif
