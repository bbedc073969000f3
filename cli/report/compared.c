/* SPDX-License-Identifier: Apache-2.0 */
/* Files of yoke compare --json: two devices, or two runs. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

enum { MOST_BARS = 16 };

static bool is_kernels(const struct device_file *file)
{
    return !strcmp(device_text(file->root, "kind"), "kernels");
}
static bool compares(const struct device_file *file, const char *what)
{
    return !strcmp(device_text(file->root, "compared"), what);
}
static const json_t *side_of(const json_t *object, int side)
{
    return json_object_get(object, side ? "new" : "old");
}

static bool is_whole(const json_t *row)
{
    return device_text(row, "op")[0] && device_text(row, "dtype")[0] && json_is_object(side_of(row, 0))
           && json_is_object(side_of(row, 1));
}

void device_compared_check(struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    size_t i, n = 0;
    if (!is_kernels(file) && strcmp(device_text(file->root, "kind"), "runs"))
        yokei_text(file->problem, sizeof file->problem,
                   "%s: it compares neither kernels nor runs, so it is left out", file->path);
    json_array_foreach(rows, i, row) n += !is_whole(row);
    if (n)
        yokei_text(file->problem, sizeof file->problem,
                   "%s: %zu of %zu rows lack op, dtype, old or new, and are left out", file->path, n, i);
}

/* ---- the result ---- */

static void put_kernels_result(struct report_page *page, const struct device_file *file)
{
    const json_t *root = file->root, *old = side_of(root, 0), *new = side_of(root, 1);
    const double held = device_number(root, "held"), below = device_number(root, "below"),
                 threshold = device_number(root, "threshold");
    const char *advice = device_text(root, "look_first");
    char count[2][REPORT_REAL];
    report_item(page, "%s compares %.80s (new) with %.80s (old): %zu operations.%s%.600s%s", file->path,
                device_text(new, "device"), device_text(old, "device"), file->n_rows,
                advice[0] ? " Look first at " : "", advice, advice[0] ? "." : "");
    if (isfinite(threshold))
        report_item(page, "%s: %s of %s ratios are below the threshold %.6g.", file->path,
                    device_count(below, count[0]), device_count(held, count[1]), threshold);
}

static void put_runs_result(struct report_page *page, const struct device_file *file)
{
    const json_t *root = file->root, *parted = json_object_get(root, "parted");
    const double speed = device_number(root, "tokens_per_second_ratio");
    char number[4][REPORT_REAL];
    report_item(page, "%s compares the runs %.200s (old) and %.200s (new).", file->path,
                device_text(side_of(root, 0), "folder"), device_text(side_of(root, 1), "folder"));
    if (json_is_object(parted))
        report_item(page, "%s: the losses part at step %s: %s and %s, %s apart.", file->path,
                    device_count(device_number(parted, "step"), number[3]),
                    report_real(device_number(parted, "old"), number[0]),
                    report_real(device_number(parted, "new"), number[1]),
                    report_real(device_number(parted, "relative"), number[2]));
    else if (json_is_true(json_object_get(root, "agree")))
        report_item(page, "%s: the losses of %s steps are within the gates.", file->path,
                    device_count(device_number(root, "steps_held"), number[0]));
    else
        report_item(page, "%s: the losses are held to no gate.", file->path);
    if (isfinite(speed))
        report_item(page, "%s: the new run is %s times as fast as the old one.", file->path,
                    report_real(speed, number[0]));
}

void device_compared_result(struct report_page *page, const struct devices *d)
{
    for (int f = 0; f < d->n_files; f++)
        if (d->files[f].kind == DEVICE_COMPARISON)
            (is_kernels(&d->files[f]) ? put_kernels_result : put_runs_result)(page, &d->files[f]);
}

/* ---- kernels ---- */

struct bar {
    const json_t *row;
    double values[2], least; /* values: of the two bars, in percent; least: the smaller ratio */
};

static int by_least(const void *a, const void *b)
{
    const struct bar *x = a, *y = b;
    return (x->least > y->least) - (x->least < y->least);
}

/* What the bars of a row are: shares of the limits, or counted work. */
static struct bar bar_of(const struct device_file *file, const json_t *row)
{
    struct bar bar = { row, { NAN, NAN }, NAN };
    if (compares(file, "counts")) {
        bar.values[0] = 100 * device_number(row, "instructions_ratio");
        bar.values[1] = 100 * device_number(row, "bytes_ratio");
        bar.least = fmin(bar.values[0], bar.values[1]) / 100;
    } else {
        for (int s = 0; s < 2; s++) bar.values[s] = 100 * device_number(side_of(row, s), "share_of_limit");
        bar.least = device_number(row, "share_ratio");
    }
    return bar;
}

static void put_bars(struct report_page *page, const struct device_file *file, const struct bar *sorted,
                     int n)
{
    struct svg_bar bars[MOST_BARS];
    char labels[MOST_BARS][160], title[400];
    const bool counts = compares(file, "counts");
    const char *const shares[] = { "old, share of the limit", "new, share of the limit" }, *const work[] = {
        "instructions, old / new", "bytes, old / new"
    };
    for (int b = 0; b < n; b++) {
        const json_t *row = sorted[b].row;
        yokei_text(labels[b], sizeof labels[b], "%.48s %.8s (%.80s)", device_text(row, "op"),
                   device_text(row, "dtype"), device_text(row, "size"));
        bars[b] = (struct svg_bar){ labels[b], sorted[b].values, 100 };
    }
    yokei_text(title, sizeof title,
               counts ? "%s does the most additional work: its least ratio of old to new is %.3g."
                      : "%s lost most: its share of the device's limit is %.3g times the old one.",
               labels[0], sorted[0].least);
    if (!counts && sorted[0].least >= 1)
        yokei_text(title, sizeof title, "No share fell: the least ratio of new to old is %.3g, %s.",
                   sorted[0].least, labels[0]);
    svg_bars(page, &(struct svg_bars){ .title = title,
                                       .unit = "%",
                                       .names = counts ? work : shares,
                                       .n_parts = 2,
                                       .bars = bars,
                                       .n_bars = n,
                                       .beside = true,
                                       .most = 200 });
    report_paragraph(page,
                     "The chart has the %d operations with the lowest ratios. A bar that reaches the end of "
                     "the axis stands for 200 %% or more.",
                     n);
}

static void put_chart(struct report_page *page, const struct device_file *file)
{
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    struct bar *sorted = calloc(json_array_size(rows) + 1, sizeof *sorted);
    size_t i, n = 0;
    json_array_foreach(rows, i, row)
    {
        if (!sorted || !is_whole(row)) continue;
        const struct bar bar = bar_of(file, row);
        if (bar.least > 0 && isfinite(bar.least)) sorted[n++] = bar;
    }
    if (n) {
        qsort(sorted, n, sizeof *sorted, by_least);
        put_bars(page, file, sorted, (int)YOKE_MIN(n, MOST_BARS));
    }
    free(sorted);
}

static void put_row(struct report_page *page, const json_t *row)
{
    static const char *const ratios[] = { "time_ratio", "share_ratio", "instructions_ratio", "bytes_ratio" };
    char *name = NULL;
    if (asprintf(&name, "%s %s (%s: %s)", device_text(row, "op"), device_text(row, "dtype"),
                 device_text(row, "size"), device_text(row, "dims"))
        < 0)
        return;
    report_row_begin(page);
    report_cell(page, name);
    free(name);
    for (int s = 0; s < 2; s++) {
        const json_t *side = side_of(row, s);
        report_cell(page, device_text(side, "reason")[0] ? device_text(side, "reason")
                                                         : device_text(side, "variant"));
        report_number(page, 1e6 * device_number(side, "seconds"), "%.5g");
        report_number(page, 100 * device_number(side, "share_of_limit"), "%.4g");
    }
    for (size_t r = 0; r < YOKE_COUNT(ratios); r++)
        report_number(page, device_number(row, ratios[r]), "%.4g");
    report_cell(page, device_text(row, "bits")[0] ? device_text(row, "bits") : "-");
    report_number(page, device_number(row, "cases"), "%.15g");
    report_number(page, device_number(row, "cases_differ"), "%.15g");
    report_row_end(page);
}

static void put_kernels(struct report_page *page, const struct device_file *file)
{
    static const char *const heads[] = { "compared operation",
                                         "old: variant",
                                         "old: us",
                                         "old: % of its limit",
                                         "new: variant",
                                         "new: us",
                                         "new: % of its limit",
                                         "time, old / new",
                                         "share, new / old",
                                         "instructions, old / new",
                                         "bytes, old / new",
                                         "bits",
                                         "cases",
                                         "cases that differ" };
    const json_t *rows = json_object_get(file->root, "rows"), *row;
    size_t i;
    put_chart(page, file);
    if (!compares(file, "times"))
        report_paragraph(page, "%s",
                         compares(file, "counts")
                             ? "Both devices are emulated. Their work is counted, and not timed."
                             : "One of the devices is emulated, so no times are compared.");
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    json_array_foreach(rows, i, row) if (is_whole(row) && i < DEVICE_MOST_ROWS) put_row(page, row);
    report_table_end(page);
    if (i > DEVICE_MOST_ROWS) report_paragraph(page, "%zu more rows are not shown.", i - DEVICE_MOST_ROWS);
}

/* ---- runs ---- */

/* A value of any type as text; a list with commas. */
static void put_any(struct report_page *page, const json_t *value)
{
    const json_t *item;
    size_t i, used = 0;
    char text[600] = "-";
    if (json_is_number(value)) {
        report_number(page, json_number_value(value), "%.9g");
        return;
    }
    if (json_is_string(value)) {
        report_cell(page, json_string_value(value));
        return;
    }
    json_array_foreach(value, i, item)
    {
        used = i ? strlen(text) : 0;
        yokei_text(text + used, sizeof text - used, "%s%.100s", i ? ", " : "",
                   json_is_string(item) ? json_string_value(item) : "?");
    }
    report_cell(page, text);
}

static void put_sides(struct report_page *page, const json_t *root)
{
    static const char *const heads[] = { "of the runs", "old", "new" };
    static const char *const keys[][2] = { { "folder", "folder" },
                                           { "devices", "devices" },
                                           { "precision", "precision" },
                                           { "first_step", "first step" },
                                           { "last_step", "last step" },
                                           { "tokens_per_second", "tokens/s (median)" },
                                           { "memory", "memory of all ranks, bytes" },
                                           { "largest_memory", "memory of one rank, bytes" },
                                           { "loss", "last loss" },
                                           { "validation_loss", "last validation loss" } };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (size_t k = 0; k < YOKE_COUNT(keys); k++) {
        report_row_begin(page);
        report_cell(page, keys[k][1]);
        for (int s = 0; s < 2; s++) put_any(page, json_object_get(side_of(root, s), keys[k][0]));
        report_row_end(page);
    }
    report_table_end(page);
}

static void put_losses(struct report_page *page, const json_t *root)
{
    static const char *const heads[] = {
        "difference of the losses", "step", "old", "new", "relative", "gate"
    };
    static const char *const keys[][2] = { { "largest", "largest, where yoke parity has a gate" },
                                           { "largest_later", "largest later" },
                                           { "parted", "first above its gate" } };
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (size_t k = 0; k < YOKE_COUNT(keys); k++) {
        const json_t *loss = json_object_get(root, keys[k][0]);
        if (!json_is_object(loss)) continue;
        report_row_begin(page);
        report_cell(page, keys[k][1]);
        for (size_t h = 1; h < YOKE_COUNT(heads); h++)
            report_number(page, device_number(loss, heads[h]), "%.9g");
        report_row_end(page);
    }
    report_table_end(page);
}

static void put_runs(struct report_page *page, const struct device_file *file)
{
    const json_t *differences = json_object_get(file->root, "plan_differences"), *item;
    size_t i;
    put_sides(page, file->root);
    if (json_array_size(differences)) {
        report_paragraph(page, "Settings that differ:");
        report_list_begin(page);
        json_array_foreach(differences, i, item)
        {
            char *text = device_text(item, "key")[0] ? compare_difference_text(item) : NULL;
            if (text) report_item(page, "%s", text);
            free(text);
        }
        report_list_end(page);
    }
    put_losses(page, file->root);
    for (int s = 0; s < 2; s++)
        json_array_foreach(json_object_get(side_of(file->root, s), "problems"), i, item) report_paragraph(
            page, "Missing: %s", json_is_string(item) ? json_string_value(item) : "not readable");
}

yoke_status device_compared(struct report_page *page, const struct devices *d)
{
    for (int f = 0; f < d->n_files; f++) {
        const struct device_file *file = &d->files[f];
        char title[400];
        if (file->kind != DEVICE_COMPARISON) continue;
        yokei_text(title, sizeof title, "Result of yoke compare: %.300s", file->path);
        report_heading(page, title);
        (is_kernels(file) ? put_kernels : put_runs)(page, file);
    }
    return YOKE_OK;
}
