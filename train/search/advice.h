/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Advice about a search: which limit binds, which single change of hardware would help most, and if no layout
 * fits, what would make one fit. Each change is made on a copy of the cluster, and the search runs again.
 */
#ifndef TRAIN_SEARCH_ADVICE_H
#define TRAIN_SEARCH_ADVICE_H

#include "train/search/search.h"

enum yokei_change_kind {
    YOKEI_CHANGE_LIMIT,   /* a limit is relaxed */
    YOKEI_CHANGE_HARDWARE /* the cluster is another one */
};

/** One change, and the fastest layout that was found with it. */
struct yokei_change {
    enum yokei_change_kind kind;
    char text[192];        /* "1 more host nvidia", "mi300x as fast as h100" */
    bool fits;             /* a layout fits; otherwise the members below have no meaning */
    bool is_proved;        /* the search proved this step; otherwise the step is the best so far */
    double step_seconds;   /* of the fastest layout; never above that of the old layout on the new cluster */
    double price_per_hour; /* of that layout's devices and hosts */
    double bubble, margin; /* of that layout */
    struct yokei_layout layout;
};

struct yokei_advice {
    int n;
    /*
     * If layouts fit, the limits come first. Within a kind of changes the fastest step comes first. If no
     * layout fits, the order is that of the costs: what costs nothing, the price of additional hosts (of
     * hosts without prices, the number of their devices), and then more memory in the same devices.
     */
    struct yokei_change *change;
    bool is_complete; /* false: interrupted, and some changes were not tried */
};

struct yokei_advice_config {
    const struct yokei_search_config *search;
    /* The cluster with all memory of its devices, if a limit has lowered it for the search; or NULL. */
    const struct yokei_cluster *unlimited;
    double seconds; /* for the search of each change */
    void *context;
    /* Called before each change. False ends the advice. May be NULL. */
    bool (*begin)(void *context, const char *text);
};

/**
 * If a limit of the bubble excludes all layouts that fit, the changes are: no limit of memory, 2 to 64 times
 * the batch, more hosts, and 2 to 8 times the memory of each kind.
 *
 * Try the changes. If the result has layouts, the changes are: 10 % more memory in all devices, no limit of
 * memory and no limit of the bubble (if there are such limits); twice the rate of the slowest link, 1.25
 * times the memory of each kind of devices, one more host of each entry, and each kind with the better speeds
 * of a faster kind. If it has none, they are: no limit of memory, bf16 in place of f32, more hosts of each
 * entry (2 to 64 times as many), and as much memory as the nearest layout needs. `result` is that of the
 * search with this configuration. Free the advice with yokei_advice_free.
 */
yoke_status yokei_advise(const struct yokei_advice_config *config, const struct yokei_search_result *result,
                         struct yokei_advice *advice_out);
void yokei_advice_free(struct yokei_advice *advice);
/** The first change of a kind; NULL: there is none that fits. */
const struct yokei_change *yokei_advice_first(const struct yokei_advice *advice, enum yokei_change_kind kind);

#endif
