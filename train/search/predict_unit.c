/* SPDX-License-Identifier: Apache-2.0 */
/* The least seconds of the layers of a model, for bounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/predict_inside.h"

/* The calls of all layers for a micro-batch, from the program of a rank that holds all layers. */
static yoke_status count_all(yokei_predictor *p, const struct yokei_known_unit *u, int rank,
                             struct yokei_planned *out)
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
    YOKE_TRY(
        yokei_planned_rank(&p->planned, p->config.model, p->config.device, &c, rank, u->tensor, &at, out));
    yokei_trainer_plan_free(&at);
    return YOKE_OK;
}

/* The least times of the paths of tensor groups on this kind, or the most. */
static struct yokei_path inside_of(const struct yokei_cluster *c, int kind, int tensor, bool most)
{
    struct yokei_path x = { INFINITY, 0, 0 };
    for (int h = 0; h < c->n_hosts; h++)
        for (int l = 0; l < c->host[h].n_lists; l++) {
            const struct yokei_host_devices *d = &c->host[h].devices[l];
            if (d->kind != kind || d->n < tensor || tensor == 1) continue;
            const struct yokei_link *link = &c->link[d->link];
            const bool first = isinf(x.seconds);
            x.seconds = first  ? link->seconds
                        : most ? fmax(x.seconds, link->seconds)
                               : fmin(x.seconds, link->seconds);
            x.bytes_per_second = first  ? link->bytes_per_second
                                 : most ? fmin(x.bytes_per_second, link->bytes_per_second)
                                        : fmax(x.bytes_per_second, link->bytes_per_second);
            x.wait = first ? link->wait : most ? fmax(x.wait, link->wait) : fmin(x.wait, link->wait);
        }
    if (isinf(x.seconds)) x = (struct yokei_path){ 0, INFINITY, 0 };
    return x;
}

static void take(double *x, double seconds, bool most)
{
    *x = *x <= 0 ? seconds : most ? fmax(*x, seconds) : fmin(*x, seconds);
}

/* Calls of one layer and kind may differ. The least of them counts, or the most. of [n_layers] */
static void take_calls(const yokei_predictor *p, const struct yokei_known_unit *u,
                       const struct yokei_planned *x, bool most, struct yokei_layer_seconds *of)
{
    const struct yokei_path inside = inside_of(p->config.cluster, u->kind, u->tensor, most);
    for (int i = 0; i < x->counts->n_calls; i++) {
        const struct yokei_counted_call *call = &x->counts->call[i];
        struct yokei_layer_seconds *k = &of[call->layer];
        const double seconds = yokei_ops_seconds(p, u->kind, &inside, u->tensor,
                                                 x->counts->op + call->first_op, call->n_ops, NULL);
        if (call->again) take(&k->R, seconds, most);
        if (!call->times) continue;
        take(call->kind == YOKEI_FORWARD          ? &k->F
             : call->kind == YOKEI_BACKWARD_INPUT ? &k->B
                                                  : &k->W,
             seconds, most);
    }
}

/* Add the layers of each part. All blocks have the same layers, so the first one stands for all. */
static void add_layers(const yoke_model *model, const struct yokei_layer_seconds *of,
                       struct yokei_layer_seconds *before, struct yokei_layer_seconds *block,
                       struct yokei_layer_seconds *after)
{
    for (int l = 0; l < model->n_layers; l++) {
        const bool is_before = l < model->before, is_after = l >= model->n_layers - model->after;
        struct yokei_layer_seconds *to = is_before ? before : is_after ? after : block;
        if (!is_before && !is_after && l >= model->before + model->per_block) continue;
        to->F += of[l].F, to->B += of[l].B, to->W += of[l].W, to->R += of[l].R;
    }
}

/* The least of the calls of one rank, or the most of the calls of all ranks of the tensor group. */
static yoke_status measure(yokei_predictor *p, struct yokei_known_unit *u, bool most)
{
    const yoke_model *model = p->config.model;
    const int first = most ? 0 : u->tensor > 2, end = most ? u->tensor : first + 1;
    struct yokei_layer_seconds *of = calloc((size_t)model->n_layers, sizeof *of);
    struct yokei_unit *out = &u->unit;
    yoke_status status = of ? YOKE_OK
                            : yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d layers",
                                        model->n_layers);
    for (int rank = first; rank < end && !status; rank++) {
        struct yokei_planned x;
        status = count_all(p, u, rank, &x);
        if (!status) take_calls(p, u, &x, most, of);
    }
    if (!status && most)
        add_layers(model, of, &out->most_before, &out->most_block, &out->most_after);
    else if (!status)
        add_layers(model, of, &out->before, &out->block, &out->after);
    free(of);
    return status;
}

/* The unit in the table. The next new unit may move it. */
static yoke_status find(yokei_predictor *p, const struct yokei_known_unit *key, struct yokei_known_unit **out)
{
    for (int i = 0; i < p->n_units; i++) {
        struct yokei_known_unit *k = &p->unit[i];
        if (k->tensor != key->tensor || k->recompute != key->recompute || k->kind != key->kind
            || k->sequence_parallel != key->sequence_parallel || k->micro_batch != key->micro_batch)
            continue;
        *out = k;
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
    struct yokei_known_unit u = *key;
    u.status = measure(p, &u, false);
    if (u.status == YOKE_ENOMEM) return u.status;
    *out = &p->unit[p->n_units++];
    **out = u;
    return u.status;
}

yoke_status yokei_predict_unit(yokei_predictor *p, int tensor, bool sequence_parallel, int recompute,
                               int64_t micro_batch, int kind, struct yokei_unit *out)
{
    const struct yokei_known_unit key = { .tensor = tensor,
                                          .recompute = recompute,
                                          .kind = kind,
                                          .sequence_parallel = sequence_parallel,
                                          .micro_batch = micro_batch };
    struct yokei_known_unit *u = NULL;
    YOKE_TRY(find(p, &key, &u));
    *out = u->unit;
    return YOKE_OK;
}

yoke_status yokei_predict_whole_unit(yokei_predictor *p, const struct yokei_layout *l, int kind,
                                     struct yokei_unit *out)
{
    const struct yokei_known_unit key = { .tensor = l->tensor,
                                          .recompute = l->recompute,
                                          .kind = kind,
                                          .sequence_parallel = l->sequence_parallel,
                                          .micro_batch = l->micro_batch };
    struct yokei_known_unit *u = NULL;
    YOKE_TRY(find(p, &key, &u));
    if (!u->has_most) YOKE_TRY(measure(p, u, true));
    u->has_most = true;
    *out = u->unit;
    return YOKE_OK;
}
