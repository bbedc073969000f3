/* SPDX-License-Identifier: Apache-2.0 */
/* The page of two run directories. cli/compare/runs.c computes their differences. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/record.h"
#include "cli/report/report.h"
#include "cli/report/svg.h"
#include "core/base/base.h"

struct two_runs {
    struct compare_curves curves;
    struct report_run runs[2];
};

static const char *const sides[2] = { "old", "new" };

/* ---- the result ---- */

static void parted_text(const struct compare_curves *c, char *out, size_t bytes)
{
    if (c->parted.step)
        yokei_text(out, bytes,
                   "The losses part at step %" PRId64
                   ": %.9g and %.9g differ by %.3g of the old loss, and %.3g is "
                   "allowed.",
                   c->parted.step, c->parted.loss[0], c->parted.loss[1], c->parted.relative, c->parted.gate);
    else if (c->held && c->n_early + c->n_later)
        yokei_text(out, bytes, "The losses of %" PRId64 " step%s within the gates.", c->n_early + c->n_later,
                   c->n_early + c->n_later == 1 ? " are" : "s are");
    else
        yokei_text(out, bytes, "The losses are held to no gate, so whether they fit together is not judged.");
}

static void put_differences(struct report_page *page, const struct compare_curves *c)
{
    size_t i;
    const json_t *d;
    json_array_foreach(c->plan_differences, i, d)
    {
        char *text = compare_difference_text(d);
        report_item(page, "%s.", text ? text : "A setting differs, and there is no memory for its text");
        free(text);
    }
}

static void put_result(struct report_page *page, const struct two_runs *t)
{
    const struct compare_curves *c = &t->curves;
    const double speed = c->runs[1].tokens_per_second / c->runs[0].tokens_per_second;
    char text[512];
    report_heading(page, "Result");
    report_list_begin(page);
    parted_text(c, text, sizeof text);
    report_item(page, "%s", text);
    if (!c->n_common)
        report_item(page, "The runs have no step in common.");
    else if (c->first_other)
        report_item(page,
                    "The runs have %" PRId64
                    " steps in common, and the losses have other bits from step %" PRId64 " on.",
                    c->n_common, c->first_other);
    else
        report_item(page, "The runs have %" PRId64 " steps in common, and all losses have the same bits.",
                    c->n_common);
    if (isfinite(speed))
        report_item(page, "The new run has %.4g times the tokens per second of the old run (medians).",
                    speed);
    if (c->rates_part)
        report_item(page,
                    "The learning rates differ from step %" PRId64
                    " on, so the losses from there on are held to no gate.",
                    c->rates_part);
    put_differences(page, c);
    report_list_end(page);
}

static void put_row(struct report_page *page, const char *name, const char *format, double old, double new)
{
    report_row_begin(page);
    report_cell(page, name);
    report_number(page, old, format);
    report_number(page, new, format);
    report_number(page, old > 0 && new > 0 ? new / old : NAN, "%.4g");
    report_row_end(page);
}

/* What run.json says of both runs. A run without it has blanks. */
static void put_records(struct report_page *page, const struct compare_run *const runs[2])
{
    static const struct {
        const char *name, *key, *rank_key;
    } rows[] = { { "yoke of the run", "version", NULL },
                 { "its commit (+: with changes)", "commit", NULL },
                 { "started", "started", NULL },
                 { "MPI", "mpi", NULL },
                 { "CPU of rank 0 of the job", NULL, "cpu" },
                 { "device of rank 0 of the job", NULL, "name" } };
    struct report_record records[2];
    for (int i = 0; i < 2; i++) report_record_read(runs[i]->folder, &records[i]);
    for (size_t k = 0; k < YOKE_COUNT(rows) && (records[0].root || records[1].root); k++) {
        report_row_begin(page);
        report_cell(page, rows[k].name);
        for (int i = 0; i < 2; i++) {
            const char *text = rows[k].key ? report_record_text(&records[i], NULL, rows[k].key)
                                           : report_record_of_rank(&records[i], 0, rows[k].rank_key);
            report_cell(page, text ? text : "");
        }
        report_cell(page, "");
        report_row_end(page);
    }
    for (int i = 0; i < 2; i++) report_record_free(&records[i]);
}

static void put_summary(struct report_page *page, const struct compare_run *a, const struct compare_run *b)
{
    static const char *const heads[] = { "", "old", "new", "new / old" };
    report_table_begin(page, heads, 4);
    report_row_begin(page);
    report_cell(page, "run directory");
    report_cell(page, a->folder);
    report_cell(page, b->folder);
    report_cell(page, "");
    report_row_end(page);
    put_records(page, (const struct compare_run *const[2]){ a, b });
    put_row(page, "rows", "%.0f", (double)a->metrics.n, (double)b->metrics.n);
    put_row(page, "tokens/s (median)", "%.6g", a->tokens_per_second, b->tokens_per_second);
    put_row(page, "last loss", "%.6g", a->loss, b->loss);
    put_row(page, "last validation loss", "%.6g", a->validation_loss, b->validation_loss);
    put_row(page, "memory of all ranks, MiB", "%.6g", a->memory > 0 ? a->memory / 0x1p20 : NAN,
            b->memory > 0 ? b->memory / 0x1p20 : NAN);
    put_row(page, "memory of one rank at most, MiB", "%.6g",
            a->largest_memory > 0 ? a->largest_memory / 0x1p20 : NAN,
            b->largest_memory > 0 ? b->largest_memory / 0x1p20 : NAN);
    report_table_end(page);
}

static void put_largest(struct report_page *page, bool held, const char *where, const struct compare_loss *l)
{
    if (!l->step) return;
    report_row_begin(page);
    report_cell(page, where);
    report_number(page, (double)l->step, "%.0f");
    report_number(page, l->loss[0], "%.9g");
    report_number(page, l->loss[1], "%.9g");
    report_number(page, l->relative, "%.3g");
    report_number(page, held ? l->gate : NAN, "%.3g");
    report_row_end(page);
}

static void put_gates(struct report_page *page, const struct compare_curves *c)
{
    static const char *const heads[] = { "largest difference", "step",     "old loss",
                                         "new loss",           "relative", "allowed" };
    char early[96];
    if (!c->early.step && !c->later.step) return;
    yokei_text(early, sizeof early, "in the %" PRId64 " steps from step %" PRId64 " on", c->gate_steps,
               c->first_other);
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    /* A step with another learning rate is held to no gate. */
    const int64_t end = c->rates_part ? c->rates_part : INT64_MAX;
    put_largest(page, c->held && c->early.step < end, early, &c->early);
    put_largest(page, c->held && c->later.step < end, "later", &c->later);
    put_largest(page, c->held, "first above its gate", &c->parted);
    report_table_end(page);
}

/* ---- curves ---- */

/* The step where the losses part is marked in each chart. NULL: they do not part. */
static const char *mark_name(const struct compare_curves *c)
{
    return c->parted.step ? "the losses part: first difference above its gate" : NULL;
}

static void put_pair(struct report_page *page, const struct two_runs *t, const char *title, const char *unit,
                     double *const columns[2], bool sparse, bool from_zero)
{
    struct svg_series lines[2];
    for (int i = 0; i < 2; i++)
        lines[i] = (struct svg_series){ sides[i],    t->runs[i].step, columns[i], t->curves.runs[i].metrics.n,
                                        .colour = i, .sparse = sparse };
    svg_lines(page, &(struct svg_chart){ .title = title,
                                         .x_name = "step",
                                         .y_name = unit,
                                         .series = lines,
                                         .n_series = 2,
                                         .from_zero = from_zero,
                                         .mark_name = mark_name(&t->curves),
                                         .mark = (double)t->curves.parted.step });
}

/* The relative difference of the losses in the steps that both runs have. */
static void put_relative(struct report_page *page, const struct two_runs *t)
{
    const struct compare_curves *c = &t->curves;
    const struct yokei_metrics_rows *a = &c->runs[0].metrics, *b = &c->runs[1].metrics;
    const size_t most = (size_t)c->n_common;
    char title[256];
    double *x = calloc(2 * (most + 1), sizeof *x), *y = x ? x + most + 1 : NULL;
    size_t n = 0;
    for (size_t i = 0, j = 0; x && i < a->n && j < b->n;) {
        const int64_t p = a->rows[i].step, q = b->rows[j].step;
        if (p == q && n < most) {
            x[n] = (double)p;
            y[n++] = compare_relative(a->rows[i].loss, b->rows[j].loss);
        }
        i += p <= q;
        j += q <= p;
    }
    const struct compare_loss *largest = c->later.relative > c->early.relative ? &c->later : &c->early;
    if (c->first_other)
        yokei_text(title, sizeof title,
                   "The losses differ by at most %.3g of the old loss, at step %" PRId64 ".",
                   largest->relative, largest->step);
    else
        yokei_text(title, sizeof title, "The losses have the same bits in all %" PRId64 " common steps.",
                   c->n_common);
    const struct svg_series line = { "relative difference of the losses", x, y, n, .colour = 3 };
    if (n)
        svg_lines(page, &(struct svg_chart){ .title = title,
                                             .x_name = "step",
                                             .y_name = "difference / old loss",
                                             .series = &line,
                                             .n_series = 1,
                                             .from_zero = true,
                                             .mark_name = mark_name(c),
                                             .mark = (double)c->parted.step });
    free(x);
}

static void put_curves(struct report_page *page, const struct two_runs *t)
{
    const struct compare_run *a = &t->curves.runs[0], *b = &t->curves.runs[1];
    const struct report_run *r = t->runs;
    char title[256], x[REPORT_REAL], y[REPORT_REAL];
    report_heading(page, "Curves");
    report_charts_begin(page);
    yokei_text(title, sizeof title, "The last loss is %s in the old run and %s in the new run.",
               report_real(a->loss, x), report_real(b->loss, y));
    put_pair(page, t, title, "nats per token", (double *const[2]){ r[0].loss, r[1].loss }, false, false);
    put_relative(page, t);
    const bool both = isfinite(a->validation_loss) && isfinite(b->validation_loss);
    if (both)
        yokei_text(title, sizeof title,
                   "The last validation loss is %s in the old run and %s in the new run.",
                   report_real(a->validation_loss, x), report_real(b->validation_loss, y));
    else
        yokei_text(title, sizeof title, "Only the %s run has a validation loss. The last one is %s.",
                   sides[isfinite(b->validation_loss)],
                   report_real(isfinite(b->validation_loss) ? b->validation_loss : a->validation_loss, x));
    put_pair(page, t, title, "nats per token", (double *const[2]){ r[0].validation, r[1].validation }, true,
             false);
    yokei_text(title, sizeof title,
               "Half of the steps reach %s tokens/s in the old run and %s in the new run.",
               report_real(a->tokens_per_second, x), report_real(b->tokens_per_second, y));
    put_pair(page, t, title, "tokens/s", (double *const[2]){ r[0].speed, r[1].speed }, false, true);
    report_charts_end(page);
}

/* ---- the page ---- */

static yoke_status judge(const struct compare_curves *c)
{
    for (int i = 0; i < 2; i++) {
        const struct compare_run *run = &c->runs[i];
        const char *problem = run->metrics_problem[0] ? run->metrics_problem : run->plan_problem;
        if (problem[0]) return yoke_fail(YOKE_EDATA, "%s; the report has what could be read", problem);
    }
    return YOKE_OK;
}

static void put_missing(struct report_page *page, const struct two_runs *t)
{
    int n = 0;
    for (int i = 0; i < 2; i++) report_missing(page, &t->runs[i], &n);
    if (n) report_list_end(page);
}

static void put_page(struct report_page *page, const struct two_runs *t)
{
    const struct compare_run *runs = t->curves.runs;
    const bool is_damaged = judge(&t->curves) != YOKE_OK;
    char title[8600];
    yokei_text(title, sizeof title, "Training runs %s and %s", runs[0].folder, runs[1].folder);
    report_begin(page, title);
    put_result(page, t);
    if (is_damaged) put_missing(page, t);
    report_heading(page, "Differences");
    put_summary(page, &runs[0], &runs[1]);
    put_gates(page, &t->curves);
    put_curves(page, t);
    for (int i = 0; i < 2; i++) {
        if (!t->runs[i].n_divided && !(runs[i].has_plan && runs[i].plan.n_memory)) continue;
        yokei_text(title, sizeof title, "The %s run %s", sides[i], runs[i].folder);
        report_heading(page, title);
        report_shares(page, &t->runs[i]);
        report_memory(page, &t->runs[i]);
    }
    /* Damaged files come first. What was only not recorded comes last. */
    if (!is_damaged) put_missing(page, t);
    report_end(page);
}

yoke_status report_of_two_runs(struct report_page *page, const char *const folders[2])
{
    const struct compare_request request = { .paths = { folders[0], folders[1] }, .loss_gate = 0.05 };
    struct two_runs t = { .curves = { .request = &request } };
    for (int i = 0; i < 2; i++) {
        struct compare_run *run = &t.curves.runs[i];
        t.runs[i] = (struct report_run){ .run = run, .side = sides[i], .last_seconds = NAN };
        run->visit = report_add_row, run->visit_context = &t.runs[i];
    }
    yoke_status status = compare_curves_read(&t.curves);
    const struct compare_run *runs = t.curves.runs;
    if (!status && !runs[0].has_plan && !runs[0].metrics.n && !runs[1].has_plan && !runs[1].metrics.n)
        status = yoke_fail(YOKE_EDATA, "%s; %s", runs[0].metrics_problem, runs[1].metrics_problem);
    for (int i = 0; i < 2 && !status; i++) status = report_columns(&t.runs[i]);
    if (!status) {
        put_page(page, &t);
        status = judge(&t.curves);
    }
    for (int i = 0; i < 2; i++) report_run_free(&t.runs[i]);
    compare_curves_free(&t.curves);
    return status;
}
