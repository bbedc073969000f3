/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The learning rate. Progress is counted in thousandths, so that a run with a time budget can be recorded and
 * replayed.
 */
#include <math.h>
#include "core/base/base.h"
#include "train/run/loop.h"

int64_t yokei_rate_permille(const struct yokei_plan *plan, bool replay, int64_t step, double seconds)
{
    if (plan->budget_seconds > 0 && replay && plan->n_progress) {
        int64_t permille = 0;
        for (int64_t i = 0; i < plan->n_progress && plan->progress[i].step <= step; i++)
            permille = plan->progress[i].permille;
        return permille;
    }
    double share = plan->budget_seconds > 0 ? seconds / plan->budget_seconds
                                            : (double)(step - 1) / (double)plan->steps;
    return (int64_t)(1000 * fmin(fmax(share, 0), 1));
}

double yokei_rate(const struct yokei_plan *plan, int64_t step, int64_t permille)
{
    const double pi = 3.14159265358979323846;
    const double least = plan->min_learning_rate; /* yokei_plan_check: at most the learning rate */
    double rate = least + 0.5 * (plan->learning_rate - least) * (1 + cos(pi * (double)permille / 1000));
    return plan->warmup > 0 && step < plan->warmup ? rate * (double)step / (double)plan->warmup : rate;
}
