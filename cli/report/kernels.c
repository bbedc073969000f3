/* SPDX-License-Identifier: Apache-2.0 */
/* The page of one or two files of yoke bench kernels: a row for each operation, a column for each device. */
#include "cli/compare/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/report/svg.h"
#include "core/base/base.h"

/* LONGEST: the end of the axis in percent. Operations whose data fit a cache exceed the limit of memory. */
enum { MOST_DEVICES = 2, MOST_BARS = 200, LONGEST = 200 };

struct devices {
    char *const *paths;
    struct compare_file files[MOST_DEVICES];
    int n;
};

/* The share of the device's own limit in percent; NaN: not known. An emulated device has no times. */
static double share_of(const struct compare_file *file, const struct compare_kernel *k)
{
    return !file->emulated && k && k->seconds > 0 && k->limit > 0 ? 100 * k->limit / k->seconds : NAN;
}

static void name_of(const struct compare_kernel *k, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s %s (%s: %s)", k->op, k->dtype, k->size, k->dims);
}

/* Whether no file before has this row. */
static bool is_first(const struct devices *d, int file, const struct compare_kernel *k)
{
    for (int f = 0; f < file; f++)
        if (compare_file_row(&d->files[f], k)) return false;
    return compare_file_row(&d->files[file], k) == k;
}

/* Call `put` with each operation, and its row in each file (NULL: none). */
static void each_row(const struct devices *d,
                     void (*put)(void *context, const struct compare_kernel *const rows[MOST_DEVICES]),
                     void *context)
{
    for (int f = 0; f < d->n; f++)
        for (int64_t i = 0; i < d->files[f].n_rows; i++) {
            const struct compare_kernel *k = &d->files[f].rows[i], *rows[MOST_DEVICES] = { NULL };
            if (!is_first(d, f, k)) continue;
            for (int g = 0; g < d->n; g++) rows[g] = compare_file_row(&d->files[g], k);
            put(context, rows);
        }
}

/* ---- the result ---- */

static void put_device(struct report_page *page, const struct compare_file *file)
{
    const struct compare_kernel *least = NULL;
    double *shares = calloc((size_t)file->n_rows, sizeof *shares);
    char name[300];
    for (int64_t i = 0; i < file->n_rows && shares; i++) {
        shares[i] = share_of(file, &file->rows[i]);
        if (isfinite(shares[i]) && (!least || shares[i] < share_of(file, least))) least = &file->rows[i];
    }
    if (file->emulated)
        report_item(page, "%s is emulated. Its work is counted, and its times are no times.", file->device);
    else if (least) {
        name_of(least, name, sizeof name);
        report_item(
            page,
            "%s reaches half of the rows with %.4g %% of its own limit or more. The least is %.4g %%: %s.",
            file->device, report_median(shares, (size_t)file->n_rows), share_of(file, least), name);
    } else
        report_item(page, "%s has no row with a speed and a limit.", file->device);
    free(shares);
}

/* ---- the table ---- */

struct put_rows {
    struct report_page *page;
    const struct devices *devices;
};

/* Whether the results were checked and found right. Otherwise the file may have no error of them. */
static bool is_right(const struct compare_kernel *k)
{
    return k && k->checked && k->checked[0] && !(k->reason && k->reason[0]);
}

static void put_device_cells(struct report_page *page, const struct compare_file *file,
                             const struct compare_kernel *k)
{
    const double share = share_of(file, k);
    char text[200];
    if (!k)
        report_cell(page, "not in this file");
    else if (isfinite(share))
        report_number(page, share, "%.3g");
    else if (k->counts.size) {
        yokei_text(text, sizeof text, "counted: %" PRId64 " instructions, %" PRId64 " bytes",
                   k->counts.instructions, k->counts.bytes_loaded + k->counts.bytes_stored);
        report_cell(page, text);
    } else
        report_cell(page, k->reason && k->reason[0] ? k->reason : "-");
    report_number(page, k && !file->emulated && k->seconds > 0 ? 1e6 * k->seconds : NAN, "%.5g");
    report_number(page, is_right(k) ? k->error : NAN, "%.3g");
    report_cell(page, k ? k->variant : "");
}

static void put_row(void *context, const struct compare_kernel *const rows[MOST_DEVICES])
{
    const struct put_rows *p = context;
    char name[300];
    name_of(rows[0] ? rows[0] : rows[1], name, sizeof name);
    report_row_begin(p->page);
    report_cell(p->page, name);
    for (int f = 0; f < p->devices->n; f++) put_device_cells(p->page, &p->devices->files[f], rows[f]);
    report_row_end(p->page);
}

static void put_table(struct report_page *page, const struct devices *d)
{
    char text[4 * MOST_DEVICES][160];
    const char *heads[1 + 4 * MOST_DEVICES] = { "operation" };
    for (int f = 0; f < d->n; f++) {
        yokei_text(text[4 * f], sizeof text[0], "%s: %% of its limit", d->files[f].device);
        yokei_text(text[4 * f + 1], sizeof text[0], "%s: us", d->files[f].device);
        yokei_text(text[4 * f + 2], sizeof text[0], "%s: error / bound", d->files[f].device);
        yokei_text(text[4 * f + 3], sizeof text[0], "%s: variant", d->files[f].device);
        for (int i = 0; i < 4; i++) heads[1 + 4 * f + i] = text[4 * f + i];
    }
    report_table_begin(page, heads, 1 + 4 * d->n);
    each_row(d, put_row, &(struct put_rows){ page, d });
    report_table_end(page);
}

/* ---- the chart ---- */

struct chart {
    const struct devices *devices;
    struct svg_bar bars[MOST_BARS];
    double shares[MOST_BARS][MOST_DEVICES];
    char labels[MOST_BARS][80];
    int n, n_left_out;
    double least, most;
    char least_name[160];
};

static void add_bar(void *context, const struct compare_kernel *const rows[MOST_DEVICES])
{
    struct chart *c = context;
    const struct compare_kernel *k = rows[0] ? rows[0] : rows[1];
    double shares[MOST_DEVICES] = { NAN, NAN };
    bool any = false;
    for (int f = 0; f < c->devices->n; f++) {
        shares[f] = share_of(&c->devices->files[f], rows[f]);
        any = any || isfinite(shares[f]);
        c->most = fmax(c->most, shares[f]);
        if (!(shares[f] < c->least)) continue;
        c->least = shares[f];
        yokei_text(c->least_name, sizeof c->least_name, "%s %s on %s", k->op, k->dtype,
                   c->devices->files[f].device);
    }
    if (!any) return;
    if (c->n == MOST_BARS) {
        c->n_left_out++;
        return;
    }
    memcpy(c->shares[c->n], shares, sizeof shares);
    yokei_text(c->labels[c->n], sizeof c->labels[0], "%s %s %s", k->op, k->dtype, k->size);
    c->bars[c->n] = (struct svg_bar){ c->labels[c->n], c->shares[c->n], NAN };
    c->n++;
}

static void put_chart(struct report_page *page, const struct devices *d)
{
    struct chart *c = calloc(1, sizeof *c);
    const char *const names[MOST_DEVICES] = { d->files[0].device, d->files[1].device };
    char title[256];
    if (!c) return;
    c->devices = d;
    c->least = INFINITY;
    each_row(d, add_bar, c);
    if (c->n_left_out)
        report_paragraph(page, "The chart has the first %d operations. The table also has the other %d.",
                         c->n, c->n_left_out);
    yokei_text(title, sizeof title, "%s has the lowest share of its device's own limit: %.3g %%.",
               c->least_name, c->least);
    if (c->n)
        svg_bars(page, &(struct svg_bars){ .title = title,
                                           .unit = "% of the device's own limit",
                                           .names = names,
                                           .n_parts = d->n,
                                           .bars = c->bars,
                                           .n_bars = c->n,
                                           .beside = true,
                                           .most = fmin(fmax(c->most, 100), LONGEST) });
    if (c->most > LONGEST)
        report_paragraph(
            page, "A bar that reaches the end of the axis stands for %d %% or more. The table has the value.",
            LONGEST);
    free(c);
}

/* ---- the page ---- */

static void put_page(struct report_page *page, const struct devices *d)
{
    char title[300];
    yokei_text(title, sizeof title, "Kernels of %s%s%s", d->files[0].device, d->n > 1 ? " and " : "",
               d->n > 1 ? d->files[1].device : "");
    report_begin(page, title);
    report_heading(page, "Result");
    report_list_begin(page);
    for (int f = 0; f < d->n; f++) put_device(page, &d->files[f]);
    report_list_end(page);
    report_heading(page, "Files");
    static const char *const heads[] = { "file", "device", "emulated", "yoke", "rows" };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int f = 0; f < d->n; f++) {
        report_row_begin(page);
        report_cell(page, d->paths[f]);
        report_cell(page, d->files[f].device);
        report_cell(page, d->files[f].emulated ? "yes" : "no");
        report_cell(page, d->files[f].version);
        report_number(page, (double)d->files[f].n_rows, "%.0f");
        report_row_end(page);
    }
    report_table_end(page);
    report_heading(page, "Operations");
    put_chart(page, d);
    put_table(page, d);
    report_end(page);
}

yoke_status report_of_kernels(struct report_page *page, char *const paths[], int n_paths)
{
    struct devices d = { .paths = paths };
    yoke_status status = YOKE_OK;
    for (int i = 0; i < n_paths && !status; i++) {
        status = compare_file_read(paths[i], &d.files[i]);
        if (!status) d.n++;
    }
    if (status)
        status = yoke_fail_context(status,
                                   "yoke report needs run directories, or files that yoke bench kernels "
                                   "-o FILE.json has written");
    if (!status) put_page(page, &d);
    for (int i = 0; i < d.n; i++) compare_file_free(&d.files[i]);
    return status;
}
