/* SPDX-License-Identifier: Apache-2.0 */
/* The design memo of yoke plan --search: limits, choice, alternatives, risks, timeline, memory and checks. */
#include "cli/train/memo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/search_advice.h"
#include "core/base/base.h"

enum { BAR = 60 };

static const char *percent_text(double x, char *out, size_t bytes)
{
    if (isfinite(x))
        yokei_text(out, bytes, "%.1f %%", 100 * x);
    else
        yokei_text(out, bytes, "unknown");
    return out;
}

static void put_choice(const struct cli_searched *x, FILE *to)
{
    const struct yokei_ranked *b = &x->result->best[0];
    const struct yokei_prediction *p = &b->prediction;
    char layout[320], mfu[32];
    cli_ranked_text(x, b, layout, sizeof layout);
    fprintf(to, "\n## Choice\n\n**%s**, on %d ranks.\n\n", layout, p->n_ranks);
    fprintf(to, "| number | value |\n|---|---|\n| step | %.4g s |\n| tokens/s | %.4g |\n| MFU | %s |\n",
            p->step_seconds, p->tokens_per_second, percent_text(p->utilisation, mfu, sizeof mfu));
    fprintf(to, "| bubble, mean of all stages | %.1f %% |\n", 100 * p->bubble);
    fprintf(to, "| bubble of the stage that works longest | %.1f %% of the step, which is %.4g s |\n",
            100 * p->split.bubble / p->step_seconds, p->split.bubble);
    fprintf(to, "| exposed communication | %.4g s |\n| margin of memory | %.1f %% |\n",
            p->split.tensor + p->split.exposed_sums, 100 * p->margin);
    fprintf(to, "| price | %.4g an hour |\n", p->price_per_hour);
    if (x->result->is_proved)
        fputs(
            "\nThe search is proved: no other layout of its space is faster than the last alternative below.\n",
            to);
    else
        fprintf(to, "\nNo layout that was not predicted is faster than %.4g s.\n", x->result->bound_seconds);
}

static void put_goal(const struct cli_searched *x, FILE *to)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    const int cheapest = cli_goal_cheapest(x->goal, x->result);
    struct yokei_goal goal;
    char a[32];
    cli_goal_of(x->goal, &x->result->best[0], &goal);
    fprintf(
        to,
        "\n## Goal\n\n| number | value |\n|---|---|\n| steps | %.0f |\n| tokens | %.6g |\n| time | %s |\n",
        goal.steps, goal.tokens, cli_duration_text(goal.hours * 3600, a, sizeof a));
    if (goal.price > 0) fprintf(to, "| price | %.6g |\n", goal.price);
    if (x->goal->failures_per_day > 0) {
        fprintf(to, "| a failure comes every | %s |\n",
                cli_duration_text(cli_goal_between(x->goal, p), a, sizeof a));
        fprintf(to, "| checkpoint interval (Daly) | %s, which is %lld steps |\n",
                cli_duration_text(goal.interval, a, sizeof a), (long long)goal.checkpoint_steps);
        fprintf(to, "| checkpoint interval (Young) | %s |\n",
                cli_duration_text(yokei_interval_young(x->goal->save, cli_goal_between(x->goal, p)), a,
                                  sizeof a));
        fprintf(to, "| effective time | %.2f %% |\n| failures expected | %.3g |\n", 100 * goal.effective_time,
                goal.failures);
    }
    if (cheapest > 0) fprintf(to, "\nAlternative %d is the cheapest.\n", cheapest + 1);
}

static void put_alternatives(const struct cli_searched *x, FILE *to)
{
    const struct yokei_search_result *r = x->result;
    fputs("\n## Alternatives\n\n| | step s | MFU | bubble | memory | time | price | layout |\n"
          "|---|---|---|---|---|---|---|---|\n",
          to);
    for (int i = 0; i < r->n_best; i++) {
        const struct yokei_prediction *p = &r->best[i].prediction;
        struct yokei_goal goal;
        char layout[320], mfu[32], time[32];
        cli_goal_of(x->goal, &r->best[i], &goal);
        cli_ranked_text(x, &r->best[i], layout, sizeof layout);
        fprintf(to, "| %d | %.4g | %s | %.1f %% | %.1f %% | %s | %.6g | %s |\n", i + 1, p->step_seconds,
                percent_text(p->utilisation, mfu, sizeof mfu), 100 * p->bubble, 100 * (1 - p->margin),
                cli_duration_text(goal.hours * 3600, time, sizeof time), goal.price, layout);
    }
    cli_search_difference(x, to);
}

static void put_advice(const struct cli_searched *x, FILE *to)
{
    const double step = x->result->best[0].prediction.step_seconds;
    char text[256];
    if (!x->advice->n) return;
    cli_advice_binding(x->advice, step, text, sizeof text);
    fprintf(to, "\n## What limits the step\n\n%s\n\n| change | step s | time of a step |\n|---|---|---|\n",
            text);
    for (int i = 0; i < x->advice->n; i++) {
        const struct yokei_change *c = &x->advice->change[i];
        char seconds[32] = "-";
        if (c->fits) yokei_text(seconds, sizeof seconds, "%.4g", c->step_seconds);
        cli_advice_gain(c, step, text, sizeof text);
        fprintf(to, "| %s | %s | %s |\n", c->text, seconds, text);
    }
}

static void put_bar(const char *name, double seconds, double *at, double step, FILE *to)
{
    const int from = (int)floor(BAR * *at / step + 0.5), end = (int)floor(BAR * (*at + seconds) / step + 0.5);
    *at += seconds;
    if (seconds <= 0) return;
    fprintf(to, "%-14s |%*s", name, from, "");
    for (int i = from; i < end; i++) fputc('#', to);
    fprintf(to, "%*s| %.4g s\n", BAR - YOKE_MAX(end, from), "", seconds);
}

static void put_bars(const struct cli_searched *x, FILE *to)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    const struct yokei_step_split *s = &p->split;
    double at = 0;
    fprintf(
        to,
        "\n## Timeline\n\nThe parts of a step of %.4g s, on the stage that works longest. This stage has the "
        "smallest bubble. The mean of all stages is %.1f %%:\n\n```\n",
        p->step_seconds, 100 * p->bubble);
    put_bar("arithmetic", s->arithmetic, &at, p->step_seconds, to);
    put_bar("recomputation", s->recomputation, &at, p->step_seconds, to);
    put_bar("tensor", s->tensor, &at, p->step_seconds, to);
    put_bar("bubble", s->bubble, &at, p->step_seconds, to);
    put_bar("sums", s->exposed_sums, &at, p->step_seconds, to);
    put_bar("optimizer", s->optimizer, &at, p->step_seconds, to);
    fputs("```\n", to);
}

static yoke_status put_all(const struct cli_options *o, const struct cli_searched *x,
                           const struct yokei_search_config *config, struct cli_memo_timeline *t, FILE *to)
{
    const struct yokei_layout *l = &x->result->best[0].layout;
    struct yokei_places places;
    yoke_status status = YOKE_OK;
    YOKE_TRY(yokei_places_create(x->cluster, l->tensor, l->kind, l->n_kinds, &places));
    cli_memo_head(o, x, to);
    cli_memo_limits(o, x, to);
    put_choice(x, to);
    put_goal(x, to);
    put_alternatives(x, to);
    put_advice(x, to);
    cli_memo_risks(yoke_dtype_name(x->result->best[0].precision), x, &places, to);
    put_bars(x, to);
    if (l->pipeline > 1) status = cli_memo_timeline(x, config, to, t);
    cli_memo_memory(x, &x->result->best[0].prediction, to);
    if (!status) status = cli_memo_checks(o, x, config, l->pipeline > 1 ? t : NULL, to);
    yokei_places_free(&places);
    return status;
}

yoke_status cli_memo_write(const char *path, const struct cli_options *o, const struct cli_searched *x,
                           const struct yokei_search_config *config)
{
    char *text = NULL;
    size_t bytes = 0;
    struct cli_memo_timeline *t = calloc(1, sizeof *t);
    FILE *to = t ? open_memstream(&text, &bytes) : NULL;
    yoke_status status = YOKE_OK;
    if (to && x->result->n_best)
        status = put_all(o, x, config, t, to);
    else if (to)
        status = cli_memo_nothing(o, x, to);
    if (!to || fclose(to)) status = yoke_fail(YOKE_ENOMEM, "memo: no host memory");
    if (!status) status = yokei_file_write(path, text, bytes);
    if (t) cli_memo_timeline_free(t);
    free(t);
    free(text);
    return status;
}
