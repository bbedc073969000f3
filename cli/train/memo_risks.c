/* SPDX-License-Identifier: Apache-2.0 */
/* The risks of a design memo: the precision, the memory, the links, and what a failure takes away. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/memo.h"
#include "cli/train/search_advice.h"
#include "core/base/base.h"

static const double SMALL_MARGIN = 0.1, LARGE_SHARE = 0.1;

static void precision_risk(const char *precision, FILE *to)
{
    fprintf(to, "- **Precision %s.** ", precision);
    if (!strcmp(precision, "f16"))
        fputs(
            "f16 has no numbers above 65,504, and small gradients become 0. The run needs loss scaling, and "
            "skips a step in which a gradient overflows. Watch the loss scale and the skipped steps.\n",
            to);
    else if (!strcmp(precision, "bf16"))
        fputs(
            "bf16 has the range of f32, so no loss scaling is needed. It has 8 bits of precision, so "
            "activations round more coarsely than in f32. Sums, master weights and moments are f32. Compare "
            "some steps with an f32 run of a small model.\n",
            to);
    else
        fputs("f32 has no risk of range. It is the slowest precision of most devices.\n", to);
}

static void memory_risk(const struct cli_searched *x, FILE *to)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    const struct yokei_rank_memory *tight = cli_tightest(p);
    const double missing = (double)(tight->have - tight->report.total) / 1048576.0;
    fprintf(
        to,
        "- **Memory.** Stage %d on %s has the least margin: %.1f MiB, %.1f %% of its memory. The plan's bytes "
        "are exact. %s\n",
        tight->stage, x->cluster->kind[tight->kind].name, missing, 100 * p->margin,
        p->margin < SMALL_MARGIN
            ? "The driver's own memory and fragments may need more than this margin, so try the stage first."
            : "This margin is enough for the driver's own memory.");
}

static void link_risk(const struct cli_searched *x, FILE *to)
{
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    const struct yokei_cluster *c = x->cluster;
    const double exposed = (p->split.tensor + p->split.exposed_sums) / p->step_seconds;
    const struct yokei_change *link = NULL;
    for (int i = 0; i < x->advice->n; i++)
        if (strstr(x->advice->change[i].text, "slowest link")) link = &x->advice->change[i];
    fprintf(to, "- **Links.** In %.1f %% of the step a rank only waits for a collective. ", 100 * exposed);
    const bool matters = link && link->fits && link->step_seconds < p->step_seconds * (1 - LARGE_SHARE / 2);
    fputs(exposed > LARGE_SHARE || matters ? "A slower or a lossy link costs time at once. "
                                           : "A somewhat slower link costs little. ",
          to);
    if (link) {
        char gain[64];
        cli_advice_gain(link, p->step_seconds, gain, sizeof gain);
        fprintf(to, "With %s: %s. ", link->text, gain);
    }
    int slowest = 0;
    for (int l = 1; l < c->n_links; l++)
        if (c->link[l].bytes_per_second < c->link[slowest].bytes_per_second) slowest = l;
    if (c->n_links)
        fprintf(to, "The slowest link of the cluster is %s with %.4g GB/s.", c->link[slowest].name,
                c->link[slowest].bytes_per_second * 1e-9);
    fputs("\n", to);
}

/* Stages all of whose replicas are in one host, so that the host has the only copies of their weights. */
static int stages_of_one_host(const struct yokei_layout *l, const struct yokei_places *places)
{
    int n = 0;
    for (int s = 0; s < l->pipeline; s++) {
        bool one = true;
        for (int d = 1; d < l->data; d++)
            one = one
                  && places->slot[yokei_layout_slot(l, s, d)].host
                         == places->slot[yokei_layout_slot(l, s, 0)].host;
        n += one;
    }
    return n;
}

static void failure_risk(const struct cli_searched *x, const struct yokei_places *places, FILE *to)
{
    const struct yokei_layout *l = &x->result->best[0].layout;
    const struct yokei_prediction *p = &x->result->best[0].prediction;
    int used[YOKEI_MOST_KINDS] = { 0 };
    char between[32];
    for (int i = 0; i < l->data * l->pipeline; i++) used[places->slot[i].kind] += l->tensor;
    fprintf(
        to,
        "- **Single points of failure.** A failure of any of the %d ranks stops the run until it restarts",
        p->n_ranks);
    if (x->goal->failures_per_day > 0)
        fprintf(to, ", on average every %s",
                cli_duration_text(cli_goal_between(x->goal, p), between, sizeof between));
    fputs(".", to);
    const int alone = stages_of_one_host(l, places);
    if (alone && l->data > 1)
        fprintf(to, " All replicas of %d of the %d stages are in one host each.", alone, l->pipeline);
    else if (alone)
        fputs(" There is one replica, so each rank has the only copy of its weights and moments.", to);
    if (l->zero) fputs(" With ZeRO-1 each replica has the only copy of its part of the moments.", to);
    if (alone || l->zero) fputs(" After such a loss only a checkpoint has them.", to);
    fputs(" Spare devices:", to);
    for (int k = 0, n = 0; k < x->cluster->n_kinds; k++)
        if (used[k])
            fprintf(to, "%s %d of %d %s", n++ ? "," : "", yokei_cluster_devices(x->cluster, k) - used[k],
                    yokei_cluster_devices(x->cluster, k), x->cluster->kind[k].name);
    fputs(".\n", to);
}

void cli_memo_risks(const char *precision, const struct cli_searched *x, const struct yokei_places *places,
                    FILE *to)
{
    fputs("\n## Risks\n\n", to);
    precision_risk(precision, to);
    memory_risk(x, to);
    link_risk(x, to);
    failure_risk(x, places, to);
    const bool measured = x->measured_seconds > 0;
    fprintf(to,
            "- **%s.** All times follow from its rates. A device or a link that is slower than %s makes the "
            "step longer, and another layout may then be the fastest.\n",
            measured ? "The measurement" : "The cluster file", measured ? "it was then" : "the file says");
}
