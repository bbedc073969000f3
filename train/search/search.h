/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The search for the fastest layouts of a training run on a cluster.
 *
 * The space. A layout has
 *   - an ordered list of kinds of devices, of which the last one is needed for the layout's slots;
 *   - places by stage or by replica. If the replicas would only come in another sequence, the order of the
 *     kinds is the ascending one;
 *   - tensor ranks: 1, or a divisor of the number of devices in a list of hosts;
 *   - replicas and stages: any numbers for which there are enough slots and blocks;
 *   - the micro-batch: a power of 2 of which the batch is a multiple;
 *   - one of the kinds of schedules, interleaved with 2 or 4 chunks;
 *   - recomputation (none, attention or full, in all stages), ZeRO (0 or 1) and sequence parallelism;
 *   - the blocks of each stage.
 * The replicas' shares follow from yokei_layout_shares. All layouts with the same values but for the blocks
 * are one *setting*, and the result has at most one layout of each setting. Settings often differ in
 * something without effect. So layouts of one number of stages, replicas and tensor ranks, of one price and
 * of equal steps (to YOKEI_EQUAL_STEPS) are *equal*. The result has the fastest of them. If their steps are
 * the same but for rounding, it has the one that needs least memory.
 *
 * The search is branch and bound in the order of the bounds (bounds.h). A mesh (kinds, places, replicas,
 * stages, tensor ranks, sequence parallelism and micro-batch) has a bound from the work alone. When it is the
 * lowest of all, it is divided into its settings, whose bounds come from the best cut into stages. When a
 * setting is the lowest of all, its best cut under the bounds is predicted. If it is near the result, single
 * blocks are moved while this helps, and then all cuts are tried whose bounds are below the best step so far
 * of the setting and of the result's last place, up to most_cuts. When no bound is below the result's last
 * place, no layout of the space that was not predicted is better, so the result is proved.
 *
 * If a limit of the bubble excludes the first layouts, the same is done in the order of the bounds of the
 * bubble (search_bubble.c), until a layout is allowed or no bound is below the smallest bubble so far.
 *
 * Costs. With K kinds, D devices, T widths of tensor groups and B micro-batches there are
 * O(K! T B D log D) meshes, each bounded in O(K). A setting costs O(stages blocks^2) for its bound. A
 * prediction costs what yokei_predict says. All meshes are in memory, with 32 bytes each.
 */
#ifndef TRAIN_SEARCH_SEARCH_H
#define TRAIN_SEARCH_SEARCH_H

#include "train/search/predict.h"

enum { YOKEI_DEFAULT_BEST = 10 };
#define YOKEI_EQUAL_STEPS 1e-5

struct yokei_search_progress {
    int64_t n_meshes, n_left; /* meshes of the space; meshes and settings whose bounds are not decided */
    int64_t n_settings, n_predicted;
    double best_seconds;  /* INFINITY: none yet */
    double bound_seconds; /* no layout that is left is faster */
    double least_bubble;  /* if a limit of the bubble excludes all layouts so far; else INFINITY */
    double bubble_bound;  /* no layout that fits has a smaller bubble; 0: not known */
};

struct yokei_search_config {
    struct yokei_predict_config predict;
    int n_best;      /* layouts in the result; 0: YOKEI_DEFAULT_BEST */
    int most_tensor; /* 0: no limit but the cluster's */
    /* predictions of cuts of one setting; 0: 16, and only of settings near the result and near the limits */
    int most_cuts;
    double largest_bubble; /* idle fraction; 0: no limit */
    double most_seconds;   /* layouts whose steps take this time or longer are not wanted; 0: no limit */
    void *context;
    /*
     * Called a few times in a second. If it returns false, the search ends with the best layouts so far. May
     * be NULL.
     */
    bool (*progress)(void *context, const struct yokei_search_progress *progress);
};

struct yokei_ranked {
    struct yokei_layout layout;
    struct yokei_prediction prediction;
    double bound; /* of the setting */
    int64_t batch;
    yoke_dtype precision;
    int n_equal;    /* layouts that are equal to this one, and that were left out */
    bool from_dive; /* internal: the search will find this layout again */
};

/** What became of the settings and meshes with one number of stages and of tensor ranks. */
struct yokei_region {
    int pipeline, tensor;
    int64_t n_meshes;
    int64_t n_settings;  /* settings of meshes that were divided */
    int64_t n_slow;      /* meshes and settings that the bound of time discards */
    int64_t n_memory;    /* settings that the bound of memory discards */
    int64_t n_refused;   /* settings that the trainer refuses, or whose batch cannot be dealt */
    int64_t n_predicted; /* predictions */
    int64_t n_too_large; /* predictions that do not fit */
    int64_t n_idle;      /* predictions whose bubble is above the limit, and settings by their bound of it */
    double bound;        /* the lowest bound of time of its meshes */
    double best_seconds; /* INFINITY: no layout of it is allowed */
};

struct yokei_search_result {
    int n_best;
    struct yokei_ranked *best; /* the fastest first */
    bool is_complete;          /* the search was not interrupted */
    /* no layout of the space is faster than the last of `best`, but for those in it and their equals */
    bool is_proved;
    double bound_seconds; /* no layout that was not predicted is faster */
    struct yokei_search_progress counts;
    int n_regions;
    struct yokei_region *region;
    /* if n_best is 0: the layout that lacks least memory; is_near says whether there is one */
    bool is_near;
    struct yokei_ranked nearest;
    /*
     * if n_best is 0: the layout that fits and has the least bubble of all that were predicted. No other
     * one has a bubble below counts.bubble_bound.
     */
    bool is_idle;
    struct yokei_ranked least_idle;
};

/**
 * Search. YOKE_ECONFIG: the cluster is wrong, or the model can be cut in no way. YOKE_ENOMEM. That no layout
 * fits is no error. Free the result with yokei_search_result_free.
 */
yoke_status yokei_search(const struct yokei_search_config *config, struct yokei_search_result *result_out);
void yokei_search_result_free(struct yokei_search_result *result);

#endif
