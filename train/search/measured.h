/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A cluster from what the ranks of a job have measured on their devices: which devices are alike, what a
 * kind of device can do, and which hosts have the same devices. The links are measured afterwards, because
 * their number follows from the kinds.
 */
#ifndef TRAIN_SEARCH_MEASURED_H
#define TRAIN_SEARCH_MEASURED_H

#include "train/search/cluster_file.h"

/** What a rank says of itself and its device. Ranks send it as bytes. */
struct yokei_measured_rank {
    int host, threads; /* host: its number, from 0 */
    uint64_t pool;     /* ranks with the same number share one memory */
    uint64_t memory;   /* free bytes of this memory */
    double slowdown;   /* time of training steps / sum of their ops; above 1: the rank stood still at times */
    char host_name[64], device[32], name[128];
};

/** The measurements of a job. */
struct yokei_measured {
    int n_ranks, n_ops;
    const struct yokei_measured_rank *rank; /* [n_ranks] */
    const struct yokei_op_time *op; /* [n_ranks * n_ops] the ops of rank 0, then those of rank 1, ... */
    double tolerance;               /* 0.15: devices are alike if their times differ by at most 15 % */
};

/** Where a rank is in the cluster, and how its device compares with the first rank of the same device. */
struct yokei_measured_place {
    int kind, entry, list; /* entry: of the cluster's hosts; list: of the host's devices */
    double time;           /* median of the times of its ops / those of the first rank with such a device */
};

/**
 * The seconds that an op takes in the mean: with the time in which the rank stood still. An op of training
 * steps, and one that is longer than YOKEI_LONG_OP, has this time in its own measurement.
 */
#define YOKEI_LONG_OP 0.02
double yokei_measured_seconds(const struct yokei_measured_rank *rank, const struct yokei_op_time *op);

/**
 * Make the kinds and the hosts of a cluster. Ranks have one kind of device if their devices have the same
 * backend and name, and if the medians of their times differ by at most the tolerance. If this makes more
 * kinds than a cluster may have, the tolerance is raised; *tolerance_out gets the one that was used. The
 * speeds of a kind are fitted to the medians of its ranks. Its memory is the least of its ranks: the free
 * memory of the device, divided by the ranks that share it.
 * places_out: [n_ranks]. The cluster has no links yet: all indices of links are -1.
 * Errors: YOKE_ECONFIG (an op of a class is missing, more hosts than a cluster may have), YOKE_ENOMEM
 */
yoke_status yokei_measured_cluster(const struct yokei_measured *measured, struct yokei_cluster *cluster_out,
                                   struct yokei_measured_place *places_out, double *tolerance_out);

/** A link that is to be measured. The slowest pair of ranks of all hosts to which it belongs counts. */
enum yokei_measured_path {
    YOKEI_IN_LIST,      /* between devices of one kind in a host */
    YOKEI_IN_HOST,      /* between devices of different kinds in a host */
    YOKEI_BETWEEN_HOSTS /* between hosts of the entries `a` and `b` */
};
struct yokei_measured_link {
    enum yokei_measured_path path;
    int kind, a,
        b; /* kind: of YOKEI_IN_LIST; a: entry of YOKEI_IN_HOST (-1: all entries), or -1: all pairs */
};
/**
 * Give the cluster its links, which have names and no rates yet, and say in links_out what each of them is.
 * The number of links is cluster->n_links.
 */
void yokei_measured_links(struct yokei_cluster *cluster,
                          struct yokei_measured_link links_out[YOKEI_MOST_LINKS]);

#endif
