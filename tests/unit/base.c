/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/base: statuses, errors, the log, libraries, topology, waiting, and nearest names. */
#include "tests/unit/test.h"

#include "core/base/base.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

static void every_status_has_texts(void **state)
{
    (void)state;
    for (int s = 0; s < YOKE_N_STATUS; s++) {
        assert_non_null(yoke_status_name((yoke_status)s));
        assert_true(strlen(yoke_status_text((yoke_status)s)) > 0);
        assert_int_equal(yoke_status_exit_code((yoke_status)s) == 0, s == 0);
    }
    assert_string_equal(yoke_status_name((yoke_status)-1), "unknown status");
    assert_int_equal(yoke_status_exit_code((yoke_status)1000), 1);
    /* The codes that scripts rely on. */
    const struct {
        yoke_status s;
        int code;
    } fixed[] = { { YOKE_EINVAL, 2 },    { YOKE_ECONFIG, 10 },    { YOKE_EDATA, 11 },     { YOKE_ENODEV, 12 },
                  { YOKE_ENOMEM, 13 },   { YOKE_EMISMATCH, 14 },  { YOKE_ETIMEOUT, 15 },  { YOKE_EDEAD, 16 },
                  { YOKE_ENUMERIC, 17 }, { YOKE_EREGRESSED, 18 }, { YOKE_EPREEMPTED, 75 } };
    for (size_t i = 0; i < YOKE_COUNT(fixed); i++)
        assert_int_equal(yoke_status_exit_code(fixed[i].s), fixed[i].code);
}

static void *other_thread(void *unused)
{
    (void)unused;
    yoke_fail(YOKE_EIO, "of the other thread");
    return NULL;
}

static void errors_are_per_thread(void **state)
{
    (void)state;
    assert_int_equal(yoke_fail(YOKE_EDATA, "byte %d of %s", 7, "x"), YOKE_EDATA);
    pthread_t thread;
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    assert_string_equal(yoke_last_error(), "byte 7 of x");
    assert_int_equal(yoke_fail_context(YOKE_EDATA, "loading %s", "y"), YOKE_EDATA);
    assert_string_equal(yoke_last_error(), "loading y: byte 7 of x");
    yoke_fail(YOKE_EINVAL, "again: %s", yoke_last_error()); /* the old text as an argument of the new */
    assert_string_equal(yoke_last_error(), "again: loading y: byte 7 of x");
}

static char logged[256];
static void keep(void *context, yoke_log_level level, const char *text)
{
    snprintf(logged, sizeof logged, "%s %d %s", (char *)context, level, text);
}

static void the_log(void **state)
{
    (void)state;
    char context[] = "ctx";
    yoke_log(YOKE_LOG_ERROR, "nobody listens");
    yoke_log_set(keep, context, YOKE_LOG_WARN);
    yoke_log(YOKE_LOG_INFO, "too fine");
    assert_string_equal(logged, "");
    yoke_log(YOKE_LOG_WARN, "n = %d", 3);
    assert_string_equal(logged, "ctx 1 n = 3");
    yoke_log_set(NULL, NULL, YOKE_LOG_DEBUG);
    yoke_log(YOKE_LOG_ERROR, "gone");
    assert_string_equal(logged, "ctx 1 n = 3");
}

static void libraries(void **state)
{
    (void)state;
    char reason[200];
    double (*cosine)(double) = NULL;
    void (*none)(void) = NULL;
    const char *const absent[] = { "libyoke-no-such-library.so.1", NULL }, *const maths[] = {
        "libyoke-no-such-library.so.1", "libm.so.6", NULL
    };
    const struct yokei_symbol good[] = { { "cos", &cosine } },
                              bad[] = { { "cos", &cosine }, { "no_such_symbol", &none } };
    assert_null(yokei_dl_open(absent, good, 1, reason, sizeof reason));
    assert_non_null(strstr(reason, "libyoke-no-such-library"));
    assert_non_null(yokei_dl_open(maths, good, 1, reason, sizeof reason));
    assert_true(cosine(0) == 1.0);
    assert_null(yokei_dl_open(maths, bad, 2, reason, sizeof reason));
    assert_non_null(strstr(reason, "no_such_symbol"));
    assert_null(cosine); /* after a failure no pointer is left */
}

static void nearest_names(void **state)
{
    (void)state;
    const char *const names[] = { "precision", "devices", "budget-seconds", "seed", NULL };
    assert_string_equal(yokei_nearest("precison", names), "precision");
    assert_string_equal(yokei_nearest("sede", names), "seed");
    assert_string_equal(yokei_nearest("DEVICE", names), "devices");
    assert_null(yokei_nearest("zzz", names));
    assert_null(yokei_nearest("", names + 4));
}

static void emulation(void **state)
{
    (void)state;
    static const char *const good[] = { "cuda:9.0", "cuda:12.1", "cuda:7.5" }, *const bad[] = {
        "",          "cuda",      "cuda:",     "cuda:9",    "cuda:0.9", "cuda:9.x",  "cuda:9.00",
        "cuda: 9.0", "cuda:-9.0", "cuda:+9.0", "cuda:9.0 ", "hip:9.0",  "cuda:100.0"
    };
    for (size_t i = 0; i < YOKE_COUNT(good); i++) assert_true(yokei_is_emulation(good[i]));
    for (size_t i = 0; i < YOKE_COUNT(bad); i++) assert_false(yokei_is_emulation(bad[i]));
}

static void topology_and_binding(void **state)
{
    (void)state;
    struct yokei_topology t;
    assert_ok(yokei_topology(&t));
    assert_in_range(t.n_cores, 1, 4096);
    assert_true(t.n_processing_units >= t.n_cores);
    assert_true(t.memory_bytes > 0);
    uint64_t all[YOKEI_UNIT_WORDS], own[YOKEI_UNIT_WORDS];
    assert_ok(yokei_bound_units(all));
    const pid_t child = fork(); /* in a child, because a process cannot undo its binding */
    if (child == 0) {
        int n = 0, n_own = 0, n_stray = 0;
        cpu_set_t set;
        if (yokei_bind(0, t.n_cores, &n) || n != 1) _exit(1);
        if (sched_getaffinity(0, sizeof set, &set) || CPU_COUNT(&set) > t.n_processing_units / t.n_cores)
            _exit(2);
        /* Back to all of them, and to the last core alone. */
        if (yokei_bind_to_units(all, 0, 1, &n) || n != t.n_cores || yokei_bound_units(own)
            || memcmp(own, all, sizeof all) != 0)
            _exit(3);
        if (yokei_bind_to_units(all, t.n_cores - 1, t.n_cores, &n) || n != 1 || yokei_bound_units(own))
            _exit(4);
        for (int w = 0; w < YOKEI_UNIT_WORDS; w++)
            n_own += __builtin_popcountll(own[w]), n_stray += __builtin_popcountll(own[w] & ~all[w]);
        _exit(n_own < 1 || n_own > t.n_processing_units / t.n_cores || n_stray ? 5 : 0);
    }
    int end;
    waitpid(child, &end, 0);
    assert_int_equal(WEXITSTATUS(end), 0);
    assert_fails(YOKE_EINVAL, "slot 2 of 2", yokei_bind(2, 2, NULL));
    assert_fails(YOKE_EINVAL, "slot 2 of 2", yokei_bind_to_units(all, 2, 2, NULL));
}

/* Whatever the numbers, every core is used, slots are of equal size, and cores equally loaded. */
static void test_bind_range(void **unused)
{
    (void)unused;
    for (int n_cores = 1; n_cores <= 9; n_cores++)
        for (int n_slots = 1; n_slots <= 20; n_slots++) {
            int load[9] = { 0 }, least_load = n_slots, most_load = 0, least = n_cores, most = 0;
            for (int i = 0; i < n_slots; i++) {
                int first, end;
                yokei_bind_range(n_cores, i, n_slots, &first, &end);
                assert_true(0 <= first && first < end && end <= n_cores);
                for (int c = first; c < end; c++) load[c]++;
                least = YOKE_MIN(least, end - first);
                most = YOKE_MAX(most, end - first);
            }
            for (int c = 0; c < n_cores; c++) {
                least_load = YOKE_MIN(least_load, load[c]);
                most_load = YOKE_MAX(most_load, load[c]);
            }
            assert_true(least_load >= 1 && most_load - least_load <= 1 && most - least <= 1);
        }
}

static void waiting_backs_off(void **state)
{
    (void)state;
    struct yokei_wait wait;
    yokei_wait_init(&wait, YOKEI_WAIT_AUTO, 2, 2);
    assert_int_equal(wait.policy, YOKEI_WAIT_SPIN);
    yokei_wait_init(&wait, YOKEI_WAIT_AUTO, 3, 2);
    assert_int_equal(wait.policy, YOKEI_WAIT_YIELD);
    /*
     * After idling for a while, a poll sleeps: few polls fit in 30 ms, where spinning would do tens of
     * thousands.
     */
    const uint64_t begin = yokei_now_ns();
    while (yokei_now_ns() - begin < 20000000) yokei_wait_idle(&wait);
    int polls = 0;
    for (const uint64_t from = yokei_now_ns(); yokei_now_ns() - from < 30000000; polls++)
        yokei_wait_idle(&wait);
    assert_in_range(polls, 1, 1500);
    yokei_wait_progress(&wait);
    assert_int_equal(wait.n_idle, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_texts),
        cmocka_unit_test(errors_are_per_thread),
        cmocka_unit_test(the_log),
        cmocka_unit_test(libraries),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(emulation),
        cmocka_unit_test(topology_and_binding),
        cmocka_unit_test(test_bind_range),
        cmocka_unit_test(waiting_backs_off),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
