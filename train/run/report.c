/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a run while it trains: metrics, and progress for the user. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "core/base/base.h"
#include "train/run/loop.h"
#include "train/trainer/memory.h"

void yokei_run_note(const struct yokei_run_state *s, const char *format, ...)
{
    char text[1024];
    va_list args;
    if (s->rank != 0 || !s->t->note) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->t->note(s->t->context, text);
}

void yokei_run_busy(const struct yokei_run_state *s, const char *text)
{
    if (s->rank == 0 && s->t->busy) s->t->busy(s->t->context, text);
}

static void note_line(void *context, const char *text) { yokei_run_note(context, "%s", text); }

yoke_status yokei_run_memory(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    struct yoke_memory_report *list = calloc((size_t)p->n_ranks,
                                             sizeof *list); /* ranks that are left out have zeros */
    if (!list) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %lld ranks", (long long)p->n_ranks);
    for (int r = 0; r < s->n_ranks; r++) {
        list[s->placed[r]] = s->trainer->memory[r].report;
        p->ranks[s->placed[r]].memory_limit = (int64_t)YOKE_MIN(s->trainer->memory[r].have,
                                                                (uint64_t)INT64_MAX / 2);
    }
    free(p->memory);
    p->memory = list;
    p->n_memory = p->n_ranks;
    if (s->t->verbose)
        yokei_memory_table(s->trainer->memory, s->n_ranks, note_line, s);
    else
        yokei_memory_line(s->trainer->memory, s->n_ranks, note_line, s);
    return YOKE_OK;
}

/*
 * The longest time that any rank needs from its first pass to its last. A rank's bubble is relative to this
 * time.
 */
static double longest_span(const struct yokei_run_state *s, const struct yoke_step_result *step)
{
    double longest = 0;
    for (int r = 0; r < s->n_ranks; r++) longest = fmax(longest, step->ranks[r].span_seconds);
    return longest;
}

/* Fill in how each rank used its time, and which part of its device's peak it reached. */
static void fill_ranks(struct yokei_run_state *s, const struct yoke_step_result *step, double longest)
{
    for (int r = 0; r < s->n_ranks; r++) {
        struct yokei_metrics_rank *m = &s->ranks[r];
        const struct yoke_rank_report *report = &step->ranks[r];
        m->compute_seconds = report->compute_seconds;
        m->wait_seconds = fmax(step->seconds - m->compute_seconds, 0);
        m->tokens_per_second = m->compute_seconds > 0
                                   ? (double)(s->shares[r] * s->t->plan.sequence) / m->compute_seconds
                                   : 0;
        m->mfu = step->seconds > 0 ? s->flops[r] / (step->seconds * s->peaks[r]) : NAN;
        m->bubble = longest > 0 ? fmin(fmax(1 - report->busy_seconds / longest, 0), 1) : NAN;
        m->exposed_communication_seconds = report->exposed_seconds;
        m->busy_seconds = report->busy_seconds;
        m->data_seconds = report->data_seconds;
        m->checkpoint_seconds = report->checkpoint_seconds;
        m->processor_seconds = report->processor_seconds;
        m->queued_seconds = report->queued_seconds;
        m->preemptions = report->preemptions;
        m->major_faults = report->major_faults;
        m->compile_seconds = report->compile_seconds;
    }
}

/* Fill in the values for all ranks together. */
static void fill_row(const struct yokei_run_state *s, const struct yoke_step_result *step, double longest,
                     struct yokei_metrics_row *row)
{
    double flops = 0, peak = 0, useful = 0, exposed = 0;
    for (int r = 0; r < s->n_ranks; r++) {
        flops += s->flops[r];
        peak += s->peaks[r];
        useful += step->ranks[r].useful_seconds / s->n_ranks;
        exposed += step->ranks[r].exposed_seconds / s->n_ranks;
    }
    row->mfu = step->seconds > 0 ? flops / (step->seconds * peak) : NAN;
    row->bubble = longest > 0 ? fmin(fmax(1 - useful / longest, 0), 1) : NAN;
    row->exposed_communication_seconds = exposed;
}

yoke_status yokei_run_report(struct yokei_run_state *s, const struct yoke_step_result *step,
                             double learning_rate, double seconds)
{
    const struct yokei_plan *p = &s->t->plan;
    if (s->rank != 0) return YOKE_OK;
    const double longest = longest_span(s, step);
    fill_ranks(s, step, longest);
    double rate = step->seconds > 0 ? (double)(p->batch * p->sequence) / step->seconds : 0;
    struct yokei_metrics_row row = { .step = step->step,
                                     .tokens = s->tokens_seen,
                                     .seconds = seconds,
                                     .loss = step->loss,
                                     .validation_loss = s->validation_loss,
                                     .audit = s->audited.ratio,
                                     .audit_seconds = s->audited.seconds,
                                     .learning_rate = learning_rate,
                                     .gradient_norm = step->gradient_norm,
                                     .loss_scale = step->loss_scale,
                                     .skipped = step->overflow,
                                     .tokens_per_second = rate,
                                     .ranks = s->ranks,
                                     .n_ranks = s->n_ranks };
    s->validation_loss = NAN;
    s->audited = (struct yokei_audit_result){ NAN, NAN };
    fill_row(s, step, longest, &row);
    if (s->metrics) YOKE_TRY(yokei_metrics_write(s->metrics, &row));
    yokei_run_show_row(s, &row);
    struct yokei_training_progress progress = { .step = step->step,
                                                .tokens = s->tokens_seen,
                                                .loss = step->loss,
                                                .learning_rate = learning_rate,
                                                .tokens_per_second = rate,
                                                .seconds = seconds,
                                                .n_ranks = s->n_ranks,
                                                .ranks = s->ranks };
    progress.seconds_left = p->budget_seconds > 0 ? fmax(p->budget_seconds - seconds, 0)
                            : step->step > s->first_step
                                ? (seconds - s->seconds_before) / (double)(step->step - s->first_step)
                                      * (double)(p->steps - step->step)
                                : NAN;
    if (s->t->progress) s->t->progress(s->t->context, &progress);
    return YOKE_OK;
}
