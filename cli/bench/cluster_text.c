/* SPDX-License-Identifier: Apache-2.0 */
/* The results of yoke bench cluster: the cluster file, JSON, and a table. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/cluster.h"
#include "cli/options/json_values.h"
#include "core/base/base.h"

/* The ranks of a kind as text: "0-3,5". */
static void ranks_text(const struct bench_cluster *b, int kind, char *out, size_t bytes)
{
    const int size = b->context->size;
    out[0] = '\0';
    for (int r = 0, last; r < size; r = last + 1) {
        last = r;
        if (b->place[r].kind != kind) continue;
        while (last + 1 < size && b->place[last + 1].kind == kind) last++;
        const size_t n = strlen(out);
        if (n + 16 > bytes) {
            yokei_text(out + n, bytes - n, ",...");
            return;
        }
        if (last > r)
            yokei_text(out + n, bytes - n, "%s%d-%d", n ? "," : "", r, last);
        else
            yokei_text(out + n, bytes - n, "%s%d", n ? "," : "", r);
    }
}

static int first_of(const struct bench_cluster *b, int kind)
{
    int r = 0;
    while (b->place[r].kind != kind) r++;
    return r;
}

/* A text in one line of a comment: only printable ASCII. */
static void put_plain(const char *text, FILE *to)
{
    for (const char *p = text; *p; p++) fputc(*p >= ' ' && *p < 127 ? *p : '?', to);
}

yoke_status bench_cluster_file(const struct bench_cluster *b, char **text_out)
{
    char *cluster, *text = NULL, ranks[128];
    size_t bytes;
    YOKE_TRY(yokei_cluster_text(b->cluster, &cluster));
    FILE *to = open_memstream(&text, &bytes);
    if (to) {
        fprintf(
            to,
            "# Measured by yoke bench cluster (yoke %s) on %d rank%s that worked at the same time, in %.0f s.\n"
            "# Devices of a kind differ by at most %.0f %%.\n",
            yoke_version(), b->context->size, b->context->size > 1 ? "s" : "", b->seconds,
            100 * b->tolerance);
        for (int k = 0; k < b->cluster->n_kinds; k++) {
            const struct yokei_measured_rank *first = &b->rank[first_of(b, k)];
            ranks_text(b, k, ranks, sizeof ranks);
            fprintf(to, "# %s: rank%s %s, each with %d thread%s, ", b->cluster->kind[k].name,
                    strpbrk(ranks, "-,") ? "s" : "", ranks, first->threads, first->threads > 1 ? "s" : "");
            put_plain(first->name, to);
            fputc('\n', to);
        }
        fputs(cluster, to);
    }
    free(cluster);
    if (!to || fclose(to)) {
        free(text);
        return yoke_fail(YOKE_ENOMEM, "no memory to write a cluster");
    }
    *text_out = text;
    return YOKE_OK;
}

static json_t *rank_json(const struct bench_cluster *b, int r)
{
    const struct yokei_measured_rank *m = &b->rank[r];
    json_t *ops = json_array();
    for (int i = 0; i < b->n_ops; i++) {
        const struct yokei_op_time *op = &b->op[r * b->n_ops + i];
        if (op->seconds > 0)
            json_array_append_new(ops, json_pack("{s:s, s:s, s:f, s:f, s:f, s:f}", "op", op->op, "dtype",
                                                 op->dtype, "seconds", op->seconds, "flops", op->flops,
                                                 "bytes", op->bytes, "count", op->count));
    }
    return json_pack("{s:i, s:o, s:s, s:o, s:i, s:I, s:s, s:f, s:f, s:o}", "rank", r, "host",
                     cli_json_text(m->host_name), "device", m->device, "name", cli_json_text(m->name),
                     "threads", m->threads, "free_bytes", (json_int_t)m->memory, "kind",
                     b->cluster->kind[b->place[r].kind].name, "slowdown", m->slowdown, "time",
                     b->place[r].time, "ops", ops);
}

yoke_status bench_cluster_json(const struct bench_cluster *b)
{
    json_t *ranks = json_array(), *links = json_array();
    char *cluster;
    for (int r = 0; r < b->context->size; r++) json_array_append_new(ranks, rank_json(b, r));
    for (int l = 0; l < b->cluster->n_links; l++)
        json_array_append_new(links,
                              json_pack("{s:s, s:f, s:f, s:f}", "name", b->cluster->link[l].name,
                                        "bytes_per_second", b->cluster->link[l].bytes_per_second, "seconds",
                                        b->cluster->link[l].seconds, "wait", b->cluster->link[l].wait));
    YOKE_TRY(yokei_cluster_text(b->cluster, &cluster));
    json_t *root = json_pack("{s:i, s:s, s:f, s:f, s:s, s:o, s:o}", "schema", 1, "version", yoke_version(),
                             "seconds", b->seconds, "tolerance", b->tolerance, "cluster", cluster, "links",
                             links, "ranks", ranks);
    free(cluster);
    return cli_json_print(root, "yoke bench cluster");
}

void bench_cluster_show(const struct bench_cluster *b)
{
    char ranks[64];
    cli_note("%d rank%s measured at the same time, in %.1f s. A kind's devices differ by at most %.0f %%",
             b->context->size, b->context->size > 1 ? "s" : "", b->seconds, 100 * b->tolerance);
    for (int k = 0; k < b->cluster->n_kinds; k++) {
        const struct yokei_device_kind *kind = &b->cluster->kind[k];
        const int first = first_of(b, k);
        ranks_text(b, k, ranks, sizeof ranks);
        cli_note("%-12s rank%s %s: ops take %.2f of the time of the first such device, stands still %.0f %%, "
                 "%.1f GiB for each rank",
                 kind->name, strpbrk(ranks, "-,") ? "s" : "", ranks, b->place[first].time,
                 100 * (1 - 1 / b->rank[first].slowdown), (double)kind->memory / 1073741824.0);
        for (int t = 0; t < YOKEI_N_SPEED_TYPES; t++) {
            static const char *const names[] = { "f32", "f16", "bf16" };
            const struct yokei_speed *gemm = &kind->speed[t][YOKEI_CLASS_GEMM],
                                     *other = &kind->speed[t][YOKEI_CLASS_OTHER];
            if (gemm->n_points)
                cli_note("  %-4s products %.4g to %.4g GFLOP/s, other ops %.4g GB/s and %.3g us", names[t],
                         gemm->point[0].rate * 1e-9, gemm->point[gemm->n_points - 1].rate * 1e-9,
                         other->bytes_per_second * 1e-9, other->seconds * 1e6);
        }
    }
    for (int l = 0; l < b->cluster->n_links; l++)
        cli_note("%-12s %.4g GB/s, %.3g us, and %.3g us between ops", b->cluster->link[l].name,
                 b->cluster->link[l].bytes_per_second * 1e-9, b->cluster->link[l].seconds * 1e6,
                 b->cluster->link[l].wait * 1e6);
}
