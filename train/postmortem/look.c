/* SPDX-License-Identifier: Apache-2.0 */
/* What the black box of a run says: the first odd step, the learning rates, and the tokens that were read. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "train/postmortem/inside.h"
#include "train/run/loop.h"

int64_t yokei_postmortem_find(const struct yokei_postmortem *p, int64_t step)
{
    int64_t found = -1;
    for (int64_t i = 0; i < p->boxes->n_steps; i++)
        if (p->boxes->steps[i].step == step && p->boxes->steps[i].attempt <= p->attempt) found = i;
    return found;
}

/* The event of a kind in a step, on any rank. */
static const struct yokei_box_event *event_of(const struct yokei_boxes *b, int64_t step, int kind)
{
    for (int r = 0; r < b->n; r++)
        for (int e = 0; b->box[r] && e < b->box[r]->n_events; e++)
            if (b->box[r]->events[e].step == step && b->box[r]->events[e].kind == kind)
                return &b->box[r]->events[e];
    return NULL;
}

/* Whether the run ended with an error in its last step because of too many overflows. */
static bool ended_by_overflows(const struct yokei_boxes *b, const struct yokei_boxes_total *t)
{
    for (int r = 0; r < b->n; r++)
        if (b->box[r] && b->box[r]->status.number && b->box[r]->status.error == YOKE_ENUMERIC
            && b->box[r]->status.end_step == t->step && t->flags & YOKEI_BOX_OVERFLOW)
            return true;
    return false;
}

static enum yokei_odd odd_of(const struct yokei_boxes *b, const struct yokei_boxes_total *t)
{
    if (t->flags & YOKEI_BOX_BAD_LOSS) return YOKEI_ODD_BAD_LOSS;
    if (t->flags & YOKEI_BOX_TRACED && t->bad_layer) return YOKEI_ODD_OVERFLOW;
    if (ended_by_overflows(b, t)) return YOKEI_ODD_OVERFLOW;
    if (t->flags & YOKEI_BOX_LOSS_SPIKE) return YOKEI_ODD_LOSS;
    return t->flags & YOKEI_BOX_NORM_SPIKE ? YOKEI_ODD_NORM : YOKEI_ODD_NONE;
}

/*
 * Whether the last values are under the limit again. A run that ended soon after the odd step has not
 * recovered. A run of which a later step is not finite has not, either.
 */
static bool has_recovered(const struct yokei_boxes *b, int64_t i, enum yokei_odd odd, double limit)
{
    enum { LAST = 4 };
    struct yokei_boxes_total t;
    if (odd == YOKEI_ODD_BAD_LOSS || odd == YOKEI_ODD_OVERFLOW || b->n_steps - i <= LAST) return false;
    for (int64_t k = b->n_steps - LAST; k < b->n_steps; k++) {
        yokei_boxes_step(b, k, &t, NULL);
        const double value = odd == YOKEI_ODD_NORM ? t.gradient_norm : t.loss;
        if (!(value < limit)) return false;
    }
    return true;
}

static void note_odd(struct yokei_postmortem *p, int64_t i, const struct yokei_boxes_total *t,
                     enum yokei_odd odd)
{
    struct yokei_postmortem_facts *f = p->facts;
    const struct yokei_box_event *e = event_of(
        p->boxes, t->step, odd == YOKEI_ODD_NORM ? YOKEI_BOX_EVENT_NORM_SPIKE : YOKEI_BOX_EVENT_LOSS_SPIKE);
    f->odd = odd;
    f->odd_step = t->step;
    f->odd_value = odd == YOKEI_ODD_NORM ? t->gradient_norm : t->loss;
    f->odd_median = f->odd_limit = INFINITY; /* every finite loss is better than one that is not finite */
    if (e && (odd == YOKEI_ODD_LOSS || odd == YOKEI_ODD_NORM)) {
        f->odd_median = e->b;
        f->odd_limit = e->c;
    }
    f->has_recovered = has_recovered(p->boxes, i, odd, f->odd_limit);
    f->loss_scale = t->loss_scale;
    f->odd_rank = t->bad_layer ? t->bad_layer_rank : t->own_bad_rank;
    yokei_text(f->odd_layer, sizeof f->odd_layer, "%s", t->bad_layer ? t->bad_layer : "");
    p->attempt = t->attempt;
}

/* The largest update ratio of a layer in the steps before the odd one. */
static void note_updates(struct yokei_postmortem *p)
{
    struct yokei_postmortem_facts *f = p->facts;
    f->worst_update = NAN;
    for (int64_t i = 0; i < p->boxes->n_steps; i++) {
        struct yokei_boxes_total t;
        yokei_boxes_step(p->boxes, i, &t, p->then);
        if (t.step >= f->odd_step || t.attempt > p->attempt) continue;
        for (int l = 0; l < p->boxes->n_model_layers; l++) {
            if (!(p->then[l].update_ratio > (isnan(f->worst_update) ? 0 : f->worst_update))) continue;
            f->worst_update = p->then[l].update_ratio;
            yokei_text(f->worst_update_layer, sizeof f->worst_update_layer, "%s", p->boxes->layer[l]);
        }
    }
}

/* The plan is that of the newest start, so only the rates of its steps can be compared. */
static void check_rates(struct yokei_postmortem *p)
{
    struct yokei_postmortem_facts *f = p->facts;
    const struct yokei_boxes *b = p->boxes;
    f->rate_step = -1;
    if (!p->has_plan || p->plan.budget_seconds > 0) return;
    for (int64_t i = 0; i < b->n_steps && f->rate_step < 0; i++) {
        struct yokei_boxes_total t;
        yokei_boxes_step(b, i, &t, NULL);
        if (t.attempt != b->steps[b->n_steps - 1].attempt || t.flags & YOKEI_BOX_UNFINISHED) continue;
        const double planned = yokei_rate(&p->plan, t.step, yokei_rate_permille(&p->plan, false, t.step, 0));
        if (fabs(t.learning_rate - planned) <= 1e-9 * planned) continue;
        f->rate_step = t.step;
        f->rate_then = t.learning_rate;
        f->rate_planned = planned;
    }
}

void yokei_postmortem_look(struct yokei_postmortem *p)
{
    const struct yokei_boxes *b = p->boxes;
    struct yokei_postmortem_facts *f = p->facts;
    f->n_ranks = b->n;
    f->n_sharing = p->head->n_places;
    f->n_steps = b->n_steps;
    for (int r = 0; r < b->n; r++) f->is_open |= b->box[r] && b->box[r]->status.end == YOKEI_BOX_RUNS;
    f->odd_rank = -1;
    f->odd_limit = NAN;
    for (int64_t i = 0; i < b->n_steps; i++) {
        struct yokei_boxes_total t;
        yokei_boxes_step(b, i, &t, NULL);
        const enum yokei_odd odd = odd_of(b, &t);
        f->last_step = t.step;
        if (f->odd == YOKEI_ODD_NONE || f->has_recovered) p->attempt = t.attempt;
        /* the first one from which the run has not recovered, or else the first one */
        if (odd == YOKEI_ODD_NONE || (f->odd != YOKEI_ODD_NONE && !f->has_recovered)) continue;
        const struct yokei_postmortem_facts before = *f;
        note_odd(p, i, &t, odd);
        if (before.odd == YOKEI_ODD_NONE || !f->has_recovered) continue;
        *f = before;
    }
    if (f->odd == YOKEI_ODD_NONE && b->n_steps) {
        struct yokei_boxes_total t;
        yokei_boxes_step(b, b->n_steps - 1, &t, NULL);
        f->odd_step = f->last_step;
        f->loss_scale = t.loss_scale;
        p->attempt = t.attempt;
    }
    note_updates(p);
    check_rates(p);
}

static bool has_read(const struct yokei_postmortem *p, const struct yokei_box_record *r, int32_t *inputs,
                     int32_t *targets)
{
    const int64_t T = p->head->sequence;
    for (int64_t i = 0; i < r->own_count; i++)
        if (yokei_tokens_sample(p->tokens, p->head->seed,
                                yokei_box_sample(p->head, r->first_sample, r->own_first + i), T,
                                inputs + i * T, targets + i * T))
            return false;
    const size_t bytes = (size_t)(r->own_count * T) * sizeof *inputs;
    return yokei_hash(targets, bytes, yokei_hash(inputs, bytes, 0)) == r->tokens_hash;
}

void yokei_postmortem_check_tokens(struct yokei_postmortem *p, int64_t first, int64_t last)
{
    struct yokei_postmortem_facts *f = p->facts;
    const int64_t T = p->head->sequence, batch = p->head->batch;
    if (!p->tokens || T < 1 || batch < 1 || T > INT32_MAX || batch > INT32_MAX / T) return;
    int32_t *inputs = malloc((size_t)(2 * batch * T) * sizeof *inputs);
    if (!inputs) return;
    for (int64_t step = first; step <= last && f->tokens_step < 0; step++) {
        const int64_t i = yokei_postmortem_find(p, step);
        for (int r = 0; i >= 0 && r < p->boxes->n && f->tokens_step < 0; r++) {
            if (!p->boxes->box[r] || p->boxes->steps[i].at[r] < 0) continue;
            const struct yokei_box_record *record = yokei_box_record(p->boxes->box[r],
                                                                     p->boxes->steps[i].at[r]);
            f->are_tokens_checked = true;
            if (has_read(p, record, inputs, inputs + batch * T)) continue;
            f->tokens_step = step;
            f->tokens_rank = r;
        }
    }
    free(inputs);
}
