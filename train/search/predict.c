/* SPDX-License-Identifier: Apache-2.0 */
/* The predicted step of a layout. See predict.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/predict_inside.h"
#include "train/trainer/memory.h"

yoke_status yokei_predictor_create(const struct yokei_predict_config *c, yokei_predictor **out)
{
    if (c->precision != YOKE_F32 && c->precision != YOKE_F16 && c->precision != YOKE_BF16)
        return yoke_fail(YOKE_ECONFIG, "planning: precision %s is none of f32, bf16, f16",
                         yoke_dtype_name(c->precision));
    yokei_predictor *p = calloc(1, sizeof *p);
    if (!p) return yoke_fail(YOKE_ENOMEM, "planning: no host memory");
    p->config = *c;
    p->type = yokei_speed_type_of(c->precision);
    *out = p;
    return YOKE_OK;
}

void yokei_predictor_destroy(yokei_predictor *p)
{
    if (!p) return;
    yokei_planned_free(&p->planned);
    free(p->sum);
    free(p->unit);
    free(p);
}

void yokei_prediction_free(struct yokei_prediction *x)
{
    free(x->memory);
    free(x->shares);
    *x = (struct yokei_prediction){ 0 };
}

/* ---- shares ---- */

bool yokei_layout_shares(const struct yokei_layout *l, int64_t batch, const double *seconds, int64_t *shares)
{
    const int64_t unit = l->micro_batch * (l->chunks > 1 ? l->pipeline : 1), n = batch / unit;
    if (batch % unit || n < l->data) return false;
    double pace = 0;
    int64_t left = n;
    for (int d = 0; d < l->data; d++) pace += 1 / seconds[d];
    for (int d = 0; d < l->data; d++) { /* no replica ends before the others if it gets less than its part */
        shares[d] = YOKE_MAX((int64_t)floor((double)n / (pace * seconds[d])), 1);
        left -= shares[d];
    }
    for (; left > 0; left--) {
        int best = 0;
        for (int d = 1; d < l->data; d++)
            if ((double)(shares[d] + 1) * seconds[d] < (double)(shares[best] + 1) * seconds[best]) best = d;
        shares[best]++;
    }
    for (; left < 0; left++) { /* slow replicas got a unit that their part does not have */
        int worst = -1;
        for (int d = 0; d < l->data; d++)
            if (shares[d] > 1
                && (worst < 0 || (double)shares[d] * seconds[d] > (double)shares[worst] * seconds[worst]))
                worst = d;
        shares[worst]--;
    }
    for (int d = 0; d < l->data; d++) shares[d] *= unit;
    return true;
}

/* ---- a layout ---- */

static void end(struct yokei_predicting *w)
{
    void *const lists[] = { w->blocks,   w->shares, w->hop_sharers, w->sum_sharers, w->class_of,
                            w->first_of, w->line,   w->line_tensor, w->line_again };
    for (size_t i = 0; i < YOKE_COUNT(lists); i++) free(lists[i]);
    yokei_places_free(&w->places);
}

static yoke_status check(const struct yokei_predicting *w)
{
    const struct yokei_layout *l = w->l;
    const struct yokei_cluster *c = w->p->config.cluster;
    if (l->data < 1 || l->pipeline < 1 || l->tensor < 1 || l->chunks < 1 || l->micro_batch < 1
        || l->pipeline * l->chunks > YOKEI_MOST_CUTS || l->n_kinds < 1 || l->n_kinds > YOKEI_MOST_KINDS
        || (l->zero != 0 && l->zero != 1) || l->recompute < 0 || l->recompute > 2)
        return yoke_fail(YOKE_ECONFIG, "planning: the layout has a number that is out of its range");
    for (int i = 0; i < l->n_kinds; i++) {
        if (l->kind[i] < 0 || l->kind[i] >= c->n_kinds)
            return yoke_fail(YOKE_ECONFIG,
                             "planning: the layout has a kind of devices that the cluster lacks");
        if (!c->kind[l->kind[i]].speed[w->p->type][YOKEI_CLASS_GEMM].n_points)
            return yoke_fail(YOKE_ECONFIG, "planning: device %s has no speed in %s", c->kind[l->kind[i]].name,
                             yoke_dtype_name(w->p->config.precision));
    }
    return YOKE_OK;
}

/* What is the same for all ranks. */
static yoke_status begin(struct yokei_predicting *w)
{
    const struct yokei_layout *l = w->l;
    const struct yokei_predict_config *p = &w->p->config;
    const int n_cuts = l->pipeline * l->chunks;
    YOKE_TRY(check(w));
    YOKE_TRY(yokei_places_create(p->cluster, l->tensor, l->kind, l->n_kinds, &w->places));
    if (l->data > w->places.n_slots / l->pipeline)
        return yoke_fail(YOKE_ECONFIG, "planning: the layout has %d tensor groups of %d ranks for %d places",
                         l->data * l->pipeline, l->tensor, w->places.n_slots);
    for (int i = 0; w->fixed.slots && i < l->data * l->pipeline; i++) w->places.slot[i] = w->fixed.slots[i];
    w->blocks = calloc((size_t)n_cuts, sizeof *w->blocks);
    w->shares = calloc((size_t)l->data, sizeof *w->shares);
    w->class_of = calloc((size_t)l->data, sizeof *w->class_of);
    w->first_of = calloc((size_t)l->data, sizeof *w->first_of);
    if (!w->blocks || !w->shares || !w->class_of || !w->first_of)
        return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d replicas", l->data);
    for (int i = 0; i < n_cuts; i++) w->blocks[i] = l->blocks[i];
    yokei_text(w->recompute, sizeof w->recompute, "%s", yokei_recompute_words[l->recompute]);
    struct yoke_trainer_config config = YOKE_TRAINER_CONFIG_INIT;
    config.precision = p->precision;
    config.batch = p->batch;
    config.micro_batch = l->micro_batch;
    config.sequence = p->sequence;
    config.bucket_bytes = p->bucket_bytes;
    config.data = l->data;
    config.pipeline = l->pipeline;
    config.tensor = l->tensor;
    config.chunks = l->chunks;
    config.pipeline_kind = l->pipeline > 1 ? yokei_pipeline_names[l->schedule] : NULL;
    config.stage_blocks = l->pipeline > 1 ? w->blocks : NULL;
    config.sequence_parallel = l->sequence_parallel;
    config.recompute = w->recompute;
    config.zero = l->zero;
    config.shares = w->shares;
    w->config = config;
    w->hop_sharers = calloc((size_t)w->places.n_hosts, sizeof *w->hop_sharers);
    w->sum_sharers = calloc((size_t)w->places.n_hosts, sizeof *w->sum_sharers);
    if (!w->hop_sharers || !w->sum_sharers)
        return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d hosts", w->places.n_hosts);
    return yokei_count_sharers(l, w->places.slot, w->places.n_hosts, w->hop_sharers, w->sum_sharers);
}

/* The time of a micro-batch on the slowest stage of each replica, from the units. */
static yoke_status deal(struct yokei_predicting *w)
{
    const struct yokei_layout *l = w->l;
    if (w->fixed.shares) {
        memcpy(w->shares, w->fixed.shares, (size_t)l->data * sizeof *w->shares);
        return YOKE_OK;
    }
    double *seconds = calloc((size_t)l->data, sizeof *seconds);
    yoke_status status = seconds
                             ? YOKE_OK
                             : yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d replicas", l->data);
    for (int d = 0; d < l->data && !status; d++)
        for (int s = 0; s < l->pipeline && !status; s++) {
            struct yokei_unit u;
            status = yokei_predict_unit(w->p, l->tensor, l->sequence_parallel, l->recompute, l->micro_batch,
                                        w->places.slot[yokei_layout_slot(l, s, d)].kind, &u);
            if (status) break;
            double stage = (s == 0 ? u.before.F + u.before.B + u.before.W + u.before.R : 0)
                           + (s == l->pipeline - 1 ? u.after.F + u.after.B + u.after.W + u.after.R : 0);
            for (int c = 0; c < l->chunks; c++)
                stage += l->blocks[c * l->pipeline + s] * (u.block.F + u.block.B + u.block.W + u.block.R);
            seconds[d] = fmax(seconds[d], stage);
        }
    if (!status && !yokei_layout_shares(l, w->p->config.batch, seconds, w->shares))
        status = yoke_fail(
            YOKE_ECONFIG, "planning: a batch of %lld cannot be dealt to %d replicas in micro-batches of %lld",
            (long long)w->p->config.batch, l->data, (long long)l->micro_batch);
    free(seconds);
    return status;
}

/* Whether two replicas have the same shares, kinds and paths. */
static bool alike(const struct yokei_predicting *w, int a, int b)
{
    const struct yokei_layout *l = w->l;
    const struct yokei_cluster *c = w->p->config.cluster;
    if (w->shares[a] != w->shares[b]) return false;
    for (int s = 0; s < l->pipeline; s++) {
        const struct yokei_slot_place *x = &w->places.slot[yokei_layout_slot(l, s, a)],
                                      *y = &w->places.slot[yokei_layout_slot(l, s, b)];
        if (x->kind != y->kind || x->entry != y->entry || x->list != y->list) return false;
        if (s + 1 == l->pipeline && l->chunks == 1) break;
        const int next = (s + 1) % l->pipeline;
        const struct yokei_slot_place *nx = &w->places.slot[yokei_layout_slot(l, next, a)],
                                      *ny = &w->places.slot[yokei_layout_slot(l, next, b)];
        const struct yokei_path p = yokei_path_between(c, x, w->hop_sharers[x->host], nx,
                                                       w->hop_sharers[nx->host]),
                                q = yokei_path_between(c, y, w->hop_sharers[y->host], ny,
                                                       w->hop_sharers[ny->host]);
        if (p.seconds != q.seconds || p.bytes_per_second != q.bytes_per_second || p.wait != q.wait)
            return false;
    }
    return true;
}

static void classify(struct yokei_predicting *w)
{
    for (int d = 0; d < w->l->data; d++) {
        int k = w->n_classes - 1; /* alike replicas are often neighbours */
        while (k >= 0 && !alike(w, w->first_of[k], d)) k--;
        if (k < 0) w->first_of[k = w->n_classes++] = d;
        w->class_of[d] = k;
    }
}

/* ---- ranks ---- */

static yoke_status plan_rank(struct yokei_predicting *w, int d, int s, int t, struct yokei_planned *out)
{
    const struct yokei_layout *l = w->l;
    const int n = l->data * l->pipeline * l->tensor, rank = (s * l->data + d) * l->tensor + t;
    struct yokei_trainer_plan at;
    YOKE_TRY(yokei_planned_rank(&w->p->planned, w->p->config.model, w->p->config.device, &w->config, rank, n,
                                &at, out));
    yokei_trainer_plan_free(&at);
    return YOKE_OK;
}

/* Seconds of all ops of a rank in a step, to find the slowest rank of a tensor group. */
static double work_of(const struct yokei_predicting *w, int kind, const struct yokei_planned *x)
{
    double seconds = 0;
    for (int i = 0; i < x->counts->n_calls; i++) {
        const struct yokei_counted_call *call = &x->counts->call[i];
        double together;
        const double all = yokei_ops_seconds(w->p, kind, &(struct yokei_path){ 0, INFINITY, 0 }, 1,
                                             x->counts->op + call->first_op, call->n_ops, &together);
        seconds += (all - together) * (call->times + call->again);
    }
    return seconds;
}

/* Plan the ranks of a line. The line gets the slowest rank, and `memory` the rank that needs most. */
static yoke_status plan_line(struct yokei_predicting *w, int line, struct yokei_rank_memory *memory)
{
    const struct yokei_layout *l = w->l;
    const int s = line % l->pipeline, d = w->first_of[line / l->pipeline];
    const int kind = w->places.slot[yokei_layout_slot(l, s, d)].kind;
    double most = -1;
    *memory = (struct yokei_rank_memory){
        s, kind, l->tensor, { 0 }, w->p->config.cluster->kind[kind].memory
    };
    for (int t = 0; t < l->tensor; t++) {
        struct yokei_planned x;
        YOKE_TRY(plan_rank(w, d, s, t, &x));
        x.report.total += x.once->more_elsewhere;
        x.report.optimizer += x.once->more_elsewhere;
        if (x.report.total > memory->report.total) memory->report = x.report;
        if (t && x.counts == w->line[line].counts) continue;
        const double seconds = work_of(w, kind, &x);
        if (seconds > most) most = seconds, w->line[line] = x;
    }
    return YOKE_OK;
}

/* Lines of one stage and one kind are one row, with the memory of the line that needs most. */
static void note_memory(struct yokei_prediction *out, const struct yokei_rank_memory *x, int n_replicas)
{
    struct yokei_rank_memory *row = out->memory, *end = out->memory + out->n_memory;
    while (row < end && !(row->stage == x->stage && row->kind == x->kind)) row++;
    if (row == end) {
        *row = *x;
        row->n_ranks = 0;
        out->n_memory++;
    }
    row->n_ranks += x->n_ranks * n_replicas;
    if (x->report.total > row->report.total) row->report = x->report;
}

static int by_stage(const void *a, const void *b)
{
    const struct yokei_rank_memory *x = a, *y = b;
    return x->stage != y->stage ? (x->stage > y->stage) - (x->stage < y->stage)
                                : (x->kind > y->kind) - (x->kind < y->kind);
}

static yoke_status plan_lines(struct yokei_predicting *w, struct yokei_prediction *out)
{
    const size_t n = (size_t)w->n_classes * (size_t)w->l->pipeline;
    w->line = calloc(n, sizeof *w->line);
    w->line_tensor = calloc(n, sizeof *w->line_tensor);
    w->line_again = calloc(n, sizeof *w->line_again);
    out->memory = calloc(n, sizeof *out->memory);
    if (!w->line || !w->line_tensor || !w->line_again || !out->memory)
        return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %zu stages", n);
    out->margin = 1;
    for (int line = 0; line < (int)n; line++) {
        struct yokei_rank_memory memory;
        int n_replicas = 0;
        YOKE_TRY(plan_line(w, line, &memory));
        for (int d = 0; d < w->l->data; d++) n_replicas += w->class_of[d] == line / w->l->pipeline;
        note_memory(out, &memory, n_replicas);
        const double have = (double)memory.have;
        out->margin = fmin(out->margin, (have - (double)memory.report.total) / have);
    }
    out->fits = out->margin >= 0;
    qsort(out->memory, (size_t)out->n_memory, sizeof *out->memory, by_stage);
    return YOKE_OK;
}

/* ---- the step ---- */

static yoke_status simulate(struct yokei_predicting *w, const struct yokei_costs *costs,
                            struct yokei_simulated *out)
{
    const struct yokei_layout *l = w->l;
    struct yokei_schedule all = { 0, NULL };
    yoke_status status = YOKE_OK;
    bool recompute[YOKEI_MOST_CUTS];
    int n_buckets[YOKEI_MOST_CUTS];
    for (int s = 0; s < l->pipeline; s++) recompute[s] = l->recompute > 0;
    all.rank = calloc((size_t)w->n_classes * (size_t)l->pipeline, sizeof *all.rank);
    if (!all.rank) return yoke_fail(YOKE_ENOMEM, "planning: no host memory for %d replicas", w->n_classes);
    for (int k = 0; k < w->n_classes && !status; k++) {
        const struct yokei_planned *first = &w->line[k * l->pipeline];
        struct yokei_schedule one = { 0, NULL };
        for (int s = 0; s < l->pipeline; s++) n_buckets[s] = l->data > 1 ? first[s].once->n_buckets : 0;
        const struct yokei_pipeline shape = { .kind = l->schedule,
                                              .n_stages = l->pipeline,
                                              .n_chunks = l->chunks,
                                              .n_micro_batches = first->n_micro_batches,
                                              .n_buckets = n_buckets,
                                              .recompute = recompute,
                                              .tied = first->once->has_tied };
        status = yokei_schedule_pipeline(&shape, &one);
        if (status) break;
        memcpy(all.rank + all.n_ranks, one.rank, (size_t)one.n_ranks * sizeof *one.rank);
        all.n_ranks += one.n_ranks;
        free(one.rank);
    }
    if (!status) status = yokei_simulate(&all, costs, out);
    yokei_schedule_free(&all);
    return status;
}

/* A difference of times that is 0 but for rounding. */
static double without_noise(double seconds, double total)
{
    return fabs(seconds) < 1e-12 * total ? 0 : seconds;
}

/* Split the step by the line that computes longest. */
static void split(const struct yokei_predicting *w, const struct yokei_costs *costs,
                  const struct yokei_simulated *x, struct yokei_prediction *out)
{
    int line = 0;
    for (int i = 1; i < x->n_stages; i++)
        if (x->stage[i].busy > x->stage[line].busy) line = i;
    const struct yokei_stage_times *t = &x->stage[line];
    const struct yokei_step_costs *once = &costs->once[line];
    struct yokei_step_split *p = &out->split;
    p->tensor = w->line_tensor[line];
    p->recomputation = w->line_again[line];
    p->arithmetic = t->busy - p->tensor - p->recomputation;
    p->bubble = without_noise(t->last - once->begin - t->busy, x->total);
    p->optimizer = once->begin + once->norms + once->step;
    p->exposed_sums = without_noise(x->total - t->last - once->norms - once->step, x->total);
    out->step_seconds = x->total;
    out->bubble = 0;
    for (int i = 0; i < x->n_stages; i++) out->bubble += x->stage[i].idle / x->n_stages;
}

static void rate(const struct yokei_predicting *w, struct yokei_prediction *out)
{
    const struct yokei_predict_config *c = &w->p->config;
    double peaks = 0;
    out->n_ranks = w->l->data * w->l->pipeline * w->l->tensor;
    for (int i = 0; i < w->l->data * w->l->pipeline; i++) {
        const struct yokei_slot_place *slot = &w->places.slot[i];
        const struct yokei_device_kind *kind = &c->cluster->kind[slot->kind];
        const struct yokei_cluster_host *host = &c->cluster->host[slot->entry];
        const struct yokei_speed *gemm = &kind->speed[w->p->type][YOKEI_CLASS_GEMM];
        int n_devices = 0;
        for (int k = 0; k < host->n_lists; k++) n_devices += host->devices[k].n;
        const double fastest = gemm->point[gemm->n_points - 1].rate;
        peaks += w->l->tensor * (kind->peak[w->p->type] > 0 ? kind->peak[w->p->type] : fastest);
        out->price_per_hour += w->l->tensor * (kind->price + host->price / n_devices);
    }
    out->tokens_per_second = (double)c->batch * (double)c->sequence / out->step_seconds;
    out->utilisation = c->model_flops > 0 ? c->model_flops / (out->step_seconds * peaks) : NAN;
}

yoke_status yokei_predict(yokei_predictor *p, const struct yokei_layout *l, struct yokei_prediction *out)
{
    return yokei_predict_fixed(p, l, &(struct yokei_fixed_layout){ NULL, NULL }, out);
}

/* Everything of a layout but the simulation. */
static yoke_status prepare(struct yokei_predicting *w, struct yokei_prediction *out,
                           struct yokei_costs *costs)
{
    *out = (struct yokei_prediction){ 0 };
    YOKE_TRY(begin(w));
    YOKE_TRY(deal(w));
    classify(w);
    YOKE_TRY(plan_lines(w, out));
    return yokei_predict_costs(w, costs);
}

yoke_status yokei_predict_stages(yokei_predictor *p, const struct yokei_layout *l,
                                 struct yokei_stage_costs *stages_out)
{
    struct yokei_predicting w = { .p = p, .l = l };
    struct yokei_costs costs = { 0 };
    struct yokei_prediction prediction;
    const yoke_status status = prepare(&w, &prediction, &costs);
    for (int s = 0; s < l->pipeline && !status; s++) {
        const struct yokei_hop *hop = &costs.hop[s];
        stages_out[s] = (struct yokei_stage_costs){ 0 };
        for (int c = 0; c < l->chunks; c++) {
            const struct yokei_chunk_costs *k = &costs.chunk[s * l->chunks + c];
            stages_out[s].F += k->F, stages_out[s].B += k->B;
            stages_out[s].W += k->W, stages_out[s].R += k->R;
        }
        stages_out[s].latency = hop->latency;
        if (hop->bytes > 0) stages_out[s].transfer = hop->bytes / hop->bytes_per_second;
    }
    yokei_prediction_free(&prediction);
    yokei_costs_free(&costs);
    end(&w);
    return status;
}

yoke_status yokei_predict_fixed(yokei_predictor *p, const struct yokei_layout *l,
                                const struct yokei_fixed_layout *fixed, struct yokei_prediction *out)
{
    struct yokei_predicting w = { .p = p, .l = l, .fixed = *fixed };
    struct yokei_costs costs = { 0 };
    struct yokei_simulated simulated = { 0 };
    yoke_status status = prepare(&w, out, &costs);
    if (!status) status = simulate(&w, &costs, &simulated);
    if (!status) {
        split(&w, &costs, &simulated, out);
        rate(&w, out);
        out->shares = w.shares;
        out->n_shares = l->data;
        w.shares = NULL;
    } else {
        yokei_prediction_free(out);
    }
    yokei_simulated_free(&simulated);
    yokei_costs_free(&costs);
    end(&w);
    return status;
}
