/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of devices: a row for each operation and type, a column for each device, with the share that
 * the operation reaches of the device's own limit. A second table has the same by size.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

/*
 * In percent: LONGEST: the end of the axis. ABOVE: a share that shows a limit that was measured too low.
 * Operations whose data fit a cache exceed the limit of memory.
 */
enum { MOST_BARS = 16, MOST_PARTS = 7, LONGEST = 200, ABOVE = 150 };

/* ---- the result ---- */

static void put_result(struct report_page *page, const struct devices *d, const struct device_ops *ops, int c)
{
    const struct device_column *column = &d->columns[c];
    const struct device_op *least = NULL;
    double *shares = calloc((size_t)ops->n + 1, sizeof *shares);
    int n_wrong = 0, n_above = 0;
    const char *wrong = NULL;
    char text[2][REPORT_REAL];
    size_t n = 0;
    for (int64_t i = 0; i < ops->n && shares; i++) {
        const struct device_work *w = &ops->ops[i].on[c];
        const double share = device_share(column, w);
        if (w->n_wrong && !n_wrong) wrong = ops->ops[i].op;
        n_wrong += w->n_wrong;
        if (!isfinite(share)) continue;
        shares[n++] = share;
        n_above += share > ABOVE;
        if (!least || share < device_share(column, &least->on[c])) least = &ops->ops[i];
    }
    if (n_wrong)
        report_item(page, "%s computes wrong results in %d rows of its kernels, first in %s.", column->label,
                    n_wrong, wrong);
    if (column->emulated)
        report_item(page, "%s is emulated. Its work is counted. Its times say nothing about a real device.",
                    column->label);
    else if (least)
        report_item(
            page,
            "%s reaches %s %% of its own limit or more in half of the operations and types. The least "
            "is %s %%: %s %s.",
            column->label, report_short(report_median(shares, n), text[0]),
            report_short(device_share(column, &least->on[c]), text[1]), least->op, least->dtype);
    else
        report_item(page, "%s has no row with a speed and a limit.", column->label);
    if (n_above)
        report_item(
            page,
            "%s exceeds its own limit by half or more in %d of %zu operations and types. Their limit was "
            "measured too low, as on a busy machine or for very small data.",
            column->label, n_above, n);
    free(shares);
}

void device_kernels_result(struct report_page *page, const struct devices *d)
{
    struct device_ops ops;
    if (device_ops_read(d, false, &ops)) return;
    for (int c = 0; c < d->n_columns; c++)
        if (d->columns[c].kernels) put_result(page, d, &ops, c);
    device_ops_free(&ops);
}

/* ---- the chart ---- */

struct chart {
    struct svg_bar bars[MOST_BARS];
    double shares[MOST_BARS][MOST_PARTS];
    char labels[MOST_BARS][80];
};

/* The columns with times, at most MOST_PARTS. Returns their number. */
static int timed_columns(const struct devices *d, int *columns_out)
{
    int n = 0;
    for (int c = 0; c < d->n_columns && n < MOST_PARTS; c++)
        if (d->columns[c].kernels && !d->columns[c].emulated) columns_out[n++] = c;
    return n;
}

static void put_bars(struct report_page *page, const struct devices *d, const struct device_ranked *ranked,
                     int64_t n_ranked, const int *columns, int n_columns)
{
    const char *names[MOST_PARTS];
    char title[300];
    struct chart *c = calloc(1, sizeof *c);
    const int n = (int)YOKE_MIN(n_ranked, MOST_BARS);
    double most = 0;
    int worst = 0;
    if (!c) return;
    for (int p = 0; p < n_columns; p++) {
        names[p] = d->columns[columns[p]].label;
        if (device_share(&d->columns[columns[p]], &ranked[0].op->on[columns[p]]) == ranked[0].value)
            worst = p;
    }
    for (int b = 0; b < n; b++) {
        yokei_text(c->labels[b], sizeof c->labels[b], "%s %s", ranked[b].op->op, ranked[b].op->dtype);
        for (int p = 0; p < n_columns; p++) {
            c->shares[b][p] = device_share(&d->columns[columns[p]], &ranked[b].op->on[columns[p]]);
            most = fmax(most, c->shares[b][p]);
        }
        c->bars[b] = (struct svg_bar){ c->labels[b], c->shares[b], 100 };
    }
    yokei_text(title, sizeof title, "%s on %s has the lowest share of its device's own limit: %.3g %%.",
               c->labels[0], names[worst], ranked[0].value);
    svg_bars(page, &(struct svg_bars){ .title = title,
                                       .unit = "% of the device's own limit",
                                       .names = names,
                                       .n_parts = n_columns,
                                       .bars = c->bars,
                                       .n_bars = n,
                                       .beside = true,
                                       .most = fmin(fmax(most, 100), LONGEST) });
    if (n_ranked > n)
        report_paragraph(page,
                         "The chart has the %d operations with the lowest shares. The table has all %" PRId64
                         ".",
                         n, n_ranked);
    if (most > LONGEST)
        report_paragraph(
            page, "A bar that reaches the end of the axis stands for %d %% or more. The table has the value.",
            LONGEST);
    free(c);
}

static void put_chart(struct report_page *page, const struct devices *d, const struct device_ops *ops)
{
    int columns[MOST_PARTS];
    const int n_columns = timed_columns(d, columns);
    struct device_ranked *ranked = calloc((size_t)ops->n, sizeof *ranked);
    int64_t n = 0;
    for (int64_t i = 0; i < ops->n && ranked; i++) {
        double least = NAN;
        for (int p = 0; p < n_columns; p++)
            least = fmin(least, device_share(&d->columns[columns[p]], &ops->ops[i].on[columns[p]]));
        if (isfinite(least)) ranked[n++] = (struct device_ranked){ &ops->ops[i], least };
    }
    if (n) {
        qsort(ranked, (size_t)n, sizeof *ranked, device_by_value);
        put_bars(page, d, ranked, n, columns, n_columns);
    }
    free(ranked);
}

/* ---- a row for each operation and type, a column for each device ---- */

/* A number inside a cell. The HTML also has all of its digits. */
static void put_value(struct report_page *page, double value, const char *format)
{
    char text[64];
    snprintf(text, sizeof text, format, value);
    if (page->markdown)
        fputs(text, page->to);
    else
        fprintf(page->to, "<data value=\"%.17g\">%s</data>", value, text);
}

static void put_cell(struct report_page *page, const struct device_column *column,
                     const struct device_work *w)
{
    const double share = device_share(column, w);
    const bool counted = column->emulated && w->instructions > 0;
    if (!w->row || w->n_wrong || (!isfinite(share) && !counted)) {
        report_cell(page, !w->row ? "not in this file" : w->reason ? w->reason : "-");
        return;
    }
    fputs(page->markdown ? " " : "<td class=\"n\">", page->to);
    if (!counted) {
        put_value(page, share, "%.3g");
        fputs(" %", page->to);
        if (w->row->limited_by[0]) {
            fputs(" of ", page->to);
            report_put(page, w->row->limited_by);
        }
        if (isfinite(w->error)) {
            fputs(", error ", page->to);
            put_value(page, w->error, "%.3g");
        }
    } else if (w->least_bytes > 0) {
        put_value(page, w->instructions / w->least_bytes, "%.3g");
        fputs(" instructions/byte, ", page->to);
        put_value(page, w->bytes / w->least_bytes, "%.3g");
        fputs(" times the least bytes", page->to);
    } else {
        put_value(page, w->instructions, "%.6g");
        fputs(" instructions, ", page->to);
        put_value(page, w->bytes, "%.6g");
        fputs(" bytes", page->to);
    }
    fputs(page->markdown ? " |" : "</td>", page->to);
}

static void put_left_out(struct report_page *page, int64_t n)
{
    if (n > DEVICE_MOST_ROWS)
        report_paragraph(page, "%" PRId64 " more rows are not shown.", n - DEVICE_MOST_ROWS);
}

static void put_table(struct report_page *page, const struct devices *d, const struct device_ops *ops)
{
    static char text[DEVICE_MOST_FILES][DEVICE_NAME + 16];
    const char *heads[1 + DEVICE_MOST_FILES] = { "operation and type" };
    int n = 1;
    for (int c = 0; c < d->n_columns; c++) {
        if (!d->columns[c].kernels) continue;
        yokei_text(text[c], sizeof text[c], "%s%s", d->columns[c].label,
                   d->columns[c].emulated ? ", counted" : "");
        heads[n++] = text[c];
    }
    report_table_begin(page, heads, n);
    for (int64_t i = 0; i < YOKE_MIN(ops->n, DEVICE_MOST_ROWS); i++) {
        char name[80];
        yokei_text(name, sizeof name, "%s %s", ops->ops[i].op, ops->ops[i].dtype);
        report_row_begin(page);
        report_cell(page, name);
        for (int c = 0; c < d->n_columns; c++)
            if (d->columns[c].kernels) put_cell(page, &d->columns[c], &ops->ops[i].on[c]);
        report_row_end(page);
    }
    report_table_end(page);
    put_left_out(page, ops->n);
}

yoke_status device_kernels(struct report_page *page, const struct devices *d)
{
    struct device_ops ops;
    YOKE_TRY(device_ops_read(d, false, &ops));
    if (ops.n) {
        report_heading(page, "Kernels");
        put_chart(page, d, &ops);
        report_paragraph(
            page, "A cell has the share that the operation reaches of the device's own measured limit, and "
                  "the largest error relative to its bound. The share is the least time that the limits "
                  "allow, divided by the measured time. Both are sums over all sizes. The cell names the "
                  "limit of the size that moves the most bytes: memory or arithmetic.");
        put_table(page, d, &ops);
    }
    device_ops_free(&ops);
    return YOKE_OK;
}

/* ---- by size ---- */

static void put_size_cells(struct report_page *page, const struct device_column *column,
                           const struct compare_kernel *k)
{
    const double share = device_row_share(column, k);
    char text[200];
    if (!k)
        report_cell(page, "not in this file");
    else if (isfinite(share))
        report_number(page, share, "%.3g");
    else if (k->counts.size) {
        yokei_text(text, sizeof text, "counted: %" PRId64 " instructions, %.0f bytes", k->counts.instructions,
                   (double)k->counts.bytes_loaded + (double)k->counts.bytes_stored);
        report_cell(page, text);
    } else
        report_cell(page, k->reason && k->reason[0] ? k->reason : "-");
    report_number(page, k && !column->emulated && k->seconds > 0 ? 1e6 * k->seconds : NAN, "%.5g");
    report_number(page, device_row_is_right(k) ? k->error : NAN, "%.3g");
    report_cell(page, k ? k->variant : "");
}

static void put_size_heads(struct report_page *page, const struct devices *d)
{
    static const char *const columns[] = { "% of its limit", "us", "error / bound", "variant" };
    enum { EACH = (int)YOKE_COUNT(columns) };
    static char text[EACH * DEVICE_MOST_FILES][DEVICE_NAME + 32];
    const char *heads[1 + EACH * DEVICE_MOST_FILES] = { "operation" };
    int n = 0;
    for (int c = 0; c < d->n_columns; c++)
        for (int i = 0; i < EACH && d->columns[c].kernels; i++, n++) {
            yokei_text(text[n], sizeof text[n], "%s: %s", d->columns[c].label, columns[i]);
            heads[1 + n] = text[n];
        }
    report_table_begin(page, heads, 1 + n);
}

yoke_status device_sizes(struct report_page *page, const struct devices *d)
{
    struct device_ops ops;
    YOKE_TRY(device_ops_read(d, true, &ops));
    if (ops.n) {
        report_heading(page, "Kernels by size");
        put_size_heads(page, d);
        for (int64_t i = 0; i < YOKE_MIN(ops.n, DEVICE_MOST_ROWS); i++) {
            const struct compare_kernel *k = ops.ops[i].first;
            char name[500];
            yokei_text(name, sizeof name, "%s %s (%s: %s)", k->op, k->dtype, k->size, k->dims);
            report_row_begin(page);
            report_cell(page, name);
            for (int c = 0; c < d->n_columns; c++)
                if (d->columns[c].kernels) put_size_cells(page, &d->columns[c], ops.ops[i].on[c].row);
            report_row_end(page);
        }
        report_table_end(page);
        put_left_out(page, ops.n);
    }
    device_ops_free(&ops);
    return YOKE_OK;
}
