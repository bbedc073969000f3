/* SPDX-License-Identifier: Apache-2.0 */
/* The page of one run directory. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"
#include "cli/report/svg.h"
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
    int64_t best = -1;
    char a[REPORT_REAL], b[REPORT_REAL];
    for (size_t i = 0; i < m->n; i++)
        if (isfinite(r->validation[i]) && (best < 0 || r->validation[i] < r->validation[best]))
            best = (int64_t)i;
    report_item(page, "The run took %" PRId64 " steps and %" PRId64 " tokens in %s s.", last->step,
                last->tokens, report_real(last->seconds, a));
    char validation[256] = "no validation loss was measured";
    if (best >= 0)
        yokei_text(validation, sizeof validation,
                   "the validation loss is %.6g at step %" PRId64
                   ", and its least value is %.6g at step %" PRId64,
                   r->run->validation_loss, r->run->validation_step, r->validation[best], m->rows[best].step);
    report_item(page, "The loss went from %s (step %" PRId64 ") to %s (step %" PRId64 "); %s.",
                report_real(first->loss, a), first->step, report_real(last->loss, b), last->step, validation);
    const double mfu = report_median(r->mfu, m->n);
    char use[96] = "";
    if (isfinite(mfu)) yokei_text(use, sizeof use, ", and an mfu of %.3g %% or more", 100 * mfu);
    report_item(page, "Half of the steps reached %s tokens/s or more%s. %" PRId64 " steps were skipped.",
                report_real(r->run->tokens_per_second, a), use, count_skipped(r->run));
}

static void put_result(struct report_page *page, const struct report_run *r)
{
    char waiting[256];
    const struct compare_run *run = r->run;
    report_heading(page, "Result");
    report_list_begin(page);
    if (run->metrics.n) {
        result_of_losses(page, r);
        report_waiting_text(r, waiting, sizeof waiting);
        report_item(page, "%s", waiting);
    }
    if (run->has_plan && run->memory > 0)
        report_item(page, "All ranks together need %.5g MiB of memory, and one rank at most %.5g MiB.",
                    run->memory / 0x1p20, run->largest_memory / 0x1p20);
    report_list_end(page);
}

/* ---- how to repeat it ---- */

/* A word for the shell. */
static void add_word(char *out, size_t bytes, const char *word)
{
    const size_t used = strlen(out);
    if (*word
        && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,-+")
               == strlen(word)) {
        yokei_text(out + used, bytes - used, "%s", word);
        return;
    }
    yokei_text(out + used, bytes - used, "'");
    for (; *word; word++) {
        const size_t at = strlen(out);
        yokei_text(out + at, bytes - at, *word == '\'' ? "'\\''" : "%c", *word);
    }
    const size_t end = strlen(out);
    yokei_text(out + end, bytes - end, "'");
}

/* The devices in the order in which the job was started. */
static void add_devices(char *out, size_t bytes, const struct yokei_plan *plan)
{
    for (int64_t job = 0; job < plan->n_ranks; job++)
        for (int64_t i = 0; i < plan->n_ranks; i++) {
            const int64_t at = plan->ranks[i].job_rank < 0 ? i : plan->ranks[i].job_rank;
            if (at != job) continue;
            if (job) yokei_text(out + strlen(out), bytes - strlen(out), ",");
            yokei_text(out + strlen(out), bytes - strlen(out), "%s", plan->ranks[i].device);
            break;
        }
}

static void put_repeat(struct report_page *page, const struct report_run *r)
{
    const struct yokei_plan *plan = &r->run->plan;
    enum { BYTES = 65536 };
    if (!r->run->has_plan || plan->n_ranks > 1024) return;
    char *command = calloc(1, BYTES), *devices = calloc(1, BYTES), path[4200];
    if (command && devices) {
        yokei_text(path, sizeof path, "%s/plan.json", r->run->folder);
        add_devices(devices, BYTES, plan);
        yokei_text(command, BYTES, "yoke run -n %" PRId64 " --devices ", plan->n_ranks);
        add_word(command, BYTES, devices);
        yokei_text(command + strlen(command), BYTES - strlen(command), " -- train --text FILE --plan ");
        add_word(command, BYTES, path);
        report_heading(page, "The command that repeats the run");
        report_command(page, command);
        report_paragraph(
            page,
            "FILE is the text of the run; for a file of tokens, --tokens FILE stands instead. The tokens "
            "have the hash %s, which yoke train checks.",
            plan->data_hash);
    }
    free(command);
    free(devices);
}

/* ---- environment ---- */

static void put_fact(struct report_page *page, const char *name, const char *format, ...) YOKE_PRINTF(3, 4);
static void put_fact(struct report_page *page, const char *name, const char *format, ...)
{
    char text[4400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report_row_begin(page);
    report_cell(page, name);
    report_cell(page, text);
    report_row_end(page);
}

static void put_environment(struct report_page *page, const struct report_run *r)
{
    const struct yokei_plan *p = &r->run->plan;
    static const char *const facts[] = { "key", "value" }, *const heads[] = { "rank", "device", "threads",
                                                                              "sequences", "micro-batch" };
    if (!r->run->has_plan) return;
    report_heading(page, "Devices and settings");
    report_table_begin(page, facts, 2);
    put_fact(page, "run directory", "%s", r->run->folder);
    put_fact(page, "yoke that wrote this page", "%s", yoke_version());
    put_fact(page, "precision", "%s", p->precision);
    put_fact(page, "seed", "%" PRIu64, p->seed);
    put_fact(page, "batch and sequence", "%" PRId64 " sequences of %" PRId64 " tokens", p->batch,
             p->sequence);
    put_fact(page, "layout", "dp %" PRId64 ", pp %" PRId64 ", tp %s%.0" PRId64 ", zero %" PRId64, p->data,
             p->pipeline, p->stage_tensor, p->stage_tensor[0] ? 0 : p->tensor, p->zero);
    put_fact(page, "learning rate", "%.9g, at the end %.9g, warm-up %" PRId64 " steps", p->learning_rate,
             p->min_learning_rate, p->warmup);
    if (p->left_out[0]) put_fact(page, "devices left out", "%s", p->left_out);
    report_table_end(page);
    report_table_begin(page, heads, (int)YOKE_COUNT(heads));
    for (int64_t i = 0; i < p->n_ranks; i++) {
        report_row_begin(page);
        report_number(page, (double)i, "%.0f");
        report_cell(page, p->ranks[i].device);
        report_number(page, (double)p->ranks[i].threads, "%.0f");
        report_number(page, (double)p->ranks[i].samples, "%.0f");
        report_number(page, (double)p->ranks[i].micro_batch, "%.0f");
        report_row_end(page);
    }
    report_table_end(page);
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

/* One column. The title's numbers are its median, and its largest value with the step. */
static void put_column(struct report_page *page, const struct report_run *r, const double *column, int colour,
                       const char *name, const char *unit, bool from_zero)
{
    const size_t n = r->run->metrics.n;
    char title[256];
    size_t most = n;
    for (size_t i = 0; i < n; i++)
        if (isfinite(column[i]) && (most == n || column[i] > column[most])) most = i;
    if (most == n) return;
    yokei_text(title, sizeof title, "The %s has a median of %.6g; its largest value is %.6g at step %.9g.",
               name, report_median(column, n), column[most], r->step[most]);
    const struct svg_series line = { name, r->step, column, n, .colour = colour };
    svg_lines(page, &(struct svg_chart){ title, "step", unit, &line, 1, from_zero });
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

static void put_curves(struct report_page *page, const struct report_run *r)
{
    if (!r->run->metrics.n) return;
    report_heading(page, "Learning");
    report_charts_begin(page);
    put_losses(page, r);
    put_column(page, r, r->rate, 2, "learning rate", "learning rate", true);
    put_column(page, r, r->norm, 3, "gradient norm", "norm", true);
    put_column(page, r, r->scale, 4, "loss scale", "factor", true);
    report_charts_end(page);
    put_skipped(page, r);
    report_heading(page, "Speed");
    report_charts_begin(page);
    put_column(page, r, r->speed, 0, "speed", "tokens/s", true);
    put_column(page, r, r->mfu, 2, "mfu", "share of the devices' peak", true);
    report_charts_end(page);
    report_paragraph(
        page, "The times of a run on emulated devices are no times. A run directory does not say whether its "
              "devices were emulated.");
}

/* ---- the page ---- */

static yoke_status judge(const struct compare_run *run)
{
    if (run->plan_problem[0]) return yoke_fail(YOKE_EDATA, "%s; the report is without it", run->plan_problem);
    if (run->metrics_problem[0])
        return yoke_fail(YOKE_EDATA, "%s; %s", run->metrics_problem,
                         run->metrics.n ? "the report has the rows before it" : "the report is without it");
    return YOKE_OK;
}

static void put_page(struct report_page *page, const struct report_run *r)
{
    char title[4300];
    int n_missing = 0;
    yokei_text(title, sizeof title, "Training run %s", r->run->folder);
    report_begin(page, title);
    put_result(page, r);
    report_missing(page, r, &n_missing);
    if (n_missing) report_list_end(page);
    put_repeat(page, r);
    put_environment(page, r);
    put_curves(page, r);
    report_shares(page, r);
    report_memory(page, r);
    report_end(page);
}

yoke_status report_of_run(struct report_page *page, const char *folder, const char *timeline)
{
    struct compare_run run = { .folder = folder };
    (void)timeline;
    struct report_run r = { .run = &run, .last_seconds = NAN };
    run.visit = report_add_row, run.visit_context = &r;
    yoke_status status = compare_run_read(&run);
    if (!status && !run.has_plan && !run.metrics.n)
        status = yoke_fail(YOKE_EDATA, "%s; %s", run.metrics_problem, run.plan_problem);
    else if (!status)
        status = report_columns(&r);
    if (!status) {
        put_page(page, &r);
        status = judge(&run);
    }
    report_run_free(&r);
    compare_run_free(&run);
    return status;
}
