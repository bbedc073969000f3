/* SPDX-License-Identifier: Apache-2.0 */
/** Shares by measured speed. */
#ifndef PARALLEL_BALANCE_H
#define PARALLEL_BALANCE_H

#include <yoke/base.h>

/**
 * Deal `batch` sequences to n ranks so that the last one to end ends as early as can be: each sequence goes to the rank
 * that would be done with it first (of equals, the lower rank). A rank of speed 0 gets none. speeds: sequences per second.
 */
void yokei_balance(const double *speeds, int n, int64_t batch, int64_t *shares_out);

#endif
