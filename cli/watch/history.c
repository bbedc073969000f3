/* SPDX-License-Identifier: Apache-2.0 */
/* What the rows of a run say, in memory that does not grow with the number of steps. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/watch/watch.h"
#include "core/base/base.h"

/* ---- events ---- */

void watch_event_add(struct watch_history *h, const char *format, ...)
{
    struct watch_event *e = &h->events[h->n_events++ % WATCH_EVENTS];
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
}

static double most_saving(const struct yokei_metrics_row *row)
{
    double most = 0;
    for (int64_t r = 0; r < row->n_ranks; r++)
        if (isfinite(row->ranks[r].checkpoint_seconds)) most = fmax(most, row->ranks[r].checkpoint_seconds);
    return most;
}

static void add_events(struct watch_history *h, const struct yokei_metrics_row *row)
{
    const double saving = most_saving(row);
    const long long step = (long long)row->step;
    if (saving > 0) watch_event_add(h, "step %lld: a checkpoint was saved in %.3g s", step - 1, saving);
    if (row->skipped) watch_event_add(h, "step %lld: skipped, because gradients overflowed", step);
    if (!isfinite(row->loss) && !row->skipped)
        watch_event_add(h, "step %lld: the loss is no finite number", step);
    if (isfinite(row->audit))
        watch_event_add(h, "step %lld: an audit found the replicas apart by %.3g of the gate", step,
                        row->audit);
}

/* ---- the loss of all steps ---- */

static void add_to_bucket(struct watch_bucket *b, double loss)
{
    b->n_rows++;
    if (!isfinite(loss)) return;
    b->least = b->n_losses ? fmin(b->least, loss) : loss;
    b->largest = b->n_losses ? fmax(b->largest, loss) : loss;
    b->sum += loss;
    b->n_losses++;
}

static void join_buckets(struct watch_history *h)
{
    for (int i = 0; i < WATCH_BUCKETS / 2; i++) {
        const struct watch_bucket *a = &h->buckets[2 * i], *b = &h->buckets[2 * i + 1];
        struct watch_bucket both = a->n_losses ? *a : *b;
        both.n_rows = a->n_rows + b->n_rows;
        both.n_losses = a->n_losses + b->n_losses;
        both.sum = a->sum + b->sum;
        if (a->n_losses && b->n_losses) {
            both.least = fmin(a->least, b->least);
            both.largest = fmax(a->largest, b->largest);
        }
        h->buckets[i] = both;
    }
    h->n_buckets = WATCH_BUCKETS / 2;
    h->bucket_rows *= 2;
}

static void add_loss(struct watch_history *h, double loss)
{
    if (!h->n_buckets || h->buckets[h->n_buckets - 1].n_rows == h->bucket_rows) {
        if (h->n_buckets == WATCH_BUCKETS) join_buckets(h);
        h->buckets[h->n_buckets++] = (struct watch_bucket){ .n_rows = 0 };
    }
    add_to_bucket(&h->buckets[h->n_buckets - 1], loss);
}

double watch_smoothed(const struct watch_history *h, int64_t *n_out)
{
    double sum = 0;
    int64_t n_rows = 0, n = 0;
    for (int i = h->n_buckets - 1; i >= 0 && n_rows < YOKE_MAX(WATCH_SMOOTH, h->n_rows / 50); i--) {
        n_rows += h->buckets[i].n_rows;
        n += h->buckets[i].n_losses;
        sum += h->buckets[i].sum;
    }
    *n_out = n_rows;
    return n ? sum / (double)n : NAN;
}

/* ---- the time of each rank ---- */

static void begin_block(struct watch_history *h)
{
    h->blocks[1] = h->blocks[0];
    h->blocks[0].n = 0;
    h->blocks[0].seconds = 0;
    for (int64_t r = 0; r < h->capacity; r++) {
        memcpy(h->ranks[r].parts[1], h->ranks[r].parts[0], sizeof h->ranks[r].parts[0]);
        memset(h->ranks[r].parts[0], 0, sizeof h->ranks[r].parts[0]);
    }
}

static yoke_status make_room(struct watch_history *h, int64_t n)
{
    if (n > WATCH_MOST_RANKS)
        return yoke_fail(YOKE_EDATA, "a row has %" PRId64 " ranks; at most %d are shown", n,
                         WATCH_MOST_RANKS);
    if (n > h->capacity) {
        struct watch_rank *ranks = realloc(h->ranks, (size_t)n * sizeof *ranks);
        if (ranks) h->ranks = ranks;
        void *divided = realloc(h->divided, (size_t)n * sizeof *h->divided);
        if (divided) h->divided = divided;
        if (!ranks || !divided)
            return yoke_fail(YOKE_ENOMEM, "yoke watch: no memory for %" PRId64 " ranks", n);
        memset(ranks + h->capacity, 0, (size_t)(n - h->capacity) * sizeof *ranks);
        h->capacity = n;
    }
    h->n_ranks = n;
    return YOKE_OK;
}

static void add_times(struct watch_history *h, const struct yokei_metrics_row *row)
{
    /* The clock of a run begins at 0. If its first rows are elsewhere, the time before is unknown. */
    const double before = row->step == 1 ? 0
                          : h->n_rows    ? h->last.seconds
                                         : NAN,
                 seconds = row->seconds - before;
    if (h->blocks[0].n == WATCH_BLOCK) begin_block(h);
    const bool is_divided = yokei_step_divide_row(seconds, row, h->has_pipeline, h->divided);
    for (int64_t r = 0; r < row->n_ranks; r++) {
        struct watch_rank *rank = &h->ranks[r];
        yokei_text(rank->device, sizeof rank->device, "%s", row->ranks[r].device);
        rank->tokens_per_second = row->ranks[r].tokens_per_second;
        for (int p = 0; p < YOKEI_N_STEP_PARTS && is_divided; p++) rank->parts[0][p] += h->divided[r][p];
    }
    if (!isfinite(seconds) || seconds <= 0) return;
    h->blocks[0].seconds += seconds;
    h->blocks[0].n++;
}

double watch_step_seconds(const struct watch_history *h)
{
    const int64_t n = h->blocks[0].n + h->blocks[1].n;
    return n ? (h->blocks[0].seconds + h->blocks[1].seconds) / (double)n : NAN;
}

double watch_share(const struct watch_rank *rank, int part)
{
    double sum = 0;
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) sum += rank->parts[0][p] + rank->parts[1][p];
    return sum > 0 && isfinite(sum) ? (rank->parts[0][part] + rank->parts[1][part]) / sum : NAN;
}

/* ---- rows ---- */

yoke_status watch_history_add(void *context, const struct yokei_metrics_row *row)
{
    struct watch_history *h = context;
    YOKE_TRY(make_room(h, row->n_ranks));
    add_times(h, row);
    add_loss(h, row->loss);
    add_events(h, row);
    h->n_rows++;
    h->n_skipped += row->skipped;
    if (isfinite(row->validation_loss))
        h->validation_loss = row->validation_loss, h->validation_step = row->step;
    h->last = *row;
    h->last.ranks = NULL;
    return YOKE_OK;
}

void watch_history_begin(struct watch_history *h)
{
    *h = (struct watch_history){ .validation_loss = NAN, .bucket_rows = 1 };
}

void watch_history_free(struct watch_history *h)
{
    free(h->ranks);
    free(h->divided);
}

void watch_history_forget(struct watch_history *h)
{
    struct watch_history fresh = { .validation_loss = NAN, .bucket_rows = 1 };
    memcpy(fresh.events, h->events, sizeof fresh.events);
    fresh.n_events = h->n_events;
    fresh.has_pipeline = h->has_pipeline;
    watch_history_free(h);
    *h = fresh;
}
