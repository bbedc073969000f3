/* SPDX-License-Identifier: Apache-2.0 */
/* The estimate of the time that a work still takes, with a clock that the test sets. */
#include <math.h>
#include <string.h>

#include "cli/options/progress.h"
#include "core/base/base.h"
#include "tests/unit/test.h"

enum { MOST_PARTS = 1000 };

/* A work: how long each of its parts takes. */
struct work {
    const char *name;
    int n;
    double seconds[MOST_PARTS];
};

/* What the estimates of a work were, looked at ten times a second. */
struct seen {
    double first;                 /* the time of the first estimate; infinite: there was none */
    double most;                  /* the largest estimate over the true time left */
    double most_late, least_late; /* the same, and the smallest, in the second half of the work's time */
    double known_late;            /* the share of the second half in which there was an estimate */
};

static struct seen watch(const struct work *w)
{
    struct cli_estimate e;
    struct seen s = { .first = INFINITY, .least_late = INFINITY };
    double end = 1000, all = 0; /* the clock need not begin at 0 */
    int n_late = 0, n_known = 0;
    for (int i = 0; i < w->n; i++) all += w->seconds[i];
    cli_estimate_begin(&e, 1000);
    int done = 0;
    for (double now = 1000; now < 1000 + all - 1; now += 0.1) {
        while (done < w->n && end + w->seconds[done] <= now) end += w->seconds[done++];
        cli_estimate_look(&e, now, done);
        const double left = cli_estimate_left(&e, now, w->n), truth = 1000 + all - now;
        const bool late = now > 1000 + all / 2;
        n_late += late;
        if (left < 0) continue;
        n_known += late;
        s.first = fmin(s.first, now - 1000);
        s.most = fmax(s.most, left / truth);
        if (truth < 5 || !late) continue;
        s.most_late = fmax(s.most_late, left / truth);
        s.least_late = fmin(s.least_late, left / truth);
    }
    s.known_late = n_late ? (double)n_known / n_late : 0;
    return s;
}

static void works_of_many_kinds(void **state)
{
    (void)state;
    static struct work w;
    const struct {
        const char *name;
        int n, n_first;      /* parts, and how many of them are unlike the others at the start */
        double first, other; /* seconds of each */
        double uneven;       /* the others differ by this share */
        double most;         /* the estimate is never more than this many times the truth */
    } kinds[] = {
        { "steady, short parts", 1000, 0, 0, 0.05, 0, 1.3 },
        { "steady, long parts", 20, 0, 0, 7, 0, 1.5 },
        { "uneven parts", 300, 0, 0, 0.5, 0.9, 2.5 },
        { "a compilation at the start", 400, 1, 40, 0.2, 0, 1.5 },
        { "half was done before", 200, 100, 0, 2, 0, 1.5 },
        { "two parts", 2, 0, 0, 20, 0, 1.5 },
    };
    for (size_t k = 0; k < YOKE_COUNT(kinds); k++) {
        const struct yokei_philox_key key = yokei_philox_named(1, kinds[k].name);
        w.name = kinds[k].name, w.n = kinds[k].n;
        for (int i = 0; i < w.n; i++)
            w.seconds[i] = i < kinds[k].n_first
                               ? kinds[k].first
                               : kinds[k].other
                                     * (1 + kinds[k].uneven * (2 * yokei_uniform(key, (uint64_t)i) - 1));
        const struct seen s = watch(&w);
        print_message("%s: first after %.1f s, at most %.2f of the truth; late %.2f to %.2f, known %.2f\n",
                      w.name, s.first, s.most, s.least_late, s.most_late, s.known_late);
        assert_true(s.first >= 1);
        assert_true(s.most <= kinds[k].most);
        if (kinds[k].n == 2) continue; /* one part says nothing of the other */
        assert_true(s.known_late > 0.8);
        assert_true(s.least_late > 0.5 && s.most_late < 1.6);
    }
}

static void what_is_absurd_has_no_estimate(void **state)
{
    struct cli_estimate e;
    (void)state;
    cli_estimate_begin(&e, 5);
    cli_estimate_look(&e, 60, 0);
    assert_true(cli_estimate_left(&e, 60, 10) < 0); /* nothing is done */
    cli_estimate_look(&e, 61, NAN);
    cli_estimate_look(&e, 61, -3);
    cli_estimate_look(&e, 61, INFINITY);
    assert_true(cli_estimate_left(&e, 61, 10) < 0);
    cli_estimate_look(&e, 62, 1);
    assert_true(cli_estimate_left(&e, 62, 10) < 0); /* one part alone says too little */
    cli_estimate_look(&e, 72, 2);
    assert_true(cli_estimate_left(&e, 72, 10) > 0);
    assert_true(cli_estimate_left(&e, 72, 0) < 0 && cli_estimate_left(&e, 72, NAN) < 0);
    assert_true(cli_estimate_left(&e, 72, INFINITY) < 0 && cli_estimate_left(&e, 72, -4) < 0);
    cli_estimate_look(&e, 512, 9);
    assert_true(cli_estimate_left(&e, 520, 10) > 0);
    assert_true(cli_estimate_left(&e, 1200, 10)
                < 0); /* the last part is overdue, and nobody knows for how long */
    assert_true(cli_estimate_left(&e, 72, 1) == 0);   /* more is done than there is */
    assert_true(cli_estimate_left(&e, 9000, 10) < 0); /* the present part never ends */
    cli_estimate_look(&e, 100, 1);                    /* it goes back: the work began anew */
    assert_true(cli_estimate_left(&e, 110, 10) < 0 && e.begun == 100);
}

static void the_time_left_falls(void **state)
{
    struct cli_estimate e;
    double before = INFINITY;
    (void)state;
    cli_estimate_begin(&e, 0);
    for (int i = 0; i <= 600; i++) { /* a part takes six seconds */
        const double now = 0.1 * i;
        cli_estimate_look(&e, now, floor(now / 6));
        const double left = cli_estimate_left(&e, now, 100);
        if (left < 0) continue;
        assert_true(left <= before + 0.2); /* it never rises while all is steady */
        before = left;
    }
    assert_true(before < 541 && before > 520); /* 90 parts of 6 s are left */
}

static void words_of_a_time(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = { { -1, "" },
                 { NAN, "" },
                 { INFINITY, "" },
                 { 1e30, "" },
                 { 0, "a few seconds left" },
                 { 7.9, "a few seconds left" },
                 { 8, "about 10 s left" },
                 { 26, "about 30 s left" },
                 { 55, "about 55 s left" },
                 { 56, "about 1 min left" },
                 { 170, "about 3 min left" },
                 { 59.4 * 60, "about 59 min left" },
                 { 59.6 * 60, "about 1 h 0 min left" },
                 { 130 * 60, "about 2 h 10 min left" },
                 { 5.4 * 3600, "about 5 h left" },
                 { 72 * 3600, "about 3 days left" } };
    char text[48];
    (void)state;
    for (size_t i = 0; i < YOKE_COUNT(rows); i++) {
        cli_time_left_text(rows[i].seconds, text, sizeof text);
        if (strcmp(text, rows[i].text)) fail_msg("%g s: '%s', not '%s'", rows[i].seconds, text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_of_many_kinds),
        cmocka_unit_test(what_is_absurd_has_no_estimate),
        cmocka_unit_test(the_time_left_falls),
        cmocka_unit_test(words_of_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
