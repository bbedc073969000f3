/* SPDX-License-Identifier: Apache-2.0 */
/* The searches of several batches and precisions. See choices.h. */
#include "train/search/choices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

struct choosing {
    const struct yokei_choices_config *config;
    struct yokei_search_result *all;
    int n_best;      /* of the result */
    double bound;    /* the least seconds of a sequence of what was not predicted */
    char error[512]; /* of the first choice that cannot be searched */
    int n_searched;
};

static double per_sequence(const struct yokei_ranked *x)
{
    return x->prediction.step_seconds / (double)x->batch;
}

/* Move a layout into the result, if it is fast enough. */
static void keep(struct choosing *c, struct yokei_ranked *x)
{
    struct yokei_search_result *all = c->all;
    int at = all->n_best;
    while (at > 0 && per_sequence(&all->best[at - 1]) > per_sequence(x)) at--;
    if (at == c->n_best) return;
    if (all->n_best == c->n_best) yokei_prediction_free(&all->best[--all->n_best].prediction);
    memmove(&all->best[at + 1], &all->best[at], (size_t)(all->n_best++ - at) * sizeof *all->best);
    all->best[at] = *x;
    x->prediction = (struct yokei_prediction){ 0 };
}

/* Exchange what two results have found without an allowed layout. The losers are freed with `one`. */
static void swap(struct yokei_ranked *a, struct yokei_ranked *b)
{
    const struct yokei_ranked x = *a;
    *a = *b;
    *b = x;
}

static void keep_others(struct yokei_search_result *all, struct yokei_search_result *one)
{
    if (one->is_near && (!all->is_near || one->nearest.prediction.margin > all->nearest.prediction.margin)) {
        all->is_near = true;
        swap(&all->nearest, &one->nearest);
    }
    if (one->is_idle
        && (!all->is_idle || one->least_idle.prediction.bubble < all->least_idle.prediction.bubble)) {
        all->is_idle = true;
        swap(&all->least_idle, &one->least_idle);
    }
}

static void add_counts(struct yokei_search_progress *all, const struct yokei_search_progress *one)
{
    all->n_meshes += one->n_meshes;
    all->n_left += one->n_left;
    all->n_settings += one->n_settings;
    all->n_predicted += one->n_predicted;
}

/* Put the result of one choice into the whole. */
static void merge(struct choosing *c, int64_t batch, struct yokei_search_result *one)
{
    struct yokei_search_result *all = c->all;
    const bool leads = one->n_best
                       && (!all->n_best || per_sequence(&one->best[0]) < per_sequence(&all->best[0]));
    c->bound = fmin(c->bound, one->bound_seconds / (double)batch);
    if (one->is_idle || !one->is_complete)
        all->counts.bubble_bound = fmin(all->counts.bubble_bound, one->counts.bubble_bound);
    all->is_complete = all->is_complete && one->is_complete;
    all->is_proved = all->is_proved && one->is_proved;
    add_counts(&all->counts, &one->counts);
    keep_others(all, one);
    if (leads || !all->region) {
        free(all->region);
        all->region = one->region, all->n_regions = one->n_regions;
        one->region = NULL, one->n_regions = 0;
    }
    for (int i = 0; i < one->n_best; i++) keep(c, &one->best[i]);
    yokei_search_result_free(one);
}

static yoke_status search_one(struct choosing *c, const struct yokei_search_choice *choice)
{
    struct yokei_search_config config = *c->config->search;
    struct yokei_search_result one, *all = c->all;
    const double batch = (double)choice->batch;
    if (c->config->begin) c->config->begin(c->config->context, choice);
    config.predict.model_flops *= batch / (double)config.predict.batch;
    config.predict.batch = choice->batch;
    config.predict.precision = choice->precision;
    config.n_best = c->n_best;
    if (all->n_best == c->n_best) config.most_seconds = per_sequence(&all->best[c->n_best - 1]) * batch;
    const yoke_status status = yokei_search(&config, &one);
    if (status == YOKE_ENOMEM) return status;
    if (status) {
        if (!c->error[0]) yokei_text(c->error, sizeof c->error, "%s", yoke_last_error());
        if (c->config->skip) c->config->skip(c->config->context, choice, yoke_last_error());
        return YOKE_OK;
    }
    c->n_searched++;
    merge(c, choice->batch, &one);
    return YOKE_OK;
}

static int by_batch(const void *a, const void *b)
{
    const struct yokei_search_choice *x = a, *y = b;
    return (x->batch < y->batch) - (x->batch > y->batch);
}

static yoke_status search_all(struct choosing *c, struct yokei_search_choice *choice)
{
    const int n = c->config->n;
    memcpy(choice, c->config->choice, (size_t)n * sizeof *choice);
    qsort(choice, (size_t)n, sizeof *choice, by_batch);
    for (int i = 0; i < n; i++) {
        if (!c->all->is_complete) { /* nothing is known of this choice */
            c->bound = 0;
            break;
        }
        YOKE_TRY(search_one(c, &choice[i]));
    }
    return c->n_searched ? YOKE_OK : yoke_fail(YOKE_ECONFIG, "%s", c->error);
}

yoke_status yokei_search_choices(const struct yokei_choices_config *config, struct yokei_search_result *out)
{
    const int n_best = config->search->n_best ? config->search->n_best : YOKEI_DEFAULT_BEST;
    struct choosing c = { .config = config, .all = out, .n_best = n_best, .bound = INFINITY };
    *out = (struct yokei_search_result){ .is_complete = true,
                                         .is_proved = true,
                                         .counts.bubble_bound = INFINITY };
    struct yokei_search_choice *choice = malloc((size_t)config->n * sizeof *choice);
    out->best = calloc((size_t)n_best + 1, sizeof *out->best);
    yoke_status status = choice && out->best
                             ? search_all(&c, choice)
                             : yoke_fail(YOKE_ENOMEM, "search: no host memory for its result");
    free(choice);
    if (status) {
        yokei_search_result_free(out);
        return status;
    }
    const double batch = out->n_best ? (double)out->best[0].batch : (double)config->choice[0].batch;
    out->bound_seconds = out->counts.bound_seconds = c.bound * batch;
    out->counts.best_seconds = out->n_best ? out->best[0].prediction.step_seconds : INFINITY;
    return YOKE_OK;
}
