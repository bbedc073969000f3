/* SPDX-License-Identifier: Apache-2.0 */
/** The inside of a search, shared by the files search*.c. */
#ifndef TRAIN_SEARCH_SEARCH_INSIDE_H
#define TRAIN_SEARCH_SEARCH_INSIDE_H

#include "train/search/bounds.h"
#include "train/search/search.h"

/** A mesh, or a setting of one. */
struct yokei_node {
    double bound;
    int32_t data, micro_batch, order; /* eight kinds of devices have 109,600 orders */
    int16_t pipeline, region;
    int8_t tensor, by_replica, sequence_parallel;
    int8_t is_setting, schedule, chunks, recompute, zero;
};

/** Kinds in the order in which their slots are used, and the slots for one width of tensor groups. */
struct yokei_order {
    int n_kinds, kind[YOKEI_MOST_KINDS];
};

struct yokei_searching {
    const struct yokei_search_config *config;
    yokei_predictor *predictor;
    struct yokei_search_result *result;
    struct yokei_model_sizes sizes;
    int n_best, most_cuts;
    int n_orders;
    struct yokei_order *order;
    /* a heap by bounds: no node is below its parent, which has half its index */
    int64_t n_nodes, capacity;
    struct yokei_node *node;
    bool is_stopped, cuts_are_left;
    bool is_diving;    /* settings are predicted with their first cut only */
    bool by_bubble;    /* bounds of nodes are bounds of the bubble */
    double left_bound; /* the lowest bound of a setting some of whose cuts were not tried */
    uint64_t shown_ns;
    char refused[512];    /* why the first mesh was refused */
    double nearest_ratio; /* need / have of the nearest layout so far, by the bounds of memory */
    struct yokei_layout nearest;
};

/* ---- search_space.c ---- */
/** List all orders of kinds, and push all meshes. */
yoke_status yokei_search_list(struct yokei_searching *s);
/** The layout of a node, without blocks. */
struct yokei_layout yokei_node_layout(const struct yokei_searching *s, const struct yokei_node *node);
yoke_status yokei_search_push(struct yokei_searching *s, const struct yokei_node *node);
struct yokei_node yokei_search_pop(struct yokei_searching *s);
/** The step of the result's last place, or the longest that is wanted; INFINITY: there are places left. */
double yokei_search_threshold(const struct yokei_searching *s);

/** The slots of each kind of a mesh that it uses. */
void yokei_search_used(const struct yokei_searching *s, const struct yokei_node *mesh, int *used);

/** Report the progress, which may stop the search. */
void yokei_search_show(struct yokei_searching *s, bool at_once);

/* ---- search_bubble.c ---- */
/**
 * Find the layout with the smallest bubble. It ends at once when a layout is within the limit. If there is
 * none, nothing is left to be searched.
 */
yoke_status yokei_search_bubble(struct yokei_searching *s);

/* ---- search_settings.c ---- */
/** Divide a mesh into its settings. */
yoke_status yokei_search_divide(struct yokei_searching *s, const struct yokei_node *mesh);
/** Predict a setting's best cuts. */
yoke_status yokei_search_predict(struct yokei_searching *s, const struct yokei_node *setting);

#endif
