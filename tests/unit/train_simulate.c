/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the simulator with published figures (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", tables 5
 * and 9) and with closed formulas.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "parallel/simulate.h"

static void simulate(const struct yokei_pipeline *shape, const struct yokei_costs *costs,
                     struct yokei_simulated *simulated)
{
    struct yokei_schedule s;
    assert_ok(yokei_schedule_pipeline(shape, &s));
    assert_ok(yokei_schedule_check(&s, shape));
    assert_ok(yokei_simulate(&s, costs, simulated));
    yokei_schedule_free(&s);
}

static void simulate_equal(struct yokei_pipeline shape, double F, double B, double W, double latency,
                           struct yokei_simulated *simulated)
{
    struct yokei_costs costs;
    assert_ok(yokei_costs_equal(shape.n_stages, YOKE_MAX(shape.n_chunks, 1), F, B, W, latency, &costs));
    simulate(&shape, &costs, simulated);
    yokei_costs_free(&costs);
}

static double bubble(enum yokei_pipeline_kind kind, int p, int v, int m, double F, double B, double W,
                     double latency)
{
    struct yokei_simulated simulated;
    simulate_equal(
        (struct yokei_pipeline){ .kind = kind, .n_stages = p, .n_chunks = v, .n_micro_batches = m }, F, B, W,
        latency, &simulated);
    const double result = simulated.bubble;
    yokei_simulated_free(&simulated);
    return result;
}

static void published(void **state)
{
    (void)state;
    static const struct {
        int p, m, v;
        double F, B, W, latency, one_f_one_b, interleaved, zb_h1;
    } rows[] = {
        { 8, 24, 3, 18.522, 18.086, 9.337, 0.601, .2431, .1055, .1585 }, /* 1.5 B parameters */
        { 8, 32, 3, 18.513, 18.086, 9.331, 0.626, .1985, .0818, .1242 },
        { 8, 64, 3, 18.546, 18.097, 9.321, 0.762, .1240, .0443, .0674 },
        { 8, 24, 4, 29.718, 29.444, 19.927, 0.527, .2347, .0808, .1323 }, /* 6.2 B */
        { 8, 32, 4, 29.802, 29.428, 19.530, 0.577, .1898, .0628, .1045 },
        { 8, 64, 4, 29.935, 29.621, 19.388, 0.535, .1091, .0320, .0554 },
    };
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        const double b[] = { bubble(YOKEI_PIPELINE_1F1B, rows[i].p, 1, rows[i].m, rows[i].F, rows[i].B,
                                    rows[i].W, rows[i].latency),
                             bubble(YOKEI_PIPELINE_INTERLEAVED, rows[i].p, rows[i].v, rows[i].m, rows[i].F,
                                    rows[i].B, rows[i].W, rows[i].latency),
                             bubble(YOKEI_PIPELINE_ZB_H1, rows[i].p, 1, rows[i].m, rows[i].F, rows[i].B,
                                    rows[i].W, rows[i].latency) };
        print_message("p %d m %d: 1f1b %.4f (%.4f), interleaved %.4f (%.4f), zb-h1 %.4f (%.4f)\n", rows[i].p,
                      rows[i].m, b[0], rows[i].one_f_one_b, b[1], rows[i].interleaved, b[2], rows[i].zb_h1);
        assert_int_equal(lround(b[0] * 1e4), lround(rows[i].one_f_one_b * 1e4));
        assert_int_equal(lround(b[2] * 1e4), lround(rows[i].zb_h1 * 1e4));
        assert_true(fabs(b[1] / rows[i].interleaved - 1) < 0.05);
    }
}

static void closed_forms(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 20; m += 3) {
            const double idle = (double)(p - 1) / (m + p - 1);
            assert_true(fabs(bubble(YOKEI_PIPELINE_GPIPE, p, 1, m, 2, 3, 1, 0) - idle) < 1e-12);
            assert_true(fabs(bubble(YOKEI_PIPELINE_NAIVE, p, 1, m, 2, 3, 1, 0) - (double)(p - 1) / p)
                        < 1e-12);
            /*
             * With at least as many micro-batches as stages, 1F1B waits as long as GPipe. ZB-H1 waits (p - 1)
             * (F + B - W). Both are checked with F = B = W.
             */
            if (m >= p) assert_true(fabs(bubble(YOKEI_PIPELINE_1F1B, p, 1, m, 1, 1, 1, 0) - idle) < 1e-12);
            if (m >= 2 * p)
                assert_true(
                    fabs(bubble(YOKEI_PIPELINE_ZB_H1, p, 1, m, 1, 1, 1, 0) - (p - 1.0) / (3 * m + p - 1))
                    < 1e-12);
            /* Interleaved waits for the time of (p - 1) / v stages. */
            if (p > 1 && m % p == 0)
                assert_true(fabs(bubble(YOKEI_PIPELINE_INTERLEAVED, p, 3, m, 1, 1, 1, 0)
                                 - (p - 1.0) / (3 * m + p - 1))
                            < 1e-12);
        }
}

/*
 * Eight devices share the layers, with one micro-batch at a time. Each is busy for an eighth of the time, and
 * never two at once.
 */
static void naive_is_one_at_a_time(void **state)
{
    (void)state;
    struct yokei_simulated t;
    simulate_equal(
        (struct yokei_pipeline){ .kind = YOKEI_PIPELINE_NAIVE, .n_stages = 8, .n_micro_batches = 4 }, 1, 1, 1,
        0, &t);
    assert_true(t.total == 8 * 4 * 3);
    for (int s = 0; s < 8; s++)
        assert_true(t.stage[s].busy == 12 && t.stage[s].busy / t.total == 0.125 && t.stage[s].peak == 1);
    yokei_simulated_free(&t);
    /* 63 are 10 %; fewer than 10 % idle take 64 micro-batches. */
    assert_true(bubble(YOKEI_PIPELINE_GPIPE, 8, 1, 62, 1, 1, 1, 0) > 0.1);
    assert_true(bubble(YOKEI_PIPELINE_GPIPE, 8, 1, 64, 1, 1, 1, 0) < 0.1);
}

/*
 * A single stage never waits. Its times are sums in different orders, and their rounding must not make a
 * bubble below 0.
 */
static void rounding_makes_no_bubble(void **state)
{
    (void)state;
    int n_exceeding = 0;
    for (int i = 0; i < 1000; i++) {
        const struct yokei_pipeline shape = { .kind = YOKEI_PIPELINE_1F1B,
                                              .n_stages = 1,
                                              .n_micro_batches = 1 + i % 9 };
        struct yokei_costs costs;
        struct yokei_simulated simulated;
        assert_ok(yokei_costs_equal(1, 1, 1e-3 + i * 1.37e-5, 2.1e-3 + i * 0.91e-5, 0.7e-3 + i * 0.53e-5, 0,
                                    &costs));
        costs.once = calloc(1, sizeof *costs.once);
        assert_non_null(costs.once);
        costs.once->begin = 0.3e-3 + i * 0.77e-5;
        simulate(&shape, &costs, &simulated);
        assert_true(simulated.bubble >= 0 && simulated.bubble < 1e-12);
        assert_true(simulated.stage[0].idle >= 0 && simulated.stage[0].idle < 1e-12);
        n_exceeding += simulated.stage[0].useful > simulated.longest;
        yokei_simulated_free(&simulated);
        yokei_costs_free(&costs);
    }
    assert_true(n_exceeding > 0); /* otherwise the case that this test is about did not occur */
}

static void peaks(void **state)
{
    (void)state;
    for (int p = 2; p <= 6; p++)
        for (int m = 1; m <= 13; m++)
            for (int kind = 0; kind < YOKEI_N_PIPELINES; kind++) {
                const bool has_chunks = yokei_pipeline_has_chunks((enum yokei_pipeline_kind)kind);
                struct yokei_simulated t;
                if (has_chunks && m % p) continue;
                simulate_equal((struct yokei_pipeline){ .kind = (enum yokei_pipeline_kind)kind,
                                                        .n_stages = p,
                                                        .n_chunks = has_chunks ? 2 : 1,
                                                        .n_micro_batches = m },
                               1, 1, 1, 0, &t);
                for (int s = 0; s < p; s++) {
                    const double half = (2.0 * (p - 1 - s) + p + 1)
                                        / 2; /* interleaved: chunks are halves of a stage */
                    const double expected[] = { [YOKEI_PIPELINE_NAIVE] = 1,
                                                [YOKEI_PIPELINE_GPIPE] = m,
                                                [YOKEI_PIPELINE_1F1B] = YOKE_MIN(m, p - s),
                                                [YOKEI_PIPELINE_INTERLEAVED] = YOKE_MIN(m, half),
                                                [YOKEI_PIPELINE_ZB_H1] = YOKE_MIN(m, p) };
                    if (t.stage[s].peak != expected[kind])
                        fail_msg("%s, %d stages, %d micro-batches, stage %d holds %g, not %g",
                                 yokei_pipeline_names[kind], p, m, s, t.stage[s].peak, expected[kind]);
                }
                yokei_simulated_free(&t);
            }
}

/*
 * A stage that recomputes keeps inputs until R, and takes another forward pass. Memory is freed after B and
 * after W.
 */
static void recomputation(void **state)
{
    (void)state;
    const bool first[] = { true, false };
    struct yokei_costs costs;
    struct yokei_simulated t;
    assert_ok(yokei_costs_equal(2, 1, 1, 1, 1, 0, &costs));
    for (int s = 0; s < 2; s++)
        costs.chunk[s] = (struct yokei_chunk_costs){ 1, 1, 1, 1, .until_b = 30, .until_w = 10, .input = 2 };
    simulate(
        &(struct yokei_pipeline){
            .kind = YOKEI_PIPELINE_GPIPE, .n_stages = 2, .n_micro_batches = 3, .recompute = first },
        &costs, &t);
    assert_true(t.stage[0].peak == 3 * 2 + 40 && t.stage[1].peak == 3 * 40);
    assert_true(t.stage[0].busy == 12 && t.stage[0].useful == 9 && t.stage[1].busy == 9);
    assert_true(fabs(t.bubble - (1 - 9 / t.longest)) < 1e-12);
    yokei_simulated_free(&t);
    simulate(&(struct yokei_pipeline){ .kind = YOKEI_PIPELINE_ZB_H1, .n_stages = 2, .n_micro_batches = 3 },
             &costs, &t);
    /* W 0 is delayed, so its part of memory stays while F 1 runs. */
    assert_true(t.stage[0].peak == 2 * 40 && t.stage[1].peak == 40 + 10);
    yokei_simulated_free(&t);
    yokei_costs_free(&costs);
}

static void run_text(const char *text, const struct yokei_costs *costs, struct yokei_simulated *t)
{
    struct yokei_schedule s;
    assert_ok(yokei_schedule_parse(text, "s.csv", &s));
    assert_ok(yokei_simulate(&s, costs, t));
    yokei_schedule_free(&s);
}

/*
 * Two messages: latencies overlap, but bytes do not. Sums run beside computation, and all stages meet in
 * AGREE.
 */
static void messages(void **state)
{
    (void)state;
    struct yokei_costs costs;
    struct yokei_simulated t;
    assert_ok(yokei_costs_equal(2, 1, 1, 1, 1, 0.5, &costs));
    const char *text = "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,REDUCE0,REDUCE1,TIED,AGREE,STEP\n"
                       "RA0,RA1,F0,F1,B0,SG0,W0,B1,SG1,W1,REDUCE0,TIED,AGREE,STEP\n";
    run_text(text, &costs, &t);
    assert_true(t.stage[1].span[2].start == 1.5 && t.stage[1].span[3].start == 2.5); /* F0, F1 */
    assert_true(t.stage[0].span[5].start == 5 && t.stage[0].span[8].start == 7);     /* B0 4.5 + 0.5, B1 */
    yokei_simulated_free(&t);

    costs.hop[0] = (struct yokei_hop){ 0.5, 30, 10 }; /* 3 s each on the channel */
    costs.reduce = 2, costs.tied = 4, costs.step = 1;
    run_text(text, &costs, &t);
    assert_true(t.stage[0].span[1].start == 1 && t.stage[0].span[1].end == 4 && t.stage[0].span[3].start == 4
                && t.stage[0].span[3].end == 7);
    assert_true(t.stage[1].span[2].start == 4.5 && t.stage[1].span[3].start == 7.5);
    /* B0: 9.5 + 3.5; SG1 leaves at 12.5. */
    assert_true(t.stage[0].span[5].start == 13 && t.stage[0].span[8].start == 16 && t.stage[0].last == 18);
    /* REDUCE1; TIED. */
    assert_true(t.stage[0].span[11].end == 22 && t.stage[1].span[11].start == 22
                && t.stage[1].span[11].end == 26);
    assert_true(t.stage[1].span[12].end == 26 && t.total == 27);
    yokei_simulated_free(&t);

    costs.hop[0] = (struct yokei_hop){ 0 };
    costs.reduce = costs.tied = costs.step = 0;
    costs.waits_for_receiver = true; /* SA1 is taken when stage 1 has done F0 */
    run_text(
        "F0,SA0,F1,SA1,F2,SA2,RG0,B0,W0,RG1,B1,W1,RG2,B2,W2,AGREE,STEP\nRA0,F0,RA1,F1,RA2,F2,B0,SG0,W0,B1,SG1,W1,B2,SG2,W2,AGREE,STEP\n",
        &costs, &t);
    assert_true(t.stage[0].span[3].start == 2 && t.stage[0].span[4].start == 2);
    yokei_simulated_free(&t);
    costs.chunk[1].F = 5;
    run_text(
        "F0,SA0,F1,SA1,F2,SA2,RG0,B0,W0,RG1,B1,W1,RG2,B2,W2,AGREE,STEP\nRA0,F0,RA1,F1,RA2,F2,B0,SG0,W0,B1,SG1,W1,B2,SG2,W2,AGREE,STEP\n",
        &costs, &t);
    assert_true(t.stage[0].span[3].start == 6 && t.stage[0].span[4].start == 6); /* 1 + 5 */
    yokei_simulated_free(&t);
    yokei_costs_free(&costs);
}

/*
 * Two replicas wait for each other at each sum, whichever comes last. Work that a line does once per step
 * must be in its place.
 */
static void replicas(void **state)
{
    (void)state;
    const char *text = "F0,B0,W0,REDUCE0,REDUCE1,AGREE,STEP\nF0,B0,W0,REDUCE0,REDUCE1,AGREE,STEP\n";
    struct yokei_chunk_costs chunk[2] = { { 1, 1, 2, 0, .until_w = 1 }, { 2, 2, 3, 0, .until_w = 1 } };
    struct yokei_sum_costs sum[4] = { { 3, 1 }, { 1, 0 }, { 3, 2 }, { 1, 0 } };
    struct yokei_step_costs once[2] = { { 0.5, 0.25, 2 }, { 0.5, 0.5, 1 } };
    struct yokei_hop hop[2] = { { 0 } };
    struct yokei_costs costs = { .n_stages = 1,
                                 .n_chunks = 1,
                                 .n_replicas = 2,
                                 .chunk = chunk,
                                 .hop = hop,
                                 .n_sums = 2,
                                 .sum = sum,
                                 .once = once,
                                 .agree = 0.125 };
    struct yokei_simulated t;
    run_text(text, &costs, &t);
    /*
     * W ends at 4.5 and 7.5. Bucket 0 is complete 1 and 2 before these times. The second replica completes it
     * last, at 5.5.
     */
    assert_true(t.stage[0].span[2].end == 4.5 && t.stage[1].span[2].end == 7.5);
    for (int r = 0; r < 2; r++) {
        assert_true(t.stage[r].span[3].start == 5.5 && t.stage[r].span[3].end == 8.5);
        assert_true(t.stage[r].span[4].start == 8.5 && t.stage[r].span[4].end == 9.5);
        assert_true(t.stage[r].span[5].start == 10
                    && t.stage[r].span[5].end == 10.125); /* 9.5 and the slower norms */
    }
    assert_true(t.stage[0].span[6].end == 12.125 && t.stage[1].span[6].end == 11.125 && t.total == 12.125);
    yokei_simulated_free(&t);

    /*
     * Whether the bucket is complete or not, nothing is computed during the sum. So the sum is as if it came
     * after W.
     */
    costs.sums_block = true;
    run_text(text, &costs, &t);
    for (int r = 0; r < 2; r++)
        assert_true(t.stage[r].span[3].start == 7.5 && t.stage[r].span[4].end == 11.5);
    yokei_simulated_free(&t);

    struct yokei_schedule s;
    assert_ok(yokei_schedule_parse("F0,B0,W0,AGREE,STEP\n", "s.csv", &s));
    assert_int_equal(yokei_simulate(&s, &costs, &t), YOKE_ECONFIG); /* a line is missing */
    yokei_schedule_free(&s);
}

/*
 * If the receiver takes the data, a message begins when both ends are posted, and computation does not wait
 * for it.
 */
static void receivers_take(void **state)
{
    (void)state;
    const char *text =
        "F0,SA0,F1,SA1,RG0,B0,W0,RG1,B1,W1,AGREE,STEP\nRA0,F0,RA1,F1,B0,SG0,W0,B1,SG1,W1,AGREE,STEP\n";
    struct yokei_costs costs;
    struct yokei_simulated t;
    assert_ok(yokei_costs_equal(2, 1, 1, 1, 1, 0, &costs));
    costs.chunk[1].F = 4;
    costs.hop[0] = (struct yokei_hop){ 0, 0.5, 1 };
    costs.receiver_takes = true;
    run_text(text, &costs, &t);
    assert_true(t.stage[0].span[2].start == 1 && t.stage[0].span[2].end == 2); /* F1 goes on */
    assert_true(t.stage[0].span[1].start == 1 && t.stage[0].span[1].end == 1.5);
    assert_true(t.stage[0].span[3].start == 5.5
                && t.stage[0].span[3].end == 6); /* SA1: its receive is posted behind F0 */
    assert_true(t.stage[1].span[3].start == 6);
    yokei_simulated_free(&t);
    yokei_costs_free(&costs);
}

/* Every kind of schedule must be valid and end, for any shape, also if sends are not buffered. */
static void all_kinds_end(void **state)
{
    (void)state;
    int n = 0;
    for (int p = 1; p <= 9; p++)
        for (int m = 0; m <= 3 * p; m++)
            for (int v = 1; v <= 4; v++)
                for (int kind = 0; kind < YOKEI_N_PIPELINES; kind++) {
                    const bool has_chunks = yokei_pipeline_has_chunks((enum yokei_pipeline_kind)kind),
                               all[9] = { true, true, true, true, true, true, true, true, true };
                    const int buckets[9] = { 2, 0, 1, 3, 1, 1, 1, 1, 1 };
                    const struct yokei_pipeline shape = { .kind = (enum yokei_pipeline_kind)kind,
                                                          .n_stages = p,
                                                          .n_chunks = v,
                                                          .n_micro_batches = m,
                                                          .n_buckets = buckets,
                                                          .recompute = m % 2 ? all : NULL,
                                                          .tied = p > 1 && m % 3 };
                    struct yokei_schedule s;
                    if ((v > 1 && (!has_chunks || p == 1)) || (has_chunks && p > 1 && (v == 1 || m % p)))
                        continue;
                    assert_ok(yokei_schedule_pipeline(&shape, &s));
                    assert_ok(yokei_schedule_check(&s, &shape));
                    yokei_schedule_free(&s);
                    n++;
                }
    assert_true(n > 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published),
        cmocka_unit_test(closed_forms),
        cmocka_unit_test(naive_is_one_at_a_time),
        cmocka_unit_test(peaks),
        cmocka_unit_test(rounding_makes_no_bubble),
        cmocka_unit_test(recomputation),
        cmocka_unit_test(messages),
        cmocka_unit_test(replicas),
        cmocka_unit_test(receivers_take),
        cmocka_unit_test(all_kinds_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
