/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of a run's goal against published values, against a simulation of failures, and against the
 * best interval, which the test finds by bisection. A published value is compared as it is printed: the
 * computed value must round to the same digits.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "core/base/base.h"
#include "train/search/goal.h"

/* Whether x is printed as `printed` with this many digits behind the point. */
#define assert_printed(x, digits, printed)                                                      \
    do {                                                                                        \
        char text_[40];                                                                         \
        yokei_text(text_, sizeof text_, "%.*f", digits, x);                                     \
        if (strcmp(text_, printed)) fail_msg("%s is %s (%.9g), not %s", #x, text_, x, printed); \
    } while (0)

enum { MINUTE = 60, HOUR = 3600 };

static void intervals(void **state)
{
    (void)state;
    /* Daly 2006, captions of figures 3 to 5: checkpoints of 5 minutes. */
    assert_printed(yokei_interval_daly(5 * MINUTE, 24 * HOUR) / MINUTE, 0, "117");
    assert_printed(yokei_interval_daly(5 * MINUTE, 6 * HOUR) / MINUTE, 0, "57");
    assert_printed(yokei_interval_daly(5 * MINUTE, 15 * MINUTE) / MINUTE, 1, "9.1");
    /* Low et al. 2012, "Distributed GraphLab": 64 machines of a year each, 2 minutes, Young. */
    assert_printed(yokei_interval_young(2 * MINUTE, yokei_time_between_failures(1 / 365.25, 64)) / HOUR, 0,
                   "3");
    /* Kokolis et al. 2025, "Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
     * arXiv:2410.21680: 6.50 failures in 1,000 days of a host with 8 devices. */
    assert_printed(yokei_time_between_failures(6.50e-3, 16384 / 8) / HOUR, 1, "1.8");
    assert_printed(yokei_time_between_failures(6.50e-3, 131072 / 8) / HOUR, 2, "0.23");
    /* Grattafiori et al. 2024, "The Llama 3 Herd of Models": 419 failures in 54 days. */
    assert_printed(yokei_time_between_failures(419.0 / 54 / 2048, 2048) / HOUR, 1, "3.1");

    assert_true(yokei_interval_daly_first(5 * MINUTE, 24 * HOUR) == 120 * MINUTE - 5 * MINUTE);
    assert_true(yokei_interval_daly_first(9, 17) == 17 && yokei_interval_daly(35, 17) == 17);
    assert_true(isinf(yokei_interval_daly(9, INFINITY)) && isinf(yokei_interval_daly_first(9, INFINITY))
                && isinf(yokei_interval_young(9, INFINITY)) && isinf(yokei_time_between_failures(0, 9)));
}

/* The derivative of the effective time is 0 where (1 - x) e^(x + s) = 1; x and s in units of `between`. */
static double best_interval(double save)
{
    double low = 0, high = 1;
    for (int i = 0; i < 100; i++) {
        const double x = (low + high) / 2;
        if ((1 - x) * exp(x + save) > 1)
            low = x;
        else
            high = x;
    }
    return low;
}

/*
 * Daly's interval of higher order loses at most 1 part in 1,000 of the best effective time. It is never
 * farther from the best interval than the one of first order. With short checkpoints all three are the same.
 */
static void near_the_best(void **state)
{
    (void)state;
    for (double save = 1e-6; save < 1; save *= 1.5) {
        const double best = best_interval(save), daly = yokei_interval_daly(save, 1),
                     first = yokei_interval_daly_first(save, 1);
        const double most = yokei_effective_time(best, save, 0.1, 1);
        for (double x = 0.5; x < 1.9; x += 0.1) /* the best is the best */
            assert_true(yokei_effective_time(best * x, save, 0.1, 1) <= most * (1 + 1e-12));
        assert_true(yokei_effective_time(daly, save, 0.1, 1) >= 0.999 * most);
        assert_true(fabs(daly - best) <= fabs(first - best) + 1e-12);
        if (save < 1e-5) assert_true(fabs(yokei_interval_young(save, 1) / best - 1) < 2e-3);
    }
}

static double draw_exponential(uint64_t *n)
{
    return -log(yokei_uniform(yokei_philox_named(1, "failures"), (*n)++));
}

/* Run intervals one after the other with failures at random times, and measure the share that trained. */
static double simulated_share(double interval, double save, double restart, int n_intervals, uint64_t *draws)
{
    double now = 0, failure = draw_exponential(draws);
    for (int i = 0; i < n_intervals; i++)
        for (double work = interval + save;; work = restart + interval + save) {
            if (now + work <= failure) {
                now += work;
                break;
            }
            now = failure;
            failure += draw_exponential(draws);
        }
    return n_intervals * interval / now;
}

static void simulated(void **state)
{
    (void)state;
    static const double cases[][3] = { { 0.3, 0.05, 0.02 }, { 0.05, 0.01, 0.1 }, { 1.2, 0.3, 0.5 } };
    uint64_t draws = 0;
    for (size_t i = 0; i < YOKE_COUNT(cases); i++) {
        const double *c = cases[i], expected = yokei_effective_time(c[0], c[1], c[2], 1),
                     found = simulated_share(c[0], c[1], c[2], 200000, &draws);
        print_message("effective time %.4f, simulated %.4f\n", expected, found);
        assert_true(fabs(found / expected - 1) < 0.01); /* about 4 standard deviations of the mean */
    }
    assert_true(yokei_effective_time(90, 10, 5, INFINITY) == 0.9
                && yokei_effective_time(INFINITY, 10, 5, INFINITY) == 1);
}

/*
 * Narayanan et al. 2021, arXiv:2104.04473: table 1, the share of 312 TFLOP/s of an A100, and section 5.1, the
 * days to train by equation 4, 8 T P / (n X).
 */
static void published_utilisation(void **state)
{
    (void)state;
    static const struct {
        double L, h, V, B, s;
        int n;
        double teraflops;
        const char *percent;
    } rows[] = {
        { 24, 2304, 51200, 512, 2048, 32, 137, "44" },
        { 30, 3072, 51200, 512, 2048, 64, 138, "44" },
        { 36, 4096, 51200, 512, 2048, 128, 142, "46" },
        { 40, 6144, 51200, 1024, 2048, 256, 135, "43" },
        { 48, 8192, 51200, 1536, 2048, 512, 138, "44" },
        { 60, 10240, 51200, 1792, 2048, 1024, 140, "45" },
        { 80, 12288, 51200, 2304, 2048, 1536, 148, "47" },
        { 96, 16384, 51200, 2160, 2048, 1920, 155, "50" },
        { 105, 20480, 51200, 2520, 2048, 2520, 163, "52" },
        { 128, 25600, 51200, 3072, 2048, 3072, 163, "52" },
    };
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        const double h = rows[i].h, L = rows[i].L;
        const double flops = 96 * rows[i].B * rows[i].s * L * h * h
                             * (1 + rows[i].s / (6 * h) + rows[i].V / (16 * L * h));
        const double seconds = flops / (rows[i].n * rows[i].teraflops * 1e12);
        assert_printed(100 * yokei_utilisation(flops, seconds, rows[i].n * 312e12), 0, rows[i].percent);
    }
    static const struct {
        double tokens, parameters;
        int n;
        double teraflops;
        const char *days;
    } runs[] = { { 300e9, 175e9, 1024, 140, "34" }, { 450e9, 1008e9, 3072, 163, "84" } };
    for (size_t i = 0; i < YOKE_COUNT(runs); i++) {
        const double tokens_per_step = 1536 * 2048;
        const struct yokei_goal_config config = {
            .step_seconds = 8 * tokens_per_step * runs[i].parameters / (runs[i].n * runs[i].teraflops * 1e12),
            .tokens_per_step = tokens_per_step,
            .between = INFINITY,
            .tokens = runs[i].tokens,
        };
        struct yokei_goal goal;
        yokei_goal_compute(&config, &goal);
        assert_printed(goal.hours / 24, 0, runs[i].days);
    }
    /*
     * Chowdhery et al. 2022, "PaLM", arXiv:2204.02311, appendix B: FLOPs of a token are 6 N + 12 L H Q T.
     * 6,144 TPU v4 of 275 TFLOP/s reach 238.3 thousand tokens/s, and Megatron-Turing NLG on 2,240 A100 65.43.
     */
    assert_printed(
        100 * yokei_utilisation((6 * 540.35e9 + 12.0 * 118 * 48 * 256 * 2048) * 238.3e3, 1, 6144 * 275e12), 1,
        "46.2");
    assert_printed(
        100 * yokei_utilisation((6 * 529.6e9 + 12.0 * 105 * 128 * 160 * 2048) * 65.43e3, 1, 2240 * 312e12), 1,
        "30.2");
}

/*
 * Korthikanti et al. 2022, arXiv:2205.05198, table 5: MFU from the time of an iteration. The time is printed
 * with two digits, so the MFU of all times that are printed like this must include a MFU that is printed.
 */
static void utilisation_of_iterations(void **state)
{
    (void)state;
    static const struct {
        double L, h, B, n, seconds, percent;
    } rows[] = { { 48, 6144, 4, 8, 1.10, 41.5 },
                 { 96, 12288, 64, 64, 13.75, 51.4 },
                 { 105, 20480, 280, 280, 37.83, 56.0 },
                 { 128, 25600, 512, 512, 71.49, 56.3 } };
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        const double h = rows[i].h, L = rows[i].L, s = 2048, V = 51200;
        const double flops = 72 * rows[i].B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
        const double least = 100 * yokei_utilisation(flops, rows[i].seconds + 0.005, rows[i].n * 312e12),
                     most = 100 * yokei_utilisation(flops, rows[i].seconds - 0.005, rows[i].n * 312e12);
        if (least >= rows[i].percent + 0.05 || most < rows[i].percent - 0.05)
            fail_msg("row %zu: %.3f to %.3f, printed %.1f", i, least, most, rows[i].percent);
    }
}

static void goals(void **state)
{
    (void)state;
    struct yokei_goal_config c = { .step_seconds = 10,
                                   .tokens_per_step = 4e6,
                                   .price_per_hour = 50,
                                   .between = 6 * HOUR,
                                   .save = 5 * MINUTE,
                                   .restart = 10 * MINUTE,
                                   .tokens = 1e12 };
    struct yokei_goal g, again;
    yokei_goal_compute(&c, &g);
    assert_int_equal(g.checkpoint_steps, 340); /* 56.7 minutes */
    assert_true(g.interval == 3400 && g.steps == 250000 && g.tokens == 1e12);
    assert_true(g.effective_time == yokei_effective_time(3400, 300, 600, 6 * HOUR));
    assert_true(fabs(g.hours - 250000 * 10.0 / HOUR / g.effective_time) < 1e-9);
    assert_true(g.price == 50 * g.hours && fabs(g.failures - g.hours / 6) < 1e-9);
    /* In so many hours the same tokens are trained, and in a little less a step fewer. */
    c.tokens = 0, c.hours = g.hours * (1 + 1e-12);
    yokei_goal_compute(&c, &again);
    assert_true(again.steps == g.steps && again.checkpoint_steps == g.checkpoint_steps);
    c.hours = g.hours * (1 - 1e-9);
    yokei_goal_compute(&c, &again);
    assert_true(again.steps == g.steps - 1 && again.hours <= c.hours);
    /* Without failures there is one checkpoint, at the end. A long step is the interval. */
    c.between = INFINITY, c.tokens = 1, c.hours = 0;
    yokei_goal_compute(&c, &g);
    assert_true(g.steps == 1 && g.effective_time == 1 && g.checkpoint_steps == 0 && g.failures == 0
                && isinf(g.interval) && g.hours == 10.0 / HOUR);
    c.between = HOUR, c.step_seconds = 2 * HOUR;
    yokei_goal_compute(&c, &g);
    assert_true(g.checkpoint_steps == 1 && g.interval == 2 * HOUR && g.effective_time < 0.3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intervals),
        cmocka_unit_test(near_the_best),
        cmocka_unit_test(simulated),
        cmocka_unit_test(published_utilisation),
        cmocka_unit_test(utilisation_of_iterations),
        cmocka_unit_test(goals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
