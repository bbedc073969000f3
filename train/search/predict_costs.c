/* SPDX-License-Identifier: Apache-2.0 */
/* The costs of the lines of a layout's schedule: passes, messages, sums of gradients, and the optimizer. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/predict_inside.h"

/* ---- ops ---- */

static double together_seconds(const struct yokei_path *inside, int tensor, const struct yokei_op *op)
{
    return inside->wait + yokei_ring_seconds(inside, tensor, op->bytes, !strcmp(op->name, "tensor_sum"));
}

double yokei_ops_seconds(const struct yokei_predictor *p, int kind, const struct yokei_path *inside,
                         int tensor, const struct yokei_op *ops, int n, double *together_out)
{
    const struct yokei_speed *speed = p->config.cluster->kind[kind].speed[p->type];
    double seconds = 0, together = 0;
    for (int i = 0; i < n; i++) {
        const int class = yokei_op_class_of(ops[i].name);
        if (class < 0)
            together += together_seconds(inside, tensor, &ops[i]);
        else
            seconds += yokei_op_seconds(&speed[class], ops[i].flops, ops[i].bytes);
    }
    if (together_out) *together_out = together;
    return seconds + together;
}

/* ---- links that ranks share ---- */

static const struct yokei_slot_place *slot_of(const struct yokei_predicting *w, int s, int d)
{
    return &w->places.slot[yokei_layout_slot(w->l, s, d)];
}

static struct yokei_path hop_path(const struct yokei_predicting *w, int s, int d)
{
    const struct yokei_slot_place *a = slot_of(w, s, d), *b = slot_of(w, (s + 1) % w->l->pipeline, d);
    return yokei_path_between(w->p->config.cluster, a, w->hop_sharers[a->host], b, w->hop_sharers[b->host]);
}

/* ---- sums of gradients ---- */

static void meet(struct yokei_path *slowest, struct yokei_path path)
{
    slowest->seconds = fmax(slowest->seconds, path.seconds);
    slowest->bytes_per_second = fmin(slowest->bytes_per_second, path.bytes_per_second);
}

/* Replicas that lie on one host have adjacent numbers in both orders of places. */
static struct yokei_sum_group group_of(const struct yokei_predicting *w, int s)
{
    struct yokei_sum_group g;
    memset(&g, 0, sizeof g); /* groups are compared byte by byte */
    g.n = w->l->data;
    g.n_hosts = 1;
    g.inner.bytes_per_second = g.outer.bytes_per_second = INFINITY;
    int here = 1;
    for (int d = 1; d <= g.n; d++) {
        const struct yokei_slot_place *a = slot_of(w, s, d - 1), *b = d < g.n ? slot_of(w, s, d) : NULL;
        if (b && a->host == b->host) {
            here++;
            meet(&g.inner, yokei_path_between(w->p->config.cluster, a, 1, b, 1));
            continue;
        }
        if (g.per_host == 0 && g.n_hosts == 1)
            g.per_host = here;
        else if (g.per_host != here)
            g.per_host = -1;
        here = 1;
        if (!b) break;
        g.n_hosts++;
        meet(&g.outer, yokei_path_between(w->p->config.cluster, a, w->sum_sharers[a->host], b,
                                          w->sum_sharers[b->host]));
    }
    if (g.per_host < 0) g.per_host = 0;
    g.slowest = g.inner;
    meet(&g.slowest, g.outer);
    return g;
}

/* The place of a sum in the table: that of the same sum, or the empty one where it belongs. */
static struct yokei_known_sum *place_of_sum(const struct yokei_predictor *p, const struct yokei_sum_group *g,
                                            int64_t n)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)n; /* FNV-1a by words */
    uint64_t word[sizeof *g / sizeof(uint64_t)];
    _Static_assert(sizeof word == sizeof *g, "a group is a number of whole words");
    memcpy(word, g, sizeof *g);
    for (size_t i = 0; i < YOKE_COUNT(word); i++) hash = (hash ^ word[i]) * UINT64_C(0x100000001b3);
    const size_t mask = (size_t)p->sums_capacity - 1;
    size_t at = (size_t)(hash ^ hash >> 32) & mask;
    while (p->sum[at].group.n && (p->sum[at].n != n || memcmp(&p->sum[at].group, g, sizeof *g) != 0))
        at = (at + 1) & mask;
    return &p->sum[at];
}

/* Make room for one more sum. At most half of the table's places are used. */
static yoke_status grow_sums(yokei_predictor *p)
{
    if (2 * p->n_sums < p->sums_capacity) return YOKE_OK;
    const struct yokei_predictor old = *p;
    p->sums_capacity = old.sums_capacity ? 2 * old.sums_capacity : 256;
    p->sum = calloc((size_t)p->sums_capacity, sizeof *p->sum);
    if (!p->sum) {
        *p = old;
        return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d sums", old.n_sums);
    }
    for (int i = 0; i < old.sums_capacity; i++)
        if (old.sum[i].group.n)
            memcpy(place_of_sum(p, &old.sum[i].group, old.sum[i].n), &old.sum[i], sizeof *p->sum);
    free(old.sum);
    return YOKE_OK;
}

static yoke_status sum_seconds(yokei_predictor *p, const struct yokei_sum_group *g, int64_t n,
                               double *seconds_out)
{
    if (g->n == 1) {
        *seconds_out = 0;
        return YOKE_OK;
    }
    YOKE_TRY(grow_sums(p));
    struct yokei_known_sum *known = place_of_sum(p, g, n);
    if (!known->group.n) {
        double seconds;
        YOKE_TRY(yokei_sum_seconds(g, n, &seconds));
        memcpy(&known->group, g, sizeof *g);
        known->n = n;
        known->seconds = seconds;
        p->n_sums++;
    }
    *seconds_out = known->seconds;
    return YOKE_OK;
}

/* ---- a line ---- */

/* Seconds of each layer of the first chunk in the backward pass of a micro-batch. */
struct backward {
    double *all, *weight; /* [n] with everything that comes before the next layer, and W alone */
    int n;
};

static void cost_of_calls(struct yokei_predicting *w, int line, const struct yokei_path *inside, int kind,
                          struct yokei_chunk_costs *chunk, struct backward *back)
{
    const struct yokei_counted *c = w->line[line].counts;
    const double m = w->line[line].n_micro_batches;
    w->line_tensor[line] = w->line_again[line] = 0;
    for (int i = 0; i < c->n_calls; i++) {
        const struct yokei_counted_call *call = &c->call[i];
        double together;
        const double seconds = yokei_ops_seconds(w->p, kind, inside, w->l->tensor, c->op + call->first_op,
                                                 call->n_ops, &together);
        const double first = seconds * call->times / m, again = seconds * call->again / m;
        struct yokei_chunk_costs *k = &chunk[call->chunk];
        k->R += again;
        if (call->kind == YOKEI_FORWARD) k->F += first;
        if (call->kind == YOKEI_BACKWARD_INPUT) k->B += first;
        if (call->kind == YOKEI_BACKWARD_WEIGHT) k->W += first;
        if (call->chunk == 0 && call->layer < back->n) {
            back->all[call->layer] += again + (call->kind == YOKEI_FORWARD ? 0 : first);
            if (call->kind == YOKEI_BACKWARD_WEIGHT) back->weight[call->layer] += first;
        }
        w->line_tensor[line] += together * (call->times + call->again);
        w->line_again[line] += (seconds - together) * call->again;
    }
}

/*
 * The sums of a line. The last backward pass is that of chunk 0. A sum begins as soon as the W of its last
 * layer is done, so the layers below this one come after it. Buckets of other chunks begin after the first
 * layer of the pass.
 */
static yoke_status cost_of_sums(struct yokei_predicting *w, int line, const struct yokei_sum_group *g,
                                const struct backward *back, struct yokei_sum_costs *sum)
{
    const struct yokei_counted_once *once = w->line[line].once;
    struct yokei_pipeline shape = { .kind = w->l->schedule,
                                    .n_stages = w->l->pipeline,
                                    .n_chunks = w->l->chunks,
                                    .n_micro_batches = w->line[line].n_micro_batches };
    struct yokei_schedule_order order;
    yokei_schedule_order(&shape, line % w->l->pipeline, &order);
    const double *after = order.sends_early && !order.is_first ? back->weight : back->all;
    for (int b = 0; b < once->n_buckets; b++) {
        const struct yokei_counted_bucket *k = &once->bucket[b];
        const int last = k->chunk == 0 ? YOKE_MIN(k->layer, back->n - 1) : back->n - 1;
        YOKE_TRY(sum_seconds(w->p, g, k->n, &sum[b].seconds));
        if (k->sums_slices) sum[b].seconds /= 2;
        sum[b].early = 0;
        for (int l = 0; l < last; l++) sum[b].early += after[l];
    }
    return YOKE_OK;
}

/* The optimizer: AdamW works on a bucket while the weights of the bucket before it are gathered. */
static yoke_status cost_of_step(struct yokei_predicting *w, int line, const struct yokei_sum_group *g,
                                int kind, const struct yokei_path *inside, struct yokei_step_costs *out)
{
    const struct yokei_counted_once *o = w->line[line].once;
    const struct yokei_op *norms = o->op + o->n_zeros, *steps = norms + o->n_norms;
    const int n_steps = o->n_ops - o->n_zeros - o->n_norms;
    const double step = yokei_ops_seconds(w->p, kind, NULL, 1, steps, n_steps, NULL);
    double stepped = 0, gathered = 0, elements = 0;
    out->begin = yokei_ops_seconds(w->p, kind, NULL, 1, o->op, o->n_zeros, NULL);
    out->norms = yokei_ops_seconds(w->p, kind, NULL, 1, norms, o->n_norms, NULL)
                 + yokei_ring_seconds(inside, w->l->tensor, (double)o->n_replicated * 4, true);
    for (int b = 0; b < o->n_buckets; b++) elements += (double)o->bucket[b].n;
    for (int b = 0; b < o->n_buckets && o->is_divided; b++) {
        double seconds; /* of an all_reduce in f32: twice the bytes of an all_gather */
        YOKE_TRY(sum_seconds(w->p, g, o->bucket[b].n, &seconds));
        stepped += step * (double)o->bucket[b].n / elements;
        gathered = fmax(gathered, stepped) + seconds / (o->bucket[b].has_copy ? 4 : 2);
    }
    out->step = fmax(step, gathered);
    return YOKE_OK;
}

static yoke_status cost_of_line(struct yokei_predicting *w, int line, struct yokei_costs *costs)
{
    const struct yokei_layout *l = w->l;
    const int s = line % l->pipeline, d = w->first_of[line / l->pipeline];
    const struct yokei_slot_place *slot = slot_of(w, s, d);
    const struct yokei_path inside = yokei_path_inside(w->p->config.cluster, slot);
    const struct yokei_sum_group g = group_of(w, s);
    const int n_layers = w->p->config.model->n_layers;
    struct backward back = { calloc((size_t)n_layers + 1, sizeof(double)),
                             calloc((size_t)n_layers + 1, sizeof(double)), 0 };
    if (!back.all || !back.weight) {
        free(back.all);
        free(back.weight);
        return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d layers", n_layers);
    }
    for (int i = 0; i < w->line[line].counts->n_calls; i++)
        if (w->line[line].counts->call[i].chunk == 0)
            back.n = YOKE_MAX(back.n, w->line[line].counts->call[i].layer + 1);
    cost_of_calls(w, line, &inside, slot->kind, &costs->chunk[line * l->chunks], &back);
    yoke_status status = cost_of_sums(w, line, &g, &back, costs->sum + line * costs->n_sums);
    if (!status) status = cost_of_step(w, line, &g, slot->kind, &inside, &costs->once[line]);
    free(back.all);
    free(back.weight);
    return status;
}

/* ---- all lines ---- */

static void cost_of_hops(struct yokei_predicting *w, struct yokei_costs *costs)
{
    const struct yokei_predict_config *c = &w->p->config;
    const yoke_model *model = c->model;
    const int border = YOKE_MAX(model->before + model->per_block, 1) - 1;
    const double bytes = (double)(w->l->micro_batch * c->sequence) * (double)model->layer[border]->out
                         * (double)yoke_dtype_bytes(c->precision)
                         / (w->l->sequence_parallel ? w->l->tensor : 1);
    for (int line = 0; line < w->n_classes * w->l->pipeline && w->l->pipeline > 1; line++) {
        const struct yokei_path path = hop_path(w, line % w->l->pipeline, w->first_of[line / w->l->pipeline]);
        costs->hop[line] = (struct yokei_hop){ path.seconds + path.wait, bytes, path.bytes_per_second };
    }
}

/* The agreement is an exchange of a few numbers, so latencies decide: those of a tree over all ranks. */
static double agree_seconds(const struct yokei_predicting *w)
{
    const int n = w->l->data * w->l->pipeline;
    double seconds = 0;
    for (int i = 1; i < n; i++)
        seconds = fmax(seconds, yokei_path_between(w->p->config.cluster, &w->places.slot[i - 1], 1,
                                                   &w->places.slot[i], 1)
                                    .seconds);
    if (w->l->tensor > 1)
        seconds = fmax(seconds, yokei_path_inside(w->p->config.cluster, w->places.slot).seconds);
    return 2 * seconds * ceil(log2(fmax(n * w->l->tensor, 1)));
}

/* The first and the last stage of a replica sum the gradients of parameters that both hold. */
static double tied_seconds(const struct yokei_predicting *w)
{
    double seconds = 0;
    for (int k = 0; k < w->n_classes; k++) {
        const struct yokei_slot_place *a = slot_of(w, 0, w->first_of[k]),
                                      *b = slot_of(w, w->l->pipeline - 1, w->first_of[k]);
        const struct yokei_path path = yokei_path_between(w->p->config.cluster, a, w->l->tensor, b,
                                                          w->l->tensor);
        const struct yokei_counted_once *once = w->line[k * w->l->pipeline].once;
        if (w->l->pipeline > 1 && once->has_tied)
            seconds = fmax(seconds, yokei_ring_seconds(&path, 2, (double)once->n_tied * 4, true));
    }
    return seconds;
}

yoke_status yokei_predict_costs(struct yokei_predicting *w, struct yokei_costs *costs)
{
    const struct yokei_layout *l = w->l;
    const size_t n_lines = (size_t)w->n_classes * (size_t)l->pipeline;
    *costs = (struct yokei_costs){
        .n_stages = l->pipeline, .n_chunks = l->chunks, .n_replicas = w->n_classes, .receiver_takes = true
    };
    for (size_t line = 0; line < n_lines; line++)
        costs->n_sums = YOKE_MAX(costs->n_sums, w->line[line].once->n_buckets);
    costs->chunk = calloc(n_lines * (size_t)l->chunks, sizeof *costs->chunk);
    costs->hop = calloc(n_lines, sizeof *costs->hop);
    costs->sum = calloc(n_lines * (size_t)costs->n_sums + 1, sizeof *costs->sum);
    costs->once = calloc(n_lines, sizeof *costs->once);
    if (!costs->chunk || !costs->hop || !costs->sum || !costs->once)
        return yoke_fail(YOKE_ENOMEM, "planning: no host memory for the costs of %zu stages", n_lines);
    for (size_t line = 0; line < n_lines; line++) YOKE_TRY(cost_of_line(w, (int)line, costs));
    cost_of_hops(w, costs);
    costs->agree = agree_seconds(w);
    costs->tied = tied_seconds(w);
    return YOKE_OK;
}
