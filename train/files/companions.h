/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a model's folder holds beside its weights, for those who read it after Yoke: the rest of config.json, generation_config.json, and the
 * tokenizer with its files. A run takes them from where its model and its text came from; its checkpoints keep them, each in its own
 * folder, so they are there whatever the layout, after any number of resumes, and where a checkpoint is moved; exports and conversions
 * write them again, byte by byte.
 */
#ifndef TRAIN_FILES_COMPANIONS_H
#define TRAIN_FILES_COMPANIONS_H

#include "train/files/model_files.h"

enum { YOKEI_MAX_COMPANIONS = 12 };
struct yokei_companions {
    char *config; /* text of the config.json of the model's source; NULL: none */
    int64_t bos, eos; /* as struct yokei_config_rest has them */
    struct {
        const char *name; /* "generation_config.json"; static */
        void *data;
        size_t bytes;
    } file[YOKEI_MAX_COMPANIONS];
    int n_files;
};

/** Into a folder that is there: config.json, and all files. YOKE_ECONFIG, YOKE_EIO, YOKE_ENOMEM. */
yoke_status yokei_companions_write(const struct yokei_companions *c, struct yokei_model model, yoke_dtype dtype, const char *folder);
void yokei_companions_free(struct yokei_companions *c);

#endif
