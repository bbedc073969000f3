/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a layout's ranks, and the paths between them. */
#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/search/layout.h"

int yokei_slots_of(const struct yokei_cluster *c, int tensor, int kind)
{
    int n = 0;
    for (int h = 0; h < c->n_hosts; h++)
        for (int l = 0; l < c->host[h].n_lists; l++)
            if (c->host[h].devices[l].kind == kind) n += c->host[h].n * (c->host[h].devices[l].n / tensor);
    return n;
}

/* List the slots of one kind. */
static void list_kind(const struct yokei_cluster *c, int tensor, int kind, struct yokei_places *p)
{
    int first_host = 0;
    for (int h = 0; h < c->n_hosts; first_host += c->host[h++].n)
        for (int copy = 0; copy < c->host[h].n; copy++)
            for (int l = 0; l < c->host[h].n_lists; l++) {
                const struct yokei_host_devices *d = &c->host[h].devices[l];
                for (int i = 0; d->kind == kind && i < d->n / tensor; i++)
                    p->slot[p->n_slots++] = (struct yokei_slot_place){ .entry = (int16_t)h,
                                                                       .list = (int16_t)l,
                                                                       .host = first_host + copy,
                                                                       .first = i * tensor,
                                                                       .kind = kind };
            }
}

yoke_status yokei_places_create(const struct yokei_cluster *c, int tensor, const int *kinds, int n_kinds,
                                struct yokei_places *out)
{
    struct yokei_places p = { 0 };
    int most = 0;
    for (int i = 0; i < n_kinds; i++) most += yokei_slots_of(c, tensor, kinds[i]);
    for (int h = 0; h < c->n_hosts; h++) p.n_hosts += c->host[h].n;
    p.slot = malloc(((size_t)most + 1) * sizeof *p.slot);
    if (!p.slot) return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d devices", most);
    for (int i = 0; i < n_kinds; i++) list_kind(c, tensor, kinds[i], &p);
    *out = p;
    return YOKE_OK;
}

void yokei_places_free(struct yokei_places *p)
{
    free(p->slot);
    *p = (struct yokei_places){ 0 };
}

/* Whether the replicas of a stage lie on several hosts. */
static bool spans_hosts(const struct yokei_layout *l, const struct yokei_slot_place *slots, int s)
{
    for (int d = 1; d < l->data; d++)
        if (slots[yokei_layout_slot(l, s, d)].host != slots[yokei_layout_slot(l, s, 0)].host) return true;
    return false;
}

yoke_status yokei_count_sharers(const struct yokei_layout *l, const struct yokei_slot_place *slots,
                                int n_hosts, int *hop, int *sum)
{
    const size_t n = (size_t)n_hosts;
    int *seen = calloc(2 * n, sizeof *seen),
        *received = seen + n; /* seen: the last stage of a host, plus 1 */
    if (!seen) return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %zu hosts", n);
    for (int s = 0; s < l->pipeline; s++) {
        const bool spans = spans_hosts(l, slots, s);
        for (int d = 0; d < l->data; d++) {
            const int host = slots[yokei_layout_slot(l, s, d)].host,
                      next = slots[yokei_layout_slot(l, (s + 1) % l->pipeline, d)].host;
            if ((s + 1 < l->pipeline || l->chunks > 1) && next != host)
                hop[host] += l->tensor, received[next] += l->tensor;
            if (spans && seen[host] != s + 1) sum[host] += l->tensor;
            seen[host] = s + 1;
        }
    }
    /* a link carries both directions at once */
    for (size_t i = 0; i < n; i++) hop[i] = YOKE_MAX(hop[i], received[i]);
    free(seen);
    return YOKE_OK;
}

yoke_status yokei_places_share(struct yokei_places *p, const struct yokei_layout *l)
{
    const size_t n = (size_t)p->n_hosts;
    int *hop = calloc(2 * n, sizeof *hop), *sum = hop + n;
    yoke_status status = hop ? yokei_count_sharers(l, p->slot, p->n_hosts, hop, sum)
                             : yoke_fail(YOKE_ENOMEM, "planning: no host memory for %zu hosts", n);
    for (int i = 0; i < l->data * l->pipeline && !status; i++) {
        p->slot[i].hop_sharers = hop[p->slot[i].host];
        p->slot[i].sum_sharers = sum[p->slot[i].host];
    }
    free(hop);
    return status;
}

static struct yokei_path path_of(const struct yokei_cluster *c, int link)
{
    if (link < 0) return (struct yokei_path){ 0, INFINITY, 0 };
    const struct yokei_link *l = &c->link[link];
    return (struct yokei_path){ l->seconds, l->bytes_per_second, l->wait };
}

struct yokei_path yokei_path_inside(const struct yokei_cluster *c, const struct yokei_slot_place *slot)
{
    return path_of(c, c->host[slot->entry].devices[slot->list].link);
}

struct yokei_path yokei_path_between(const struct yokei_cluster *c, const struct yokei_slot_place *a,
                                     int a_sharers, const struct yokei_slot_place *b, int b_sharers)
{
    if (a->host == b->host)
        return a->list == b->list ? yokei_path_inside(c, a) : path_of(c, c->host[a->entry].inner);
    struct yokei_path path = path_of(c, c->between[a->entry][b->entry]);
    const double rate_a = (double)c->host[a->entry].n_links / YOKE_MAX(a_sharers, 1),
                 rate_b = (double)c->host[b->entry].n_links / YOKE_MAX(b_sharers, 1);
    path.bytes_per_second *= fmin(1, fmin(rate_a, rate_b));
    return path;
}

double yokei_ring_seconds(const struct yokei_path *path, int n, double bytes, bool is_all_reduce)
{
    if (n <= 1) return 0;
    return (is_all_reduce ? 2 : 1) * (n - 1) * (path->seconds + bytes / n / path->bytes_per_second);
}
