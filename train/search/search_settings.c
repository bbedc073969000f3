/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of a mesh: their bounds, and the prediction of their cuts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/search_inside.h"

static const double CLOSE = 1.05, FAR = 1.5, NOISE = 1e-9; /* NOISE: of the rounding of a step */

/* ---- bounds ---- */

/* The need of an equal cut over the memory, by the bounds, to find the layout that lacks least. */
static double ratio_of(const struct yokei_cut_problem *p)
{
    double ratio = 0;
    for (int s = 0; s < p->stages; s++) {
        const double blocks = p->n_blocks / p->stages + (s < p->n_blocks % p->stages);
        ratio = fmax(ratio, (p->stage[s].need + blocks * p->stage[s].need_block) / p->stage[s].have);
    }
    return ratio;
}

static void cut_equally(const struct yokei_searching *s, struct yokei_layout *l)
{
    const int n = l->pipeline * l->chunks;
    for (int i = 0; i < n; i++) l->blocks[i] = (int16_t)(s->sizes.n_blocks / n + (i < s->sizes.n_blocks % n));
}

/* Deal the blocks of each stage to its chunks; the first chunks get one more where they do not divide. */
static void cut_chunks(struct yokei_layout *l, const int16_t *stages)
{
    for (int c = 0; c < l->chunks; c++)
        for (int s = 0; s < l->pipeline; s++)
            l->blocks[c * l->pipeline + s] = (int16_t)(stages[s] / l->chunks + (c < stages[s] % l->chunks));
}

static bool can_deal(const struct yokei_searching *s, const struct yokei_layout *l)
{
    const int64_t unit = l->micro_batch * (l->chunks > 1 ? l->pipeline : 1);
    return s->config->predict.batch % unit == 0 && s->config->predict.batch / unit >= l->data
           && l->pipeline * l->chunks <= YOKE_MIN(s->sizes.n_blocks, YOKEI_MOST_CUTS);
}

static yoke_status places_of(const struct yokei_searching *s, const struct yokei_layout *l,
                             struct yokei_places *out)
{
    YOKE_TRY(yokei_places_create(s->config->predict.cluster, l->tensor, l->kind, l->n_kinds, out));
    const yoke_status status = yokei_places_share(out, l);
    if (status) yokei_places_free(out);
    return status;
}

static void count_slots(const struct yokei_layout *l, const struct yokei_places *p, int *used)
{
    for (int i = 0; i < l->n_kinds; i++) used[i] = 0;
    for (int k = 0; k < l->data * l->pipeline; k++)
        for (int i = 0; i < l->n_kinds; i++) used[i] += p->slot[k].kind == l->kind[i];
}

/* A bound of all cuts without a table, from the least times of any stage. */
static double quick_bound(const struct yokei_cut_problem *p)
{
    double time = INFINITY, fill = INFINITY, end = INFINITY;
    for (int s = 0; s < p->stages; s++) {
        time = fmin(time, p->stage[s].time_block);
        fill = fmin(fill, p->stage[s].fill_block);
        /* the other layers of a stage add m time + end, which is 0 or more */
        end = fmin(end, p->stage[s].end_block);
    }
    const double blocks = ceil((double)p->n_blocks / p->stages);
    if (p->adds) return fmax(p->floor, p->m * p->n_blocks * fill);
    const double with_sums = p->m * time + end;
    double bound = fmax(yokei_bound_equal(p->n_blocks, p->stages, p->m, time, fill), blocks * with_sums);
    if (with_sums > p->forward * fill)
        bound = fmax(bound, yokei_bound_equal(p->n_blocks, p->stages, 1, with_sums, p->forward * fill));
    return fmax(p->floor, bound);
}

/* Whether the bubble of each layout of a setting is above the limit. */
static yoke_status is_idle(const struct yokei_searching *s, const struct yokei_layout *l,
                           const struct yokei_places *places, bool *is_idle_out)
{
    double bubble;
    *is_idle_out = false;
    if (s->config->largest_bubble <= 0 || !s->result->n_best) return YOKE_OK;
    YOKE_TRY(yokei_bound_bubble(s->predictor, &s->config->predict, l, &s->sizes, places->slot, &bubble));
    *is_idle_out = bubble * (1 - NOISE) > s->config->largest_bubble;
    return YOKE_OK;
}

/* No cut fits into memory, by the bounds. Keep the layout that lacks least. */
static void note_memory(struct yokei_searching *s, struct yokei_region *region, struct yokei_layout *l,
                        const struct yokei_cut_problem *problem)
{
    const double ratio = ratio_of(problem);
    region->n_memory++;
    if (ratio >= s->nearest_ratio && !isinf(s->nearest_ratio)) return;
    cut_equally(s, l);
    s->nearest_ratio = ratio;
    s->nearest = *l;
}

/*
 * The longest span of a stage with which the bubble is below the smallest one so far. busy: that of
 * yokei_bound_bubble_cuts.
 */
static double longest_wanted(const struct yokei_searching *s, int stages, double busy)
{
    const struct yokei_search_result *r = s->result;
    return busy > 0 && r->is_idle ? busy / (stages * (1 - r->least_idle.prediction.bubble)) : INFINITY;
}

/* Bound the bubble of one setting, and push it if the bounds do not discard it. */
static yoke_status push_by_bubble(struct yokei_searching *s, struct yokei_node *n,
                                  const struct yokei_places *places)
{
    const struct yokei_predict_config *c = &s->config->predict;
    const struct yokei_search_result *r = s->result;
    struct yokei_region *region = &s->result->region[n->region];
    struct yokei_layout l = yokei_node_layout(s, n);
    struct yokei_cut_problem problem;
    int16_t blocks[YOKEI_MOST_CUTS];
    double busy, span, bubble = 0;
    const double wanted = r->is_idle ? r->least_idle.prediction.bubble : INFINITY;
    YOKE_TRY(yokei_bound_bubble(s->predictor, c, &l, &s->sizes, places->slot, &bubble));
    n->bound = fmax(n->bound, bubble * (1 - NOISE));
    if (n->bound >= wanted) {
        region->n_idle++;
        return YOKE_OK;
    }
    YOKE_TRY(yokei_bound_bubble_cuts(s->predictor, c, &l, &s->sizes, places->slot, &problem, &busy));
    if (!yokei_cut_best(&problem, longest_wanted(s, l.pipeline, busy), blocks, &span)) {
        note_memory(s, region, &l, &problem);
        return YOKE_OK;
    }
    if (busy > 0) n->bound = fmax(n->bound, (1 - busy / (l.pipeline * span)) * (1 - NOISE));
    if (n->bound < wanted) return yokei_search_push(s, n);
    region->n_idle++;
    return YOKE_OK;
}

/* Bound one setting, and push it if the bounds do not discard it. */
static yoke_status push_setting(struct yokei_searching *s, struct yokei_node *n,
                                const struct yokei_places *places)
{
    const struct yokei_predict_config *c = &s->config->predict;
    struct yokei_region *region = &s->result->region[n->region];
    struct yokei_layout l = yokei_node_layout(s, n);
    struct yokei_cut_problem problem;
    int16_t blocks[YOKEI_MOST_CUTS];
    int used[YOKEI_MOST_KINDS];
    double work, cut, optimizer;
    region->n_settings++;
    s->result->counts.n_settings++;
    if (!can_deal(s, &l)) {
        region->n_refused++;
        return YOKE_OK;
    }
    bool idle = false;
    yoke_status status = s->by_bubble ? push_by_bubble(s, n, places) : is_idle(s, &l, places, &idle);
    if (idle || (s->by_bubble && !status)) {
        region->n_idle += idle && !s->is_diving;
        return YOKE_OK;
    }
    count_slots(&l, places, used);
    if (!status) status = yokei_bound_cuts(s->predictor, c, &l, &s->sizes, places->slot, false, &problem);
    if (!status) status = yokei_bound_work(s->predictor, c, &l, &s->sizes, used, &work);
    if (!status) status = yokei_bound_optimizer(c, &l, &s->sizes, used, places->slot, &optimizer);
    if (!status && l.n_kinds > 1) {
        double shares;
        const double limit = yokei_search_threshold(s) - optimizer;
        status = yokei_bound_shares(s->predictor, c, &l, &s->sizes, places->slot, limit, &shares);
        work = fmax(work, shares);
    }
    if (status == YOKE_ENOMEM) return status;
    if (status) {
        region->n_refused++;
        return YOKE_OK;
    }
    if (fmax(work, quick_bound(&problem)) + optimizer >= yokei_search_threshold(s)) {
        region->n_slow++;
        return YOKE_OK;
    }
    problem.floor = fmax(problem.floor, work);
    if (!yokei_cut_best(&problem, yokei_search_threshold(s) - optimizer, blocks, &cut)) {
        note_memory(s, region, &l, &problem);
        return YOKE_OK;
    }
    n->bound = fmax(n->bound, cut + optimizer);
    if (n->bound < yokei_search_threshold(s)) return yokei_search_push(s, n);
    region->n_slow++;
    return YOKE_OK;
}

/*
 * Bound a mesh by the shares of its replicas, with the settings that have the lowest bounds: without
 * recomputation, with and without ZeRO-1, and with zb-h1 or chunks.
 */
static yoke_status look_again(const struct yokei_searching *s, const struct yokei_node *mesh,
                              const struct yokei_places *places, bool *is_slow_out)
{
    const struct yokei_predict_config *c = &s->config->predict;
    struct yokei_layout l = yokei_node_layout(s, mesh);
    int used[YOKEI_MOST_KINDS];
    count_slots(&l, places, used);
    *is_slow_out = l.pipeline > 1;
    for (l.chunks = 1; l.chunks <= 4 && *is_slow_out; l.chunks *= 2)
        for (l.zero = 0; l.zero <= (l.data > 1) && can_deal(s, &l) && *is_slow_out; l.zero++) {
            double bound, optimizer;
            l.schedule = l.chunks > 1 ? YOKEI_PIPELINE_INTERLEAVED : YOKEI_PIPELINE_ZB_H1;
            YOKE_TRY(yokei_bound_optimizer(c, &l, &s->sizes, used, places->slot, &optimizer));
            const double limit = yokei_search_threshold(s) - optimizer;
            YOKE_TRY(yokei_bound_shares(s->predictor, c, &l, &s->sizes, places->slot, limit, &bound));
            *is_slow_out = bound >= limit;
        }
    return YOKE_OK;
}

yoke_status yokei_search_divide(struct yokei_searching *s, const struct yokei_node *mesh)
{
    static const struct {
        enum yokei_pipeline_kind kind;
        int chunks;
    } schedules[] = { { YOKEI_PIPELINE_1F1B, 1 },        { YOKEI_PIPELINE_ZB_H1, 1 },
                      { YOKEI_PIPELINE_INTERLEAVED, 2 }, { YOKEI_PIPELINE_INTERLEAVED, 4 },
                      { YOKEI_PIPELINE_GPIPE, 1 },       { YOKEI_PIPELINE_NAIVE, 1 } };
    const struct yokei_layout l = yokei_node_layout(s, mesh);
    struct yokei_places places;
    bool is_slow = false;
    YOKE_TRY(places_of(s, &l, &places));
    yoke_status status = s->by_bubble ? YOKE_OK : look_again(s, mesh, &places, &is_slow);
    if (is_slow) s->result->region[mesh->region].n_slow++;
    for (size_t k = is_slow ? YOKE_COUNT(schedules) : 0; k < (mesh->pipeline > 1 ? YOKE_COUNT(schedules) : 1);
         k++)
        for (int recompute = 0; recompute <= 2; recompute++)
            for (int zero = 0; zero <= (mesh->data > 1) && !status; zero++) {
                struct yokei_node n = *mesh;
                n.is_setting = true;
                n.schedule = (int8_t)schedules[k].kind;
                n.chunks = (int8_t)schedules[k].chunks;
                n.recompute = (int8_t)recompute;
                n.zero = (int8_t)zero;
                status = push_setting(s, &n, &places);
            }
    yokei_places_free(&places);
    return status;
}

/* ---- predictions ---- */

static void free_ranked(struct yokei_ranked *r) { yokei_prediction_free(&r->prediction); }

/* Whether two layouts have the same setting. */
static bool is_same_setting(const struct yokei_layout *a, const struct yokei_layout *b)
{
    bool same = a->data == b->data && a->pipeline == b->pipeline && a->tensor == b->tensor
                && a->chunks == b->chunks && a->schedule == b->schedule && a->recompute == b->recompute
                && a->zero == b->zero && a->sequence_parallel == b->sequence_parallel
                && a->micro_batch == b->micro_batch && a->n_kinds == b->n_kinds
                && a->by_replica == b->by_replica;
    for (int i = 0; i < a->n_kinds && same; i++) same = a->kind[i] == b->kind[i];
    return same;
}

/* Whether a reader would see the same layout twice. */
static bool is_equal(const struct yokei_ranked *a, const struct yokei_ranked *b)
{
    const double step = a->prediction.step_seconds, price = a->prediction.price_per_hour;
    return a->layout.data == b->layout.data && a->layout.pipeline == b->layout.pipeline
           && a->layout.tensor == b->layout.tensor
           && fabs(b->prediction.step_seconds - step) <= YOKEI_EQUAL_STEPS * step
           && fabs(b->prediction.price_per_hour - price) <= 1e-9 * price;
}

static bool is_better(const struct yokei_ranked *a, const struct yokei_ranked *b)
{
    const double more = a->prediction.step_seconds - b->prediction.step_seconds;
    if (fabs(more) > NOISE * b->prediction.step_seconds) return more < 0;
    return a->prediction.margin > b->prediction.margin;
}

static void take_out(struct yokei_search_result *r, int i)
{
    free_ranked(&r->best[i]);
    memmove(&r->best[i], &r->best[i + 1], (size_t)(--r->n_best - i) * sizeof *r->best);
}

/*
 * Make room for a layout: take out the layout of the same setting, which the dive may have found before, or
 * an equal one. False: the one that is there is better.
 */
static bool replaces(struct yokei_search_result *r, struct yokei_ranked *x)
{
    for (int i = 0; i < r->n_best; i++) {
        struct yokei_ranked *old = &r->best[i];
        if (!is_same_setting(&old->layout, &x->layout)) continue;
        old->from_dive = false;
        if (x->prediction.step_seconds >= old->prediction.step_seconds) return false;
        x->n_equal = old->n_equal;
        take_out(r, i);
        return true;
    }
    for (int i = 0; i < r->n_best; i++) {
        struct yokei_ranked *old = &r->best[i];
        if (!is_equal(old, x)) continue;
        if (!is_better(x, old)) {
            old->n_equal++;
            return false;
        }
        x->n_equal = old->n_equal + !old->from_dive;
        take_out(r, i);
        return true;
    }
    return true;
}

/* Insert a layout into the result. It takes the prediction. */
static void insert(struct yokei_searching *s, struct yokei_ranked *x)
{
    struct yokei_search_result *r = s->result;
    if (!replaces(r, x) || x->prediction.step_seconds >= yokei_search_threshold(s)) {
        free_ranked(x);
        return;
    }
    if (r->n_best == s->n_best) free_ranked(&r->best[--r->n_best]);
    int at = r->n_best++;
    for (; at > 0 && r->best[at - 1].prediction.step_seconds > x->prediction.step_seconds; at--)
        r->best[at] = r->best[at - 1];
    r->best[at] = *x;
}

/* A setting whose cuts are being tried. */
struct setting {
    struct yokei_searching *s;
    const struct yokei_node *node;
    struct yokei_region *region;
    struct yokei_layout layout;
    const struct yokei_cut_problem *problem;
    double optimizer, busy; /* busy: in the search by bubbles, that of yokei_bound_bubble_cuts */
    bool is_idle;           /* the bubble of the last cut is far above the limit */
    int n_tried;
    int16_t first[YOKEI_MOST_CUTS], now[YOKEI_MOST_CUTS];
    struct yokei_ranked best; /* its step is INFINITY if there is none */
};

/* A layout and its prediction, which it takes. */
static struct yokei_ranked ranked(const struct setting *x, struct yokei_prediction *p)
{
    const struct yokei_predict_config *c = &x->s->config->predict;
    const struct yokei_ranked out = { .layout = x->layout,
                                      .prediction = *p,
                                      .bound = x->node->bound,
                                      .batch = c->batch,
                                      .precision = c->precision };
    *p = (struct yokei_prediction){ 0 };
    return out;
}

static void keep_nearest(struct setting *x, struct yokei_prediction *p)
{
    struct yokei_search_result *r = x->s->result;
    if (r->is_near && r->nearest.prediction.margin >= p->margin) return;
    free_ranked(&r->nearest);
    r->nearest = ranked(x, p);
    r->is_near = true;
}

static void keep_least_idle(struct setting *x, struct yokei_prediction *p)
{
    struct yokei_search_result *r = x->s->result;
    if (r->is_idle && r->least_idle.prediction.bubble <= p->bubble) return;
    free_ranked(&r->least_idle);
    r->least_idle = ranked(x, p);
    r->is_idle = true;
}

static yoke_status try_cut(struct setting *x, const int16_t *stages)
{
    struct yokei_prediction p;
    const double limit = x->s->config->largest_bubble;
    cut_chunks(&x->layout, stages);
    x->n_tried++;
    const yoke_status status = yokei_predict(x->s->predictor, &x->layout, &p);
    if (status == YOKE_ENOMEM) return status;
    if (status) {
        x->region->n_refused++;
        return YOKE_OK;
    }
    x->is_idle = limit > 0 && p.bubble > FAR * limit + 0.01;
    x->region->n_predicted++;
    x->s->result->counts.n_predicted++;
    if (!p.fits) {
        x->region->n_too_large++;
        keep_nearest(x, &p);
    } else if (limit > 0 && p.bubble > limit) {
        x->region->n_idle++;
        keep_least_idle(x, &p);
    } else if (p.step_seconds < x->best.prediction.step_seconds) {
        x->region->best_seconds = fmin(x->region->best_seconds, p.step_seconds);
        free_ranked(&x->best);
        x->best = ranked(x, &p);
        return YOKE_OK;
    }
    yokei_prediction_free(&p);
    return YOKE_OK;
}

/* The value that the bounds of a cut must be below. */
static double limit_of(const struct setting *x)
{
    if (x->s->by_bubble) return longest_wanted(x->s, x->problem->stages, x->busy);
    return fmin(x->best.prediction.step_seconds, yokei_search_threshold(x->s)) - x->optimizer;
}

/*
 * Try all cuts that begin with `now` up to stage s, and whose bound is below the best step so far. `filled`
 * is the sum of the fills before stage s, and `left` the number of blocks for the stages from s on.
 */
static yoke_status try_others(struct setting *x, int s, int left, double filled)
{
    const struct yokei_cut_problem *p = x->problem;
    const struct yokei_cut_stage *k = &p->stage[s];
    const int behind = p->stages - 1 - s;
    for (int n = p->least; n <= left - behind * p->least && n <= k->most; n++) {
        const double limit = limit_of(x);
        const double time = p->m * (k->time + n * k->time_block), fill = k->fill + n * k->fill_block;
        if (x->s->is_stopped) return YOKE_OK;
        if ((p->adds ? fmax(time, p->m * (filled + fill)) : filled + time) >= limit) break;
        if (p->forward * filled + time + k->end + n * k->end_block >= limit) continue;
        x->now[s] = (int16_t)n;
        if (behind) {
            YOKE_TRY(try_others(x, s + 1, left - n, filled + fill));
            continue;
        }
        if (n != left || !memcmp(x->now, x->first, (size_t)p->stages * sizeof *x->now)) continue;
        if (x->n_tried >= x->s->most_cuts) {
            x->s->cuts_are_left = true;
            x->s->left_bound = fmin(x->s->left_bound, x->node->bound);
            return YOKE_OK;
        }
        YOKE_TRY(try_cut(x, x->now));
    }
    return YOKE_OK;
}

/* Whether the best cut of the setting so far could be in the result with a little change. */
static bool is_close(const struct setting *x)
{
    if (x->s->config->most_cuts) return true;
    return !x->is_idle && x->best.prediction.step_seconds < CLOSE * yokei_search_threshold(x->s);
}

/*
 * Move single blocks between stages as long as a step gets faster. This finds better cuts sooner than
 * try_others, which then proves that there is none, or finds it.
 */
static yoke_status move_blocks(struct setting *x)
{
    const struct yokei_cut_problem *p = x->problem;
    bool better = p->stages > 1 && is_close(x);
    int16_t from[YOKEI_MOST_CUTS], best[YOKEI_MOST_CUTS];
    memcpy(best, x->first, sizeof best);
    while (better) {
        better = false;
        memcpy(from, best, sizeof from);
        for (int a = 0; a < p->stages && !better; a++)
            for (int step = 1; step < p->stages && !better; step++) {
                const int b = (a + step) % p->stages;
                const double before = x->best.prediction.step_seconds;
                if (from[a] <= p->least || from[b] >= p->stage[b].most || x->n_tried >= x->s->most_cuts)
                    continue;
                memcpy(best, from, sizeof best);
                best[a]--, best[b]++;
                if (yokei_cut_value(p, best) + x->optimizer >= before) continue;
                YOKE_TRY(try_cut(x, best));
                better = x->best.prediction.step_seconds < before;
            }
    }
    return YOKE_OK;
}

/* Predict the cuts of a setting by their spans, until none can have a smaller bubble. */
static yoke_status predict_by_bubble(struct setting *x, const struct yokei_places *places)
{
    struct yokei_searching *s = x->s;
    struct yokei_cut_problem problem;
    double span;
    YOKE_TRY(yokei_bound_bubble_cuts(s->predictor, &s->config->predict, &x->layout, &s->sizes, places->slot,
                                     &problem, &x->busy));
    x->problem = &problem;
    if (!yokei_cut_best(&problem, longest_wanted(s, problem.stages, x->busy), x->first, &span))
        return YOKE_OK;
    YOKE_TRY(try_cut(x, x->first));
    return try_others(x, 0, problem.n_blocks, 0);
}

static yoke_status predict_by_time(struct setting *x, const struct yokei_places *places)
{
    struct yokei_searching *s = x->s;
    const struct yokei_predict_config *c = &s->config->predict;
    struct yokei_cut_problem problem, slowest;
    int used[YOKEI_MOST_KINDS];
    double bound;
    bool idle;
    YOKE_TRY(is_idle(s, &x->layout, places, &idle));
    if (idle) {
        x->region->n_idle += !s->is_diving;
        return YOKE_OK;
    }
    count_slots(&x->layout, places, used);
    YOKE_TRY(yokei_bound_cuts(s->predictor, c, &x->layout, &s->sizes, places->slot, false, &problem));
    YOKE_TRY(yokei_bound_cuts(s->predictor, c, &x->layout, &s->sizes, places->slot, true, &slowest));
    YOKE_TRY(yokei_bound_optimizer(c, &x->layout, &s->sizes, used, places->slot, &x->optimizer));
    x->problem = &problem;
    if (yokei_cut_best(&slowest, INFINITY, x->first, &bound)) YOKE_TRY(try_cut(x, x->first));
    if (!s->is_diving && is_close(x)) {
        YOKE_TRY(move_blocks(x));
        YOKE_TRY(try_others(x, 0, problem.n_blocks, 0));
    } else if (!s->is_diving && problem.stages > 1 && problem.n_blocks > problem.stages * problem.least) {
        /* there are other cuts */
        s->cuts_are_left = true;
        s->left_bound = fmin(s->left_bound, x->node->bound);
    }
    return YOKE_OK;
}

yoke_status yokei_search_predict(struct yokei_searching *s, const struct yokei_node *node)
{
    struct setting x = { .s = s,
                         .node = node,
                         .region = &s->result->region[node->region],
                         .layout = yokei_node_layout(s, node),
                         .best.prediction.step_seconds = INFINITY };
    struct yokei_places places;
    YOKE_TRY(places_of(s, &x.layout, &places));
    const yoke_status status = s->by_bubble ? predict_by_bubble(&x, &places) : predict_by_time(&x, &places);
    yokei_places_free(&places);
    YOKE_TRY(status);
    if (x.best.layout.data) insert(s, &x.best);
    return YOKE_OK;
}
