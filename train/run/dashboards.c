/* SPDX-License-Identifier: Apache-2.0 */
/* Event files for TensorBoard, and when the metrics file is written. */
#include "train/run/dashboards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "core/base/times.h"

/*
 * Events wait in memory for a quarter of a second at most while steps are shorter than that. The parts of a
 * step and the metrics file are written once a second at most.
 */
static const uint64_t FLUSH_NS = 250 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000;

/* ---- problems with the files ---- */

/*
 * A problem with these files never ends the run, because metrics.jsonl has all values. The first problem of
 * each kind of file causes a warning.
 */
static void warn_once(bool *warned, yoke_status status)
{
    if (!status || *warned) return;
    *warned = true;
    yoke_log(YOKE_LOG_WARN, "training goes on, and this warning is not repeated: %s", yoke_last_error());
}

static void flush(struct yokei_dashboards *d)
{
    if (!d->events || !yokei_events_are_pending(d->events)) return;
    warn_once(&d->warned_events, yokei_events_flush(d->events));
    d->flushed_ns = yokei_now_ns();
}

static void publish(struct yokei_run_state *s)
{
    struct yokei_dashboards *d = s->dashboards;
    warn_once(&d->warned_metrics, yokei_dashboards_publish(s));
    d->published_ns = yokei_now_ns();
}

void yokei_run_flush_dashboards(struct yokei_run_state *s)
{
    if (s->dashboards) flush(s->dashboards);
}

/* ---- the beginning ---- */

static yoke_status allocate(struct yokei_run_state *s)
{
    const size_t n = (size_t)s->n_ranks;
    struct yokei_dashboards *d = s->dashboards = calloc(1, sizeof *d);
    if (d) {
        d->parts = calloc(n, sizeof *d->parts);
        d->totals = calloc(n, sizeof *d->totals);
        d->divided = calloc(n, sizeof *d->divided);
    }
    if (!d || !d->parts || !d->totals || !d->divided)
        return yoke_fail(YOKE_ENOMEM, "train: no host memory for dashboards");
    d->before = s->seconds_before;
    d->validation_loss = NAN;
    d->saved_step = -1;
    d->exit_code = -1;
    d->started = yokei_wall();
    return YOKE_OK;
}

/* TensorBoard drops what it read of the steps that a resumed run trains again. */
static yoke_status open_events(struct yokei_run_state *s)
{
    struct yokei_dashboards *d = s->dashboards;
    bool older = false;
    char *settings = NULL;
    YOKE_TRY(yokei_events_open(s->t->tensorboard, &d->events, &older));
    if (older && !s->t->resume)
        yoke_log(YOKE_LOG_WARN,
                 "%s has events of an earlier run. TensorBoard shows the files of a folder as one run, and "
                 "hides steps of the earlier run. Give each run a folder of its own",
                 s->t->tensorboard);
    YOKE_TRY(yokei_dashboards_settings(s, &settings));
    yokei_events_start(d->events, d->started, s->first_step ? s->first_step + 1 : 0);
    yokei_events_begin(d->events, d->started, s->first_step);
    yokei_events_text(d->events, "run/settings", "The settings of the run, from its plan.json.", settings);
    yokei_events_end(d->events);
    free(settings);
    return yokei_events_flush(d->events);
}

static yoke_status begin(struct yokei_run_state *s)
{
    const struct yokei_training *t = s->t;
    YOKE_TRY(allocate(s));
    if (t->tensorboard && t->tensorboard_histograms > 0)
        YOKE_TRY(yokei_gradients_create(s->trainer, &s->dashboards->gradients));
    if (s->rank != 0) return YOKE_OK;
    if (t->tensorboard) YOKE_TRY(open_events(s));
    if (!t->metrics_file) return YOKE_OK;
    s->dashboards->publishes = true;
    s->dashboards->text.is_prometheus = yokei_exposition_is_prometheus(t->metrics_file);
    YOKE_TRY(yokei_dashboards_publish(s));
    s->dashboards->published_ns = yokei_now_ns();
    return YOKE_OK;
}

yoke_status yokei_run_begin_dashboards(struct yokei_run_state *s)
{
    if (!s->t->tensorboard && !s->t->metrics_file) return YOKE_OK;
    return yokei_ranks_all_well(&s->config, begin(s));
}

/* ---- histograms ---- */

yoke_status yokei_run_count_gradients(struct yokei_run_state *s, int64_t step, bool overflow)
{
    struct yokei_dashboards *d = s->dashboards;
    if (!d || !d->gradients || step % s->t->tensorboard_histograms || overflow) return YOKE_OK;
    YOKE_TRY(yokei_gradients_count(d->gradients));
    if (!d->events) return YOKE_OK;
    yokei_events_begin(d->events, yokei_wall(), step);
    for (int g = 0; g < d->gradients->n_groups; g++) {
        char tag[96];
        yokei_text(tag, sizeof tag, "gradients/%s", d->gradients->name[g]);
        yokei_events_histogram(d->events, tag,
                               d->described_gradients ? NULL : "The gradients of the step before clipping.",
                               &d->gradients->histogram[g]);
    }
    yokei_events_end(d->events);
    d->described_gradients = true;
    return YOKE_OK;
}

/* ---- the rows ---- */

static void divide_row(struct yokei_dashboards *d, const struct yokei_metrics_row *row, bool has_pipeline)
{
    const bool is_divided = yokei_step_divide_row(row->seconds - d->before, row, has_pipeline, d->divided);
    for (int64_t r = 0; r < row->n_ranks && is_divided; r++)
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) {
            d->parts[r][p] += d->divided[r][p];
            d->totals[r][p] += d->divided[r][p];
        }
    d->before = row->seconds;
    d->n_parts++;
}

/* The mean parts of the steps since the last event of this kind. */
static void add_parts(struct yokei_run_state *s, double now, int64_t step)
{
    struct yokei_dashboards *d = s->dashboards;
    if (!d->n_parts) return;
    yokei_events_begin(d->events, now, step);
    for (int r = 0; r < s->n_ranks; r++)
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) {
            char tag[96], about[256];
            yokei_text(tag, sizeof tag, "seconds_of_rank_%d/%s", r, yokei_step_part_names[p]);
            for (char *c = tag; *c; c++)
                if (*c == ' ') *c = '_';
            yokei_text(about, sizeof about,
                       "Seconds of a step of rank %d (%s), mean of the steps since the point before: %s.", r,
                       s->ranks[r].device, yokei_step_part_words[p]);
            yokei_events_scalar(d->events, tag, d->parts_ns ? NULL : about,
                                d->parts[r][p] / (double)d->n_parts);
        }
    yokei_events_end(d->events);
    memset(d->parts, 0, (size_t)s->n_ranks * sizeof *d->parts);
    d->n_parts = 0;
    d->parts_ns = yokei_now_ns();
}

static void add_validation(struct yokei_dashboards *d, double loss)
{
    yokei_events_scalar(d->events, "training/validation_loss",
                        isnan(d->validation_loss) ? "Nats per token, on held-out data." : NULL, loss);
}

static void add_row(struct yokei_dashboards *d, const struct yokei_metrics_row *row, double now)
{
    const struct {
        const char *tag, *about;
        double value;
    } values[] = {
        { "training/loss", "Nats per token of the step's batch.", row->loss },
        { "training/learning_rate", "The learning rate of the step.", row->learning_rate },
        { "training/gradient_norm", "The norm of the gradient before clipping.", row->gradient_norm },
        { "training/loss_scale", "The factor of the loss in f16.", row->loss_scale },
        { "training/skipped", "1: the gradients overflowed, so the optimizer did not step.", row->skipped },
        { "speed/tokens_per_second", "Tokens of the step over its seconds.", row->tokens_per_second },
        { "speed/mfu", "FLOPs of the model over the seconds and the sum of the devices' peaks.", row->mfu },
    };
    yokei_events_begin(d->events, now, row->step);
    for (size_t i = 0; i < YOKE_COUNT(values); i++)
        if (i + 1 < YOKE_COUNT(values) || !isnan(row->mfu))
            yokei_events_scalar(d->events, values[i].tag, d->described ? NULL : values[i].about,
                                values[i].value);
    if (!isnan(row->validation_loss)) add_validation(d, row->validation_loss);
    yokei_events_end(d->events);
    d->described = true;
}

void yokei_run_show_row(struct yokei_run_state *s, const struct yokei_metrics_row *row)
{
    struct yokei_dashboards *d = s->dashboards;
    if (!d || (!d->events && !d->publishes)) return;
    const double now = yokei_wall();
    const uint64_t now_ns = yokei_now_ns();
    divide_row(d, row, s->t->plan.pipeline > 1);
    if (d->events) {
        add_row(d, row, now);
        if (now_ns - d->parts_ns >= SECOND_NS) add_parts(s, now, row->step);
        if (now_ns - d->flushed_ns >= FLUSH_NS) flush(d);
    }
    d->row = *row;
    d->row.ranks = NULL;
    d->row_time = now;
    d->skipped += row->skipped;
    if (!isnan(row->validation_loss)) d->validation_loss = row->validation_loss;
    if (d->publishes && now_ns - d->published_ns >= SECOND_NS) publish(s);
}

void yokei_run_show_save(struct yokei_run_state *s, int64_t step)
{
    struct yokei_dashboards *d = s->dashboards;
    if (!d || s->saved_step != step) return;
    d->saved_step = step;
    d->saved_time = yokei_wall();
}

/* ---- the end ---- */

static void end_events(struct yokei_run_state *s, const struct yokei_training_result *result, int64_t last)
{
    struct yokei_dashboards *d = s->dashboards;
    const double now = yokei_wall();
    add_parts(s, now, last);
    /* a validation after the last step is in its row */
    if (isfinite(result->validation_loss) && (d->row_time <= 0 || isnan(d->row.validation_loss))) {
        yokei_events_begin(d->events, now, last);
        add_validation(d, result->validation_loss);
        yokei_events_end(d->events);
    }
    warn_once(&d->warned_events, yokei_events_close(d->events));
    d->events = NULL;
}

void yokei_run_end_dashboards(struct yokei_run_state *s, const struct yokei_training_result *result,
                              yoke_status status)
{
    struct yokei_dashboards *d = s->dashboards;
    struct yokei_error text;
    if (!d) return;
    yokei_error_save(&text);
    if (d->events) end_events(s, result, d->row_time > 0 ? d->row.step : s->first_step);
    if (isfinite(result->validation_loss)) d->validation_loss = result->validation_loss;
    d->exit_code = yoke_status_exit_code(status);
    if (d->publishes) publish(s);
    yokei_gradients_free(d->gradients);
    yokei_exposition_free(&d->text);
    free(d->parts);
    free(d->totals);
    free(d->divided);
    free(d);
    s->dashboards = NULL;
    yokei_error_restore(&text);
}
