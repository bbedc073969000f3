/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance run's own interface: options, lines, texts, seeds. */
#include "conform/conform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static yoke_device *device;

static int open_reference(void **state)
{
    (void)state;
    return yoke_device_open("reference", NULL, &device) != YOKE_OK;
}

static int close_reference(void **state)
{
    (void)state;
    return yoke_device_close(device) != YOKE_OK; /* nothing of the run is left over */
}

struct seen {
    int n;
    struct conform_line last;
    char text[1024];
};

static void see(void *context, const struct conform_line *line)
{
    struct seen *seen = context;
    seen->n++;
    seen->last = *line;
    conform_text(line, seen->text, sizeof seen->text);
}

static struct seen run(struct conform_options options)
{
    struct seen seen = { 0 };
    struct conform_summary summary = { .n_fail = -1 };
    assert_int_equal(conform_run(device, &options, see, &seen, &summary), YOKE_OK);
    assert_int_equal(summary.n_pass + summary.n_fail + summary.n_skip, seen.n);
    assert_int_equal(summary.n_fail, 0);
    return seen;
}

static void unknown_names_are_refused_with_the_nearest(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    struct conform_summary summary = { .n_pass = -7 };
    options.op = "layernorm_backwards";
    assert_int_equal(conform_run(device, &options, NULL, NULL, &summary), YOKE_EINVAL);
    assert_non_null(strstr(yoke_last_error(), "layernorm_backward'"));
    options.op = NULL;
    options.dtype = "bf17";
    assert_int_equal(conform_run(device, &options, NULL, NULL, &summary), YOKE_EINVAL);
    assert_non_null(strstr(yoke_last_error(), "bf17"));
    options.dtype = NULL;
    options.op = "scale";
    options.variant = "avx3";
    assert_int_equal(conform_run(device, &options, NULL, NULL, &summary), YOKE_EINVAL);
    assert_non_null(strstr(yoke_last_error(), "avx3"));
    assert_int_equal(conform_run(NULL, NULL, NULL, NULL, &summary), YOKE_EINVAL);
    assert_int_equal(summary.n_pass, -7);
}

static void a_family_and_a_type_select_lines(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "elementwise";
    assert_int_equal(run(options).n, 12); /* three ops in four types */
    options.dtype = "bf16";
    assert_int_equal(run(options).n, 3);
    options.op = "add";
    const struct seen seen = run(options);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.last.op, "add");
    assert_int_equal(seen.last.dtype, YOKE_BF16);
}

static void a_line_reads_as_documented(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "layernorm_backward";
    options.dtype = "bf16";
    const struct seen seen = run(options);
    assert_int_equal(strncmp(seen.text, "layernorm_backward bf16 reference", 33), 0);
    assert_non_null(strstr(seen.text, " cases  bound 0."));
    assert_non_null(strstr(seen.text, "ulp "));
    assert_non_null(strstr(seen.text, "worst "));
    assert_string_equal(seen.text + strlen(seen.text) - 4, "PASS");
    assert_true(seen.last.ratio > 0.5 && seen.last.ratio <= 1); /* one rounding to bf16 comes close to its bound */
}

static void a_seed_gives_the_same_run_and_another_seed_another(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "layernorm_forward";
    options.dtype = "f16";
    options.seed = 5;
    const struct seen first = run(options), again = run(options);
    assert_string_equal(first.text, again.text);
    options.seed = 6;
    const struct seen other = run(options);
    assert_string_not_equal(first.text, other.text);
    assert_int_equal(other.last.seed, 6);
}

static void the_long_sweep_has_more_cases(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "scale";
    options.dtype = "f32";
    const int usual = run(options).last.n_cases;
    options.full = true;
    assert_true(run(options).last.n_cases > 2 * usual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(a_family_and_a_type_select_lines),
        cmocka_unit_test(a_line_reads_as_documented),
        cmocka_unit_test(a_seed_gives_the_same_run_and_another_seed_another),
        cmocka_unit_test(the_long_sweep_has_more_cases),
    };
    return cmocka_run_group_tests_name("conform", tests, open_reference, close_reference);
}
