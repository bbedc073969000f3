/* SPDX-License-Identifier: Apache-2.0 */
/* The page of one run directory. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/faults.h"
#include "cli/report/planned.h"
#include "cli/report/record.h"
#include "cli/report/report.h"
#include "cli/report/svg.h"
#include "cli/report/timeline.h"
#include "core/base/base.h"

/* ---- the result in five lines ---- */

static int64_t count_skipped(const struct compare_run *run)
{
    int64_t n = 0;
    for (size_t i = 0; i < run->metrics.n; i++) n += run->metrics.rows[i].skipped;
    return n;
}

static void result_of_losses(struct report_page *page, const struct report_run *r)
{
    const struct yokei_metrics_rows *m = &r->run->metrics;
    const struct yokei_metrics_row *first = &m->rows[0], *last = &m->rows[m->n - 1];
    const int64_t skipped = count_skipped(r->run);
    int64_t best = -1;
    char a[REPORT_REAL], b[REPORT_REAL];
    for (size_t i = 0; i < m->n; i++)
        if (isfinite(r->validation[i]) && (best < 0 || r->validation[i] < r->validation[best]))
            best = (int64_t)i;
    report_item(page, "The run took %" PRId64 " step%s and %" PRId64 " tokens in %s s.", last->step,
                last->step == 1 ? "" : "s", last->tokens, report_real(last->seconds, a));
    if (first->step > 1)
        report_item(page,
                    "These totals begin with step 1. The run directory has the steps from %" PRId64
                    " on, because the run went on from a checkpoint there.",
                    first->step);
    char validation[256] = "no validation loss was measured";
    if (best >= 0 && m->rows[best].step == r->run->validation_step)
        yokei_text(validation, sizeof validation,
                   "the validation loss is %.6g at step %" PRId64 ", which is its least value",
                   r->run->validation_loss, r->run->validation_step);
    else if (best >= 0)
        yokei_text(validation, sizeof validation,
                   "the validation loss is %.6g at step %" PRId64
                   ", and its least value is %.6g at step %" PRId64,
                   r->run->validation_loss, r->run->validation_step, r->validation[best], m->rows[best].step);
    report_item(page, "The loss went from %s (step %" PRId64 ") to %s (step %" PRId64 "); %s.",
                report_real(first->loss, a), first->step, report_real(last->loss, b), last->step, validation);
    const double mfu = report_median(r->mfu, m->n);
    char use[96] = "", skips[64] = "No step was skipped";
    if (isfinite(mfu)) yokei_text(use, sizeof use, ", and %.3g %% of the devices' peak (mfu)", 100 * mfu);
    if (skipped == 1) yokei_text(skips, sizeof skips, "1 step was skipped");
    if (skipped > 1) yokei_text(skips, sizeof skips, "%" PRId64 " steps were skipped", skipped);
    report_item(page, "Half of the steps reached %s tokens/s or more%s. %s.",
                report_real(r->run->tokens_per_second, a), use, skips);
}

/* ---- curves ---- */

static void put_losses(struct report_page *page, const struct report_run *r)
{
    const size_t n = r->run->metrics.n;
    char title[256], name[64], a[REPORT_REAL], b[REPORT_REAL];
    struct svg_series lines[3];
    int k = 0;
    yokei_text(title, sizeof title, "The loss went from %s to %s nats per token.", report_real(r->loss[0], a),
               report_real(r->loss[n - 1], b));
    lines[k++] = (struct svg_series){ "loss", r->step, r->loss, n, .colour = 0, .faint = r->window > 1 };
    yokei_text(name, sizeof name, "loss, mean of %zu steps", r->window);
    if (r->window > 1) lines[k++] = (struct svg_series){ name, r->step, r->smooth, n, .colour = 0 };
    if (isfinite(r->run->validation_loss))
        lines[k++] = (struct svg_series){ "validation loss", r->step,       r->validation, n,
                                          .colour = 1,       .sparse = true };
    svg_lines(page, &(struct svg_chart){ title, "step", "nats per token", lines, k, false });
}

/*
 * Whether a column has two different values. If not, a chart of it says nothing, and a sentence after the
 * charts has the value.
 */
static bool has_a_curve(const double *column, size_t n)
{
    size_t first = n;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(column[i])) continue;
        if (first == n) first = i;
        if (column[i] != column[first]) return true;
    }
    return false;
}

/* What a chart shows of a column of the metrics. */
struct column {
    const double *values;
    double factor; /* of the values in the title */
    const char *name, *axis, *unit;
    int colour;
};

static void put_column(struct report_page *page, const struct report_run *r, const struct column *c)
{
    const size_t n = r->run->metrics.n;
    char title[256], a[REPORT_REAL], b[REPORT_REAL];
    size_t most = n;
    if (!has_a_curve(c->values, n)) return;
    for (size_t i = 0; i < n; i++)
        if (isfinite(c->values[i]) && (most == n || c->values[i] > c->values[most])) most = i;
    yokei_text(title, sizeof title, "The %s has a median of %s%s; its largest value is %s%s at step %.9g.",
               c->name, report_short(c->factor * report_median(c->values, n), a), c->unit,
               report_short(c->factor * c->values[most], b), c->unit, r->step[most]);
    const struct svg_series line = { c->name, r->step, c->values, n, .colour = c->colour };
    svg_lines(page, &(struct svg_chart){ title, "step", c->axis, &line, 1, true });
}

/* The value of a column that has no chart. */
static void say_column(struct report_page *page, const struct report_run *r, const struct column *c)
{
    const size_t n = r->run->metrics.n;
    const double value = report_median(c->values, n);
    size_t n_values = 0;
    char a[REPORT_REAL];
    for (size_t i = 0; i < n; i++) n_values += isfinite(c->values[i]) != 0;
    if (!n_values || has_a_curve(c->values, n)) return;
    report_paragraph(page, "The %s is %s%s in %s.", c->name, report_short(c->factor * value, a), c->unit,
                     n_values < n ? "the steps that have a value"
                     : n > 1      ? "all steps"
                                  : "the only step");
}

static void put_skipped(struct report_page *page, const struct report_run *r)
{
    const struct yokei_metrics_rows *m = &r->run->metrics;
    const int64_t n = count_skipped(r->run);
    char steps[256] = "";
    int listed = 0;
    for (size_t i = 0; i < m->n && listed < 10; i++)
        if (m->rows[i].skipped)
            yokei_text(steps + strlen(steps), sizeof steps - strlen(steps), "%s%" PRId64,
                       listed++ ? ", " : "", m->rows[i].step);
    if (n)
        report_paragraph(page, "%" PRId64 " steps were skipped, because gradients overflowed: %s%s", n, steps,
                         n > listed ? " and others." : ".");
    else
        report_paragraph(page, "No step was skipped.");
}

static void put_curves(struct report_page *page, const struct report_run *r,
                       const struct report_record *record)
{
    if (!r->run->metrics.n) return;
    const struct column learning[] = {
        { r->rate, 1, "learning rate", "learning rate", "", 2 },
        { r->norm, 1, "gradient norm", "norm", "", 3 },
        { r->scale, 1, "loss scale", "factor", "", 4 },
    }, speeds[] = {
        { r->speed, 1, "speed", "tokens/s", " tokens/s", 0 },
        { r->mfu, 100, "mfu", "share of the devices' peak", " %", 2 },
    };
    report_heading(page, "Learning");
    report_charts_begin(page);
    if (has_a_curve(r->loss, r->run->metrics.n)) put_losses(page, r);
    for (size_t i = 0; i < YOKE_COUNT(learning); i++) put_column(page, r, &learning[i]);
    report_charts_end(page);
    for (size_t i = 0; i < YOKE_COUNT(learning); i++) say_column(page, r, &learning[i]);
    put_skipped(page, r);
    report_heading(page, "Speed");
    report_charts_begin(page);
    for (size_t i = 0; i < YOKE_COUNT(speeds); i++) put_column(page, r, &speeds[i]);
    report_charts_end(page);
    for (size_t i = 0; i < YOKE_COUNT(speeds); i++) say_column(page, r, &speeds[i]);
    const int emulated = report_record_emulated(record);
    if (emulated >= 0)
        report_paragraph(
            page,
            "The device of rank %d of the job is emulated, so the times of this run say nothing about a real "
            "device.",
            emulated);
}

/* ---- the page ---- */

/* All that a run directory holds. */
struct inputs {
    struct report_run r;
    struct report_record record;
    struct report_faults faults;
    struct report_timeline timeline;
    char timeline_path[4300];
    bool has_timeline; /* a timeline was given, or was written by the run */
};

static yoke_status read_inputs(const char *folder, const char *timeline, struct inputs *in)
{
    YOKE_TRY(compare_run_read(in->r.run));
    YOKE_TRY(report_columns(&in->r));
    report_record_read(folder, &in->record);
    YOKE_TRY(report_faults_read(folder, &in->faults));
    in->has_timeline = timeline
                       || report_record_timeline(&in->record, folder, in->timeline_path,
                                                 sizeof in->timeline_path);
    if (!in->has_timeline) return YOKE_OK;
    if (timeline) yokei_text(in->timeline_path, sizeof in->timeline_path, "%s", timeline);
    return report_timeline_read(in->timeline_path, &in->timeline);
}

/* The first input that is missing or damaged. */
static yoke_status judge(const struct inputs *in)
{
    const struct compare_run *run = in->r.run;
    if (run->plan_problem[0]) return yoke_fail(YOKE_EDATA, "%s; the report is without it", run->plan_problem);
    if (run->metrics_problem[0])
        return yoke_fail(YOKE_EDATA, "%s; %s", run->metrics_problem,
                         run->metrics.n ? "the report has the rows before it" : "the report is without it");
    const char *const problems[] = { in->record.problem, in->timeline.problem, in->faults.problem };
    for (size_t i = 0; i < YOKE_COUNT(problems); i++)
        if (problems[i][0]) return yoke_fail(YOKE_EDATA, "%s; the report is without it", problems[i]);
    return YOKE_OK;
}

static void put_missing(struct report_page *page, const struct inputs *in)
{
    int n = 0;
    char text[800];
    report_missing(page, &in->r, &n);
    if (in->record.problem[0]) report_missing_item(page, &n, in->record.problem);
    if (in->timeline.problem[0]) report_missing_item(page, &n, in->timeline.problem);
    if (!in->has_timeline)
        report_missing_item(page, &n, "no timeline of a step was recorded (yoke train --trace FILE)");
    if (in->faults.problem[0]) report_missing_item(page, &n, in->faults.problem);
    if (in->faults.n_unreadable > 1) {
        yokei_text(text, sizeof text, "%d flight records in all cannot be read", in->faults.n_unreadable);
        report_missing_item(page, &n, text);
    }
    if (n) report_list_end(page);
}

static void put_result(struct report_page *page, const struct inputs *in)
{
    char text[4700];
    double share;
    const struct compare_run *run = in->r.run;
    const int idlest = report_timeline_idlest(&in->timeline, 0, &share);
    report_heading(page, "Result");
    report_list_begin(page);
    if (in->faults.are_there && in->faults.failed) {
        report_faults_text(&in->faults, text, sizeof text);
        report_item(page, "The run failed: %s.", text);
    }
    if (run->metrics.n) {
        result_of_losses(page, &in->r);
        report_waiting_text(&in->r, text, sizeof text);
        report_item(page, "%s", text);
    }
    if (idlest >= 0)
        report_item(page,
                    "In step %" PRId64
                    ", of which there is a timeline, rank %d computed nothing for %.3g %% of "
                    "the time.",
                    in->timeline.step, idlest, 100 * share);
    const int emulated = report_record_emulated(&in->record);
    if (emulated >= 0)
        report_item(
            page,
            "The device of rank %d of the job is emulated, so the times say nothing about a real device.",
            emulated);
    if (run->has_plan && run->memory > 0)
        report_item(page, "All ranks together need %.5g MiB of memory, and one rank at most %.5g MiB.",
                    run->memory / 0x1p20, run->largest_memory / 0x1p20);
    report_list_end(page);
}

static void put_page(struct report_page *page, struct inputs *in)
{
    const struct report_run *r = &in->r;
    const int64_t n_ranks = r->run->has_plan ? r->run->plan.n_ranks : 0;
    const bool is_damaged = judge(in) != YOKE_OK || r->run->metrics.cut;
    char title[4300];
    yokei_text(title, sizeof title, "Training run %s", r->run->folder);
    report_begin(page, title);
    put_result(page, in);
    /* A failure and damaged files come first. What was only not recorded comes last. */
    if (is_damaged) put_missing(page, in);
    if (in->faults.failed) report_faults_section(page, &in->faults, n_ranks);
    put_curves(page, r, &in->record);
    report_shares(page, r);
    report_timeline_damage(page, &in->timeline);
    report_timeline_section(page, &in->timeline);
    if (r->run->has_plan) report_schedule_section(page, &r->run->plan);
    report_memory(page, r);
    if (!in->faults.failed) report_faults_section(page, &in->faults, n_ranks);
    report_repeat_section(page, r, &in->record);
    report_environment_section(page, r, &in->record);
    if (!is_damaged) put_missing(page, in);
    report_end(page);
}

/* Whether no run has begun here. A run writes run.json before anything else. */
static bool has_only_a_plan(const char *folder, char *path, size_t bytes)
{
    static const char *const of_runs[] = { "run.json", "metrics.jsonl", "flight-00000.bin" };
    for (size_t i = 0; i < YOKE_COUNT(of_runs); i++) {
        yokei_text(path, bytes, "%s/%s", folder, of_runs[i]);
        if (yokei_is_there(path)) return false;
    }
    yokei_text(path, bytes, "%s/plan.json", folder);
    return yokei_is_there(path);
}

yoke_status report_of_run(struct report_page *page, const char *folder, const char *timeline)
{
    struct compare_run run = { .folder = folder };
    char plan[4200];
    if (!timeline && has_only_a_plan(folder, plan, sizeof plan)) return report_of_plan(page, plan);
    struct inputs *in = calloc(1, sizeof *in);
    if (!in) return yoke_fail(YOKE_ENOMEM, "yoke report: no memory for a run");
    in->r = (struct report_run){ .run = &run, .last_seconds = NAN };
    run.visit = report_add_row, run.visit_context = &in->r;
    yoke_status status = read_inputs(folder, timeline, in);
    if (!status && !run.has_plan && !run.metrics.n && !in->faults.are_there && !in->record.root)
        status = yoke_fail(YOKE_EDATA, "%s: is no run directory that can be shown: %s; %s", folder,
                           run.metrics_problem, run.plan_problem);
    if (!status) {
        put_page(page, in);
        status = judge(in);
    }
    report_timeline_free(&in->timeline);
    report_faults_free(&in->faults);
    report_record_free(&in->record);
    report_run_free(&in->r);
    compare_run_free(&run);
    free(in);
    return status;
}
