/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster: its checks, and the times of ops on its devices. */
#include <math.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/cluster.h"

#define CLASS_TEXT(name, text) text,
const char *const yokei_op_class_names[YOKEI_N_CLASSES + 1] = { YOKEI_OP_CLASSES(CLASS_TEXT) NULL };
#undef CLASS_TEXT

static const char *const type_names[YOKEI_N_SPEED_TYPES] = { "f32", "f16", "bf16" };
static const double MOST_RATE = 1e18, MOST_SECONDS = 3600, MOST_PRICE = 1e6;
static const uint64_t LEAST_MEMORY = UINT64_C(1) << 20, MOST_MEMORY = UINT64_C(1) << 50;
enum { MOST_COPIES = 1 << 16 };

int yokei_op_class_of(const char *op)
{
    if (!strncmp(op, "tensor_", 7)) return -1;
    if (!strcmp(op, "gemm")) return YOKEI_CLASS_GEMM;
    if (!strncmp(op, "attention_", 10)) return YOKEI_CLASS_ATTENTION;
    if (!strcmp(op, "adamw") || !strcmp(op, "grad_norm")) return YOKEI_CLASS_OPTIMIZER;
    return YOKEI_CLASS_OTHER;
}

double yokei_op_seconds(const struct yokei_speed *s, double flops, double bytes)
{
    double seconds = 0;
    int i = 0;
    while (i + 1 < s->n_points && s->point[i + 1].work <= flops) i++;
    if (s->n_points) seconds = flops / s->point[i].rate;
    if (s->bytes_per_second > 0) seconds = fmax(seconds, bytes / s->bytes_per_second);
    return s->seconds + seconds;
}

int yokei_cluster_devices(const struct yokei_cluster *c, int kind)
{
    int n = 0;
    for (int h = 0; h < c->n_hosts; h++)
        for (int l = 0; l < c->host[h].n_lists; l++)
            if (kind < 0 || c->host[h].devices[l].kind == kind) n += c->host[h].n * c->host[h].devices[l].n;
    return n;
}

/* ---- checks ---- */

static bool lies_in(double x, double least, double most) { return x >= least && x <= most; }

static yoke_status refuse(const char *what, const char *name, const char *member, double value,
                          const char *range)
{
    return yoke_fail(YOKE_ECONFIG, "cluster: %s %s: %s is %g; it must be %s", what, name, member, value,
                     range);
}

static yoke_status check_speed(const struct yokei_device_kind *k, int type, int class)
{
    const struct yokei_speed *s = &k->speed[type][class];
    char name[80];
    yokei_text(name, sizeof name, "%s, %s in %s", k->name, yokei_op_class_names[class], type_names[type]);
    if (s->n_points < 0 || s->n_points > YOKEI_MOST_POINTS)
        return refuse("device", name, "the number of points", s->n_points, "from 0 to 8");
    for (int i = 0; i < s->n_points; i++) {
        if (!lies_in(s->point[i].rate, 1, MOST_RATE))
            return refuse("device", name, "a rate", s->point[i].rate, "from 1 to 1e18 FLOP/s");
        if (!lies_in(s->point[i].work, 0, 1e30) || (i && s->point[i].work <= s->point[i - 1].work))
            return refuse("device", name, "the work of a point", s->point[i].work,
                          "more than that before it");
        if (i && s->point[i].rate < s->point[i - 1].rate)
            return refuse("device", name, "a rate", s->point[i].rate, "at least that of smaller work");
    }
    if (!lies_in(s->bytes_per_second, 0, MOST_RATE))
        return refuse("device", name, "the bandwidth", s->bytes_per_second, "from 0 to 1e18 bytes/s");
    if (!lies_in(s->seconds, 0, MOST_SECONDS))
        return refuse("device", name, "the time of an empty op", s->seconds, "from 0 to 3600 seconds");
    return YOKE_OK;
}

static yoke_status check_kind(const struct yokei_cluster *c, int index)
{
    const struct yokei_device_kind *k = &c->kind[index];
    bool any = false;
    if (!k->name[0]) return yoke_fail(YOKE_ECONFIG, "cluster: device %d has no name: give it one", index);
    for (int other = 0; other < index; other++)
        if (!strcmp(c->kind[other].name, k->name))
            return yoke_fail(YOKE_ECONFIG, "cluster: two devices are called %s: rename one", k->name);
    if (k->memory < LEAST_MEMORY || k->memory > MOST_MEMORY)
        return refuse("device", k->name, "the memory", (double)k->memory, "from 1 MiB to 1 PiB, in bytes");
    for (int type = 0; type < YOKEI_N_SPEED_TYPES; type++) {
        for (int class = 0; class < YOKEI_N_CLASSES; class ++) YOKE_TRY(check_speed(k, type, class));
        any = any || k->speed[type][YOKEI_CLASS_GEMM].n_points > 0;
        if (!lies_in(k->peak[type], 0, MOST_RATE))
            return refuse("device", k->name, "the peak", k->peak[type], "from 0 to 1e18 FLOP/s");
    }
    if (!any)
        return yoke_fail(YOKE_ECONFIG,
                         "cluster: device %s has no speed of matrix products in any precision: give one in "
                         "FLOP/s, or the result of yoke bench kernels --json",
                         k->name);
    return lies_in(k->price, 0, MOST_PRICE)
               ? YOKE_OK
               : refuse("device", k->name, "the price", k->price, "from 0 to 1e6");
}

static yoke_status check_link(const struct yokei_link *l)
{
    if (!lies_in(l->bytes_per_second, 1, MOST_RATE))
        return refuse("link", l->name, "the rate", l->bytes_per_second, "from 1 to 1e18 bytes/s");
    if (!lies_in(l->wait, 0, MOST_SECONDS))
        return refuse("link", l->name, "the wait", l->wait, "from 0 to 3600 seconds");
    return lies_in(l->seconds, 0, MOST_SECONDS)
               ? YOKE_OK
               : refuse("link", l->name, "the latency", l->seconds, "from 0 to 3600 seconds");
}

static bool is_link(const struct yokei_cluster *c, int link) { return link >= 0 && link < c->n_links; }

static yoke_status check_host(const struct yokei_cluster *c, const struct yokei_cluster_host *h)
{
    if (h->n < 1 || h->n > MOST_COPIES)
        return refuse("host", h->name, "the number of hosts", h->n, "from 1 to 65536");
    if (h->n_lists < 1 || h->n_lists > YOKEI_MOST_DEVICE_LISTS)
        return refuse("host", h->name, "the number of its lists of devices", h->n_lists, "from 1 to 4");
    for (int l = 0; l < h->n_lists; l++) {
        const struct yokei_host_devices *d = &h->devices[l];
        if (d->kind < 0 || d->kind >= c->n_kinds)
            return yoke_fail(YOKE_ECONFIG, "cluster: host %s: list %d has devices of no known kind", h->name,
                             l);
        if (d->n < 1 || d->n > MOST_COPIES)
            return refuse("host", h->name, "the number of devices", d->n, "from 1 to 65536");
        if (d->n > 1 && !is_link(c, d->link))
            return yoke_fail(YOKE_ECONFIG, "cluster: host %s: the link between its %d devices %s is missing",
                             h->name, d->n, c->kind[d->kind].name);
    }
    if (h->n_lists > 1 && !is_link(c, h->inner))
        return yoke_fail(YOKE_ECONFIG, "cluster: host %s: the link between its devices %s and %s is missing",
                         h->name, c->kind[h->devices[0].kind].name, c->kind[h->devices[1].kind].name);
    if (h->n_links < 1 || h->n_links > MOST_COPIES)
        return refuse("host", h->name, "the number of links to other hosts", h->n_links, "from 1 to 65536");
    return lies_in(h->price, 0, MOST_PRICE) ? YOKE_OK
                                            : refuse("host", h->name, "the price", h->price, "from 0 to 1e6");
}

static yoke_status check_between(const struct yokei_cluster *c)
{
    for (int a = 0; a < c->n_hosts; a++)
        for (int b = 0; b < c->n_hosts; b++) {
            if (a == b && c->host[a].n == 1) continue;
            if (!is_link(c, c->between[a][b]))
                return yoke_fail(YOKE_ECONFIG, "cluster: the link between hosts %s and %s is missing",
                                 c->host[a].name, a == b ? "of the same entry" : c->host[b].name);
            if (c->between[a][b] != c->between[b][a])
                return yoke_fail(YOKE_ECONFIG, "cluster: two links between hosts %s and %s: give one",
                                 c->host[a].name, c->host[b].name);
        }
    return YOKE_OK;
}

yoke_status yokei_cluster_check(const struct yokei_cluster *c)
{
    if (c->n_kinds < 1 || c->n_kinds > YOKEI_MOST_KINDS || c->n_links < 0 || c->n_links > YOKEI_MOST_LINKS
        || c->n_hosts < 1 || c->n_hosts > YOKEI_MOST_HOSTS)
        return yoke_fail(
            YOKE_ECONFIG,
            "cluster: %d kinds of devices, %d links and %d entries of hosts: give 1 to %d, 0 to %d "
            "and 1 to %d",
            c->n_kinds, c->n_links, c->n_hosts, YOKEI_MOST_KINDS, YOKEI_MOST_LINKS, YOKEI_MOST_HOSTS);
    for (int k = 0; k < c->n_kinds; k++) YOKE_TRY(check_kind(c, k));
    for (int l = 0; l < c->n_links; l++) YOKE_TRY(check_link(&c->link[l]));
    for (int h = 0; h < c->n_hosts; h++) YOKE_TRY(check_host(c, &c->host[h]));
    const int n = yokei_cluster_devices(c, -1);
    if (n > MOST_COPIES)
        return yoke_fail(YOKE_ECONFIG, "cluster: %d devices; at most %d are planned for", n, MOST_COPIES);
    return check_between(c);
}
