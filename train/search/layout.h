/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A layout of a training run on a cluster: the mesh, the settings of the step, and the devices of its ranks.
 *
 * A *slot* is the place of one tensor group: as many devices of one list of one host as the layout has tensor
 * ranks. A host with n devices in a list has n / tensor slots there, and the devices that are left over do no
 * work. So the ranks of a tensor group have one kind of device and one link.
 */
#ifndef TRAIN_SEARCH_LAYOUT_H
#define TRAIN_SEARCH_LAYOUT_H

#include "parallel/schedule.h"
#include "train/search/cluster.h"

enum { YOKEI_MOST_CUTS = 256 };

struct yokei_layout {
    int data, pipeline, tensor, chunks;
    enum yokei_pipeline_kind schedule;
    int recompute; /* index in yokei_recompute_words, for all stages */
    int zero;      /* 0 or 1 */
    bool sequence_parallel;
    int64_t micro_batch;
    /*
     * The kinds of devices whose slots are used, in this order. The slots of a kind come in the order of the
     * cluster's hosts. The tensor groups take the slots in turn. With by_replica the stages of replica 0 come
     * first, then those of replica 1, and so on. Otherwise the replicas of stage 0 come first, then those of
     * stage 1, and so on.
     */
    int n_kinds, kind[YOKEI_MOST_KINDS];
    bool by_replica;
    int16_t blocks[YOKEI_MOST_CUTS]; /* [pipeline * chunks] blocks of each virtual stage */
};

struct yokei_slot_place {
    int16_t entry, list; /* of the cluster's hosts, and of the host's devices */
    int host;            /* number of the host among all hosts */
    int first;           /* number of the first device within the list */
    int kind;
    /* the numbers that yokei_places_share counts for its host; 0: they are not counted */
    int hop_sharers, sum_sharers;
};

/** The slots of a layout. Free them with free(). */
struct yokei_places {
    int n_slots, n_hosts; /* n_slots: of the layout's kinds; n_hosts: of the cluster */
    struct yokei_slot_place *slot;
};
/** The slots for tensor groups of this width on these kinds, in the order of struct yokei_layout. */
yoke_status yokei_places_create(const struct yokei_cluster *cluster, int tensor, const int *kinds,
                                int n_kinds, struct yokei_places *places_out);
void yokei_places_free(struct yokei_places *places);
/** The number of slots of one kind. */
int yokei_slots_of(const struct yokei_cluster *cluster, int tensor, int kind);
/** The index of the slot of stage s of replica d. */
static inline int yokei_layout_slot(const struct yokei_layout *l, int s, int d)
{
    return l->by_replica ? d * l->pipeline + s : s * l->data + d;
}

/**
 * Count the ranks that send through the links of each host to others, in messages between stages and in sums
 * of gradients. All of them are taken to send at once. hop_out and sum_out: [n_hosts], 0 before.
 */
yoke_status yokei_count_sharers(const struct yokei_layout *layout, const struct yokei_slot_place *slots,
                                int n_hosts, int *hop_out, int *sum_out);
/** Note these numbers in the slots that the layout uses. */
yoke_status yokei_places_share(struct yokei_places *places, const struct yokei_layout *layout);

/** A path between two devices that share it with others. */
struct yokei_path {
    double seconds, bytes_per_second;
    double wait; /* of struct yokei_link */
};
/** The link inside a slot. */
struct yokei_path yokei_path_inside(const struct yokei_cluster *cluster, const struct yokei_slot_place *slot);
/**
 * The path between devices of two slots. `a_sharers` and `b_sharers` are the numbers of ranks that share the
 * links of the host of each slot to other hosts at the same time.
 */
struct yokei_path yokei_path_between(const struct yokei_cluster *cluster, const struct yokei_slot_place *a,
                                     int a_sharers, const struct yokei_slot_place *b, int b_sharers);

/**
 * Seconds of a collective of a group with n ranks in a ring, whose slowest path is `path`: for all_reduce
 * 2 (n - 1) (latency + bytes / n / rate), and half of it for all_gather and reduce_scatter. `bytes` is the
 * size of the whole buffer. Source: the volumes of a ring, Patarasuk and Yuan 2009, J. Parallel Distrib.
 * Comput. 69.
 */
double yokei_ring_seconds(const struct yokei_path *path, int n, double bytes, bool is_all_reduce);

/** How the ranks of a sum lie on hosts. */
struct yokei_sum_group {
    int n, n_hosts, per_host; /* per_host 0: hosts have different numbers of them */
    /* inside hosts, and between hosts; without such a path the rate is INFINITY. And the worst of both */
    struct yokei_path inner, outer, slowest;
};
/**
 * Seconds of an all_reduce of n f32 elements. On several hosts with as many ranks each, it is
 * yokei_modelled_time with ranks that share the memory of their host, and otherwise yokei_ring_seconds. The
 * errors are those of yokei_modelled_time.
 */
yoke_status yokei_sum_seconds(const struct yokei_sum_group *group, int64_t n, double *seconds_out);

#endif
