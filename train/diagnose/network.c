/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that lie between ranks: links, buckets, messages, overlap, and the bubble. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/diagnose/remedies.h"

#define DEFAULT_BUCKET (25.0 * 1024 * 1024)

/* ---- what links do ---- */

static const struct yokei_facts_rank *rank_at(const struct yokei_facts *f, int d, int s)
{
    for (int r = 0; r < f->n_ranks; r++)
        if (f->rank[r].d == d && f->rank[r].s == s && f->rank[r].t == 0) return &f->rank[r];
    return NULL;
}

static bool cross(const struct yokei_facts_rank *a, const struct yokei_facts_rank *b)
{
    return a && b && strcmp(a->host, b->host) != 0;
}

/* Whether the ranks of stage s are on several hosts. */
static bool sums_cross(const struct yokei_facts *f, int s)
{
    const struct yokei_facts_rank *first = rank_at(f, 0, s);
    for (int d = 1; d < f->data; d++)
        if (cross(first, rank_at(f, d, s))) return true;
    return false;
}

static double rate_of(double bytes, double seconds, double latency)
{
    const double apart = seconds - fmin(latency, 0.95 * seconds);
    return apart > 0 ? (bytes > 0 ? bytes : 1) / apart : 0;
}

/* A link of the pipeline, or the links of the sums of a stage. */
struct link {
    bool is_sum, crosses;
    int at; /* line, or stage */
    double bytes, seconds, latency, rate, peers;
};

static int find_links(const struct yokei_step_model *s, struct link *links)
{
    const struct yokei_facts *f = s->facts;
    const struct yokei_costs *c = &s->costs;
    int n = 0;
    for (int line = 0; line < yokei_step_model_lines(s); line++) {
        const int d = line / f->pipeline, stage = line % f->pipeline;
        if (f->pipeline < 2 || c->hop[line].bytes <= 0 || (stage == f->pipeline - 1 && f->chunks < 2))
            continue;
        links[n++] = (struct link){ .crosses = cross(rank_at(f, d, stage),
                                                     rank_at(f, d, (stage + 1) % f->pipeline)),
                                    .at = line,
                                    .bytes = s->hop_bytes[line],
                                    .seconds = c->hop[line].bytes,
                                    .latency = s->latency };
    }
    for (int stage = 0; stage < f->pipeline && f->data > 1; stage++) {
        struct link l = { .is_sum = true, .crosses = sums_cross(f, stage), .at = stage };
        for (int b = 0; b < c->n_sums; b++)
            if (c->sum[stage * c->n_sums + b].seconds > 0) {
                l.seconds += c->sum[stage * c->n_sums + b].seconds;
                l.bytes += s->sum_bytes[stage * c->n_sums + b];
                l.latency += s->sum_latency;
            }
        if (l.seconds > 0) links[n++] = l;
    }
    return n;
}

/* The rate of a link's peers: a high quantile of the links of the same kind. 0: it has no peer. */
static void find_peers(struct link *links, int n, double *room)
{
    for (int i = 0; i < n; i++) links[i].rate = rate_of(links[i].bytes, links[i].seconds, links[i].latency);
    for (int i = 0; i < n; i++) {
        int m = 0;
        for (int k = 0; k < n; k++)
            if (links[k].is_sum == links[i].is_sum && links[k].crosses == links[i].crosses)
                room[m++] = links[k].rate;
        yokei_sort(room, m);
        links[i].peers = m > 1 ? room[m - 1 - (m - 1) / 4] : 0;
    }
}

/* Give the link another rate. */
static void set_rate(struct yokei_step_model *s, const struct link *l, double rate)
{
    const double ratio = fmin(l->rate / rate, 1);
    struct yokei_costs *c = &s->costs;
    if (!l->is_sum) {
        const double latency = fmin(s->latency, 0.5 * c->hop[l->at].bytes);
        c->hop[l->at].bytes = latency + (c->hop[l->at].bytes - latency) * ratio;
    }
    for (int d = 0; d < s->facts->data && l->is_sum; d++)
        for (int b = 0; b < c->n_sums; b++) {
            struct yokei_sum_costs *sum = &c->sum[(d * s->facts->pipeline + l->at) * c->n_sums + b];
            const double latency = fmin(s->sum_latency, 0.95 * sum->seconds);
            sum->seconds = latency + (sum->seconds - latency) * ratio;
        }
}

static void describe_link(const struct yokei_step_model *s, const struct link *l, struct yokei_cause *c)
{
    const struct yokei_facts *f = s->facts;
    const int d = l->is_sum ? 0 : l->at / f->pipeline, stage = l->is_sum ? l->at : l->at % f->pipeline;
    const struct yokei_facts_rank *a = rank_at(f, d, stage),
                                  *b = l->is_sum ? rank_at(f, 1, stage)
                                                 : rank_at(f, d, (stage + 1) % f->pipeline);
    char peers[120] = "no other link of its kind is there to compare with";
    c->rank = a ? (int)(a - f->rank) : -1;
    c->other = b && (!l->is_sum || f->data == 2) ? (int)(b - f->rank) : -1;
    if (l->peers > 0)
        yokei_text(peers, sizeof peers, "its peers carry %.3g times as much", l->peers / l->rate);
    if (l->is_sum)
        yokei_text(c->evidence, sizeof c->evidence,
                   "the sums of the ranks of stage %d take %.4g ms a step for %.3g MB, %.3g MB/s; %s", stage,
                   1e3 * l->seconds, 1e-6 * l->bytes, 1e-6 * l->bytes / l->seconds, peers);
    else
        yokei_text(c->evidence, sizeof c->evidence,
                   "a message of %.3g MB from rank %d to rank %d takes %.4g ms, %.3g MB/s; %s",
                   1e-6 * l->bytes, c->rank, c->other, 1e3 * l->seconds, 1e-6 * l->bytes / l->seconds, peers);
    yokei_text(c->remedy, sizeof c->remedy,
               "look at this link's cable, port and rate (yoke bench collectives); %s",
               l->peers > 0 ? "the gain is that of its peers' rate"
                            : "the gain is that of twice the rate; fewer bytes help too (--precision bf16, "
                              "more work per step)");
}

/*
 * Links that are slower than their peers. `lonely`: those without a peer, at twice their rate. Inside a host
 * there is no link to mend.
 */
static yoke_status slow_links(struct yokei_step_model *s, struct yokei_cause *c, bool lonely, bool *applies)
{
    const int most = yokei_step_model_lines(s) + s->facts->pipeline;
    struct link *links = calloc((size_t)most + 1, sizeof *links);
    double *room = calloc((size_t)most + 1, sizeof *room), worst = 0;
    const bool ok = links && room;
    int chosen = -1;
    const int n = ok && s->has_sums ? find_links(s, links) : 0;
    if (n) find_peers(links, n, room);
    for (int i = 0; i < n; i++) {
        const double wanted = lonely ? 2 * links[i].rate : links[i].peers;
        if (lonely ? links[i].peers > 0 || !(links[i].crosses || !s->facts->rank[0].host[0])
                   : !(wanted > 1.35 * links[i].rate))
            continue;
        if (lonely && s->facts->least_rate > 0
            && !(links[i].bytes > 0 && links[i].rate < s->facts->least_rate))
            continue;
        const double excess = links[i].seconds * (wanted / links[i].rate - 1);
        if (excess > worst) worst = excess, chosen = i;
        set_rate(s, &links[i], wanted);
    }
    if (chosen >= 0) describe_link(s, &links[chosen], c);
    *applies = chosen >= 0;
    free(links);
    free(room);
    return ok ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "diagnose: no memory for links");
}

static yoke_status slow_link(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                             bool *applies)
{
    (void)e;
    return slow_links(s, c, false, applies);
}

static yoke_status lonely_link(const struct yokei_excess *e, struct yokei_step_model *s,
                               struct yokei_cause *c, bool *applies)
{
    (void)e;
    return slow_links(s, c, true, applies);
}

/* ---- buckets ---- */

/* The bytes of the gradients of the line that sums most. */
static double bytes_of_sums(const struct yokei_step_model *s)
{
    double most = 0;
    for (int line = 0; line < yokei_step_model_lines(s); line++) {
        double bytes = 0;
        for (int b = 0; b < s->costs.n_sums; b++) bytes += s->sum_bytes[line * s->costs.n_sums + b];
        most = fmax(most, bytes);
    }
    return most;
}

static double seconds_of_sums(const struct yokei_step_model *s)
{
    double most = 0;
    for (int line = 0; line < yokei_step_model_lines(s); line++) {
        double seconds = 0;
        for (int b = 0; b < s->costs.n_sums; b++) seconds += s->costs.sum[line * s->costs.n_sums + b].seconds;
        most = fmax(most, seconds);
    }
    return most;
}

static void set_bucket(struct yokei_cause *c, int n, double bytes)
{
    c->change = YOKEI_CHANGE_BUCKET_BYTES;
    c->value = fmax(ceil(bytes / n), 1);
}

/* Each sum beside passes takes their core for a moment. So fewer sums also make the passes shorter. */
static yoke_status disturb_less(const struct yokei_excess *e, struct yokei_step_model *s, double factor)
{
    double *busy = calloc((size_t)s->facts->n_ranks + 1, sizeof *busy);
    if (!busy) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for buckets");
    for (int r = 0; r < s->facts->n_ranks; r++) busy[r] = s->busy[r] - e[r].beside * (1 - factor);
    yokei_step_model_set_busy(s, busy);
    free(busy);
    return YOKE_OK;
}

/* Fewer buckets: an eighth of them, and at least as many as buckets of the default size. */
static yoke_status merge(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                         int divisor, bool *applies)
{
    const int old = s->costs.n_sums;
    const double bytes = bytes_of_sums(s), seconds = seconds_of_sums(s);
    const int n = (int)fmax(fmax(ceil(bytes / DEFAULT_BUCKET), old / divisor), 1);
    if (!s->has_sums || s->facts->data < 2 || n >= old || s->facts->has_own_schedule) return YOKE_OK;
    YOKE_TRY(yokei_step_model_buckets(s, n));
    YOKE_TRY(disturb_less(e, s, (double)n / old));
    *applies = true;
    c->rank = -1;
    set_bucket(c, n, bytes);
    yokei_text(c->evidence, sizeof c->evidence,
               "%d sums of %.3g MB take %.4g ms a step; each of them takes at least %.3g ms, as the smallest "
               "one does",
               old, 1e-6 * bytes / old, 1e3 * seconds, 1e3 * s->sum_latency);
    yokei_text(c->remedy, sizeof c->remedy, "sum %d buckets: --bucket-bytes %.0f", n, c->value);
    return YOKE_OK;
}

static yoke_status merge_some(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                              bool *applies)
{
    return merge(e, s, c, 8, applies);
}
static yoke_status merge_all(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                             bool *applies)
{
    return merge(e, s, c, 1 << 20, applies);
}

/* ---- overlap ---- */

static yoke_status overlap(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                           bool *applies)
{
    (void)e;
    if (!s->has_sums || s->facts->data < 2 || !s->costs.n_sums || !s->costs.sums_block
        || s->facts->cannot_overlap)
        return YOKE_OK;
    s->costs.sums_block = false;
    *applies = true;
    c->rank = -1;
    c->change = YOKEI_CHANGE_OVERLAP;
    yokei_text(c->evidence, sizeof c->evidence,
               "the sums of gradients take %.4g ms a step, and no pass runs beside them",
               1e3 * seconds_of_sums(s));
    yokei_text(c->remedy, sizeof c->remedy, "let the passes go on during the sums: --overlap on");
    return YOKE_OK;
}

/* One large bucket is complete only at the end of the backward pass. */
static yoke_status overlap_pieces(const struct yokei_excess *e, struct yokei_step_model *s,
                                  struct yokei_cause *c, bool *applies)
{
    enum { PIECES = 8 };
    const int old = s->costs.n_sums;
    const double seconds = seconds_of_sums(s), bytes = bytes_of_sums(s);
    (void)e;
    if (!s->has_sums || s->facts->data < 2 || !old || old >= PIECES || s->facts->cannot_overlap
        || s->facts->has_own_schedule)
        return YOKE_OK;
    const bool blocked = s->costs.sums_block;
    YOKE_TRY(yokei_step_model_buckets(s, PIECES));
    s->costs.sums_block = false;
    *applies = true;
    c->rank = -1;
    set_bucket(c, PIECES, bytes);
    if (blocked) c->change = YOKEI_CHANGE_OVERLAP;
    yokei_text(c->evidence, sizeof c->evidence, "%d sum%s of gradients take%s %.4g ms a step, and %s", old,
               old == 1 ? "" : "s", old == 1 ? "s" : "", 1e3 * seconds,
               blocked ? "no pass runs beside them" : "they begin when little of the backward pass is left");
    yokei_text(c->remedy, sizeof c->remedy,
               "sum smaller buckets, of which the first are complete early: %s--bucket-bytes %.0f",
               blocked ? "--overlap on " : "", c->value);
    return YOKE_OK;
}

/* ---- micro-batches ---- */

static yoke_status micro_batches(struct yokei_step_model *s, struct yokei_cause *c, double factor,
                                 bool *applies)
{
    const struct yokei_facts *f = s->facts;
    const int old = s->micro_batches;
    const double sequences = (double)f->micro_batch / factor;
    if (f->pipeline < 2 || f->has_own_schedule || old < 1) return YOKE_OK;
    if (f->micro_batch > 0 && (sequences < 1 || sequences != floor(sequences))) return YOKE_OK;
    if (factor < 1 && old * factor < 1) return YOKE_OK;
    const yoke_status status = yokei_step_model_micro_batches(s, factor);
    if (status == YOKE_ECONFIG) return YOKE_OK;
    YOKE_TRY(status);
    *applies = true;
    c->rank = -1;
    c->change = f->micro_batch > 0 ? YOKEI_CHANGE_MICRO_BATCH : YOKEI_CHANGE_NONE;
    c->value = sequences;
    if (factor > 1)
        yokei_text(
            c->evidence, sizeof c->evidence,
            "%d micro-batches pass %d stages, so the stages are idle for %.4g ms of a step in the mean", old,
            f->pipeline, 1e3 * yokei_facts_mean(f, YOKEI_STEP_BUBBLE));
    else
        yokei_text(c->evidence, sizeof c->evidence,
                   "messages of %d micro-batches take about as long as the smallest exchange, %.3g ms", old,
                   1e3 * s->latency);
    yokei_text(c->remedy, sizeof c->remedy, "divide the batch into %d micro-batches: --micro-batch %.0f",
               s->micro_batches, sequences);
    return YOKE_OK;
}

static yoke_status twice(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                         bool *applies)
{
    (void)e;
    return micro_batches(s, c, 2, applies);
}
static yoke_status fourfold(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                            bool *applies)
{
    (void)e;
    return micro_batches(s, c, 4, applies);
}
static yoke_status half(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                        bool *applies)
{
    (void)e;
    return s->has_sums ? micro_batches(s, c, 0.5, applies) : YOKE_OK;
}

/*
 * Smaller passes are less efficient, and this is not modelled. So more micro-batches must gain more than four
 * for each stage, the default, would.
 */
const struct yokei_remedy_row yokei_network_remedies[] = {
    { YOKEI_CAUSE_SLOW_LINK, 0.9, 0, slow_link },       { YOKEI_CAUSE_SLOW_LINK, 0.4, 0.1, lonely_link },
    { YOKEI_CAUSE_SMALL_BUCKETS, 0.8, 0, merge_some },  { YOKEI_CAUSE_SMALL_BUCKETS, 0.8, 0, merge_all },
    { YOKEI_CAUSE_SMALL_BUCKETS, 0.6, 0, half },        { YOKEI_CAUSE_OVERLAP, 0.9, 0, overlap },
    { YOKEI_CAUSE_OVERLAP, 0.7, 0, overlap_pieces },    { YOKEI_CAUSE_MICRO_BATCHES, 0.8, 0.1, twice },
    { YOKEI_CAUSE_MICRO_BATCHES, 0.8, 0.16, fourfold }, { YOKEI_N_CAUSES, 0, 0, NULL },
};
