/* SPDX-License-Identifier: Apache-2.0 */
/* A training run, from opening its data to writing its files. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "core/base/busy.h"
#include "train/run/black_box.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

static yoke_status open_data(struct yokei_run_state *s)
{
    struct yokei_training *t = s->t;
    struct yokei_tokens_config c = YOKEI_TOKENS_CONFIG_INIT;
    c.format = t->tokens_are_llmc ? YOKEI_TOKENS_LLMC : YOKEI_TOKENS_AUTO;
    c.vocab = yokei_model_vocabulary(yokei_plan_model(&t->plan));
    c.validation_share = t->plan.validation_share;
    YOKE_TRY(yokei_run_open_tokens(s, &c));
    YOKE_TRY(yokei_tokens_check_length(s->tokens, t->plan.sequence));
    char hash[24];
    s->tokens_hash = yokei_tokens_hash(s->tokens);
    yokei_text(hash, sizeof hash, "%016" PRIx64, s->tokens_hash);
    if ((t->replay || t->resume) && strcmp(t->plan.data_hash, YOKEI_ANY_DATA) != 0
        && strcmp(hash, t->plan.data_hash) != 0)
        return yoke_fail(YOKE_ECONFIG,
                         "%s was made for other data (hash %s) than %s (%s): give the plan's own data",
                         t->plan_path, t->plan.data_hash, t->tokens, hash);
    yokei_text(t->plan.data_hash, sizeof t->plan.data_hash, "%s", hash);
    return YOKE_OK;
}

/*
 * Run one step so that kernels are compiled outside the run's clock. The caller then draws or loads the
 * weights again.
 */
static yoke_status warm_up(struct yokei_run_state *s)
{
    struct yoke_step_result result;
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->inputs, s->targets, 0, &result));
    YOKE_TRY(yoke_trainer_apply(s->trainer, 0, &result));
    return YOKE_OK;
}

/* Where an epoch begins, check that the file of the tokens is the same as before. */
static yoke_status check_epoch(struct yokei_run_state *s)
{
    const int64_t epoch = s->next_sample / yokei_tokens_n_samples(s->tokens, s->t->plan.sequence);
    if (epoch == s->epoch) return YOKE_OK;
    s->epoch = epoch;
    return yokei_tokens_unchanged(s->tokens, s->tokens_hash);
}

static yoke_status read_batch(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    int64_t first, count, T = p->sequence;
    YOKE_TRY(check_epoch(s));
    yoke_trainer_range(s->trainer, &first, &count);
    for (int64_t i = 0; i < count; i++)
        YOKE_TRY(yokei_tokens_sample(s->tokens, p->seed,
                                     yokei_skips_nth(&s->skips, s->next_sample, first + i), T,
                                     s->inputs + i * T, s->targets + i * T));
    return YOKE_OK;
}

static void path_in(const struct yokei_run_state *s, const char *name, char *out, size_t bytes)
{
    yokei_text(out, bytes, "%s/%s", s->t->run_dir, name);
}

static yoke_status write_plan(const struct yokei_run_state *s)
{
    char path[4096];
    if (s->rank != 0 || !s->t->run_dir) return YOKE_OK;
    path_in(s, "plan.json", path, sizeof path);
    return yokei_plan_write(path, &s->t->plan);
}

static yoke_status allocate(struct yokei_run_state *s)
{
    size_t n = (size_t)s->n_ranks;
    s->ranks = calloc(n, sizeof *s->ranks);
    s->shares = calloc(n, sizeof *s->shares);
    s->threads = calloc(n, sizeof *s->threads);
    s->peaks = calloc(n, sizeof *s->peaks);
    s->flops = calloc(n, sizeof *s->flops);
    s->compute_sum = calloc(n, sizeof *s->compute_sum);
    if (!s->ranks || !s->shares || !s->threads || !s->peaks || !s->flops || !s->compute_sum)
        return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    return YOKE_OK;
}

static yoke_status open_metrics(struct yokei_run_state *s)
{
    char path[4096];
    if (s->rank != 0 || !s->t->run_dir) return YOKE_OK;
    path_in(s, "metrics.jsonl", path, sizeof path);
    return yokei_metrics_open(path, s->t->resume ? s->first_step : -1, &s->metrics);
}

static yoke_status set_up_run(struct yokei_run_state *s)
{
    struct yokei_training *t = s->t;
    const struct yoke_trainer_config ranks = { .comm = t->comm, .control = t->control };
    s->compiled_before = yokei_compiled_seconds();
    yokei_run_begin_ranks(s);
    s->validation_loss = NAN;
    s->audited = (struct yokei_audit_result){ NAN, NAN };
    s->saved_step = -1;
    YOKE_TRY(allocate(s));
    YOKE_TRY(open_data(s));
    YOKE_TRY(yokei_skips_parse("skip_samples", t->plan.skip_samples, &s->skips));
    YOKE_TRY(yokei_ranks_agree(
        &ranks, yokei_hash(t->plan.skip_samples, strlen(t->plan.skip_samples), s->tokens_hash), NULL,
        "read different data: give all hosts the same files, and the same samples to skip"));
    if (s->skips.n) yokei_run_note(s, "the run never trains on samples %s", t->plan.skip_samples);
    YOKE_TRY(yokei_model_create(yokei_plan_model(&t->plan), &s->model));
    YOKE_TRY(yokei_run_divide(s));
    if (s->rank < 0) return YOKE_OK;
    YOKE_TRY(yokei_run_check_audit(s));
    s->config = yokei_run_trainer_config(s);
    YOKE_TRY(yokei_run_set_products(s));
    YOKE_TRY(yoke_trainer_create(s->model, t->device, &s->config, &s->trainer));
    YOKE_TRY(yokei_run_begin_audit(s));
    YOKE_TRY(yokei_run_memory(s));
    YOKE_TRY(yokei_run_note_zero(s));
    size_t n = (size_t)(s->shares[s->rank] * t->plan.sequence) * sizeof(int32_t);
    s->inputs = malloc(n + 4);
    s->targets = malloc(n + 4);
    if (!s->inputs || !s->targets) return yoke_fail(YOKE_ENOMEM, "train: no host memory for a batch");
    YOKE_TRY(read_batch(s));
    yokei_ranks_busy(&s->config, "compiling kernels");
    YOKE_TRY(warm_up(s));
    YOKE_TRY(yokei_run_look(s));
    YOKE_TRY(yoke_trainer_draw(s->trainer, t->plan.seed));
    if (t->resume)
        YOKE_TRY(yokei_run_restore(s));
    else if (t->init)
        YOKE_TRY(yokei_weights_load(s->trainer, yokei_plan_model(&t->plan), t->init));
    if (s->n_ranks > 1) YOKE_TRY(yokei_weights_compare(s->trainer));
    YOKE_TRY(yokei_run_check_save(s));
    YOKE_TRY(yokei_run_begin_timeline(s));
    YOKE_TRY(yokei_run_find_companions(s));
    YOKE_TRY(yokei_run_note_products(s));
    YOKE_TRY(write_plan(s));
    YOKE_TRY(open_metrics(s));
    YOKE_TRY(yokei_run_begin_dashboards(s));
    return yokei_run_box_begin(s);
}

/*
 * Record the step from which on this part of the budget was spent. A replay of the plan uses these records.
 */
static yoke_status note_progress(struct yokei_run_state *s, int64_t step, int64_t permille)
{
    struct yokei_plan *p = &s->t->plan;
    if (p->budget_seconds <= 0 || s->t->replay) return YOKE_OK;
    if (p->n_progress && p->progress[p->n_progress - 1].permille == permille) return YOKE_OK;
    struct yokei_plan_progress *list = realloc(p->progress, (size_t)(p->n_progress + 1) * sizeof *list);
    if (!list) return yoke_fail(YOKE_ENOMEM, "train: no host memory for the plan");
    p->progress = list;
    list[p->n_progress++] = (struct yokei_plan_progress){ step, permille };
    return YOKE_OK;
}

static bool is_over(const struct yokei_plan *p, bool replay, int64_t step, int64_t permille)
{
    if (p->budget_seconds <= 0) return step >= p->steps;
    return replay && p->n_progress ? step >= p->steps : permille >= 1000;
}

/* Whether the run of the checkpoint had ended. A checkpoint of the last step has no step after it. */
static bool was_over(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    return s->first_step > 0
           && is_over(p, s->t->replay, s->first_step,
                      yokei_rate_permille(p, s->t->replay, s->first_step + 1, s->seconds_before));
}

static yoke_status preempted(const struct yokei_run_state *s, int64_t step)
{
    if (!s->t->save)
        return yoke_fail(
            YOKE_EABORTED,
            "asked to stop: the run ended behind step %lld; nothing was saved, as --save was not given",
            (long long)step);
    return yoke_fail(YOKE_EPREEMPTED,
                     "asked to stop: the run was saved behind step %lld; go on with --resume %s",
                     (long long)step, s->t->save);
}

/*
 * Count a step for the times that are reported at the end. All steps count except the first; if there is
 * only one step, it counts.
 */
static void count_step(struct yokei_run_state *s, const struct yoke_step_result *step, bool is_second)
{
    if (is_second) {
        memset(s->compute_sum, 0, (size_t)s->n_ranks * sizeof *s->compute_sum);
        s->step_sum = 0;
        s->n_counted = 0;
    }
    for (int r = 0; r < s->n_ranks; r++) s->compute_sum[r] += step->ranks[r].busy_seconds;
    s->step_sum += step->seconds;
    s->n_counted++;
}

/* Write the row of a step. If an audit found a difference, the row is written, and then the run ends. */
static yoke_status report(struct yokei_run_state *s, const struct yoke_step_result *step, double rate,
                          yoke_status audited)
{
    struct yokei_error text;
    yokei_error_save(&text);
    yokei_run_box_note(s, step, rate, audited);
    const yoke_status status = yokei_run_report(s, step, rate,
                                                s->seconds_before + yokei_seconds_since(s->begun_ns));
    if (!audited) return status;
    yokei_error_restore(&text);
    return audited;
}

/* Save. The row of the next step has the seconds. */
static yoke_status save_step(struct yokei_run_state *s, int64_t n, double clock, bool must)
{
    const uint64_t begun = yokei_now_ns();
    yokei_run_flush_dashboards(s);
    YOKE_TRY(yokei_run_save(s, n, clock, must));
    yokei_run_show_save(s, n);
    yokei_trainer_note(s->trainer, 0, yokei_seconds_since(begun));
    return YOKE_OK;
}

/* Run one step, and the work that is due after it. */
static yoke_status run_training_step(struct yokei_run_state *s, int64_t n,
                                     struct yokei_training_result *result, bool *over_out)
{
    struct yokei_training *t = s->t;
    struct yokei_plan *p = &t->plan;
    struct yoke_step_result step;
    bool stop = false;
    const uint64_t begun = yokei_now_ns();
    YOKE_TRY(read_batch(s));
    yokei_trainer_note(s->trainer, yokei_seconds_since(begun), 0);
    yokei_run_box_step(s, n);
    if (t->stop && *t->stop) yoke_trainer_ask_to_stop(s->trainer);
    if (s->collector) yokei_collector_before(s->collector, n);
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->inputs, s->targets,
                                   s->seconds_before + yokei_seconds_since(s->begun_ns), &step));
    if (n == s->first_step + 1 && t->dump_gradients && (s->rank == 0 || yokei_run_is_spread(s)))
        YOKE_TRY(
            yokei_weights_dump(s->trainer, YOKE_TENSOR_GRADIENT, s->rank == 0 ? t->dump_gradients : NULL));
    YOKE_TRY(yokei_run_count_gradients(s, n, step.overflow));
    double clock = step.ranks[0].clock;
    int64_t permille = yokei_rate_permille(p, t->replay, n, clock);
    double rate = yokei_rate(p, n, permille);
    YOKE_TRY(note_progress(s, n, permille));
    YOKE_TRY(yoke_trainer_apply(s->trainer, rate, &step));
    if (s->collector) YOKE_TRY(yokei_collector_behind(s->collector, n));
    YOKE_TRY(yokei_run_box_applied(s, &step));
    count_step(s, &step, n == s->first_step + 2);
    *over_out = is_over(p, t->replay, n, permille);
    for (int r = 0; r < s->n_ranks; r++) stop = stop || step.ranks[r].asked_to_stop;
    s->tokens_seen += p->batch * p->sequence;
    s->next_sample = yokei_skips_nth(&s->skips, s->next_sample, p->batch);
    result->steps = n;
    result->tokens += p->batch * p->sequence;
    result->loss = step.loss;
    if (n == s->first_step + 1) result->first_loss = step.loss;
    if (t->evaluate_every > 0 && n % t->evaluate_every == 0) yokei_run_flush_dashboards(s);
    if (t->evaluate_every > 0 && n % t->evaluate_every == 0)
        YOKE_TRY(yokei_run_validate(s, &s->validation_loss, &result->validation_tokens));
    const yoke_status audited = yokei_run_audit(s, n);
    if (audited && audited != YOKE_ENUMERIC) return audited;
    YOKE_TRY(report(s, &step, rate, audited));
    stop = stop && !*over_out;
    if (t->save && (stop || *over_out || yokei_run_save_is_due(s, n, clock)))
        YOKE_TRY(save_step(s, n, clock, stop || *over_out));
    YOKE_TRY(yokei_run_timeline(s, stop || *over_out));
    return stop ? preempted(s, n) : YOKE_OK;
}

static yoke_status run_steps(struct yokei_run_state *s, struct yokei_training_result *result)
{
    struct yokei_training *t = s->t;
    bool over = was_over(s);
    yokei_trainer_note_compiled(s->trainer, yokei_compiled_seconds() - s->compiled_before);
    s->begun_ns = yokei_now_ns();
    result->steps = s->first_step;
    yokei_run_busy(s, "taking the first step");
    for (int64_t n = s->first_step + 1; !over; n++) YOKE_TRY(run_training_step(s, n, result, &over));
    result->seconds = yokei_seconds_since(s->begun_ns);
    result->saved_step = s->saved_step;
    if (t->plan.budget_seconds > 0 && !t->replay) t->plan.steps = result->steps;
    yokei_run_note_times(s);
    return write_plan(s);
}

static yoke_status run_prepared(struct yokei_run_state *s, struct yokei_training_result *result)
{
    YOKE_TRY(set_up_run(s));
    if (s->rank < 0) return YOKE_OK;
    YOKE_TRY(yoke_trainer_memory(s->trainer, &result->memory));
    YOKE_TRY(run_steps(s, result));
    YOKE_TRY(yokei_tokens_unchanged(s->tokens, s->tokens_hash));
    yokei_run_flush_dashboards(s);
    yokei_run_busy(s, "measuring the validation loss");
    result->bytes = yokei_tokens_are_bytes(s->tokens);
    YOKE_TRY(yokei_run_validate(s, &result->validation_loss, &result->validation_tokens));
    YOKE_TRY(yokei_run_validation_bytes(s, result->validation_tokens, &result->validation_bytes));
    YOKE_TRY(yokei_run_finish(s, result));
    struct yokei_metrics *metrics = s->metrics;
    s->metrics = NULL;
    YOKE_TRY(yokei_metrics_close(metrics));
    if (!s->collector) return YOKE_OK;
    if (yokei_collector_summary(s->collector)) result->timeline = *yokei_collector_summary(s->collector);
    return yokei_collector_status(s->collector);
}

/*
 * After a failure, say from where the run can go on. After an audit the newest checkpoint may be wrong, and
 * the audit's own error says more.
 */
static void note_where_to_go_on(const struct yokei_run_state *s, yoke_status status)
{
    const struct yokei_training *t = s->t;
    const bool has_saved = t->save && s->saved_step >= 0;
    if (!status || status == YOKE_EPREEMPTED || status == YOKE_ENUMERIC || !s->begun_ns) return;
    if (!has_saved && !t->resume) return;
    yokei_run_note(
        s, "the run can go on behind step %lld, also on other devices and in another layout: --resume %s",
        (long long)(has_saved ? s->saved_step : s->first_step), has_saved ? t->save : t->resume);
}

yoke_status yokei_training_run(struct yokei_training *t, struct yokei_training_result *result_out)
{
    struct yokei_training_result result = {
        .loss = NAN, .validation_loss = NAN, .baseline_loss = NAN, .first_loss = NAN, .saved_step = -1
    };
    struct yokei_run_state s = { .t = t };
    yoke_status status = run_prepared(&s, &result);
    yokei_collector_free(s.collector);
    result.leads = s.rank == 0;
    result.chose_shares = s.chose_shares;
    yokei_run_box_end(&s, status);
    if (s.trainer) yokei_trainer_revoke(s.trainer, status);
    note_where_to_go_on(&s, status);
    yokei_run_end_dashboards(&s, &result, status);
    yokei_audit_free(s.audit);
    yoke_trainer_destroy(s.trainer);
    status = yokei_run_meet(&s, status);
    /* After a fault no function may be called that waits for other ranks. */
    if (!status || status == YOKE_EPREEMPTED) yokei_run_end_ranks(&s);
    yoke_model_destroy(s.model);
    yokei_tokens_close(s.tokens);
    yokei_bpe_close(s.bpe);
    yokei_companions_free(&s.companions);
    yokei_metrics_close(s.metrics);
    free(s.ranks);
    free(s.shares);
    free(s.replica_shares);
    free(s.widths);
    free(s.stage_blocks);
    free(s.tensor_shares);
    free(s.zero_shares);
    free(s.threads);
    free(s.peaks);
    free(s.flops);
    free(s.compute_sum);
    free(s.placed);
    free(s.job.rank_of);
    free(s.job.host_of);
    free(s.inputs);
    free(s.targets);
    if (status)
        free(result.sample);
    else
        *result_out = result;
    return status;
}
