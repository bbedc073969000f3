/* SPDX-License-Identifier: Apache-2.0 */
/* Causes that lie in ranks: their devices, cores, memory, data and shares. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/diagnose/remedies.h"

/* ---- why a rank is slow ---- */

/*
 * Seconds that a major fault can take: the least of a fast disk, and the most of a slow one with a queue.
 * If the steps do not show the time of a fault, a fault may take as long as on a slow disk.
 */
static const double LEAST_FAULT = 1e-5, MOST_FAULT = 0.1, SLOW_DISK = 0.02;
/*
 * By how much a rank must be slower than its peers. Layers of other stages are more or less efficient. So a
 * rank must differ by more from ranks of other stages.
 */
static const double SLOWER = 0.05, SLOWER_THAN_OTHER_STAGES = 0.12;

/*
 * A program that computes keeps a core for a slice of the scheduler, which is milliseconds. A thread that
 * sums wakes up often, and works for a much shorter time.
 */
static const double SHORT_WAIT = 2e-4;

/* Ranks of one device kind and place do the same work. If they are too few, other stages are looked at. */
static bool are_alike(const struct yokei_facts_rank *a, const struct yokei_facts_rank *b, bool any_stage)
{
    return !strcmp(a->device, b->device) && (any_stage || (a->s == b->s && a->t == b->t));
}

/* The seconds for a unit of work of the peers of rank r: a low quantile, because slow ranks are above it. */
static double rate_of_peers(const struct yokei_facts *f, const double *clean, int r, double *room,
                            bool *any_stage_out)
{
    for (int wide = 0; wide <= !f->no_stage_peers; wide++) {
        int n = 0;
        for (int q = 0; q < f->n_ranks; q++) {
            if (wide && (!isfinite(f->rank[q].work) || !isfinite(f->rank[r].work))) continue;
            if (are_alike(&f->rank[q], &f->rank[r], wide) && clean[q] > 0)
                room[n++] = clean[q] / (isfinite(f->rank[q].work) ? f->rank[q].work : 1);
        }
        if (n < 2) continue;
        yokei_sort(room, n);
        *any_stage_out = wide;
        return room[(n - 1) / 4];
    }
    return NAN;
}

static bool is_full(const struct yokei_facts *f, int r)
{
    int threads = 0;
    for (int q = 0; q < f->n_ranks; q++)
        if (!strcmp(f->rank[q].host, f->rank[r].host)) threads += YOKE_MAX(f->rank[q].threads, 1);
    return f->rank[r].cores > 0 && threads > f->rank[r].cores;
}

/* The seconds of the major faults, if the steps show what each of them takes. */
static double paging_of(const struct yokei_facts_rank *k)
{
    const double each = k->fault_seconds;
    if (!(k->faults >= 1) || !(each > LEAST_FAULT) || !(each < MOST_FAULT)) return 0;
    return fmin(each * k->faults, 0.9 * k->busy);
}

static void explain_rank(const struct yokei_facts *f, const double *clean, int r, double *room,
                         struct yokei_excess *e)
{
    const struct yokei_facts_rank *k = &f->rank[r];
    const double work = isfinite(k->work) ? k->work : 1;
    bool any_stage = false;
    const double rate = rate_of_peers(f, clean, r, room, &any_stage);
    const double least = (any_stage ? SLOWER_THAN_OTHER_STAGES : SLOWER) * rate * work;
    double excess = clean[r] - rate * work;
    e->ratio = rate > 0 ? clean[r] / (rate * work) : NAN;
    if (!(excess > least)) return;
    const double more = fmin(excess, fmax(yokei_facts_known(k->queued) - e->queued - e->beside, 0));
    if (more > 0.5 * excess) *(e->beside > 0 ? &e->beside : &e->queued) += more, excess -= more;
    if (k->faults >= 1 && k->faults * SLOW_DISK >= 0.5 * excess) e->paging += excess, excess = 0;
    e->slow = excess > least ? excess : 0;
}

/* Whether a rank waits for a core because of its own sums. */
static bool sums_take_its_core(const struct yokei_facts *f, const struct yokei_facts_rank *k)
{
    return f->costs && f->data > 1 && f->costs->n_sums && !f->costs->sums_block && !strcmp(k->device, "host")
           && k->queued < SHORT_WAIT * k->preemptions;
}

yoke_status yokei_explain_ranks(const struct yokei_facts *f, struct yokei_excess *out)
{
    double *clean = calloc((size_t)f->n_ranks + 1, sizeof *clean),
           *room = calloc((size_t)f->n_ranks + 1, sizeof *room);
    for (int r = 0; r < f->n_ranks && clean && room; r++) {
        const struct yokei_facts_rank *k = &f->rank[r];
        const double busy = yokei_facts_known(k->busy);
        out[r] = (struct yokei_excess){ .on_full_host = is_full(f, r), .ratio = NAN };
        out[r].queued = f->step > 0 ? fmin(yokei_facts_known(k->queued) * busy / f->step, 0.9 * busy) : 0;
        if (sums_take_its_core(f, k)) out[r].beside = out[r].queued, out[r].queued = 0;
        out[r].compile = fmin(yokei_facts_known(k->compile), 0.9 * busy);
        out[r].paging = paging_of(k);
        clean[r] = fmax(busy - out[r].queued - out[r].beside - out[r].compile - out[r].paging, 0.05 * busy);
    }
    for (int r = 0; r < f->n_ranks && clean && room; r++) explain_rank(f, clean, r, room, &out[r]);
    const bool ok = clean && room;
    free(clean);
    free(room);
    return ok ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %d ranks", f->n_ranks);
}

/* ---- taking away what makes ranks slow ---- */

enum part { QUEUED_FULL, QUEUED_ALONE, PAGING, COMPILE, SLOW };

static double part_of(const struct yokei_excess *e, enum part part)
{
    switch (part) {
    case QUEUED_FULL: return e->on_full_host ? e->queued : 0;
    case QUEUED_ALONE: return e->on_full_host ? 0 : e->queued;
    case PAGING: return e->paging;
    case COMPILE: return e->compile;
    default: return e->slow;
    }
}

/* Take the part away from all ranks. The rank with most of it; -1: no rank has it. */
static int without(const struct yokei_excess *e, struct yokei_step_model *s, enum part part, int *n_out)
{
    double *busy = calloc((size_t)s->facts->n_ranks + 1, sizeof *busy);
    int most = -1;
    *n_out = 0;
    if (!busy) return -1;
    for (int r = 0; r < s->facts->n_ranks; r++) {
        const double own = part_of(&e[r], part);
        busy[r] = fmax(s->busy[r] - own, 0.02 * s->busy[r]);
        *n_out += own > 0.02 * s->busy[r];
        if (own > 0 && (most < 0 || own > part_of(&e[most], part))) most = r;
    }
    if (most >= 0) yokei_step_model_set_busy(s, busy);
    free(busy);
    return most;
}

static void name_rank(struct yokei_cause *c, int rank, int n)
{
    c->rank = n == 1 ? rank : -1;
    c->change = YOKEI_CHANGE_NONE;
}

static yoke_status slow_device(const struct yokei_excess *e, struct yokei_step_model *s,
                               struct yokei_cause *c, bool *applies)
{
    int n;
    const int r = without(e, s, SLOW, &n);
    if (r < 0) return YOKE_OK;
    *applies = true;
    name_rank(c, r, 1);
    yokei_text(
        c->evidence, sizeof c->evidence,
        "rank %d (%s) needs %.2f times as long as its peers for the same work, %.4g ms of passes; no core, "
        "disk or compilation explains it%s",
        r, s->facts->rank[r].device, e[r].ratio, 1e3 * s->facts->rank[r].busy,
        n > 1 ? "; other ranks are slow too" : "");
    yokei_text(
        c->remedy, sizeof c->remedy,
        "look at the clock, the temperature and the power limit of this device (yoke bench kernels), or "
        "replace it; until then deal it less work with --shares");
    return YOKE_OK;
}

/*
 * What fewer ranks or threads on the host of rank r gain. Its cores still do the passes of all ranks, in the
 * same time at best. Beside its passes each rank does the same work, such as the update of its weights. This
 * work is then done once for each core.
 */
static double gain_of_fewer(const struct yokei_excess *e, const struct yokei_step_model *s, int r)
{
    const struct yokei_facts *f = s->facts;
    const struct yokei_facts_rank *k = &f->rank[r];
    double passes = 0, repeated = 0;
    for (int q = 0; q < f->n_ranks; q++) {
        const struct yokei_facts_rank *a = &f->rank[q];
        if (strcmp(a->host, k->host) != 0) continue;
        const double own = fmin(YOKE_MAX(a->threads, 1) * fmax(s->busy[q] - e[q].queued, 0), a->processor);
        passes += own;
        repeated = fmax(repeated, a->processor - own);
    }
    const double beside = f->step - s->busy[r] - s->data - s->checkpoint,
                 in_passes = fmax(s->busy[r] - passes / k->cores, 0),
                 outside = fmin(beside - repeated, yokei_facts_known(k->queued) - e[r].queued);
    return in_passes + fmax(outside, 0);
}

static yoke_status oversubscribed(const struct yokei_excess *e, struct yokei_step_model *s,
                                  struct yokei_cause *c, bool *applies)
{
    int n, threads = 0, ranks = 0;
    struct yokei_step_model before;
    YOKE_TRY(yokei_step_model_copy(s, &before));
    const int r = without(e, s, QUEUED_FULL, &n);
    const double gain = r < 0 ? 0 : gain_of_fewer(e, &before, r);
    yokei_step_model_free(&before);
    if (r < 0) return YOKE_OK;
    const struct yokei_facts_rank *k = &s->facts->rank[r];
    c->gain = gain;
    for (int q = 0; q < s->facts->n_ranks; q++)
        if (!strcmp(s->facts->rank[q].host, k->host))
            threads += YOKE_MAX(s->facts->rank[q].threads, 1), ranks++;
    *applies = true;
    name_rank(c, r, 0);
    yokei_text(
        c->evidence, sizeof c->evidence,
        "host %s has %d hardware threads for %d threads of %d ranks; rank %d was ready without a core for "
        "%.4g ms of a step",
        *k->host ? k->host : "?", k->cores, threads, ranks, r, 1e3 * k->queued);
    if (ranks < k->cores || (ranks == k->cores && k->threads > 1)) {
        c->change = YOKEI_CHANGE_THREADS;
        c->value = YOKE_MAX(k->cores / ranks, 1);
        yokei_text(c->remedy, sizeof c->remedy, "let each rank compute with %.0f threads (OMP_NUM_THREADS)",
                   c->value);
    } else {
        yokei_text(
            c->remedy, sizeof c->remedy,
            "start at most %d ranks on this host; the number of ranks is an option of yoke run (-n), so "
            "--apply cannot change it",
            k->cores);
    }
    return YOKE_OK;
}

static yoke_status neighbour(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                             bool *applies)
{
    int n;
    const int r = without(e, s, QUEUED_ALONE, &n);
    if (r < 0) return YOKE_OK;
    const struct yokei_facts_rank *k = &s->facts->rank[r];
    *applies = true;
    name_rank(c, r, 1);
    yokei_text(
        c->evidence, sizeof c->evidence,
        "rank %d was ready without a core for %.4g ms of a step, and left its core %.3g times for another "
        "process, although its host has enough cores for the ranks",
        r, 1e3 * k->queued, yokei_facts_known(k->preemptions));
    yokei_text(c->remedy, sizeof c->remedy,
               "another process uses the cores of host %s; end it, or give it other cores (taskset, cgroups)",
               *k->host ? k->host : "of this rank");
    return YOKE_OK;
}

/* Faults outside of passes cost time, too. The model has no place for it but the rest. */
static yoke_status paging(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                          bool *applies)
{
    const struct yokei_facts *f = s->facts;
    const double paged = yokei_facts_known(f->paged);
    double before, after;
    int n, most = 0;
    YOKE_TRY(yokei_step_model_seconds(s, &before));
    const int r = without(e, s, PAGING, &n);
    if (r < 0 && paged <= 0) return YOKE_OK;
    YOKE_TRY(yokei_step_model_seconds(s, &after));
    s->rest -= fmax(after - (before - paged), 0);
    for (int q = 1; q < f->n_ranks; q++)
        if (f->rank[q].faults > f->rank[most].faults) most = q;
    *applies = true;
    name_rank(c, r < 0 ? most : r, r < 0 || n < 2);
    yokei_text(
        c->evidence, sizeof c->evidence,
        "rank %d read %.3g pages a step from a disk or a swap area; the faults of all ranks took %.4g ms "
        "of a step, %.4g ms of them in its passes",
        r < 0 ? most : r, f->rank[r < 0 ? most : r].faults, 1e3 * fmax(paged, r < 0 ? 0 : e[r].paging),
        r < 0 ? 0 : 1e3 * e[r].paging);
    yokei_text(
        c->remedy, sizeof c->remedy,
        "the host has too little memory for this rank; --zero 1, --recompute or a smaller --micro-batch "
        "need less, and yoke plan says how much");
    return YOKE_OK;
}

static yoke_status compilation(const struct yokei_excess *e, struct yokei_step_model *s,
                               struct yokei_cause *c, bool *applies)
{
    int n;
    const double apart = s->compile;
    const int r = without(e, s, COMPILE, &n);
    if (r < 0 && apart <= 0) return YOKE_OK;
    s->compile = 0;
    *applies = true;
    name_rank(c, r, r >= 0);
    yokei_text(
        c->evidence, sizeof c->evidence,
        "programs for devices were compiled for %.4g s before the first step and %.4g s in steps; that is "
        "%.4g ms for each of the %" PRId64 " steps",
        s->facts->compile_before, s->facts->compile_all, 1e3 * apart, s->facts->n_rows);
    yokei_text(
        c->remedy, sizeof c->remedy,
        "compile before the run (yoke compile), and keep the programs: let YOKE_CACHE_DIR name a folder "
        "that stays; this is a variable, so --apply cannot change it");
    return YOKE_OK;
}

/* ---- data and checkpoints ---- */

static int rank_with_most(const struct yokei_facts *f, enum yokei_step_part part)
{
    int most = 0;
    for (int r = 1; r < f->n_ranks; r++)
        if (f->rank[r].parts[part] > f->rank[most].parts[part]) most = r;
    return most;
}

static yoke_status late_data(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                             bool *applies)
{
    (void)e;
    const int r = rank_with_most(s->facts, YOKEI_STEP_DATA);
    if (s->data <= 0) return YOKE_OK;
    *applies = true;
    name_rank(c, r, 1);
    yokei_text(c->evidence, sizeof c->evidence, "rank %d reads its tokens for %.4g ms before each step", r,
               1e3 * s->data);
    yokei_text(
        c->remedy, sizeof c->remedy,
        "put the file of the tokens onto a local disk, or into the page cache (cat FILE >/dev/null); convert "
        "text once with yoke tokenize");
    s->data = 0;
    return YOKE_OK;
}

static yoke_status checkpoints(const struct yokei_excess *e, struct yokei_step_model *s,
                               struct yokei_cause *c, bool *applies)
{
    (void)e;
    const struct yokei_facts *f = s->facts;
    if (s->checkpoint <= 0) return YOKE_OK;
    *applies = true;
    name_rank(c, rank_with_most(f, YOKEI_STEP_CHECKPOINT), 0);
    c->change = YOKEI_CHANGE_SAVE_EVERY;
    c->value = fmin(fmax(ceil(s->checkpoint / (0.01 * f->step)), 2), 10000);
    yokei_text(c->evidence, sizeof c->evidence,
               "%" PRId64 " saves of %.4g s in %" PRId64 " steps: %.4g ms of a step", f->n_saves,
               f->save_seconds, f->n_rows, 1e3 * s->checkpoint);
    yokei_text(c->remedy, sizeof c->remedy, "save every %.0f times as many steps (--save-every)", c->value);
    s->checkpoint /= c->value;
    return YOKE_OK;
}

/* ---- shares ---- */

/* The longest passes of any rank of replica d (or of stage s). */
static double longest(const struct yokei_step_model *s, int d, int stage)
{
    double most = 0;
    for (int r = 0; r < s->facts->n_ranks; r++)
        if ((d < 0 || s->facts->rank[r].d == d) && (stage < 0 || s->facts->rank[r].s == stage))
            most = fmax(most, s->busy[r]);
    return most;
}

/* Multiply the passes of the ranks of each replica (or stage) by its factor. */
static yoke_status multiply(struct yokei_step_model *s, const double *factor, bool stages)
{
    double *busy = calloc((size_t)s->facts->n_ranks + 1, sizeof *busy);
    if (!busy) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for shares");
    for (int r = 0; r < s->facts->n_ranks; r++)
        busy[r] = s->busy[r] * factor[stages ? s->facts->rank[r].s : s->facts->rank[r].d];
    yokei_step_model_set_busy(s, busy);
    free(busy);
    return YOKE_OK;
}

static void append_number(char *list, size_t bytes, int64_t n, char separator)
{
    const size_t used = strlen(list);
    char first[2] = { used ? separator : '\0', '\0' };
    yokei_text(list + used, bytes - used, "%s%" PRId64, first, n);
}

/*
 * Deal `total` units so that the longest time is least. Part i takes seconds[i] for each unit, and extra[i]
 * once.
 */
static void deal(int n, int64_t total, const double *seconds, const double *extra, int64_t *out)
{
    for (int i = 0; i < n; i++) out[i] = 1, total--;
    for (; total > 0; total--) {
        int best = 0;
        for (int i = 1; i < n; i++)
            if (extra[i] + seconds[i] * (double)(out[i] + 1)
                < extra[best] + seconds[best] * (double)(out[best] + 1))
                best = i;
        out[best]++;
    }
}

/* Deal the units anew: factor[i] is how the time of part i changes. False: too few units. */
static yoke_status deal_anew(int n, const int64_t *now, const double *times, const double *extra,
                             int64_t unit, int64_t *out, double *factor, bool *changed)
{
    double *seconds = calloc((size_t)n + 1, sizeof *seconds);
    int64_t total = 0;
    if (!seconds) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for shares");
    *changed = true;
    for (int i = 0; i < n; i++) {
        if (now[i] < 1 || now[i] % unit || times[i] <= 0) *changed = false;
        total += now[i] / unit;
        seconds[i] = now[i] > 0 ? (times[i] - extra[i]) / (double)now[i] * (double)unit : 0;
    }
    if (total < n || total > 100000) *changed = false;
    if (*changed) deal(n, total, seconds, extra, out);
    bool same = true;
    for (int i = 0; i < n && *changed; i++) {
        out[i] *= unit;
        same = same && out[i] == now[i];
        factor[i] = (extra[i] + seconds[i] * (double)out[i] / (double)unit) / times[i];
    }
    *changed = *changed && !same;
    free(seconds);
    return YOKE_OK;
}

static yoke_status shares_of(struct yokei_step_model *s, struct yokei_cause *c, bool stages, bool *applies)
{
    const struct yokei_facts *f = s->facts;
    const int n = stages ? f->pipeline : f->data;
    const int64_t *now = stages ? f->blocks : f->shares;
    double *room = calloc(3 * (size_t)n + 1, sizeof *room), *times = room, *extra = room + n,
           *factor = room + 2 * n;
    int64_t *out = calloc((size_t)n + 1, sizeof *out);
    double least = INFINITY;
    bool changed = false, alike = true;
    yoke_status status = room && out ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "diagnose: no memory for shares");
    for (int i = 0; i < n && !status; i++) times[i] = longest(s, stages ? -1 : i, stages ? i : -1);
    for (int r = 0; r < f->n_ranks; r++) alike = alike && !strcmp(f->rank[r].device, f->rank[0].device);
    /* Stages of like devices differ by the layers before and behind the blocks, which stay. */
    for (int i = 0; i < n && !status; i++) least = fmin(least, times[i] / (double)YOKE_MAX(now[i], 1));
    for (int i = 0; i < n && stages && alike && !status; i++)
        extra[i] = fmax(times[i] - least * (double)now[i], 0);
    const int64_t unit = !stages && f->pipeline > 1 ? YOKE_MAX(f->micro_batch, 1) : 1;
    if (!status) status = deal_anew(n, now, times, extra, unit, out, factor, &changed);
    if (!status && changed) {
        double slowest = 0, fastest = INFINITY;
        char before[200] = "";
        for (int i = 0; i < n; i++) {
            slowest = fmax(slowest, times[i]), fastest = fmin(fastest, times[i]);
            append_number(c->list, sizeof c->list, out[i], stages ? ',' : ':');
            append_number(before, sizeof before, now[i], stages ? ',' : ':');
        }
        status = multiply(s, factor, stages);
        *applies = !status;
        c->rank = -1;
        c->change = stages ? YOKEI_CHANGE_LAYERS : YOKEI_CHANGE_SHARES;
        yokei_text(c->evidence, sizeof c->evidence,
                   "the passes of the %s take from %.4g to %.4g ms with %s %s",
                   stages ? "stages" : "replicas", 1e3 * fastest, 1e3 * slowest,
                   stages ? "the blocks" : "the sequences", before);
        yokei_text(c->remedy, sizeof c->remedy, "divide by measured speed: --%s %s",
                   stages ? "layers" : "shares", c->list);
    }
    free(room);
    free(out);
    return status;
}

static yoke_status replicas(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                            bool *applies)
{
    (void)e;
    return s->facts->data > 1 && s->facts->shares ? shares_of(s, c, false, applies) : YOKE_OK;
}

static yoke_status stages(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                          bool *applies)
{
    (void)e;
    return s->facts->pipeline > 1 && s->facts->chunks == 1 && s->facts->blocks
               ? shares_of(s, c, true, applies)
               : YOKE_OK;
}

/* Ranks that share tensors: each one gets work in proportion to its speed. */
static yoke_status tensors(const struct yokei_excess *e, struct yokei_step_model *s, struct yokei_cause *c,
                           bool *applies)
{
    const struct yokei_facts *f = s->facts;
    (void)e;
    if (f->tensor < 2) return YOKE_OK;
    double *busy = calloc((size_t)f->n_ranks + 1, sizeof *busy), fastest = INFINITY, slowest = 0;
    if (!busy) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for shares");
    for (int r = 0; r < f->n_ranks; r++) {
        double work = 0, speed = 0;
        for (int q = 0; q < f->n_ranks; q++) {
            const struct yokei_facts_rank *k = &f->rank[q];
            if (k->d != f->rank[r].d || k->s != f->rank[r].s || s->busy[q] <= 0) continue;
            const double w = isfinite(k->work) ? k->work : 1;
            work += w, speed += w / s->busy[q];
        }
        busy[r] = speed > 0 ? work / speed : s->busy[r];
        fastest = fmin(fastest, s->busy[r]), slowest = fmax(slowest, s->busy[r]);
    }
    for (int r = 0; r < f->n_ranks; r++) {
        const struct yokei_facts_rank *k = &f->rank[r];
        if (k->d || k->s || s->busy[r] <= 0) continue;
        const double w = isfinite(k->work) ? k->work / f->rank[0].work : 1;
        append_number(c->list, sizeof c->list, YOKE_MAX(lround(32 * w * fastest / s->busy[r]), 1), ':');
    }
    yokei_step_model_set_busy(s, busy);
    free(busy);
    *applies = true;
    c->rank = -1;
    c->change = YOKEI_CHANGE_TENSOR_SHARES;
    yokei_text(c->evidence, sizeof c->evidence,
               "the passes of ranks that share tensors take from %.4g to %.4g ms", 1e3 * fastest,
               1e3 * slowest);
    yokei_text(c->remedy, sizeof c->remedy, "divide the tensors by measured speed: --tensor-shares %s",
               c->list);
    return YOKE_OK;
}

const struct yokei_remedy_row yokei_rank_remedies[] = {
    { YOKEI_CAUSE_OVERSUBSCRIBED, 0.95, 0, oversubscribed },
    { YOKEI_CAUSE_NEIGHBOUR, 0.95, 0, neighbour },
    { YOKEI_CAUSE_PAGING, 0.9, 0, paging },
    { YOKEI_CAUSE_COMPILATION, 1, 0, compilation },
    { YOKEI_CAUSE_SLOW_DEVICE, 0.8, 0, slow_device },
    { YOKEI_CAUSE_DATA, 1, 0, late_data },
    { YOKEI_CAUSE_CHECKPOINT, 1, 0, checkpoints },
    { YOKEI_CAUSE_SHARES, 0.8, 0, replicas },
    { YOKEI_CAUSE_SHARES, 0.7, 0, stages },
    { YOKEI_CAUSE_SHARES, 0.7, 0, tensors },
    { YOKEI_N_CAUSES, 0, 0, NULL },
};
