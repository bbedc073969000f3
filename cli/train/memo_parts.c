/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that every design memo has: the title, the limits, and the memory of a layout. */
#include <string.h>

#include "cli/train/memo.h"
#include "cli/train/memo_measured.h"
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer/memory.h"

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
    if (x->measured_seconds > 0)
        cli_memo_measured(x->unlimited, x->choices->choice[0].precision, x->measured_seconds, to);
}

void cli_memo_memory(const struct cli_searched *x, const struct yokei_prediction *p, FILE *to)
{
    fputs(
        "\n## Memory\n\nMiB of the rank that needs most. The stash, the bounds, the received activations, the "
        "work and the unused part are parts of the activations.\n\n| stage | device | ranks |",
        to);
    for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
        if (cli_is_device_part(m)) fprintf(to, " %s |", m->title);
    fputs(" has |\n|---|---|---|", to);
    for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
        if (cli_is_device_part(m)) fputs("---|", to);
    fputs("---|\n", to);
    for (int i = 0; i < p->n_memory; i++) {
        const struct yokei_rank_memory *r = &p->memory[i];
        fprintf(to, "| %d | %s | %d |", r->stage, x->cluster->kind[r->kind].name, r->n_ranks);
        for (const struct yokei_memory_part *m = yokei_memory_parts; m->name; m++)
            if (cli_is_device_part(m))
                fprintf(to, " %.2f |", (double)yokei_memory_part_of(&r->report, m) / 1048576.0);
        fprintf(to, " %.2f |\n", (double)r->have / 1048576.0);
    }
}
