/* SPDX-License-Identifier: Apache-2.0 */
/* When a loss or a gradient norm is a spike: see box.h. */
#include <math.h>
#include <string.h>

#include "core/base/base.h"
#include "train/blackbox/box.h"

/*
 * A loss counts from eight deviations on, and if it is at least a tenth above the median. A norm counts from
 * ten deviations of its logarithm on, and if it is at least five times the median, because norms of healthy
 * runs have long tails. tests/unit/train_blackbox counts false alarms on series of healthy runs.
 */
const struct yokei_spike_rule yokei_spike_rule = { .window = 64,
                                                   .least_values = 16,
                                                   .quiet_steps = 16,
                                                   .loss_deviations = 8,
                                                   .loss_least = 0.1,
                                                   .norm_deviations = 10,
                                                   .norm_least = 1.6094379124341003 /* log 5 */ };

/* Replace the oldest value of the window, if the window is full, by a new one. `sorted` stays in order. */
static void add_value(struct yokei_spike_series *s, int32_t window, double x)
{
    int n = (int)YOKE_MIN(s->n, (int64_t)window), i;
    double *const oldest = &s->value[s->n % window];
    if (n == window) {
        for (i = 0; s->sorted[i] != *oldest;) i++;
        memmove(s->sorted + i, s->sorted + i + 1, (size_t)(--n - i) * sizeof *s->sorted);
    }
    for (i = n; i > 0 && s->sorted[i - 1] > x; i--) s->sorted[i] = s->sorted[i - 1];
    s->sorted[i] = x;
    *oldest = x;
    s->n++;
}

/*
 * The k-th smallest distance from `middle`, from 0. The values are in order, so there are two runs of
 * distances.
 */
static double distance_at(const double *sorted, int n, double middle, int k)
{
    int low = 0, high;
    while (low < n && sorted[low] < middle) low++;
    high = low--;
    double distance = 0;
    for (; k >= 0; k--) {
        const double below = low >= 0 ? middle - sorted[low] : INFINITY,
                     above = high < n ? sorted[high] - middle : INFINITY;
        distance = fmin(below, above);
        if (below < above)
            low--;
        else
            high++;
    }
    return distance;
}

/* `least` is relative to the median, or absolute. */
static bool judge(const struct yokei_spike_rule *rule, struct yokei_spike_series *s, double x,
                  double deviations, double least, bool is_relative, struct yokei_spike *out)
{
    const int n = (int)YOKE_MIN(s->n, (int64_t)rule->window);
    bool is_spike = false;
    *out = (struct yokei_spike){ NAN, NAN };
    if (n >= rule->least_values) {
        out->median = (s->sorted[(n - 1) / 2] + s->sorted[n / 2]) / 2;
        const double deviation = (distance_at(s->sorted, n, out->median, (n - 1) / 2)
                                  + distance_at(s->sorted, n, out->median, n / 2))
                                 / 2;
        const double enough = is_relative ? least * fabs(out->median) : least;
        out->limit = out->median + fmax(deviations * 1.4826 * deviation, enough);
        is_spike = x > out->limit;
    }
    add_value(s, rule->window, x);
    const bool begins = is_spike && !s->is_in_spike;
    s->since = is_spike ? 0 : s->since + 1;
    s->is_in_spike = is_spike || (s->is_in_spike && s->since < rule->quiet_steps);
    return begins;
}

bool yokei_spike_loss(const struct yokei_spike_rule *rule, struct yokei_spike_series *s, double loss,
                      struct yokei_spike *out)
{
    return judge(rule, s, loss, rule->loss_deviations, rule->loss_least, true, out);
}

bool yokei_spike_norm(const struct yokei_spike_rule *rule, struct yokei_spike_series *s, double norm,
                      struct yokei_spike *out)
{
    const bool begins = judge(rule, s, log(fmax(norm, 1e-300)), rule->norm_deviations, rule->norm_least,
                              false, out);
    out->median = exp(out->median);
    out->limit = exp(out->limit);
    return begins;
}
