/* SPDX-License-Identifier: Apache-2.0 */
/** Where the files that go with a model's weights are found: beside the weights, in a checkpoint, beside a tokenizer. */
#ifndef TRAIN_EXCHANGE_COMPANIONS_H
#define TRAIN_EXCHANGE_COMPANIONS_H

#include "train/files/companions.h"
#include "train/text/bpe.h"

/** Where a run's come from; a NULL is left out. */
struct yokei_companion_sources {
    const char *from;             /* what the run begins with: a checkpoint, a folder or a file of weights */
    const char *config;           /* the config.json (or its folder) that the model is made by, where that is not in `from` */
    const struct yokei_bpe *bpe;  /* the tokenizer of the run's text: its files count, not those of `from` */
    struct yokei_model model;
};
/** Read them; yokei_companions_free() them. A file that is not there is left out. Errors: YOKE_EDATA (cannot be read), YOKE_ENOMEM. */
yoke_status yokei_companions_read(const struct yokei_companion_sources *sources, struct yokei_companions *out);

#endif
