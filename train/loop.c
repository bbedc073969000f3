/* SPDX-License-Identifier: Apache-2.0 */
/* A training run from its data to its files. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/loop.h"
#include "train/trainer.h"

static double seconds_since(uint64_t begun_ns) { return (double)(yokei_now_ns() - begun_ns) * 1e-9; }

static yoke_status open_data(struct yokei_run_state *s)
{
    struct yokei_training *t = s->t;
    struct yokei_tokens_config c = YOKEI_TOKENS_CONFIG_INIT;
    c.format = t->tokens_are_llmc ? YOKEI_TOKENS_LLMC : YOKEI_TOKENS_AUTO;
    c.vocab = t->plan.model.vocab_size;
    c.validation_share = t->validation_share;
    YOKE_TRY(yokei_tokens_open(t->tokens, &c, &s->tokens));
    YOKE_TRY(yokei_tokens_check_length(s->tokens, t->plan.sequence));
    char hash[24];
    yokei_text(hash, sizeof hash, "%016" PRIx64, yokei_tokens_hash(s->tokens));
    if (t->replay && t->plan.data_hash[0] && strcmp(hash, t->plan.data_hash) != 0)
        return yoke_fail(YOKE_ECONFIG, "%s was made for other data (hash %s) than %s (%s): give the plan's own data", t->plan_path,
                         t->plan.data_hash, t->tokens, hash);
    yokei_text(t->plan.data_hash, sizeof t->plan.data_hash, "%s", hash);
    return YOKE_OK;
}

/* Kernels are compiled outside the run's clock; then everything is as it was. */
static yoke_status warm_up(struct yokei_run_state *s)
{
    struct yoke_step_result result;
    YOKE_TRY(yoke_trainer_backward(s->trainer, s->inputs, s->targets, 0, &result));
    YOKE_TRY(yoke_trainer_apply(s->trainer, 0, &result));
    return yoke_trainer_draw(s->trainer, s->t->plan.seed);
}

static yoke_status read_batch(struct yokei_run_state *s, int64_t step)
{
    const struct yokei_plan *p = &s->t->plan;
    int64_t first, count, T = p->sequence;
    yoke_trainer_range(s->trainer, &first, &count);
    for (int64_t i = 0; i < count; i++)
        YOKE_TRY(yokei_tokens_sample(s->tokens, p->seed, (step - 1) * p->batch + first + i, T, s->inputs + i * T,
                                     s->targets + i * T));
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

static yoke_status set_up(struct yokei_run_state *s)
{
    struct yokei_training *t = s->t;
    char path[4096];
    struct yoke_trainer_config ranks = { .comm = t->comm, .control = t->control };
    yokei_ranks(&ranks, &s->rank, &s->n_ranks);
    s->validation_loss = NAN;
    s->ranks = calloc((size_t)s->n_ranks, sizeof *s->ranks);
    s->shares = calloc((size_t)s->n_ranks, sizeof *s->shares);
    s->threads = calloc((size_t)s->n_ranks, sizeof *s->threads);
    if (!s->ranks || !s->shares || !s->threads) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    YOKE_TRY(open_data(s));
    YOKE_TRY(yokei_ranks_agree(&ranks, yokei_tokens_hash(s->tokens), NULL, "read different data: give all hosts the same files"));
    YOKE_TRY(yoke_model_gpt2(&t->plan.model, &s->model));
    YOKE_TRY(yokei_run_shares(s));
    s->config = yokei_run_trainer_config(s);
    YOKE_TRY(yoke_trainer_create(s->model, t->device, &s->config, &s->trainer));
    size_t n = (size_t)(s->shares[s->rank] * t->plan.sequence) * sizeof(int32_t);
    s->inputs = malloc(n + 4);
    s->targets = malloc(n + 4);
    if (!s->inputs || !s->targets) return yoke_fail(YOKE_ENOMEM, "train: no host memory for a batch");
    YOKE_TRY(read_batch(s, 1));
    yokei_ranks_busy(&s->config, "compiling kernels");
    YOKE_TRY(warm_up(s));
    if (t->init) YOKE_TRY(yokei_weights_load(s->trainer, &t->plan.model, t->init));
    if (s->n_ranks > 1) YOKE_TRY(yokei_weights_compare(s->trainer));
    YOKE_TRY(write_plan(s));
    if (s->rank == 0 && t->run_dir) {
        path_in(s, "metrics.jsonl", path, sizeof path);
        YOKE_TRY(yokei_metrics_open(path, -1, &s->metrics));
    }
    return YOKE_OK;
}

/* The step from which on so much of the budget was spent: a replay of the plan goes by it. */
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

static yoke_status run_steps(struct yokei_run_state *s, struct yokei_training_result *result)
{
    struct yokei_training *t = s->t;
    struct yokei_plan *p = &t->plan;
    struct yoke_step_result step;
    bool over = false;
    s->begun_ns = yokei_now_ns();
    for (int64_t n = 1; !over; n++) {
        YOKE_TRY(read_batch(s, n));
        YOKE_TRY(yoke_trainer_backward(s->trainer, s->inputs, s->targets, seconds_since(s->begun_ns), &step));
        if (n == 1 && t->dump_gradients && (s->rank == 0 || yokei_run_is_divided(s)))
            YOKE_TRY(yokei_weights_dump(s->trainer, YOKE_TENSOR_GRADIENT, s->rank == 0 ? t->dump_gradients : NULL));
        int64_t permille = yokei_rate_permille(p, t->replay, n, step.ranks[0].clock);
        double rate = yokei_rate(p, n, permille);
        YOKE_TRY(note_progress(s, n, permille));
        YOKE_TRY(yoke_trainer_apply(s->trainer, rate, &step));
        over = is_over(p, t->replay, n, permille);
        s->tokens_seen += p->batch * p->sequence;
        result->steps = n;
        result->loss = step.loss;
        if (n == 1) result->first_loss = step.loss;
        if (t->evaluate_every > 0 && n % t->evaluate_every == 0)
            YOKE_TRY(yokei_run_validate(s, &s->validation_loss, &result->validation_tokens));
        YOKE_TRY(yokei_run_report(s, &step, rate, seconds_since(s->begun_ns)));
    }
    result->seconds = seconds_since(s->begun_ns);
    result->tokens = s->tokens_seen;
    if (p->budget_seconds > 0 && !t->replay) {
        p->steps = result->steps;
        YOKE_TRY(write_plan(s));
    }
    return YOKE_OK;
}

static yoke_status run(struct yokei_run_state *s, struct yokei_training_result *result)
{
    YOKE_TRY(set_up(s));
    YOKE_TRY(yoke_trainer_memory(s->trainer, &result->memory));
    YOKE_TRY(run_steps(s, result));
    result->bytes = yokei_tokens_are_bytes(s->tokens);
    YOKE_TRY(yokei_run_validate(s, &result->validation_loss, &result->validation_tokens));
    YOKE_TRY(yokei_run_finish(s, result));
    struct yokei_metrics *metrics = s->metrics;
    s->metrics = NULL;
    return yokei_metrics_close(metrics);
}

yoke_status yokei_training_run(struct yokei_training *t, struct yokei_training_result *result_out)
{
    struct yokei_training_result result = { .loss = NAN, .validation_loss = NAN, .baseline_loss = NAN, .first_loss = NAN };
    struct yokei_run_state s = { .t = t };
    yoke_status status = run(&s, &result);
    yoke_trainer_destroy(s.trainer);
    yoke_model_destroy(s.model);
    yokei_tokens_close(s.tokens);
    yokei_metrics_close(s.metrics);
    free(s.ranks);
    free(s.shares);
    free(s.replica_shares);
    free(s.stage_blocks);
    free(s.tensor_shares);
    free(s.threads);
    free(s.inputs);
    free(s.targets);
    if (status) free(result.sample);
    else *result_out = result;
    return status;
}
