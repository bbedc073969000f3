/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Attention of lengths at which the reference backend would take minutes: single rows of queries and single keys in f64, against the bounds
 * of include/yoke/ops/attention.h. Used by tests/unit/attention_long and bench/attention.
 */
#ifndef CONFORM_ATTENTION_SAMPLE_H
#define CONFORM_ATTENTION_SAMPLE_H

#include <yoke/yoke.h>

enum { ATTENTION_SAMPLE_MOST_D = 128 };

/**
 * `a`: what the host sees of a backward call that is over, with the o and lse of the forward call before it; D at most
 * ATTENTION_SAMPLE_MOST_D, no dropout, whole groups. Returns the largest |got - exact| / bound of an element: right below 1; infinity
 * where something is not finite, or memory for T numbers is not to be had.
 */
/** o, lse and dq of query t of head h of sample b; dq is held to the maths of the o and lse that are there. */
double attention_sample_row(const struct yoke_attention_backward_args *a, int64_t b, int64_t h, int64_t t);
/** dk and dv of key j of K/V head hkv of sample b. */
double attention_sample_key(const struct yoke_attention_backward_args *a, int64_t b, int64_t hkv, int64_t j);

#endif
