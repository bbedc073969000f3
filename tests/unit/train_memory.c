/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a training run: published totals from the simulator's accounting, Yoke's own layers beside the
 * published formula, and forecasts. Each remedy for too little memory must be named exactly if it helps.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "parallel/simulate.h"
#include "train/run/forecast.h"

/*
 * ---- Published totals ----
 * Source: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models",
 * arXiv:2205.05198.
 */

struct published {
    const char *name;
    int64_t L, h, a;
    int p, v, m, b;
    /*
     * In GiB: parameters and optimizer; activations of the first stage, first without and then with sequence
     * parallelism and selective recomputation.
     */
    double state, none, both;
    double sp, selective, sp_selective,
        full; /* percent of tensor parallelism alone: figure 7, read off a drawing */
};
static const struct published table[] = {
    { "22B", 48, 6144, 64, 1, 1, 1, 4, 45.56, 59.25, 9.56, 66.84, 49.42, 16.18, 7.64 },
    { "175B", 96, 12288, 96, 8, 3, 64, 1, 45.56, 66.84, 12.35, 62.04, 56.53, 18.49, 8.71 },
    { "530B", 105, 20480, 128, 35, 3, 280, 1, 31.64, 114.02, 23.08, 58.31, 62.04, 20.27, 9.42 },
    { "1T", 128, 25600, 160, 64, 1, 512, 1, 32.96, 131.25, 26.56, 58.31, 62.04, 20.27, 9.42 },
};
enum { S = 2048, TP = 8 };

/*
 * The bytes of a layer's activations on one of t ranks, in 16 bits, with dropout masks of one byte: equations
 * 2, 4, 6 and table 2.
 */
enum way { NONE, SP, SELECTIVE, SP_SELECTIVE, FULL };
static double of_layer(const struct published *w, enum way way)
{
    const double sbh = (double)S * w->b * (double)w->h, scores = 5.0 * (double)w->a * S / (double)w->h,
                 t = TP;
    switch (way) {
    case NONE: return sbh * (10 + 24 / t + scores / t);
    case SP: return sbh * (34 + scores) / t;
    case SELECTIVE: return sbh * (10 + 24 / t);
    case SP_SELECTIVE: return sbh * 34 / t;
    default: return sbh * 2;
    }
}

/*
 * The most that the first stage holds, by the simulator, if the layers of a chunk keep so much from F to B
 * and W.
 */
static double peak_of(const struct published *w, double bytes)
{
    const struct yokei_pipeline shape = { .kind = w->v > 1 ? YOKEI_PIPELINE_INTERLEAVED : YOKEI_PIPELINE_1F1B,
                                          .n_stages = w->p,
                                          .n_chunks = w->v,
                                          .n_micro_batches = w->m };
    struct yokei_schedule schedule;
    struct yokei_costs costs;
    struct yokei_simulated t;
    assert_ok(yokei_schedule_pipeline(&shape, &schedule));
    assert_ok(yokei_costs_equal(w->p, w->v, 1, 1, 1, 0, &costs));
    for (int i = 0; i < w->p * w->v; i++) costs.chunk[i].until_w = bytes * (double)(w->L / (w->p * w->v));
    assert_ok(yokei_simulate(&schedule, &costs, &t));
    const double peak = t.stage[0].peak;
    for (int s = 1; s < w->p; s++) assert_true(t.stage[s].peak <= peak);
    yokei_simulated_free(&t);
    yokei_costs_free(&costs);
    yokei_schedule_free(&schedule);
    return peak;
}

static void published_totals(void **state)
{
    (void)state;
    const double gib = 1024.0 * 1024 * 1024;
    for (size_t i = 0; i < YOKE_COUNT(table); i++) {
        const struct published *w = &table[i];
        const double none = peak_of(w, of_layer(w, NONE)), both = peak_of(w, of_layer(w, SP_SELECTIVE));
        const double held = 12.0 * (double)w->L * (double)w->h * (double)w->h / (w->p * TP) * 18;
        print_message("%-4s state %.2f (%.2f), none %.2f (%.2f), both %.2f (%.2f) GiB\n", w->name, held / gib,
                      w->state, none / gib, w->none, both / gib, w->both);
        assert_int_equal(lround(held / gib * 100), lround(w->state * 100));
        assert_int_equal(lround(none / gib * 100), lround(w->none * 100));
        assert_int_equal(lround(both / gib * 100), lround(w->both * 100));
        /*
         * The first stage holds p micro-batches of a stage's layers. With chunks it holds (p - 1) / v of them
         * more, a penalty of 1 + (p - 1) / (p v). There is no effect of the pipeline's end.
         */
        const double penalty = w->v > 1 ? 1 + (w->p - 1.0) / (w->p * w->v) : 1;
        assert_true(fabs(none / (of_layer(w, NONE) * (double)w->L * penalty) - 1) < 1e-12);
        const double shares[] = { w->sp, w->selective, w->sp_selective, w->full };
        for (int way = SP; way <= FULL; way++)
            assert_true(fabs(100 * of_layer(w, (enum way)way) / of_layer(w, NONE) - shares[way - SP]) < 0.15);
    }
}

/*
 * The penalty for all shapes, if there are enough micro-batches to fill the pipeline. With fewer, the stage
 * holds all there are.
 */
static void interleaved_penalty(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int v = 2; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p) {
                const struct published w = { .L = p * v, .p = p, .v = v, .m = m };
                const double expected = fmin(p * v * (1 + (p - 1.0) / (p * v)),
                                             (double)m * v); /* in layers */
                if (fabs(peak_of(&w, 1) - expected) > 1e-9)
                    fail_msg("p %d, v %d, m %d: %g layers, not %g", p, v, m, peak_of(&w, 1), expected);
            }
}

/* ---- our own layers beside that formula ---- */

/*
 * The memory that a block keeps for a micro-batch from F to B and W: two stashes, and the inputs of its
 * halves.
 */
static size_t kept_by_block(const struct yoke_gpt2_config *g, int64_t B, int64_t T, int t,
                            bool sequence_parallel)
{
    const struct yoke_place place = { .size = sizeof place,
                                      .tensor_size = t,
                                      .sequence_parallel = sequence_parallel };
    const struct yoke_shape shape = { sizeof shape, YOKE_BF16, B, T, YOKE_TRAIN, &place };
    yoke_model *model;
    size_t sum = 0;
    assert_ok(yoke_model_gpt2(g, &model));
    for (int l = 1; l <= 2; l++) {
        int64_t rows, columns, ld;
        for (int part = 0; part < YOKE_B_TO_W; part++) {
            size_t bytes;
            assert_ok(yoke_layer_bytes(yoke_model_layer(model, l), &shape, (enum yoke_part)part, &bytes));
            sum += bytes;
        }
        yoke_layer_output(yoke_model_layer(model, l - 1), &shape, &rows, &columns, &ld);
        sum += (size_t)(rows * ld) * 2;
    }
    assert_ok(yoke_model_destroy(model));
    return sum;
}

/*
 * Yoke's layers keep 32 sbh instead of 34, because there is no dropout, whose two masks take a byte each. The
 * scores, 5 a s / h, are not kept at all, because attention keeps only the log-sum-exp of a row, 4 bytes a
 * head. Norms keep mean and 1 / deviation of each row, 8 bytes each. Both are divided as in the paper.
 */
static void own_layers(void **state)
{
    (void)state;
    const struct yoke_gpt2_config g = { sizeof g, 2, 16, 1024, 512, 256, 1e-5, 0.02 };
    const double s = 512, b = 2, h = 1024, a = 16;
    for (int t = 1; t <= 8; t *= 2) {
        const double plain = s * b * (h * (8 + 24.0 / t) + 16 + 4 * a / t),
                     cut = s * b * (h * 32.0 / t + 16.0 / t + 4 * a / t);
        assert_int_equal(kept_by_block(&g, 2, 512, t, false), (size_t)plain);
        assert_int_equal(kept_by_block(&g, 2, 512, t, true), (size_t)(t == 1 ? plain : cut));
    }
    print_message("a block of 1024 channels, 16 heads, 2 x 512 tokens keeps %.3f sbh (published %.3f)\n",
                  (double)kept_by_block(&g, 2, 512, 1, false) / (s * b * h), 34 + 5 * a * s / h);
}

/* ---- forecasts and remedies ---- */

struct layout {
    int n_ranks, data, pipeline, tensor;
    int64_t batch, micro_batch;
    const char *precision, *schedule, *recompute, *layers;
    int64_t chunks, zero;
};
static const struct layout alone = { .n_ranks = 1, .batch = 8, .micro_batch = 8, .precision = "fp32" };

static yoke_status forecast(const struct layout *l, uint64_t limit, struct yokei_forecast *f)
{
    struct yokei_training t = { .plan = YOKEI_PLAN_INIT,
                                .memory_limit = limit,
                                .micro_batch = l->micro_batch };
    struct yokei_plan *p = &t.plan;
    yoke_device *device;
    assert_ok(yoke_gpt2_preset("nano", &p->model.gpt2));
    p->model.gpt2.n_layer = 4;
    p->batch = l->batch, p->sequence = 64, p->data = l->data, p->pipeline = l->pipeline,
    p->tensor = l->tensor, p->chunks = l->chunks, p->zero = l->zero;
    yokei_text(p->precision, sizeof p->precision, "%s", l->precision);
    yokei_text(p->schedule, sizeof p->schedule, "%s", l->schedule ? l->schedule : "");
    yokei_text(p->recompute, sizeof p->recompute, "%s", l->recompute ? l->recompute : "");
    yokei_text(p->layers, sizeof p->layers, "%s", l->layers ? l->layers : "");
    p->bucket_bytes = 1 << 20;
    assert_ok(yoke_device_open("host", NULL, &device));
    const yoke_status status = yokei_forecast(&t, l->n_ranks, &device, 1,
                                              &(struct yokei_forecast_costs){ 1, 1, 1, 0 }, f);
    assert_ok(yoke_device_close(device));
    yokei_plan_free(p);
    return status;
}

static uint64_t most_of(const struct layout *l)
{
    struct yokei_forecast f;
    size_t most = 0;
    assert_ok(forecast(l, 0, &f));
    for (int r = 0; r < f.n_ranks; r++) most = YOKE_MAX(most, f.memory[r].report.total);
    yokei_forecast_free(&f);
    return most;
}

/*
 * If there is as much memory as `changed` takes, `before` must be refused with these words. With a byte less
 * it must be refused with other words.
 */
static void expect(const struct layout *before, const struct layout *changed, const char *words)
{
    const uint64_t limit = most_of(changed);
    struct yokei_forecast f;
    assert_ok(forecast(before, limit, &f));
    if (f.fits || !strstr(f.why, words))
        fail_msg("with %llu bytes: %s; \"%s\" is expected", (unsigned long long)limit,
                 f.fits ? "it fits" : f.why, words);
    assert_non_null(strstr(f.why, "and all fit"));
    yokei_forecast_free(&f);
    assert_ok(forecast(before, limit - 1, &f));
    if (f.fits || (strstr(f.why, words) && strstr(f.why, "and all fit")))
        fail_msg("with %llu bytes: %s", (unsigned long long)limit - 1, f.why);
    yokei_forecast_free(&f);
    assert_ok(forecast(changed, limit, &f));
    assert_true(f.fits && !f.why[0]);
    yokei_forecast_free(&f);
}

/*
 * Recomputation segment by segment must take less, also if only one micro-batch is alive. "full" must take
 * less than "attention".
 */
static void recomputation(void **state)
{
    (void)state;
    static const struct layout shapes[] = {
        { .n_ranks = 1, .batch = 2, .micro_batch = 2, .precision = "fp32" },
        { .n_ranks = 2, .pipeline = 2, .batch = 8, .micro_batch = 1, .precision = "bf16" },
        { .n_ranks = 2,
          .pipeline = 2,
          .batch = 8,
          .micro_batch = 1,
          .precision = "bf16",
          .schedule = "zb-h1" }
    };
    for (size_t i = 0; i < YOKE_COUNT(shapes); i++) {
        struct layout a = shapes[i], f = shapes[i];
        a.recompute = "attention", f.recompute = "full";
        const uint64_t none = most_of(&shapes[i]), attention = most_of(&a), full = most_of(&f);
        printf("none %llu, attention %llu, full %llu bytes\n", (unsigned long long)none,
               (unsigned long long)attention, (unsigned long long)full);
        assert_true(attention < none);
        assert_true(full < attention);
    }
}

static void remedies(void **state)
{
    (void)state;
    struct layout a = alone, b = alone;
    b.micro_batch = 2;
    expect(&a, &b, "lower the micro-batch from 8 to 2 sequences (--micro-batch 2)");
    a.micro_batch = b.micro_batch = 1;
    b.recompute = "attention";
    expect(&a, &b, "(--recompute attention)");
    b.recompute = "full";
    expect(&a, &b, "(--recompute full)");

    a = (struct layout){ .n_ranks = 4, .pipeline = 4, .batch = 8, .micro_batch = 1, .precision = "fp32" };
    b = a, b.recompute = "attention";
    expect(&a, &b, "compute attention again instead of keeping it (--recompute attention,");
    b.recompute = "full";
    expect(&a, &b, "compute what passes leave behind again instead of keeping it (--recompute full,");
    a.recompute = "full";
    b.precision = "bf16";
    expect(&a, &b, "(--precision bf16)");
    a = (struct layout){
        .n_ranks = 4, .pipeline = 4, .batch = 16, .micro_batch = 4, .precision = "fp32", .schedule = "gpipe"
    };
    b = a, b.micro_batch = 1, b.recompute = "full", b.schedule = "1f1b";
    expect(&a, &b, "(--micro-batch 1 --recompute full --schedule 1f1b)");
    b.precision = "bf16";
    expect(&a, &b, "(--micro-batch 1 --recompute full --schedule 1f1b --precision bf16)");

    a = (struct layout){
        .n_ranks = 2, .pipeline = 2, .batch = 8, .micro_batch = 1, .precision = "fp32", .schedule = "gpipe"
    };
    b = a, b.schedule = "1f1b";
    expect(&a, &b, "by the schedule 1f1b (--schedule 1f1b, now gpipe)");
    a.schedule = "interleaved", a.chunks = 2;
    expect(&a, &b, "(--schedule 1f1b --chunks 1, now interleaved)");
    /* The first stage has the embedding, which is small here. */
    a = b, a.layers = "3,1", a.recompute = "full,full", a.precision = "bf16";
    b = a, b.layers = "2,2";
    expect(&a, &b, "give stage 0 fewer blocks (--layers 2,2)");
}

/*
 * Replicas that divide their optimizer states. Also with slices that follow the memory, if one replica has
 * more other data to hold.
 */
static void divided_states(void **state)
{
    (void)state;
    struct layout a = { .n_ranks = 4,
                        .data = 2,
                        .pipeline = 2,
                        .batch = 8,
                        .micro_batch = 2,
                        .precision = "bf16" },
                  b = a;
    struct yokei_forecast f, equal;
    b.zero = 1;
    expect(&a, &b, "divide the optimizer's moments and masters over the replicas (--zero 1)");

    /* 2 sequences and 1. */
    a = (struct layout){
        .n_ranks = 2, .data = 2, .batch = 3, .micro_batch = 2, .precision = "bf16", .zero = 1
    };
    assert_ok(forecast(&a, 0, &equal));
    const size_t most = equal.memory[0].report.total, least = equal.memory[1].report.total;
    assert_true(least < most
                && equal.memory[0].report.optimizer / 100 == equal.memory[1].report.optimizer / 100);
    assert_ok(forecast(&a, most - (most - least) / 4, &f));
    assert_true(f.fits && f.memory[0].report.optimizer < equal.memory[0].report.optimizer
                && f.memory[1].report.optimizer > equal.memory[1].report.optimizer);
    assert_int_equal(f.memory[0].report.optimizer + f.memory[1].report.optimizer,
                     equal.memory[0].report.optimizer + equal.memory[1].report.optimizer);
    yokei_forecast_free(&f);
    /* The memory that one lacks is all that the other has left, so there is too little. */
    assert_ok(forecast(&a, most - (most - least), &f));
    assert_true(!f.fits);
    yokei_forecast_free(&f);
    yokei_forecast_free(&equal);
}

static void other_ranks(void **state)
{
    (void)state;
    struct layout a = { .n_ranks = 2,
                        .data = 2,
                        .batch = 2,
                        .micro_batch = 1,
                        .precision = "bf16",
                        .recompute = "full" },
                  b = a;
    b.data = 1, b.pipeline = 2;
    expect(&a, &b, "(--pp 2 --tp 1 --dp 1)");
    a = (struct layout){
        .n_ranks = 1, .batch = 1, .micro_batch = 1, .precision = "bf16", .recompute = "full"
    };
    b = a, b.n_ranks = 2, b.pipeline = 2;
    expect(&a, &b, "(--pp 2 --tp 1 --dp 1 on 2 ranks, the added ones with as much memory of their own)");
    a.pipeline = 4, a.n_ranks = 4;
    b = a, b.n_ranks = 8, b.tensor = 2;
    expect(&a, &b, "(--pp 4 --tp 2 --dp 1 on 8 ranks");
    struct yokei_forecast f;
    assert_ok(forecast(&a, 4096, &f));
    assert_non_null(strstr(f.why, "nothing that was tried fits"));
    assert_non_null(strstr(f.why, "still lacks"));
    yokei_forecast_free(&f);
}

/*
 * The parts must add up. Equal ranks must get equal forecasts. Each replica must hold every element of the
 * model once.
 */
static void forecasts(void **state)
{
    (void)state;
    struct yokei_forecast f;
    const struct layout l = { .n_ranks = 8,
                              .data = 2,
                              .pipeline = 2,
                              .tensor = 2,
                              .batch = 8,
                              .micro_batch = 1,
                              .precision = "bf16",
                              .recompute = "full,none" };
    assert_ok(forecast(&l, 0, &f));
    int64_t held = 0;
    for (int r = 0; r < 8; r++) {
        const struct yoke_memory_report *m = &f.memory[r].report;
        assert_int_equal(m->activations,
                         m->stash + m->boundaries + m->received + m->layer_workspace + m->unused);
        assert_int_equal(m->total, m->weights + m->gradients + m->optimizer + m->activations + m->workspace
                                       + m->scratch);
        assert_true(m->received > 0 && m->staging_shared > 0 && m->host > 0);
        assert_true(f.rank[r].at.s == r / 4 && f.rank[r].at.d == r / 2 % 2 && f.rank[r].at.t == r % 2);
        assert_true((f.rank[r].recomputed > 0) == (r < 4));
        assert_true(f.rank[r].samples == 4 && f.rank[r].n_micro_batches == 4);
        if (f.rank[r].at.d == 0) held += f.rank[r].n_elements;
    }
    /* Both ranks of a pair hold the norms, and the first and the last stage hold the tied embedding. */
    assert_true(held > f.n_elements);
    assert_true(f.bubble > 0.15 && f.bubble < 0.4 && f.model_flops > 0 && f.fits);
    yokei_forecast_free(&f);
    assert_fails(YOKE_ECONFIG, "does not fit 3 ranks",
                 forecast(&(struct layout){ .n_ranks = 3, .pipeline = 2, .batch = 3, .precision = "fp32" }, 0,
                          &f));
    assert_fails(
        YOKE_ECONFIG, "none of none",
        forecast(&(struct layout){ .n_ranks = 1, .batch = 3, .precision = "fp32", .recompute = "some" }, 0,
                 &f));
    assert_fails(
        YOKE_ECONFIG, "4 whole numbers",
        forecast(
            &(struct layout){
                .n_ranks = 2, .pipeline = 2, .chunks = 2, .batch = 4, .precision = "fp32", .layers = "2,2" },
            0, &f));
}

/* Ranks that share one memory must fit into it together, although each one fits alone. */
static void one_memory(void **state)
{
    (void)state;
    struct yokei_memory_rank r[3] = { { .have = 100, .pool = 1 },
                                      { .have = 100, .pool = 1, .taken = 5 },
                                      { .have = 100, .pool = 2 } };
    int rank = -1;
    double sum = 0;
    assert_true(yokei_memory_shortage(r, (double[]){ 52, 53, 100 }, 3, &rank, &sum)
                == 0); /* 105 and 105; 100 and 100 */
    assert_true(yokei_memory_shortage(r, (double[]){ 52, 54, 0 }, 3, &rank, &sum) == 1 && rank == 1
                && sum == 106);
    assert_true(yokei_memory_shortage(r, (double[]){ 54, 52, 103 }, 3, &rank, &sum) == 3 && rank == 2
                && sum == 103);
    r[0].is_limited = true; /* this rank has its own limit */
    assert_true(yokei_memory_shortage(r, (double[]){ 99, 54, 50 }, 3, &rank, &sum) == -1 && rank == 0);
    assert_true(yokei_memory_shortage(r, (double[]){ 99, INFINITY, 50 }, 3, &rank, &sum) == INFINITY
                && rank == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_totals), cmocka_unit_test(interleaved_penalty),
        cmocka_unit_test(own_layers),       cmocka_unit_test(recomputation),
        cmocka_unit_test(remedies),         cmocka_unit_test(divided_states),
        cmocka_unit_test(other_ranks),      cmocka_unit_test(forecasts),
        cmocka_unit_test(one_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
