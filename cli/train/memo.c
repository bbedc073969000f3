/* SPDX-License-Identifier: Apache-2.0 */
/* The design memo of yoke plan --search: limits, choice, alternatives, risks, timeline, memory and checks. */
#include "cli/train/memo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/search_advice.h"
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer/memory.h"

enum { BAR = 60 };

static const char *percent_text(double x, char *out, size_t bytes)
{
    if (isfinite(x))
        yokei_text(out, bytes, "%.1f %%", 100 * x);
    else
        yokei_text(out, bytes, "unknown");
    return out;
}

void cli_memo_head(const struct cli_options *o, const struct cli_searched *x, FILE *to)
{
    const struct yokei_cluster *c = x->cluster;
    fprintf(to,
            "# Design memo: %s on %s\n\nMade by `yoke plan --search --memo`. All times are predictions.\n",
            cli_text(o, "model"), c->name[0] ? c->name : cli_text(o, "cluster"));
}

void cli_memo_limits(const struct cli_options *o, const struct cli_searched *x, FILE *to)
{
    const struct cli_goal *g = x->goal;
    const struct yokei_cluster *c = x->cluster;
    char time[32];
    fputs("\n## Limits\n\n| limit | value |\n|---|---|\n", to);
    for (int k = 0; k < c->n_kinds; k++) {
        const double mib = (double)c->kind[k].memory / 1048576.0;
        fprintf(to, "| %s | %d devices of %.4g %s%s |\n", c->kind[k].name, yokei_cluster_devices(c, k),
                mib < 1024 ? mib : mib / 1024, mib < 1024 ? "MiB" : "GiB",
                cli_is_set(o, "memory-limit") ? " (with --memory-limit)" : "");
    }
    char batches[256], precisions[32];
    fprintf(to, "| batch | %s sequences of %lld tokens |\n| precision | %s |\n",
            cli_batches_text(x->choices, batches, sizeof batches), (long long)x->training->plan.sequence,
            cli_precisions_text(x->choices, precisions, sizeof precisions));
    if (cli_real(o, "largest-bubble") > 0)
        fprintf(to, "| largest bubble | %.1f %% |\n", 100 * cli_real(o, "largest-bubble"));
    if (g->tokens > 0) fprintf(to, "| tokens | %.6g |\n", g->tokens);
    if (g->hours > 0) fprintf(to, "| time | %s |\n", cli_duration_text(g->hours * 3600, time, sizeof time));
    if (g->failures_per_day > 0) {
        fprintf(to, "| failures of a device | %.4g a day |\n", g->failures_per_day);
        fprintf(to, "| a checkpoint takes | %s |\n", cli_duration_text(g->save, time, sizeof time));
        fprintf(
            to,
            "| a checkpoint has | %.4g GB: %zu bytes for each parameter, which are its weight and its two "
            "moments in f32 in any precision |\n",
            g->checkpoint_bytes * 1e-9, yokei_checkpoint_bytes_per_parameter());
        fprintf(to, "| a restart takes | %s |\n", cli_duration_text(g->restart, time, sizeof time));
    }
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

static bool is_shown(const struct yokei_memory_part *m)
{
    return strcmp(m->name, "staging_shared") && strcmp(m->name, "staging") && strcmp(m->name, "host");
}

void cli_memo_memory(const struct cli_searched *x, const struct yokei_prediction *p, FILE *to)
{
    fputs(
        "\n## Memory\n\nMiB of the rank that needs most. The stash, the bounds, the received activations, the "
        "work and the unused part are parts of the activations.\n\n| stage | device | ranks |",
        to);
    for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
        if (is_shown(m)) fprintf(to, " %s |", m->title);
    fputs(" has |\n|---|---|---|", to);
    for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
        if (is_shown(m)) fputs("---|", to);
    fputs("---|\n", to);
    for (int i = 0; i < p->n_memory; i++) {
        const struct yokei_rank_memory *r = &p->memory[i];
        fprintf(to, "| %d | %s | %d |", r->stage, x->cluster->kind[r->kind].name, r->n_ranks);
        for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
            if (is_shown(m)) fprintf(to, " %.2f |", (double)yokei_memory_part_of(&r->report, m) / 1048576.0);
        fprintf(to, " %.2f |\n", (double)r->have / 1048576.0);
    }
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
    cli_memo_checks(o, x, config, l->pipeline > 1 ? t : NULL, to);
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
        cli_memo_nothing(o, x, to);
    if (!to || fclose(to)) status = yoke_fail(YOKE_ENOMEM, "memo: no host memory");
    if (!status) status = yokei_file_write(path, text, bytes);
    if (t) cli_memo_timeline_free(t);
    free(t);
    free(text);
    return status;
}
