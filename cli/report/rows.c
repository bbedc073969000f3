/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a run's metrics: the time of each rank by part, and the columns for the curves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "core/base/base.h"

static yoke_status make_room(struct report_run *r, int64_t n)
{
    if (n <= r->n_ranks) return YOKE_OK;
    struct report_rank *ranks = realloc(r->ranks, (size_t)n * sizeof *ranks);
    if (!ranks) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %lld ranks", (long long)n);
    memset(ranks + r->n_ranks, 0, (size_t)(n - r->n_ranks) * sizeof *ranks);
    r->ranks = ranks;
    r->n_ranks = n;
    return YOKE_OK;
}

yoke_status report_add_row(void *context, const struct yokei_metrics_row *row)
{
    struct report_run *r = context;
    double parts[YOKEI_N_STEP_PARTS];
    bool divided = false;
    YOKE_TRY(make_room(r, row->n_ranks));
    /* The clock of a run begins at 0. If its first rows are elsewhere, the time before is unknown. */
    const double before = row->step == 1 ? 0 : r->last_seconds;
    for (int64_t i = 0; i < row->n_ranks; i++) {
        yokei_text(r->ranks[i].device, sizeof r->ranks[i].device, "%s", row->ranks[i].device);
        r->lacks_parts = r->lacks_parts || isnan(row->ranks[i].busy_seconds)
                         || isnan(row->ranks[i].data_seconds) || isnan(row->ranks[i].checkpoint_seconds);
        if (!yokei_step_divide(row->seconds - before, row, i, r->run->has_plan && r->run->plan.pipeline > 1,
                               parts))
            continue;
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) r->ranks[i].parts[p] += parts[p];
        divided = true;
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
    free(r->step);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double report_median(const double *values, size_t n)
{
    size_t count = 0;
    double *sorted = malloc((n ? n : 1) * sizeof *sorted), median = NAN;
    if (!sorted) return NAN;
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i])) sorted[count++] = values[i];
    qsort(sorted, count, sizeof *sorted, by_size);
    if (count) median = sorted[(count - 1) / 2] / 2 + sorted[count / 2] / 2;
    free(sorted);
    return median;
}

const char *report_real(double value, char out[REPORT_REAL])
{
    yokei_text(out, REPORT_REAL, isfinite(value) ? "%.6g" : "unknown", value);
    return out;
}

double report_share(const struct report_rank *rank, int part)
{
    double sum = 0;
    for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) sum += rank->parts[p];
    return sum > 0 && isfinite(sum) ? rank->parts[part] / sum : NAN;
}
