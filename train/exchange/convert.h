/* SPDX-License-Identifier: Apache-2.0 */
/** Export of weights for other programs. */
#ifndef TRAIN_EXCHANGE_CONVERT_H
#define TRAIN_EXCHANGE_CONVERT_H

#include <yoke/base.h>

/**
 * Convert the weights of a checkpoint into a folder `out` that Hugging Face's programs read. The source may
 * also be any folder or file of safetensors beside a config.json. `out` gets:
 *   - model.safetensors, or an index and as many shards as the source has;
 *   - config.json with all keys of the source's config.json;
 *   - generation_config.json and the tokenizer with its files, as the source has them.
 * `out` must not exist before. Afterwards it is complete or not there. Errors: YOKE_EDATA (the source, or
 * finite numbers that `dtype` cannot hold), YOKE_EINVAL (`out` exists), YOKE_EIO, YOKE_ENOMEM.
 */
yoke_status yokei_model_convert(const char *path, const char *out, yoke_dtype dtype, bool single_file);

#endif
