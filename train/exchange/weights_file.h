/* SPDX-License-Identifier: Apache-2.0 */
/** Weights and gradients of a trainer in safetensors, under Hugging Face's names. */
#ifndef TRAIN_EXCHANGE_WEIGHTS_FILE_H
#define TRAIN_EXCHANGE_WEIGHTS_FILE_H

#include <yoke/train.h>

#include "train/files/companions.h"

/** From a file of safetensors, an index, a folder with one of them, a checkpoint, or a folder of checkpoints (the newest). */
yoke_status yokei_weights_load(yoke_trainer *trainer, struct yokei_model model, const char *path);
/** All ranks hold the same weights, or YOKE_EMISMATCH: two hosts may have read different files. Collective. */
yoke_status yokei_weights_compare(yoke_trainer *trainer);
/** DIR/model.safetensors, config.json and what else goes with the model. Where the model is divided, collective; ranks that write nothing give NULL. */
yoke_status yokei_weights_save(yoke_trainer *trainer, struct yokei_model model, const struct yokei_companions *companions, const char *dir);
/** One kind of tensor under the parameters' names; the same. */
yoke_status yokei_weights_dump(yoke_trainer *trainer, enum yoke_tensor_kind kind, const char *path);

#endif
