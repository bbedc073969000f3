/* SPDX-License-Identifier: Apache-2.0 */
/* What yoke plan --search prints, as text and as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/plan_search.h"
#include "cli/train/plan_source.h"
#include "cli/train/search_advice.h"
#include "core/base/base.h"
#include "train/trainer/memory.h"
#include "cli/options/json_values.h"

static const struct part {
    const char *name, *title;
    size_t offset;
} parts[] = {
#define PART(member, title)                                       \
    {                                                             \
#member, title, offsetof(struct yokei_step_split, member) \
    }
    PART(arithmetic, "arithmetic"), PART(recomputation, "recomputed"), PART(tensor, "tensor"),
    PART(bubble, "bubble"),         PART(exposed_sums, "sums"),        PART(optimizer, "optimizer"),
#undef PART
};

static double part_of(const struct yokei_step_split *s, const struct part *p)
{
    return *(const double *)(const void *)((const char *)s + p->offset);
}

/* The blocks of the virtual stages, with equal neighbours as "4x8". */
static void blocks_text(const struct yokei_layout *l, char *out, size_t bytes)
{
    const int n = l->pipeline * l->chunks;
    out[0] = 0;
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && l->blocks[end] == l->blocks[i];) end++;
        const size_t used = strlen(out);
        yokei_text(out + used, bytes - used, end > i + 1 ? "%s%dx%d" : "%s%d", i ? "," : "", l->blocks[i],
                   end - i);
    }
}

/* ---- text ---- */

static void show_head(const struct cli_searched *x)
{
    const struct yokei_search_result *r = x->result;
    const struct yokei_search_progress *n = &r->counts;
    printf("cluster          ");
    for (int k = 0; k < x->cluster->n_kinds; k++)
        printf("%s%d %s", k ? ", " : "", yokei_cluster_devices(x->cluster, k), x->cluster->kind[k].name);
    char batches[256], precisions[32];
    if (x->measured_seconds > 0) printf(" of this machine, measured in %.1f s", x->measured_seconds);
    printf("\nbatch            %s sequences of %lld tokens\n",
           cli_batches_text(x->choices, batches, sizeof batches), (long long)x->training->plan.sequence);
    printf("precision        %s\n", cli_precisions_text(x->choices, precisions, sizeof precisions));
    printf("searched         %lld meshes, %lld settings; %lld layouts predicted in %.1f s%s\n",
           (long long)n->n_meshes, (long long)n->n_settings, (long long)n->n_predicted, x->seconds,
           r->is_complete ? "" : "; interrupted");
    const bool several = x->choices->n > 1;
    if (r->is_proved)
        printf("proved           no other layout of the search is faster than the %s one here\n",
               several ? "slowest" : "last");
    else if (!several)
        printf("bound            no layout that was not predicted is faster than %.4g s\n", r->bound_seconds);
    else if (r->bound_seconds > 0)
        printf("bound            no layout that was not predicted has more than %.4g tokens/s\n",
               (double)(cli_most_tokens(r)->batch * x->training->plan.sequence) / r->bound_seconds);
    if (x->between_sums > 0)
        printf(
            "tensor           groups stay in one list of a host: on two hosts the sums of a block would take "
            "%.3g ms for a micro-batch, and its passes %.3g ms\n",
            1e3 * x->between_sums, 1e3 * x->between_passes);
    int n_equal = 0;
    for (int i = 0; i < r->n_best; i++) n_equal += r->best[i].n_equal;
    if (n_equal)
        printf(
            "left out         %d layout%s that equal%s one of these in all but what has no effect on the step\n",
            n_equal, n_equal > 1 ? "s" : "", n_equal > 1 ? "" : "s");
}

static void show_best(const struct cli_searched *x)
{
    printf("\n%3s %9s %12s %6s %7s %7s %9s  %s\n", "", "step s", "tokens/s", "MFU", "bubble", "memory",
           "per hour", "layout; blocks of the stages");
    for (int i = 0; i < x->result->n_best; i++) {
        const struct yokei_ranked *b = &x->result->best[i];
        const struct yokei_prediction *p = &b->prediction;
        char layout[320], blocks[600];
        cli_ranked_text(x, b, layout, sizeof layout);
        blocks_text(&b->layout, blocks, sizeof blocks);
        printf("%3d %9.4g %12.4g %5.1f%% %6.1f%% %6.1f%% %9.4g  %s; %s", i + 1, p->step_seconds,
               p->tokens_per_second, 100 * p->utilisation, 100 * p->bubble, 100 * (1 - p->margin),
               p->price_per_hour, layout, blocks);
        if (b->n_equal) printf("; and %d equal", b->n_equal);
        printf("\n");
    }
}

static void show_parts(const struct cli_searched *x)
{
    printf("\n%-3s", "");
    for (size_t k = 0; k < YOKE_COUNT(parts); k++) printf(" %11s", parts[k].title);
    printf("   seconds of the step on the stage that works longest, whose bubble is the smallest\n");
    for (int i = 0; i < x->result->n_best; i++) {
        printf("%3d", i + 1);
        for (size_t k = 0; k < YOKE_COUNT(parts); k++)
            printf(" %11.4g", part_of(&x->result->best[i].prediction.split, &parts[k]));
        printf("\n");
    }
}

/*
 * Why the second is not the first: the parts by which its step is longer. Steps of other batches are compared
 * by the time of a sequence.
 */
void cli_search_difference(const struct cli_searched *x, FILE *to)
{
    if (x->result->n_best < 2) return;
    const struct yokei_ranked *first = &x->result->best[0], *second = &x->result->best[1];
    const struct yokei_prediction *a = &first->prediction, *b = &second->prediction;
    const bool per_step = first->batch == second->batch;
    const double scale_a = per_step ? 1 : 1 / (double)first->batch,
                 scale_b = per_step ? 1 : 1 / (double)second->batch;
    const double more = b->step_seconds * scale_b - a->step_seconds * scale_a;
    if (fabs(more) <= 1e-9 * a->step_seconds * scale_a) {
        fprintf(to, "\nThe second layout takes the same time as the first.\n");
        return;
    }
    fprintf(to, "\nThe second layout takes %.4g s %s%s (%.1f %%):", fabs(more), more > 0 ? "longer" : "less",
            per_step ? "" : " for each sequence", 100 * fabs(more) / (a->step_seconds * scale_a));
    for (size_t k = 0; k < YOKE_COUNT(parts); k++) {
        const double part = part_of(&b->split, &parts[k]) * scale_b - part_of(&a->split, &parts[k]) * scale_a;
        if (fabs(part) > 1e-3 * a->step_seconds * scale_a || fabs(part) > 0.1 * fabs(more))
            fprintf(to, " %s %+.4g s", parts[k].title, part);
    }
    fprintf(to, "\n");
}

bool cli_is_device_part(const struct yokei_memory_part *m)
{
    return strcmp(m->name, "staging_shared") && strcmp(m->name, "staging") && strcmp(m->name, "host");
}

static void show_memory(const struct cli_searched *x)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    printf("\nmemory of the first layout, MiB of the rank that needs most\n%5s %-12s %6s", "stage", "device",
           "ranks");
    for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
        if (cli_is_device_part(m)) printf(" %9s", m->title);
    printf(" %9s\n", "has");
    for (int i = 0; i < p->n_memory; i++) {
        const struct yokei_rank_memory *r = &p->memory[i];
        printf("%5d %-12s %6d", r->stage, x->cluster->kind[r->kind].name, r->n_ranks);
        for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
            if (cli_is_device_part(m))
                printf(" %9.1f", (double)yokei_memory_part_of(&r->report, m) / 1048576.0);
        printf(" %9.1f\n", (double)r->have / 1048576.0);
    }
}

/* Which limit discards a region. */
static const char *limit_of(const struct yokei_region *r)
{
    if (isfinite(r->best_seconds)) return "none: it has layouts";
    if (r->n_memory + r->n_too_large > r->n_slow && r->n_memory + r->n_too_large >= r->n_idle)
        return "memory";
    if (r->n_idle) return "bubble";
    return r->n_slow ? "time" : "the model's division";
}

static void show_regions(const struct cli_searched *x)
{
    enum { MOST = 16 };
    const struct yokei_search_result *r = x->result;
    char of[64] = "";
    if (x->choices->n > 1)
        yokei_text(of, sizeof of, " of batch %lld in %s", (long long)cli_most_tokens(r)->batch,
                   yoke_dtype_name(cli_most_tokens(r)->precision));
    printf(
        "\nregions%s: all layouts with these stages and tensor ranks, and which limit discards them\n%4s %4s %9s %9s %9s  %s\n",
        of, "pp", "tp", "meshes", "best s", "bound s", "limit");
    for (int i = 0; i < YOKE_MIN(r->n_regions, MOST); i++) {
        const struct yokei_region *g = &r->region[i];
        char best[32] = "-";
        if (isfinite(g->best_seconds)) yokei_text(best, sizeof best, "%.4g", g->best_seconds);
        printf("%4d %4d %9lld %9s %9.4g  %s\n", g->pipeline, g->tensor, (long long)g->n_meshes, best,
               g->bound, limit_of(g));
    }
    if (r->n_regions > MOST) printf("and %d more (--json has them all)\n", r->n_regions - MOST);
}

void cli_search_show(const struct cli_searched *x)
{
    show_head(x);
    show_best(x);
    show_parts(x);
    cli_search_difference(x, stdout);
    cli_goal_show(x->goal, x->result);
    show_memory(x);
    show_regions(x);
    cli_advice_show(x);
}

void cli_predicted_show(const struct cli_searched *x)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    printf("batch            %lld sequences of %lld tokens", (long long)x->training->plan.batch,
           (long long)x->training->plan.sequence);
    for (int d = 0; d < p->n_shares && p->n_shares > 1; d++)
        printf("%s%lld", d ? ":" : ", by replica ", (long long)p->shares[d]);
    printf("\n");
    show_best(x);
    show_parts(x);
    cli_goal_show(x->goal, x->result);
    show_memory(x);
}

/* ---- JSON ---- */

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *layout_json(const struct yokei_cluster *c, const struct yokei_layout *l)
{
    json_t *kinds = json_array(), *blocks = json_array();
    for (int i = 0; i < l->n_kinds; i++) json_array_append_new(kinds, json_string(c->kind[l->kind[i]].name));
    for (int i = 0; i < l->pipeline * l->chunks; i++)
        json_array_append_new(blocks, json_integer(l->blocks[i]));
    return json_pack("{s:i, s:i, s:i, s:s, s:i, s:I, s:s, s:i, s:b, s:b, s:o, s:o}", "dp", l->data, "pp",
                     l->pipeline, "tp", l->tensor, "schedule",
                     l->pipeline > 1 ? yokei_pipeline_names[l->schedule] : "none", "chunks", l->chunks,
                     "micro_batch", (json_int_t)l->micro_batch, "recompute",
                     yokei_recompute_words[l->recompute], "zero", l->zero, "sequence_parallel",
                     (int)l->sequence_parallel, "by_replica", (int)l->by_replica, "devices", kinds, "layers",
                     blocks);
}

static json_t *ranked_json(const struct cli_searched *x, const struct yokei_ranked *b)
{
    const struct yokei_cluster *c = x->cluster;
    const struct yokei_prediction *p = &b->prediction;
    json_t *split = json_object(), *memory = json_array(), *shares = json_array();
    for (size_t k = 0; k < YOKE_COUNT(parts); k++)
        json_object_set_new(split, parts[k].name, number(part_of(&p->split, &parts[k])));
    for (int i = 0; i < p->n_memory; i++)
        json_array_append_new(
            memory, json_pack("{s:i, s:s, s:i, s:o, s:I}", "stage", p->memory[i].stage, "device",
                              c->kind[p->memory[i].kind].name, "n_ranks", p->memory[i].n_ranks, "memory",
                              cli_memory_json(&p->memory[i].report), "have", (json_int_t)p->memory[i].have));
    for (int d = 0; d < p->n_shares; d++)
        json_array_append_new(shares, json_integer((json_int_t)p->shares[d]));
    return json_pack("{s:I, s:s, s:i, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:o, s:o}",
                     "batch", (json_int_t)b->batch, "precision", yoke_dtype_name(b->precision), "equal",
                     b->n_equal, "layout", layout_json(c, &b->layout), "n_ranks", p->n_ranks, "step_seconds",
                     number(p->step_seconds), "tokens_per_second", number(p->tokens_per_second), "mfu",
                     number(p->utilisation), "bubble", number(p->bubble), "price_per_hour",
                     number(p->price_per_hour), "bound_seconds", number(b->bound), "fits", (int)p->fits,
                     "margin", number(p->margin), "seconds", split, "memory", memory, "shares", shares,
                     "goal", cli_goal_json(x->goal, b));
}

static json_t *regions_json(const struct yokei_search_result *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->n_regions; i++) {
        const struct yokei_region *g = &r->region[i];
        json_array_append_new(
            list, json_pack("{s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s}", "pp",
                            g->pipeline, "tp", g->tensor, "meshes", (json_int_t)g->n_meshes, "settings",
                            (json_int_t)g->n_settings, "by_time", (json_int_t)g->n_slow, "by_memory",
                            (json_int_t)g->n_memory, "refused", (json_int_t)g->n_refused, "predicted",
                            (json_int_t)g->n_predicted, "do_not_fit", (json_int_t)g->n_too_large, "by_bubble",
                            (json_int_t)g->n_idle, "best_seconds", number(g->best_seconds), "bound_seconds",
                            number(g->bound), "limit", limit_of(g)));
    }
    return list;
}

yoke_status cli_search_json(const struct cli_searched *x)
{
    const struct yokei_search_result *r = x->result;
    json_t *best = json_array();
    json_t *batches = json_array(), *precisions = json_array();
    for (int i = 0; i < r->n_best; i++) json_array_append_new(best, ranked_json(x, &r->best[i]));
    for (int i = 0; i < x->choices->n_batches; i++)
        json_array_append_new(batches, json_integer((json_int_t)x->choices->batch[i]));
    for (int i = 0; i < x->choices->n_precisions; i++)
        json_array_append_new(precisions, json_string(yoke_dtype_name(x->choices->choice[i].precision)));
    json_t *root = json_pack(
        "{s:i, s:s, s:o, s:o, s:I, s:s, s:I, s:b, s:b, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:i, s:o, s:o}",
        "schema", 1, "cluster", x->cluster->name, "batches", batches, "precisions", precisions, "batch",
        (json_int_t)r->best[0].batch, "precision", yoke_dtype_name(r->best[0].precision), "sequence",
        (json_int_t)x->training->plan.sequence, "complete", (int)r->is_complete, "proved", (int)r->is_proved,
        "bound_seconds", number(r->bound_seconds), "meshes", (json_int_t)r->counts.n_meshes, "settings",
        (json_int_t)r->counts.n_settings, "predicted", (json_int_t)r->counts.n_predicted, "search_seconds",
        number(x->seconds), "best", best, "regions", regions_json(r), "cheapest",
        cli_goal_cheapest(x->goal, r), "advice", cli_advice_json(x), "measured_seconds",
        x->measured_seconds > 0 ? number(x->measured_seconds) : json_null());
    return cli_json_print(root, "yoke plan");
}

yoke_status cli_predicted_json(const struct cli_searched *x)
{
    json_t *root = ranked_json(x, &x->result->best[0]);
    if (root) json_object_set_new(root, "schema", json_integer(1));
    return cli_json_print(root, "yoke plan");
}
