/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a run as metrics for Prometheus. */
#include <math.h>
#include <string.h>

#include "core/base/base.h"
#include "train/run/dashboards.h"
#include "train/trainer/memory.h"

/* The labels of all samples begin with the run. */
static void put(struct yokei_run_state *s, const char *name, bool is_counter, const char *unit, double value,
                const char *help)
{
    const struct yokei_label run = { "run", s->t->run_dir ? s->t->run_dir : "" };
    struct yokei_exposition *x = &s->dashboards->text;
    yokei_exposition_family(x, name, is_counter, unit, help);
    yokei_exposition_sample(x, &run, 1, value);
}

/* The same if the value is known. */
static void put_known(struct yokei_run_state *s, const char *name, const char *unit, double value,
                      const char *help)
{
    if (!isnan(value)) put(s, name, false, unit, value, help);
}

static void put_info(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    struct yokei_exposition *x = &s->dashboards->text;
    char layout[400];
    yokei_text(layout, sizeof layout, "dp %lld, pp %lld, tp %s%.0lld, zero %lld", (long long)p->data,
               (long long)p->pipeline, p->stage_tensor, p->stage_tensor[0] ? 0LL : (long long)p->tensor,
               (long long)p->zero);
    const struct yokei_label labels[] = { { "run", s->t->run_dir ? s->t->run_dir : "" },
                                          { "version", yoke_version() },
                                          { "precision", p->precision },
                                          { "layout", layout },
                                          { "data_hash", p->data_hash } };
    yokei_exposition_family(x, "yoke_train_info", false, NULL,
                            "Facts about the run as labels: the version of Yoke, the precision, the layout "
                            "and the hash of the tokens. The value is 1.");
    yokei_exposition_sample(x, labels, (int)YOKE_COUNT(labels), 1);
}

static void put_ranks(struct yokei_run_state *s)
{
    struct yokei_dashboards *d = s->dashboards;
    struct yokei_exposition *x = &d->text;
    char rank[12];
    struct yokei_label labels[] = {
        { "run", s->t->run_dir ? s->t->run_dir : "" }, { "rank", rank }, { "device", "" }, { "part", "" }
    };
    yokei_exposition_family(x, "yoke_train_memory_planned_bytes", false, "bytes",
                            "Bytes of device memory that the plan gives to the rank.");
    for (int r = 0; r < s->n_ranks; r++) {
        yokei_text(rank, sizeof rank, "%d", r);
        labels[2].value = s->ranks[r].device;
        yokei_exposition_sample(x, labels, 3, (double)s->trainer->memory[r].report.total);
    }
    yokei_exposition_family(x, "yoke_train_part_seconds", true, "seconds",
                            "Seconds that the rank spent on this part of the steps, since the start of this "
                            "process. The parts of a rank sum to the time of the steps.");
    for (int r = 0; r < s->n_ranks; r++) {
        yokei_text(rank, sizeof rank, "%d", r);
        labels[2].value = s->ranks[r].device;
        for (int p = 0; p < YOKEI_N_STEP_PARTS; p++) {
            labels[3].value = yokei_step_part_names[p];
            yokei_exposition_sample(x, labels, 4, d->totals[r][p]);
        }
    }
}

static void put_row(struct yokei_run_state *s)
{
    const struct yokei_dashboards *d = s->dashboards;
    const struct yokei_metrics_row *row = &d->row;
    put(s, "yoke_train_loss", false, NULL, row->loss, "Nats per token of the newest step's batch.");
    put(s, "yoke_train_learning_rate", false, NULL, row->learning_rate,
        "The learning rate of the newest step.");
    put(s, "yoke_train_gradient_norm", false, NULL, row->gradient_norm,
        "The norm of the newest step's gradient, before clipping.");
    put(s, "yoke_train_loss_scale", false, NULL, row->loss_scale, "The factor of the newest step's loss.");
    put(s, "yoke_train_tokens_per_second", false, NULL, row->tokens_per_second,
        "Tokens of the newest step over its seconds.");
    put_known(s, "yoke_train_mfu_ratio", "ratio", row->mfu,
              "FLOPs of the model in the newest step over its seconds and the sum of the devices' peaks.");
    put(s, "yoke_train_last_step_timestamp_seconds", false, "seconds", d->row_time,
        "When the newest step ended, in seconds since 1970.");
}

static void put_saved(struct yokei_run_state *s)
{
    const struct yokei_dashboards *d = s->dashboards;
    put(s, "yoke_train_checkpoint_step", false, NULL, (double)d->saved_step,
        "The step of the newest checkpoint of this process.");
    put(s, "yoke_train_checkpoint_timestamp_seconds", false, "seconds", d->saved_time,
        "When this checkpoint was complete, in seconds since 1970.");
}

yoke_status yokei_dashboards_publish(struct yokei_run_state *s)
{
    const struct yokei_dashboards *d = s->dashboards;
    const bool has_row = d->row_time > 0;
    put_info(s);
    put(s, "yoke_train_running", false, NULL, d->exit_code < 0,
        "1 while the run trains, 0 after its end. A process that is killed leaves a 1.");
    put_known(s, "yoke_train_exit_status", NULL, d->exit_code < 0 ? NAN : d->exit_code,
              "After the end: 0 for success, or else the exit code of yoke train.");
    put(s, "yoke_train_start_timestamp_seconds", false, "seconds", d->started,
        "When this process began to train, in seconds since 1970.");
    put(s, "yoke_train_step", false, NULL, (double)(has_row ? d->row.step : s->first_step),
        "The number of the newest step. A resumed run counts the steps before the checkpoint too.");
    if (s->t->plan.budget_seconds <= 0)
        put(s, "yoke_train_steps_planned", false, NULL, (double)s->t->plan.steps,
            "The number of the run's last step.");
    put(s, "yoke_train_tokens", true, NULL, (double)s->tokens_seen,
        "Tokens that the run has trained on, also before the checkpoint.");
    put(s, "yoke_train_skipped_steps", true, NULL, (double)d->skipped,
        "Steps of this process that the optimizer skipped because gradients overflowed.");
    if (has_row) put_row(s);
    put_known(s, "yoke_train_validation_loss", NULL, d->validation_loss,
              "Nats per token on held-out data, of the newest validation.");
    if (d->saved_step >= 0) put_saved(s);
    put_ranks(s);
    return yokei_exposition_publish(&s->dashboards->text, s->t->metrics_file);
}
