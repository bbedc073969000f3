/* SPDX-License-Identifier: Apache-2.0 */
/* Files of yoke bench collectives: the time by size beside the limit and beside MPI. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

/* The lines of a chart. The values of the first three pairs are for out of place and in place. */
enum { OURS, OURS_IN_PLACE, MPI, MPI_IN_PLACE, LIMIT, BESIDE, BESIDE_IN_PLACE, LINES };
enum { MOST_CHARTS = 40 };

struct measured {
    double bytes, us[LINES]; /* NaN: not measured */
    double share, times_mpi; /* NaN */
};

static bool is_whole(const json_t *row)
{
    return device_text(row, "collective")[0] && device_number(row, "bytes") >= 0;
}
static double positive(const json_t *row, const char *key)
{
    const double value = device_number(row, key);
    return value > 0 ? value : NAN;
}
static bool in_place(const json_t *row) { return json_is_true(json_object_get(row, "in_place")); }
static double share_of(const json_t *row)
{
    return 100 * positive(row, "limit_seconds") / positive(row, "seconds");
}
static bool is_wrong(const json_t *row) { return device_number(row, "wrong") > 0; }

void device_collectives_check(struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    size_t i, n = 0;
    json_array_foreach(rows, i, row) n += !is_whole(row);
    if (n)
        yokei_text(file->problem, sizeof file->problem,
                   "%s: %zu of %zu rows lack collective or bytes, and are left out", file->path, n, i);
}

/* ---- the result ---- */

static void put_result(struct report_page *page, const struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    const double ranks = device_number(file->root, "ranks");
    double *ratios = calloc(json_array_size(rows) + 1, sizeof *ratios),
           *shares = calloc(json_array_size(rows) + 1, sizeof *shares);
    size_t i, n = 0, n_shares = 0;
    int n_faster = 0, n_wrong = 0;
    json_array_foreach(rows, i, row)
    {
        if (!is_whole(row) || !ratios || !shares) continue;
        n_wrong += is_wrong(row);
        const double times = positive(row, "times_mpi"), of_limit = share_of(row);
        if (isfinite(times)) ratios[n++] = times, n_faster += times > 1;
        if (isfinite(of_limit)) shares[n_shares++] = of_limit;
    }
    if (n_wrong)
        report_item(page, "Collectives of %.0f ranks (%s): rows with WRONG elements: %d.", ranks, file->path,
                    n_wrong);
    if (n)
        report_item(
            page,
            "Collectives of %.0f ranks (%s): %d of %zu calls are faster than MPI's; the median is %.4g "
            "times as fast.",
            ranks, file->path, n_faster, n, report_median(ratios, n));
    if (n_shares)
        report_item(page,
                    "Collectives of %.0f ranks (%s): half of the calls reach %.4g %% of the limit or more.",
                    ranks, file->path, report_median(shares, n_shares));
    if (!n && !n_shares && !n_wrong)
        report_item(page, "Collectives of %.0f ranks (%s): %zu rows, without MPI and without a limit.", ranks,
                    file->path, i);
    free(ratios);
    free(shares);
}

void device_collectives_result(struct report_page *page, const struct devices *d)
{
    for (int f = 0; f < d->n_files; f++)
        if (d->files[f].kind == DEVICE_COLLECTIVES) put_result(page, &d->files[f]);
}

/* ---- charts ---- */

static int by_bytes(const void *a, const void *b)
{
    const struct measured *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static struct measured measured_of(const json_t *row)
{
    const bool in = in_place(row);
    struct measured m = { device_number(row, "bytes"), .share = share_of(row),
                          .times_mpi = positive(row, "times_mpi") };
    for (int l = 0; l < LINES; l++) m.us[l] = NAN;
    m.us[in ? OURS_IN_PLACE : OURS] = 1e6 * positive(row, "seconds");
    m.us[in ? MPI_IN_PLACE : MPI] = 1e6 * positive(row, "mpi_seconds");
    m.us[in ? BESIDE_IN_PLACE : BESIDE] = 1e6 * positive(row, "beside_seconds");
    m.us[LIMIT] = 1e6 * positive(row, "limit_seconds");
    return m;
}

static double ours(const struct measured *m)
{
    return 1e-6 * (isfinite(m->us[OURS]) ? m->us[OURS] : m->us[OURS_IN_PLACE]);
}

/* The finding: the largest and the smallest size, out of place where there is such a row. */
static void find_title(const json_t *row, const struct measured *sorted, size_t n, char *title, size_t bytes)
{
    const struct measured *most = NULL, *least = NULL;
    char size[REPORT_REAL], time[REPORT_REAL];
    for (size_t i = 0; i < n; i++) {
        const struct measured *m = &sorted[i];
        if (!isfinite(ours(m))) continue;
        if (!least || (m->bytes == least->bytes && isfinite(m->us[OURS]))) least = m;
        if (!most || m->bytes > most->bytes || isfinite(m->us[OURS])) most = m;
    }
    yokei_text(title, bytes, "%.40s %.10s", device_text(row, "collective"), device_text(row, "dtype"));
    size_t at = strlen(title);
    if (!most) {
        yokei_text(title + at, bytes - at, " has no times.");
        return;
    }
    yokei_text(title + at, bytes - at, ": %s take %s", report_bytes(most->bytes, size),
               device_seconds(ours(most), time));
    if (isfinite(most->share)) {
        at = strlen(title);
        yokei_text(title + at, bytes - at, ", %.3g %% of the limit", most->share);
    }
    if (isfinite(most->times_mpi)) {
        at = strlen(title);
        yokei_text(title + at, bytes - at, ", %.3g times as fast as MPI", most->times_mpi);
    }
    if (least != most) {
        at = strlen(title);
        yokei_text(title + at, bytes - at, "; %s take %s", report_bytes(least->bytes, size),
                   device_seconds(ours(least), time));
        at = strlen(title);
        if (isfinite(least->times_mpi))
            yokei_text(title + at, bytes - at, ", %.3g times as fast", least->times_mpi);
    }
    at = strlen(title);
    yokei_text(title + at, bytes - at, ".");
}

/* Draw the chart of the rows of one group, which `sorted` holds by size. */
static void put_lines(struct report_page *page, const struct device_file *file, const json_t *row,
                      const struct measured *sorted, size_t n)
{
    static const int colours[LINES] = {
        [OURS] = 0,   [OURS_IN_PLACE] = 1,  [MPI] = 2, [MPI_IN_PLACE] = 3, [LIMIT] = 6,
        [BESIDE] = 5, [BESIDE_IN_PLACE] = 4
    };
    const char *names[LINES] = { "Yoke", "Yoke, in place", "MPI", "MPI, in place", "limit", "", "" };
    char title[400], beside[2][100];
    struct svg_series series[LINES];
    int n_series = 0;
    double *values = calloc(2 * LINES * n + 1, sizeof *values);
    if (!values) return;
    yokei_text(beside[0], sizeof beside[0], "%.60s", device_text(file->root, "beside"));
    yokei_text(beside[1], sizeof beside[1], "%.60s, in place", device_text(file->root, "beside"));
    names[BESIDE] = beside[0], names[BESIDE_IN_PLACE] = beside[1];
    for (int l = 0; l < LINES; l++) {
        double *x = values + 2 * (size_t)l * n, *y = x + n;
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            if (!(sorted[i].bytes > 0) || !isfinite(sorted[i].us[l])) continue;
            /* The limit stands in the rows of both places, and each size needs one point. */
            if (kept && l == LIMIT && x[kept - 1] == sorted[i].bytes) continue;
            x[kept] = sorted[i].bytes, y[kept++] = sorted[i].us[l];
        }
        if (kept)
            series[n_series++] = (struct svg_series){
                names[l], x, y, kept, colours[l], .sparse = l != LIMIT
            };
    }
    find_title(row, sorted, n, title, sizeof title);
    svg_lines(page, &(struct svg_chart){ .title = title,
                                         .x_name = "size",
                                         .y_name = "us",
                                         .series = series,
                                         .n_series = n_series,
                                         .log_y = true,
                                         .x_in_bytes = true });
    free(values);
}

static void put_charts(struct report_page *page, const struct device_file *file, const int64_t *groups,
                       int64_t n_groups)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    struct measured *sorted = calloc(json_array_size(rows) + 1, sizeof *sorted);
    report_charts_begin(page);
    for (int64_t g = 0; g < YOKE_MIN(n_groups, MOST_CHARTS) && sorted; g++) {
        const json_t *first = NULL;
        size_t i, at = 0, n = 0;
        json_array_foreach(rows, i, row)
        {
            if (!is_whole(row) || groups[at++] != g) continue;
            if (!first) first = row;
            if (!is_wrong(row)) sorted[n++] = measured_of(row);
        }
        qsort(sorted, n, sizeof *sorted, by_bytes);
        if (first) put_lines(page, file, first, sorted, n);
    }
    report_charts_end(page);
    if (n_groups > MOST_CHARTS)
        report_paragraph(page,
                         "The charts have the first %d of %" PRId64
                         " collectives, types and reductions. The table has all.",
                         MOST_CHARTS, n_groups);
    free(sorted);
}

/* ---- the table ---- */

static bool any_has(const json_t *rows, const char *key)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) if (json_object_get(row, key)) return true;
    return false;
}

static void put_table(struct report_page *page, const struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    const char *heads[20] = { "collective",     "type",       "reduction",
                              "place",          "bytes",      "us",
                              "p99 us",         "algbw GB/s", "busbw GB/s",
                              "% of the limit", "MPI us",     "times as fast as MPI",
                              "wrong elements" };
    int n = 13;
    size_t i, shown = 0;
    const bool beside = any_has(rows, "beside_seconds"), plan = any_has(rows, "plan");
    if (beside) heads[n++] = "beside us", heads[n++] = "times as fast as beside";
    if (plan) heads[n++] = "algorithm", heads[n++] = "predicted us";
    report_table_begin(page, heads, n);
    json_array_foreach(rows, i, row)
    {
        if (!is_whole(row) || shown == DEVICE_MOST_ROWS) continue;
        shown++;
        report_row_begin(page);
        report_cell(page, device_text(row, "collective"));
        report_cell(page, device_text(row, "dtype"));
        report_cell(page, device_text(row, "reduction"));
        report_cell(page, in_place(row) ? "in" : "out");
        report_number(page, device_number(row, "bytes"), "%.15g");
        report_number(page, 1e6 * positive(row, "seconds"), "%.4g");
        report_number(page, 1e6 * positive(row, "p99_seconds"), "%.4g");
        report_number(page, 1e-9 * positive(row, "algbw_bytes_per_s"), "%.4g");
        report_number(page, 1e-9 * positive(row, "busbw_bytes_per_s"), "%.4g");
        report_number(page, share_of(row), "%.3g");
        report_number(page, 1e6 * positive(row, "mpi_seconds"), "%.4g");
        report_number(page, positive(row, "times_mpi"), "%.3g");
        report_number(page, device_number(row, "wrong"), "%.15g");
        if (beside) {
            report_number(page, 1e6 * positive(row, "beside_seconds"), "%.4g");
            report_number(page, positive(row, "times_beside"), "%.3g");
        }
        const json_t *choice = json_object_get(row, "plan");
        if (plan) {
            report_cell(page, device_text(choice, "algorithm"));
            report_number(page, 1e6 * positive(choice, "predicted_seconds"), "%.4g");
        }
        report_row_end(page);
    }
    report_table_end(page);
    if (i > shown && shown == DEVICE_MOST_ROWS)
        report_paragraph(page, "More than %d rows are not shown.", DEVICE_MOST_ROWS);
}

static yoke_status put_file(struct report_page *page, const struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    const size_t n = json_array_size(rows);
    char **keys = calloc(n + 1, sizeof *keys), title[400];
    int64_t *groups = calloc(n + 1, sizeof *groups), n_groups = -1;
    size_t i, at = 0;
    json_array_foreach(rows, i, row)
    {
        if (!is_whole(row) || !keys) continue;
        if (asprintf(&keys[at], "%s\n%s\n%s", device_text(row, "collective"), device_text(row, "dtype"),
                     device_text(row, "reduction"))
            < 0)
            keys[at] = NULL;
        at++;
    }
    if (keys && groups) n_groups = device_group(keys, at, groups);
    yokei_text(title, sizeof title, "Collectives of %.0f ranks: %.300s", device_number(file->root, "ranks"),
               file->path);
    report_heading(page, title);
    if (n_groups > 0) {
        put_charts(page, file, groups, n_groups);
        put_table(page, file);
    } else
        report_paragraph(page, "The file has no rows.");
    device_keys_free(keys, at);
    free(groups);
    return n_groups < 0 ? yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %zu rows", n) : YOKE_OK;
}

yoke_status device_collectives(struct report_page *page, const struct devices *d)
{
    for (int f = 0; f < d->n_files; f++)
        if (d->files[f].kind == DEVICE_COLLECTIVES) YOKE_TRY(put_file(page, &d->files[f]));
    return YOKE_OK;
}
