/* SPDX-License-Identifier: Apache-2.0 */
/* A layout of yoke plan --search as text. */
#include <string.h>

#include "cli/train/plan_search.h"
#include "core/base/base.h"

void cli_layout_text(const struct yokei_cluster *c, const struct yokei_layout *l, char *out, size_t bytes)
{
    char kinds[128] = "", schedule[64] = "";
    for (int i = 0; i < l->n_kinds; i++)
        yokei_text(kinds + strlen(kinds), sizeof kinds - strlen(kinds), "%s%s", i ? ", " : "",
                   c->kind[l->kind[i]].name);
    if (l->pipeline > 1) yokei_text(schedule, sizeof schedule, ", %s", yokei_pipeline_names[l->schedule]);
    if (l->chunks > 1)
        yokei_text(schedule + strlen(schedule), sizeof schedule - strlen(schedule), " of %d chunks",
                   l->chunks);
    yokei_text(out, bytes, "dp %d x pp %d x tp %d%s, micro-batch %lld%s%s%s%s on %s", l->data, l->pipeline,
               l->tensor, schedule, (long long)l->micro_batch, l->recompute ? ", recompute " : "",
               l->recompute ? yokei_recompute_words[l->recompute] : "", l->zero ? ", zero 1" : "",
               l->sequence_parallel ? ", sequence-parallel" : "", kinds);
}

void cli_ranked_text(const struct cli_searched *x, const struct yokei_ranked *r, char *out, size_t bytes)
{
    char layout[256], choice[64] = "";
    cli_layout_text(x->cluster, &r->layout, layout, sizeof layout);
    if (x->choices && x->choices->n > 1)
        yokei_text(choice, sizeof choice, "batch %lld in %s: ", (long long)r->batch,
                   yoke_dtype_name(r->precision));
    yokei_text(out, bytes, "%s%s%s", choice, layout, r->layout.by_replica ? ", by replica" : "");
}

const struct yokei_ranked *cli_most_tokens(const struct yokei_search_result *r)
{
    const struct yokei_ranked *most = &r->best[0];
    for (int i = 1; i < r->n_best; i++)
        if (r->best[i].prediction.tokens_per_second > most->prediction.tokens_per_second) most = &r->best[i];
    return most;
}

const struct yokei_rank_memory *cli_tightest(const struct yokei_prediction *p)
{
    const struct yokei_rank_memory *worst = &p->memory[0];
    for (int i = 1; i < p->n_memory; i++)
        if ((double)p->memory[i].report.total / (double)p->memory[i].have
            > (double)worst->report.total / (double)worst->have)
            worst = &p->memory[i];
    return worst;
}

const char *cli_bubble_bound_text(const struct yokei_search_result *r, char *out, size_t bytes)
{
    const double least = r->least_idle.prediction.bubble, bound = r->counts.bubble_bound;
    if (bound >= least * (1 - 1e-6))
        yokei_text(out, bytes, " (proved: no layout has a smaller one)");
    else
        yokei_text(out, bytes, " (the smallest that was found; no layout has one below %.3g)", bound);
    return out;
}
