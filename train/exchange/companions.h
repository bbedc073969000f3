/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Find the companion files of a model's weights: beside the weights, in a checkpoint, or beside a tokenizer.
 */
#ifndef TRAIN_EXCHANGE_COMPANIONS_H
#define TRAIN_EXCHANGE_COMPANIONS_H

#include "train/models/companions.h"
#include "train/text/bpe.h"

/** Where the companions of a run come from. A NULL source is skipped. */
struct yokei_companion_sources {
    const char *from; /* what the run starts from: a checkpoint, a folder, or a file of weights */
    /* the config.json (or its folder) from which the model is made, if it is not in `from` */
    const char *config;
    /* the tokenizer of the run's text; its files are used instead of those in `from` */
    const struct yokei_bpe *bpe;
    struct yokei_model model;
};
/**
 * Read the companions; the caller calls yokei_companions_free(). A file that does not exist is skipped.
 * Errors: YOKE_EDATA (a file cannot be read), YOKE_ENOMEM.
 */
yoke_status yokei_companions_read(const struct yokei_companion_sources *sources,
                                  struct yokei_companions *out);

#endif
