/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares deals of blocks, heads and sequences with brute force, which tries every possible deal. Sizes are
 * drawn from a seed.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base.h"
#include "parallel/balance.h"

enum { TRIALS = 400, MOST = 8 };

static uint64_t drawn;
static struct yokei_philox_key key;

static double draw(double least, double most) { return least + (most - least) * yokei_uniform(key, drawn++); }
static int draw_int(int least, int most) { return (int)draw(least, most + 0.999999); }

static int begin(void **state)
{
    const char *seed = getenv("YOKE_SEED");
    (void)state;
    key = yokei_philox_named(seed ? (uint64_t)atoll(seed) : 7, "balance");
    drawn = 0;
    return 0;
}

/* Tries every deal of n units to so many parties, at least `least` to each. */
struct every {
    int parties;
    int64_t least, units[MOST];
    void (*see)(struct every *e);
    const double *base, *cost;
    int groups;
    const bool *used;
    double best; /* the best value that `see` has found */
};

static void each_deal(struct every *e, int party, int64_t left)
{
    if (party == e->parties - 1) {
        e->units[party] = left;
        if (left >= e->least) e->see(e);
        return;
    }
    for (int64_t n = e->least; n <= left; n++) {
        e->units[party] = n;
        each_deal(e, party + 1, left - n);
    }
}

static double slowest(const double *base, const double *cost, const int64_t *units, int parties)
{
    double most = 0;
    for (int i = 0; i < parties; i++) most = fmax(most, base[i] + (double)units[i] * cost[i]);
    return most;
}

static void see_slowest(struct every *e)
{
    e->best = fmin(e->best, slowest(e->base, e->cost, e->units, e->parties));
}

static double least_slowest(int64_t n, int parties, const double *base, const double *cost, int64_t least)
{
    struct every e = {
        .parties = parties, .least = least, .see = see_slowest, .base = base, .cost = cost, .best = INFINITY
    };
    each_deal(&e, 0, n);
    return e.best;
}

static void draw_sizes(int n, double *base, double *cost)
{
    for (int i = 0; i < n; i++) {
        base[i] = draw_int(0, 2) ? draw(0, 3) : 0;
        cost[i] = draw_int(0, 3) ? draw(0.1, 4) : 1; /* now and then equal ones */
    }
}

static void deals_are_exact(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        const int parties = draw_int(1, 4);
        const int64_t least = draw_int(0, 2), n = least * parties + draw_int(0, 7);
        double base[MOST], cost[MOST];
        int64_t units[MOST], sum = 0;
        draw_sizes(parties, base, cost);
        const double found = yokei_balance_deal(n, parties, base, cost, least, units),
                     best = least_slowest(n, parties, base, cost, least);
        for (int i = 0; i < parties; i++) {
            assert_true(units[i] >= least);
            sum += units[i];
        }
        assert_int_equal(sum, n);
        assert_true(found == slowest(base, cost, units, parties));
        if (found > best * (1 + 1e-12))
            fail_msg("trial %d: the slowest takes %.9g, brute force has %.9g", trial, found, best);
    }
}

/*
 * Virtual stage v = c * stages + s lies on stage s; the embedding is with the first, the head with the last.
 */
static void stages_are_exact(void **state)
{
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        const int stages = draw_int(1, 4), chunks = draw_int(1, 2);
        const int64_t n = stages * chunks + draw_int(0, 6);
        double base[MOST] = { 0 }, cost[MOST];
        int64_t blocks[MOST * MOST], total[MOST] = { 0 }, sum = 0;
        for (int s = 0; s < stages; s++) cost[s] = draw(0.1, 4);
        base[0] = draw(0, 3);
        base[stages - 1] += draw(0, 6);
        const double pace = yokei_balance_stages(n, 1, stages, chunks, base, cost, blocks);
        for (int v = 0; v < stages * chunks; v++) {
            assert_true(blocks[v] >= 1);
            total[v % stages] += blocks[v];
            sum += blocks[v];
            if (v >= stages)
                assert_true(blocks[v] == blocks[v - stages] || blocks[v] == blocks[v - stages] - 1);
        }
        assert_int_equal(sum, n);
        /*
         * A stage's time depends only on its number of blocks, and any number of at least `chunks` can be
         * divided among its chunks.
         */
        const double best = least_slowest(n, stages, base, cost, chunks);
        assert_true(fabs(slowest(base, cost, total, stages) - best) <= 1e-12 * best);
        assert_true(fabs(pace * best - 1) <= 1e-12);
    }
}

static double paces(const struct every *e)
{
    double sum = 0;
    for (int g = 0; g < e->groups; g++)
        sum += 1 / slowest(e->base + g * e->parties, e->cost + g * e->parties, e->units, e->parties);
    return sum;
}
static void see_paces(struct every *e) { e->best = fmax(e->best, paces(e)); }

/*
 * For several groups the deal is one of a few good ones. It must never be worse than any group's own best
 * deal, and seldom far from the best of all.
 */
static void groups_share_a_deal(void **state)
{
    double worst = 1, sum_of_shares = 0;
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        const int parties = draw_int(2, 3), groups = draw_int(1, 3);
        const int64_t n = parties + draw_int(0, 6);
        double base[MOST * MOST], cost[MOST * MOST];
        int64_t units[MOST], own[MOST];
        draw_sizes(parties * groups, base, cost);
        struct every e = { .parties = parties,
                           .least = 1,
                           .see = see_paces,
                           .base = base,
                           .cost = cost,
                           .groups = groups,
                           .best = 0 };
        const double found = yokei_balance_groups(n, groups, parties, base, cost, 1, units);
        each_deal(&e, 0, n);
        memcpy(e.units, units, sizeof units);
        assert_true(found == paces(&e));
        for (int g = 0; g < groups; g++) {
            yokei_balance_deal(n, parties, base + g * parties, cost + g * parties, 1, own);
            memcpy(e.units, own, sizeof own);
            assert_true(found >= paces(&e));
        }
        if (groups == 1) assert_true(found >= e.best * (1 - 1e-12));
        worst = fmin(worst, found / e.best);
        sum_of_shares += found / e.best;
    }
    print_message("of the best pace: %.3f in the mean, at least %.3f\n", sum_of_shares / TRIALS, worst);
    assert_true(sum_of_shares / TRIALS > 0.97);
}

/*
 * One replica has two equal stages. The second stage of the other replica is 40 times slower. The layers must
 * not be cut for that stage.
 */
static void one_slow_stage_does_not_cut_all(void **state)
{
    (void)state;
    const double base[4] = { 0 }, cost[4] = { 1, 1, 1, 40 };
    int64_t blocks[2];
    yokei_balance_stages(4, 2, 2, 1, base, cost, blocks);
    assert_int_equal(blocks[0], 2);
    assert_int_equal(blocks[1], 2);
}

/* ---- replicas ---- */

struct summing {
    int n, asked;
    double each, more[MOST]; /* a sum over k replicas takes each * k, plus more[d] for each member d */
};

static yoke_status sums(void *context, const bool *used, double *seconds_out)
{
    struct summing *s = context;
    *seconds_out = 0;
    int n = 0;
    for (int d = 0; d < s->n; d++) {
        n += used[d];
        *seconds_out += used[d] ? s->each + s->more[d] : 0;
    }
    s->asked++;
    assert_true(n > 1); /* alone there is nothing to sum */
    return YOKE_OK;
}

static void see_used(struct every *e)
{
    double most = 0;
    for (int d = 0; d < e->parties; d++) {
        if ((e->units[d] > 0) != e->used[d]) return;
        if (e->used[d]) most = fmax(most, e->base[d] + (double)e->units[d] * e->cost[d]);
    }
    e->best = fmin(e->best, most);
}

/* The best step over every set of all but the slowest replicas, and every deal to it. */
static double best_step(struct summing *s, int64_t batch, const double *fixed, const double *cost)
{
    bool used[MOST];
    double best = INFINITY;
    for (int d = 0; d < s->n; d++) used[d] = true;
    for (int n = s->n; n > 0; n--) {
        struct every e = { .parties = s->n,
                           .least = 0,
                           .see = see_used,
                           .base = fixed,
                           .cost = cost,
                           .used = used,
                           .best = INFINITY };
        double summing = 0;
        each_deal(&e, 0, batch);
        if (n > 1) sums(s, used, &summing);
        best = fmin(best, e.best + summing);
        int slowest_one = -1;
        for (int d = 0; d < s->n; d++)
            if (used[d] && (slowest_one < 0 || cost[d] >= cost[slowest_one])) slowest_one = d;
        used[slowest_one] = false;
    }
    return best;
}

/*
 * The time of a step with these shares. It also yields how much longer than the best it may be, because
 * replicas that were left out must be worth their cost.
 */
static double step_of(struct summing *s, const double *fixed, const double *cost, const int64_t *shares,
                      double *margin_out)
{
    double most = 0, summing = 0, all = 0, chosen = 0;
    bool used[MOST];
    int n = 0;
    for (int d = 0; d < s->n; d++) {
        used[d] = shares[d] > 0;
        n += used[d];
        all += 1 / cost[d];
        chosen += used[d] ? 1 / cost[d] : 0;
        if (used[d]) most = fmax(most, fixed[d] + (double)shares[d] * cost[d]);
    }
    if (n > 1) sums(s, used, &summing);
    *margin_out = 1 + YOKEI_WORTH * (all / chosen - 1) + 1e-12;
    return most + summing;
}

static void replicas_are_chosen(void **state)
{
    int dropped = 0;
    (void)state;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct summing s = { .n = draw_int(1, 4), .each = draw_int(0, 1) ? 0 : draw(0, 1) };
        const int64_t batch = draw_int(1, 9);
        double fixed[MOST] = { 0 }, cost[MOST], seconds = 0, without = 0;
        int64_t shares[MOST], sum = 0;
        for (int d = 0; d < s.n; d++) {
            cost[d] = draw_int(0, 2) ? draw(0.5, 2) : draw(1, 30);
            fixed[d] = draw(0, 0.2) * cost[d];
        }
        assert_ok(yokei_balance_replicas(s.n, batch, fixed, cost, sums, &s, shares, &seconds));
        assert_true(s.asked <= s.n);
        for (int d = 0; d < s.n; d++) {
            assert_true(shares[d] >= 0);
            sum += shares[d];
            dropped += shares[d] == 0;
        }
        assert_int_equal(sum, batch);
        double margin;
        const double own = step_of(&s, fixed, cost, shares, &margin),
                     best = best_step(&s, batch, fixed, cost);
        assert_true(fabs(own - seconds) <= 1e-12 * own);
        if (seconds > best * margin)
            fail_msg("trial %d: a step takes %.9g, brute force has %.9g", trial, seconds, best);
        /*
         * One more replica, slower than all others and costly to sum with. A step must never be slower than
         * without it, apart from the allowance for worth.
         */
        cost[s.n] = 0;
        for (int d = 0; d < s.n; d++) cost[s.n] = fmax(cost[s.n], cost[d]);
        cost[s.n] *= draw(1, 20);
        s.more[s.n] = draw(0, 2);
        without = seconds;
        s.n++;
        assert_ok(yokei_balance_replicas(s.n, batch, fixed, cost, sums, &s, shares, &seconds));
        step_of(&s, fixed, cost, shares, &margin);
        assert_true(seconds <= without * margin);
    }
    assert_true(dropped > TRIALS / 4); /* otherwise the draws show nothing */
}

/*
 * A replica that is twenty times slower helps almost nothing. In whole sequences the step takes the same time
 * with it and without it. The sums cost almost nothing, or one per cent.
 */
static void little_help_is_no_help(void **state)
{
    (void)state;
    const double fixed[3] = { 0 }, cost[3] = { 1, 0.995, 12 };
    struct summing s = { .n = 3, .each = 1e-9 };
    int64_t shares[3];
    double seconds;
    assert_ok(yokei_balance_replicas(3, 32, fixed, cost, sums, &s, shares, &seconds));
    assert_int_equal(shares[2], 0);
    const double equal[3] = { 1, 1, 1 };
    assert_ok(yokei_balance_replicas(3, 32, fixed, equal, sums, &s, shares, &seconds)); /* 11:11:10 */
    assert_int_equal(shares[2], 10);
}

static yoke_status no_sums(void *context, const bool *used, double *seconds_out)
{
    (void)context, (void)used, (void)seconds_out;
    return yoke_fail(YOKE_EDEAD, "planted");
}

static void errors_of_sums_are_passed_on(void **state)
{
    const double fixed[2] = { 0, 0 }, cost[2] = { 1, 1 };
    int64_t shares[2];
    double seconds;
    (void)state;
    assert_fails(YOKE_EDEAD, "planted",
                 yokei_balance_replicas(2, 4, fixed, cost, no_sums, NULL, shares, &seconds));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(deals_are_exact, begin),     cmocka_unit_test_setup(stages_are_exact, begin),
        cmocka_unit_test_setup(groups_share_a_deal, begin), cmocka_unit_test(one_slow_stage_does_not_cut_all),
        cmocka_unit_test_setup(replicas_are_chosen, begin), cmocka_unit_test(little_help_is_no_help),
        cmocka_unit_test(errors_of_sums_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
