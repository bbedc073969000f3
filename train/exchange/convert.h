/* SPDX-License-Identifier: Apache-2.0 */
/** Weights for other programs. */
#ifndef TRAIN_EXCHANGE_CONVERT_H
#define TRAIN_EXCHANGE_CONVERT_H

#include <yoke/base.h>

/**
 * The weights of a checkpoint, or of any folder or file of safetensors beside a config.json, as a folder `out` for Hugging Face's readers:
 * model.safetensors, or as many shards as the source has and an index; config.json, with all that the source's says; generation_config.json and the
 * tokenizer with its files as the source has them. `out` must not exist; it is there whole or
 * not at all. Errors: YOKE_EDATA (the source; or finite numbers that `dtype` cannot hold), YOKE_EINVAL (`out` exists), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_model_convert(const char *path, const char *out, yoke_dtype dtype, bool single_file);

#endif
