/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the smallest bubble, if a limit of the bubble excludes the first layouts. See search.h. */
#include <math.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/search/search_inside.h"

/*
 * Of a setting at most MOST_CUTS cuts are predicted. When no layout can be within the limit any more, MORE
 * further layouts are predicted, to find a smaller bubble and a larger bound for the answer.
 */
enum { MOST_CUTS = 4, MORE = 60 };

/* The bubble that a layout must be below to count. */
static double wanted(const struct yokei_searching *s)
{
    return s->result->is_idle ? s->result->least_idle.prediction.bubble : INFINITY;
}

/* Push the meshes on one kind of devices, or those on several, with the bounds of their bubbles. */
static yoke_status push_meshes(struct yokei_searching *s, const struct yokei_node *mesh, int64_t n,
                               bool on_one_kind)
{
    for (int64_t i = 0; i < n && !s->is_stopped; i++) {
        struct yokei_node now = mesh[i];
        const struct yokei_layout l = yokei_node_layout(s, &now);
        int used[YOKEI_MOST_KINDS];
        if ((l.n_kinds == 1) != on_one_kind) continue;
        yokei_search_used(s, &now, used);
        YOKE_TRY(yokei_bound_bubble_mesh(s->predictor, &s->config->predict, &l, &s->sizes, used, &now.bound));
        if (now.bound < wanted(s)) YOKE_TRY(yokei_search_push(s, &now));
        if (i % 256 == 0) yokei_search_show(s, false);
    }
    return YOKE_OK;
}

/*
 * Work off what may have a smaller bubble. Where the bounds are above the limit, it ends after `most`
 * predictions, but not before a layout fits if until_one_fits.
 */
static yoke_status work_off(struct yokei_searching *s, int most, bool until_one_fits)
{
    const struct yokei_search_result *r = s->result;
    const bool all = s->config->most_cuts > 0;
    int64_t enough = INT64_MAX;
    while (s->n_nodes && !r->n_best) {
        yokei_search_show(s, false);
        const double bound = s->node[0].bound;
        if (s->is_stopped || bound >= wanted(s) || (r->counts.n_predicted >= enough && !all)) break;
        if (bound > s->config->largest_bubble && (r->is_idle || !until_one_fits))
            enough = YOKE_MIN(enough, r->counts.n_predicted + most);
        const struct yokei_node n = yokei_search_pop(s);
        YOKE_TRY(n.is_setting ? yokei_search_predict(s, &n) : yokei_search_divide(s, &n));
    }
    return YOKE_OK;
}

yoke_status yokei_search_bubble(struct yokei_searching *s)
{
    struct yokei_search_result *r = s->result;
    struct yokei_node *meshes = s->node;
    const int64_t n = s->n_nodes, capacity = s->capacity;
    if (s->config->largest_bubble <= 0 || r->n_best || s->is_stopped) return YOKE_OK;
    s->node = NULL;
    s->n_nodes = s->capacity = 0;
    const int most_cuts = s->most_cuts;
    s->by_bubble = true;
    s->left_bound = INFINITY;
    if (!s->config->most_cuts) s->most_cuts = MOST_CUTS;
    /* the bounds are close on one kind, so a small bubble is found soon there */
    yoke_status status = push_meshes(s, meshes, n, true);
    if (!status) status = work_off(s, MORE / 2, false);
    if (!status && !r->n_best) status = push_meshes(s, meshes, n, false);
    if (!status) status = work_off(s, MORE, true);
    yokei_search_show(s, true);
    free(s->node);
    s->node = meshes;
    s->n_nodes = r->n_best || s->is_stopped ? n : 0;
    s->capacity = capacity;
    s->by_bubble = s->cuts_are_left = false;
    s->most_cuts = most_cuts;
    s->left_bound = INFINITY;
    return status;
}
