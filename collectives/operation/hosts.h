/* SPDX-License-Identifier: Apache-2.0 */
/** The ranks of a communicator in groups: by the memory that they share, or smaller groups of these ranks. */
#ifndef COLLECTIVES_OPERATION_HOSTS_H
#define COLLECTIVES_OPERATION_HOSTS_H

#include <stdbool.h>

/**
 * A host is a group of ranks that all see each other's memory. The groups are the same on all ranks. Hosts
 * are numbered by their lowest rank. The same structure has the islands: the ranks of a host whose devices
 * have one vendor, or that have one label. For the algorithms an island is a host.
 */
struct yokei_hosts {
    int n; /* 0: there are no such groups, because some rank sees two ranks that do not see each other */
    int least, most;    /* the smallest and the largest number of ranks on a host */
    bool in_order;      /* the ranks are numbered host by host */
    bool are_islands;   /* the groups are islands */
    int *of, *at;       /* [size] a rank's host, and the rank's place on its host */
    int *first, *ranks; /* the ranks of host h are ranks[first[h]..first[h + 1]), ascending */
    /* [n_local] The ranks whose memory this rank sees, itself included. Only this rank if n is 0. */
    const int *local;
    int n_local;
};

/** The rank at place `index` of host `host`. Hosts count around: host n is host 0. */
static inline int yokei_rank_on(const struct yokei_hosts *h, int host, int index)
{
    return h->ranks[h->first[(host + h->n) % h->n] + index];
}

static inline int yokei_host_size(const struct yokei_hosts *h, int host)
{
    const int at = (host + h->n) % h->n;
    return h->first[at + 1] - h->first[at];
}

#endif
