/* SPDX-License-Identifier: Apache-2.0 */
/* The times of sums of gradients over replicas. */
#include <math.h>
#include "collectives/replay/replay.h"
#include "core/base/base.h"
#include "train/search/layout.h"

enum { MOST_HOSTS = 1024 };

yoke_status yokei_sum_seconds(const struct yokei_sum_group *g, int64_t n, double *seconds_out)
{
    double inner[MOST_HOSTS];
    const struct yokei_path *in = isinf(g->inner.bytes_per_second) ? &g->outer : &g->inner,
                            *out = isinf(g->outer.bytes_per_second) ? &g->inner : &g->outer;
    *seconds_out = yokei_ring_seconds(&g->slowest, g->n, (double)n * 4, true);
    if (g->n_hosts == 1 || !n || !g->per_host || g->n_hosts > MOST_HOSTS) return YOKE_OK;
    for (int i = 0; i < g->n_hosts; i++) inner[i] = in->bytes_per_second * 1e-9;
    const struct yokei_links links = { .n_islands = g->n_hosts,
                                       .ranks_per_island = g->per_host,
                                       .inner_gbps = inner,
                                       .inner_us = in->seconds * 1e6,
                                       .n_bridges = 1,
                                       .bridge_gbps = out->bytes_per_second * 1e-9,
                                       .bridge_us = out->seconds * 1e6 };
    return yokei_modelled_time(&links, g->per_host, (size_t)n, seconds_out);
}
