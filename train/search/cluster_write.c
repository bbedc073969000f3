/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a cluster as a cluster file. Everything is written, also what the reader takes by default. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/search/cluster_file.h"
#include "train/search/units.h"

static const char *const types[] = { "f32", "f16", "bf16" };

static void put(FILE *to, const char *before, enum yokei_quantity quantity, double value)
{
    char text[64];
    yokei_unit_write(quantity, value, text, sizeof text);
    fprintf(to, "%s%s", before, text);
}

static void put_speed(FILE *to, int class, const struct yokei_speed *s)
{
    fprintf(to, "        %s: { ", yokei_op_class_names[class]);
    if (s->n_points)
        fputs("rate: ", to);
    else if (class == YOKEI_CLASS_ATTENTION)
        fputs("rate: unlimited", to);
    const bool one = s->n_points == 1 && s->point[0].work == 0;
    for (int i = 0; i < s->n_points; i++) {
        if (!one) put(to, i ? ", " : "{ ", YOKEI_WORK, s->point[i].work);
        put(to, one ? "" : ": ", YOKEI_RATE, s->point[i].rate);
    }
    if (s->n_points && !one) fputs(" }", to);
    if (s->n_points || class == YOKEI_CLASS_ATTENTION) fputs(", ", to);
    if (s->bytes_per_second > 0)
        put(to, "bandwidth: ", YOKEI_BANDWIDTH, s->bytes_per_second);
    else
        fputs("bandwidth: unlimited", to);
    put(to, ", latency: ", YOKEI_SECONDS, s->seconds);
    fputs(" }\n", to);
}

static void put_device(FILE *to, const struct yokei_device_kind *k)
{
    fprintf(to, "  %s:\n", k->name);
    put(to, "    memory: ", YOKEI_MEMORY, (double)k->memory);
    if (k->device[0]) fprintf(to, "\n    local-device: %s", k->device);
    if (k->sharers) fprintf(to, "\n    local-ranks: %d", k->sharers);
    if (k->price > 0) put(to, "\n    price: ", YOKEI_PRICE, k->price);
    bool any = false;
    for (int t = 0; t < YOKEI_N_SPEED_TYPES; t++) {
        if (k->peak[t] <= 0) continue;
        fprintf(to, "%s%s", any ? ", " : "\n    peak: { ", types[t]);
        put(to, ": ", YOKEI_RATE, k->peak[t]);
        any = true;
    }
    fprintf(to, "%s\n    speeds:\n", any ? " }" : "");
    for (int t = 0; t < YOKEI_N_SPEED_TYPES; t++) {
        if (!k->speed[t][YOKEI_CLASS_GEMM].n_points) continue;
        fprintf(to, "      %s:\n", types[t]);
        for (int class = 0; class < YOKEI_N_CLASSES; class ++) put_speed(to, class, &k->speed[t][class]);
    }
}

static void put_host(FILE *to, const struct yokei_cluster *c, const struct yokei_cluster_host *h)
{
    fprintf(to, "  %s:\n    count: %d\n    devices:\n", h->name, h->n);
    for (int l = 0; l < h->n_lists; l++) {
        const struct yokei_host_devices *d = &h->devices[l];
        fprintf(to, "      - { device: %s, count: %d", c->kind[d->kind].name, d->n);
        if (d->link >= 0) fprintf(to, ", link: %s", c->link[d->link].name);
        fputs(" }\n", to);
    }
    if (h->inner >= 0) fprintf(to, "    inside: %s\n", c->link[h->inner].name);
    fprintf(to, "    nics: %d\n", h->n_links);
    if (h->price > 0) {
        put(to, "    price: ", YOKEI_PRICE, h->price);
        fputc('\n', to);
    }
}

static void put_cluster(FILE *to, const struct yokei_cluster *c)
{
    bool any = false;
    fputs("# A cluster for yoke plan. docs/PLANNING.md explains the keys and the units.\n", to);
    if (c->name[0]) fprintf(to, "name: \"%s\"\n", c->name);
    fputs("devices:\n", to);
    for (int k = 0; k < c->n_kinds; k++) put_device(to, &c->kind[k]);
    if (c->n_links) fputs("links:\n", to);
    for (int l = 0; l < c->n_links; l++) {
        fprintf(to, "  %s: {", c->link[l].name);
        put(to, " bandwidth: ", YOKEI_BANDWIDTH, c->link[l].bytes_per_second);
        put(to, ", latency: ", YOKEI_SECONDS, c->link[l].seconds);
        if (c->link[l].wait > 0) put(to, ", wait: ", YOKEI_SECONDS, c->link[l].wait);
        fputs(" }\n", to);
    }
    fputs("hosts:\n", to);
    for (int h = 0; h < c->n_hosts; h++) put_host(to, c, &c->host[h]);
    for (int a = 0; a < c->n_hosts; a++)
        for (int b = a; b < c->n_hosts; b++) {
            if (a == b && c->host[a].n == 1) continue;
            fprintf(to, "%s  - { hosts: [%s, %s], link: %s }\n", any ? "" : "between:\n", c->host[a].name,
                    c->host[b].name, c->link[c->between[a][b]].name);
            any = true;
        }
}

yoke_status yokei_cluster_text(const struct yokei_cluster *c, char **text_out)
{
    char *text = NULL;
    size_t bytes = 0;
    YOKE_TRY(yokei_cluster_check(c));
    FILE *to = open_memstream(&text, &bytes);
    struct yokei_cluster *again = malloc(sizeof *again);
    if (to) put_cluster(to, c);
    yoke_status status = YOKE_OK;
    if (!to || fclose(to) || !again) status = yoke_fail(YOKE_ENOMEM, "no memory to write a cluster");
    /* What this program cannot read again is not written. */
    if (!status) status = yokei_cluster_parse("the cluster", text, bytes, again);
    free(again);
    if (status)
        free(text);
    else
        *text_out = text;
    return status;
}

yoke_status yokei_cluster_write(const char *path, const struct yokei_cluster *cluster)
{
    char *text;
    YOKE_TRY(yokei_cluster_text(cluster, &text));
    const yoke_status status = yokei_file_write(path, text, strlen(text));
    free(text);
    return status;
}
