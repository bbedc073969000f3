/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step beside the formulas of the model: its losses, its outputs, and its gradients. A gradient is right if
 * the loss of the formulas changes along it as its norm says.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/base.h"
#include "train/models/model_files.h"
#include "train/postmortem/formulas.h"
#include "train/postmortem/inside.h"
#include "train/trainer/trainer.h"

/* With more operations than this, a step takes more than about a minute on a core. */
#define MOST_OPERATIONS 1e11

/* ---- in a process of its own ---- */

struct batch {
    int64_t n, T;
    int32_t *inputs, *targets;
};

static yoke_status read_batch(const struct yokei_postmortem_work *w, struct batch *b)
{
    const struct yokei_plan *plan = &w->p->plan;
    b->n = plan->batch;
    b->T = plan->sequence;
    b->inputs = malloc(2 * (size_t)(b->n * b->T) * sizeof *b->inputs);
    if (!b->inputs) return yoke_fail(YOKE_ENOMEM, "no host memory");
    b->targets = b->inputs + b->n * b->T;
    for (int64_t i = 0; i < b->n; i++)
        YOKE_TRY(yokei_tokens_sample(w->p->tokens, plan->seed, yokei_box_sample(w->p->head, w->batch, i),
                                     b->T, b->inputs + i * b->T, b->targets + i * b->T));
    return YOKE_OK;
}

static yoke_status mean_loss(const struct yokei_formulas *f, const struct batch *b, double *losses,
                             double *largest, double *mean_out)
{
    double sum = 0;
    for (int64_t i = 0; i < b->n; i++) {
        double own = 0;
        YOKE_TRY(yokei_formulas_loss(f, b->inputs + i * b->T, b->targets + i * b->T, b->T, &own, largest));
        if (losses) losses[i] = own;
        sum += own;
    }
    *mean_out = sum / (double)(b->n * b->T);
    return YOKE_OK;
}

/* The layer of the model to which a parameter belongs; -1: no rank has it. */
static int layer_of(const struct yokei_boxes *boxes, const char *name)
{
    for (int r = 0; r < boxes->n; r++)
        for (uint32_t i = 0; boxes->box[r] && i < boxes->box[r]->head.n_tensors; i++)
            if (!strcmp(boxes->box[r]->tensors[i].name, name)) return boxes->box[r]->tensors[i].layer;
    return -1;
}

/* Weights of the trainer as numbers of the formulas. */
static yoke_status take_weights(yoke_trainer *t, struct yokei_formulas *f)
{
    for (int i = 0; i < t->plan.parameters.n; i++) {
        int64_t n;
        double *to = yokei_formulas_weight(f, t->plan.parameters.item[i].name, &n);
        float *from = to ? malloc((size_t)n * sizeof *from) : NULL;
        if (!to)
            return yoke_fail(YOKE_EUNSUPPORTED, "the formulas have no weight %s",
                             t->plan.parameters.item[i].name);
        if (!from) return yoke_fail(YOKE_ENOMEM, "no host memory");
        YOKE_TRY(yoke_trainer_get(t, YOKE_TENSOR_WEIGHT, i, from));
        for (int64_t k = 0; k < n; k++) to[k] = from[k];
        free(from);
    }
    return YOKE_OK;
}

/* Move the weights of a layer by `distance` along its gradient, whose squares add up to norm^2. */
static void move(const struct yokei_postmortem_work *w, yoke_trainer *t, struct yokei_formulas *f, int layer,
                 float *const *gradient, double distance)
{
    for (int i = 0; i < t->plan.parameters.n; i++) {
        const char *name = t->plan.parameters.item[i].name;
        int64_t n;
        if (layer_of(w->p->boxes, name) != layer) continue;
        double *weight = yokei_formulas_weight(f, name, &n);
        for (int64_t k = 0; k < n; k++) weight[k] += distance / w->shared->norm[layer] * gradient[i][k];
    }
}

/* The slope of the loss along each layer's gradient, by central differences. */
static yoke_status find_slopes(const struct yokei_postmortem_work *w, yoke_trainer *t,
                               struct yokei_formulas *f, const struct batch *b)
{
    const double step = 1e-4;
    struct yoke_step_result result = YOKE_STEP_RESULT_INIT;
    float **gradient = calloc((size_t)t->plan.parameters.n, sizeof *gradient);
    if (!gradient) return yoke_fail(YOKE_ENOMEM, "no host memory");
    yokei_trainer_restore(t, w->step, w->step, t->loss_scale.scale, 0, 0);
    YOKE_TRY(yoke_trainer_backward(t, b->inputs, b->targets, 0, &result));
    for (int i = 0; i < t->plan.parameters.n; i++) {
        const int layer = layer_of(w->p->boxes, t->plan.parameters.item[i].name);
        int64_t n;
        yokei_formulas_weight(f, t->plan.parameters.item[i].name, &n);
        gradient[i] = malloc((size_t)n * sizeof **gradient);
        if (!gradient[i]) return yoke_fail(YOKE_ENOMEM, "no host memory");
        YOKE_TRY(yoke_trainer_get(t, YOKE_TENSOR_GRADIENT, i, gradient[i]));
        for (int64_t k = 0; k < n && layer >= 0; k++)
            w->shared->norm[layer] += (double)gradient[i][k] * gradient[i][k];
    }
    for (int l = 0; l < w->p->boxes->n_model_layers; l++) {
        double above, below;
        w->shared->norm[l] = sqrt(w->shared->norm[l]);
        if (!(w->shared->norm[l] > 0) || !isfinite(w->shared->norm[l])) continue;
        move(w, t, f, l, gradient, step);
        YOKE_TRY(mean_loss(f, b, NULL, NULL, &above));
        move(w, t, f, l, gradient, -2 * step);
        YOKE_TRY(mean_loss(f, b, NULL, NULL, &below));
        move(w, t, f, l, gradient, step);
        w->shared->slope[l] = (above - below) / (2 * step);
    }
    return YOKE_OK;
}

/* The process ends after this, and with it all that was opened. */
static yoke_status compute(struct yokei_postmortem_work *w)
{
    struct yokei_formulas *f;
    struct batch b = { 0 };
    yoke_trainer *t;
    double mean;
    YOKE_TRY(yokei_formulas_create(yokei_plan_model(&w->p->plan), &f));
    YOKE_TRY(yokei_postmortem_open_trainer(w, w->p->plan.batch, &t));
    YOKE_TRY(take_weights(t, f));
    YOKE_TRY(read_batch(w, &b));
    w->shared->n_outputs = YOKE_MIN(yokei_formulas_n_outputs(f), (int)YOKEI_POSTMORTEM_LAYERS);
    YOKE_TRY(mean_loss(f, &b, w->shared->losses, w->shared->largest, &mean));
    /* in f16 gradients have a scale */
    return strcmp(w->p->plan.precision, "f16") != 0 ? find_slopes(w, t, f, &b) : YOKE_OK;
}

/* ---- beside the records ---- */

/* The losses of each rank's samples. Some ranks that are wrong, and others that are not, are noted. */
static void compare_losses(struct yokei_postmortem *p, const struct yokei_boxes_step *step,
                           const double *losses, struct yokei_formula_check *c)
{
    int n_right = 0;
    for (int r = 0; r < p->boxes->n; r++) {
        if (!p->boxes->box[r] || step->at[r] < 0) continue;
        const struct yokei_box_record *record = yokei_box_record(p->boxes->box[r], step->at[r]);
        double sum = 0;
        if (record->own_loss == 0) continue;
        for (int64_t k = 0; k < record->own_count; k++) sum += losses[record->own_first + k];
        if (!yokei_postmortem_differs(record->own_loss, sum, yokei_postmortem_rounding(p->head->precision))) {
            n_right++;
            continue;
        }
        if (!c->is_loss_off) {
            const double n = (double)(record->own_count * p->head->sequence);
            c->loss_then = record->own_loss / n, c->loss_now = sum / n;
        }
        c->is_loss_off = true;
        if (c->ranks_off.n < YOKEI_POSTMORTEM_RANKS) c->ranks_off.rank[c->ranks_off.n++] = r;
    }
    yokei_text(c->ranks_off.what, sizeof c->ranks_off.what,
               "the loss of its samples is not that of the formulas");
    if (!n_right) c->ranks_off.n = 0;
}

static void compare_outputs(struct yokei_postmortem *p, const struct yokei_postmortem_shared *s,
                            struct yokei_formula_check *c)
{
    const double tolerance = 10 * yokei_postmortem_rounding(p->head->precision);
    for (int l = 0; l < s->n_outputs && l < p->boxes->n_model_layers && !c->is_output_off; l++) {
        if (isnan(p->then[l].largest)
            || !yokei_postmortem_differs(p->then[l].largest, s->largest[l], tolerance))
            continue;
        c->is_output_off = true;
        c->then = p->then[l].largest, c->now = s->largest[l];
        yokei_text(c->layer, sizeof c->layer, "%s", p->boxes->layer[l]);
    }
}

/* Gradients that are small beside the largest one are rounded too much to be judged. */
static void compare_gradients(struct yokei_postmortem *p, const struct yokei_postmortem_shared *s,
                              struct yokei_formula_check *c)
{
    double largest = 0, worst = strcmp(p->head->precision, "f32") != 0 ? 0.1 : 0.02;
    if (c->is_loss_off || c->is_output_off) return;
    for (int l = 0; l < p->boxes->n_model_layers; l++) largest = fmax(largest, s->norm[l]);
    for (int l = 0; l < p->boxes->n_model_layers; l++) {
        const double far = fabs(s->slope[l] - s->norm[l]) / s->norm[l];
        if (!(s->norm[l] > 1e-2 * largest) || !(far > worst)) continue;
        worst = far;
        c->is_gradient_off = true;
        c->then = s->norm[l], c->now = s->slope[l];
        yokei_text(c->layer, sizeof c->layer, "%s", p->boxes->layer[l]);
    }
}

/* Why the formulas cannot be computed; "": they can. */
static void find_obstacle(const struct yokei_postmortem *p, char *why, size_t bytes)
{
    const struct yokei_model model = yokei_plan_model(&p->plan);
    const double tokens = (double)p->plan.batch * (double)p->plan.sequence,
                 operations = yokei_model_flops(model, p->plan.sequence) / 3 * tokens
                              * (double)(1 + 2 * p->boxes->n_model_layers);
    double dropout;
    const char *where;
    why[0] = 0;
    for (int i = 0; yokei_model_dropout(model, i, &dropout, &where); i++)
        if (dropout > 0) yokei_text(why, bytes, "the model has dropout");
    if (p->plan.batch > YOKEI_POSTMORTEM_SAMPLES || p->boxes->n_model_layers > YOKEI_POSTMORTEM_LAYERS
        || operations > MOST_OPERATIONS)
        yokei_text(why, bytes, "the model or the batch is too large to compute a step in f64");
}

void yokei_postmortem_check_formulas(struct yokei_postmortem *p, const struct yokei_postmortem_start *start)
{
    struct yokei_formula_check *c = &p->facts->formulas;
    const struct yokei_postmortem_order order = { .start = start, .device = "host", .rate = 1 };
    const int64_t i = yokei_postmortem_find(p, start->step + 1);
    struct yokei_boxes_total then;
    find_obstacle(p, c->why, sizeof c->why);
    if (i < 0 || c->why[0]) return;
    yokei_boxes_step(p->boxes, i, &then, p->then);
    struct yokei_postmortem_work w = { .run = compute,
                                       .p = p,
                                       .order = &order,
                                       .step = start->step,
                                       .batch = then.first_sample,
                                       .shared = yokei_postmortem_share() };
    if (!then.is_whole || !w.shared) return;
    c->step = then.step;
    char why[320] = "";
    if (!yokei_postmortem_apart(&w, p->config->seconds, why, sizeof why))
        yokei_text(c->why, sizeof c->why, "%.150s", why);
    else if (w.shared->status)
        yokei_text(c->why, sizeof c->why, "%.150s", w.shared->why);
    else {
        c->ran = true;
        c->loss_then = then.loss;
        c->loss_now = 0;
        for (int64_t k = 0; k < p->plan.batch; k++)
            c->loss_now += w.shared->losses[k] / (double)(p->plan.batch * p->plan.sequence);
        compare_losses(p, &p->boxes->steps[i], w.shared->losses, c);
        compare_outputs(p, w.shared, c);
        compare_gradients(p, w.shared, c);
    }
    munmap(w.shared, sizeof *w.shared);
}
