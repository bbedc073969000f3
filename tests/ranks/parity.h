/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts of a training job held against one host rank: what parity.c and mesh.c share. N_BLOCKS: of the model; QUICK: fewer steps, and one run. */
#ifndef TESTS_RANKS_PARITY_H
#define TESTS_RANKS_PARITY_H

#include "tests/ranks/ranks.h"

#include <math.h>
#include "tests/golden/gates.h"
#include "train/trainer.h"

enum { STEPS = 20, BATCH = 8, T = 64, SEED = 11, MOST_RANKS = 8, N_CHECKED = 3 };
static const int checked[N_CHECKED] = { 1, 10, 20 };

struct layout {
    const char *devices[MOST_RANKS]; /* as many as there are ranks */
    int64_t shares[MOST_RANKS];      /* of the replicas */
    int64_t micro_batch;
    /* a mesh; 0 and NULL: data parallelism alone */
    int pipeline, tensor, chunks;
    const char *kind, *recompute;
    int64_t blocks[MOST_RANKS];      /* of the virtual stages; 0: equal */
    bool sequence_parallel;
    int64_t tensor_shares[MOST_RANKS]; /* 0: equal */
    int widths[MOST_RANKS];          /* tensor ranks of each stage; 0: `tensor` everywhere */
};
static int n_ranks_of(const struct layout *l)
{
    int n = 0;
    while (n < MOST_RANKS && l->devices[n]) n++;
    return n;
}

/* A trainer on this rank's device. */
struct subject {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    yoke_comm *comm, *control;
    int64_t first, count;
};

/* What one host rank computes: its weights before the checked steps, its gradients there, its losses. */
struct expected {
    float *weights[N_CHECKED], *gradients[N_CHECKED];
    double losses[STEPS];
};

/* Text-like tokens: words of a small vocabulary drawn by position, so that there is something to learn. */
static void fill_batch(int step, int32_t *tokens, int32_t *targets)
{
    static const char *const words[] = { "in the ", "beginning ", "was ", "a yoke ", "of two ", "unequal ", "beasts ", "pulling. " };
    char text[BATCH * T + 1 + 16];
    size_t n = 0;
    struct yokei_philox_key key = yokei_philox_named(SEED, "text");
    for (uint64_t i = (uint64_t)step * 1000; n < BATCH * T + 1; i++) {
        const char *word = words[(size_t)(yokei_uniform(key, i) * 7.999)];
        for (; *word && n < BATCH * T + 1; word++) text[n++] = *word;
    }
    for (size_t i = 0; i < BATCH * T; i++) {
        tokens[i] = (unsigned char)text[i];
        targets[i] = (unsigned char)text[i + 1];
    }
}

static size_t n_elements(const struct subject *s) { return (size_t)yoke_model_n_elements(s->model); }
static int n_parameters(const struct subject *s) { return yoke_trainer_n_logical(s->trainer); }
static size_t count_of(const struct subject *s, int p) { return (size_t)yokei_logical_count(yoke_trainer_logical(s->trainer, p)); }

static yoke_status open_subject(const char *device, yoke_dtype precision, const struct layout *l, MPI_Comm ranks, struct subject *s)
{
    struct yoke_gpt2_config nano;
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    memset(s, 0, sizeof *s);
    YOKE_TRY(yoke_gpt2_preset("nano", &nano));
    nano.n_layer = N_BLOCKS;
    YOKE_TRY(yoke_device_open(device, NULL, &s->device));
    if (ranks != MPI_COMM_NULL) {
        YOKE_TRY(yoke_comm_create(ranks, s->device, NULL, &s->comm));
        YOKE_TRY(yoke_comm_create(ranks, NULL, NULL, &s->control));
    }
    c.precision = precision;
    c.batch = BATCH;
    c.sequence = T;
    if (l) {
        c.shares = l->shares;
        c.micro_batch = l->micro_batch;
        c.pipeline = l->pipeline;
        c.tensor = l->tensor;
        c.chunks = l->chunks;
        c.pipeline_kind = l->kind;
        c.recompute = l->recompute;
        c.stage_blocks = l->blocks[0] ? l->blocks : NULL;
        c.sequence_parallel = l->sequence_parallel;
        c.tensor_shares = l->tensor_shares[0] ? l->tensor_shares : NULL;
        c.stage_tensor = l->widths[0] ? l->widths : NULL;
    }
    c.seed = SEED;
    c.clip = 1;
    c.bucket_bytes = 64 << 10; /* several buckets, some of them while the backward pass runs */
    c.comm = s->comm;
    c.control = s->control;
    YOKE_TRY(yoke_model_gpt2(&nano, &s->model));
    YOKE_TRY(yoke_trainer_create(s->model, s->device, &c, &s->trainer));
    yoke_trainer_range(s->trainer, &s->first, &s->count);
    return YOKE_OK;
}

static void close_subject(struct subject *s)
{
    yoke_trainer_destroy(s->trainer);
    yoke_model_destroy(s->model);
    if (s->control) yoke_comm_destroy(s->control);
    if (s->comm) yoke_comm_destroy(s->comm);
    if (s->device) yoke_device_close(s->device);
}

static yoke_status backward(struct subject *s, int step, struct yoke_step_result *result)
{
    int32_t tokens[BATCH * T], targets[BATCH * T];
    fill_batch(step, tokens, targets);
    return yoke_trainer_backward(s->trainer, tokens + s->first * T, targets + s->first * T, 0, result);
}

static yoke_status apply(struct subject *s, int step, struct yoke_step_result *result)
{
    return yoke_trainer_apply(s->trainer, 1e-3 * fmin(1, step / 10.0), result); /* warm-up 10 */
}

static yoke_status get_all(struct subject *s, enum yoke_tensor_kind kind, float *all)
{
    for (int p = 0; p < n_parameters(s); all += count_of(s, p), p++)
        YOKE_TRY(yoke_trainer_get_whole(s->trainer, kind, p, all));
    return YOKE_OK;
}

static yoke_status set_weights(struct subject *s, const float *all)
{
    for (int p = 0; p < n_parameters(s); all += count_of(s, p), p++)
        YOKE_TRY(yoke_trainer_set_whole(s->trainer, YOKE_TENSOR_WEIGHT, p, all));
    return YOKE_OK;
}

static yoke_status expect(yoke_dtype precision, struct expected *e)
{
    struct subject s;
    struct yoke_step_result result;
    YOKE_TRY(open_subject("host", precision, NULL, MPI_COMM_NULL, &s));
    for (int step = 1; step <= STEPS; step++) {
        int at = -1;
        for (int k = 0; k < N_CHECKED; k++)
            if (checked[k] == step) at = k;
        if (at >= 0) {
            e->weights[at] = malloc(n_elements(&s) * sizeof(float));
            e->gradients[at] = malloc(n_elements(&s) * sizeof(float));
            YOKE_TRY(get_all(&s, YOKE_TENSOR_WEIGHT, e->weights[at]));
        }
        YOKE_TRY(backward(&s, step, &result));
        if (at >= 0) YOKE_TRY(get_all(&s, YOKE_TENSOR_GRADIENT, e->gradients[at]));
        e->losses[step - 1] = result.loss;
        YOKE_TRY(apply(&s, step, &result));
    }
    close_subject(&s);
    return YOKE_OK;
}

static void free_expected(struct expected *e)
{
    for (int k = 0; k < N_CHECKED; k++) free(e->weights[k]), free(e->gradients[k]);
}

/* Gate (a) at checked step k: the largest ratio over all tensors. */
static yoke_status gradient_ratio(struct subject *s, const struct expected *e, int k, yoke_dtype precision, bool against_f32,
                                  double *worst_out)
{
    struct yoke_step_result result;
    size_t at = 0;
    float *got = malloc(n_elements(s) * sizeof *got);
    YOKE_TRY(set_weights(s, e->weights[k]));
    YOKE_TRY(backward(s, checked[k], &result));
    YOKE_TRY(get_all(s, YOKE_TENSOR_GRADIENT, got));
    *worst_out = 0;
    for (int p = 0; p < n_parameters(s); at += count_of(s, p), p++)
        *worst_out = fmax(*worst_out, gates_gradient(yoke_trainer_logical(s->trainer, p)->name, got + at,
                                                     e->gradients[k] + at, count_of(s, p), precision,
                                                     gates_tolerance(precision, against_f32)));
    free(got);
    return YOKE_OK;
}

/* Gate (b): the largest ratio of a free run's losses to their gates. */
static yoke_status loss_ratio(struct subject *s, const struct expected *e, yoke_dtype precision, int steps, double *worst_out)
{
    struct yoke_step_result result;
    *worst_out = 0;
    YOKE_TRY(yoke_trainer_draw(s->trainer, SEED));
    for (int step = 1; step <= steps; step++) {
        YOKE_TRY(backward(s, step, &result));
        YOKE_TRY(apply(s, step, &result));
        double off = fabs(result.loss - e->losses[step - 1]) / e->losses[step - 1];
        double gate = precision == YOKE_F32 ? 2e-6 : step == 1 ? 1e-5 : 1.2e-3;
        *worst_out = fmax(*worst_out, off / gate);
    }
    return YOKE_OK;
}

/* A hash of all weights after a few steps from the start. */
static yoke_status run_hash(struct subject *s, uint64_t *hash_out)
{
    struct yoke_step_result result;
    float *all = malloc(n_elements(s) * sizeof *all);
    YOKE_TRY(yoke_trainer_draw(s->trainer, SEED));
    for (int step = 1; step <= 3; step++) {
        YOKE_TRY(backward(s, step, &result));
        YOKE_TRY(apply(s, step, &result));
    }
    YOKE_TRY(get_all(s, YOKE_TENSOR_WEIGHT, all));
    *hash_out = yokei_hash(all, n_elements(s) * sizeof *all, 0);
    free(all);
    return YOKE_OK;
}

struct verdict {
    double gradients, against_f32, losses;
    bool same_bits;
    uint64_t hash; /* of the weights after three steps */
};

/* On the ranks of a layout; the others wait in the check that follows. */
static yoke_status judge(const struct layout *l, yoke_dtype precision, const struct expected *e, const struct expected *f32,
                         MPI_Comm ranks, int rank, struct verdict *v)
{
    struct subject s;
    uint64_t once, twice;
    bool slow = false; /* the reference backend, one product at a time in f64 */
    for (int r = 0; r < n_ranks_of(l); r++) slow = slow || !strcmp(l->devices[r], "reference");
    *v = (struct verdict){ 0 };
    YOKE_TRY(open_subject(l->devices[rank], precision, l, ranks, &s));
    for (int k = 0; k < (slow ? 1 : QUICK ? 2 : N_CHECKED); k++) {
        double ratio;
        YOKE_TRY(gradient_ratio(&s, e, k, precision, false, &ratio));
        v->gradients = fmax(v->gradients, ratio);
        if (precision == YOKE_F32 || k > 0) continue;
        YOKE_TRY(gradient_ratio(&s, f32, k, precision, true, &ratio));
        v->against_f32 = fmax(v->against_f32, ratio);
    }
    YOKE_TRY(loss_ratio(&s, e, precision, slow ? 2 : QUICK ? 5 : precision == YOKE_F32 ? STEPS : 12, &v->losses));
    YOKE_TRY(run_hash(&s, &once));
    close_subject(&s);
    twice = once;
    if (!QUICK) {
        YOKE_TRY(open_subject(l->devices[rank], precision, l, ranks, &s));
        YOKE_TRY(run_hash(&s, &twice));
        close_subject(&s);
    }
    v->same_bits = once == twice;
    v->hash = once;
    return YOKE_OK;
}

static void describe(const struct layout *l, char *out, size_t bytes)
{
    int width = (l->pipeline ? l->pipeline : 1) * (l->tensor ? l->tensor : 1);
    for (int s = 0; s < l->pipeline && l->widths[0]; s++) width = (s ? width : 0) + l->widths[s];
    out[0] = 0;
    for (int r = 0; r < n_ranks_of(l); r++) {
        const size_t at = strlen(out);
        snprintf(out + at, bytes - at, "%s%s", r ? " + " : "", l->devices[r]);
    }
    for (int d = 0; d < n_ranks_of(l) / width; d++) {
        const size_t at = strlen(out);
        snprintf(out + at, bytes - at, "%s%lld", d ? ":" : ", shares ", (long long)l->shares[d]);
    }
    const size_t at = strlen(out);
    if (width > 1)
        snprintf(out + at, bytes - at, ", pp %d, tp %d%s, chunks %d, %s, recompute %s, micro-batch %lld", l->pipeline, l->tensor,
                 l->sequence_parallel ? " with sequences" : "", l->chunks, l->kind ? l->kind : "1f1b", l->recompute ? l->recompute : "none",
                 (long long)l->micro_batch);
    for (int w = 0; w < l->pipeline && l->widths[0]; w++) {
        const size_t end = strlen(out);
        snprintf(out + end, bytes - end, "%s%d", w ? "," : ", widths ", l->widths[w]);
    }
}

static bool is_there(const char *device)
{
    yoke_device *d;
    if (yoke_device_open(device, NULL, &d)) return false;
    yoke_device_close(d);
    return true;
}

static struct verdict check_layout(const struct layout *l, yoke_dtype precision, const struct expected *e, const struct expected *f32)
{
    int n = n_ranks_of(l);
    struct verdict v = { 0 };
    yoke_status status = YOKE_OK;
    char name[256];
    MPI_Comm ranks;
    PMPI_Comm_split(ranks_world, ranks_rank < n ? 0 : MPI_UNDEFINED, ranks_rank, &ranks);
    if (ranks_rank < n) status = judge(l, precision, e, f32, n > 1 ? ranks : MPI_COMM_NULL, ranks_rank, &v);
    describe(l, name, sizeof name);
    if (status) printf("# rank %d, %s: %s\n", ranks_rank, name, yoke_last_error());
    const char *type = yoke_dtype_name(precision);
#ifdef PLANT_DOUBLE_AVERAGE
    ranks_check(!status && (ranks_rank >= n || v.gradients > 10), "gradients averaged twice are noticed, %s, %s", type, name);
#else
    ranks_check(!status && v.gradients <= 1 && v.against_f32 <= 1, "(a) gradients, %s, %s", type, name);
    ranks_check(!status && v.losses <= 1, "(b) losses, %s, %s", type, name);
    if (!QUICK) ranks_check(!status && (v.same_bits || ranks_rank >= n), "two runs of one plan, same bits, %s, %s", type, name);
    if (ranks_rank == 0)
        printf("# %s, %s: gradients %.3f, against f32 %.3f, losses %.3f of their gates\n", type, name, v.gradients, v.against_f32,
               v.losses);
#endif
    if (ranks != MPI_COMM_NULL) PMPI_Comm_free(&ranks);
    return v;
}

#endif
