/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare a timeline with the simulator. The instructions of each stage of each replica are combined into the
 * actions of a schedule. The median times of the instructions become the costs of the actions. The schedule
 * is simulated with these costs. Then each instruction gets its part of its action's time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "core/base/times.h"
#include "parallel/program.h"
#include "train/timeline/timeline.h"

enum { NO_ACTION = -1 };

/* A line of the schedule: stage s of replica d, as recorded by its first tensor rank. */
struct line {
    const struct yokei_timeline_rank *rank;
    int *action; /* [n] the action of each instruction in the line's list, or NO_ACTION */
    /*
     * [n] for a pass, the first instruction of its run of layers; for other instructions, the instruction
     * itself
     */
    int *run;
    double *median; /* [n] seconds from begin to end */
};

struct work {
    const struct yokei_timeline *timeline;
    struct yokei_timeline_simulation *out;
    struct line *line;
    int n_lines, n_stages, n_replicas, n_chunks;
    double *samples; /* memory for computing a median */
    int n_samples;
};

/* ---- medians ---- */

static void add(struct work *w, double x)
{
    if (!isnan(x)) w->samples[w->n_samples++] = x;
}

/* The median of the values that were added since the last call; 0 if there are none. */
static double median(struct work *w)
{
    const int n = w->n_samples;
    w->n_samples = 0;
    return yokei_median(w->samples, n);
}

static const struct yokei_timeline_span *at(const struct work *w, int line, int step, int n)
{
    return &w->line[line].rank->span[(size_t)step * (size_t)w->line[line].rank->n + (size_t)n];
}

static bool is_pass(int kind)
{
    return kind == YOKEI_FORWARD || kind == YOKEI_BACKWARD_INPUT || kind == YOKEI_BACKWARD_WEIGHT;
}

static enum yokei_action_kind action_of(const struct yokei_timeline_instruction *i)
{
    switch (i->kind) {
    case YOKEI_FORWARD: return i->recomputes ? YOKEI_ACTION_R : YOKEI_ACTION_F;
    case YOKEI_BACKWARD_INPUT: return YOKEI_ACTION_B;
    case YOKEI_BACKWARD_WEIGHT: return YOKEI_ACTION_W;
    case YOKEI_SEND_ACTIVATION: return YOKEI_ACTION_SA;
    case YOKEI_RECEIVE_ACTIVATION: return YOKEI_ACTION_RA;
    case YOKEI_SEND_GRADIENT: return YOKEI_ACTION_SG;
    case YOKEI_RECEIVE_GRADIENT: return YOKEI_ACTION_RG;
    case YOKEI_REDUCE: return YOKEI_ACTION_REDUCE;
    case YOKEI_TIED: return YOKEI_ACTION_TIED;
    case YOKEI_AGREE: return YOKEI_ACTION_AGREE;
    case YOKEI_STEP:
    case YOKEI_GATHER:
        /* the steps of all buckets and the gathers of their weights are one action */
        return YOKEI_ACTION_STEP;
    default:
        /* zeroing, norms, and the sums of replicated gradients are costs of the step */
        return YOKEI_N_ACTIONS;
    }
}

/* ---- instructions to actions ---- */

static bool is_forward(const struct yokei_timeline_instruction *i)
{
    return i->kind == YOKEI_FORWARD && !i->recomputes;
}

/*
 * Whether two passes may belong to one run of a chunk's layers. A run is either forward, or backward with R,
 * B and W in any order.
 */
static bool belong_together(const struct yokei_timeline_instruction *a,
                            const struct yokei_timeline_instruction *b)
{
    return is_forward(a) == is_forward(b) && a->micro_batch == b->micro_batch && a->chunk == b->chunk;
}

static yoke_status append(struct work *w, int line, int n, int *index_out)
{
    const struct yokei_timeline_instruction *i = &w->line[line].rank->list[n];
    const enum yokei_action_kind kind = action_of(i);
    const int index = kind == YOKEI_ACTION_REDUCE          ? i->bucket
                      : yokei_action_has_micro_batch(kind) ? i->micro_batch
                                                           : 0;
    struct yokei_actions *list = &w->out->schedule.rank[line];
    YOKE_TRY(yokei_schedule_append(&w->out->schedule, kind, index,
                                   yokei_action_has_micro_batch(kind) ? i->chunk : 0));
    *index_out = list->n - 1;
    return YOKE_OK;
}

/*
 * Append one run of passes that begins at `from`. Sums between these passes come after them. *end_out is the
 * first instruction after the run.
 */
static yoke_status append_run(struct work *w, int line, int from, int *end_out)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    int *action = w->line[line].action, of[YOKEI_N_ACTIONS], end = from;
    for (int k = 0; k < YOKEI_N_ACTIONS; k++) of[k] = NO_ACTION;
    while (end < r->n
           && (r->list[end].kind == YOKEI_REDUCE
               || (is_pass(r->list[end].kind) && belong_together(&r->list[from], &r->list[end]))))
        end++;
    /* Actions are in the order F, R, B, W, whatever the order of the layers. */
    static const enum yokei_action_kind order[] = { YOKEI_ACTION_F, YOKEI_ACTION_R, YOKEI_ACTION_B,
                                                    YOKEI_ACTION_W };
    for (size_t k = 0; k < YOKE_COUNT(order); k++)
        for (int n = from; n < end; n++) {
            if (!is_pass(r->list[n].kind) || action_of(&r->list[n]) != order[k]) continue;
            if (of[order[k]] == NO_ACTION) YOKE_TRY(append(w, line, n, &of[order[k]]));
            action[n] = of[order[k]];
        }
    for (int n = from; n < end; n++) {
        if (r->list[n].kind == YOKEI_REDUCE)
            YOKE_TRY(append(w, line, n, &action[n]));
        else
            w->line[line].run[n] = from;
    }
    *end_out = end;
    return YOKE_OK;
}

static yoke_status append_line(struct work *w, int line)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    int step = NO_ACTION;
    YOKE_TRY(yokei_schedule_add_line(&w->out->schedule));
    for (int n = 0; n < r->n;) {
        if (is_pass(r->list[n].kind)) {
            YOKE_TRY(append_run(w, line, n, &n));
            continue;
        }
        const enum yokei_action_kind kind = action_of(&r->list[n]);
        if (kind == YOKEI_ACTION_STEP && step != NO_ACTION)
            w->line[line].action[n] = step;
        else if (kind != YOKEI_N_ACTIONS)
            YOKE_TRY(append(w, line, n, &w->line[line].action[n]));
        if (kind == YOKEI_ACTION_STEP) step = w->line[line].action[n];
        n++;
    }
    return YOKE_OK;
}

/* ---- costs ---- */

/* Seconds that the instructions of an action took in a step. */
static double took(const struct work *w, int line, int step, int action)
{
    double seconds = 0;
    for (int n = 0; n < w->line[line].rank->n; n++)
        if (w->line[line].action[n] == action)
            seconds += at(w, line, step, n)->end - at(w, line, step, n)->begin;
    return seconds;
}

static void cost_of_passes(struct work *w, int line)
{
    const struct yokei_actions *list = &w->out->schedule.rank[line];
    for (int chunk = 0; chunk < w->n_chunks; chunk++) {
        double of[YOKEI_ACTION_R + 1];
        for (int kind = 0; kind <= YOKEI_ACTION_R; kind++) {
            for (int i = 0; i < list->n; i++)
                for (int step = 0; step < w->timeline->n_steps && (int)list->action[i].kind == kind
                                   && list->action[i].chunk == chunk;
                     step++)
                    add(w, took(w, line, step, i));
            of[kind] = median(w);
        }
        w->out->costs.chunk[line * w->n_chunks + chunk] = (struct yokei_chunk_costs){
            .F = of[YOKEI_ACTION_F], .B = of[YOKEI_ACTION_B], .W = of[YOKEI_ACTION_W], .R = of[YOKEI_ACTION_R]
        };
    }
}

static int find(const struct yokei_timeline_rank *r, int kind, int bucket, int from)
{
    while (from < r->n
           && !(r->list[from].kind == kind
                && (kind != YOKEI_REDUCE || bucket < 0 || r->list[from].bucket == bucket)))
        from++;
    return from;
}

static double own_median(struct work *w, int line, int kind)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    const int n = find(r, kind, -1, 0);
    for (int step = 0; step < w->timeline->n_steps && n < r->n; step++)
        add(w, at(w, line, step, n)->end - at(w, line, step, n)->begin);
    return median(w);
}

/*
 * The costs that a line has once per step: before its passes, between its last sum and the agreement, and
 * after the agreement.
 */
static void cost_of_step(struct work *w, int line)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    const int agree = find(r, YOKEI_AGREE, -1, 0);
    struct yokei_step_costs *once = &w->out->costs.once[line];
    once->begin = own_median(w, line, YOKEI_ZERO);
    once->norms = own_median(w, line, YOKEI_NORMS) + own_median(w, line, YOKEI_REPLICATED);
    for (int step = 0; step < w->timeline->n_steps && agree < r->n; step++) {
        double end = NAN;
        for (int n = agree + 1; n < r->n; n++)
            if (action_of(&r->list[n]) == YOKEI_ACTION_STEP) end = fmax(end, at(w, line, step, n)->end);
        if (!isnan(end)) add(w, end - at(w, line, step, agree)->end);
    }
    once->step = median(w);
}

/*
 * Seconds from the moment when the last of these lines reached the instruction until the last line completed
 * it. NaN if it did not run in this step.
 */
static double meeting(const struct work *w, int step, int first, int by, int end, int kind, int bucket)
{
    double begin = -INFINITY, over = -INFINITY;
    for (int line = first; line < end; line += by) {
        const struct yokei_timeline_rank *r = w->line[line].rank;
        const int n = find(r, kind, bucket, 0);
        if (n == r->n || isnan(at(w, line, step, n)->begin)) continue;
        double own = at(w, line, step, n)->begin;
        /* The sums of a communicator run one after the other. */
        for (int before = kind == YOKEI_REDUCE ? find(r, kind, -1, 0) : n; before < n;
             before = find(r, kind, -1, before + 1))
            own = fmax(own, at(w, line, step, before)->end);
        begin = fmax(begin, own);
        over = fmax(over, at(w, line, step, n)->end);
    }
    return begin > -INFINITY ? fmax(over - begin, 0) : NAN;
}

/*
 * Seconds of the passes of the same run after the sum. The gradients of the sum are complete this long before
 * the run ends.
 */
static double early(struct work *w, int line, int n)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    int from = n;
    while (from > 0 && r->list[from].kind == YOKEI_REDUCE) from--;
    if (!is_pass(r->list[from].kind)) return 0;
    for (int step = 0; step < w->timeline->n_steps; step++) {
        double seconds = 0;
        for (int k = n; k < r->n
                        && (r->list[k].kind == YOKEI_REDUCE
                            || (is_pass(r->list[k].kind) && belong_together(&r->list[from], &r->list[k])));
             k++)
            if (is_pass(r->list[k].kind)) seconds += at(w, line, step, k)->end - at(w, line, step, k)->begin;
        add(w, seconds);
    }
    return median(w);
}

static void cost_of_sums(struct work *w, int line)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    for (int n = find(r, YOKEI_REDUCE, -1, 0); n < r->n; n = find(r, YOKEI_REDUCE, -1, n + 1)) {
        const int bucket = r->list[n].bucket;
        struct yokei_sum_costs *sum = &w->out->costs.sum[line * w->out->costs.n_sums + bucket];
        for (int step = 0; step < w->timeline->n_steps; step++)
            add(w, meeting(w, step, line % w->n_stages, w->n_stages, w->n_lines, YOKEI_REDUCE, bucket));
        sum->seconds = median(w);
        sum->early = early(w, line, n);
        /* If a sum has ended when its call returns, the call blocked the caller. */
        for (int step = 0; step < w->timeline->n_steps; step++)
            w->out->costs.sums_block |= at(w, line, step, n)->end <= at(w, line, step, n)->returned;
    }
}

static void cost_of_meetings(struct work *w)
{
    const struct yokei_timeline *t = w->timeline;
    for (int step = 0; step < t->n_steps; step++) add(w, meeting(w, step, 0, 1, w->n_lines, YOKEI_AGREE, -1));
    w->out->costs.agree = median(w);
    for (int step = 0; step < t->n_steps; step++)
        for (int first = 0; first < w->n_lines; first += w->n_stages)
            add(w, meeting(w, step, first, 1, first + w->n_stages, YOKEI_TIED, -1));
    w->out->costs.tied = median(w);
}

/*
 * Add the seconds of the messages of one kind from one line to another. A message begins when both lines have
 * reached it and the message before it has ended.
 */
static void add_messages(struct work *w, int from, int to, int send, int receive)
{
    const struct yokei_timeline_rank *a = w->line[from].rank, *b = w->line[to].rank;
    for (int step = 0; step < w->timeline->n_steps; step++) {
        double before = -INFINITY;
        for (int i = find(a, send, -1, 0), j = find(b, receive, -1, 0); i < a->n && j < b->n;
             i = find(a, send, -1, i + 1), j = find(b, receive, -1, j + 1)) {
            const double begin = fmax(fmax(at(w, from, step, i)->begin, at(w, to, step, j)->begin), before);
            before = at(w, to, step, j)->end;
            add(w, fmax(before - begin, 0));
        }
    }
}

static void cost_of_hop(struct work *w, int line)
{
    const int next = line - line % w->n_stages + (line % w->n_stages + 1) % w->n_stages;
    struct yokei_hop *hop = &w->out->costs.hop[line];
    add_messages(w, line, next, YOKEI_SEND_ACTIVATION, YOKEI_RECEIVE_ACTIVATION);
    add_messages(w, next, line, YOKEI_SEND_GRADIENT, YOKEI_RECEIVE_GRADIENT);
    const double seconds = median(w);
    /* The time is given as bytes, because a channel carries one message at a time. */
    if (seconds > 0) *hop = (struct yokei_hop){ .bytes = seconds, .bytes_per_second = 1 };
}

static yoke_status make_costs(struct work *w)
{
    struct yokei_costs *c = &w->out->costs;
    const size_t lines = (size_t)w->n_lines;
    c->n_stages = w->n_stages, c->n_replicas = w->n_replicas, c->n_chunks = w->n_chunks;
    c->receiver_takes = true;
    for (int line = 0; line < w->n_lines; line++)
        for (int n = 0; n < w->line[line].rank->n; n++)
            if (w->line[line].rank->list[n].kind == YOKEI_REDUCE)
                c->n_sums = YOKE_MAX(c->n_sums, w->line[line].rank->list[n].bucket + 1);
    c->chunk = calloc(lines * (size_t)w->n_chunks, sizeof *c->chunk);
    c->hop = calloc(lines, sizeof *c->hop);
    c->sum = calloc(lines * (size_t)c->n_sums + 1, sizeof *c->sum);
    c->once = calloc(lines, sizeof *c->once);
    if (!c->chunk || !c->hop || !c->sum || !c->once)
        return yoke_fail(YOKE_ENOMEM, "timeline: no host memory for the costs of %d stages", w->n_lines);
    for (int line = 0; line < w->n_lines; line++) {
        cost_of_passes(w, line);
        cost_of_step(w, line);
        cost_of_sums(w, line);
        if (w->n_stages > 1) cost_of_hop(w, line);
    }
    cost_of_meetings(w);
    return YOKE_OK;
}

/* ---- the simulated step, instruction by instruction ---- */

static void make_medians(struct work *w, int line)
{
    for (int n = 0; n < w->line[line].rank->n; n++) {
        for (int step = 0; step < w->timeline->n_steps; step++)
            add(w, at(w, line, step, n)->end - at(w, line, step, n)->begin);
        w->line[line].median[n] = median(w);
    }
}

/*
 * Divide the time from the first to the last action of a run among its passes, in proportion to their
 * measured times. The R, B and W of the layers alternate in this time.
 */
static void spread_pass(struct work *w, int line, int n)
{
    const struct line *l = &w->line[line];
    const struct yokei_span *of = w->out->simulated.stage[line].span;
    double begin = INFINITY, end = -INFINITY, before = 0, all = 0;
    for (int k = 0; k < l->rank->n; k++) {
        if (l->run[k] != l->run[n] || l->action[k] == NO_ACTION) continue;
        begin = fmin(begin, of[l->action[k]].start);
        end = fmax(end, of[l->action[k]].end);
        if (k < n) before += l->median[k];
        all += l->median[k];
    }
    const double scale = all > 0 ? (end - begin) / all : 0;
    struct yokei_timeline_span *out = &w->out->span[line][n];
    out->posted = out->begin = begin + before * scale;
    out->returned = out->end = out->begin + l->median[n] * scale;
}

/*
 * Place the steps of all buckets and the gathers of their weights one after the other in the time of their
 * common action.
 */
static void spread_step(struct work *w, int line, int n)
{
    const struct line *l = &w->line[line];
    const struct yokei_span *span = &w->out->simulated.stage[line].span[l->action[n]];
    double before = 0, all = 0;
    for (int k = 0; k < w->line[line].rank->n; k++) {
        if (l->action[k] != l->action[n]) continue;
        if (k < n) before += l->median[k];
        all += l->median[k];
    }
    const double scale = all > 0 ? (span->end - span->start) / all : 0, begin = span->start + before * scale,
                 end = begin + l->median[n] * scale;
    w->out->span[line][n] = (struct yokei_timeline_span){ begin, begin, end, end };
}

/*
 * Place all instructions of a line. Passes lie within their actions, messages and meetings are as simulated,
 * and an instruction without an action comes when the line reaches it.
 */
static void spread(struct work *w, int line)
{
    const struct yokei_timeline_rank *r = w->line[line].rank;
    const struct line *l = &w->line[line];
    const double begin = w->out->costs.once[line].begin;
    double latest = begin;
    for (int n = 0; n < r->n; n++) {
        struct yokei_timeline_span *out = &w->out->span[line][n];
        if (is_pass(r->list[n].kind)) {
            spread_pass(w, line, n);
        } else if (action_of(&r->list[n]) == YOKEI_ACTION_STEP) {
            spread_step(w, line, n);
        } else if (l->action[n] != NO_ACTION) {
            const struct yokei_span *span = &w->out->simulated.stage[line].span[l->action[n]];
            *out = (struct yokei_timeline_span){ span->start, span->start, span->end, span->end };
        } else {
            *out = r->list[n].kind == YOKEI_ZERO
                       ? (struct yokei_timeline_span){ 0, 0, begin, begin }
                       : (struct yokei_timeline_span){ latest, latest, latest + l->median[n],
                                                       latest + l->median[n] };
        }
        latest = fmax(latest, out->end);
    }
}

/* ---- the summary ---- */

/*
 * The duration of a step from its first instruction to its last, and its bubble as the simulator defines it.
 */
static void measured_step(const struct work *w, int step, double *seconds_out, double *bubble_out)
{
    double begin = INFINITY, end = -INFINITY, longest = 0, useful = 0;
    for (int line = 0; line < w->n_lines; line++) {
        const struct yokei_timeline_rank *r = w->line[line].rank;
        double first = INFINITY, last = -INFINITY;
        for (int n = 0; n < r->n; n++) {
            const struct yokei_timeline_span *s = at(w, line, step, n);
            if (isnan(s->posted)) continue;
            begin = fmin(begin, s->posted);
            end = fmax(end, s->end);
            if (!is_pass(r->list[n].kind)) continue;
            first = fmin(first, s->begin);
            last = fmax(last, s->end);
            if (!r->list[n].recomputes) useful += s->end - s->begin;
        }
        longest = fmax(longest, last - first);
    }
    *seconds_out = end - begin;
    /* because of rounding, a sum may exceed the span */
    *bubble_out = longest > 0 ? fmax(1 - useful / w->n_lines / longest, 0) : 0;
}

/* Add up the computation and the communication of the busiest line. */
static void add_up(struct work *w, struct yokei_timeline_summary *out)
{
    for (int line = 0; line < w->n_lines; line++) {
        const struct yokei_timeline_rank *r = w->line[line].rank;
        const struct yokei_costs *c = &w->out->costs;
        double compute = c->once[line].begin + c->once[line].norms + c->once[line].step,
               communication = c->agree;
        for (int n = 0; n < r->n; n++) {
            const int kind = r->list[n].kind;
            if (is_pass(kind)) compute += w->line[line].median[n];
            if (kind == YOKEI_REDUCE) communication += c->sum[line * c->n_sums + r->list[n].bucket].seconds;
            if (kind == YOKEI_TIED) communication += c->tied;
            if (kind == YOKEI_SEND_ACTIVATION || kind == YOKEI_RECEIVE_GRADIENT)
                communication += c->hop[line].bytes;
            if (kind == YOKEI_SEND_GRADIENT || kind == YOKEI_RECEIVE_ACTIVATION)
                communication +=
                    c->hop[line - line % w->n_stages + (line % w->n_stages + w->n_stages - 1) % w->n_stages]
                        .bytes;
        }
        if (compute <= out->compute) continue;
        out->compute = compute;
        out->communication = communication;
    }
}

static void summarise(struct work *w)
{
    struct yokei_timeline_summary *out = &w->out->summary;
    double seconds, bubble;
    out->n_steps = w->timeline->n_steps;
    for (int step = 0; step < w->timeline->n_steps; step++) {
        measured_step(w, step, &seconds, &bubble);
        add(w, seconds);
    }
    out->measured = median(w);
    for (int step = 0; step < w->timeline->n_steps; step++) {
        measured_step(w, step, &seconds, &bubble);
        add(w, bubble);
    }
    out->bubble_measured = median(w);
    out->simulated = w->out->simulated.total;
    out->bubble_simulated = w->out->simulated.bubble;
    for (int r = 0; r < w->timeline->n_ranks; r++)
        out->clock_error = fmax(out->clock_error, w->timeline->rank[r].clock_error);
    add_up(w, out);
}

/* ---- the whole simulation ---- */

static yoke_status begin(struct work *w)
{
    const struct yokei_timeline *t = w->timeline;
    size_t most = 1;
    w->n_stages = t->mesh.pipeline, w->n_replicas = t->mesh.data, w->n_chunks = t->mesh.chunks;
    w->n_lines = w->n_stages * w->n_replicas;
    w->line = calloc((size_t)w->n_lines, sizeof *w->line);
    w->out->span = calloc((size_t)w->n_lines, sizeof *w->out->span);
    if (!w->line || !w->out->span)
        return yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %d stages", w->n_lines);
    w->out->n_lines = w->n_lines;
    for (int line = 0; line < w->n_lines; line++) {
        struct line *l = &w->line[line];
        l->rank = &t->rank[yokei_mesh_rank(&t->mesh, line / w->n_stages, line % w->n_stages, 0)];
        const size_t n = (size_t)l->rank->n + 1;
        l->action = malloc(n * sizeof *l->action);
        l->run = malloc(n * sizeof *l->run);
        l->median = calloc(n, sizeof *l->median);
        w->out->span[line] = calloc(n, sizeof *w->out->span[line]);
        if (!l->action || !l->run || !l->median || !w->out->span[line])
            return yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %d instructions", l->rank->n);
        for (int i = 0; i < l->rank->n; i++) l->action[i] = NO_ACTION, l->run[i] = i;
        most += 2 * n * (size_t)t->n_steps;
    }
    w->samples = malloc(most * sizeof *w->samples);
    return w->samples ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "timeline: no host memory for %zu times", most);
}

yoke_status yokei_timeline_simulate(const struct yokei_timeline *timeline,
                                    struct yokei_timeline_simulation *simulation_out)
{
    struct yokei_timeline_simulation out = { 0 };
    struct work w = { .timeline = timeline, .out = &out };
    yoke_status status = begin(&w);
    for (int line = 0; line < w.n_lines && !status; line++) status = append_line(&w, line);
    for (int line = 0; line < w.n_lines && !status; line++) make_medians(&w, line);
    if (!status) status = make_costs(&w);
    if (!status) status = yokei_simulate(&out.schedule, &out.costs, &out.simulated);
    for (int line = 0; line < w.n_lines && !status; line++) spread(&w, line);
    if (!status) summarise(&w);
    for (int line = 0; line < w.n_lines && w.line; line++) {
        free(w.line[line].action);
        free(w.line[line].run);
        free(w.line[line].median);
    }
    free(w.line);
    free(w.samples);
    if (status)
        yokei_timeline_simulation_free(&out);
    else
        *simulation_out = out;
    return status;
}

void yokei_timeline_simulation_free(struct yokei_timeline_simulation *s)
{
    yokei_schedule_free(&s->schedule);
    yokei_costs_free(&s->costs);
    yokei_simulated_free(&s->simulated);
    for (int line = 0; line < s->n_lines && s->span; line++) free(s->span[line]);
    free(s->span);
    memset(s, 0, sizeof *s);
}
