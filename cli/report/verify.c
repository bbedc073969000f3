/* SPDX-License-Identifier: Apache-2.0 */
/* Files of yoke verify --json: which operations passed, and how near they came to their error bounds. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/devices.h"
#include "core/base/base.h"

enum { MOST_BARS = 12, MOST_PARTS = 7, EACH = 5, LONGEST = 2 };

/* What a device's lines say of one operation in one type. A line has one variant. */
struct verified {
    int n_pass, n_fail, n_skip;
    double cases, ratio; /* ratio: the largest error relative to its bound; NaN: none */
};
struct verified_op {
    const char *op, *dtype;
    struct verified *on; /* [n_columns] */
};
struct verified_ops {
    struct verified_op *ops;
    struct verified *all;
    int64_t n;
};

static const json_t *lines_of(const struct device_column *column)
{
    return column->verify ? json_object_get(column->verify->root, "lines") : NULL;
}

static bool is_whole(const json_t *line)
{
    return device_text(line, "op")[0] && device_text(line, "dtype")[0] && device_text(line, "verdict")[0];
}

static bool has_failed(const json_t *line) { return !strcmp(device_text(line, "verdict"), "FAIL"); }

void device_verify_check(struct device_file *file)
{
    const json_t *lines = json_object_get(file->root, "lines"), *line;
    size_t i, n = 0;
    json_array_foreach(lines, i, line) n += !is_whole(line);
    if (n)
        yokei_text(file->problem, sizeof file->problem,
                   "%s: %zu of %zu lines lack op, dtype or verdict, and are left out", file->path, n, i);
}

/* ---- gathering ---- */

static void add_line(struct verified *v, const json_t *line)
{
    const char *verdict = device_text(line, "verdict");
    const double cases = device_number(line, "cases");
    if (!strcmp(verdict, "PASS"))
        v->n_pass++;
    else if (has_failed(line))
        v->n_fail++;
    else
        v->n_skip++;
    if (!(cases > 0)) return;
    v->cases += cases;
    v->ratio = fmax(v->ratio, device_number(line, "ratio"));
}

static yoke_status fill(const struct devices *d, const int64_t *groups, struct verified_ops *out)
{
    const json_t *line;
    size_t i, at = 0;
    out->ops = calloc((size_t)out->n, sizeof *out->ops);
    out->all = calloc((size_t)out->n * (size_t)d->n_columns, sizeof *out->all);
    if (!out->ops || !out->all) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for the operations");
    for (int64_t n = 0; n < out->n * d->n_columns; n++) out->all[n].ratio = NAN;
    for (int c = 0; c < d->n_columns; c++) json_array_foreach(lines_of(&d->columns[c]), i, line)
        {
            if (!is_whole(line)) continue;
            const int64_t group = groups[at++];
            out->ops[group] = (struct verified_op){ device_text(line, "op"), device_text(line, "dtype"),
                                                    &out->all[group * d->n_columns] };
            add_line(&out->all[group * d->n_columns + c], line);
        }
    return YOKE_OK;
}

static yoke_status read_ops(const struct devices *d, struct verified_ops *out)
{
    const json_t *line;
    size_t i, n = 0, at = 0;
    *out = (struct verified_ops){ .n = 0 };
    for (int c = 0; c < d->n_columns; c++) n += json_array_size(lines_of(&d->columns[c]));
    char **keys = calloc(n + 1, sizeof *keys);
    int64_t *groups = calloc(n + 1, sizeof *groups);
    yoke_status status = YOKE_OK;
    for (int c = 0; c < d->n_columns && keys; c++) json_array_foreach(lines_of(&d->columns[c]), i, line)
        {
            if (!is_whole(line)) continue;
            if (asprintf(&keys[at], "%s\n%s", device_text(line, "op"), device_text(line, "dtype")) < 0)
                keys[at] = NULL;
            at++;
        }
    out->n = keys && groups ? device_group(keys, at, groups) : -1;
    if (out->n < 0)
        status = yoke_fail(YOKE_ENOMEM, "yoke report: no memory for %zu lines", n);
    else if (out->n)
        status = fill(d, groups, out);
    device_keys_free(keys, at);
    free(groups);
    return status;
}

static void free_ops(struct verified_ops *ops)
{
    free(ops->ops);
    free(ops->all);
}

/* ---- the result ---- */

static void put_passed(struct report_page *page, const struct device_column *column)
{
    const json_t *line, *worst = NULL;
    size_t i;
    int n_pass = 0, n_skip = 0;
    double cases = 0, most = -1;
    json_array_foreach(lines_of(column), i, line)
    {
        const bool passed = !strcmp(device_text(line, "verdict"), "PASS");
        const double n = device_number(line, "cases"), ratio = device_number(line, "ratio");
        if (!is_whole(line)) continue;
        n_pass += passed, n_skip += !passed;
        if (n > 0) cases += n;
        if (n > 0 && ratio > most) most = ratio, worst = line;
    }
    if (!n_pass)
        report_item(page, "%s: yoke verify tested nothing.", column->label);
    else if (worst)
        report_item(
            page,
            "%s passes yoke verify: %d variants of operations and types in %.15g cases; %d were left out. "
            "The largest error is %.3g times its bound: %.60s %.20s.",
            column->label, n_pass, cases, n_skip, most, device_text(worst, "op"),
            device_text(worst, "dtype"));
    else
        report_item(page, "%s passes yoke verify: %d variants of operations and types; %d were left out.",
                    column->label, n_pass, n_skip);
}

void device_verify_result(struct report_page *page, const struct devices *d)
{
    for (int c = 0; c < d->n_columns; c++) {
        const struct device_column *column = &d->columns[c];
        const json_t *line, *first = NULL;
        size_t i;
        int n_fail = 0, n = 0;
        if (!column->verify) continue;
        const json_t *error = json_object_get(column->verify->root, "error");
        json_array_foreach(lines_of(column), i, line)
        {
            if (!is_whole(line)) continue;
            n++;
            if (has_failed(line) && !n_fail++) first = line;
        }
        if (n_fail)
            report_item(page,
                        "%s fails yoke verify in %d of %d variants of operations and types. The first one is "
                        "%.60s %.20s %.80s: %.400s",
                        column->label, n_fail, n, device_text(first, "op"), device_text(first, "dtype"),
                        device_text(first, "variant"), device_text(first, "reason"));
        if (json_is_object(error))
            report_item(page, "%s: yoke verify ended with an error: %.600s", column->label,
                        device_text(error, "text"));
        if (!n_fail && !json_is_object(error)) put_passed(page, column);
    }
}

/* ---- failures, chart and table ---- */

static void put_failures(struct report_page *page, const struct devices *d)
{
    static const char *const heads[] = { "failed on", "operation",     "type",   "variant",
                                         "case",      "error / bound", "reason", "repeat it" };
    static const char *const texts[] = { "op", "dtype", "variant", "case_words" };
    const json_t *line;
    size_t i;
    int n = 0;
    for (int c = 0; c < d->n_columns; c++) json_array_foreach(lines_of(&d->columns[c]), i, line)
        {
            if (!is_whole(line) || !has_failed(line) || n >= DEVICE_MOST_ROWS) continue;
            if (!n++) report_table_begin(page, heads, (int)YOKE_COUNT(heads));
            report_row_begin(page);
            report_cell(page, d->columns[c].label);
            for (size_t t = 0; t < YOKE_COUNT(texts); t++) report_cell(page, device_text(line, texts[t]));
            report_number(page, device_number(line, "ratio"), "%.4g");
            report_cell(page, device_text(line, "reason"));
            report_cell(page, device_text(line, "repeat"));
            report_row_end(page);
        }
    if (n) report_table_end(page);
}

struct ranked {
    const struct verified_op *op;
    double ratio;
};

static int by_ratio(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->ratio != y->ratio) return x->ratio > y->ratio ? -1 : 1;
    return (x->op > y->op) - (x->op < y->op);
}

static void put_bars(struct report_page *page, const struct devices *d, const struct ranked *ranked,
                     int64_t n)
{
    struct svg_bar bars[MOST_BARS];
    char labels[MOST_BARS][80], title[300];
    const char *names[MOST_PARTS], *worst = "";
    double ratios[MOST_BARS][MOST_PARTS];
    int columns[MOST_PARTS], n_columns = 0;
    const int n_bars = (int)YOKE_MIN(n, MOST_BARS);
    for (int c = 0; c < d->n_columns && n_columns < MOST_PARTS; c++)
        if (d->columns[c].verify) names[n_columns] = d->columns[c].label, columns[n_columns++] = c;
    for (int p = n_columns - 1; p >= 0; p--)
        if (ranked[0].op->on[columns[p]].ratio == ranked[0].ratio) worst = names[p];
    for (int b = 0; b < n_bars; b++) {
        yokei_text(labels[b], sizeof labels[b], "%s %s", ranked[b].op->op, ranked[b].op->dtype);
        for (int p = 0; p < n_columns; p++) ratios[b][p] = ranked[b].op->on[columns[p]].ratio;
        bars[b] = (struct svg_bar){ labels[b], ratios[b], 1 };
    }
    yokei_text(title, sizeof title,
               ranked[0].ratio > 1
                   ? "%s on %s exceeds its error bound %.4g times."
                   : "No error exceeds its bound. The one of %s on %s comes nearest: %.4g times its bound.",
               labels[0], worst, ranked[0].ratio);
    svg_bars(page, &(struct svg_bars){ .title = title,
                                       .unit = "largest error / bound",
                                       .names = names,
                                       .n_parts = n_columns,
                                       .bars = bars,
                                       .n_bars = n_bars,
                                       .beside = true,
                                       .most = fmin(fmax(ranked[0].ratio, 1), LONGEST) });
    if (n > n_bars)
        report_paragraph(page, "The chart has the %d operations that come nearest to their bounds.", n_bars);
    if (ranked[0].ratio > LONGEST)
        report_paragraph(
            page, "A bar that reaches the end of the axis stands for %d or more. The table has the value.",
            LONGEST);
}

static void put_chart(struct report_page *page, const struct devices *d, const struct verified_ops *ops)
{
    struct ranked *ranked = calloc((size_t)ops->n + 1, sizeof *ranked);
    int64_t n = 0;
    for (int64_t i = 0; i < ops->n && ranked; i++) {
        double ratio = NAN;
        for (int c = 0; c < d->n_columns; c++) ratio = fmax(ratio, ops->ops[i].on[c].ratio);
        if (ratio > 0 && isfinite(ratio)) ranked[n++] = (struct ranked){ &ops->ops[i], ratio };
    }
    if (n) {
        qsort(ranked, (size_t)n, sizeof *ranked, by_ratio);
        put_bars(page, d, ranked, n);
    }
    free(ranked);
}

static void put_heads(struct report_page *page, const struct devices *d)
{
    static const char *const columns[EACH] = { "variants passed", "failed", "skipped or left out", "cases",
                                               "largest error / bound" };
    static char text[EACH * DEVICE_MOST_FILES][DEVICE_NAME + 32];
    const char *heads[1 + EACH * DEVICE_MOST_FILES] = { "verified operation" };
    int n = 0;
    for (int c = 0; c < d->n_columns; c++)
        for (int i = 0; i < EACH && d->columns[c].verify; i++, n++) {
            yokei_text(text[n], sizeof text[n], "%s: %s", d->columns[c].label, columns[i]);
            heads[1 + n] = text[n];
        }
    report_table_begin(page, heads, 1 + n);
}

static void put_table(struct report_page *page, const struct devices *d, const struct verified_ops *ops)
{
    put_heads(page, d);
    for (int64_t i = 0; i < YOKE_MIN(ops->n, DEVICE_MOST_ROWS); i++) {
        char *name = NULL;
        if (asprintf(&name, "%s %s", ops->ops[i].op, ops->ops[i].dtype) < 0) continue;
        report_row_begin(page);
        report_cell(page, name);
        free(name);
        for (int c = 0; c < d->n_columns; c++) {
            const struct verified *v = &ops->ops[i].on[c];
            if (!d->columns[c].verify) continue;
            report_number(page, v->n_pass, "%.0f");
            report_number(page, v->n_fail, "%.0f");
            report_number(page, v->n_skip, "%.0f");
            report_number(page, v->cases, "%.15g");
            report_number(page, v->ratio, "%.3g");
        }
        report_row_end(page);
    }
    report_table_end(page);
    if (ops->n > DEVICE_MOST_ROWS)
        report_paragraph(page, "%" PRId64 " more rows are not shown.", ops->n - DEVICE_MOST_ROWS);
}

yoke_status device_verify(struct report_page *page, const struct devices *d)
{
    struct verified_ops ops;
    const yoke_status status = read_ops(d, &ops);
    if (!status && ops.n) {
        report_heading(page, "Correctness");
        put_failures(page, d);
        put_chart(page, d, &ops);
        report_paragraph(page,
                         "yoke verify compares each variant of an operation with a float64 reference. An "
                         "error above its bound is a failure.");
        put_table(page, d, &ops);
    }
    free_ops(&ops);
    return status;
}
