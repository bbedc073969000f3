/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of a run's goal. The header has the formulas and their sources. */
#include "train/search/goal.h"

#include <math.h>

double yokei_time_between_failures(double per_day, int n)
{
    return per_day > 0 ? 86400 / (per_day * n) : INFINITY;
}

double yokei_interval_young(double save, double between) { return sqrt(2 * save * between); }

double yokei_interval_daly_first(double save, double between)
{
    if (isinf(between)) return INFINITY;
    return save < between / 2 ? sqrt(2 * save * between) - save : between;
}

double yokei_interval_daly(double save, double between)
{
    const double x = save / (2 * between);
    if (isinf(between)) return INFINITY;
    return save < 2 * between ? sqrt(2 * save * between) * (1 + sqrt(x) / 3 + x / 9) - save : between;
}

double yokei_effective_time(double interval, double save, double restart, double between)
{
    if (isinf(between)) return isinf(interval) ? 1 : interval / (interval + save);
    return interval / (between * exp(restart / between) * expm1((interval + save) / between));
}

double yokei_utilisation(double model_flops, double step_seconds, double peak_flops_of_all)
{
    return model_flops / (step_seconds * peak_flops_of_all);
}

void yokei_goal_compute(const struct yokei_goal_config *c, struct yokei_goal *g)
{
    *g = (struct yokei_goal){ .interval = INFINITY, .effective_time = 1 };
    if (isfinite(c->between)) {
        /* The interval is a whole number of steps, and at least one. */
        const double steps = round(yokei_interval_daly(c->save, c->between) / c->step_seconds);
        g->checkpoint_steps = (int64_t)fmin(fmax(steps, 1), 1e15);
        g->interval = (double)g->checkpoint_steps * c->step_seconds;
        g->effective_time = yokei_effective_time(g->interval, c->save, c->restart, c->between);
    }
    g->steps = c->tokens > 0 ? ceil(c->tokens / c->tokens_per_step)
                             : floor(c->hours * 3600 * g->effective_time / c->step_seconds);
    g->tokens = g->steps * c->tokens_per_step;
    g->hours = g->steps * c->step_seconds / g->effective_time / 3600;
    g->failures = isfinite(c->between) ? g->hours * 3600 / c->between : 0;
    g->price = g->hours * c->price_per_hour;
}
