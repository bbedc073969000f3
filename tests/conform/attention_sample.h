/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Check attention of sequences so long that the reference backend would take minutes. Single rows of queries
 * and single keys are computed in f64 and compared with the bounds of include/yoke/ops/attention.h.
 * tests/unit/attention_long and bench/attention use these functions.
 */
#ifndef TESTS_CONFORM_ATTENTION_SAMPLE_H
#define TESTS_CONFORM_ATTENTION_SAMPLE_H

#include <yoke/yoke.h>

enum { ATTENTION_SAMPLE_MOST_D = 128 };

/**
 * `a` has the arguments of a backward call that is complete, with the o and lse of the forward call before
 * it. All pointers are to memory that the host can read. D is at most ATTENTION_SAMPLE_MOST_D. There is no
 * dropout, and groups are whole. Each function returns the largest |got - exact| / bound of an element. The
 * op is right if this is at most 1. The result is infinity if a value is not finite, or if there is no memory
 * for T numbers.
 */
/** Check o, lse and dq of query t of head h of sample b. The exact dq follows from the o and lse in `a`. */
double attention_sample_row(const struct yoke_attention_backward_args *a, int64_t b, int64_t h, int64_t t);
/** Check dk and dv of key j of K/V head hkv of sample b. */
double attention_sample_key(const struct yoke_attention_backward_args *a, int64_t b, int64_t hkv, int64_t j);

#endif
