/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of the bubble. The proofs are in bounds.h. */
#include <math.h>
#include <string.h>
#include "core/base/base.h"
#include "train/search/bounds_inside.h"

/* A stage of a replica, by (6): a, w, and the waiting for a message of F and for one of B. */
struct idle_stage {
    double part, late, in, out;
    double gone; /* all other messages that the first stage waits for */
};
/* A replica. `total`: at least the sum of all T_s, for a micro-batch. */
struct idle_line {
    int n;
    double m, total, messages;
    bool is_naive, is_early;
    struct idle_stage stage[YOKEI_MOST_CUTS];
};

/* ---- a stage ---- */

static bool is_early(const struct yokei_layout *l) { return l->schedule == YOKEI_PIPELINE_ZB_H1; }

/* The numbers a and w of a stage with n blocks. They are the worst at the ends of the range of n. */
static void part_of(const struct yokei_layout *l, const struct yokei_unit *u, bool first, bool last, int n,
                    struct idle_stage *x)
{
    const double blocks = (double)n / l->chunks;
    double come = first ? u->before.F + u->before.B : 0, gone = first ? u->before.W : 0;
    come += blocks * (u->block.F + u->block.B), gone += blocks * u->block.W;
    if (last && l->chunks == 1) come += u->after.F + u->after.B, gone += u->after.W;
    const double most = (first ? all(&u->most_before) : 0) + n * all(&u->most_block)
                        + (last ? all(&u->most_after) : 0),
                 late = (first ? u->most_before.W : 0) + n * u->most_block.W + (last ? u->most_after.W : 0),
                 least = (first ? all(&u->before) - u->before.W : 0) + n * (all(&u->block) - u->block.W)
                         + (last ? all(&u->after) - u->after.W : 0);
    /* W of the first stage comes after the last B of the others */
    if (!is_early(l) || first) come += gone;
    x->part = fmin(x->part, most > 0 ? come / most : 0);
    x->late = fmax(x->late, late > 0 ? late / (least + late) : 0);
}

static void parts_of(const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                     const struct yokei_unit *u, bool first, bool last, struct idle_stage *x)
{
    const int most = sizes->n_blocks - (l->pipeline - 1) * l->chunks;
    part_of(l, u, first, last, l->chunks, x);
    part_of(l, u, first, last, YOKE_MAX(most, l->chunks), x);
}

/* ---- a replica ---- */

static yoke_status line_of(yokei_predictor *p, const struct yokei_predict_config *c,
                           const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                           const struct yokei_slot_place *slots, int d, bool counts_in, struct idle_line *x)
{
    double slowest = 0, hop_before = 0, bytes;
    x->n = l->pipeline;
    x->total = x->messages = 0;
    x->is_naive = l->schedule == YOKEI_PIPELINE_NAIVE, x->is_early = is_early(l);
    for (int s = 0; s < x->n; s++) {
        struct yokei_unit u;
        struct idle_stage *k = &x->stage[s];
        const bool last = s == x->n - 1;
        *k = (struct idle_stage){ .part = INFINITY };
        YOKE_TRY(yokei_predict_whole_unit(p, l, slots[yokei_layout_slot(l, s, d)].kind, &u));
        parts_of(l, sizes, &u, s == 0, last, k);
        const double block = all(&u.most_block), hop = last ? 0 : yokei_bound_hop(c, l, slots, s, d, &bytes);
        x->total += (s == 0 ? all(&u.most_before) : 0) + (last ? all(&u.most_after) : 0) + l->chunks * block;
        slowest = fmax(slowest, block);
        if (l->chunks == 1) {
            k->in = counts_in ? hop_before : 0;
            k->out = l->recompute ? 0 : hop;
        }
        k->gone = x->messages - k->in;
        x->messages += 2 * hop;
        hop_before = hop;
    }
    x->total += (sizes->n_blocks - l->pipeline * l->chunks) * slowest;
    return YOKE_OK;
}

/* The passes of a micro-batch that come after the last B of stage s in zb-h1: those of W. */
static double coefficient(const struct idle_line *x, int s)
{
    return x->is_early ? x->m - fmin(s + 1, x->m) * x->stage[s].late : x->m;
}

/*
 * The parts that may be counted. If those of single stages could make the greedy sum smaller than another
 * one, all stages have the least of them.
 */
static void settle_parts(struct idle_line *x)
{
    double least = INFINITY, behind = 0, most = 0;
    for (int s = x->n - 1; s >= 0; s--) {
        const double c = coefficient(x, s);
        x->stage[s].part = fmin(x->stage[s].part, c);
        least = fmin(least, x->stage[s].part);
        most = fmax(most, x->stage[s].part * behind);
        behind += 1 / c;
    }
    for (int s = 0; s < x->n && most > 1; s++) x->stage[s].part = least;
}

/* The largest sum of all T_s with which no stage spans more than X seconds. */
static double most_work(const struct idle_line *x, double X)
{
    double work = 0, filled = 0, least = INFINITY;
    for (int s = 0; s < x->n && x->is_naive; s++) least = fmin(least, x->stage[s].part);
    if (x->is_naive) return fmax(X / x->m - x->messages, 0) / least;
    for (int s = 0; s < x->n; s++) {
        const struct idle_stage *k = &x->stage[s];
        const double room = (X - filled - k->gone - x->m * (k->in + k->out)) / coefficient(x, s),
                     own = (X - (x->m - 1) * k->in) / x->m - k->out, time = fmax(fmin(room, own), 0);
        work += time;
        filled += k->part * time;
    }
    return work;
}

/* The least idle fraction of the stages of a replica. */
static double idle_of(struct idle_line *x)
{
    double low = x->m * x->total / x->n, high = low;
    settle_parts(x);
    for (int turn = 0; turn < 60 && most_work(x, high) < x->total; turn++) low = high, high *= 2;
    for (int turn = 0; turn < 40 && high - low > 1e-9 * high; turn++) {
        const double middle = low + (high - low) / 2;
        *(most_work(x, middle) < x->total ? &low : &high) = middle;
    }
    return low > 0 ? fmax(1 - x->m * x->total / (x->n * low), 0) : 0;
}

/* ---- the micro-batches of a replica ---- */

/* The least that the time of a layer on kind a is of the time on kind b. */
static double least_ratio(const struct yokei_unit *a, const struct yokei_unit *b, bool first, bool last)
{
    double ratio = all(&a->block) / all(&b->block);
    if (first && all(&b->before) > 0) ratio = fmin(ratio, all(&a->before) / all(&b->before));
    if (last && all(&b->after) > 0) ratio = fmin(ratio, all(&a->after) / all(&b->after));
    return ratio;
}

/* The least that the time of a micro-batch on the slowest stage of replica a is of that of replica b. */
static yoke_status compare(yokei_predictor *p, const struct yokei_layout *l,
                           const struct yokei_slot_place *slots, int a, int b, double *ratio_out)
{
    *ratio_out = INFINITY;
    for (int s = 0; s < l->pipeline; s++) {
        struct yokei_unit x, y;
        YOKE_TRY(yokei_predict_whole_unit(p, l, slots[yokei_layout_slot(l, s, a)].kind, &x));
        YOKE_TRY(yokei_predict_whole_unit(p, l, slots[yokei_layout_slot(l, s, b)].kind, &y));
        *ratio_out = fmin(*ratio_out, least_ratio(&x, &y, s == 0, s == l->pipeline - 1));
    }
    return YOKE_OK;
}

enum { MOST_CLASSES = 16 };
/* Replicas whose stages lie on the same kinds. */
struct classes {
    int n, first[MOST_CLASSES], size[MOST_CLASSES];
};

/* False: there are too many. */
static bool classify(const struct yokei_layout *l, const struct yokei_slot_place *slots, struct classes *x)
{
    x->n = 0;
    for (int d = 0; d < l->data; d++) {
        int k = x->n - 1;
        while (k >= 0 && !yokei_same_kinds(l, slots, x->first[k], d)) k--;
        if (k < 0 && x->n == MOST_CLASSES) return false;
        if (k < 0) x->first[k = x->n++] = d, x->size[k] = 0;
        x->size[k]++;
    }
    return true;
}

/* The most units of the batch that a replica of a class can get from yokei_layout_shares, by (7). */
static yoke_status most_units(yokei_predictor *p, const struct yokei_layout *l,
                              const struct yokei_slot_place *slots, const struct classes *x, int class,
                              int64_t units, double *units_out)
{
    double pace = 0, least = INFINITY;
    for (int k = 0; k < x->n; k++) {
        double ratio;
        YOKE_TRY(compare(p, l, slots, x->first[class], x->first[k], &ratio));
        pace += x->size[k] * ratio;
        least = fmin(least, ratio);
    }
    const double most = floor(((double)units / pace + 1 / least) * (1 + 1e-9));
    *units_out = fmax(fmin(most, (double)(units - l->data + 1)), 1);
    return YOKE_OK;
}

static int64_t unit_of(const struct yokei_layout *l) { return l->chunks > 1 ? l->pipeline : 1; }

yoke_status yokei_bound_bubble(yokei_predictor *p, const struct yokei_predict_config *c,
                               const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                               const struct yokei_slot_place *slots, double *fraction_out)
{
    const int64_t units = c->batch / l->micro_batch / unit_of(l);
    struct classes x;
    struct idle_line line;
    double least = 1;
    *fraction_out = 0;
    if (l->pipeline == 1 || !classify(l, slots, &x)) return YOKE_OK;
    for (int k = 0; k < x.n && least > 0; k++) {
        double most = (double)((units + l->data - 1) / l->data);
        if (x.n > 1) YOKE_TRY(most_units(p, l, slots, &x, k, units, &most));
        YOKE_TRY(line_of(p, c, l, sizes, slots, x.first[k], x.n == 1 || !is_early(l), &line));
        line.m = most * (double)unit_of(l);
        least = fmin(least, idle_of(&line));
    }
    *fraction_out = least;
    return YOKE_OK;
}

/* ---- cuts ---- */

yoke_status yokei_bound_bubble_cuts(yokei_predictor *p, const struct yokei_predict_config *c,
                                    const struct yokei_layout *l, const struct yokei_model_sizes *sizes,
                                    const struct yokei_slot_place *slots, struct yokei_cut_problem *out,
                                    double *busy_out)
{
    struct classes x;
    struct idle_line line;
    *busy_out = 0;
    YOKE_TRY(yokei_bound_cuts(p, c, l, sizes, slots, false, out));
    if (l->pipeline == 1 || !classify(l, slots, &x) || x.n > 1) return YOKE_OK;
    YOKE_TRY(line_of(p, c, l, sizes, slots, 0, true, &line));
    *busy_out = out->m * line.total;
    out->forward = 0;
    for (int s = 0; s < l->pipeline; s++) {
        struct yokei_cut_stage *k = &out->stage[s];
        struct yokei_unit u;
        const bool first = s == 0, last = s == l->pipeline - 1;
        const double late = is_early(l) ? fmin(s + 1, out->m) : 0;
        YOKE_TRY(yokei_predict_whole_unit(p, l, slots[yokei_layout_slot(l, s, 0)].kind, &u));
        k->end = late * ((first ? u.most_before.W : 0) + (last ? u.most_after.W : 0));
        k->end_block = late * u.most_block.W;
        if (!is_early(l)) continue;
        /* F alone became F and B, and on the first stage also W; and a message goes back over each hop */
        k->fill += (first ? u.before.B + u.before.W : 0) + (last ? 0 : (line.stage[s + 1].in));
        k->fill_block += u.block.B + (first ? u.block.W : 0);
        k->time -= k->end / out->m;
        k->time_block -= k->end_block / out->m;
    }
    return YOKE_OK;
}

/* ---- meshes ---- */

yoke_status yokei_bound_bubble_mesh(yokei_predictor *p, const struct yokei_predict_config *c,
                                    const struct yokei_layout *mesh, const struct yokei_model_sizes *sizes,
                                    const int *slots_of_kind, double *fraction_out)
{
    struct yokei_layout l = *mesh;
    int n_used = 0;
    for (int i = 0; i < l.n_kinds; i++) n_used += slots_of_kind[i] > 0;
    *fraction_out = l.pipeline == 1 ? 0 : 1;
    for (l.chunks = 1; l.chunks <= 4 && l.pipeline > 1; l.chunks *= 2)
        for (l.recompute = 0; l.recompute <= 2; l.recompute++) {
            const int64_t units = c->batch / l.micro_batch / unit_of(&l);
            struct idle_line line = { .n = l.pipeline, .is_early = l.chunks == 1 };
            struct idle_stage worst = { .part = INFINITY };
            if (units < l.data || l.chunks * l.pipeline > sizes->n_blocks) continue;
            l.schedule = l.chunks == 1 ? YOKEI_PIPELINE_ZB_H1 : YOKEI_PIPELINE_INTERLEAVED;
            for (int i = 0; i < l.n_kinds; i++) {
                struct yokei_unit u;
                if (!slots_of_kind[i]) continue;
                YOKE_TRY(yokei_predict_whole_unit(p, &l, l.kind[i], &u));
                for (int place = 0; place < 3; place++)
                    parts_of(&l, sizes, &u, place == 0, place == 2, &worst);
            }
            const double most = n_used == 1 ? ceil((double)units / l.data) : (double)(units - l.data + 1);
            line.m = most * (double)unit_of(&l);
            for (int s = 0; s < line.n; s++) line.stage[s] = worst;
            settle_parts(&line);
            /* without messages the work grows in proportion to the span */
            *fraction_out = fmin(*fraction_out, fmax(1 - line.m * most_work(&line, 1) / line.n, 0));
        }
    return YOKE_OK;
}
