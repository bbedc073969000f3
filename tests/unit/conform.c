/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of the conformance run: options, lines, texts, and seeds. */
#include "conform/trial.h"
#include "tests/conform/coverage.h"
#include "tests/unit/test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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
    return yoke_device_close(device) != YOKE_OK; /* this fails if the run left something open */
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
    assert_true(seen.last.ratio > 0.5
                && seen.last.ratio <= 1); /* one rounding to bf16 comes close to its bound */
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

static void count_line(void *context, const struct conform_line *line)
{
    int *n = context; /* by op and type */
    assert_true(!strcmp(line->op, "add") || !strcmp(line->op, "scale"));
    assert_true(line->dtype == YOKE_F32 || line->dtype == YOKE_BF16);
    n[(line->op[0] == 's') + 2 * (line->dtype == YOKE_BF16)]++;
}

/* Ops and types may be lists. */
static void lists(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    int n[4] = { 0 };
    options.op = "scale,add";
    options.dtype = "bf16,f32";
    options.only_case = 1;
    assert_int_equal(conform_run(device, &options, count_line, n, NULL), YOKE_OK);
    for (int i = 0; i < 4; i++) assert_true(n[i] > 0);
    options.op = "add,norms";
    assert_fails(YOKE_EINVAL, "no op or family is called 'norms'; did you mean 'norm'?",
                 conform_check_options(&options));
    options.op = "add,";
    assert_fails(YOKE_EINVAL, "no op or family is called ''", conform_check_options(&options));
    options.op = "add";
    options.dtype = "f32,f17";
    assert_fails(YOKE_EINVAL, "f17", conform_check_options(&options));
}

static void every_op_has_one_place_and_one_family(void **state)
{
    (void)state;
#define NAME(family, OPS, with) #family,
    static const char *const families[] = { YOKE_FAMILIES(NAME, ) };
#undef NAME
    int taken[YOKE_N_OPS] = { 0 };
    for (int op = 0; op < YOKE_N_OPS; op++) {
        int n = 0;
        const int place = conform_order(yokei_op_names[op]);
        assert_in_range(place, 0, YOKE_N_OPS - 1);
        assert_int_equal(taken[place]++, 0);
        for (size_t i = 0; i < YOKE_COUNT(families); i++)
            n += conform_selected(&(struct conform_options){ .op = families[i] }, (enum yoke_op_id)op);
        assert_int_equal(n, 1);
    }
    assert_true(conform_order("embed_forward") < conform_order("gemm")
                && conform_order("gemm") < conform_order("xent_forward"));
    assert_true(conform_order("xent_backward") < conform_order("layernorm_backward")
                && conform_order("embed_backward") < conform_order("adamw"));
}

/* The sweep of OpenCL runs in parts: together they must name every op. */
static void the_parts_of_the_opencl_sweep_name_every_op(void **state)
{
    (void)state;
    static const char start[] = "tests/conform/conform opencl:0 ";
    const char *folder = getenv("top_srcdir");
    char path[4096], *text, word[64];
    size_t bytes;
    yokei_text(path, sizeof path, "%s/tests/conform/local.mk", folder ? folder : ".");
    assert_int_equal(yokei_file_read(path, 1 << 20, (void **)&text, &bytes), YOKE_OK);
    uint64_t named = 0;
    for (const char *at = text; (at = strstr(at, start));) {
        int taken;
        for (at += sizeof start - 1; *at != '"' && sscanf(at, "%63[a-z_]%n", word, &taken) == 1;
             at += strspn(at, " ")) {
            at += taken;
            for (int op = 0; op < YOKE_N_OPS; op++)
                if (conform_selected(&(struct conform_options){ .op = word }, (enum yoke_op_id)op))
                    named |= UINT64_C(1) << op;
        }
    }
    free(text);
    for (int op = 0; op < YOKE_N_OPS; op++)
        if (!(named >> op & 1))
            fail_msg("%s is in no part of the sweep on opencl:0 in %s", yokei_op_names[op], path);
}

static void note_coverage(void *context, const struct conform_line *line)
{
    coverage_note(context, device, line);
}

static void a_gap_in_a_sweep_is_found(void **state)
{
    (void)state;
    static struct coverage c;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    struct conform_summary summary;
    const uint64_t add = UINT64_C(1) << YOKE_OP_add, scale = UINT64_C(1) << YOKE_OP_scale,
                   adamw = UINT64_C(1) << YOKE_OP_adamw;
    options.op = "add";
    assert_int_equal(conform_run(device, &options, note_coverage, &c, &summary), YOKE_OK);
    assert_int_equal(coverage_gaps(&c, device, add, true, NULL, NULL), 0);
    assert_int_equal(coverage_gaps(&c, device, add | scale, true, NULL, NULL), 3); /* f32, f16, bf16 */
    assert_int_equal(coverage_gaps(&c, device, adamw, true, NULL, NULL), 1);
    c.of[YOKE_OP_add][YOKE_F16][0].n_lines = 2;
    assert_int_equal(coverage_gaps(&c, device, add, true, NULL, NULL), 1);
    c.of[YOKE_OP_add][YOKE_F16][0].n_lines = 1, c.of[YOKE_OP_add][YOKE_F16][0].n_ran = 0;
    assert_int_equal(coverage_gaps(&c, device, add, false, NULL, NULL), 1);
    c.of[YOKE_OP_add][YOKE_F16][0].n_left_out = 1; /* with nothing else run in f16 */
    assert_int_equal(coverage_gaps(&c, device, add, false, NULL, NULL), 1);
}

static void a_case_by_itself_is_the_same_case(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "layernorm_backward";
    options.dtype = "f16";
    options.seed = 3;
    const struct seen all = run(options);
    options.only_case = all.last.case_number;
    const struct seen one = run(options);
    assert_int_equal(one.last.n_cases, 1);
    assert_int_equal(one.last.case_number, all.last.case_number);
    assert_true(one.last.got == all.last.got && one.last.wanted == all.last.wanted
                && one.last.ratio == all.last.ratio);
    char command[256];
    conform_command(&one.last, command, sizeof command);
    options.only_case = 100000;
    assert_int_equal(run(options).last.verdict, CONFORM_SKIP);
    assert_non_null(strstr(command, "yoke verify --device reference --op layernorm_backward --dtype f16"));
    assert_non_null(strstr(command, " --seed 3 --case "));
    options.op = "gemm"; /* with an op and a family, the number of a case counts within the op */
    options.dtype = "f32", options.only_case = 2;
    assert_int_equal(run(options).n, 1);
}

static void the_sweep_goes_on_behind_a_line(void **state)
{
    (void)state;
    struct conform_options options = CONFORM_OPTIONS_INIT;
    options.op = "elementwise";
    const int all = run(options).n;
    struct conform_line after = { .op = "add", .dtype = YOKE_F16, .variant = "" };
    options.after = &after;
    const int rest = run(options).n;
    assert_true(rest > 0 && rest < all);
    options.op = "add";
    assert_int_equal(run(options).n, 2); /* bf16, f64 */
    after.dtype = YOKE_F64;
    assert_int_equal(run(options).n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused_with_the_nearest),
        cmocka_unit_test(a_family_and_a_type_select_lines),
        cmocka_unit_test(a_line_reads_as_documented),
        cmocka_unit_test(a_seed_gives_the_same_run_and_another_seed_another),
        cmocka_unit_test(the_long_sweep_has_more_cases),
        cmocka_unit_test(lists),
        cmocka_unit_test(every_op_has_one_place_and_one_family),
        cmocka_unit_test(the_parts_of_the_opencl_sweep_name_every_op),
        cmocka_unit_test(a_gap_in_a_sweep_is_found),
        cmocka_unit_test(a_case_by_itself_is_the_same_case),
        cmocka_unit_test(the_sweep_goes_on_behind_a_line),
    };
    return cmocka_run_group_tests_name("conform", tests, open_reference, close_reference);
}
