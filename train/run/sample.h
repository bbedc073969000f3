/* SPDX-License-Identifier: Apache-2.0 */
/** Generate text with a trained model: tokens are drawn one by one after a prompt and converted to bytes. */
#ifndef TRAIN_RUN_SAMPLE_H
#define TRAIN_RUN_SAMPLE_H

#include <yoke/train.h>
#include "train/text/bpe.h"
#include "train/text/text.h"

/** How tokens are drawn. */
struct yokei_sampling {
    int64_t n; /* the most tokens to draw */
    /* temperature, top_k and seed are as in yokei_sample_token; the first drawn token has position 0 */
    double temperature;
    int64_t top_k;
    uint64_t seed;
    int32_t stop[YOKEI_MAX_STOPS]; /* tokens that end a text; such a token is not reported to `report` */
    int n_stop;
    /* ids that the tokenizer does not know are not drawn; NULL: all ids may be drawn */
    const struct yokei_bpe *bpe;
    void *context;
    /* called with each token as it is drawn; may be NULL */
    yoke_status (*report)(void *context, int32_t token);
};

/**
 * Draw tokens after `prompt`, which has at least one token. The model sees the last tokens, as many as the
 * trainer's `sequence`. If the model is divided, this is collective, and every rank draws the same tokens.
 * out [how->n] gets the tokens, and *n_out is their number. Errors: those of yoke_trainer_logits, of
 * yokei_sample_token and of `report`; YOKE_ENOMEM.
 */
yoke_status yokei_sample_draw(yoke_trainer *trainer, const struct yokei_sampling *how,
                              const struct yokei_ids *prompt, int32_t *out, int64_t *n_out);

/** Append a text's tokens to `ids`. They are the tokenizer's tokens, or without a tokenizer the bytes. */
yoke_status yokei_sample_encode(struct yokei_bpe *bpe, const char *text, size_t bytes, unsigned flags,
                                struct yokei_ids *ids);
/**
 * The bytes of one token, by the tokenizer. Without a tokenizer the token is itself the byte. NULL if the
 * token stands for no bytes. Valid until the next call.
 */
const unsigned char *yokei_sample_bytes(const struct yokei_bpe *bpe, int32_t token, size_t *bytes_out);

#endif
