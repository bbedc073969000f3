/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measure devices: the time for the model's own layers and for sums of gradients before a run, and the times
 * in the run itself.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yoke/comm.h>
#include "core/base/base.h"
#include "core/base/times.h"
#include "train/run/loop.h"
#include "train/trainer/trainer.h"

enum { MOST_SAMPLES = 1024, LEAST_SAMPLES = 2, PROBE_BLOCKS = 2 };
static const double MEASURE_SECONDS = 1.2, MOST_SECONDS = 3;
static const int64_t MOST_SUMMED = (int64_t)4 << 20; /* elements; longer sums take proportionally longer */

enum part { BEFORE, BLOCKS, AFTER, NORMS, STEP, N_PARTS };

/* A probe is a trainer with a few of the model's layers that runs alone on its device. */
struct probe {
    yoke_model *model;
    yoke_trainer *trainer;
    int before, blocks_end, n_blocks; /* layers [before, blocks_end) are the blocks */
    int64_t B;
    int32_t *inputs, *targets;
    double now[N_PARTS]; /* seconds by part of the step that is timed op by op */
    double plain[MOST_SAMPLES], part[N_PARTS][MOST_SAMPLES];
    int n;
};

static yoke_status add_layers(const yoke_model *from, int first, int end, yoke_model *to)
{
    for (int l = first; l < end; l++) {
        const yoke_layer *layer = yoke_model_layer(from, l);
        YOKE_TRY(yoke_model_add(to, layer->type, layer->name, layer->in, layer->out, layer->config));
    }
    return YOKE_OK;
}

static yoke_status take_layers(const yoke_model *model, struct probe *p)
{
    const int per_block = YOKE_MAX(model->per_block, 1), n = model->n_layers;
    p->n_blocks = YOKE_MIN((n - model->before - model->after) / per_block, PROBE_BLOCKS);
    p->before = model->before;
    p->blocks_end = model->before + p->n_blocks * per_block;
    YOKE_TRY(yoke_model_create(&p->model));
    YOKE_TRY(add_layers(model, 0, p->blocks_end, p->model));
    return add_layers(model, n - model->after, n, p->model);
}

/* The recomputation of this rank's stage: "none", "attention" or "full". */
static void own_recompute(const struct yokei_run_state *s, char *out, size_t bytes)
{
    const char *at = s->t->plan.recompute;
    for (int stage = 0; stage < s->mesh.pipeline && strchr(at, ','); stage++) {
        if (stage == s->mesh.s) break;
        at = strchr(at, ',') + 1;
    }
    yokei_text(out, bytes, "%.*s", (int)strcspn(at, ","), at);
}

static yoke_status create_trainer(const struct yokei_run_state *s, struct probe *p)
{
    struct yoke_trainer_config c = yokei_run_trainer_config(s);
    char recompute[sizeof s->t->plan.recompute];
    own_recompute(s, recompute, sizeof recompute);
    c.comm = c.control = NULL;
    c.shares = c.stage_blocks = c.tensor_shares = c.zero_shares = NULL;
    c.zero = 0;
    c.stage_tensor = NULL;
    c.data = c.pipeline = c.tensor = c.chunks = 0;
    c.pipeline_kind = c.schedule = NULL;
    c.sequence_parallel = false;
    c.recompute = recompute[0] ? recompute : NULL;
    c.batch = c.micro_batch = p->B;
    return yoke_trainer_create(p->model, s->t->device, &c, &p->trainer);
}

static yoke_status open_probe(const struct yokei_run_state *s, int64_t micro_batch, struct probe *p)
{
    const int64_t T = s->t->plan.sequence;
    YOKE_TRY(take_layers(s->model, p));
    p->B = YOKE_MAX(micro_batch, 1);
    yoke_status status = create_trainer(s, p);
    while (status == YOKE_ENOMEM
           && p->B > 1) { /* fewer sequences at a time take about as long per sequence */
        p->B /= 2;
        status = create_trainer(s, p);
    }
    YOKE_TRY(status);
    p->inputs = malloc((size_t)(p->B * T) * sizeof *p->inputs);
    p->targets = malloc((size_t)(p->B * T) * sizeof *p->targets);
    if (!p->inputs || !p->targets) return yoke_fail(YOKE_ENOMEM, "train: no host memory for a batch");
    for (int64_t i = 0; i < p->B; i++)
        YOKE_TRY(
            yokei_tokens_sample(s->tokens, s->t->plan.seed, i, T, p->inputs + i * T, p->targets + i * T));
    return YOKE_OK;
}

static void close_probe(struct probe *p)
{
    yoke_trainer_destroy(p->trainer);
    yoke_model_destroy(p->model);
    free(p->inputs);
    free(p->targets);
}

static void note_op(void *context, const char *layer, const char *call, const char *op,
                    const struct yoke_cost *cost, double seconds)
{
    struct probe *p = context;
    (void)op, (void)cost;
    const bool gradients = !strcmp(call, yokei_instruction_names[YOKEI_NORMS])
                           || !strcmp(call, yokei_instruction_names[YOKEI_ZERO]);
    enum part part = gradients ? NORMS : STEP;
    for (int l = 0; *layer && l < p->model->n_layers; l++)
        if (strcmp(layer, p->model->layer[l]->name) == 0)
            part = l < p->before ? BEFORE : l < p->blocks_end ? BLOCKS : AFTER;
    p->now[part] += seconds;
}

/*
 * Run one normal step and one step that is timed op by op. The first gives the total time, the second how the
 * total is divided.
 */
static yoke_status sample(struct probe *p)
{
    struct yoke_step_result result;
    YOKE_TRY(yoke_trainer_backward(p->trainer, p->inputs, p->targets, 0, &result));
    p->plain[p->n] = result.seconds;
    memset(p->now, 0, sizeof p->now);
    yoke_trainer_profile(p->trainer, note_op, p);
    yoke_status status = yoke_trainer_backward(p->trainer, p->inputs, p->targets, 0, &result);
    if (!status) status = yoke_trainer_apply(p->trainer, 0, &result);
    yoke_trainer_profile(p->trainer, NULL, NULL);
    for (int k = 0; k < N_PARTS; k++) p->part[k][p->n] = p->now[k];
    p->n++;
    return status;
}

/*
 * The median time of a normal step, divided among the parts as in all steps that were timed op by op. So a
 * pause during one op has little effect.
 */
static struct yokei_layer_times times_of(const struct probe *p)
{
    double part[N_PARTS] = { 0 }, ops = 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < N_PARTS; k++) part[k] += p->part[k][i];
    for (int k = 0; k < STEP; k++) ops += part[k];
    double room[MOST_SAMPLES];
    const double of_step = yokei_median_in(room, p->plain, p->n) / ops, each = of_step / (double)p->B;
    return (struct yokei_layer_times){ each * part[BEFORE], each * part[BLOCKS] / YOKE_MAX(p->n_blocks, 1),
                                       each * part[AFTER],
                                       of_step * (part[NORMS] + part[STEP])
                                           / (double)yoke_model_n_elements(p->model) };
}

/* All ranks measure at the same time, because in the run they share memory and caches too. */
static yoke_status time_steps(const struct yokei_run_state *s, struct probe *p,
                              struct yokei_layer_times *times_out)
{
    const struct yoke_trainer_config c = yokei_run_trainer_config(s);
    struct yoke_step_result result;
    /* The first step compiles kernels. Its learning rate is zero. */
    yokei_run_busy(s, "measuring each device: the first step, which compiles kernels");
    yoke_status status = yoke_trainer_backward(p->trainer, p->inputs, p->targets, 0, &result);
    if (!status) status = yoke_trainer_apply(p->trainer, 0, &result);
    YOKE_TRY(yokei_ranks_all_well(&c, status));
    yokei_run_busy(s, "measuring each device: timed steps");
    const uint64_t begun = yokei_now_ns();
    double seconds = 0;
    while (p->n < MOST_SAMPLES && seconds < (p->n < LEAST_SAMPLES ? MOST_SECONDS : MEASURE_SECONDS)) {
        YOKE_TRY(sample(p));
        seconds = (double)(yokei_now_ns() - begun) * 1e-9;
    }
    *times_out = times_of(p);
    return YOKE_OK;
}

yoke_status yokei_run_measure(struct yokei_run_state *s, int64_t micro_batch,
                              struct yokei_layer_times *times_out)
{
    enum { WORDS = sizeof *times_out / sizeof(double) };
    const struct yoke_trainer_config c = yokei_run_trainer_config(s);
    struct probe *p = calloc(1, sizeof *p);
    struct yokei_layer_times mine = { 0 };
    double report[WORDS], *all = calloc((size_t)s->n_ranks * WORDS, sizeof *all);
    yokei_ranks_busy(&c, "compiling kernels");
    yoke_status status = p && all ? open_probe(s, micro_batch, p)
                                  : yoke_fail(YOKE_ENOMEM, "train: no host memory to measure this device");
    status = yokei_ranks_all_well(&c, status);
    if (!status) yokei_ranks_busy(&c, "compiling kernels");
    if (!status) status = yokei_ranks_all_well(&c, time_steps(s, p, &mine));
    memcpy(report, &mine, sizeof mine);
    if (!status) status = yokei_ranks_gather(&c, report, WORDS, all);
    for (int r = 0; r < s->n_ranks && !status; r++)
        memcpy(&times_out[r], all + (size_t)r * WORDS, sizeof *times_out);
    free(all);
    if (p) close_probe(p);
    free(p);
    return status;
}

/*
 * Short sums are repeated more often, because a rank that shares cores with others may have to wait for its
 * turn. The number is the same on all ranks.
 */
static int times_to_sum(int64_t n) { return n < 1 << 18 ? 20 : 4; }

/* The memory that a measurement of sums needs. */
struct sums {
    yoke_stream *stream;
    void *data;
    double *all; /* [n_ranks] */
};

/* Allocate it. A rank that does not sum has no data. */
static yoke_status open_sums(const struct yokei_run_state *s, bool is_used, int64_t n, struct sums *m)
{
    const size_t bytes = (size_t)n * sizeof(float);
    m->all = calloc((size_t)s->n_ranks, sizeof *m->all);
    if (!m->all) return yoke_fail(YOKE_ENOMEM, "train: no host memory for %d ranks", s->n_ranks);
    if (!is_used) return YOKE_OK;
    YOKE_TRY(yoke_stream_create(s->t->device, &m->stream));
    const yoke_status status = yoke_alloc(s->t->device, bytes, &m->data);
    if (status) return yoke_fail_context(status, "train: the measurement of sums of gradients");
    YOKE_TRY(yoke_fill(m->stream, m->data, 0, bytes));
    return yoke_stream_sync(m->stream);
}

static void close_sums(const struct yokei_run_state *s, struct sums *m)
{
    if (m->data) yoke_free(s->t->device, m->data);
    if (m->stream) yoke_stream_destroy(m->stream);
    free(m->all);
}

/* The shortest time of a few sums, after one sum that is not timed. */
static yoke_status time_sums(const struct sums *m, yoke_comm *comm, int64_t n, double *seconds_out)
{
    *seconds_out = INFINITY;
    for (int i = 0; i <= times_to_sum(n); i++) {
        const uint64_t begun = yokei_now_ns();
        YOKE_TRY(yoke_all_reduce(m->data, m->data, (size_t)n, YOKE_F32, YOKE_SUM, comm, m->stream));
        YOKE_TRY(yoke_stream_sync(m->stream));
        if (i > 0) *seconds_out = fmin(*seconds_out, (double)(yokei_now_ns() - begun) * 1e-9);
    }
    return YOKE_OK;
}

yoke_status yokei_run_measure_sums(const struct yokei_run_state *s, const bool *used, int64_t n,
                                   double *seconds_out)
{
    const struct yoke_trainer_config c = yokei_run_trainer_config(s);
    const struct yokei_mesh *m = &s->mesh;
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    const int64_t some = YOKE_MIN(n, MOST_SUMMED);
    struct sums sums = { 0 };
    double mine = 0;
    yoke_comm *comm = NULL;
    config.name = "measuring sums";
    yoke_status status = yokei_ranks_all_well(&c, open_sums(s, used[m->d], some, &sums));
    if (!status)
        status = yoke_comm_split(s->comm, used[m->d] ? yokei_mesh_rank(m, 0, m->s, m->t) : YOKE_NO_COLOR,
                                 m->d, &config, &comm);
    if (!status && comm) status = time_sums(&sums, comm, some, &mine);
    if (!status) status = yokei_ranks_gather(&c, &mine, 1, sums.all);
    *seconds_out = 0;
    for (int r = 0; r < s->n_ranks && !status; r++)
        *seconds_out = fmax(*seconds_out, sums.all[r] * (double)n / (double)some);
    close_sums(s, &sums);
    if (comm && !status) status = yoke_comm_destroy(comm);
    return status;
}

void yokei_run_note_times(struct yokei_run_state *s)
{
    struct yokei_plan *p = &s->t->plan;
    if (!s->n_counted) return;
    for (int r = 0; r < s->n_ranks; r++)
        p->ranks[s->placed[r]].measured_seconds = s->compute_sum[r] / (double)s->n_counted;
    p->measured_step_seconds = s->step_sum / (double)s->n_counted;
}
