/* SPDX-License-Identifier: Apache-2.0 */
#include "train/diagnose/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"

static yoke_status no_memory(void) { return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for a model"); }

static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(bytes + 1);
    if (to && from) memcpy(to, from, bytes);
    if (to && !from) memset(to, 0, bytes);
    return to;
}

void yokei_step_model_free(struct yokei_step_model *s)
{
    yokei_costs_free(&s->costs);
    yokei_schedule_free(&s->schedule);
    free(s->sum_bytes);
    free(s->hop_bytes);
    free(s->busy);
    memset(s, 0, sizeof *s);
}

static yoke_status copy_schedule(const struct yokei_schedule *from, struct yokei_schedule *to)
{
    *to = (struct yokei_schedule){ from->n_ranks, calloc((size_t)from->n_ranks + 1, sizeof *to->rank) };
    if (!to->rank) return no_memory();
    for (int r = 0; r < from->n_ranks; r++) {
        const struct yokei_actions *a = &from->rank[r];
        to->rank[r] = (struct yokei_actions){ a->n, a->n,
                                              copy_of(a->action, (size_t)a->n * sizeof *a->action) };
        if (!to->rank[r].action) return no_memory();
    }
    return YOKE_OK;
}

static yoke_status copy_costs(const struct yokei_costs *from, int lines, struct yokei_costs *to)
{
    const size_t n = (size_t)lines;
    *to = *from;
    to->chunk = copy_of(from->chunk, n * (size_t)from->n_chunks * sizeof *to->chunk);
    to->hop = copy_of(from->hop, n * sizeof *to->hop);
    to->sum = copy_of(from->sum, n * (size_t)from->n_sums * sizeof *to->sum);
    to->once = copy_of(from->once, n * sizeof *to->once);
    return to->chunk && to->hop && to->sum && to->once ? YOKE_OK : no_memory();
}

yoke_status yokei_step_model_copy(const struct yokei_step_model *from, struct yokei_step_model *out)
{
    const int lines = yokei_step_model_lines(from);
    struct yokei_step_model s = *from;
    s.costs = (struct yokei_costs){ 0 };
    s.schedule = (struct yokei_schedule){ 0, NULL };
    s.sum_bytes = copy_of(from->sum_bytes, (size_t)(lines * from->costs.n_sums) * sizeof(double));
    s.hop_bytes = copy_of(from->hop_bytes, (size_t)lines * sizeof(double));
    s.busy = copy_of(from->busy, (size_t)from->facts->n_ranks * sizeof(double));
    yoke_status status = s.sum_bytes && s.hop_bytes && s.busy ? YOKE_OK : no_memory();
    if (!status) status = copy_costs(&from->costs, lines, &s.costs);
    if (!status) status = copy_schedule(&from->schedule, &s.schedule);
    if (status)
        yokei_step_model_free(&s);
    else
        *out = s;
    return status;
}

double yokei_step_model_passes(const struct yokei_step_model *s, int line)
{
    const struct yokei_actions *list = &s->schedule.rank[line];
    double seconds = 0;
    for (int i = 0; i < list->n; i++) {
        const struct yokei_chunk_costs *c = &s->costs.chunk[line * s->costs.n_chunks + list->action[i].chunk];
        switch (list->action[i].kind) {
        case YOKEI_ACTION_F: seconds += c->F; break;
        case YOKEI_ACTION_B: seconds += c->B; break;
        case YOKEI_ACTION_W: seconds += c->W; break;
        case YOKEI_ACTION_R: seconds += c->R; break;
        default: break;
        }
    }
    return seconds;
}

static void scale(struct yokei_step_model *s, int line, double factor)
{
    for (int c = 0; c < s->costs.n_chunks; c++) {
        struct yokei_chunk_costs *k = &s->costs.chunk[line * s->costs.n_chunks + c];
        k->F *= factor, k->B *= factor, k->W *= factor, k->R *= factor;
    }
    for (int b = 0; b < s->costs.n_sums && s->costs.sum; b++)
        s->costs.sum[line * s->costs.n_sums + b].early *= factor;
}

static double busiest(const struct yokei_step_model *s, const double *busy, int line)
{
    double most = 0;
    for (int r = 0; r < s->facts->n_ranks; r++)
        if (s->facts->rank[r].d * s->facts->pipeline + s->facts->rank[r].s == line && busy[r] > most)
            most = busy[r];
    return most;
}

/* The passes of a line also wait in the collectives of a tensor group. This time stays. */
void yokei_step_model_set_busy(struct yokei_step_model *s, const double *busy)
{
    for (int line = 0; line < yokei_step_model_lines(s); line++) {
        const double passes = yokei_step_model_passes(s, line),
                     change = busiest(s, busy, line) - busiest(s, s->busy, line);
        if (passes > 0) scale(s, line, fmax((passes + change) / passes, 0.01));
    }
    memcpy(s->busy, busy, (size_t)s->facts->n_ranks * sizeof *busy);
}

yoke_status yokei_step_model_seconds(const struct yokei_step_model *s, double *out)
{
    struct yokei_simulated simulated;
    YOKE_TRY(yokei_simulate(&s->schedule, &s->costs, &simulated));
    *out = simulated.total + s->data + s->checkpoint + s->compile + s->rest;
    yokei_simulated_free(&simulated);
    return YOKE_OK;
}

/* ---- schedules ---- */

static int count(const struct yokei_actions *list, enum yokei_action_kind kind)
{
    int n = 0;
    for (int i = 0; i < list->n; i++) n += list->action[i].kind == kind;
    return n;
}

/* The schedule of all replicas: micro-batches of each one [data], and n_buckets of each stage. */
static yoke_status make_schedule(const struct yokei_facts *f, const int *micro_batches, int n_buckets,
                                 bool recomputes, bool tied, struct yokei_schedule *out)
{
    struct yokei_schedule all = { f->data * f->pipeline,
                                  calloc((size_t)(f->data * f->pipeline) + 1, sizeof *all.rank) };
    int *buckets = calloc((size_t)f->pipeline + 1, sizeof *buckets);
    bool *again = calloc((size_t)f->pipeline + 1, sizeof *again);
    yoke_status status = all.rank && buckets && again ? YOKE_OK : no_memory();
    for (int i = 0; i < f->pipeline && !status; i++) buckets[i] = n_buckets, again[i] = recomputes;
    for (int d = 0; d < f->data && !status; d++) {
        struct yokei_schedule one = { 0, NULL };
        const struct yokei_pipeline shape = { .kind = f->kind,
                                              .n_stages = f->pipeline,
                                              .n_chunks = f->chunks,
                                              .n_micro_batches = micro_batches[d],
                                              .n_buckets = n_buckets ? buckets : NULL,
                                              .recompute = recomputes ? again : NULL,
                                              .tied = tied };
        status = yokei_schedule_pipeline(&shape, &one);
        if (status) break;
        memcpy(all.rank + d * f->pipeline, one.rank, (size_t)f->pipeline * sizeof *one.rank);
        free(one.rank);
    }
    free(buckets);
    free(again);
    if (status)
        yokei_schedule_free(&all);
    else
        *out = all;
    return status;
}

static yoke_status replace_schedule(struct yokei_step_model *s, double factor, int n_buckets)
{
    const struct yokei_facts *f = s->facts;
    int *m = calloc((size_t)f->data + 1, sizeof *m), most = 0;
    bool tied = false, recomputes = false;
    struct yokei_schedule made;
    if (!m) return no_memory();
    for (int d = 0; d < f->data; d++) {
        const struct yokei_actions *list = &s->schedule.rank[d * f->pipeline];
        m[d] = (int)YOKE_MAX(lround(factor * count(list, YOKEI_ACTION_F) / f->chunks), 1);
        most = YOKE_MAX(most, m[d]);
        tied = tied || count(list, YOKEI_ACTION_TIED) > 0;
        recomputes = recomputes || count(list, YOKEI_ACTION_R) > 0;
    }
    const yoke_status status = make_schedule(f, m, n_buckets, recomputes, tied, &made);
    free(m);
    if (status) return status;
    yokei_schedule_free(&s->schedule);
    s->schedule = made;
    s->micro_batches = most;
    return YOKE_OK;
}

yoke_status yokei_step_model_micro_batches(struct yokei_step_model *s, double factor)
{
    if (s->facts->has_own_schedule) return yoke_fail(YOKE_ECONFIG, "the schedule is the user's own");
    const int lines = yokei_step_model_lines(s);
    double *before = calloc((size_t)lines + 1, sizeof *before);
    if (!before) return no_memory();
    for (int line = 0; line < lines; line++) before[line] = yokei_step_model_passes(s, line);
    const yoke_status status = replace_schedule(s, factor, s->costs.n_sums);
    for (int line = 0; line < lines && !status; line++) {
        const double now = yokei_step_model_passes(s, line),
                     latency = fmin(s->latency, s->costs.hop[line].bytes);
        if (now > 0) scale(s, line, before[line] / now);
        s->costs.hop[line].bytes = latency + (s->costs.hop[line].bytes - latency) / factor;
        s->hop_bytes[line] /= factor;
    }
    free(before);
    return status;
}

yoke_status yokei_step_model_buckets(struct yokei_step_model *s, int n)
{
    const int lines = yokei_step_model_lines(s), old = s->costs.n_sums;
    struct yokei_sum_costs *sum = calloc((size_t)(lines * n) + 1, sizeof *sum);
    double *bytes = calloc((size_t)(lines * n) + 1, sizeof *bytes);
    yoke_status status = sum && bytes ? replace_schedule(s, 1, n) : no_memory();
    for (int line = 0; line < lines && !status; line++) {
        const struct yokei_chunk_costs *last = &s->costs.chunk[line * s->costs.n_chunks];
        double seconds = 0, all = 0;
        for (int b = 0; b < old; b++) {
            seconds += fmax(s->costs.sum[line * old + b].seconds - s->sum_latency, 0);
            all += s->sum_bytes[line * old + b];
        }
        for (int b = 0; b < n; b++) {
            sum[line * n + b].seconds = seconds / n + s->sum_latency;
            sum[line * n + b].early = (last->B + last->W) * (n - 1 - b) / n;
            bytes[line * n + b] = all / n;
        }
    }
    if (status) {
        free(sum);
        free(bytes);
        return status;
    }
    free(s->costs.sum);
    free(s->sum_bytes);
    s->costs.sum = sum;
    s->sum_bytes = bytes;
    s->costs.n_sums = n;
    return YOKE_OK;
}

/* ---- the state of a run ---- */

/* Without a timeline the passes come from the rows, and the network's exposed time counts before AGREE. */
static yoke_status costs_of_rows(struct yokei_step_model *s)
{
    const struct yokei_facts *f = s->facts;
    const int lines = yokei_step_model_lines(s);
    int *m = calloc((size_t)f->data + 1, sizeof *m);
    struct yokei_costs *c = &s->costs;
    if (!m) return no_memory();
    for (int d = 0; d < f->data; d++) {
        const int64_t samples = f->shares ? f->shares[d] : f->samples;
        m[d] = f->micro_batch > 0 ? (int)YOKE_MAX((samples + f->micro_batch - 1) / f->micro_batch, 1) : 1;
    }
    yoke_status status = make_schedule(f, m, 0, false, false, &s->schedule);
    free(m);
    YOKE_TRY(status);
    *c = (struct yokei_costs){ .n_stages = f->pipeline,
                               .n_chunks = f->chunks,
                               .n_replicas = f->data,
                               .receiver_takes = true,
                               .chunk = calloc((size_t)(lines * f->chunks) + 1, sizeof *c->chunk),
                               .hop = calloc((size_t)lines + 1, sizeof *c->hop),
                               .sum = calloc(1, sizeof *c->sum),
                               .once = calloc((size_t)lines + 1, sizeof *c->once) };
    if (!c->chunk || !c->hop || !c->sum || !c->once) return no_memory();
    for (int line = 0; line < lines; line++)
        for (int k = 0; k < f->chunks; k++) {
            const double each = busiest(s, s->busy, line)
                                / (3.0 * count(&s->schedule.rank[line], YOKEI_ACTION_F));
            c->chunk[line * f->chunks + k] = (struct yokei_chunk_costs){ each, each, each, 0, 0, 0, 0 };
        }
    return YOKE_OK;
}

/*
 * Seconds of a sum of no bytes: where the line through the small and the large sums meets 0 bytes. A sum may
 * take longer than the agreement, because a thread of its own runs it. If all sums are of similar size, it is
 * the smallest exchange.
 */
static yoke_status find_sum_latency(struct yokei_step_model *s)
{
    const int n = yokei_step_model_lines(s) * s->costs.n_sums;
    double *bytes = malloc((size_t)n * sizeof *bytes + 1);
    double small[2] = { 0, 0 }, large[2] = { 0, 0 };
    int n_small = 0, n_large = 0, n_all = 0;
    if (!bytes) return no_memory();
    s->sum_latency = s->latency;
    for (int i = 0; i < n; i++)
        if (s->costs.sum[i].seconds > 0) bytes[n_all++] = s->sum_bytes[i];
    yokei_sort(bytes, n_all);
    const double least = n_all ? bytes[n_all / 4] : 0, most = n_all ? bytes[n_all - 1 - n_all / 8] : 0;
    for (int i = 0; i < n; i++) {
        const double x = s->sum_bytes[i], y = s->costs.sum[i].seconds;
        if (y > 0 && x <= least) small[0] += x, small[1] += y, n_small++;
        if (y > 0 && x >= most) large[0] += x, large[1] += y, n_large++;
    }
    free(bytes);
    if (s->facts->knows_latency || !n_small || !n_large || !(most > 0) || most < 4 * least) return YOKE_OK;
    small[0] /= n_small, small[1] /= n_small, large[0] /= n_large, large[1] /= n_large;
    const double slope = fmax((large[1] - small[1]) / (large[0] - small[0]), 0);
    s->sum_latency = fmax(small[1] - slope * small[0], s->latency);
    return YOKE_OK;
}

static double most_of(const struct yokei_facts *f, enum yokei_step_part part)
{
    double most = 0;
    for (int r = 0; r < f->n_ranks; r++) most = fmax(most, f->rank[r].parts[part]);
    return most;
}

static yoke_status fill(struct yokei_step_model *s)
{
    const struct yokei_facts *f = s->facts;
    const int lines = yokei_step_model_lines(s);
    double modelled;
    for (int r = 0; r < f->n_ranks; r++) s->busy[r] = yokei_facts_known(f->rank[r].busy);
    if (!f->costs) {
        YOKE_TRY(costs_of_rows(s));
    } else {
        YOKE_TRY(copy_costs(f->costs, lines, &s->costs));
        YOKE_TRY(copy_schedule(f->schedule, &s->schedule));
        /*
         * The traced steps are few. The rows say how long passes take on average. Passes of ranks that share
         * tensors include their collectives, so there they are at least as long as the rows say.
         */
        for (int line = 0; line < lines; line++) {
            const double passes = yokei_step_model_passes(s, line), busy = busiest(s, s->busy, line);
            if (passes > 0 && busy > 0 && (f->tensor == 1 || busy > passes)) scale(s, line, busy / passes);
        }
    }
    s->has_sums = f->costs != NULL;
    s->sum_bytes = copy_of(f->sum_bytes, (size_t)(lines * s->costs.n_sums) * sizeof(double));
    s->hop_bytes = copy_of(f->hop_bytes, (size_t)lines * sizeof(double));
    if (!s->sum_bytes || !s->hop_bytes) return no_memory();
    s->latency = f->costs ? yokei_facts_known(s->costs.agree) : 0;
    for (int i = 0; i < lines * s->costs.n_sums; i++)
        if (s->costs.sum[i].seconds > 0 && !(f->costs && f->knows_latency))
            s->latency = fmin(s->latency, s->costs.sum[i].seconds);
    YOKE_TRY(find_sum_latency(s));
    for (int line = 0; line < lines; line++)
        s->micro_batches = YOKE_MAX(s->micro_batches,
                                    count(&s->schedule.rank[line], YOKEI_ACTION_F) / f->chunks);
    s->data = most_of(f, YOKEI_STEP_DATA);
    s->checkpoint = most_of(f, YOKEI_STEP_CHECKPOINT);
    s->compile = f->n_rows ? (f->compile_all + f->compile_before) / (double)f->n_rows : 0;
    YOKE_TRY(yokei_step_model_seconds(s, &modelled));
    s->rest = fmax(f->step + s->compile - modelled, 0);
    return YOKE_OK;
}

yoke_status yokei_step_model_create(const struct yokei_facts *f, struct yokei_step_model *out)
{
    struct yokei_step_model s = { .facts = f, .busy = calloc((size_t)f->n_ranks + 1, sizeof *s.busy) };
    const yoke_status status = s.busy ? fill(&s) : no_memory();
    if (status)
        yokei_step_model_free(&s);
    else
        *out = s;
    return status;
}
