/* SPDX-License-Identifier: Apache-2.0 */
/* From the rows of a run to the times of its steady steps. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"
#include "train/diagnose/diagnose.h"

/* The last steps are kept for medians and regressions, so that the memory is bounded. */
enum { KEPT = 256, MOST_WARM = 8 };

/* The values of a rank in a step. */
struct sample {
    double parts[YOKEI_N_STEP_PARTS];
    double busy, processor, queued, preemptions, faults, compile;
};
struct yokei_facts_rows {
    bool has_pipeline;
    int64_t n_rows, n_ranks, n_timed;
    double last_seconds;
    int64_t last_step;
    double (*parts)[YOKEI_N_STEP_PARTS]; /* [n_ranks] */
    struct sample *kept;                 /* [KEPT][n_ranks] a ring */
    double seconds[KEPT];                /* of the kept steps */
    double first_extra[MOST_WARM];       /* seconds of the first steps */
    struct {
        double checkpoint, compile;
    } * all; /* [n_ranks] sums over all steps */
    char (*device)[32];
    int64_t n_saves;
    double save_seconds, tokens, first_tokens, first_seconds;
    double first_compile;  /* of the first step */
    double compile_before; /* seconds of compilation that are in no step */
};

yoke_status yokei_facts_begin(bool has_pipeline, struct yokei_facts_rows **out)
{
    struct yokei_facts_rows *r = calloc(1, sizeof *r);
    if (!r) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for the rows");
    r->has_pipeline = has_pipeline;
    r->last_step = -1;
    *out = r;
    return YOKE_OK;
}

void yokei_facts_free(struct yokei_facts_rows *r)
{
    if (!r) return;
    free(r->parts);
    free(r->kept);
    free(r->all);
    free(r->device);
    free(r);
}

/* The first row says how many ranks there are. If a resumed run has others, the run begins anew. */
static yoke_status make_room(struct yokei_facts_rows *r, int64_t n)
{
    if (n == r->n_ranks) return YOKE_OK;
    const bool has_pipeline = r->has_pipeline;
    const int64_t last_step = r->last_step;
    const double last_seconds = r->last_seconds;
    free(r->parts), free(r->kept), free(r->all), free(r->device);
    *r = (struct yokei_facts_rows){ .has_pipeline = has_pipeline,
                                    .last_step = last_step,
                                    .last_seconds = last_seconds };
    r->parts = calloc((size_t)n, sizeof *r->parts);
    r->kept = calloc((size_t)n * KEPT, sizeof *r->kept);
    r->all = calloc((size_t)n, sizeof *r->all);
    r->device = calloc((size_t)n, sizeof *r->device);
    if (!r->parts || !r->kept || !r->all || !r->device)
        return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %lld ranks", (long long)n);
    r->n_ranks = n;
    return YOKE_OK;
}

static void keep(struct yokei_facts_rows *r, const struct yokei_metrics_row *row, double seconds)
{
    struct sample *to = r->kept + (r->n_timed % KEPT) * r->n_ranks;
    double most = 0, before = 0;
    for (int64_t i = 0; i < r->n_ranks; i++) {
        const struct yokei_metrics_rank *m = &row->ranks[i];
        /* The first row of a process also has what it compiled before its first step. */
        const double compile = fmin(yokei_facts_known(m->compile_seconds), seconds);
        before = fmax(before, yokei_facts_known(m->compile_seconds) - compile);
        to[i] = (struct sample){ .busy = m->busy_seconds,
                                 .processor = m->processor_seconds,
                                 .queued = m->queued_seconds,
                                 .preemptions = m->preemptions,
                                 .faults = m->major_faults,
                                 .compile = isnan(m->compile_seconds) ? NAN : compile };
        memcpy(to[i].parts, r->parts[i], sizeof to[i].parts);
        r->all[i].checkpoint += yokei_facts_known(m->checkpoint_seconds);
        if (r->n_timed) r->all[i].compile += compile;
        if (!r->n_timed) r->first_compile = fmax(r->first_compile, compile);
        most = fmax(most, yokei_facts_known(m->checkpoint_seconds));
    }
    r->compile_before += before;
    if (most > 0) r->n_saves++, r->save_seconds += most;
    r->seconds[r->n_timed % KEPT] = seconds;
    if (r->n_timed < MOST_WARM) r->first_extra[r->n_timed] = seconds;
    r->n_timed++;
}

yoke_status yokei_facts_row(void *context, const struct yokei_metrics_row *row)
{
    struct yokei_facts_rows *r = context;
    if (row->n_ranks < 1) return YOKE_OK;
    YOKE_TRY(make_room(r, row->n_ranks));
    /* The clock begins at 0. If the first rows are elsewhere, the time of the row before is unknown. */
    const bool follows = row->step == 1 || row->step == r->last_step + 1;
    const double before = row->step == 1 ? 0 : r->last_seconds, seconds = row->seconds - before;
    for (int64_t i = 0; i < r->n_ranks; i++)
        yokei_text(r->device[i], sizeof r->device[i], "%s", row->ranks[i].device);
    if (follows && yokei_step_divide_row(seconds, row, r->has_pipeline, r->parts)) {
        if (!r->n_timed) r->first_tokens = (double)row->tokens, r->first_seconds = row->seconds;
        r->tokens = (double)row->tokens;
        keep(r, row, seconds);
    }
    r->n_rows++;
    r->last_step = row->step;
    r->last_seconds = row->seconds;
    return YOKE_OK;
}

/* ---- from the kept steps to facts ---- */

/* The number of first steps that took much longer than the median step. */
static int64_t count_warm(const struct yokei_facts_rows *r, double median)
{
    int64_t n = 0;
    /* The first step is always one. It counts what came before it. */
    const int64_t most = YOKE_MIN((int64_t)MOST_WARM, r->n_timed / 3);
    for (int64_t i = 0; i < most; i++)
        if (!i || (r->first_extra[i] > 1.3 * median && n == i)) n = i + 1;
    return n;
}

static double mean_of(const struct yokei_facts_rows *r, const int64_t *at, int64_t n, int64_t rank,
                      size_t offset)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double value;
        memcpy(&value, (const char *)&r->kept[at[i] * r->n_ranks + rank] + offset, sizeof value);
        sum += value;
    }
    return sum / (double)n;
}

/* The slope of the busy time over the faults. NaN: the faults do not differ. */
static double slope_of_faults(const struct yokei_facts_rows *r, const int64_t *at, int64_t n, int64_t rank,
                              double mean_busy, double mean_faults)
{
    double both = 0, alone = 0;
    for (int64_t i = 0; i < n; i++) {
        const struct sample *s = &r->kept[at[i] * r->n_ranks + rank];
        both += (s->busy - mean_busy) * (s->faults - mean_faults);
        alone += (s->faults - mean_faults) * (s->faults - mean_faults);
    }
    return alone > 0 ? both / alone : NAN;
}

static void fill_rank(const struct yokei_facts_rows *r, const int64_t *at, int64_t n, int64_t i,
                      struct yokei_facts_rank *out)
{
#define MEAN(member) mean_of(r, at, n, i, offsetof(struct sample, member))
    yokei_text(out->device, sizeof out->device, "%s", r->device[i]);
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++)
        out->parts[p] = mean_of(r, at, n, i, offsetof(struct sample, parts) + (size_t)p * sizeof(double));
    out->busy = MEAN(busy), out->processor = MEAN(processor), out->queued = MEAN(queued);
    out->preemptions = MEAN(preemptions), out->faults = MEAN(faults), out->compile = MEAN(compile);
    out->fault_seconds = slope_of_faults(r, at, n, i, out->busy, out->faults);
    out->work = NAN;
#undef MEAN
}

/* Seconds of a step that the row does not explain: all but saves, late data, compilation, and no core. */
static double unexplained(const struct yokei_facts_rows *r, int64_t at)
{
    double most = 0;
    for (int64_t k = 0; k < r->n_ranks; k++) {
        const struct sample *s = &r->kept[at * r->n_ranks + k];
        most = fmax(most, s->parts[YOKEI_STEP_CHECKPOINT] + s->parts[YOKEI_STEP_DATA]
                              + yokei_facts_known(s->queued) + yokei_facts_known(s->compile));
    }
    return r->seconds[at] - most;
}

/*
 * The standard error of the mean step, from the median distance to the median. What a row explains is no
 * noise.
 */
static double noise_of(const struct yokei_facts_rows *r, const int64_t *at, int64_t n, double *room)
{
    double rest[KEPT];
    for (int64_t i = 0; i < n; i++) rest[i] = unexplained(r, at[i]);
    const double median = yokei_median_in(room, rest, (int)n);
    for (int64_t i = 0; i < n; i++) rest[i] = fabs(rest[i] - median);
    return n > 1 ? 1.4826 * yokei_median(rest, (int)n) / sqrt((double)n) : 0.03 * median;
}

/*
 * The seconds of the mean step that go with the major faults of all ranks: steps with more faults are
 * longer. Pages of other ranks and other parts of a step cost time, too, so the whole step is looked at.
 * Faults of the same number take different times. A regression of the seconds over the faults would show too
 * small a slope, so the slope is that of the reduced major axis. A step is at least as long as passes with
 * few faults. NaN: the steps do not show it.
 */
static double paged(const struct yokei_facts_rows *r, const int64_t *at, int64_t n, double step, double *room)
{
    enum { FEWEST_STEPS = 8 };
    const double least_correlation = 0.4;
    double faults[KEPT], mean = 0, mean_rest = 0, both = 0, xx = 0, yy = 0;
    for (int64_t i = 0; i < n; i++) {
        faults[i] = 0, room[i] = INFINITY;
        for (int64_t k = 0; k < r->n_ranks; k++) {
            const struct sample *s = &r->kept[at[i] * r->n_ranks + k];
            faults[i] += yokei_facts_known(s->faults);
            room[i] = fmin(room[i], yokei_facts_known(s->busy));
        }
        mean += faults[i] / (double)n, mean_rest += unexplained(r, at[i]) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = faults[i] - mean, y = unexplained(r, at[i]) - mean_rest;
        both += x * y, xx += x * x, yy += y * y;
    }
    if (n < FEWEST_STEPS || mean < 1 || !(both > least_correlation * sqrt(xx * yy))) return NAN;
    yokei_sort(room, (int)n);
    return fmin(sqrt(yy / xx) * mean, fmax(step - room[n / 10], 0));
}

static yoke_status fill(struct yokei_facts_rows *r, int64_t *at, double *room, struct yokei_facts *f)
{
    const int64_t have = YOKE_MIN(r->n_timed, (int64_t)KEPT), oldest = r->n_timed - have;
    for (int64_t i = 0; i < have; i++) room[i] = r->seconds[i];
    const double median = yokei_median(room, (int)have);
    int64_t n = 0;
    f->n_rows = r->n_rows;
    f->n_warm = count_warm(r, median);
    for (int64_t i = oldest; i < r->n_timed; i++)
        if (i >= f->n_warm || r->n_timed == 1) at[n++] = i % KEPT;
    f->n_steady = n;
    f->step = 0;
    for (int64_t i = 0; i < n; i++) f->step += r->seconds[at[i]] / (double)n;
    f->noise = noise_of(r, at, n, room) / f->step;
    f->warm_extra = f->compile_all = 0;
    for (int64_t i = 0; i < f->n_warm && r->n_timed > 1; i++)
        f->warm_extra += fmax(r->first_extra[i] - median, 0);
    for (int64_t i = 0; i < r->n_ranks; i++) f->compile_all = fmax(f->compile_all, r->all[i].compile);
    const double in_first = fmin(r->first_compile, fmax(r->first_extra[0] - median, 0));
    f->compile_all += in_first;
    f->compile_before = r->compile_before + r->first_compile - in_first;
    f->paged = paged(r, at, n, f->step, room);
    f->n_saves = r->n_saves;
    f->save_seconds = r->n_saves ? r->save_seconds / (double)r->n_saves : 0;
    f->tokens_per_second = r->n_timed > 1 ? (r->tokens - r->first_tokens)
                                                / fmax(r->last_seconds - r->first_seconds, 1e-9)
                                          : r->tokens / fmax(r->last_seconds, 1e-9);
    f->n_ranks = (int)r->n_ranks;
    for (int64_t i = 0; i < r->n_ranks; i++) fill_rank(r, at, n, i, &f->rank[i]);
    return YOKE_OK;
}

yoke_status yokei_facts_end(struct yokei_facts_rows *r, struct yokei_facts *f)
{
    int64_t at[KEPT];
    double room[KEPT];
    if (!r->n_timed) return yoke_fail(YOKE_EDATA, "no row has the time of a step");
    f->rank = calloc((size_t)r->n_ranks, sizeof *f->rank);
    if (!f->rank) return yoke_fail(YOKE_ENOMEM, "diagnose: no memory for %lld ranks", (long long)r->n_ranks);
    return fill(r, at, room, f);
}
