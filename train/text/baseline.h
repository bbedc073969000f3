/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The baseline for text models: a smoothed byte-count model of order 3 (context = the three bytes before).
 *
 * Maths:  p_0(w) = (c(w) + k_0 / 256) / (n + k_0);
 *         p_j(w | h_j) = (c(h_j w) + k_j p_(j-1)(w | h_(j-1))) / (c(h_j) + k_j),  j = 1, 2, 3, h_j the last j
 * bytes; p(w | h) = sum over j of m_j p_j(w | h_j), m on the simplex Each order adds k_j pseudo-counts,
 * distributed as the next lower order predicts (add-k smoothing with back-off). The orders are then
 * interpolated. k is fitted by coordinate descent on log k, and m by expectation maximisation. Both fits use
 * the last 5 % of the training part with counts of the first 95 %. After the fits the counts are taken of the
 * whole training part. The validation part is never used.
 */
#ifndef TRAIN_TEXT_BASELINE_H
#define TRAIN_TEXT_BASELINE_H

#include "train/text/tokens.h"

struct yokei_baseline;

/**
 * Fit on the training part. Errors: YOKE_EUNSUPPORTED (tokens are not bytes), YOKE_EDATA (fewer than 64
 * bytes), YOKE_ENOMEM.
 */
yoke_status yokei_baseline_fit(const struct yokei_tokens *tokens, struct yokei_baseline **baseline_out);
/** NULL is allowed. */
void yokei_baseline_free(struct yokei_baseline *baseline);
/** The fitted k [4] and m [4]. */
void yokei_baseline_weights(const struct yokei_baseline *baseline, double k_out[4], double m_out[4]);
/** The probability of byte w after the three bytes h. h[2] is the byte directly before w. */
double yokei_baseline_probability(const struct yokei_baseline *baseline, const uint8_t h[3], uint8_t w);
/**
 * The mean loss in nats per byte of bytes [first, first + n) of the validation part (n 0: to its end). Each
 * byte is predicted from the three bytes before it. The context of the first bytes lies in the training part.
 * Errors: YOKE_EINVAL (range), YOKE_EDATA (empty).
 */
yoke_status yokei_baseline_loss(const struct yokei_baseline *baseline, const struct yokei_tokens *tokens,
                                int64_t first, int64_t n, double *nats_out);

#endif
