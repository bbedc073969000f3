/* SPDX-License-Identifier: Apache-2.0 */
/** Text out of a trained model: tokens drawn one by one behind a prompt, and what they say. */
#ifndef TRAIN_RUN_SAMPLE_H
#define TRAIN_RUN_SAMPLE_H

#include <yoke/train.h>
#include "train/text/bpe.h"
#include "train/text/text.h"

/** How tokens are drawn. */
struct yokei_sampling {
    int64_t n;                     /* at most so many */
    double temperature;            /* and top_k, seed: as yokei_sample_token has them; the first token drawn is at position 0 */
    int64_t top_k;
    uint64_t seed;
    int32_t stop[YOKEI_MAX_STOPS]; /* tokens that end a text: the one that is drawn is not among those that are told */
    int n_stop;
    const struct yokei_bpe *bpe;   /* ids that it does not know are not drawn; NULL: all are */
    void *context;
    yoke_status (*told)(void *context, int32_t token); /* each token as it comes; may be NULL */
};

/**
 * Draw tokens behind `prompt` (at least one). The last `sequence` tokens of the trainer are what the model sees. Where the model is divided,
 * collective: every rank draws the same. out [how->n]; *n_out of them were drawn.
 * Errors: those of yoke_trainer_logits, of yokei_sample_token and of `told`; YOKE_ENOMEM.
 */
yoke_status yokei_sample_draw(yoke_trainer *trainer, const struct yokei_sampling *how, const struct yokei_ids *prompt, int32_t *out, int64_t *n_out);

/** A text's tokens behind those of `ids`: the tokenizer's, or, without one, its bytes. */
yoke_status yokei_sample_encode(struct yokei_bpe *bpe, const char *text, size_t bytes, unsigned flags, struct yokei_ids *ids);
/** The bytes of one token: the tokenizer's, or, without one, itself; NULL where it stands for none. Valid until the next call. */
const unsigned char *yokei_sample_bytes(const struct yokei_bpe *bpe, int32_t token, size_t *bytes_out);

#endif
