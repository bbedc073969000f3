/* SPDX-License-Identifier: Apache-2.0 */
/* Planning a trainer: shares, parameters, programs and memory, before anything is allocated. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "train/trainer.h"

enum { DEFAULT_BATCH = 8, DEFAULT_BUCKET = 25 << 20 };

static yoke_status check_config(const yoke_model *model, struct yoke_trainer_config *c)
{
    if (c->size != sizeof *c)
        return yoke_fail(YOKE_EINVAL, "trainer: the configuration's size is %zu, not %zu: use YOKE_TRAINER_CONFIG_INIT", c->size,
                         sizeof *c);
    if (model->n_layers < 1) return yoke_fail(YOKE_ECONFIG, "trainer: the model has no layers");
    if (c->precision != YOKE_F32 && c->precision != YOKE_F16 && c->precision != YOKE_BF16 && c->precision != YOKE_F64)
        return yoke_fail(YOKE_ECONFIG, "trainer: precision %s is none of f32, bf16, f16", yoke_dtype_name(c->precision));
    if (c->batch == 0) c->batch = DEFAULT_BATCH;
    if (c->bucket_bytes == 0) c->bucket_bytes = DEFAULT_BUCKET;
    if (c->beta1 == 0) c->beta1 = 0.9;
    if (c->beta2 == 0) c->beta2 = 0.95;
    if (c->eps == 0) c->eps = 1e-8;
    if (c->batch < 1 || c->micro_batch < 0 || c->micro_batch > c->batch)
        return yoke_fail(YOKE_ECONFIG, "batch %lld and micro-batch %lld: the batch must be at least 1 and the micro-batch at most the batch",
                         (long long)c->batch, (long long)c->micro_batch);
    if (c->sequence < 1)
        return yoke_fail(YOKE_ECONFIG, "sequence %lld: tokens per sequence must be at least 1", (long long)c->sequence);
    if ((double)c->batch * (double)c->sequence > 2e9)
        return yoke_fail(YOKE_ECONFIG, "batch %lld of sequences of %lld tokens: more than 2e9 tokens a step; lower one of them",
                         (long long)c->batch, (long long)c->sequence);
    const struct {
        const char *name;
        double value, least, below;
    } reals[] = { { "beta1", c->beta1, 0, 1 }, { "beta2", c->beta2, 0, 1 }, { "eps", c->eps, 0, 1 },
                  { "weight_decay", c->weight_decay, 0, 1e3 }, { "clip", c->clip, 0, 1e30 },
                  { "loss_scale", c->loss_scale, 0, 1e30 } };
    for (size_t i = 0; i < YOKE_COUNT(reals); i++)
        if (!(reals[i].value >= reals[i].least && reals[i].value < reals[i].below))
            return yoke_fail(YOKE_ECONFIG, "%s is %g; it must lie in [%g, %g)", reals[i].name, reals[i].value, reals[i].least,
                             reals[i].below);
    return YOKE_OK;
}

/* A layer with learnt positions bounds the sequence: its parameter "wpe.weight" says by how much. */
static yoke_status check_sequence(const struct yokei_parameters *ps, int64_t sequence)
{
    for (int i = 0; i < ps->n; i++)
        if (strcmp(ps->item[i].name, "wpe.weight") == 0 && ps->item[i].shape[0] < sequence)
            return yoke_fail(YOKE_ECONFIG, "sequence %lld is longer than the model's %lld positions: lower --sequence, or raise n_positions",
                             (long long)sequence, (long long)ps->item[i].shape[0]);
    return YOKE_OK;
}

static yoke_status share_out(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    size_t n = (size_t)p->n_ranks;
    p->shares = calloc(n, sizeof *p->shares);
    p->first = calloc(n, sizeof *p->first);
    p->n_micro_batches = calloc(n, sizeof *p->n_micro_batches);
    if (!p->shares || !p->first || !p->n_micro_batches)
        return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %zu ranks", n);
    int64_t sum = 0;
    for (int r = 0; r < p->n_ranks; r++) {
        p->shares[r] = c->shares ? c->shares[r] : c->batch / p->n_ranks + (r < c->batch % p->n_ranks);
        if (p->shares[r] < 0)
            return yoke_fail(YOKE_ECONFIG, "the share of rank %d is %lld sequences: give 0 or more", r, (long long)p->shares[r]);
        p->first[r] = sum;
        sum += p->shares[r];
    }
    if (sum != c->batch)
        return yoke_fail(YOKE_ECONFIG, "the shares of %d ranks add up to %lld sequences, but the batch is %lld: make them equal",
                         p->n_ranks, (long long)sum, (long long)c->batch);
    p->micro_batch = c->micro_batch ? c->micro_batch : YOKE_MAX(p->shares[p->rank], 1);
    if (p->shares[p->rank] && p->micro_batch > p->shares[p->rank]) p->micro_batch = p->shares[p->rank];
    return YOKE_OK;
}

/* What must be equal on all ranks, and what each one tells the others. */
static yoke_status compare_ranks(const struct yoke_trainer_config *c, struct yokei_trainer_plan *p)
{
    uint64_t facts[12] = { (uint64_t)c->precision, (uint64_t)c->batch, (uint64_t)c->sequence, c->bucket_bytes, c->seed };
    memcpy(&facts[5], (double[]){ c->beta1, c->beta2, c->eps, c->weight_decay, c->clip, c->loss_scale }, 6 * sizeof(double));
    uint64_t hash = yokei_hash(facts, sizeof facts, (uint64_t)c->scale_interval);
    hash = yokei_hash(p->shares, (size_t)p->n_ranks * sizeof *p->shares, hash);
    for (int i = 0; i < p->parameters.n; i++) {
        hash = yokei_hash(p->parameters.item[i].name, strlen(p->parameters.item[i].name), hash);
        hash = yokei_hash(p->parameters.item[i].shape, sizeof p->parameters.item[i].shape, hash);
    }
    if (c->schedule) hash = yokei_hash(c->schedule, strlen(c->schedule), hash);
    enum { SAID = 2 };
    double mine[SAID] = { (double)(hash >> 12), (double)p->micro_batch };
    double *all = calloc((size_t)p->n_ranks * SAID, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "trainer: no host memory for %d ranks", p->n_ranks);
    yoke_status status = yokei_ranks_gather(c, mine, SAID, all);
    for (int r = 0; r < p->n_ranks && !status; r++) {
        if (all[r * SAID] != all[0])
            status = yoke_fail(YOKE_EMISMATCH,
                               "trainer: ranks 0 and %d are set up differently (model, precision, batch, sequence, shares, seed or optimizer): "
                               "give all ranks the same", r);
        else p->n_micro_batches[r] = yokei_n_micro_batches(p->shares[r], (int64_t)all[r * SAID + 1]);
    }
    free(all);
    return status;
}

static yoke_status lower(const yoke_model *model, yoke_device *device, const struct yoke_trainer_config *c,
                         struct yokei_trainer_plan *p)
{
    yoke_status status = YOKE_OK;
    struct yokei_schedule schedule = { 0, NULL };
    int n_buckets = p->n_ranks > 1 ? p->state.n_buckets : 0;
    if (c->schedule) YOKE_TRY(yokei_schedule_parse(c->schedule, "schedule", &schedule));
    else YOKE_TRY(yokei_schedule_data_parallel(p->n_ranks, p->n_micro_batches, n_buckets, &schedule));
    if (schedule.n_ranks != p->n_ranks) {
        status = yoke_fail(YOKE_ECONFIG, "the schedule has %d lines, but there are %d ranks: one line per rank", schedule.n_ranks,
                           p->n_ranks);
        goto free_schedule;
    }
    YOKE_TRY_GOTO(yokei_schedule_check(&schedule, p->n_micro_batches, n_buckets), free_schedule);
    p->train_job = (struct yokei_job){ .layers = (const yoke_layer *const *)model->layer, .n_layers = model->n_layers,
                                       .parameters = &p->parameters, .state = &p->state, .device = device,
                                       .T = c->sequence, .n_sequences = p->shares[p->rank],
                                       .micro_batch = p->micro_batch };
    p->evaluate_job = p->logits_job = p->train_job;
    p->evaluate_job.n_sequences = p->micro_batch;
    p->logits_job.n_sequences = p->logits_job.micro_batch = 1;
    YOKE_TRY_GOTO(yokei_program_train(&p->train_job, &schedule.rank[p->rank], &p->train), free_schedule);
    YOKE_TRY_GOTO(yokei_program_evaluate(&p->evaluate_job, &p->evaluate), free_schedule);
    YOKE_TRY_GOTO(yokei_program_evaluate(&p->logits_job, &p->logits), free_schedule);
free_schedule:
    yokei_schedule_free(&schedule);
    return status;
}

static void add_up(struct yokei_trainer_plan *p)
{
    const struct yokei_program *all[] = { &p->train, &p->evaluate, &p->logits };
    size_t buffers = 0;
    for (size_t i = 0; i < YOKE_COUNT(all); i++) {
        buffers = YOKE_MAX(buffers, all[i]->bytes);
        p->scratch_bytes = YOKE_MAX(p->scratch_bytes, all[i]->planner.scratch_bytes);
    }
    p->arena_bytes = p->state.bytes + buffers;
    p->report = p->state.report;
    p->report.activations = buffers;
    p->report.scratch = p->scratch_bytes;
    p->report.total = p->arena_bytes + p->scratch_bytes;
}

yoke_status yokei_trainer_plan(const yoke_model *model, yoke_device *device, struct yoke_trainer_config *c,
                               struct yokei_trainer_plan *p)
{
    yoke_status status = YOKE_OK;
    struct yoke_place place = { .size = sizeof place, .tensor_size = 1 };
    memset(p, 0, sizeof *p);
    YOKE_TRY(check_config(model, c));
    yokei_ranks(c, &p->rank, &p->n_ranks);
    YOKE_TRY_GOTO(share_out(c, p), free_plan);
    YOKE_TRY_GOTO(yokei_parameters_create((const yoke_layer *const *)model->layer, model->n_layers, NULL, &place, &p->parameters),
                  free_plan);
    YOKE_TRY_GOTO(check_sequence(&p->parameters, c->sequence), free_plan);
    YOKE_TRY_GOTO(compare_ranks(c, p), free_plan);
    YOKE_TRY_GOTO(yokei_state_create(&p->parameters, c->precision,
                                     YOKE_MAX(p->shares[p->rank], p->micro_batch) * c->sequence, c->bucket_bytes,
                                     &p->state),
                  free_plan);
    YOKE_TRY_GOTO(lower(model, device, c, p), free_plan);
    add_up(p);
    return YOKE_OK;
free_plan:
    yokei_trainer_plan_free(p);
    return status;
}

void yokei_trainer_plan_free(struct yokei_trainer_plan *p)
{
    yokei_program_free(&p->train);
    yokei_program_free(&p->evaluate);
    yokei_program_free(&p->logits);
    yokei_state_free(&p->state);
    yokei_parameters_free(&p->parameters);
    free(p->shares);
    free(p->first);
    free(p->n_micro_batches);
    memset(p, 0, sizeof *p);
}

yoke_status yoke_trainer_plan_memory(const yoke_model *model, yoke_device *device,
                                     const struct yoke_trainer_config *config, struct yoke_memory_report *report_out)
{
    struct yokei_trainer_plan plan;
    if (!model || !device || !config || !report_out) return yoke_fail(YOKE_EINVAL, "yoke_trainer_plan_memory: a pointer is null");
    struct yoke_trainer_config c = *config;
    YOKE_TRY(yokei_trainer_plan(model, device, &c, &plan));
    *report_out = plan.report;
    yokei_trainer_plan_free(&plan);
    return YOKE_OK;
}
