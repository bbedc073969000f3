/* SPDX-License-Identifier: Apache-2.0 */
/* The measured devices and links of a memo, as tables, and as a cluster file for the commands of the memo. */
#include "cli/train/memo_measured.h"

#include <stdlib.h>

#include "core/base/base.h"
#include "train/search/cluster_file.h"

/* The rate of large ops in GFLOP/s. */
static void put_rate(const struct yokei_speed *s, FILE *to)
{
    if (s->n_points)
        fprintf(to, " %.4g |", s->point[s->n_points - 1].rate * 1e-9);
    else
        fputs(" unlimited |", to);
}

void cli_memo_measured(const struct yokei_cluster *c, yoke_dtype precision, double seconds, FILE *to)
{
    const enum yokei_speed_type type = yokei_speed_type_of(precision);
    fprintf(to,
            "\n## Measured devices and links\n\nThe search measured this machine in %.1f s. All predictions "
            "rest on these numbers. They change with the other load of the machine.\n\n"
            "| device | number | gemm, GFLOP/s in %s | attention, GFLOP/s | memory, GB/s |\n"
            "|---|---|---|---|---|\n",
            seconds, yoke_dtype_name(precision));
    for (int k = 0; k < c->n_kinds; k++) {
        const struct yokei_speed *speed = c->kind[k].speed[type];
        fprintf(to, "| %s | %d |", c->kind[k].name, yokei_cluster_devices(c, k));
        put_rate(&speed[YOKEI_CLASS_GEMM], to);
        put_rate(&speed[YOKEI_CLASS_ATTENTION], to);
        if (speed[YOKEI_CLASS_OTHER].bytes_per_second > 0)
            fprintf(to, " %.4g |\n", speed[YOKEI_CLASS_OTHER].bytes_per_second * 1e-9);
        else
            fputs(" unlimited |\n", to);
    }
    if (c->n_links) fputs("\n| link | bandwidth, GB/s | latency, us |\n|---|---|---|\n", to);
    for (int l = 0; l < c->n_links; l++)
        fprintf(to, "| %s | %.4g | %.4g |\n", c->link[l].name, c->link[l].bytes_per_second * 1e-9,
                c->link[l].seconds * 1e6);
}

yoke_status cli_memo_cluster_command(const struct yokei_cluster *c, FILE *to)
{
    char *text;
    YOKE_TRY(yokei_cluster_text(c, &text));
    fprintf(to,
            "\nThe measured devices and links, as a cluster file for the next command. `yoke run -- bench "
            "cluster` measures them anew:\n\n```\ncat >" CLI_MEMO_CLUSTER " <<'END'\n%sEND\n```\n",
            text);
    free(text);
    return YOKE_OK;
}
