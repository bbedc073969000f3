/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a run's metrics: the time of each rank by part, and the columns for the curves. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "core/base/base.h"
#include "core/base/times.h"

static yoke_status make_room(struct report_run *r, int64_t n)
{
    if (n <= r->n_ranks) return YOKE_OK;
    struct report_rank *ranks = realloc(r->ranks, (size_t)n * sizeof *ranks);
    if (ranks) r->ranks = ranks;
    double(*parts)[YOKEI_N_STEP_PARTS] = ranks ? realloc(r->parts, (size_t)n * sizeof *parts) : NULL;
    if (!parts) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %lld ranks", (long long)n);
    memset(ranks + r->n_ranks, 0, (size_t)(n - r->n_ranks) * sizeof *ranks);
    r->parts = parts;
    r->n_ranks = n;
    return YOKE_OK;
}

yoke_status report_add_row(void *context, const struct yokei_metrics_row *row)
{
    struct report_run *r = context;
    YOKE_TRY(make_room(r, row->n_ranks));
    /* The clock of a run begins at 0. If its first rows are elsewhere, the time before is unknown. */
    const double before = row->step == 1 ? 0 : r->last_seconds;
    const bool divided = yokei_step_divide_row(row->seconds - before, row,
                                               r->run->has_plan && r->run->plan.pipeline > 1, r->parts);
    for (int64_t i = 0; i < row->n_ranks; i++) {
        const struct yokei_metrics_rank *rank = &row->ranks[i];
        if (strcmp(r->ranks[i].device, rank->device) != 0)
            yokei_text(r->ranks[i].device, sizeof r->ranks[i].device, "%s", rank->device);
        r->lacks_parts = r->lacks_parts || isnan(rank->busy_seconds) || isnan(rank->data_seconds)
                         || isnan(rank->checkpoint_seconds);
        for (int p = 0; p < YOKEI_N_STEP_PARTS && divided; p++) r->ranks[i].parts[p] += r->parts[i][p];
    }
    r->n_divided += divided;
    r->last_seconds = row->seconds;
    return YOKE_OK;
}

/* The mean of the last `window` finite values. It begins with the first finite value. */
static void smooth(const double *values, size_t n, size_t window, double *out)
{
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (isfinite(values[i])) sum += values[i], count++;
        if (i >= window && isfinite(values[i - window])) sum -= values[i - window], count--;
        out[i] = count ? sum / (double)count : NAN;
    }
}

yoke_status report_columns(struct report_run *r)
{
    const struct yokei_metrics_rows *m = &r->run->metrics;
    const size_t n = m->n;
    double **const columns[] = { &r->step, &r->loss,  &r->smooth, &r->validation, &r->rate,
                                 &r->norm, &r->scale, &r->speed,  &r->mfu };
    double *all = calloc(n ? n * YOKE_COUNT(columns) : 1, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %zu rows", n);
    for (size_t c = 0; c < YOKE_COUNT(columns); c++) *columns[c] = all + c * n;
    for (size_t i = 0; i < n; i++) {
        const struct yokei_metrics_row *row = &m->rows[i];
        r->step[i] = (double)row->step;
        r->loss[i] = row->loss;
        r->validation[i] = row->validation_loss;
        r->rate[i] = row->learning_rate;
        r->norm[i] = row->gradient_norm;
        r->scale[i] = row->loss_scale;
        r->speed[i] = row->tokens_per_second;
        r->mfu[i] = row->mfu;
    }
    r->window = n / 50;
    if (r->window > 1) smooth(r->loss, n, r->window, r->smooth);
    return YOKE_OK;
}

void report_run_free(struct report_run *r)
{
    free(r->ranks);
    free(r->parts);
    free(r->step);
}

double report_median(const double *values, size_t n)
{
    size_t count = 0;
    double *sorted = malloc((n ? n : 1) * sizeof *sorted), median = NAN;
    if (!sorted) return NAN;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i])) sorted[count++] = values[i];
    yokei_sort(sorted, (int)count);
    /* Each half is taken first, because the sum of two large numbers may be infinite. */
    if (count) median = sorted[(count - 1) / 2] / 2 + sorted[count / 2] / 2;
    free(sorted);
    return median;
}

const char *report_real(double value, char out[REPORT_REAL])
{
    /* 1234567 is easier to read than 1.23457e+06 */
    const bool is_large = fabs(value) >= 1e6 && fabs(value) < 1e15;
    yokei_text(out, REPORT_REAL, is_large ? "%.0f" : isfinite(value) ? "%.6g" : "unknown", value);
    return out;
}

const char *report_short(double value, char out[REPORT_REAL])
{
    const bool is_large = fabs(value) >= 1e4 && fabs(value) < 1e15;
    yokei_text(out, REPORT_REAL, is_large ? "%.0f" : isfinite(value) ? "%.4g" : "unknown", value);
    return out;
}

const char *report_bytes(double bytes, char out[REPORT_REAL])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
    size_t unit = 0;
    for (; bytes >= 1024 && unit + 1 < YOKE_COUNT(units); unit++) bytes /= 1024;
    yokei_text(out, REPORT_REAL, isfinite(bytes) ? "%.4g %s" : "unknown", bytes, units[unit]);
    return out;
}

double report_share(const struct report_rank *rank, int part)
{
    double sum = 0;
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) sum += rank->parts[p];
    return sum > 0 && isfinite(sum) ? rank->parts[part] / sum : NAN;
}

/* ---- a few of many ranks ---- */

struct keyed {
    double key;
    int64_t rank;
};

/* By the key; NaN comes last. Equal keys are in the order of the ranks. */
static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (isnan(x->key) || isnan(y->key)) {
        if (isnan(x->key) != isnan(y->key)) return isnan(x->key) - isnan(y->key);
    } else if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

static int by_rank(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int report_choose(const double *keys, int64_t n, int most, int64_t *chosen_out)
{
    const int count = (int)YOKE_MIN(n, most);
    struct keyed *all = n > most ? malloc((size_t)n * sizeof *all) : NULL;
    for (int i = 0; i < count; i++) chosen_out[i] = i;
    if (!all) return count;
    for (int64_t i = 0; i < n; i++) all[i] = (struct keyed){ keys[i], i };
    qsort(all, (size_t)n, sizeof *all, by_key);
    int64_t known = n;
    while (known > count && isnan(all[known - 1].key)) known--;
    for (int i = 0; i < count; i++) chosen_out[i] = all[i < count / 2 ? i : known - count + i].rank;
    qsort(chosen_out, (size_t)count, sizeof *chosen_out, by_rank);
    free(all);
    return count;
}

void report_chosen_text(struct report_page *page, int n, int64_t all, const char *what)
{
    if (n < all)
        report_paragraph(page,
                         "The page shows %d of %" PRId64
                         " ranks: the %d %s least, and the %d %s most. %" PRId64
                         " ranks between them are left out.",
                         n, all, n / 2, what, n - n / 2, what, all - n);
}
