/* SPDX-License-Identifier: Apache-2.0 */
/* Branch and bound over meshes and settings. See search.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/models/model.h"
#include "train/search/search_inside.h"

enum { DEFAULT_CUTS = 16, DIVES = 60, TYPICAL_BATCH = 4 };

/*
 * Whether a mesh is one of those that the dive divides: it uses the slots of its kinds as far as they can be
 * used, and its numbers of stages and micro-batches are powers of 2.
 */
static bool is_typical(const struct yokei_searching *s, const struct yokei_node *n)
{
    const struct yokei_order *o = &s->order[n->order];
    const struct yokei_predict_config *c = &s->config->predict;
    int n_slots = 0;
    for (int i = 0; i < o->n_kinds; i++) n_slots += yokei_slots_of(c->cluster, n->tensor, o->kind[i]);
    const int most = (int)YOKE_MIN(n_slots / n->pipeline, c->batch / n->micro_batch);
    return (n->pipeline & (n->pipeline - 1)) == 0 && n->micro_batch <= TYPICAL_BATCH && n->data == most;
}

/*
 * Predict some settings of typical meshes first. Their steps let the bounds discard most of the others as
 * soon as they are made.
 */
static yoke_status dive(struct yokei_searching *s)
{
    struct yokei_node *all = s->node;
    const int64_t n = s->n_nodes, capacity = s->capacity;
    yoke_status status = YOKE_OK;
    s->node = NULL;
    s->n_nodes = s->capacity = 0;
    s->is_diving = true;
    for (int64_t i = 0; i < n && !status && !s->is_stopped; i++)
        if (is_typical(s, &all[i])) {
            status = yokei_search_divide(s, &all[i]);
            yokei_search_show(s, false);
        }
    for (int k = 0; k < DIVES && s->n_nodes && !status && !s->is_stopped; k++) {
        if (s->node[0].bound >= yokei_search_threshold(s)) break;
        const struct yokei_node next = yokei_search_pop(s);
        status = yokei_search_predict(s, &next);
        yokei_search_show(s, false);
    }
    free(s->node);
    s->node = all;
    s->n_nodes = n;
    s->capacity = capacity;
    s->is_diving = false;
    for (int i = 0; i < s->result->n_regions; i++) { /* the search counts these settings again */
        s->result->region[i].n_settings = s->result->region[i].n_slow = s->result->region[i].n_memory = 0;
        s->result->region[i].n_refused = 0;
    }
    s->result->counts.n_settings = 0;
    for (int i = 0; i < s->result->n_best; i++) {
        s->result->best[i].from_dive = true;
        s->result->best[i].n_equal = 0;
    }
    return status;
}

static yoke_status work_off(struct yokei_searching *s)
{
    while (s->n_nodes && !s->is_stopped) {
        yokei_search_show(s, false);
        if (s->is_stopped || s->node[0].bound >= yokei_search_threshold(s)) break;
        const struct yokei_node n = yokei_search_pop(s);
        YOKE_TRY(n.is_setting ? yokei_search_predict(s, &n) : yokei_search_divide(s, &n));
    }
    return YOKE_OK;
}

/* If nothing fits and nothing was predicted, predict the layout that lacks least by the bounds. */
static yoke_status find_nearest(struct yokei_searching *s)
{
    struct yokei_search_result *r = s->result;
    if (r->n_best || r->is_near || !s->nearest.data) return YOKE_OK;
    r->nearest.layout = s->nearest;
    const yoke_status status = yokei_predict(s->predictor, &s->nearest, &r->nearest.prediction);
    r->nearest.batch = s->config->predict.batch;
    r->nearest.precision = s->config->predict.precision;
    r->is_near = !status;
    return status == YOKE_ENOMEM ? status : YOKE_OK;
}

static void conclude(struct yokei_searching *s)
{
    struct yokei_search_result *r = s->result;
    r->is_complete = !s->is_stopped;
    r->is_proved = r->is_complete && !s->cuts_are_left;
    for (int64_t i = 0; i < s->n_nodes; i++) r->region[s->node[i].region].n_slow++;
    yokei_search_show(s, true);
    r->bound_seconds = r->counts.bound_seconds;
}

static int by_bound(const void *a, const void *b)
{
    const struct yokei_region *x = a, *y = b;
    const double first = fmin(x->best_seconds, x->bound + 1e30 * isinf(x->best_seconds)),
                 second = fmin(y->best_seconds, y->bound + 1e30 * isinf(y->best_seconds));
    return (first > second) - (first < second);
}

static yoke_status check(const struct yokei_search_config *c)
{
    const yoke_model *model = c->predict.model;
    YOKE_TRY(yokei_cluster_check(c->predict.cluster));
    if (!model->per_block)
        return yoke_fail(YOKE_ECONFIG,
                         "search: the model does not say where its blocks begin, so it cannot be cut");
    if (c->predict.batch < 1 || c->predict.sequence < 1)
        return yoke_fail(YOKE_ECONFIG,
                         "search: batch %lld of sequences of %lld tokens: both must be at least 1",
                         (long long)c->predict.batch, (long long)c->predict.sequence);
    if (c->largest_bubble < 0 || c->largest_bubble > 1)
        return yoke_fail(YOKE_ECONFIG, "search: the largest bubble is %g; it must lie in [0, 1]",
                         c->largest_bubble);
    if (c->most_seconds < 0)
        return yoke_fail(YOKE_ECONFIG, "search: the longest step is %g s; it must be above 0",
                         c->most_seconds);
    return YOKE_OK;
}

yoke_status yokei_search(const struct yokei_search_config *config, struct yokei_search_result *out)
{
    struct yokei_searching s = { .config = config,
                                 .result = out,
                                 .n_best = config->n_best ? config->n_best : YOKEI_DEFAULT_BEST,
                                 .most_cuts = config->most_cuts ? config->most_cuts : DEFAULT_CUTS,
                                 .left_bound = INFINITY,
                                 .nearest_ratio = INFINITY };
    *out = (struct yokei_search_result){ 0 };
    YOKE_TRY(check(config));
    yokei_model_sizes(config->predict.model, &s.sizes);
    out->best = calloc((size_t)s.n_best, sizeof *out->best);
    yoke_status status = out->best ? YOKE_OK
                                   : yoke_fail(YOKE_ENOMEM, "search: no host memory for its result");
    if (!status) status = yokei_predictor_create(&config->predict, &s.predictor);
    if (!status) status = yokei_search_list(&s);
    if (!status) status = dive(&s);
    if (!status) status = yokei_search_bubble(&s);
    if (!status) status = work_off(&s);
    if (!status) status = find_nearest(&s);
    if (!status) {
        conclude(&s);
        qsort(out->region, (size_t)out->n_regions, sizeof *out->region, by_bound);
    }
    yokei_predictor_destroy(s.predictor);
    free(s.order);
    free(s.node);
    if (status) yokei_search_result_free(out);
    return status;
}

void yokei_search_result_free(struct yokei_search_result *r)
{
    for (int i = 0; i < r->n_best; i++) yokei_prediction_free(&r->best[i].prediction);
    yokei_prediction_free(&r->nearest.prediction);
    yokei_prediction_free(&r->least_idle.prediction);
    free(r->best);
    free(r->region);
    *r = (struct yokei_search_result){ 0 };
}
