/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The diagnosis of planted causes. Each of the 12 causes is planted into 20 random jobs, 20 pairs of causes
 * into 5 jobs each, and 100 jobs are healthy. The tables say what was found.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/base.h"
#include "tests/unit/diagnose_jobs.h"

enum { SEEDS = 20, PAIR_SEEDS = 5, HEALTHY = 100 };

/* YOKE_SEED asks for other jobs. */
static uint64_t offset(void)
{
    const char *text = getenv("YOKE_SEED");
    return text ? 1000003 * strtoull(text, NULL, 10) : 0;
}

/* Make a job from the first seed at or after *seed that can have the causes. */
static void make(uint64_t *seed, const enum yokei_cause_kind *causes, int n, struct job *job)
{
    while (!job_make(*seed, causes, n, job)) ++*seed;
}

static void show_miss(uint64_t seed, const struct job *j, const struct yokei_diagnosis *d)
{
    const struct yokei_facts *f = &j->facts;
    print_message("  seed %llu, %d x %d x %d ranks, planted %.0f %%:", (unsigned long long)seed, f->data,
                  f->pipeline, f->tensor, 100 * j->cost[0]);
    for (int i = 0; i < d->n && i < 3; i++)
        print_message(" %s %.1f %%", yokei_diagnose_cause_names[d->cause[i].kind],
                      100 * d->cause[i].seconds / d->step);
    print_message("%s\n", d->n ? "" : " nothing");
}

static void each_cause_comes_first(void **state)
{
    (void)state;
    int all = 0;
    for (int c = 0; c < YOKEI_N_CAUSES; c++) {
        const enum yokei_cause_kind cause = (enum yokei_cause_kind)c;
        uint64_t seed = offset() + 1000 * (uint64_t)(c + 1);
        const uint64_t first = seed;
        int hits = 0;
        for (int i = 0; i < SEEDS; i++, seed++) {
            struct job j;
            struct yokei_diagnosis d;
            make(&seed, &cause, 1, &j);
            assert_ok(yokei_diagnose(&j.facts, &d));
            const bool hit = d.n && d.cause[0].kind == cause;
            hits += hit;
            if (!hit) show_miss(seed, &j, &d);
            job_free(&j);
        }
        print_message("%-27s %2d of %d first (seeds %llu to %llu)\n", yokei_diagnose_cause_names[c], hits,
                      SEEDS, (unsigned long long)first, (unsigned long long)seed - 1);
        all += hits;
    }
    print_message("%d of %d planted causes come first\n", all, SEEDS * YOKEI_N_CAUSES);
    assert_true(all * 100 >= 95 * SEEDS * YOKEI_N_CAUSES);
}

static void both_of_a_pair_are_named(void **state)
{
    (void)state;
#define P(a, b)                          \
    {                                    \
        YOKEI_CAUSE_##a, YOKEI_CAUSE_##b \
    }
    static const enum yokei_cause_kind pairs[20][2] = {
        P(SLOW_DEVICE, DATA),
        P(SLOW_DEVICE, CHECKPOINT),
        P(SLOW_DEVICE, MICRO_BATCHES),
        P(SLOW_DEVICE, SLOW_LINK),
        P(SLOW_DEVICE, OVERLAP),
        P(NEIGHBOUR, DATA),
        P(NEIGHBOUR, SLOW_LINK),
        P(NEIGHBOUR, SMALL_BUCKETS),
        P(PAGING, CHECKPOINT),
        P(PAGING, DATA),
        P(OVERSUBSCRIBED, CHECKPOINT),
        P(OVERSUBSCRIBED, DATA),
        P(SHARES, DATA),
        P(SHARES, CHECKPOINT),
        P(MICRO_BATCHES, DATA),
        P(SMALL_BUCKETS, CHECKPOINT),
        P(SLOW_LINK, DATA),
        P(OVERLAP, CHECKPOINT),
        P(COMPILATION, SLOW_DEVICE),
        P(DATA, CHECKPOINT),
    };
#undef P
    int first = 0, both = 0;
    for (int p = 0; p < 20; p++) {
        uint64_t seed = offset() + 100000 + 1000 * (uint64_t)p;
        int n_first = 0, n_both = 0;
        for (int i = 0; i < PAIR_SEEDS; i++, seed++) {
            struct job j;
            struct yokei_diagnosis d;
            bool named[YOKEI_N_CAUSES] = { false };
            make(&seed, pairs[p], 2, &j);
            assert_ok(yokei_diagnose(&j.facts, &d));
            for (int k = 0; k < d.n && k < 2; k++) named[d.cause[k].kind] = true;
            const bool is_first = d.n && (d.cause[0].kind == pairs[p][0] || d.cause[0].kind == pairs[p][1]),
                       are_both = named[pairs[p][0]] && named[pairs[p][1]];
            n_first += is_first, n_both += are_both;
            if (!is_first || !are_both) show_miss(seed, &j, &d);
            job_free(&j);
        }
        print_message("%-27s + %-27s %d of %d first, both the first two %d\n",
                      yokei_diagnose_cause_names[pairs[p][0]], yokei_diagnose_cause_names[pairs[p][1]],
                      n_first, PAIR_SEEDS, n_both);
        first += n_first, both += n_both;
    }
    print_message("%d of %d pairs have a planted cause first, %d have both first\n", first, 20 * PAIR_SEEDS,
                  both);
    assert_true(first * 100 >= 95 * 20 * PAIR_SEEDS);
    assert_true(both * 100 >= 90 * 20 * PAIR_SEEDS);
}

static void nothing_is_named_in_healthy_jobs(void **state)
{
    (void)state;
    int clean = 0;
    for (uint64_t i = 1; i <= HEALTHY; i++) {
        const uint64_t seed = offset() + i;
        struct job j;
        struct yokei_diagnosis d;
        assert_true(job_make(seed, NULL, 0, &j));
        assert_ok(yokei_diagnose(&j.facts, &d));
        clean += d.n == 0;
        if (d.n) show_miss(seed, &j, &d);
        job_free(&j);
    }
    print_message("no cause in %d of %d healthy jobs (seeds from %llu on)\n", clean, HEALTHY,
                  (unsigned long long)offset() + 1);
    assert_true(clean * 100 >= 95 * HEALTHY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_comes_first),
        cmocka_unit_test(both_of_a_pair_are_named),
        cmocka_unit_test(nothing_is_named_in_healthy_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
