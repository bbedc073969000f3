/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Yoke's own plans beside published tables: parameters, bytes of model states with and without ZeRO, bytes
 * of activations, and bubbles. The plans are those that a run uses, at the published sizes; nothing is
 * allocated. A published number must be printed as it is printed there. Where Yoke keeps more or less than
 * the formula, the test has the difference as a formula of its own, and the bytes must be equal.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <yoke/train.h>

#include "core/base/base.h"
#include "parallel/simulate.h"
#include "train/trainer/planned.h"

/* Whether x is printed as `printed` with this many digits behind the point. */
#define assert_printed(x, digits, printed)                                                      \
    do {                                                                                        \
        char text_[40];                                                                         \
        yokei_text(text_, sizeof text_, "%.*f", digits, x);                                     \
        if (strcmp(text_, printed)) fail_msg("%s is %s (%.9g), not %s", #x, text_, x, printed); \
    } while (0)

#define GIB (1024.0 * 1024 * 1024)

static yoke_device *host;

static int open_host(void **state)
{
    (void)state;
    return yoke_device_open("host", NULL, &host) != YOKE_OK;
}
static int close_host(void **state)
{
    (void)state;
    return yoke_device_close(host) != YOKE_OK;
}

static void plan_rank(const yoke_model *model, const struct yoke_trainer_config *config, int rank,
                      int n_ranks, struct yokei_planned *planned)
{
    struct yokei_planned_ranks known = { 0 };
    assert_ok(yokei_planned_numbers(&known, model, host, config, rank, n_ranks, planned));
    yokei_planned_free(&known);
}

static int64_t state_bytes(const yoke_model *model, yoke_dtype precision, int d, int zero)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    struct yokei_planned planned;
    c.precision = precision, c.sequence = 64, c.micro_batch = 1, c.data = c.batch = d, c.zero = zero;
    plan_rank(model, &c, d - 1, d, &planned);
    const struct yoke_memory_report *r = &planned.report;
    return (int64_t)(r->weights + r->gradients + r->optimizer);
}

/* ---- parameters ---- */

/*
 * Narayanan et al. 2021, arXiv:2104.04473, table 1 and equation 2: 12 L h^2 (1 + 13 / (12 h) + (V + s) /
 * (12 L h)). Two vectors are missing in the formula: those of the last norm.
 */
static void parameters_of_gpt(void **state)
{
    (void)state;
    static const struct {
        int64_t L, h, a;
        const char *billions;
    } rows[] = { { 24, 2304, 24, "1.7" },      { 30, 3072, 32, "3.6" },     { 36, 4096, 32, "7.5" },
                 { 40, 6144, 48, "18.4" },     { 48, 8192, 64, "39.1" },    { 60, 10240, 80, "76.1" },
                 { 80, 12288, 96, "145.6" },   { 96, 16384, 128, "310.1" }, { 105, 20480, 128, "529.6" },
                 { 128, 25600, 160, "1008.0" } };
    const int64_t V = 51200, s = 2048;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        const int64_t L = rows[i].L, h = rows[i].h;
        const struct yoke_gpt2_config g = { sizeof g, L, rows[i].a, h, s, V, 1e-5, 0.02 };
        yoke_model *model;
        assert_ok(yoke_model_gpt2(&g, &model));
        const int64_t n = yoke_model_n_elements(model), formula = 12 * L * h * h + 13 * L * h + (V + s) * h;
        assert_int_equal(n, formula + 2 * h);
        assert_printed((double)n / 1e9, 1, rows[i].billions);
        assert_ok(yoke_model_destroy(model));
    }
}

/* The counts that Meta, Mistral AI and Alibaba publish with their models. */
static void parameters_of_llama(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t h, f, L, a, kv, V;
        bool tied, bias;
        int64_t parameters;
    } rows[] = {
        { "Llama 2 7B", 4096, 11008, 32, 32, 32, 32000, false, false, 6738415616 },
        { "Llama 2 13B", 5120, 13824, 40, 40, 40, 32000, false, false, 13015864320 },
        { "Llama 2 70B", 8192, 28672, 80, 64, 8, 32000, false, false, 68976648192 },
        { "Llama 3 8B", 4096, 14336, 32, 32, 8, 128256, false, false, 8030261248 },
        { "Llama 3 70B", 8192, 28672, 80, 64, 8, 128256, false, false, 70553706496 },
        { "Llama 3.1 405B", 16384, 53248, 126, 128, 8, 128256, false, false, 405853388800 },
        { "Llama 3.2 1B", 2048, 8192, 16, 32, 8, 128256, true, false, 1235814400 },
        { "TinyLlama", 2048, 5632, 22, 32, 4, 32000, false, false, 1100048384 },
        { "Mistral 7B", 4096, 14336, 32, 32, 8, 32000, false, false, 7241732096 },
        { "Qwen2 7B", 3584, 18944, 28, 28, 4, 152064, false, true, 7615616512 },
        { "Qwen2.5 0.5B", 896, 4864, 24, 14, 2, 151936, true, true, 494032768 },
    };
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        struct yoke_llama_config c = YOKE_LLAMA_CONFIG_INIT;
        yoke_model *model;
        c.hidden_size = rows[i].h, c.intermediate_size = rows[i].f, c.num_hidden_layers = rows[i].L;
        c.num_attention_heads = rows[i].a, c.num_key_value_heads = rows[i].kv, c.vocab_size = rows[i].V;
        c.tie_word_embeddings = rows[i].tied, c.qkv_bias = rows[i].bias;
        assert_ok(yoke_model_llama(&c, &model));
        if (yoke_model_n_elements(model) != rows[i].parameters)
            fail_msg("%s has %lld parameters, not %lld", rows[i].name,
                     (long long)yoke_model_n_elements(model), (long long)rows[i].parameters);
        /* 18 bytes of each parameter in a run in bf16, and 16 of norms and biases, which have no copy */
        const int64_t v = (2 * rows[i].L + 1) * rows[i].h
                          + rows[i].bias * rows[i].L * (rows[i].a + 2 * rows[i].kv) * (rows[i].h / rows[i].a);
        assert_int_equal(state_bytes(model, YOKE_BF16, 1, 0), 18 * rows[i].parameters - 2 * v);
        assert_ok(yoke_model_destroy(model));
    }
}

/* ---- model states ---- */

/*
 * Rajbhandari et al. 2020, "ZeRO", arXiv:1910.02054, table 1: GB of model states of each device with d
 * devices. The table has sizes of 10^9 bytes, rounded to three digits; from 100 on it cuts them off.
 */
static const struct {
    double billions;
    int d;
    const char *os, *os_g, *os_g_p; /* optimizer states divided; gradients too; parameters too */
} zero_table[] = {
    { 7.5, 1, "120", "120", "120" },        { 7.5, 4, "52.5", "41.3", "30" },
    { 7.5, 16, "35.6", "21.6", "7.5" },     { 7.5, 64, "31.4", "16.6", "1.88" },
    { 7.5, 256, "30.4", "15.4", "0.47" },   { 7.5, 1024, "30.1", "15.1", "0.12" },
    { 128, 1, "2048", "2048", "2048" },     { 128, 4, "896", "704", "512" },
    { 128, 16, "608", "368", "128" },       { 128, 64, "536", "284", "32" },
    { 128, 256, "518", "263", "8" },        { 128, 1024, "513", "257", "2" },
    { 1000, 1, "16000", "16000", "16000" }, { 1000, 4, "7000", "5500", "4000" },
    { 1000, 16, "4750", "2875", "1000" },   { 1000, 64, "4187", "2218", "250" },
    { 1000, 256, "4046", "2054", "62.5" },  { 1000, 1024, "4011", "2013", "15.6" },
};

static void assert_in_table(double gigabytes, const char *printed)
{
    char text[40];
    const char *point = strchr(printed, '.');
    const int digits = point ? (int)strlen(point + 1) : 0;
    /* an exact half such as 41.25 is rounded up there */
    yokei_text(text, sizeof text, "%.*f", digits, gigabytes >= 100 ? floor(gigabytes) : gigabytes + 1e-9);
    if (strcmp(text, printed)) fail_msg("%.6g GB, not %s", gigabytes, printed);
}

/*
 * Yoke keeps 16-bit copies of the matrices (2 bytes), f32 gradients (4), f32 masters (4) and two moments
 * (8). With --zero 1 the replicas divide masters and moments. That is the paper's P_os, 4 P + 12 P / d,
 * with two differences: gradients are f32 (2 P more), and vectors, such as biases, have no 16-bit copy, so
 * each replica has their f32 values in place of a copy and a part of the masters (2 v - 4 v / d more).
 */
static void zero_states(void **state)
{
    (void)state;
    const int64_t L = 36, h = 4096, V = 51200, s = 2048; /* 7.5 billion */
    const struct yoke_gpt2_config g = { sizeof g, L, 32, h, s, V, 1e-5, 0.02 };
    yoke_model *model;
    for (size_t i = 0; i < YOKE_COUNT(zero_table); i++) {
        const double P = zero_table[i].billions, d = zero_table[i].d;
        assert_in_table(4 * P + 12 * P / d, zero_table[i].os);
        assert_in_table(2 * P + 14 * P / d, zero_table[i].os_g);
        assert_in_table(16 * P / d, zero_table[i].os_g_p);
    }
    assert_ok(yoke_model_gpt2(&g, &model));
    const int64_t P = yoke_model_n_elements(model), v = 13 * L * h + 2 * h;
    for (int d = 1; d <= 64; d *= 4) {
        const int64_t paper = 4 * P + 12 * P / d;
        assert_int_equal(P % d + v % d, 0);
        assert_int_equal(state_bytes(model, YOKE_BF16, d, d > 1),
                         d > 1 ? paper + 2 * P + 2 * v - 4 * v / d : 18 * P - 2 * v);
        assert_int_equal(state_bytes(model, YOKE_F16, d, 0), 18 * P - 2 * v);
        /*
         * Megatron-LM's distributed optimizer (docs/user-guide/features/dist_optimizer.md): 18 bytes of a
         * parameter without it and 6 + 12 / d with it in bf16, 16 and 8 + 8 / d in f32.
         */
        assert_int_equal(state_bytes(model, YOKE_F32, d, 0), 16 * P);
        assert_int_equal(state_bytes(model, YOKE_F32, d, 1), 8 * P + 8 * P / d);
    }
    assert_ok(yoke_model_destroy(model));
}

/* ---- activations ---- */

/*
 * Korthikanti et al. 2022, arXiv:2205.05198: 16-bit activations with s = 2048 and 8 tensor ranks. The last
 * two are GiB of the first stage: 18 bytes for each of 12 L h^2 / (p t) parameters, and the activations
 * with sequence parallelism and selective recomputation, which keeps no scores: 34 s b h / t of each layer.
 */
static const struct published {
    int64_t L, h, a;
    int p, v, m, b;
    const char *states, *activations;
} published[] = { { 48, 6144, 64, 1, 1, 1, 4, "45.56", "9.56" },
                  { 96, 12288, 96, 8, 3, 64, 1, "45.56", "12.35" },
                  { 105, 20480, 128, 35, 3, 280, 1, "31.64", "23.08" },
                  { 128, 25600, 160, 64, 1, 512, 1, "32.96", "26.56" } };

/*
 * Yoke's attention never keeps scores, so its plan without recomputation is the paper's with selective
 * recomputation, with the differences below. Each of them is exact.
 *  - Each layer and micro-batch: no dropout, whose two masks have 2 s b h / t bytes. The attention keeps a
 *    log-sum-exp of each row and head, 4 s b a / t. Two norms keep mean and 1 / deviation, 16 s b / t.
 *  - While the backward pass runs: the incoming and the outgoing gradient, 4 s b h / t, and the workspace of
 *    the layer, which the plan counts apart. The MLP passes to its W the gradient of its first product,
 *    8 s b h / t, the output's gradient of all rows, 2 s b h, and the sums of its norm's gradients, 8 h. With
 *    chunks the stage also has the next input from the last stage, 2 s b h / t.
 *  - The states: the first stage has V / t + s rows of embeddings, and each layer has biases and norms, which
 *    have no 16-bit copy. The tensor ranks divide some of the biases.
 */
static void activations(void **state)
{
    (void)state;
    const int64_t s = 2048, t = 8, V = 51200;
    for (size_t i = 0; i < YOKE_COUNT(published); i++) {
        const struct published *w = &published[i];
        const struct yoke_gpt2_config g = { sizeof g, w->L, w->a, w->h, s, V, 1e-5, 0.02 };
        struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
        struct yokei_planned planned;
        yoke_model *model;
        c.precision = YOKE_BF16, c.sequence = s, c.micro_batch = w->b, c.batch = (int64_t)w->m * w->b;
        c.data = 1, c.pipeline = w->p, c.tensor = (int)t, c.sequence_parallel = true, c.chunks = w->v;
        assert_ok(yoke_model_gpt2(&g, &model));
        plan_rank(model, &c, 0, (int)(w->p * t), &planned);
        const struct yoke_memory_report *r = &planned.report;

        const int64_t sb = s * w->b, sbh = sb * w->h;
        /* layers and micro-batches that the first stage holds at once, in units of a layer */
        const int64_t held = w->L / w->p * w->p + (w->v > 1 ? w->L / (w->p * w->v) * (w->p - 1) : 0);
        const int64_t paper = held * 34 * sbh / t,
                      own = paper - held * (2 * sbh - 16 * sb - 4 * sb * w->a) / t;
        const int64_t backward = (4 + 8 + (w->v > 1 ? 2 : 0)) * sbh / t + 2 * sbh + 8 * w->h;
        assert_printed((double)paper / GIB, 2, w->activations);
        assert_int_equal(r->stash + r->boundaries + r->received, own + backward);

        const int64_t blocks = 12 * w->L * w->h * w->h / (w->p * t), layers = w->L / w->p;
        const int64_t vectors = layers * (7 * w->h / t + 6 * w->h) + (w->p == 1 ? 2 * w->h : 0);
        assert_printed((double)blocks * 18 / GIB, 2, w->states);
        assert_int_equal(r->weights + r->gradients + r->optimizer,
                         18 * (blocks + V * w->h / t + s * w->h) + 16 * vectors);
        assert_ok(yoke_model_destroy(model));
    }
}

/* ---- activations by schedule ---- */

enum { STAGES = 4, MICRO_BATCHES = 8 };

/*
 * The memory of a stage by the number of layers that it holds. Qi et al. 2023, arXiv:2401.10241, table 2:
 * GPipe holds all m micro-batches, 1F1B p of them on its first stage and one less on each later one, and
 * ZB-H1 at most p. Interleaved holds a share (p - 1) / (p v) more than p (Narayanan et al. 2021). With full
 * recomputation each layer keeps its input alone, 2 s b h, and one layer at a time has the rest.
 */
static void schedules(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *recompute;
        int chunks;
        int layers[STAGES]; /* that a stage holds; 0: not compared; below 0: the most */
    } rows[] = {
        { "gpipe", "none", 1, { 16, 16, 16, 0 } },     { "1f1b", "none", 1, { 8, 6, 4, 2 } },
        { "interleaved", "none", 2, { 11, 9, 7, 5 } }, { "zb-h1", "none", 1, { 8, -8, -8, -8 } },
        { "gpipe", "full", 1, { 0, 1, 1, 0 } },        { "interleaved", "full", 2, { 1, 1, 1, 0 } },
    };
    const int64_t h = 1024, sb = 2 * 512, sbh = sb * h, a = 16;
    const struct yoke_gpt2_config g = { sizeof g, 8, a, h, 512, 256, 1e-5, 0.02 };
    /* what a layer keeps in its stashes: 34 s b h without masks and without the inputs of its halves */
    const int64_t layer = 28 * sbh + 16 * sb + 4 * sb * a, backward = 8 * sbh + 8 * h;
    yoke_model *model;
    assert_ok(yoke_model_gpt2(&g, &model));
    for (size_t i = 0; i < YOKE_COUNT(rows); i++)
        for (int stage = 0; stage < STAGES; stage++) {
            struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
            struct yokei_planned planned;
            c.precision = YOKE_BF16, c.sequence = 512, c.micro_batch = 2, c.batch = 2 * MICRO_BATCHES;
            c.data = 1, c.pipeline = STAGES, c.pipeline_kind = rows[i].kind, c.chunks = rows[i].chunks;
            c.recompute = rows[i].recompute;
            plan_rank(model, &c, stage, STAGES, &planned);
            const int64_t stash = (int64_t)planned.report.stash - backward;
            const int layers = rows[i].layers[stage];
            if (layers > 0 && stash != layers * layer)
                fail_msg("%s, %s, stage %d holds %.6f layers, not %d", rows[i].kind, rows[i].recompute, stage,
                         (double)stash / (double)layer, layers);
            if (layers < 0) assert_true(stash > 0 && stash <= -layers * layer);
            /* 1F1B: the inputs of attention and MLP of each layer, and two gradients */
            if (!strcmp(rows[i].kind, "1f1b"))
                assert_int_equal(planned.report.boundaries + planned.report.received,
                                 2 * sbh * (2 * layers + 2));
            /* the inputs of the layers of all micro-batches, and three buffers of the layer that runs */
            if (layers == 1 && !strcmp(rows[i].kind, "gpipe"))
                assert_int_equal(planned.report.boundaries + planned.report.received,
                                 2 * sbh * (2 * MICRO_BATCHES + 3));
        }
    assert_ok(yoke_model_destroy(model));
}

/* ---- bubbles ---- */

static double longest(enum yokei_pipeline_kind kind, int p, int v, int m, double F, double B, double W)
{
    const struct yokei_pipeline shape = { .kind = kind, .n_stages = p, .n_chunks = v, .n_micro_batches = m };
    struct yokei_schedule schedule;
    struct yokei_simulated simulated;
    struct yokei_costs costs;
    assert_ok(yokei_schedule_pipeline(&shape, &schedule));
    assert_ok(yokei_costs_equal(p, v, F, B, W, 0, &costs));
    assert_ok(yokei_simulate(&schedule, &costs, &simulated));
    const double result = simulated.longest;
    yokei_simulated_free(&simulated);
    yokei_costs_free(&costs);
    yokei_schedule_free(&schedule);
    return result;
}

/*
 * The bubble as a time: the longest stage without its own passes. Qi et al. 2023, table 2: 1F1B waits (p -
 * 1) (F + B + W), and ZB-H1 (p - 1) (F + B - W). Narayanan et al. 2021, section 2.2: the time relative to
 * the passes is (p - 1) / m, and (p - 1) / (v m) with v chunks. The times are those of table 9 of Qi et al.
 */
static void bubbles(void **state)
{
    (void)state;
    static const double times[][3] = { { 18.522, 18.086, 9.337 },  { 18.513, 18.086, 9.331 },
                                       { 18.546, 18.097, 9.321 },  { 29.718, 29.444, 19.927 },
                                       { 29.802, 29.428, 19.530 }, { 29.935, 29.621, 19.388 } };
    for (size_t i = 0; i < YOKE_COUNT(times); i++)
        for (int p = 1; p <= 8; p++)
            for (int m = 2 * p; m <= 64; m += 3 * p) {
                const double F = times[i][0], B = times[i][1], W = times[i][2], passes = m * (F + B + W);
                assert_true(fabs(longest(YOKEI_PIPELINE_GPIPE, p, 1, m, F, B, W) / passes - 1 - (p - 1.0) / m)
                            < 1e-12);
                assert_true(
                    fabs(longest(YOKEI_PIPELINE_1F1B, p, 1, m, F, B, W) - passes - (p - 1) * (F + B + W))
                    < 1e-9);
                assert_true(
                    fabs(longest(YOKEI_PIPELINE_ZB_H1, p, 1, m, F, B, W) - passes - (p - 1) * (F + B - W))
                    < 1e-9);
                for (int v = 2; v <= 4 && p > 1; v++)
                    assert_true(fabs(longest(YOKEI_PIPELINE_INTERLEAVED, p, v, m, F, B, W) / passes - 1
                                     - (p - 1.0) / (v * m))
                                < 1e-12);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_gpt), cmocka_unit_test(parameters_of_llama),
        cmocka_unit_test(zero_states),       cmocka_unit_test(activations),
        cmocka_unit_test(schedules),         cmocka_unit_test(bubbles),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
