/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step program and the trainer on one rank of the reference backend: gradients of the whole model against
 * central differences, micro-batches and schedules, the predicted memory, and what is refused.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include "core/backend.h"
#include "core/base/base.h"
#include "train/trainer/trainer.h"

enum { SEED = 7, BATCH = 4, T = 8, VOCABULARY = 23 };
static const struct yoke_gpt2_config tiny = { sizeof tiny, 2, 2, 16, T, VOCABULARY, 1e-5, 0.1 };

struct run {
    yoke_device *device;
    yoke_model *model;
    yoke_trainer *trainer;
    int32_t tokens[BATCH * T], targets[BATCH * T];
};

static struct yoke_trainer_config config_of(yoke_dtype precision)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    c.precision = precision;
    c.batch = BATCH;
    c.sequence = T;
    c.seed = SEED;
    c.clip = 1;
    return c;
}

static void open_run(struct run *r)
{
    memset(r, 0, sizeof *r);
    assert_ok(yoke_device_open("reference", NULL, &r->device));
    assert_ok(yoke_model_gpt2(&tiny, &r->model));
    for (int i = 0; i < BATCH * T; i++) {
        r->tokens[i] = (i * 11 + 5) % VOCABULARY;
        r->targets[i] = (i * 13 + 2) % VOCABULARY;
    }
}

static void close_run(struct run *r)
{
    assert_ok(yoke_trainer_destroy(r->trainer));
    assert_ok(yoke_model_destroy(r->model));
    assert_ok(yoke_device_close(r->device));
}

static void begin(struct run *r, const struct yoke_trainer_config *c)
{
    open_run(r);
    assert_ok(yoke_trainer_create(r->model, r->device, c, &r->trainer));
}

static int64_t count(const struct run *r, int index)
{
    return yokei_logical_count(yoke_trainer_parameter(r->trainer, index));
}

/* All tensors of one kind, one after the other; free() it. */
static float *all_of(struct run *r, enum yoke_tensor_kind kind, size_t *n_out)
{
    size_t n = 0, at = 0;
    for (int i = 0; i < yoke_trainer_n_parameters(r->trainer); i++) n += (size_t)count(r, i);
    float *all = malloc(n * sizeof *all);
    for (int i = 0; i < yoke_trainer_n_parameters(r->trainer); at += (size_t)count(r, i), i++)
        assert_ok(yoke_trainer_get(r->trainer, kind, i, all + at));
    *n_out = n;
    return all;
}

static double loss_of(struct run *r)
{
    double sum;
    assert_ok(yoke_trainer_evaluate(r->trainer, r->tokens, r->targets, BATCH, &sum));
    return sum / (BATCH * T);
}

static void whole_model(void **state)
{
    (void)state;
    struct run r;
    struct yoke_trainer_config c = config_of(YOKE_F64);
    struct yoke_step_result result;
    begin(&r, &c);
    assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
    assert_true(fabs(result.loss - loss_of(&r)) < 1e-12);
    for (int p = 0; p < yoke_trainer_n_parameters(r.trainer); p++) {
        size_t n = (size_t)count(&r, p);
        float *w = malloc(n * 4), *g = malloc(n * 4), largest = 0;
        assert_ok(yoke_trainer_get(r.trainer, YOKE_TENSOR_WEIGHT, p, w));
        assert_ok(yoke_trainer_get(r.trainer, YOKE_TENSOR_GRADIENT, p, g));
        for (size_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(g[i]));
        for (size_t k = 0; k < 4; k++) { /* four elements of each parameter; h is exact in f32 */
            size_t i = (k * 7919 + 3) % n;
            float kept = w[i], h = 0x1p-12f;
            w[i] = kept + h;
            float up_at = w[i];
            assert_ok(yoke_trainer_set(r.trainer, YOKE_TENSOR_WEIGHT, p, w));
            double up = loss_of(&r);
            w[i] = kept - h;
            double down_at = w[i];
            assert_ok(yoke_trainer_set(r.trainer, YOKE_TENSOR_WEIGHT, p, w));
            double numeric = (up - loss_of(&r)) / ((double)up_at - down_at);
            w[i] = kept;
            assert_ok(yoke_trainer_set(r.trainer, YOKE_TENSOR_WEIGHT, p, w));
            if (fabs(numeric - (double)g[i]) > 1e-5 * (double)largest + 1e-9)
                fail_msg("%s[%zu]: gradient %.9g, by differences %.9g",
                         yoke_trainer_parameter(r.trainer, p)->name, i, (double)g[i], numeric);
        }
        free(w), free(g);
    }
    close_run(&r);
}

/* Gradients of one step under a configuration; free() them. */
static float *gradients_of(const struct yoke_trainer_config *c, size_t *n_out, double *loss_out)
{
    struct run r;
    struct yoke_step_result result;
    begin(&r, c);
    assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
    float *g = all_of(&r, YOKE_TENSOR_GRADIENT, n_out);
    *loss_out = result.loss;
    close_run(&r);
    return g;
}

static void micro_batch_sizes(void **state)
{
    (void)state;
    size_t n, m;
    double loss, other;
    struct yoke_trainer_config c = config_of(YOKE_F64);
    float *whole = gradients_of(&c, &n, &loss);
    for (c.micro_batch = 1; c.micro_batch <= BATCH; c.micro_batch++) { /* 3 leaves a ragged last one */
        float *g = gradients_of(&c, &m, &other);
        assert_true(fabs(loss - other) < 1e-12);
        for (size_t i = 0; i < n; i++)
            assert_true(fabsf(g[i] - whole[i]) <= 2e-7f * fabsf(whole[i]) + 1e-12f);
        free(g);
    }
    free(whole);
}

/*
 * Other orders of the same actions give the same bits: gradients accumulate in ascending order in all of
 * them.
 */
/*
 * The gradients of a step must not depend on the values that the last step left, although most gradients are
 * overwritten without being set to 0. Padding must stay 0.
 */
static void gradients_begin_anew(void **state)
{
    (void)state;
    const struct yoke_gpt2_config odd = {
        sizeof odd, 1, 1, 9, T, VOCABULARY, 1e-5, 0.1
    }; /* matrices with padding behind them */
    for (int64_t micro_batch = 1; micro_batch <= BATCH; micro_batch += 3) {
        struct run r;
        struct yoke_step_result result;
        struct yoke_trainer_config c = config_of(YOKE_F32);
        size_t n;
        c.micro_batch = micro_batch;
        open_run(&r);
        assert_ok(yoke_model_destroy(r.model));
        assert_ok(yoke_model_gpt2(&odd, &r.model));
        assert_ok(yoke_trainer_create(r.model, r.device, &c, &r.trainer));
        const struct yokei_state *s = &r.trainer->plan.state;
        const struct yokei_program *p = &r.trainer->plan.train;
        char *gradients = (char *)r.trainer->base + s->gradients, *kept = malloc(s->gradients_bytes);
        size_t zeroed = 0;
        assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
        memcpy(kept, gradients, s->gradients_bytes);
        memset(gradients, 0xff, s->gradients_bytes);
        assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
        assert_memory_equal(kept, gradients, s->gradients_bytes);
        float *all = all_of(&r, YOKE_TENSOR_GRADIENT, &n);
        for (int i = 0; i < p->n_zeroed; i++) zeroed += p->zeroed[i].bytes;
        assert_true(zeroed > 0 && zeroed < n * sizeof(float) / 2);
        free(all), free(kept);
        close_run(&r);
    }
}

static void schedules_same_bits(void **state)
{
    (void)state;
    static const char *const orders[] = {
        "F0,B0,W0,F1,B1,W1,F2,B2,W2,F3,B3,W3,AGREE,STEP\n",
        "# all forward passes first\nF0,F1,F2,F3,B0,W0,B1,W1,B2,W2,B3,W3,AGREE,STEP\n",
        "F0, B0, F1, B1, W0, F2, B2, W1, F3, B3, W2, W3, AGREE, STEP",
        "F0,F1,B0,F2,F3,B1,B2,B3,W0,W1,W2,W3,AGREE,STEP\n\n",
    };
    struct yoke_trainer_config c = config_of(YOKE_BF16);
    size_t n, m, peak[YOKE_COUNT(orders)];
    double loss, other;
    c.micro_batch = 1;
    float *first = gradients_of(&c, &n, &loss);
    for (size_t i = 0; i < YOKE_COUNT(orders); i++) {
        struct yoke_memory_report report;
        struct run r;
        c.schedule = orders[i];
        float *g = gradients_of(&c, &m, &other);
        assert_true(loss == other && n == m);
        assert_memory_equal(first, g, n * sizeof *g);
        free(g);
        open_run(&r);
        assert_ok(yoke_trainer_plan_memory(r.model, r.device, &c, &report));
        peak[i] = report.activations;
        close_run(&r);
    }
    assert_true(peak[0] < peak[1] && peak[0] < peak[2]); /* more in flight, more memory */
    free(first);
}

static void schedule_text(void **state)
{
    (void)state;
    struct yokei_schedule s, again;
    char *text, *twice;
    const int two_buckets = 2;
    /* one rank of data parallelism, by its number of micro-batches */
    static const char *const alone[] = { "REDUCE0,REDUCE1,AGREE,STEP\n",
                                         "F0,B0,W0,REDUCE0,REDUCE1,AGREE,STEP\n",
                                         "F0,B0,W0,F1,B1,W1,REDUCE0,REDUCE1,AGREE,STEP\n" };
    for (int m = 0; m < (int)YOKE_COUNT(alone); m++) {
        const struct yokei_pipeline shape = { .n_stages = 1,
                                              .n_micro_batches = m,
                                              .n_buckets = &two_buckets };
        assert_ok(yokei_schedule_pipeline(&shape, &s));
        assert_ok(yokei_schedule_check(&s, &shape));
        assert_ok(yokei_schedule_print(&s, &text));
        assert_string_equal(text, alone[m]);
        assert_ok(yokei_schedule_parse(text, "s.csv", &again));
        assert_ok(yokei_schedule_print(&again, &twice));
        assert_string_equal(text, twice);
        free(text), free(twice);
        yokei_schedule_free(&s);
        yokei_schedule_free(&again);
    }

    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "F0,B0,X0", "s.csv:1:7: \"X0\"" },
        { "", "no schedule" },
        { "F0,,B0", "s.csv:1:4" },
        { "#\n\nF,B0", "s.csv:3:1" },
        { "F-1", "no action" },
        { "AGREE1", "no action" },
        { "F0.", "no action" },
        { "F99999999999", "no action" },
    };
    for (size_t i = 0; i < YOKE_COUNT(wrong); i++)
        assert_fails(YOKE_ECONFIG, wrong[i].words, yokei_schedule_parse(wrong[i].text, "s.csv", &s));
    static const struct {
        const char *text, *words;
    } unsound[] = {
        { "F0,B0,W0,AGREE,STEP", "AGREE is too early" },   /* loses micro-batch 1 */
        { "F0,B0,W0,F0,B0,W0,AGREE,STEP", "expected F1" }, /* repeats 0 */
        { "F1,F0,B0,W0,B1,W1,AGREE,STEP", "expected F0" }, /* other order of accumulation */
        { "B0,F0,W0,F1,B1,W1,AGREE,STEP", "B0 comes before F0" },
        { "F0,W0,B0,F1,B1,W1,AGREE,STEP", "W0 comes before B0" },
        { "F0,B0,W0,F1,B1,W1,STEP,AGREE", "STEP is too early" },
        { "F0,B0,W0,F1,B1,W1,AGREE", "does not end in" },
        { "F0,B0,W0,F1,B1,W1,F2,AGREE,STEP", "of 2" },
        { "F0.1,B0,W0,F1,B1,W1,AGREE,STEP", "names a chunk" },
        { "F0,B0,W0,F1,B1,W1,REDUCE0,AGREE,STEP", "of 0" },
    };
    for (size_t i = 0; i < YOKE_COUNT(unsound); i++) {
        const struct yokei_pipeline two = { .n_stages = 1, .n_micro_batches = 2 };
        assert_ok(yokei_schedule_parse(unsound[i].text, "s.csv", &s));
        assert_fails(YOKE_ECONFIG, unsound[i].words, yokei_schedule_check(&s, &two));
        yokei_schedule_free(&s);
    }
}

/*
 * The predicted memory must be the allocated memory, a step must allocate nothing, and no two live buffers
 * may overlap.
 */
static void memory(void **state)
{
    (void)state;
    static const yoke_dtype precisions[] = { YOKE_F32, YOKE_BF16, YOKE_F16 };
    for (size_t k = 0; k < YOKE_COUNT(precisions); k++) {
        struct run r;
        struct yoke_memory_report predicted, taken;
        struct yoke_step_result result;
        struct yoke_trainer_config c = config_of(precisions[k]);
        c.micro_batch = 3;
        open_run(&r);
        assert_ok(yoke_trainer_plan_memory(r.model, r.device, &c, &predicted));
        size_t before = atomic_load(&r.device->allocated);
        assert_ok(yoke_trainer_create(r.model, r.device, &c, &r.trainer));
        size_t after = atomic_load(&r.device->allocated);
        assert_ok(yoke_trainer_memory(r.trainer, &taken));
        assert_memory_equal(&predicted, &taken, sizeof taken);
        assert_int_equal(after - before, predicted.total);
        assert_int_equal(predicted.total, predicted.weights + predicted.gradients + predicted.optimizer
                                              + predicted.activations + predicted.workspace
                                              + predicted.scratch);
        assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
        assert_ok(yoke_trainer_apply(r.trainer, 1e-3, &result));
        loss_of(&r);
        assert_int_equal(atomic_load(&r.device->allocated_peak), after);
        const struct yokei_program *p = &r.trainer->plan.train;
        for (int a = 0; a < p->n_buffers; a++)
            for (int b = a + 1; b < p->n_buffers; b++) {
                const struct yokei_buffer *x = &p->buffer[a], *y = &p->buffer[b];
                bool live = x->first <= y->last && y->first <= x->last;
                assert_false(live && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes);
            }
        close_run(&r);
    }
}

static void learns(void **state)
{
    (void)state;
    static const struct {
        yoke_dtype precision;
        double below;
    } cases[] = { { YOKE_F32, 0.5 }, { YOKE_BF16, 0.5 }, { YOKE_F16, 0.5 } };
    for (size_t k = 0; k < YOKE_COUNT(cases); k++) {
        struct run r;
        struct yoke_trainer_config c = config_of(cases[k].precision);
        struct yoke_step_result result;
        begin(&r, &c);
        for (int s = 0; s < 60; s++) {
            assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
            if (s == 0) assert_true(fabs(result.loss - log(VOCABULARY)) < 0.2);
            assert_ok(yoke_trainer_apply(r.trainer, 1e-2, &result));
        }
        if (!(result.loss < cases[k].below))
            fail_msg("%s: loss %g after 60 steps on one batch", yoke_dtype_name(cases[k].precision),
                     result.loss);
        float logits[VOCABULARY];
        assert_ok(yoke_trainer_logits(r.trainer, r.tokens, T - 1, logits)); /* it knows what follows */
        int best = 0;
        for (int v = 1; v < VOCABULARY; v++)
            if (logits[v] > logits[best]) best = v;
        assert_int_equal(best, r.targets[T - 1]);
        close_run(&r);
    }
}

/*
 * A loss scale that overflows fp16. The step is skipped, and weights stay. The scale is halved until steps
 * are taken again.
 */
static void overflow(void **state)
{
    (void)state;
    struct run r;
    struct yoke_trainer_config c = config_of(YOKE_F16);
    struct yoke_step_result result;
    size_t n;
    c.loss_scale = 0x1p30;
    c.scale_interval = 3;
    begin(&r, &c);
    float *before = all_of(&r, YOKE_TENSOR_WEIGHT, &n);
    assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
    assert_true(result.overflow && isfinite(result.loss));
    assert_ok(yoke_trainer_apply(r.trainer, 1e-2, &result));
    float *after = all_of(&r, YOKE_TENSOR_WEIGHT, &n);
    assert_memory_equal(before, after, n * sizeof *after);
    double scale = 0x1p30;
    int taken = 0;
    for (int s = 0; s < 40 && taken < 4; s++) {
        scale = result.overflow ? scale / 2 : scale;
        assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
        if (taken < 3)
            assert_true(result.loss_scale == scale); /* doubled after three good steps */
        else
            assert_true(result.loss_scale == 2 * scale);
        taken += !result.overflow;
        assert_ok(yoke_trainer_apply(r.trainer, 1e-4, &result));
    }
    assert_int_equal(taken, 4);
    free(before), free(after);
    close_run(&r);
}

/*
 * A loss scale that is too large for every step must be named as the cause. The learning rate is not the
 * cause.
 */
static void scale_beyond_all(void **state)
{
    static const struct {
        yoke_dtype precision;
        double first;
        bool good_before;
        const char *words;
    } cases[] = {
        { YOKE_F16, 1e12, false, "give a lower --loss-scale than 1e+12" },
        { YOKE_F16, 1e12, true, "lower the learning rate" },
        { YOKE_F16, 0, false, "lower the learning rate" },
        { YOKE_F16, 65536, false, "lower the learning rate" },
        { YOKE_BF16, 1e15, false, "give a lower --loss-scale than 1e+15" },
        { YOKE_F32, 0, false, "lower the learning rate" },
    };
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        struct yokei_loss_scale scale;
        yokei_loss_scale_init(&scale, cases[i].precision, cases[i].first, 0);
        if (cases[i].good_before) assert_ok(yokei_loss_scale_update(&scale, false, 1));
        for (int64_t step = 2; step < 21; step++) assert_ok(yokei_loss_scale_update(&scale, true, step));
        assert_fails(YOKE_ENUMERIC, cases[i].words, yokei_loss_scale_update(&scale, true, 21));
    }
    struct run r;
    struct yoke_trainer_config c = config_of(YOKE_F16);
    struct yoke_step_result result;
    yoke_status status = YOKE_OK;
    c.loss_scale = 1e15;
    begin(&r, &c);
    for (int s = 0; s < 30 && !status; s++) {
        assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
        status = yoke_trainer_apply(r.trainer, 1e-4, &result);
    }
    assert_fails(YOKE_ENUMERIC, "give a lower --loss-scale than 1e+15", status);
    close_run(&r);
}

static void not_a_number(void **state)
{
    (void)state;
    struct run r;
    struct yoke_trainer_config c = config_of(YOKE_F32);
    struct yoke_step_result result;
    begin(&r, &c);
    int64_t n = count(&r, 0);
    float *w = malloc((size_t)n * 4);
    assert_ok(yoke_trainer_get(r.trainer, YOKE_TENSOR_WEIGHT, 0, w));
    assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
    w[r.tokens[3] * 16] = NAN;
    assert_ok(yoke_trainer_set(r.trainer, YOKE_TENSOR_WEIGHT, 0, w));
    assert_fails(YOKE_ENUMERIC, "step 2: the loss of rank 0 is not a number",
                 yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
    free(w);
    close_run(&r);
}

static void refused(void **state)
{
    (void)state;
    struct run r;
    yoke_trainer *t = NULL;
    open_run(&r);
    struct yoke_trainer_config c = config_of(YOKE_F32);
    struct yoke_memory_report one, all;
    c.micro_batch = 1;
    assert_ok(yoke_trainer_plan_memory(r.model, r.device, &c, &one));
    c.micro_batch = 4;
    assert_ok(yoke_trainer_plan_memory(r.model, r.device, &c, &all));
    assert_true(one.total < all.total);
    c.memory_limit = one.total;
    assert_fails(YOKE_ENOMEM, "lower the micro-batch from 4 to 1",
                 yoke_trainer_create(r.model, r.device, &c, &t));
    c.memory_limit = one.total / 2;
    assert_fails(YOKE_ENOMEM, "nothing that was tried fits", yoke_trainer_create(r.model, r.device, &c, &t));
    c = config_of(YOKE_F32), c.sequence = T + 1;
    assert_fails(YOKE_ECONFIG, "longer than the model's 8 positions",
                 yoke_trainer_create(r.model, r.device, &c, &t));
    c = config_of(YOKE_F32), c.shares = (int64_t[]){ 3 };
    assert_fails(YOKE_ECONFIG, "add up to 3", yoke_trainer_create(r.model, r.device, &c, &t));
    c = config_of(YOKE_F32), c.micro_batch = 5;
    assert_fails(YOKE_ECONFIG, "micro-batch 5", yoke_trainer_create(r.model, r.device, &c, &t));
    c = config_of(YOKE_I32);
    assert_fails(YOKE_ECONFIG, "precision i32", yoke_trainer_create(r.model, r.device, &c, &t));
    c = config_of(YOKE_F32), c.schedule = "F0,B0,W0,AGREE,STEP\nAGREE,STEP\n";
    assert_fails(YOKE_ECONFIG, "2 lines", yoke_trainer_create(r.model, r.device, &c, &t));
    c = config_of(YOKE_F32), c.beta2 = 1.5;
    assert_fails(YOKE_ECONFIG, "beta2", yoke_trainer_create(r.model, r.device, &c, &t));
    struct yoke_gpt2_config bad = tiny;
    yoke_model *model;
    bad.n_head = 3;
    assert_fails(YOKE_ECONFIG, "not a multiple", yoke_model_gpt2(&bad, &model));
    assert_fails(YOKE_ECONFIG, "nano, micro or 124m", yoke_gpt2_preset("nanno", &bad));
    assert_fails(YOKE_ECONFIG, "gives", yoke_model_add(r.model, &yoke_layer_gpt2_norm, "more", 5, 5, &tiny));
    close_run(&r);
}

struct observed {
    const struct yokei_program *program;
    int n, wrong;
    double flops;
};

static void observe(void *context, const char *layer, const char *call, const char *op,
                    const struct yoke_cost *cost, double seconds)
{
    struct observed *o = context;
    (void)layer, (void)call;
    const struct yokei_op *planned = o->n < o->program->planner.n_ops ? &o->program->planner.ops[o->n] : NULL;
    if (!planned || strcmp(planned->name, op) != 0 || planned->flops != cost->flops
        || planned->bytes != cost->bytes || seconds < 0)
        o->wrong++;
    o->flops += cost->flops;
    o->n++;
}

/*
 * The ops that run must be the planned ones, one by one, because simulator, memory planner and interpreter
 * read one list.
 */
static void runs_as_planned(void **state)
{
    struct run r;
    struct yoke_trainer_config c = config_of(YOKE_BF16);
    struct yoke_step_result result;
    (void)state;
    c.micro_batch = 3;
    begin(&r, &c);
    struct observed o = { .program = &r.trainer->plan.train };
    yoke_trainer_profile(r.trainer, observe, &o);
    assert_ok(yoke_trainer_backward(r.trainer, r.tokens, r.targets, 0, &result));
    assert_ok(yoke_trainer_apply(r.trainer, 1e-3, &result));
    assert_int_equal(o.wrong, 0);
    assert_int_equal(o.n, o.program->planner.n_ops);
    /* The products of F, B and W take at least 6 operations for each matrix element and token. */
    assert_true(o.flops >= 6.0 * BATCH * T * 2 * 12 * 16 * 16);
    yoke_trainer_profile(r.trainer, NULL, NULL);
    close_run(&r);
}

static void sizes(void **state)
{
    (void)state;
    struct yoke_gpt2_config c;
    yoke_model *model;
    assert_ok(yoke_gpt2_preset("124m", &c));
    assert_ok(yoke_model_gpt2(&c, &model));
    assert_int_equal(yoke_model_n_elements(model), 124439808); /* the published count */
    assert_ok(yoke_model_destroy(model));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_model),
        cmocka_unit_test(micro_batch_sizes),
        cmocka_unit_test(schedules_same_bits),
        cmocka_unit_test(gradients_begin_anew),
        cmocka_unit_test(schedule_text),
        cmocka_unit_test(memory),
        cmocka_unit_test(learns),
        cmocka_unit_test(overflow),
        cmocka_unit_test(scale_beyond_all),
        cmocka_unit_test(not_a_number),
        cmocka_unit_test(refused),
        cmocka_unit_test(sizes),
        cmocka_unit_test(runs_as_planned),
    };
    printf("# seed %d\n", SEED);
    return cmocka_run_group_tests_name("step program and trainer", tests, NULL, NULL);
}
