/* SPDX-License-Identifier: Apache-2.0 */
/* The least seconds of the layers of a model, for bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/predict_inside.h"

/* The calls of all layers for a micro-batch, from the program of one rank that holds all layers. */
static yoke_status count_all(yokei_predictor *p, const struct yokei_known_unit *u, struct yokei_planned *out)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    struct yokei_trainer_plan at;
    c.precision = p->config.precision;
    c.sequence = p->config.sequence;
    /* two micro-batches: the first W may overwrite what later ones add to */
    c.batch = 2 * u->micro_batch;
    c.micro_batch = u->micro_batch;
    c.tensor = u->tensor;
    c.data = c.pipeline = 1;
    c.sequence_parallel = u->sequence_parallel;
    c.recompute = yokei_recompute_words[u->recompute];
    YOKE_TRY(yokei_planned_rank(&p->planned, p->config.model, p->config.device, &c, u->tensor > 2 ? 1 : 0,
                                u->tensor, &at, out));
    yokei_trainer_plan_free(&at);
    return YOKE_OK;
}

/* The least times of the paths of tensor groups on this kind. */
static struct yokei_path best_inside(const struct yokei_cluster *c, int kind, int tensor)
{
    struct yokei_path best = { INFINITY, 0 };
    for (int h = 0; h < c->n_hosts; h++)
        for (int l = 0; l < c->host[h].n_lists; l++) {
            const struct yokei_host_devices *d = &c->host[h].devices[l];
            if (d->kind != kind || d->n < tensor || tensor == 1) continue;
            best.seconds = fmin(best.seconds, c->link[d->link].seconds);
            best.bytes_per_second = fmax(best.bytes_per_second, c->link[d->link].bytes_per_second);
        }
    if (isinf(best.seconds)) best = (struct yokei_path){ 0, INFINITY };
    return best;
}

static void least(double *x, double seconds) { *x = *x > 0 ? fmin(*x, seconds) : seconds; }

/* Calls of one layer and kind may differ. The least of them counts. */
static yoke_status measure(yokei_predictor *p, struct yokei_known_unit *u)
{
    const yoke_model *model = p->config.model;
    const struct yokei_path inside = best_inside(p->config.cluster, u->kind, u->tensor);
    struct yokei_layer_seconds *of = calloc((size_t)model->n_layers, sizeof *of);
    struct yokei_planned x;
    yoke_status status = of ? count_all(p, u, &x)
                            : yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d layers",
                                        model->n_layers);
    for (int i = 0; !status && i < x.counts->n_calls; i++) {
        const struct yokei_counted_call *call = &x.counts->call[i];
        struct yokei_layer_seconds *k = &of[call->layer];
        const double seconds = yokei_ops_seconds(p, u->kind, &inside, u->tensor,
                                                 x.counts->op + call->first_op, call->n_ops, NULL);
        if (call->again) least(&k->R, seconds);
        if (!call->times) continue;
        least(call->kind == YOKEI_FORWARD          ? &k->F
              : call->kind == YOKEI_BACKWARD_INPUT ? &k->B
                                                   : &k->W,
              seconds);
    }
    for (int l = 0; !status && l < model->n_layers; l++) {
        const bool is_before = l < model->before, is_after = l >= model->n_layers - model->after;
        struct yokei_layer_seconds *to = is_before  ? &u->unit.before
                                         : is_after ? &u->unit.after
                                                    : &u->unit.block;
        /* all blocks have the same layers, so the first one stands for all */
        if (!is_before && !is_after && l >= model->before + model->per_block) continue;
        to->F += of[l].F, to->B += of[l].B, to->W += of[l].W, to->R += of[l].R;
    }
    free(of);
    return status;
}

yoke_status yokei_predict_unit(yokei_predictor *p, int tensor, bool sequence_parallel, int recompute,
                               int64_t micro_batch, int kind, struct yokei_unit *out)
{
    struct yokei_known_unit u = { .tensor = tensor,
                                  .recompute = recompute,
                                  .kind = kind,
                                  .sequence_parallel = sequence_parallel,
                                  .micro_batch = micro_batch };
    for (int i = 0; i < p->n_units; i++) {
        const struct yokei_known_unit *k = &p->unit[i];
        if (k->tensor != tensor || k->recompute != recompute || k->kind != kind
            || k->sequence_parallel != sequence_parallel || k->micro_batch != micro_batch)
            continue;
        if (!k->status) *out = k->unit;
        return k->status ? yoke_fail(k->status, "planning: the model cannot be divided in this way")
                         : YOKE_OK;
    }
    if (p->n_units == p->units_capacity) {
        const int capacity = 2 * p->units_capacity + 64;
        struct yokei_known_unit *list = realloc(p->unit, (size_t)capacity * sizeof *list);
        if (!list) return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d units", capacity);
        p->unit = list;
        p->units_capacity = capacity;
    }
    u.status = measure(p, &u);
    if (u.status == YOKE_ENOMEM) return u.status;
    p->unit[p->n_units++] = u;
    if (!u.status) *out = u.unit;
    return u.status;
}
