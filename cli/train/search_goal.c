/* SPDX-License-Identifier: Apache-2.0 */
/* The goal of yoke plan --search: its options, and the time and the price of each layout. */
#include "cli/train/search_goal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/search/units.h"

/* "0.0065/d" or "3e-4/h": failures of one device in a day. */
static yoke_status read_rate(const char *text, double *per_day_out)
{
    char *end;
    const double rate = strtod(text, &end);
    const bool starts = isdigit((unsigned char)text[0]) || text[0] == '.';
    while (*end == ' ') end++;
    const double per_day = !strcmp(end, "/d")   ? 1
                           : !strcmp(end, "/h") ? 24
                           : !strcmp(end, "/y") ? 1 / 365.25
                                                : 0;
    if (!starts || per_day == 0 || !(rate * per_day <= 1e4))
        return yoke_fail(
            YOKE_EINVAL,
            "yoke plan: --failure-rate '%s': write the failures of one device with their unit of "
            "time, at most 10000/d: 0.0008/d, 3e-5/h or 0.3/y",
            text);
    *per_day_out = rate * per_day;
    return YOKE_OK;
}

static yoke_status read_save(const struct cli_options *o, struct cli_goal *g)
{
    const char *bandwidth = cli_text(o, "checkpoint-bandwidth");
    const double range[2] = { 1e5, 1e15 };
    double rate = 0;
    char why[256];
    g->save = cli_is_set(o, "checkpoint-time") ? cli_real(o, "checkpoint-time") : 0;
    if (!bandwidth) return YOKE_OK;
    if (cli_is_set(o, "checkpoint-time"))
        return yoke_fail(
            YOKE_EINVAL,
            "yoke plan: --checkpoint-time and --checkpoint-bandwidth say the same: leave one out");
    if (!yokei_unit_read(YOKEI_BANDWIDTH, bandwidth, range, &rate, why, sizeof why))
        return yoke_fail(YOKE_EINVAL, "yoke plan: --checkpoint-bandwidth '%s' %s", bandwidth, why);
    g->save = g->checkpoint_bytes / rate;
    return YOKE_OK;
}

yoke_status cli_goal_read(const struct cli_options *o, int64_t batch, int64_t sequence, double n_parameters,
                          struct cli_goal *g)
{
    *g = (struct cli_goal){ .sequence = sequence,
                            .checkpoint_bytes = (double)yokei_checkpoint_bytes_per_parameter() * n_parameters,
                            .restart = cli_real(o, "restart-time") };
    if (cli_is_set(o, "goal-tokens")) g->tokens = (double)cli_int(o, "goal-tokens");
    if (cli_is_set(o, "goal-time")) g->hours = cli_real(o, "goal-time") / 3600;
    if (g->tokens == 0 && g->hours == 0) {
        g->from_steps = true;
        g->tokens = (double)cli_int(o, "steps") * (double)(batch * sequence);
    }
    YOKE_TRY(read_save(o, g));
    if (!cli_text(o, "failure-rate")) return YOKE_OK;
    YOKE_TRY(read_rate(cli_text(o, "failure-rate"), &g->failures_per_day));
    if (g->failures_per_day > 0 && g->save <= 0)
        return yoke_fail(
            YOKE_EINVAL,
            "yoke plan: --failure-rate needs the time of a checkpoint: add --checkpoint-time TIME "
            "or --checkpoint-bandwidth RATE");
    return YOKE_OK;
}

double cli_goal_between(const struct cli_goal *g, const struct yokei_prediction *p)
{
    return yokei_time_between_failures(g->failures_per_day, p->n_ranks);
}

void cli_goal_of(const struct cli_goal *g, const struct yokei_ranked *x, struct yokei_goal *out)
{
    const struct yokei_prediction *p = &x->prediction;
    yokei_goal_compute(&(struct yokei_goal_config){ .step_seconds = p->step_seconds,
                                                    .tokens_per_step = (double)(x->batch * g->sequence),
                                                    .price_per_hour = p->price_per_hour,
                                                    .between = cli_goal_between(g, p),
                                                    .save = g->save,
                                                    .restart = g->restart,
                                                    .tokens = g->tokens,
                                                    .hours = g->hours },
                       out);
}

/* Without a number of tokens all layouts take the same time, so the price of a token counts. */
int cli_goal_cheapest(const struct cli_goal *g, const struct yokei_search_result *r)
{
    int cheapest = -1;
    double least = INFINITY;
    for (int i = 0; i < r->n_best; i++) {
        struct yokei_goal goal;
        cli_goal_of(g, &r->best[i], &goal);
        if (goal.price <= 0 || !(goal.price / goal.tokens < least)) continue;
        if (g->tokens > 0 && g->hours > 0 && goal.hours > g->hours) continue;
        least = goal.price / goal.tokens;
        cheapest = i;
    }
    return cheapest;
}

/* The change of the advice that reaches the goal with the longest step, which asks for least. NULL: none. */
static const struct yokei_change *change_for_goal(const struct cli_goal *g, int64_t batch,
                                                  const struct yokei_advice *advice, double *hours_out)
{
    const struct yokei_change *least = NULL;
    for (int i = 0; advice && i < advice->n; i++) {
        const struct yokei_change *c = &advice->change[i];
        const struct yokei_layout *l = &c->layout;
        const struct yokei_ranked x = { .batch = batch,
                                        .prediction = { .n_ranks = l->data * l->pipeline * l->tensor,
                                                        .step_seconds = c->step_seconds } };
        struct yokei_goal goal;
        if (!c->fits) continue;
        cli_goal_of(g, &x, &goal);
        if (goal.hours > g->hours || (least && least->step_seconds >= c->step_seconds)) continue;
        least = c, *hours_out = goal.hours;
    }
    return least;
}

yoke_status cli_goal_check(const struct cli_goal *g, const struct yokei_search_result *r,
                           const struct yokei_advice *advice)
{
    struct yokei_goal goal = { 0 }, fitting;
    double hours = INFINITY;
    int fastest = 0;
    if (g->tokens <= 0 || g->hours <= 0 || !r->n_best) return YOKE_OK;
    for (int i = 0; i < r->n_best; i++) {
        cli_goal_of(g, &r->best[i], &goal);
        if (goal.hours < hours) hours = goal.hours, fastest = i;
    }
    if (hours <= g->hours) return YOKE_OK;
    struct cli_goal most = *g;
    most.tokens = 0;
    cli_goal_of(&most, &r->best[fastest], &fitting);
    char text[256] = "or use more or faster devices";
    const struct yokei_change *change = change_for_goal(g, r->best[0].batch, advice, &goal.hours);
    if (change)
        yokei_text(text, sizeof text, "or plan with %s, which takes %.4g h", change->text, goal.hours);
    else if (advice && advice->n)
        yokei_text(text, sizeof text,
                   "or use more or faster devices: none of the single changes of the advice is enough");
    return yoke_fail(
        YOKE_ECONFIG,
        "yoke plan: no layout trains %.6g tokens in %.4g h: layout %d takes %.4g h. Set --goal-time to "
        "%.0fh or more, or --goal-tokens to %.0f or less, %s",
        g->tokens, g->hours, fastest + 1, hours, ceil(hours), fitting.tokens, text);
}

/* The hours of the goal, or if it is a time, the hours of a token. */
static double cost_of(const struct cli_goal *g, const struct yokei_ranked *x)
{
    struct yokei_goal goal;
    cli_goal_of(g, x, &goal);
    return g->tokens > 0 ? goal.hours : goal.hours / fmax(goal.tokens, 1);
}

void cli_goal_sort(const struct cli_goal *g, struct yokei_search_result *r)
{
    for (int i = 1; i < r->n_best; i++)
        for (int j = i; j > 0 && cost_of(g, &r->best[j]) < cost_of(g, &r->best[j - 1]); j--) {
            const struct yokei_ranked x = r->best[j];
            r->best[j] = r->best[j - 1];
            r->best[j - 1] = x;
        }
}

/* ---- output ---- */

const char *cli_duration_text(double seconds, char *out, size_t bytes)
{
    if (!isfinite(seconds))
        yokei_text(out, bytes, "-");
    else if (seconds < 120)
        yokei_text(out, bytes, "%.3g s", seconds);
    else if (seconds < 7200)
        yokei_text(out, bytes, "%.3g min", seconds / 60);
    else if (seconds < 72 * 3600)
        yokei_text(out, bytes, "%.3g h", seconds / 3600);
    else
        yokei_text(out, bytes, "%.4g days", seconds / 86400);
    return out;
}

static void show_head(const struct cli_goal *g)
{
    char save[32], restart[32];
    printf("\ngoal: ");
    if (g->tokens > 0)
        printf("%.4g tokens%s", g->tokens, g->from_steps ? " (--steps)" : "");
    else
        printf("as many tokens as %.4g h allow", g->hours);
    if (g->tokens > 0 && g->hours > 0) printf(" within %.4g h", g->hours);
    if (g->failures_per_day > 0)
        printf("; each device fails %.3g times a day, a checkpoint takes %s and a restart %s",
               g->failures_per_day, cli_duration_text(g->save, save, sizeof save),
               cli_duration_text(g->restart, restart, sizeof restart));
    else
        printf("; no failures (--failure-rate)");
    printf("\n");
}

void cli_goal_show(const struct cli_goal *g, const struct yokei_search_result *r)
{
    const int cheapest = cli_goal_cheapest(g, r);
    show_head(g);
    printf("%3s %10s %10s %11s %10s %9s %12s %10s %12s\n", "", "failure", "checkpoint", "steps", "by Young",
           "effective", "steps", "time", "price");
    printf("%3s %10s %10s %11s %10s %9s\n", "", "after", "after", "in between", "alone", "time");
    for (int i = 0; i < r->n_best; i++) {
        const struct yokei_prediction *p = &r->best[i].prediction;
        const double between = cli_goal_between(g, p);
        struct yokei_goal goal;
        char fails[32], interval[32], young[32], time[32], price[32] = "-";
        cli_goal_of(g, &r->best[i], &goal);
        if (goal.price > 0) yokei_text(price, sizeof price, "%.6g", goal.price);
        printf("%3d %10s %10s %11lld %10s %8.2f%% %12.0f %10s %12s%s\n", i + 1,
               cli_duration_text(between, fails, sizeof fails),
               cli_duration_text(goal.interval, interval, sizeof interval), (long long)goal.checkpoint_steps,
               cli_duration_text(yokei_interval_young(g->save, between), young, sizeof young),
               100 * goal.effective_time, goal.steps, cli_duration_text(goal.hours * 3600, time, sizeof time),
               price, i == cheapest ? "  cheapest" : "");
    }
}

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

json_t *cli_goal_json(const struct cli_goal *g, const struct yokei_ranked *x)
{
    const double between = cli_goal_between(g, &x->prediction);
    struct yokei_goal goal;
    cli_goal_of(g, x, &goal);
    return json_pack("{s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seconds_between_failures",
                     number(between), "checkpoint_steps", (json_int_t)goal.checkpoint_steps,
                     "checkpoint_seconds", number(goal.interval), "young_seconds",
                     number(yokei_interval_young(g->save, between)), "effective_time",
                     number(goal.effective_time), "failures", number(goal.failures), "steps",
                     number(goal.steps), "tokens", number(goal.tokens), "hours", number(goal.hours), "price",
                     goal.price > 0 ? json_real(goal.price) : json_null());
}
