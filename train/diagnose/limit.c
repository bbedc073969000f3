/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why more ranks gave less than they should. A step has a part that more ranks make shorter, and a part that
 * stays. From two runs on different numbers of ranks both parts follow, as in Amdahl's law.
 */
#include <math.h>

#include "train/diagnose/diagnose.h"

void yokei_limit_of(const struct yokei_facts *a, const struct yokei_facts *b, struct yokei_limit *out)
{
    *out = (struct yokei_limit){ .is_known = false };
    if (a->n_ranks >= b->n_ranks || !(a->tokens_per_second > 0) || !(b->tokens_per_second > 0)) return;
    const double compute[2] = { yokei_facts_mean(a, YOKEI_STEP_COMPUTE),
                                yokei_facts_mean(b, YOKEI_STEP_COMPUTE) };
    if (!(compute[0] > 0) || !(compute[1] > 0)) return;
    out->is_known = true;
    out->ideal = (double)b->n_ranks / a->n_ranks;
    out->got = b->tokens_per_second / a->tokens_per_second;
    out->exposed = b->step - compute[1];
    /* Each run uses this part of its time for computing. */
    out->by_division = out->ideal * (compute[1] / b->step) / (compute[0] / a->step);
    /*
     * Seconds for a token: parallel / ranks + fixed. Two runs give both. Their ratio limits the speed-up over
     * the smaller run.
     */
    const double n = a->n_ranks, m = b->n_ranks, x = 1 / a->tokens_per_second, y = 1 / b->tokens_per_second;
    const double fixed = (y * m - x * n) / (m - n);
    out->most = fixed > 0 ? x / fixed : INFINITY;
}
