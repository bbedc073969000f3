/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The companion files of a model: everything that a model's folder holds for other programs beside the
 * weights. They are the rest of config.json, generation_config.json, and the tokenizer with its files. A run
 * reads them where its model and its text come from. Each checkpoint keeps them in its own folder. So they
 * are there in every layout, after any number of resumes, and when a checkpoint is moved. Exports and
 * conversions write them again, byte by byte.
 */
#ifndef TRAIN_MODELS_COMPANIONS_H
#define TRAIN_MODELS_COMPANIONS_H

#include "train/models/model_files.h"

enum { YOKEI_MAX_COMPANIONS = 12 };
struct yokei_companions {
    char *config;     /* text of the config.json of the model's source; NULL: none */
    int64_t bos, eos; /* as in struct yokei_config_rest */
    struct {
        const char *name; /* "generation_config.json"; a static string */
        void *data;
        size_t bytes;
    } file[YOKEI_MAX_COMPANIONS];
    int n_files;
};

/** Write config.json and all files into an existing folder. YOKE_ECONFIG, YOKE_EIO, YOKE_ENOMEM. */
yoke_status yokei_companions_write(const struct yokei_companions *c, struct yokei_model model,
                                   yoke_dtype dtype, const char *folder);
void yokei_companions_free(struct yokei_companions *c);

#endif
