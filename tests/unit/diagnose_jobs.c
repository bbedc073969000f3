/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/diagnose_jobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"

enum { STEPS = 24, TRACED = 3, MOST_STAGES = 4, MOST_BUCKETS = 400 };

/* ---- random numbers ---- */

static double uniform(struct job *j, double least, double most)
{
    j->random ^= j->random << 13, j->random ^= j->random >> 7, j->random ^= j->random << 17;
    return least + (most - least) * (double)(j->random >> 11) * 0x1p-53;
}
static int whole(struct job *j, int least, int most)
{
    return least + (int)uniform(j, 0, most - least + 0.999);
}
static double normal(struct job *j)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += uniform(j, 0, 1);
    return sum;
}

/* ---- the true job ---- */

struct truth {
    int data, pipeline, tensor, m[8]; /* micro-batches of each replica */
    int n_ranks, n_lines, n_sums, n_hosts;
    int64_t blocks[MOST_STAGES], shares[8];
    int64_t micro_batch;
    double F, B, W;                    /* seconds of a block, for a micro-batch */
    double speed[MOST_RANKS];          /* relative time of each rank's passes */
    double own[MOST_RANKS];            /* the same, from small differences of like devices */
    double collectives;                /* part of the passes in which tensor ranks exchange */
    double latency, rate;              /* seconds of a small exchange; bytes per second of a link */
    double hop[MOST_RANKS], hop_bytes; /* relative time of each line's link */
    double sum_link[MOST_STAGES];      /* relative time of the sums of each stage */
    double sum_bytes;                  /* of all gradients of a line */
    bool blocks_passes;                /* passes wait during sums */
    bool late_buckets;                 /* no bucket is complete early */
    double data_seconds, save_seconds, compile_seconds, other;
    int data_rank, save_every, threads, cores;
    double queued; /* all ranks: seconds without a core, in parts of their passes */
    int slow_rank; /* of a neighbour, or with too little memory */
    double neighbour, neighbour_often;
    double faults, fault_seconds;
    bool mixed;
    double sigma, spikes;
};

static int stage_of(const struct truth *t, int line) { return line % t->pipeline; }
static int rank_of(const struct truth *t, int line, int tensor)
{
    return (stage_of(t, line) * t->data + line / t->pipeline) * t->tensor + tensor;
}

static void draw(struct job *j, struct truth *t)
{
    *t = (struct truth){ .data_rank = -1, .slow_rank = -1 };
    do {
        t->data = whole(j, 1, 4), t->pipeline = whole(j, 1, MOST_STAGES), t->tensor = whole(j, 1, 2);
        t->n_ranks = t->data * t->pipeline * t->tensor;
    } while (t->n_ranks < 2 || t->n_ranks > 16);
    t->n_lines = t->data * t->pipeline;
    t->n_sums = t->data > 1 ? whole(j, 4, 12) : 0;
    t->micro_batch = 1 << whole(j, 2, 4);
    const int m = t->pipeline > 1 ? t->pipeline * whole(j, 4, 6) : whole(j, 1, 4);
    const int blocks = whole(j, 2, 6);
    for (int d = 0; d < t->data; d++) t->m[d] = m, t->shares[d] = m * t->micro_batch;
    for (int s = 0; s < t->pipeline; s++) t->blocks[s] = blocks, t->sum_link[s] = 1;
    t->F = uniform(j, 0.5e-3, 4e-3);
    t->B = t->F * uniform(j, 0.9, 1.1), t->W = t->F * uniform(j, 0.8, 1.05);
    for (int r = 0; r < t->n_ranks; r++) t->speed[r] = 1, t->own[r] = 1 + 0.01 * uniform(j, -1, 1);
    for (int line = 0; line < t->n_lines; line++) t->hop[line] = 1;
    t->collectives = t->tensor > 1 ? uniform(j, 0.01, 0.05) : 0;
    t->latency = uniform(j, 15e-6, 60e-6), t->rate = uniform(j, 1e9, 2e10);
    const double backward = blocks * (t->B + t->W);
    t->sum_bytes = t->rate * backward * uniform(j, 0.1, 0.5);
    t->hop_bytes = t->rate * blocks * t->F * uniform(j, 0.01, 0.05);
    t->other = uniform(j, 0.001, 0.01) * m * backward;
    t->data_seconds = uniform(j, 0.0005, 0.008) * m * backward;
    t->threads = whole(j, 1, 4), t->n_hosts = whole(j, 0, 1) ? t->n_ranks : 1;
    t->cores = t->threads * (t->n_hosts == 1 ? t->n_ranks : 1) + whole(j, 0, 4);
    t->sigma = uniform(j, 0.01, 0.03), t->spikes = uniform(j, 0, 0.02);
}

/* ---- from the truth to a schedule and costs ---- */

static double noise(struct job *j, const struct truth *t)
{
    return j ? fmax(1 + t->sigma * normal(j), 0.5) : 1;
}

static void schedule_of(const struct truth *t, struct yokei_schedule *out)
{
    int buckets[MOST_STAGES];
    *out = (struct yokei_schedule){ t->n_lines, calloc((size_t)t->n_lines, sizeof *out->rank) };
    for (int s = 0; s < t->pipeline; s++) buckets[s] = t->n_sums;
    for (int d = 0; d < t->data; d++) {
        struct yokei_schedule one;
        const struct yokei_pipeline shape = { .kind = YOKEI_PIPELINE_1F1B,
                                              .n_stages = t->pipeline,
                                              .n_chunks = 1,
                                              .n_micro_batches = t->m[d],
                                              .n_buckets = t->n_sums ? buckets : NULL };
        if (yokei_schedule_pipeline(&shape, &one)) abort();
        memcpy(out->rank + d * t->pipeline, one.rank, (size_t)t->pipeline * sizeof *one.rank);
        free(one.rank);
    }
}

static void costs_create(const struct truth *t, struct yokei_costs *c)
{
    *c = (struct yokei_costs){ .n_stages = t->pipeline,
                               .n_chunks = 1,
                               .n_replicas = t->data,
                               .n_sums = t->n_sums,
                               .receiver_takes = true };
    c->chunk = calloc((size_t)t->n_lines, sizeof *c->chunk),
    c->hop = calloc((size_t)t->n_lines, sizeof *c->hop);
    c->sum = calloc((size_t)(t->n_lines * t->n_sums) + 1, sizeof *c->sum);
    c->once = calloc((size_t)t->n_lines, sizeof *c->once);
}

/* What happens in a step, beside the costs. */
struct step {
    double busy[MOST_RANKS], queued[MOST_RANKS], faults[MOST_RANKS]; /* seconds, seconds, number */
    double compile;
};

/* The seconds of the passes of rank r in a step, and why. */
static void passes_of(struct job *j, const struct truth *t, int r, int d, int s, struct step *step)
{
    const double work = (double)t->blocks[s] * t->m[d] * (t->F + t->B + t->W);
    double seconds = work * t->speed[r] * t->own[r] * noise(j, t);
    if (j && uniform(j, 0, 1) < t->spikes) seconds *= uniform(j, 1.05, 1.4);
    step->queued[r] = seconds * (j ? uniform(j, 0, 0.002) : 0) + t->queued * seconds * noise(j, t);
    seconds += t->queued * seconds;
    if (r == t->slow_rank && t->neighbour > 0 && (!j || uniform(j, 0, 1) < t->neighbour_often)) {
        const double lost = t->neighbour * work * (j ? uniform(j, 0.6, 1.4) / t->neighbour_often : 1);
        seconds += lost, step->queued[r] += lost * (j ? uniform(j, 0.9, 1) : 1);
    }
    step->faults[r] = j && uniform(j, 0, 1) < 0.02 ? 1 : 0;
    if (r == t->slow_rank && t->faults > 0) {
        step->faults[r] = j ? floor(t->faults * uniform(j, 0.3, 1.7)) : t->faults;
        seconds += step->faults[r] * t->fault_seconds * noise(j, t);
    }
    step->busy[r] = seconds;
}

/* Fill in the costs of a step. Without j there is no noise. */
static void costs_of_step(struct job *j, const struct truth *t, struct yokei_costs *c, struct step *step)
{
    const double pass = t->F + t->B + t->W;
    for (int line = 0; line < t->n_lines; line++) {
        const int s = stage_of(t, line), d = line / t->pipeline;
        double most = 0;
        for (int k = 0; k < t->tensor; k++) {
            passes_of(j, t, rank_of(t, line, k), d, s, step);
            most = fmax(most, step->busy[rank_of(t, line, k)]);
        }
        const double each = (most * (1 + t->collectives) + step->compile) / (t->m[d] * pass);
        c->chunk[line] = (struct yokei_chunk_costs){ .F = t->F * each, .B = t->B * each, .W = t->W * each };
        c->hop[line] = (struct yokei_hop){
            .bytes = (t->latency + t->hop_bytes / t->rate * t->hop[line]) * noise(j, t), .bytes_per_second = 1
        };
        c->once[line] = (struct yokei_step_costs){ .begin = 0.05 * t->latency,
                                                   .norms = 0.5 * t->latency,
                                                   .step = t->other };
        for (int b = 0; b < t->n_sums; b++) {
            /* the sum of all replicas has one time, that of its first line */
            struct yokei_sum_costs *sum = &c->sum[line * t->n_sums + b];
            if (d)
                sum->seconds = c->sum[s * t->n_sums + b].seconds;
            else
                sum->seconds = (t->latency + t->sum_bytes / t->n_sums / t->rate * t->sum_link[s])
                               * noise(j, t);
            sum->early = t->late_buckets
                             ? 0
                             : (c->chunk[line].B + c->chunk[line].W) * (t->n_sums - 1 - b) / t->n_sums;
        }
    }
    c->sums_block = t->blocks_passes;
    c->agree = t->latency * (j ? uniform(j, 1, 1.3) : 1);
}

/* ---- a run ---- */

static double seconds_without_noise(const struct truth *t)
{
    struct yokei_costs c;
    struct yokei_schedule schedule;
    struct yokei_simulated simulated;
    struct step step = { .compile = 0 };
    costs_create(t, &c);
    schedule_of(t, &schedule);
    costs_of_step(NULL, t, &c, &step);
    if (yokei_simulate(&schedule, &c, &simulated)) abort();
    const double total = simulated.total + t->data_seconds
                         + (t->save_every ? t->save_seconds / t->save_every : 0) + t->compile_seconds;
    yokei_simulated_free(&simulated);
    yokei_schedule_free(&schedule);
    yokei_costs_free(&c);
    return total;
}

/* When the line reaches the agreement. */
static double reaches_agreement(const struct yokei_actions *list, const struct yokei_stage_times *times)
{
    double end = 0;
    for (int i = 0; i < list->n; i++)
        if (list->action[i].kind < YOKEI_ACTION_AGREE) end = fmax(end, times->span[i].end);
    return end;
}

static void row_of_step(struct job *j, const struct truth *t, int n, const struct yokei_schedule *schedule,
                        const struct yokei_simulated *sim, const struct step *step,
                        struct yokei_metrics_row *row)
{
    double data = 0;
    for (int line = 0; line < t->n_lines; line++)
        for (int k = 0; k < t->tensor; k++) {
            const int r = rank_of(t, line, k);
            const bool late = t->data_rank < 0 || t->data_rank == r;
            struct yokei_metrics_rank *m = &row->ranks[r];
            *m = (struct yokei_metrics_rank){ .share = 1, .mfu = NAN };
            yokei_text(m->device, sizeof m->device, "%s", t->mixed && r % 2 ? "cuda:0" : "host");
            m->busy_seconds = step->busy[r] + step->compile;
            m->bubble = sim->longest > 0 ? fmax(1 - m->busy_seconds / sim->longest, 0) : 0;
            m->exposed_communication_seconds = fmax(
                reaches_agreement(&schedule->rank[line], &sim->stage[line]) - m->busy_seconds, 0);
            m->data_seconds = (late ? t->data_seconds : 1e-5) * uniform(j, 0.8, 1.2);
            m->checkpoint_seconds = t->save_every && n > 1 && (n - 1) % t->save_every == 0
                                        ? t->save_seconds * uniform(j, 0.9, 1)
                                        : 0;
            m->processor_seconds = t->threads * (m->busy_seconds - step->queued[r]);
            m->queued_seconds = step->queued[r];
            m->preemptions = floor(1000 * step->queued[r] * uniform(j, 0.1, 0.5));
            m->major_faults = step->faults[r];
            m->compile_seconds = step->compile * uniform(j, 0.9, 1);
            data = fmax(data, m->data_seconds + m->checkpoint_seconds);
        }
    row->step = n;
    row->tokens = n * 4096;
    row->seconds += sim->total + data + uniform(j, 0, 0.004) * sim->total;
}

static void add_costs(const struct truth *t, const struct yokei_costs *from, struct yokei_costs *to)
{
    for (int line = 0; line < t->n_lines; line++) {
        to->chunk[line].F += from->chunk[line].F / TRACED, to->chunk[line].B += from->chunk[line].B / TRACED;
        to->chunk[line].W += from->chunk[line].W / TRACED;
        to->hop[line].bytes += from->hop[line].bytes / TRACED, to->hop[line].bytes_per_second = 1;
        to->once[line] = from->once[line];
        for (int b = line * t->n_sums; b < (line + 1) * t->n_sums; b++) {
            to->sum[b].seconds += from->sum[b].seconds / TRACED;
            to->sum[b].early += from->sum[b].early / TRACED;
        }
    }
    to->agree += from->agree / TRACED;
    to->sums_block = from->sums_block;
}

static void run(struct job *j, const struct truth *t, struct yokei_schedule *schedule,
                struct yokei_costs *traced)
{
    struct yokei_facts_rows *rows;
    struct yokei_metrics_rank ranks[MOST_RANKS];
    struct yokei_metrics_row row = { .ranks = ranks, .n_ranks = t->n_ranks };
    struct yokei_costs c;
    if (yokei_facts_begin(t->pipeline > 1, &rows)) abort();
    costs_create(t, &c);
    for (int n = 1; n <= STEPS; n++) {
        struct step step = { .compile = 0 };
        struct yokei_simulated sim;
        /* All compilation of the run happens in a few steps. */
        if (t->compile_seconds > 0 && (n <= 2 || n == 7)) step.compile = t->compile_seconds * STEPS / 3;
        costs_of_step(j, t, &c, &step);
        if (n == 1) c.once[0].begin += 0.3 * c.chunk[0].F * uniform(j, 1, 4) * t->m[0];
        if (yokei_simulate(schedule, &c, &sim)) abort();
        row_of_step(j, t, n, schedule, &sim, &step, &row);
        if (n >= 3 && n < 3 + TRACED) add_costs(t, &c, traced);
        yokei_simulated_free(&sim);
        if (yokei_facts_row(rows, &row)) abort();
    }
    yokei_costs_free(&c);
    if (yokei_facts_end(rows, &j->facts)) abort();
    yokei_facts_free(rows);
}

static void tell(struct job *j, const struct truth *t, const struct yokei_schedule *schedule,
                 const struct yokei_costs *traced)
{
    struct yokei_facts *f = &j->facts;
    f->data = t->data, f->pipeline = t->pipeline, f->tensor = t->tensor, f->chunks = 1;
    f->kind = YOKEI_PIPELINE_1F1B;
    f->micro_batch = t->micro_batch;
    int64_t *blocks = calloc(MOST_STAGES, sizeof *blocks), *shares = calloc(8, sizeof *shares);
    double *sums = calloc((size_t)(t->n_lines * t->n_sums) + 1, sizeof *sums),
           *hops = calloc((size_t)t->n_lines, sizeof *hops);
    for (int s = 0; s < t->pipeline; s++) blocks[s] = t->blocks[s];
    for (int d = 0; d < t->data; d++) shares[d] = t->shares[d], f->samples = YOKE_MAX(f->samples, shares[d]);
    for (int i = 0; i < t->n_lines * t->n_sums; i++) sums[i] = t->sum_bytes / t->n_sums;
    for (int line = 0; line < t->n_lines; line++) {
        hops[line] = t->hop_bytes;
        for (int k = 0; k < t->tensor; k++) {
            struct yokei_facts_rank *r = &f->rank[rank_of(t, line, k)];
            r->d = line / t->pipeline, r->s = stage_of(t, line), r->t = k;
            r->work = (double)t->blocks[r->s] * t->m[r->d];
            r->threads = t->threads, r->cores = t->cores;
            yokei_text(r->host, sizeof r->host, "host%d", t->n_hosts == 1 ? 0 : rank_of(t, line, k));
        }
    }
    f->blocks = blocks, f->shares = shares, f->sum_bytes = sums, f->hop_bytes = hops;
    struct yokei_costs *costs = malloc(sizeof *costs);
    struct yokei_schedule *kept = malloc(sizeof *kept);
    *costs = *traced, *kept = *schedule;
    f->costs = costs, f->schedule = kept;
}

void job_free(struct job *j)
{
    yokei_costs_free((struct yokei_costs *)j->facts.costs);
    yokei_schedule_free((struct yokei_schedule *)j->facts.schedule);
    free((void *)j->facts.costs);
    free((void *)j->facts.schedule);
    free((void *)j->facts.blocks);
    free((void *)j->facts.shares);
    free((void *)j->facts.sum_bytes);
    free((void *)j->facts.hop_bytes);
    free(j->facts.rank);
}

/* ---- planting ---- */

static bool plant_link(struct truth *t, double x, uint64_t r)
{
    const int line = (int)(r % (uint64_t)t->n_lines);
    if (t->n_hosts == 1 || (!t->n_sums && t->pipeline == 1)) return false;
    if (t->pipeline == 1 || (t->n_sums && !(r & 256))) {
        t->sum_link[line % t->pipeline] *= 1 + 5 * x;
        return true;
    }
    t->hop[line - (stage_of(t, line) == t->pipeline - 1)] *= 1 + 20 * x;
    return (t->pipeline - 1) * t->data > 1;
}

/* Whole micro-batches move to one replica, or blocks to one stage. */
static bool plant_shares(struct truth *t, double x, uint64_t r)
{
    const int rank = (int)(r % (uint64_t)t->n_ranks);
    if (t->data > 1 && (r & 256 || t->pipeline == 1)) {
        const int to = rank % t->data, from = (to + 1) % t->data, n = YOKE_MAX((int)(x * t->m[from]), 1);
        if (t->m[from] - n < (t->pipeline > 1 ? t->pipeline : 1)) return false;
        t->m[to] += n, t->m[from] -= n;
        t->shares[to] = t->m[to] * t->micro_batch, t->shares[from] = t->m[from] * t->micro_batch;
        return true;
    }
    if (t->pipeline < 2) return false;
    const int to = rank % t->pipeline, from = (to + 1) % t->pipeline, n = YOKE_MAX((int)(x * 4), 1);
    if (t->blocks[from] - n < 1) return false;
    t->blocks[to] += n, t->blocks[from] -= n;
    return true;
}

static bool plant_micro_batches(struct truth *t, double x)
{
    const int m = YOKE_MAX((int)(t->pipeline * (1.25 - 0.25 * x)), 1);
    if (t->pipeline < 2 || t->m[0] != t->m[t->data - 1]) return false;
    const double more = (double)t->m[0] / m;
    t->F *= more, t->B *= more, t->W *= more, t->hop_bytes *= more;
    t->micro_batch *= 8; /* the sequences of a smaller number of micro-batches */
    for (int d = 0; d < t->data; d++) t->m[d] = m, t->shares[d] = m * t->micro_batch;
    return true;
}

static bool plant_overlap(struct truth *t, double x, uint64_t r)
{
    if (!t->n_sums) return false;
    t->sum_bytes *= 1 + x;
    t->blocks_passes = r & 256;
    t->late_buckets = !t->blocks_passes;
    if (t->late_buckets) t->n_sums = 1;
    return true;
}

static bool plant_threads(struct truth *t, double x)
{
    const int on_host = t->threads * (t->n_hosts == 1 ? t->n_ranks : 1);
    t->queued = x;
    t->cores = YOKE_MAX(on_host * 2 / 3, 1);
    return on_host > t->cores;
}

/* Plant a cause of size x > 0. `r` is a number that stays while x grows. False: the mesh cannot have it. */
static bool plant(struct truth *t, enum yokei_cause_kind cause, double x, uint64_t r, double step)
{
    const int rank = (int)(r % (uint64_t)t->n_ranks);
    switch (cause) {
    case YOKEI_CAUSE_SLOW_DEVICE: t->speed[rank] *= 1 + x; return true;
    case YOKEI_CAUSE_SLOW_LINK: return plant_link(t, x, r);
    case YOKEI_CAUSE_SHARES: return plant_shares(t, x, r);
    case YOKEI_CAUSE_MICRO_BATCHES: return plant_micro_batches(t, x);
    case YOKEI_CAUSE_SMALL_BUCKETS:
        t->latency *= 2;
        t->n_sums = (int)(t->n_sums * (2 + 20 * x));
        return t->n_sums > 0 && t->n_sums <= MOST_BUCKETS;
    case YOKEI_CAUSE_OVERSUBSCRIBED: return plant_threads(t, x);
    case YOKEI_CAUSE_PAGING:
        t->slow_rank = rank;
        t->faults = 5 + (double)(r % 400);
        t->fault_seconds = x * step / t->faults;
        return t->fault_seconds < 5e-3 && t->fault_seconds > 5e-5;
    case YOKEI_CAUSE_NEIGHBOUR:
        t->slow_rank = rank;
        t->neighbour = x, t->neighbour_often = 0.3 + 0.7 * (double)(r % 100) / 100;
        return true;
    case YOKEI_CAUSE_DATA:
        t->data_rank = r & 1 ? rank : -1;
        t->data_seconds += x * step;
        return true;
    case YOKEI_CAUSE_CHECKPOINT:
        t->save_every = 1 + (int)(r % 6);
        t->save_seconds = x * step * t->save_every;
        return true;
    case YOKEI_CAUSE_COMPILATION: t->compile_seconds = x * step; return true;
    default: return plant_overlap(t, x, r);
    }
}

/* The cause grows until it costs what was drawn. */
static bool plant_until(struct job *j, struct truth *t, enum yokei_cause_kind cause, double *cost_out)
{
    const double wanted = uniform(j, 0.08, 0.35), healthy = seconds_without_noise(t);
    const uint64_t r = (uint64_t)whole(j, 0, 1 << 20);
    for (double x = 0.05; x < 8; x *= 1.15) {
        struct truth with = *t;
        if (!plant(&with, cause, x, r, healthy)) {
            if (cause == YOKEI_CAUSE_PAGING) continue;
            return false;
        }
        struct truth without = with;
        if (cause == YOKEI_CAUSE_OVERLAP)
            without.blocks_passes = without.late_buckets = false, without.n_sums = YOKE_MAX(with.n_sums, 8);
        const double before = cause == YOKEI_CAUSE_OVERLAP ? seconds_without_noise(&without) : healthy;
        const double cost = seconds_without_noise(&with) / before - 1;
        if (cost < wanted) continue;
        *t = with;
        *cost_out = cost;
        return cost < 0.45;
    }
    return false;
}

bool job_make(uint64_t seed, const enum yokei_cause_kind *causes, int n_causes, struct job *j)
{
    struct truth t;
    struct yokei_schedule schedule;
    struct yokei_costs traced;
    *j = (struct job){ .random = seed * 0x9e3779b97f4a7c15u + 0x1234567 };
    for (int i = 0; i < 8; i++) uniform(j, 0, 1);
    draw(j, &t);
    for (int i = 0; i < n_causes; i++)
        if (!plant_until(j, &t, causes[i], &j->cost[i])) return false;
    costs_create(&t, &traced);
    schedule_of(&t, &schedule);
    run(j, &t, &schedule, &traced);
    tell(j, &t, &schedule, &traced);
    return true;
}
