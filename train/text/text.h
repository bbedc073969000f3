/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sampling helpers: the choice of the next token, and the share of a sample's words that occur in the corpus.
 */
#ifndef TRAIN_TEXT_TEXT_H
#define TRAIN_TEXT_TEXT_H

#include "train/text/tokens.h"

enum { YOKEI_MAX_STOPS = 16 }; /* tokens that end a text */

/**
 * Choose the next token.
 * Maths:  temperature 0: the largest logit, the lowest index among equals. Else p(v) proportional to
 *         exp((logits[v] - max) / temperature) over the top_k largest logits (0: all; of equals the lower
 *         index is kept), in f64; u = uniform of Philox (seed, "sample") at `position`; the first v in
 * ascending order whose cumulative p exceeds u. Errors: YOKE_EINVAL (V < 1, temperature < 0 or not finite,
 * top_k < 0), YOKE_ENUMERIC (NaN or +infinity in logits, or all -infinity), YOKE_ENOMEM
 */
yoke_status yokei_sample_token(const float *logits, int64_t V, double temperature, int64_t top_k,
                               uint64_t seed, uint64_t position, int32_t *token_out);

/**
 * The share of the sample's words that occur in the corpus (all of `tokens`). Only words of three or more
 * letters count. A word is a longest run of letters. Letters are ASCII letters and all bytes >= 0x80 (letters
 * beyond ASCII). Words are compared without ASCII case. A word that touches the sample's end does not count,
 * because it may be cut. share_out is 0 if there are no words. Errors: YOKE_EUNSUPPORTED (tokens are not
 * bytes), YOKE_ENOMEM
 */
yoke_status yokei_word_share(const struct yokei_tokens *tokens, const char *sample, size_t bytes,
                             double *share_out, int64_t *n_words_out);

#endif
