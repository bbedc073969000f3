/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A search that may also choose the batch and the precision. Each choice is searched on its own, and the
 * layouts of all choices are compared by their tokens per second.
 */
#ifndef TRAIN_SEARCH_CHOICES_H
#define TRAIN_SEARCH_CHOICES_H

#include "train/search/search.h"

struct yokei_search_choice {
    int64_t batch;
    yoke_dtype precision;
};

struct yokei_choices_config {
    /* `predict` has a batch, whose model_flops it has. Its precision does not count. */
    const struct yokei_search_config *search;
    int n; /* at least 1 */
    const struct yokei_search_choice *choice;
    void *context;
    void (*begin)(void *context, const struct yokei_search_choice *choice); /* may be NULL */
    /* A choice cannot be searched, such as one in whose precision no device has a speed. May be NULL. */
    void (*skip)(void *context, const struct yokei_search_choice *choice, const char *why);
};

/**
 * Search the choices, the largest batch first. A search gets the step at which a layout has as many tokens
 * per second as the result's last place, and discards what is not faster. The result has the best layouts of
 * all choices, the most tokens per second first. It is proved if all searches are. Its bound_seconds are
 * those of the batch of the first layout: no layout of any choice that was not predicted has more tokens per
 * second than this step would have. The counts are those of all searches, and the regions those of the
 * choice of the first layout. If no layout is allowed, `nearest` and `least_idle` are the best of all
 * choices. YOKE_ECONFIG: no choice can be searched; the text is that of the first one. YOKE_ENOMEM. Free the
 * result with yokei_search_result_free.
 */
yoke_status yokei_search_choices(const struct yokei_choices_config *config,
                                 struct yokei_search_result *result_out);

#endif
