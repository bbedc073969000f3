/* SPDX-License-Identifier: Apache-2.0 */
/* Who does how much: shares as planned, or by the speed of each device on the model's own step. */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/loop.h"
#include "train/memory.h"

enum { LEAST_SAMPLES = 2 };
static const double MEASURE_SECONDS = 1.5;

struct yoke_trainer_config yokei_run_trainer_config(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    yoke_dtype_parse(p->precision, &c.precision);
    c.batch = p->batch;
    c.micro_batch = p->n_ranks ? p->ranks[s->rank].micro_batch : YOKE_MIN(s->t->micro_batch, p->batch);
    c.sequence = p->sequence;
    c.shares = s->replica_shares;
    c.data = (int)p->data;
    c.pipeline = (int)p->pipeline;
    c.tensor = (int)p->tensor;
    c.stage_tensor = s->widths;
    c.chunks = (int)p->chunks;
    c.pipeline_kind = p->schedule[0] ? p->schedule : NULL;
    c.schedule = p->schedule_text;
    c.stage_blocks = s->stage_blocks;
    c.tensor_shares = s->tensor_shares;
    c.sequence_parallel = p->sequence_parallel != 0;
    c.recompute = p->recompute[0] ? p->recompute : NULL;
    c.zero = (int)p->zero;
    c.zero_shares = s->zero_shares;
    c.bucket_bytes = (size_t)p->bucket_bytes;
    c.seed = p->seed;
    c.beta1 = p->beta1;
    c.beta2 = p->beta2;
    c.weight_decay = p->weight_decay;
    c.clip = p->clip;
    c.loss_scale = p->loss_scale;
    c.memory_limit = s->t->memory_limit;
    c.overlap = s->t->overlap;
    c.comm = s->t->comm;
    c.control = s->t->control;
    return c;
}

/* Every rank's device, as text, and its host threads. */
static yoke_status gather_devices(struct yokei_run_state *s)
{
    enum { TEXT = sizeof s->ranks->device / sizeof(double), WORDS };
    struct yoke_trainer_config c = yokei_run_trainer_config(s);
    double mine[WORDS] = { 0 };
    mine[TEXT] = omp_get_max_threads();
    memcpy(mine, yoke_device_info(s->t->device)->spec, YOKE_MIN(sizeof mine, sizeof yoke_device_info(s->t->device)->spec));
    double *all = calloc((size_t)s->n_ranks * WORDS, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    yoke_status status = yokei_ranks_gather(&c, mine, WORDS, all);
    for (int r = 0; r < s->n_ranks && !status; r++) {
        memcpy(s->ranks[r].device, all + (size_t)r * WORDS, sizeof s->ranks[r].device);
        s->ranks[r].device[sizeof s->ranks[r].device - 1] = 0;
        s->threads[r] = (int64_t)all[(size_t)r * WORDS + TEXT];
    }
    free(all);
    return status;
}

/* A replayed plan is for so many ranks, and these devices, or it is no replay. */
static yoke_status check_size(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    if (!p->n_ranks || p->n_ranks == s->n_ranks) return YOKE_OK;
    return yoke_fail(YOKE_ECONFIG, "%s is for %lld ranks, but there are %d: start it with yoke run -n %lld", s->t->replay ? s->t->plan_path : "shares",
                     (long long)p->n_ranks, s->n_ranks, (long long)p->n_ranks);
}

static yoke_status check_devices(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    for (int r = 0; r < s->n_ranks; r++)
        if (s->t->replay && strcmp(p->ranks[r].device, s->ranks[r].device) != 0)
            return yoke_fail(YOKE_ECONFIG, "%s has rank %d on %s, but it is on %s: give --devices in the plan's order", s->t->plan_path, r,
                             p->ranks[r].device, s->ranks[r].device);
    return YOKE_OK;
}

/* A checkpoint's run goes on with other ranks or devices: the plan's shares are not theirs. */
static bool fits(const struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    bool same = p->n_ranks == s->n_ranks;
    for (int r = 0; r < s->n_ranks && same; r++) same = !p->ranks[r].device[0] || strcmp(p->ranks[r].device, s->ranks[r].device) == 0;
    return same;
}

static void forget_ranks(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    yokei_run_note(s, "the checkpoint is of other devices: shares are measured anew, and bits will differ");
    yokei_plan_forget_ranks(p);
}

static yoke_status fill_probe(const struct yokei_run_state *s, int64_t n, int32_t *inputs, int32_t *targets)
{
    int64_t T = s->t->plan.sequence;
    for (int64_t i = 0; i < n; i++)
        YOKE_TRY(yokei_tokens_sample(s->tokens, s->t->plan.seed, i, T, inputs + i * T, targets + i * T));
    return YOKE_OK;
}

/* Sequences per second of this rank, all ranks working at once, since they share memory and caches. */
static yoke_status time_steps(struct yokei_run_state *s, yoke_trainer *probe, int64_t n, const int32_t *inputs,
                              const int32_t *targets, double *speed_out)
{
    struct yoke_trainer_config c = yokei_run_trainer_config(s);
    struct yoke_step_result result;
    double done = 1, *all = calloc((size_t)s->n_ranks, sizeof *all);
    if (!all) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    yokei_ranks_busy(&c, "compiling kernels");
    /* The first step compiles kernels; its rate is zero, it changes no weight that anybody keeps. */
    yoke_status status = yoke_trainer_backward(probe, inputs, targets, 0, &result);
    if (!status) status = yoke_trainer_apply(probe, 0, &result);
    if (!status) status = yokei_ranks_gather(&c, &done, 1, all);
    uint64_t begun = yokei_now_ns();
    double seconds = 0;
    int64_t steps = 0;
    while (!status && (steps < LEAST_SAMPLES || seconds < MEASURE_SECONDS)) {
        status = yoke_trainer_backward(probe, inputs, targets, 0, &result);
        seconds = (double)(yokei_now_ns() - begun) * 1e-9;
        steps++;
    }
    free(all);
    YOKE_TRY(status);
    *speed_out = (double)(steps * n) / seconds;
    return YOKE_OK;
}

static yoke_status fits_equally(const struct yokei_run_state *s)
{
    struct yoke_trainer_config c = yokei_run_trainer_config(s);
    c.shares = NULL;
    return yokei_memory_fits(s->model, s->t->device, &c);
}

static yoke_status measure(struct yokei_run_state *s, double *speed_out)
{
    struct yoke_trainer_config c = yokei_run_trainer_config(s);
    int64_t n = (c.batch + s->n_ranks - 1) / s->n_ranks;
    if (c.micro_batch && c.micro_batch < n) n = c.micro_batch;
    c.comm = c.control = NULL;
    c.shares = NULL;
    c.zero_shares = NULL;
    c.schedule = NULL;
    c.data = 0;
    c.batch = n;
    yoke_trainer *probe = NULL;
    YOKE_TRY(fits_equally(s)); /* all ranks alike: one that alone were refused its probe would leave the others waiting */
    size_t bytes = (size_t)(n * c.sequence) * sizeof(int32_t);
    int32_t *inputs = malloc(bytes), *targets = malloc(bytes);
    yoke_status status = inputs && targets ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for a batch");
    if (!status) status = fill_probe(s, n, inputs, targets);
    if (!status) status = yoke_trainer_create(s->model, s->t->device, &c, &probe);
    if (!status) status = time_steps(s, probe, n, inputs, targets, speed_out);
    yoke_trainer_destroy(probe);
    free(inputs);
    free(targets);
    return status;
}

/* The plan gets one entry per rank. */
static yoke_status write_down(struct yokei_run_state *s, const double *speeds)
{
    struct yokei_plan *p = &s->t->plan;
    double sum = 0;
    p->ranks = calloc((size_t)s->n_ranks, sizeof *p->ranks);
    if (!p->ranks) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    for (int r = 0; r < s->n_ranks; r++) sum += speeds[r];
    for (int r = 0; r < s->n_ranks; r++) {
        yokei_text(p->ranks[r].device, sizeof p->ranks[r].device, "%s", s->ranks[r].device);
        p->ranks[r].share = speeds[r] / sum;
        p->ranks[r].threads = s->threads[r];
        p->ranks[r].samples = s->shares[r];
        p->ranks[r].micro_batch = s->shares[r] ? yokei_mesh_micro_batch(&s->mesh, s->shares[r], s->t->micro_batch) : 0;
    }
    p->n_ranks = s->n_ranks;
    return YOKE_OK;
}

static yoke_status by_speed(struct yokei_run_state *s)
{
    struct yoke_trainer_config c = yokei_run_trainer_config(s);
    double speed = 1, *speeds = calloc((size_t)s->n_ranks, sizeof *speeds);
    if (!speeds) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    yoke_status status = YOKE_OK;
    if (s->n_ranks > 1) {
        yokei_run_note(s, "measuring each device on the model's own step (kernels are compiled on the first start)");
        status = measure(s, &speed);
    }
    if (!status) status = yokei_ranks_gather(&c, &speed, 1, speeds);
    if (!status) {
        yokei_balance(speeds, s->n_ranks, s->t->plan.batch, s->shares);
        status = write_down(s, speeds);
    }
    for (int r = 0; r < s->n_ranks && !status; r++)
        if (s->n_ranks > 1)
            yokei_run_note(s, "rank %d %s: %.1f sequences/s, gets %lld of %lld%s", r, s->ranks[r].device, speeds[r],
                           (long long)s->shares[r], (long long)s->t->plan.batch,
                           s->shares[r] ? "" : " (too slow to help with this batch)");
    free(speeds);
    return status;
}

/* Replicas of several ranks share the batch as equally as can be. */
static yoke_status equally(struct yokei_run_state *s)
{
    double *speeds = calloc((size_t)s->n_ranks, sizeof *speeds);
    int64_t *shares = calloc((size_t)s->mesh.data, sizeof *shares);
    yoke_status status = speeds && shares ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    for (int r = 0; r < s->n_ranks && !status; r++) speeds[r] = 1;
    if (!status) yokei_balance(speeds, s->mesh.data, s->t->plan.batch, shares);
    for (int r = 0; r < s->n_ranks && !status; r++) s->shares[r] = shares[yokei_mesh_at(&s->mesh, r).d];
    if (!status) status = write_down(s, speeds);
    free(speeds);
    free(shares);
    return status;
}

static yoke_status place_ranks(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(yokei_plan_widths(p, &s->widths));
    YOKE_TRY(yokei_mesh_create(s->n_ranks, s->rank, (int)p->data, (int)p->pipeline, (int)p->tensor, s->widths, (int)p->chunks, &s->mesh));
    YOKE_TRY(yokei_plan_numbers("--layers", p->layers, s->mesh.pipeline * s->mesh.chunks, &s->stage_blocks));
    YOKE_TRY(yokei_plan_numbers("--tensor-shares", p->tensor_shares, s->widths ? yokei_mesh_replica(&s->mesh) : s->mesh.tensor, &s->tensor_shares));
    YOKE_TRY(yokei_plan_numbers("--zero-shares", p->zero_shares, s->mesh.data, &s->zero_shares));
    s->replica_shares = calloc((size_t)s->mesh.data, sizeof *s->replica_shares);
    return s->replica_shares ? YOKE_OK : yoke_fail(YOKE_ENOMEM, "train: no host memory for %d replicas", s->mesh.data);
}

static void note_replicas(struct yokei_run_state *s)
{
    for (int r = 0; r < s->n_ranks; r++) {
        const struct yokei_mesh at = yokei_mesh_at(&s->mesh, r);
        s->replica_shares[at.d] = s->shares[r];
        s->ranks[r].share = (double)s->shares[r] / (double)s->t->plan.batch;
    }
}

yoke_status yokei_run_shares_planned(struct yokei_run_state *s)
{
    const struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(check_size(s));
    YOKE_TRY(place_ranks(s));
    if (!p->n_ranks) YOKE_TRY(equally(s));
    for (int r = 0; r < s->n_ranks; r++) s->shares[r] = p->ranks[r].samples;
    note_replicas(s);
    return YOKE_OK;
}

yoke_status yokei_run_shares(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    YOKE_TRY(check_size(s));
    YOKE_TRY(place_ranks(s));
    YOKE_TRY(gather_devices(s));
    if (s->t->resume && p->n_ranks && !fits(s)) forget_ranks(s);
    if (!p->n_ranks) {
        YOKE_TRY(yokei_run_is_divided(s) ? equally(s) : by_speed(s));
    } else {
        YOKE_TRY(check_devices(s));
        for (int r = 0; r < s->n_ranks; r++) {
            s->shares[r] = p->ranks[r].samples;
            if ((s->t->replay || s->t->resume) && p->ranks[r].threads && p->ranks[r].threads != s->threads[r])
                yokei_run_note(s, "rank %d has %lld host threads, the plan's run had %lld: bits may differ", r,
                               (long long)s->threads[r], (long long)p->ranks[r].threads);
            p->ranks[r].threads = s->threads[r];
            yokei_text(p->ranks[r].device, sizeof p->ranks[r].device, "%s", s->ranks[r].device);
        }
    }
    note_replicas(s);
    return YOKE_OK;
}
