/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster from the measurements of a job's ranks. */
#include "train/search/measured.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"

struct making {
    const struct yokei_measured *m;
    struct yokei_cluster *c;
    struct yokei_measured_place *place;
    double *room; /* [n_ranks + n_ops] */
    int *order;   /* [n_ranks] */
};

double yokei_measured_seconds(const struct yokei_measured_rank *rank, const struct yokei_op_time *op)
{
    return op->count > 0 || op->seconds > YOKEI_LONG_OP ? op->seconds : op->seconds * fmax(rank->slowdown, 1);
}

/* ---- which devices are alike ---- */

static size_t backend_length(const char *device) { return strcspn(device, ":"); }

static bool same_device(const struct yokei_measured *m, int a, int b)
{
    const struct yokei_measured_rank *x = &m->rank[a], *y = &m->rank[b];
    if (backend_length(x->device) != backend_length(y->device)
        || strncmp(x->device, y->device, backend_length(x->device)) != 0 || strcmp(x->name, y->name) != 0)
        return false;
    for (int i = 0; i < m->n_ops; i++) /* one of them may not have a precision */
        if ((m->op[a * m->n_ops + i].seconds > 0) != (m->op[b * m->n_ops + i].seconds > 0)) return false;
    return true;
}

/* The median of the times of rank a / those of rank b. */
static double compare(const struct making *w, int a, int b)
{
    const struct yokei_measured *m = w->m;
    int n = 0;
    for (int i = 0; i < m->n_ops; i++) {
        const struct yokei_op_time *x = &m->op[a * m->n_ops + i], *y = &m->op[b * m->n_ops + i];
        if (x->seconds > 0 && y->seconds > 0)
            w->room[n++] = yokei_measured_seconds(&m->rank[a], x) / yokei_measured_seconds(&m->rank[b], y);
    }
    return n ? yokei_median(w->room, n) : 1;
}

/* Give each rank a kind. Kinds have their numbers in the order of their first ranks. Returns their number. */
static int sort_ranks(struct making *w, double tolerance)
{
    const struct yokei_measured *m = w->m;
    int n_kinds = 0;
    for (int r = 0; r < m->n_ranks; r++) w->place[r].kind = -1;
    for (int first = 0; first < m->n_ranks; first++) {
        int n = 0;
        if (w->place[first].kind >= 0) continue;
        for (int r = first; r < m->n_ranks; r++) { /* by ascending time */
            if (w->place[r].kind >= 0 || !same_device(m, first, r)) continue;
            w->place[r].time = r == first ? 1 : compare(w, r, first);
            int at = n++;
            for (; at && w->place[w->order[at - 1]].time > w->place[r].time; at--)
                w->order[at] = w->order[at - 1];
            w->order[at] = r;
        }
        double fastest = 0;
        for (int i = 0; i < n; i++) {
            const double time = w->place[w->order[i]].time;
            if (!i || time > fastest * (1 + tolerance)) fastest = time, n_kinds++;
            w->place[w->order[i]].kind = n_kinds - 1;
        }
    }
    return n_kinds;
}

static void number_kinds(struct making *w)
{
    int number[YOKEI_MOST_KINDS], n = 0;
    for (int k = 0; k < YOKEI_MOST_KINDS; k++) number[k] = -1;
    for (int r = 0; r < w->m->n_ranks; r++) {
        int *k = &number[w->place[r].kind];
        if (*k < 0) *k = n++;
        w->place[r].kind = *k;
    }
}

/* ---- hosts ---- */

/* The devices of a host as lists, in the order of their first ranks. False: there are too many lists. */
static bool list_devices(const struct making *w, int host, struct yokei_cluster_host *h)
{
    h->n_lists = 0;
    for (int r = 0; r < w->m->n_ranks; r++) {
        int l = 0;
        if (w->m->rank[r].host != host) continue;
        while (l < h->n_lists && h->devices[l].kind != w->place[r].kind) l++;
        if (l == YOKEI_MOST_DEVICE_LISTS) return false;
        if (l == h->n_lists)
            h->devices[h->n_lists++] = (struct yokei_host_devices){ w->place[r].kind, 0, -1 };
        h->devices[l].n++;
    }
    return true;
}

static bool has_same_devices(const struct yokei_cluster_host *a, const struct yokei_cluster_host *b)
{
    if (a->n_lists != b->n_lists) return false;
    for (int l = 0; l < a->n_lists; l++)
        if (a->devices[l].kind != b->devices[l].kind || a->devices[l].n != b->devices[l].n) return false;
    return true;
}

static int n_hosts_of(const struct yokei_measured *m)
{
    int n = 0;
    for (int r = 0; r < m->n_ranks; r++) n = YOKE_MAX(n, m->rank[r].host + 1);
    return n;
}

/* A name for a cluster file, that no earlier entry has. */
static void name_host(struct yokei_cluster *c, int entry, const char *host_name)
{
    char *name = c->host[entry].name;
    size_t n = 0;
    for (const char *p = host_name; *p && *p != '.' && n < 24; p++) {
        const bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (plain || (n && (*p == '-' || *p == '_'))) name[n++] = *p;
    }
    name[n] = '\0';
    if (!n || !strcmp(name, "all")) yokei_text(name, sizeof c->host[entry].name, "host");
    for (int e = 0; e < entry; e++)
        if (!strcmp(c->host[e].name, name)) {
            n = strlen(name);
            yokei_text(name + n, sizeof c->host[entry].name - n, "-%d", entry + 1);
        }
}

/* Hosts with the same devices become one entry. YOKE_OK with n_hosts 0: a host has too many kinds. */
static yoke_status make_hosts(struct making *w)
{
    const struct yokei_measured *m = w->m;
    const int n_hosts = n_hosts_of(m);
    struct yokei_cluster *c = w->c;
    c->n_hosts = 0;
    for (int host = 0; host < n_hosts; host++) {
        struct yokei_cluster_host h = { .n = 1, .inner = -1, .n_links = 1 };
        int first = 0, e = 0;
        while (m->rank[first].host != host) first++;
        if (!list_devices(w, host, &h)) return c->n_hosts = 0, YOKE_OK;
        while (e < c->n_hosts && !has_same_devices(&c->host[e], &h)) e++;
        if (e == YOKEI_MOST_HOSTS)
            return yoke_fail(YOKE_ECONFIG, "the hosts have more than %d different lists of devices",
                             YOKEI_MOST_HOSTS);
        if (e == c->n_hosts) {
            c->host[c->n_hosts++] = h;
            name_host(c, e, m->rank[first].host_name);
        } else
            c->host[e].n++;
        for (int r = 0; r < m->n_ranks; r++) {
            int l = 0;
            if (m->rank[r].host != host) continue;
            while (c->host[e].devices[l].kind != w->place[r].kind) l++;
            w->place[r].entry = e, w->place[r].list = l;
        }
    }
    memset(c->between, 0xff, sizeof c->between); /* -1 */
    return YOKE_OK;
}

/* ---- a kind of device ---- */

static int device_index(const char *device)
{
    const char *colon = strrchr(device, ':');
    return colon ? atoi(colon + 1) : 0;
}

/*
 * Name the device of a kind for --devices, and count the ranks that share one. The devices of a list have
 * ascending numbers: otherwise the kind gets no name, because a cluster file cannot say it.
 */
static void name_local_device(const struct making *w, int kind)
{
    const struct yokei_measured *m = w->m;
    struct yokei_device_kind *k = &w->c->kind[kind];
    const struct yokei_measured_rank *first = NULL;
    int n = 0;
    for (int r = 0; r < m->n_ranks; r++) {
        if (w->place[r].kind != kind) continue;
        if (!first) first = &m->rank[r];
        n += m->rank[r].host == first->host && !strcmp(m->rank[r].device, first->device);
    }
    k->sharers = strchr(first->device, ':') && n > 1 ? n : 0;
    yokei_text(k->device, sizeof k->device, "%s", first->device);
    for (int host = 0; host < n_hosts_of(m); host++) {
        int i = 0;
        for (int r = 0; r < m->n_ranks; r++) {
            if (w->place[r].kind != kind || m->rank[r].host != host) continue;
            if (device_index(m->rank[r].device) != device_index(first->device) + i++ / YOKE_MAX(k->sharers, 1)
                && strchr(first->device, ':'))
                k->device[0] = '\0';
        }
    }
}

static uint64_t memory_of(const struct yokei_measured *m, int rank)
{
    uint64_t least = m->rank[rank].memory;
    int n = 0;
    for (int r = 0; r < m->n_ranks; r++)
        if (m->rank[r].pool == m->rank[rank].pool) {
            least = YOKE_MIN(least, m->rank[r].memory);
            n++;
        }
    return least / (uint64_t)n / (1 << 20) * (1 << 20); /* whole MiB, which the file shows well */
}

static void name_kind(struct yokei_cluster *c, int kind, const char *device)
{
    char *name = c->kind[kind].name;
    int n = 1;
    const size_t length = YOKE_MIN(backend_length(device), (size_t)20);
    for (int k = 0; k < kind; k++)
        n += !strncmp(c->kind[k].name, device, length) && strchr("-", c->kind[k].name[length]);
    yokei_text(name, sizeof c->kind[kind].name, "%.*s", (int)length, device);
    if (n > 1) yokei_text(name + length, sizeof c->kind[kind].name - length, "-%d", n);
}

static yoke_status make_kind(struct making *w, int kind)
{
    const struct yokei_measured *m = w->m;
    struct yokei_device_kind *k = &w->c->kind[kind];
    struct yokei_op_time *times = calloc((size_t)m->n_ops + 1, sizeof *times);
    int first = 0;
    if (!times) return yoke_fail(YOKE_ENOMEM, "no memory for the times of %d ops", m->n_ops);
    while (w->place[first].kind != kind) first++;
    memset(k, 0, sizeof *k);
    name_kind(w->c, kind, m->rank[first].device);
    name_local_device(w, kind);
    k->memory = UINT64_MAX;
    for (int r = 0; r < m->n_ranks; r++)
        if (w->place[r].kind == kind) k->memory = YOKE_MIN(k->memory, memory_of(m, r));
    for (int i = 0; i < m->n_ops; i++) {
        int n = 0;
        times[i] = m->op[first * m->n_ops + i];
        for (int r = 0; r < m->n_ranks; r++)
            if (w->place[r].kind == kind)
                w->room[n++] = yokei_measured_seconds(&m->rank[r], &m->op[r * m->n_ops + i]);
        times[i].seconds = yokei_median(w->room, n);
    }
    const yoke_status status = yokei_kernel_fit(m->rank[first].device, times, m->n_ops, k);
    free(times);
    return status;
}

/* ---- the cluster ---- */

static yoke_status make_cluster(struct making *w, double *tolerance_out)
{
    double tolerance = w->m->tolerance;
    do {
        w->c->n_hosts = 0;
        w->c->n_kinds = sort_ranks(w, tolerance);
        *tolerance_out = tolerance;
        tolerance = 1.5 * tolerance + 0.01;
        if (w->c->n_kinds > YOKEI_MOST_KINDS) continue;
        number_kinds(w);
        YOKE_TRY(make_hosts(w));
    } while (!w->c->n_hosts && tolerance < 1e6);
    if (!w->c->n_hosts)
        return yoke_fail(YOKE_ECONFIG,
                         "the ranks have more than %d kinds of devices, or more than %d kinds on one host",
                         YOKEI_MOST_KINDS, YOKEI_MOST_DEVICE_LISTS);
    for (int k = 0; k < w->c->n_kinds; k++) YOKE_TRY(make_kind(w, k));
    return YOKE_OK;
}

yoke_status yokei_measured_cluster(const struct yokei_measured *m, struct yokei_cluster *cluster_out,
                                   struct yokei_measured_place *places_out, double *tolerance_out)
{
    struct making w = { .m = m,
                        .c = calloc(1, sizeof *w.c),
                        .place = places_out,
                        .room = calloc((size_t)m->n_ranks + (size_t)m->n_ops + 1, sizeof *w.room),
                        .order = calloc((size_t)m->n_ranks + 1, sizeof *w.order) };
    yoke_status status = w.c && w.room && w.order
                             ? make_cluster(&w, tolerance_out)
                             : yoke_fail(YOKE_ENOMEM, "no memory for the measurements of %d ranks",
                                         m->n_ranks);
    if (!status) *cluster_out = *w.c;
    free(w.c);
    free(w.room);
    free(w.order);
    return status;
}

/* ---- links ---- */

/* Entries up to this number have links of their own, so that there are at most 8 + 3 + 3 links. */
enum { MOST_INNER = 3, MOST_BETWEEN = 2 };

static int add_link(struct yokei_cluster *c, struct yokei_measured_link *links, enum yokei_measured_path path,
                    int kind, int a, int b)
{
    int l = 0;
    while (l < c->n_links
           && (links[l].path != path || links[l].kind != kind || links[l].a != a || links[l].b != b))
        l++;
    if (l < c->n_links) return l;
    char *name = c->link[l].name;
    const size_t room = sizeof c->link[l].name;
    links[c->n_links++] = (struct yokei_measured_link){ path, kind, a, b };
    if (path == YOKEI_IN_LIST)
        yokei_text(name, room, "among-%.24s", c->kind[kind].name);
    else if (a < 0)
        yokei_text(name, room, path == YOKEI_IN_HOST ? "inside" : "network");
    else if (path == YOKEI_IN_HOST)
        yokei_text(name, room, "inside-%d", a + 1);
    else
        yokei_text(name, room, "network-%d-%d", a + 1, b + 1);
    return l;
}

void yokei_measured_links(struct yokei_cluster *c, struct yokei_measured_link links[YOKEI_MOST_LINKS])
{
    c->n_links = 0;
    for (int e = 0; e < c->n_hosts; e++) {
        struct yokei_cluster_host *h = &c->host[e];
        const int own = c->n_hosts > 1 && c->n_hosts <= MOST_INNER ? e : -1;
        for (int l = 0; l < h->n_lists; l++)
            if (h->devices[l].n > 1)
                h->devices[l].link = add_link(c, links, YOKEI_IN_LIST, h->devices[l].kind, -1, -1);
        if (h->n_lists > 1) h->inner = add_link(c, links, YOKEI_IN_HOST, -1, own, -1);
    }
    for (int a = 0; a < c->n_hosts; a++)
        for (int b = a; b < c->n_hosts; b++) {
            const bool own = c->n_hosts > 1 && c->n_hosts <= MOST_BETWEEN;
            if (a == b && c->host[a].n == 1) continue;
            c->between[a][b] = c->between[b][a] = add_link(c, links, YOKEI_BETWEEN_HOSTS, -1, own ? a : -1,
                                                           own ? b : -1);
        }
}
