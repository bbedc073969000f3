/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a replay beside those of the run: the first step that differs, its layer and its ranks. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/base/base.h"
#include "train/postmortem/inside.h"

/* What two records of a step may differ by, relative to the number. */
struct limits {
    double loss, norm;
};

/*
 * Two layouts, devices or precisions round otherwise, and the differences grow from step to step. With the
 * same bits nothing may differ.
 */
static struct limits limits_of(const struct yokei_postmortem *p, const struct yokei_replayed *out,
                               int64_t step)
{
    const double n = (double)(step - out->from), grown = out->is_exact ? 0 : 1 + 0.2 * n,
                 rounding = yokei_postmortem_rounding(p->head->precision);
    return (struct limits){ rounding * grown, fmax(2 * rounding, 1e-2) * grown };
}

/* ---- which ranks ---- */

enum { MOST_RANKS = 1024 };

/* A rank's records of one step, and what differs. */
struct rank_pair {
    bool is_there, has_loss, is_loss_off, are_weights_off, is_gradient_off;
    int output; /* the lowest layer of the model whose output differs; INT_MAX: none */
};

static struct rank_pair pair_of(const struct yokei_box *then, int64_t at_then, const struct yokei_box *now,
                                int64_t at_now, struct limits limit)
{
    struct rank_pair pair = { .output = INT_MAX };
    if (!then || !now || at_then < 0 || at_now < 0 || then->head.n_layers != now->head.n_layers) return pair;
    const struct yokei_box_record *a = yokei_box_record(then, at_then), *b = yokei_box_record(now, at_now);
    const struct yokei_box_values *x = yokei_box_values(then, at_then), *y = yokei_box_values(now, at_now);
    const double norm = 4 * limit.norm; /* squares */
    pair.is_there = true;
    pair.has_loss = a->own_loss != 0;
    pair.is_loss_off = yokei_postmortem_differs(a->own_loss, b->own_loss, limit.loss);
    for (uint32_t l = 0; l < then->head.n_layers; l++) {
        pair.is_gradient_off = pair.is_gradient_off
                               || yokei_postmortem_differs(x[l].squares, y[l].squares, norm);
        if (!isnan(x[l].weight_squares) && !isnan(y[l].weight_squares))
            pair.are_weights_off = pair.are_weights_off
                                   || yokei_postmortem_differs(x[l].weight_squares, y[l].weight_squares,
                                                               norm);
        if (!isnan(x[l].largest) && !isnan(y[l].largest)
            && yokei_postmortem_differs(x[l].largest, y[l].largest, 10 * limit.norm))
            pair.output = YOKE_MIN(pair.output, then->layers[l].layer);
    }
    return pair;
}

/* Note the ranks that have `which`, if there are some and not all. True: they are noted. */
static bool note_ranks(const bool *which, const bool *counts, int n, const char *what,
                       struct yokei_ranks_off *out)
{
    int n_off = 0, n_counted = 0;
    for (int r = 0; r < n; r++) {
        n_counted += counts[r];
        n_off += counts[r] && which[r];
    }
    if (!n_off || n_off == n_counted || n_off > YOKEI_POSTMORTEM_RANKS) return false;
    out->n = 0;
    for (int r = 0; r < n; r++)
        if (counts[r] && which[r]) out->rank[out->n++] = r;
    yokei_text(out->what, sizeof out->what, "%s", what);
    return true;
}

/*
 * The ranks of the lowest stage that has a wrong output, because later stages get theirs from it. If they are
 * all ranks of the first stage, the others may compute rightly or not.
 */
static bool note_stage(const struct yokei_postmortem *p, const struct rank_pair *pair, const bool *is_there,
                       int n, struct yokei_ranks_off *out)
{
    bool output[MOST_RANKS];
    int lowest = INT_MAX;
    for (int r = 0; r < n; r++)
        if (pair[r].output < INT_MAX) lowest = YOKE_MIN(lowest, p->boxes->box[r]->head.stage);
    for (int r = 0; r < n; r++)
        output[r] = pair[r].output < INT_MAX && p->boxes->box[r]->head.stage == lowest;
    if (!note_ranks(output, is_there, n, "the lowest output that is wrong", out)) return false;
    out->is_first_stage = true;
    for (int r = 0; r < n; r++)
        if (is_there[r] && (p->boxes->box[r]->head.stage == 0) != output[r]) out->is_first_stage = false;
    return true;
}

/*
 * The ranks at which a step left its path. Weights and losses are each rank's own. A gradient is a rank's own
 * before it is added up. If all ranks differ, a sum has spread the fault. Only the last stage of a pipeline
 * has losses.
 */
static void find_ranks(const struct yokei_postmortem *p, const struct yokei_boxes *again,
                       const struct yokei_boxes_step *then, const struct yokei_boxes_step *now,
                       struct limits limit, struct yokei_ranks_off *out)
{
    bool weights[MOST_RANKS], loss[MOST_RANKS], gradient[MOST_RANKS], is_there[MOST_RANKS],
        has_loss[MOST_RANKS];
    struct rank_pair pair[MOST_RANKS];
    const int n = p->boxes->n;
    const bool is_pipeline = p->head->n_stages > 1;
    bool any_loss = false;
    *out = (struct yokei_ranks_off){ .n = 0 };
    if (n != again->n || n < 2 || n > MOST_RANKS) return;
    for (int r = 0; r < n; r++) {
        pair[r] = pair_of(p->boxes->box[r], then->at[r], again->box[r], now->at[r], limit);
        is_there[r] = pair[r].is_there;
        has_loss[r] = pair[r].is_there && pair[r].has_loss;
        weights[r] = pair[r].are_weights_off;
        loss[r] = has_loss[r] && pair[r].is_loss_off;
        gradient[r] = pair[r].is_gradient_off;
        any_loss = any_loss || loss[r];
    }
    if (note_ranks(weights, is_there, n, "the weights", out)) return;
    if (is_pipeline && note_stage(p, pair, is_there, n, out)) return;
    if (note_ranks(loss, has_loss, n, "the loss of its samples", out)) return;
    if (!any_loss) note_ranks(gradient, is_there, n, "its part of the gradients", out);
}

/* The rank that alone holds the layer of the first wrong output, for a replay of another layout. */
static void find_holder(const struct yokei_postmortem *p, struct yokei_replayed *out)
{
    int holder = -1;
    if (strcmp(out->what, "output") != 0) return;
    for (int r = 0; r < p->boxes->n; r++)
        for (uint32_t l = 0; p->boxes->box[r] && l < p->boxes->box[r]->head.n_layers; l++)
            if (!strcmp(p->boxes->box[r]->layers[l].name, out->layer)) holder = holder < 0 ? r : INT_MAX;
    if (holder < 0 || holder == INT_MAX) return;
    out->ranks_off = (struct yokei_ranks_off){ .n = 1, .rank = { holder } };
    out->ranks_off.is_first_stage = p->boxes->box[holder]->head.stage == 0;
    yokei_text(out->ranks_off.what, sizeof out->ranks_off.what, "the lowest output that is wrong");
}

/* ---- a step ---- */

/* The first layer that is off: of the outputs the lowest one, of the gradients the highest one; -1: none. */
static int first_layer(const struct yokei_postmortem *p, double norm, bool *in_output)
{
    *in_output = true;
    for (int l = 0; l < p->boxes->n_model_layers; l++)
        if (!isnan(p->then[l].largest)
            && yokei_postmortem_differs(p->then[l].largest, p->now[l].largest, 10 * norm))
            return l;
    *in_output = false;
    for (int l = p->boxes->n_model_layers - 1; l >= 0; l--)
        if (yokei_postmortem_differs(p->then[l].gradient_norm, p->now[l].gradient_norm, 2 * norm)) return l;
    return -1;
}

/*
 * Compare a step with its record. If the records of a rank are missing, the layers are not known, but every
 * rank has the loss and the norm of the run. True: it differs.
 */
static bool compare_step(struct yokei_postmortem *p, const struct yokei_boxes_total *then,
                         const struct yokei_boxes_total *now, struct yokei_replayed *out)
{
    const struct limits limit = limits_of(p, out, then->step);
    const bool has_layers = then->is_whole && now->is_whole;
    const uint32_t either = then->flags | now->flags;
    /* f16 may overflow by rounding alone */
    const bool is_finite_now = then->flags & YOKEI_BOX_OVERFLOW && !(now->flags & YOKEI_BOX_OVERFLOW)
                               && (out->is_exact || !strcmp(out->precision, "f32")),
               is_whole = !(either & YOKEI_BOX_UNFINISHED)
                          && (!(either & YOKEI_BOX_OVERFLOW) || is_finite_now);
    int n_off = 0;
    bool in_output = false;
    out->is_loss_off = yokei_postmortem_differs(then->loss, now->loss, limit.loss);
    for (int l = 0; l < p->boxes->n_model_layers; l++)
        n_off += is_whole && has_layers
                 && yokei_postmortem_differs(p->then[l].gradient_norm, p->now[l].gradient_norm,
                                             2 * limit.norm);
    const int first = is_whole && has_layers ? first_layer(p, limit.norm, &in_output) : -1;
    const bool is_off = out->is_loss_off || (is_whole && is_finite_now)
                        || (is_whole
                            && yokei_postmortem_differs(then->gradient_norm, now->gradient_norm, limit.norm))
                        || (out->is_exact && n_off) || then->loss_scale != now->loss_scale;
    if (!is_off) return false;
    out->off_step = then->step;
    out->loss_then = then->loss, out->loss_now = now->loss;
    out->norm_then = then->gradient_norm, out->norm_now = now->gradient_norm;
    out->scale_then = then->loss_scale, out->scale_now = now->loss_scale;
    out->n_layers_off = n_off;
    out->n_layers = p->boxes->n_model_layers;
    if (first >= 0) yokei_text(out->layer, sizeof out->layer, "%s", p->boxes->layer[first]);
    yokei_text(out->what, sizeof out->what, "%s", in_output ? "output" : "gradient");
    return true;
}

/* ---- devices ---- */

/*
 * Whether the ranks of the replay have the devices and choices of the run. A rank whose device is another one
 * now is missing.
 */
static bool compute_alike(struct yokei_postmortem *p, const struct yokei_postmortem_order *o,
                          const struct yokei_boxes *again)
{
    bool is_alike = true;
    for (int r = 0; r < p->boxes->n && r < again->n; r++) {
        const struct yokei_box *then = p->boxes->box[r], *now = again->box[r];
        if (!then || !now) continue; /* a box that cannot be read is missing already */
        is_alike = is_alike && yokei_box_computes_alike(&then->head, &now->head);
        const bool is_other = strcmp(then->head.device_name, now->head.device_name) != 0
                              || strcmp(then->head.driver, now->head.driver) != 0;
        if (is_other && !o->in_f32 && o->rate == 1 && !p->are_devices_noted)
            yokei_postmortem_miss(p->facts,
                                  "the device of rank %d: %s was %.60s (%.60s) in the run, and is %.60s "
                                  "(%.60s) now, so bits cannot be compared",
                                  r, then->head.device, then->head.device_name, then->head.driver,
                                  now->head.device_name, now->head.driver);
        p->are_devices_noted = p->are_devices_noted || is_other;
    }
    return is_alike;
}

void yokei_postmortem_compare(struct yokei_postmortem *p, const struct yokei_postmortem_order *o,
                              const char *folder, struct yokei_replayed *out)
{
    struct yokei_boxes *again = NULL;
    if (yokei_boxes_read(folder, &again)) {
        yokei_text(out->why, sizeof out->why, "its black box cannot be read: %s", yoke_last_error());
        return;
    }
    const bool same_model = again->n_model_layers == p->boxes->n_model_layers;
    out->ran = same_model && again->n_steps > 0;
    if (!out->ran) {
        yokei_text(out->why, sizeof out->why, "%s",
                   same_model ? "the plan has no step to repeat" : "its model has other layers");
        yokei_boxes_free(again);
        return;
    }
    if (out->is_exact) out->is_exact = again->n == p->boxes->n && compute_alike(p, o, again);
    for (int64_t i = 0; i < again->n_steps; i++) {
        struct yokei_boxes_total then, now;
        yokei_boxes_step(again, i, &now, p->now);
        if (out->n_ranks > 1 && !now.is_whole) break; /* a rank of the replay was lost */
        out->last_step = now.step;
        if (!isfinite(now.loss)) {
            out->failed_step = now.step;
            if (o->rate != 1) break;
        } else
            out->last_loss = now.loss;
        const int64_t at = yokei_postmortem_find(p, now.step);
        if (o->rate != 1 || at < 0 || out->off_step >= 0) continue;
        yokei_boxes_step(p->boxes, at, &then, p->then);
        if (o->in_f32) then.loss_scale = now.loss_scale; /* f32 needs none */
        out->n_compared++;
        if (!compare_step(p, &then, &now, out)) continue;
        if (again->n == p->boxes->n)
            find_ranks(p, again, &p->boxes->steps[at], &again->steps[i], limits_of(p, out, then.step),
                       &out->ranks_off);
        else
            find_holder(p, out);
    }
    yokei_boxes_free(again);
}
