/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rooflines: for each device the rates of its operations beside its measured limits. The horizontal axis is
 * the arithmetic intensity, operations for each byte. The roof is the lower one of two limits: the rate of
 * memory times the intensity, and the rate of arithmetic.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

enum { TYPES = 4, ROOF_POINTS = 3, HIGH = 360 };
static const char *const type_names[TYPES] = { "f32", "bf16", "f16", "f64" };

/* The points of one type, those that are furthest from their limits first. */
struct points {
    double *x, *y;
    const char **names;
    size_t n;
};

struct roofline {
    const struct device_column *column;
    struct device_ranked *ops; /* [n], in the order of the share */
    int64_t n;
    int index; /* of the column */
    /* Bytes per second of the limit of memory: of the row that moves the most bytes, and the fastest one. */
    double memory, fastest;
    double most_bytes;
    double x0, x1; /* ends of the roofs */
    struct points points[TYPES];
    double roof_x[TYPES + 1][ROOF_POINTS], roof_y[TYPES + 1][ROOF_POINTS];
};

static double peak_of(const struct roofline *r, int type)
{
    const struct compare_peaks *p = &r->column->kernels->kernels.peaks;
    const double peaks[TYPES] = { p->f32, p->bf16, p->f16, p->f64 };
    return peaks[type];
}

static int type_of(const char *dtype)
{
    for (int t = 0; t < TYPES; t++)
        if (!strcmp(type_names[t], dtype)) return t;
    return -1;
}

static double intensity(const struct compare_kernel *k) { return k->flop_per_s / k->bytes_per_s; }

static bool has_point(const struct compare_kernel *k)
{
    return k && k->seconds > 0 && k->limit > 0 && k->flop_per_s > 0 && k->bytes_per_s > 0
           && isfinite(intensity(k)) && type_of(k->dtype) >= 0;
}

static const struct compare_kernel *row_of(const struct roofline *r, int64_t i)
{
    return r->ops[i].op->on[r->index].row;
}

/* The rates of memory that the file's limits show. */
static void find_memory(struct roofline *r)
{
    const struct compare_file *file = &r->column->kernels->kernels;
    for (int64_t i = 0; i < file->n_rows; i++) {
        const struct compare_kernel *k = &file->rows[i];
        const double bytes = k->bytes_per_s * k->seconds, rate = bytes / k->limit;
        if (!has_point(k) || strcmp(k->limited_by, "memory") || !(rate < 1e300)) continue;
        r->fastest = fmax(r->fastest, rate);
        if (bytes > r->most_bytes) r->most_bytes = bytes, r->memory = rate;
    }
}

/* The operations that have a point, and the points by type. */
static bool find_points(struct roofline *r, const struct device_ops *ops)
{
    r->ops = calloc((size_t)ops->n + 1, sizeof *r->ops);
    if (!r->ops) return false;
    for (int64_t i = 0; i < ops->n; i++) {
        const struct compare_kernel *k = ops->ops[i].on[r->index].row;
        if (has_point(k))
            r->ops[r->n++] = (struct device_ranked){ &ops->ops[i], device_row_share(r->column, k) };
    }
    qsort(r->ops, (size_t)r->n, sizeof *r->ops, device_by_value);
    r->x0 = INFINITY, r->x1 = 0;
    for (int t = 0; t < TYPES; t++) {
        struct points *p = &r->points[t];
        p->x = calloc((size_t)r->n + 1, sizeof *p->x);
        p->y = calloc((size_t)r->n + 1, sizeof *p->y);
        p->names = calloc((size_t)r->n + 1, sizeof *p->names);
        if (!p->x || !p->y || !p->names) return false;
    }
    for (int64_t i = 0; i < r->n; i++) {
        const struct compare_kernel *k = row_of(r, i);
        struct points *p = &r->points[type_of(k->dtype)];
        p->x[p->n] = intensity(k), p->y[p->n] = 1e-9 * k->flop_per_s, p->names[p->n++] = k->op;
        r->x0 = fmin(r->x0, intensity(k) / 1.5), r->x1 = fmax(r->x1, intensity(k) * 1.5);
    }
    return true;
}

static void free_points(struct roofline *r)
{
    for (int t = 0; t < TYPES; t++) {
        free(r->points[t].x);
        free(r->points[t].y);
        free(r->points[t].names);
    }
    free(r->ops);
}

/* A roof from the left end over the ridge to the right end. Returns the number of its points. */
static size_t roof(const struct roofline *r, double rate, double peak, double *x, double *y)
{
    size_t n = 0;
    const double ridge = peak / rate;
    rate *= 1e-9, peak *= 1e-9; /* the axis counts in GFLOP/s */
    x[n] = r->x0, y[n++] = fmin(rate * r->x0, peak);
    if (ridge > r->x0 && ridge < r->x1) x[n] = ridge, y[n++] = peak;
    x[n] = r->x1, y[n++] = fmin(rate * r->x1, peak);
    return n;
}

/* The finding: the operations that are furthest from each of the two limits. */
static void find_title(const struct roofline *r, char *title, size_t bytes)
{
    static const char *const limits[] = { "memory", "arithmetic" };
    int n = 0;
    yokei_text(title, bytes, "On %s", r->column->label);
    for (size_t l = 0; l < YOKE_COUNT(limits); l++)
        for (int64_t i = 0; i < r->n; i++) {
            const struct compare_kernel *k = row_of(r, i);
            if (strcmp(k->limited_by, limits[l])) continue;
            const size_t at = strlen(title);
            yokei_text(title + at, bytes - at, "%s %s %s %s %.3g %% of the limit of %s", n ? ", and" : ",",
                       k->op, k->dtype, n ? "at" : "runs at", device_row_share(r->column, k), limits[l]);
            n++;
            break;
        }
    const size_t at = strlen(title);
    yokei_text(title + at, bytes - at, "%s",
               !n         ? " the file does not say which limit holds."
               : r->n > n ? "; all other operations are nearer to their limits."
                          : ".");
}

static void put_chart(struct report_page *page, struct roofline *r)
{
    struct svg_series series[2 * TYPES + 1];
    char names[TYPES + 1][100], title[400];
    int n = 0;
    double top = 0;
    for (int t = 0; t < TYPES; t++) {
        const double peak = peak_of(r, t);
        if (!(r->memory > 0) || !(peak > 0) || !r->points[t].n) continue;
        top = fmax(top, peak);
        yokei_text(names[t], sizeof names[t], "limit of %s: %.4g GFLOP/s, %.4g GB/s", type_names[t],
                   1e-9 * peak, 1e-9 * r->memory);
        series[n] = (struct svg_series){ names[t], r->roof_x[t], r->roof_y[t], .colour = t };
        series[n++].n = roof(r, r->memory, peak, r->roof_x[t], r->roof_y[t]);
    }
    if (r->fastest > r->memory && top > 0) {
        yokei_text(names[TYPES], sizeof names[TYPES], "fastest memory: %.4g GB/s", 1e-9 * r->fastest);
        series[n] = (struct svg_series){ names[TYPES], r->roof_x[TYPES], r->roof_y[TYPES], .colour = 6 };
        series[n++].n = roof(r, r->fastest, top, r->roof_x[TYPES], r->roof_y[TYPES]);
    }
    for (int t = 0; t < TYPES; t++) {
        const struct points *p = &r->points[t];
        if (p->n) series[n++] = (struct svg_series){ type_names[t], p->x, p->y, p->n, t, .names = p->names };
    }
    find_title(r, title, sizeof title);
    svg_lines(page, &(struct svg_chart){ .title = title,
                                         .x_name = "FLOP/byte",
                                         .y_name = "GFLOP/s",
                                         .series = series,
                                         .n_series = n,
                                         .log_x = true,
                                         .log_y = true,
                                         .high = HIGH });
}

static void put_rows(struct report_page *page, const struct roofline *r)
{
    for (int64_t i = 0; i < YOKE_MIN(r->n, DEVICE_MOST_ROWS); i++) {
        const struct compare_kernel *k = row_of(r, i);
        char name[500];
        yokei_text(name, sizeof name, "%s %s (%s: %s)", k->op, k->dtype, k->size, k->dims);
        report_row_begin(page);
        report_cell(page, r->column->label);
        report_cell(page, name);
        report_number(page, intensity(k), "%.4g");
        report_number(page, 1e-9 * k->flop_per_s, "%.4g");
        report_number(page, 1e-9 * k->bytes_per_s, "%.4g");
        report_cell(page, k->limited_by[0] ? k->limited_by : "-");
        report_number(page, device_row_share(r->column, k), "%.3g");
        report_row_end(page);
    }
}

/* Read the roofline of column c. False: it has no point. The caller frees the points in any case. */
static bool read_roofline(const struct devices *d, const struct device_ops *ops, int c, struct roofline *r)
{
    *r = (struct roofline){ .column = &d->columns[c], .index = c };
    if (!d->columns[c].kernels || d->columns[c].emulated) return false;
    if (!find_points(r, ops) || !r->n) return false;
    find_memory(r);
    return true;
}

static void put_lines(struct report_page *page, const struct devices *d, const struct device_ops *ops)
{
    static const char *const heads[] = { "device",        "operation, at the size of the point",
                                         "FLOP/byte",     "GFLOP/s",
                                         "GB/s",          "limited by",
                                         "% of the limit" };
    struct roofline r;
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int c = 0; c < d->n_columns; c++) {
        if (read_roofline(d, ops, c, &r)) put_rows(page, &r);
        free_points(&r);
    }
    report_table_end(page);
}

yoke_status device_rooflines(struct report_page *page, const struct devices *d)
{
    struct device_ops ops;
    struct roofline r;
    bool any = false;
    YOKE_TRY(device_ops_read(d, false, &ops));
    for (int c = 0; c < d->n_columns; c++) {
        if (read_roofline(d, &ops, c, &r)) {
            if (!any) {
                report_heading(page, "Rooflines");
                report_charts_begin(page);
            }
            any = true;
            put_chart(page, &r);
        }
        free_points(&r);
    }
    if (any) {
        report_charts_end(page);
        report_paragraph(
            page, "A point is an operation at the size that moves the most bytes. The limits are measured. "
                  "The rate of memory is that of the largest size, and the fastest one is that of a "
                  "size whose data may stay in caches. An operation that is not a product computes in "
                  "f32, so the arithmetic limit of f32 holds for it.");
        put_lines(page, d, &ops);
    }
    device_ops_free(&ops);
    return YOKE_OK;
}
