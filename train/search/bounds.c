/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of time and memory. The proofs are in bounds.h. */
#include "train/search/bounds_inside.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/parameters.h"
#include "train/models/model.h"

static const double TOLERANCE = 1e-5;

/* ---- cuts ---- */

double yokei_cut_value(const struct yokei_cut_problem *p, const int16_t *blocks)
{
    double filled = 0, value = p->floor;
    for (int s = 0; s < p->stages; s++) {
        const struct yokei_cut_stage *k = &p->stage[s];
        const double end = fmax(p->forward * filled + k->end + blocks[s] * k->end_block,
                                p->adds ? 0 : filled);
        value = fmax(value, end + p->m * (k->time + blocks[s] * k->time_block));
        filled += k->fill + blocks[s] * k->fill_block;
    }
    return p->adds ? fmax(p->m * filled, value) : value;
}

/*
 * The most blocks that the stages from s on can take if each of them began at 0: behind_out [stages + 1]. So
 * the stages before s must take the others, and tables need no places for fewer blocks.
 */
static void count_behind(const struct yokei_cut_problem *p, double limit, int *behind_out)
{
    behind_out[p->stages] = 0;
    for (int s = p->stages - 1; s >= 0; s--) {
        const struct yokei_cut_stage *k = &p->stage[s];
        const double more = p->m * k->time_block > 0
                                ? (limit / p->m - k->time) / k->time_block * (1 + 1e-9) + 1e-9
                                : INFINITY;
        const int fits = more < k->most ? (int)fmax(more, -1) : k->most;
        behind_out[s] = YOKE_MIN(behind_out[s + 1] + YOKE_MAX(fits, 0), p->n_blocks);
    }
}

/*
 * Whether all blocks can be dealt so that the value is at most `limit`. least [stages + 1][n_blocks + 1]: the
 * least sum of fills.
 */
static bool deal(const struct yokei_cut_problem *p, double limit, double *least, int16_t *from)
{
    const int n = p->n_blocks;
    int behind[YOKEI_MOST_CUTS + 1];
    count_behind(p, limit, behind);
    for (int i = 0; i <= n; i++) least[i] = i ? INFINITY : 0;
    for (int s = 0; s < p->stages; s++) {
        const struct yokei_cut_stage *k = &p->stage[s];
        const double *before = least + (size_t)s * (size_t)(n + 1);
        double *now = least + (size_t)(s + 1) * (size_t)(n + 1);
        int16_t *took = from + (size_t)s * (size_t)(n + 1);
        const int fewest = n - behind[s + 1], most = n - (p->stages - 1 - s) * p->least;
        for (int i = 0; i <= n; i++) now[i] = INFINITY;
        for (int i = 0; i <= most; i++) {
            if (isinf(before[i])) continue;
            for (int more = YOKE_MAX(p->least, fewest - i); more <= k->most && i + more <= most; more++) {
                const double time = p->m * (k->time + more * k->time_block),
                             fill = before[i] + k->fill + more * k->fill_block;
                const double begin = p->adds ? 0 : before[i],
                             end = p->forward * before[i] + k->end + more * k->end_block;
                if (begin + time > limit || (p->adds && p->m * fill > limit)) break;
                if (end + time <= limit && fill < now[i + more])
                    now[i + more] = fill, took[i + more] = (int16_t)more;
            }
        }
    }
    return !isinf(least[(size_t)p->stages * (size_t)(n + 1) + (size_t)n]);
}

static void trace(const struct yokei_cut_problem *p, const int16_t *from, int16_t *blocks)
{
    int left = p->n_blocks;
    for (int s = p->stages - 1; s >= 0; s--) {
        blocks[s] = from[(size_t)s * (size_t)(p->n_blocks + 1) + (size_t)left];
        left -= blocks[s];
    }
}

bool yokei_cut_best(const struct yokei_cut_problem *p, double limit, int16_t *blocks, double *bound_out)
{
    const size_t cells = (size_t)(p->stages + 1) * (size_t)(p->n_blocks + 1);
    double *least = malloc(cells * sizeof *least);
    int16_t *from = calloc(cells, sizeof *from);
    double low = p->floor, high = INFINITY;
    bool any = least && from && deal(p, INFINITY, least, from);
    if (any) {
        trace(p, from, blocks);
        high = yokei_cut_value(p, blocks);
    }
    if (any && limit < high) {
        if (limit < low || !deal(p, limit, least, from)) {
            low = high = fmax(limit, low);
        } else {
            trace(p, from, blocks);
            high = fmin(limit, yokei_cut_value(p, blocks));
        }
    }
    while (any && high - low > TOLERANCE * high) {
        const double middle = low + (high - low) / 2;
        if (deal(p, middle, least, from)) {
            trace(p, from, blocks);
            high = fmin(middle, yokei_cut_value(p, blocks));
        } else {
            low = middle;
        }
    }
    *bound_out = any ? low : INFINITY;
    free(least);
    free(from);
    return any;
}

double yokei_bound_equal(int n, int p, double m, double time, double fill)
{
    return fill > 0 ? n * fill / (1 - pow(1 - fill / (m * time), p)) : n * m * time / p;
}

/* ---- sizes of a model ---- */

/* Whether an earlier layer has a parameter of this name: layers share tied parameters. */
static bool is_shared(const yoke_model *model, int layer, const char *name)
{
    const struct yoke_place whole = { .size = sizeof whole, .tensor_size = 1 };
    struct yoke_parameter p;
    for (int l = 0; l < layer; l++)
        for (int i = 0; i < YOKE_MAX_PARAMETERS && model->layer[l]->type->parameter
                        && model->layer[l]->type->parameter(model->layer[l], &whole, i, &p);
             i++)
            if (!strcmp(p.name, name)) return true;
    return false;
}

void yokei_model_sizes(const yoke_model *model, struct yokei_model_sizes *out)
{
    const struct yoke_place whole = { .size = sizeof whole, .tensor_size = 1 };
    const int per_block = YOKE_MAX(model->per_block, 1), last = model->n_layers - model->after;
    *out = (struct yokei_model_sizes){ .n_blocks = (last - model->before) / per_block };
    for (int l = 0; l < model->n_layers; l++) {
        const int part = l < model->before ? 0 : l < last ? 1 : 2;
        const yoke_layer *layer = model->layer[l];
        struct yoke_parameter p;
        if (part == 1 && l >= model->before + per_block) continue;
        for (int i = 0; i < YOKE_MAX_PARAMETERS && layer->type->parameter
                        && layer->type->parameter(layer, &whole, i, &p);
             i++)
            if (part == 1 || !is_shared(model, l, p.name))
                (p.matrix ? out->matrices : out->vectors)[part] += (double)yokei_logical_count(&p);
    }
}

double yokei_bytes_of_element(yoke_dtype precision, bool is_matrix, int zero, int data)
{
    const double kept = zero ? 1.0 / data : 1, copy = is_matrix && precision != YOKE_F32 ? 2 : 0;
    return copy > 0 ? copy + 4 * kept + 4 + 8 * kept : 4 + 4 + 8 * kept;
}

static bool is_kept(const yoke_layer *layer, int recompute)
{
    return recompute == 0 || (recompute == 1 && strcmp(layer->type->name, "attention") != 0);
}

yoke_status yokei_stash_of_block(const struct yokei_predict_config *c, const struct yokei_layout *l,
                                 double *bytes_out)
{
    const struct yoke_place place = { .size = sizeof place,
                                      .tensor_size = l->tensor,
                                      .sequence_parallel = l->sequence_parallel && l->tensor > 1 };
    const struct yoke_shape shape = {
        sizeof shape, c->precision, l->micro_batch, c->sequence, YOKE_TRAIN, &place, 0
    };
    *bytes_out = 0;
    for (int i = c->model->before; i < c->model->before + c->model->per_block; i++) {
        const enum yoke_part parts[] = { YOKE_F_TO_B, YOKE_F_TO_W };
        YOKE_TRY(yoke_layer_check(c->model->layer[i], &place));
        for (size_t k = 0; k < YOKE_COUNT(parts) && is_kept(c->model->layer[i], l->recompute); k++) {
            size_t bytes;
            YOKE_TRY(yoke_layer_bytes(c->model->layer[i], &shape, parts[k], &bytes));
            *bytes_out += (double)bytes;
        }
    }
    return YOKE_OK;
}

/* ---- the bounds of a layout ---- */

static void order_of(const struct yokei_layout *l, int s, int m, struct yokei_schedule_order *out)
{
    const struct yokei_pipeline shape = {
        .kind = l->schedule, .n_stages = l->pipeline, .n_chunks = l->chunks, .n_micro_batches = m
    };
    yokei_schedule_order(&shape, s, out);
}

/*
 * The micro-batches whose stashes of a stage are in memory at the end of its warm-up. Those of one of v
 * chunks count 1 / v each.
 */
static double held(const struct yokei_layout *l, int s, int m)
{
    struct yokei_schedule_order order;
    order_of(l, s, m, &order);
    return (double)YOKE_MIN(order.warm_up + 1, m * l->chunks) / l->chunks;
}

/* The messages for which a stage waits between its first and its last pass, by (5). */
static void count_waits(const struct yokei_layout *l, int s, int m, int *forward, int *backward)
{
    struct yokei_schedule_order order;
    const bool last = s == l->pipeline - 1;
    order_of(l, s, m, &order);
    *forward = s == 0 ? 0 : l->chunks == 1 ? m - 1 : YOKE_MIN(order.warm_up, m * l->chunks - 1);
    *backward = last || l->recompute ? 0 : l->chunks == 1 ? m : order.warm_up;
    if (l->schedule == YOKEI_PIPELINE_NAIVE) *forward = *backward = 0; /* (2) counts them */
}

/*
 * The fastest or slowest kind, and the least memory, among the replicas of a stage. If kinds are mixed, the
 * replica with the least memory may have only one unit of the batch.
 */
static yoke_status stage_of(yokei_predictor *p, const struct yokei_predict_config *c,
                            const struct yokei_layout *l, const struct yokei_slot_place *slots, int s,
                            bool slowest, struct yokei_unit *unit, double *have, bool *mixed)
{
    int last = -1;
    *unit = (struct yokei_unit){ .block.F = 0 };
    *have = INFINITY;
    *mixed = false;
    for (int d = 0; d < l->data; d++) {
        const int kind = slots[yokei_layout_slot(l, s, d)].kind;
        struct yokei_unit u;
        if (kind == last) continue;
        *mixed = last >= 0;
        last = kind;
        YOKE_TRY(
            yokei_predict_unit(p, l->tensor, l->sequence_parallel, l->recompute, l->micro_batch, kind, &u));
        *have = fmin(*have, (double)c->cluster->kind[kind].memory);
        struct yokei_layer_seconds *best[] = { &unit->before, &unit->block, &unit->after };
        const struct yokei_layer_seconds *now[] = { &u.before, &u.block, &u.after };
        for (int i = 0; i < 3; i++) { /* kinds may be fastest in different passes */
            const struct yokei_layer_seconds b = *best[i], n = *now[i];
            if (d == 0)
                *best[i] = n;
            else if (slowest)
                *best[i] = all(&n) > all(&b) ? n : b;
            else
                *best[i] = (struct yokei_layer_seconds){ fmin(b.F, n.F), fmin(b.B, n.B), fmin(b.W, n.W),
                                                         fmin(b.R, n.R) };
        }
    }
    return YOKE_OK;
}

double yokei_bound_byte(const struct yokei_predict_config *c, const struct yokei_layout *l,
                        const struct yokei_slot_place *slots, int s)
{
    double slowest = INFINITY;
    int n_hosts = 1;
    for (int d = 1; d < l->data; d++) {
        const struct yokei_slot_place *a = &slots[yokei_layout_slot(l, s, d - 1)],
                                      *b = &slots[yokei_layout_slot(l, s, d)];
        if (a->host == b->host) continue;
        n_hosts++;
        slowest = fmin(slowest, yokei_path_between(c->cluster, a, YOKE_MAX(a->sum_sharers, l->tensor), b,
                                                   YOKE_MAX(b->sum_sharers, l->tensor))
                                    .bytes_per_second);
    }
    return 2 * (1 - 1.0 / n_hosts) / slowest / (l->zero ? 2 : 1);
}

double yokei_bound_hop(const struct yokei_predict_config *c, const struct yokei_layout *l,
                       const struct yokei_slot_place *slots, int s, int replica, double *bytes_seconds)
{
    const yoke_model *model = c->model;
    const double bytes = (double)(l->micro_batch * c->sequence)
                         * (double)model->layer[model->before + model->per_block - 1]->out
                         * (double)yoke_dtype_bytes(c->precision) / (l->sequence_parallel ? l->tensor : 1);
    const struct yokei_slot_place *from = &slots[yokei_layout_slot(l, s, replica)],
                                  *to = &slots[yokei_layout_slot(l, (s + 1) % l->pipeline, replica)];
    const struct yokei_path path = yokei_path_between(
        c->cluster, from, YOKE_MAX(from->hop_sharers, l->tensor), to, YOKE_MAX(to->hop_sharers, l->tensor));
    *bytes_seconds = bytes / path.bytes_per_second;
    return path.seconds + path.wait + *bytes_seconds;
}

/* The same for the replica with the least time. */
static double hop_seconds(const struct yokei_predict_config *c, const struct yokei_layout *l,
                          const struct yokei_slot_place *slots, int s, double *bytes_seconds)
{
    double least = INFINITY, bytes;
    *bytes_seconds = INFINITY;
    for (int d = 0; d < l->data; d++) {
        least = fmin(least, yokei_bound_hop(c, l, slots, s, d, &bytes));
        *bytes_seconds = fmin(*bytes_seconds, bytes);
    }
    return least;
}

yoke_status yokei_bound_cuts(yokei_predictor *p, const struct yokei_predict_config *c,
                             const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                             const struct yokei_slot_place *slots, bool slowest,
                             struct yokei_cut_problem *out)
{
    const int64_t unit_batch = l->micro_batch * (l->chunks > 1 ? l->pipeline : 1),
                  units = c->batch / unit_batch;
    const int m = (int)((units + l->data - 1) / l->data * (unit_batch / l->micro_batch));
    const bool sends_early = l->schedule == YOKEI_PIPELINE_ZB_H1;
    double stash;
    YOKE_TRY(yokei_stash_of_block(c, l, &stash));
    const double matrix = yokei_bytes_of_element(c->precision, true, l->zero, l->data) / l->tensor,
                 vector = yokei_bytes_of_element(c->precision, false, l->zero, l->data) / l->tensor;
    *out = (struct yokei_cut_problem){ .stages = l->pipeline,
                                       .n_blocks = sizes->n_blocks,
                                       .least = l->chunks,
                                       .m = m,
                                       .adds = l->schedule == YOKEI_PIPELINE_NAIVE && l->pipeline > 1 };
    out->forward = out->adds ? 0 : sends_early ? 1 : 0.5; /* of a hop */
    double hop_before = 0;
    for (int s = 0; s < l->pipeline; s++) {
        struct yokei_unit u;
        double have;
        bool mixed;
        int forward, backward;
        YOKE_TRY(stage_of(p, c, l, slots, s, slowest, &u, &have, &mixed));
        struct yokei_cut_stage *k = &out->stage[s];
        const bool first = s == 0, last = s == l->pipeline - 1;
        const double block = all(&u.block);
        k->time = (first ? all(&u.before) : 0) + (last ? all(&u.after) : 0);
        k->time_block = block;
        count_waits(l, s, m, &forward, &backward);
        k->time += hop_before * forward / m;
        k->fill = first ? chain(&u.before, sends_early) : 0;
        k->fill_block = chain(&u.block, sends_early) / l->chunks;
        out->forward = fmin(out->forward, part_of_forward(&u.block, sends_early));
        if (first) out->forward = fmin(out->forward, part_of_forward(&u.before, sends_early));
        if (!last || l->chunks > 1) {
            double bytes_seconds;
            const double hop = hop_seconds(c, l, slots, s, &bytes_seconds);
            k->fill += (sends_early ? 1 : 2) * hop;
            k->time += hop * backward / m;
            hop_before = hop;
            /* with chunks the last stage sends one chunk less */
            const double n_messages = m * (double)(l->chunks - last);
            out->floor = fmax(out->floor, n_messages * bytes_seconds);
        }
        const double per_element = 4 / (double)l->tensor * yokei_bound_byte(c, l, slots, s);
        k->end = -yokei_bound_back(l, s, &u.before) * first
                 - (l->chunks == 1 ? yokei_bound_back(l, s, &u.after) * last : 0)
                 - yokei_bound_back(l, s, &u.block) * (l->chunks - 1) / l->chunks;
        k->end_block = (sizes->matrices[1] + sizes->vectors[1]) * per_element
                       - yokei_bound_back(l, s, &u.block) / l->chunks;
        k->have = have;
        for (int part = 0; part < 3; part += 2)
            if (part ? last : first)
                k->need += matrix * sizes->matrices[part] + vector * sizes->vectors[part];
        const double per_block = matrix * sizes->matrices[1] + vector * sizes->vectors[1]
                                 + held(l, s, mixed ? (int)(unit_batch / l->micro_batch) : m) * stash;
        k->need_block = per_block;
        k->most = have < k->need ? -1 : (int)fmin(floor((have - k->need) / per_block), sizes->n_blocks);
    }
    return YOKE_OK;
}

yoke_status yokei_bound_work(yokei_predictor *p, const struct yokei_predict_config *c,
                             const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                             const int *slots_of_kind, double *seconds_out)
{
    double pace = 0;
    for (int i = 0; i < l->n_kinds; i++) {
        struct yokei_unit u;
        YOKE_TRY(yokei_predict_unit(p, l->tensor, l->sequence_parallel, l->recompute, l->micro_batch,
                                    l->kind[i], &u));
        pace += slots_of_kind[i] / all(&u.block);
    }
    *seconds_out = (double)c->batch / (double)l->micro_batch * sizes->n_blocks / pace;
    return YOKE_OK;
}

/* Of a block on a rank, as ZeRO-1 gathers its weights: half of the gradients' bytes if they have 16 bits. */
static double gathered_bytes(const struct yokei_predict_config *c, const struct yokei_layout *l,
                             const struct yokei_model_sizes *sizes)
{
    return (c->precision == YOKE_F32 ? 4 : 2) * (sizes->matrices[1] + sizes->vectors[1]) / l->tensor;
}

yoke_status yokei_bound_optimizer(const struct yokei_predict_config *c, const struct yokei_layout *l,
                                  const struct yokei_model_sizes *sizes, const int *slots_of_kind,
                                  const struct yokei_slot_place *slots, double *seconds_out)
{
    /* The least traffic of AdamW: it reads and writes a moment of each element that a rank keeps. */
    enum { LEAST_BYTES = 16 };
    const int type = yokei_speed_type_of(c->precision);
    double fastest = 0;
    for (int i = 0; i < l->n_kinds; i++) {
        const double rate = c->cluster->kind[l->kind[i]].speed[type][YOKEI_CLASS_OPTIMIZER].bytes_per_second;
        if (slots_of_kind[i]) fastest = fmax(fastest, rate > 0 ? rate : INFINITY);
    }
    const double blocks = ceil((double)sizes->n_blocks / l->pipeline)
                          * (sizes->matrices[1] + sizes->vectors[1]);
    *seconds_out = LEAST_BYTES * blocks / l->tensor / (l->zero ? l->data : 1) / fastest;
    double pace = 0; /* 1 / the seconds of a block's gathers, added up over the stages */
    for (int s = 0; s < l->pipeline && slots && l->zero && l->data > 1; s++)
        pace += 1 / (gathered_bytes(c, l, sizes) * yokei_bound_byte(c, l, slots, s));
    if (pace > 0) *seconds_out = fmax(*seconds_out, sizes->n_blocks / pace);
    return YOKE_OK;
}

void yokei_host_links_of(const struct yokei_cluster *k, int tensor, struct yokei_host_links *out)
{
    *out = (struct yokei_host_links){ 0, 1 };
    for (int h = 0; h < k->n_hosts; h++) {
        int slots = 0;
        for (int i = 0; i < k->host[h].n_lists; i++) slots += k->host[h].devices[i].n / tensor;
        out->most_slots = YOKE_MAX(out->most_slots, slots);
        for (int g = 0; g < k->n_hosts; g++) {
            if (k->between[h][g] < 0 || k->between[h][g] >= k->n_links) continue;
            const double share = fmin(1, (double)k->host[h].n_links / tensor);
            out->fastest = fmax(out->fastest, k->link[k->between[h][g]].bytes_per_second * share);
        }
    }
}

/* The least seconds for each byte of the gradients of a stage, wherever its replicas lie. */
static double least_byte(const struct yokei_host_links *links, int n_replicas)
{
    const int n_hosts = (n_replicas + links->most_slots - 1) / links->most_slots;
    return n_hosts > 1 ? (1 - 1.0 / n_hosts) / links->fastest : 0; /* slices alone, as with ZeRO-1 */
}

/* The most chunks of an interleaved schedule that the mesh can have. */
static int most_chunks(const struct yokei_predict_config *c, const struct yokei_layout *l, int n_blocks)
{
    const int64_t unit = l->micro_batch * l->pipeline;
    if (l->pipeline == 1 || c->batch % unit || c->batch / unit < l->data) return 1;
    return l->pipeline * 4 <= n_blocks ? 4 : l->pipeline * 2 <= n_blocks ? 2 : 1;
}

/* A bound for n equal blocks: each takes `time` on its stage, and fills `fill` before later stages. */
static double bound_blocks(int n, int p, double time, double fill)
{
    return time > 0 ? yokei_bound_equal(n, p, 1, time, fmin(fill, time)) : 0;
}

yoke_status yokei_bound_mesh(yokei_predictor *p, const struct yokei_predict_config *c,
                             const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                             const struct yokei_host_links *links, const int *slots_of_kind,
                             double *seconds_out)
{
    const int n = sizes->n_blocks, chunks = most_chunks(c, l, n);
    struct yokei_layer_seconds block = { INFINITY, INFINITY, INFINITY, 0 };
    double work;
    YOKE_TRY(yokei_bound_work(p, c, l, sizes, slots_of_kind, &work));
    for (int i = 0; i < l->n_kinds; i++) {
        struct yokei_unit u;
        YOKE_TRY(yokei_predict_unit(p, l->tensor, l->sequence_parallel, l->recompute, l->micro_batch,
                                    l->kind[i], &u));
        if (!slots_of_kind[i]) continue;
        block = (struct yokei_layer_seconds){ fmin(block.F, u.block.F), fmin(block.B, u.block.B),
                                              fmin(block.W, u.block.W), 0 };
    }
    const double m = ceil((double)c->batch / (double)l->micro_batch / l->data), time = all(&block),
                 blocks = ceil((double)n / l->pipeline), fill = fmin(block.F, chain(&block, false) / chunks),
                 byte = least_byte(links, l->data),
                 slices = 4 * (sizes->matrices[1] + sizes->vectors[1]) / l->tensor * byte;
    const double passes = fmax(fmax(work, m * blocks * time), bound_blocks(n, l->pipeline, m * time, fill));
    *seconds_out = INFINITY;
    for (int zero = 0; zero <= (l->data > 1); zero++) {
        struct yokei_layout divided = *l;
        double optimizer;
        divided.zero = zero;
        YOKE_TRY(yokei_bound_optimizer(c, &divided, sizes, slots_of_kind, NULL, &optimizer));
        if (zero) optimizer = fmax(optimizer, n * gathered_bytes(c, l, sizes) * byte / l->pipeline);
        const double with_sums = m * time + (zero ? 1 : 2) * slices - back(&block);
        const double sums = bound_blocks(n, l->pipeline, with_sums, block.F / chunks);
        *seconds_out = fmin(*seconds_out, fmax(passes, fmax(blocks * with_sums, sums)) + optimizer);
    }
    return YOKE_OK;
}
