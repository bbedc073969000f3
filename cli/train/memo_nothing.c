/* SPDX-License-Identifier: Apache-2.0 */
/* The memo of a search without an allowed layout: what the nearest layout exceeds, and what would help. */
#include <string.h>

#include "cli/train/memo.h"
#include "cli/train/search_advice.h"
#include "core/base/base.h"

static const double MIB = 1048576;

static void put_excess_of_memory(const struct cli_searched *x, FILE *to)
{
    const struct yokei_prediction *p = &x->result->nearest.prediction;
    fputs("\n## What does not fit\n\n", to);
    for (int i = 0; i < p->n_memory; i++) {
        const struct yokei_rank_memory *r = &p->memory[i];
        if (r->report.total <= r->have) continue;
        fprintf(to,
                "- Stage %d on %s: %d rank%s. One of them needs %.2f MiB and has %.2f MiB, so %.2f MiB are "
                "missing.\n",
                r->stage, x->cluster->kind[r->kind].name, r->n_ranks, r->n_ranks > 1 ? "s" : "",
                (double)r->report.total / MIB, (double)r->have / MIB,
                (double)(r->report.total - r->have) / MIB);
    }
    cli_memo_memory(x, p, to);
}

static void put_excess_of_bubble(const struct cli_options *o, const struct cli_searched *x, FILE *to)
{
    const struct yokei_prediction *p = &x->result->least_idle.prediction;
    char bound[96];
    fprintf(
        to,
        "\n## What exceeds the limit\n\nThe stages are idle for %.2f %% of the time on average. The limit "
        "is %.2f %%. This is the smallest bubble of the layouts that fit into memory%s.\n",
        100 * p->bubble, 100 * cli_real(o, "largest-bubble"),
        cli_bubble_bound_text(x->result, bound, sizeof bound));
}

static void put_changes(const struct cli_searched *x, const char *otherwise, FILE *to)
{
    const struct yokei_advice *a = x->advice;
    fputs("\n## Changes\n\n", to);
    if (!a->n) {
        fprintf(to, "No change that was tried is enough: %s.\n", otherwise);
        return;
    }
    fprintf(to,
            "**The cheapest change is %s.** Each of these changes alone allows a layout. The cheapest comes "
            "first: what costs nothing, then hosts by their price, then memory.\n\n"
            "| change | step s | price an hour | layout |\n|---|---|---|---|\n",
            a->change[0].text);
    for (int i = 0; i < a->n; i++) {
        const struct yokei_change *c = &a->change[i];
        char layout[256], price[32] = "-";
        cli_layout_text(x->cluster, &c->layout, layout, sizeof layout);
        if (c->price_per_hour > 0) yokei_text(price, sizeof price, "%.4g", c->price_per_hour);
        fprintf(to, "| %s | %.4g | %s | %s |\n", c->text, c->step_seconds, price, layout);
    }
}

yoke_status cli_memo_nothing(const struct cli_options *o, const struct cli_searched *x, FILE *to)
{
    const struct yokei_search_result *r = x->result;
    const struct yokei_ranked *nearest = r->is_idle ? &r->least_idle : &r->nearest;
    char layout[320];
    cli_ranked_text(x, nearest, layout, sizeof layout);
    cli_memo_head(o, x, to);
    fputs(r->is_idle ? "\n**No layout has so small a bubble.**\n" : "\n**No layout fits into memory.**\n",
          to);
    cli_memo_limits(o, x, to);
    fprintf(to, "\n## The nearest layout\n\n**%s**, on %d ranks. Its step would take %.4g s.\n", layout,
            nearest->prediction.n_ranks, nearest->prediction.step_seconds);
    if (r->is_idle)
        put_excess_of_bubble(o, x, to);
    else
        put_excess_of_memory(x, to);
    put_changes(x,
                r->is_idle ? "raise `--largest-bubble` or `--batch`"
                           : "use devices with more memory or more devices, or a lower `--sequence`",
                to);
    fputs("\n## Checks\n", to);
    YOKE_TRY(cli_memo_search_command(o, x,
                                     r->is_idle ? "The search, which ends with exit code 10"
                                                : "The search, which ends with exit code 13",
                                     to));
    fputs(
        r->is_idle
            ? "\nThe nearest layout alone:\n\n"
            : "\nThe memory of each rank of the nearest layout (column DEVICE), also with exit code 13:\n\n",
        to);
    cli_memo_layout_command(o, nearest, to);
    return YOKE_OK;
}
