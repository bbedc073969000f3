/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of yoke verify if something goes wrong: an op that is wrong, kills its process, hangs, or runs
 * on a device that dies; a kernel that does not compile; a missing device. Each time the other ops are still
 * verified, the report shows the right first difference, its command repeats that difference, and the JSON
 * has everything.
 */
#include "backends/gpu/driver.h"
#include "cli/devices/verify.h"
#include "core/backend.h"
#include "core/base/base.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- errors that are planted in the child ---- */

static const struct yoke_backend *sound;
static int n_calls;

static yoke_status add_wrong(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_add_args *a = call->args;
    YOKE_TRY(sound->ops[call->op]->run(stream, call));
    if (a->n > 2 && a->dtype == YOKE_F32) ((float *)a->z)[2] += 1;
    return YOKE_OK;
}

static yoke_status add_segfaults(yoke_stream *stream, const struct yokei_call *call)
{
    const struct yoke_add_args *a = call->args;
    if (a->dtype == YOKE_F16 && ++n_calls > 3) {
        signal(SIGSEGV, SIG_DFL); /* cmocka's handler must not run in child processes */
        raise(SIGSEGV);
    }
    return sound->ops[call->op]->run(stream, call);
}

static yoke_status scale_hangs(yoke_stream *stream, const struct yokei_call *call)
{
    (void)stream, (void)call;
    for (int woken = 0; woken < 1 << 30; woken++) pause();
    return YOKE_OK;
}

static yoke_status device_lost(yoke_stream *stream, const struct yokei_call *call)
{
    if (++n_calls > 4) return yoke_fail(YOKE_EBACKEND, "the device fell off the bus");
    return sound->ops[call->op]->run(stream, call);
}

#define PLANT(op, function)                           \
    static void plant_##function(yoke_device *device) \
    {                                                 \
        static struct yoke_op wrong;                  \
        static struct yoke_backend backend;           \
        sound = device->backend;                      \
        backend = *sound;                             \
        wrong = *sound->ops[YOKE_OP_##op];            \
        wrong.run = function;                         \
        backend.ops[YOKE_OP_##op] = &wrong;           \
        device->backend = &backend;                   \
    }
PLANT(add, add_wrong)
PLANT(add, add_segfaults)
PLANT(scale, scale_hangs)
PLANT(add, device_lost)

static void die_at_once(yoke_device *device) { (void)device, abort(); }

static yoke_status build_with_an_error(yoke_device *device, const struct yokei_gpu_source *source,
                                       void **program_out)
{
    extern const struct yokei_gpu_driver yokei_opencl_driver;
    struct yokei_gpu_source broken = *source;
    char *text = malloc(strlen(source->text) + 64);
    if (!text) return yoke_fail(YOKE_ENOMEM, "no memory");
    strcpy(text, source->text);
    if (!strcmp(source->name, "elementwise")) strcat(text, "\nno_such_type planted;\n");
    broken.text = text;
    const yoke_status status = yokei_opencl_driver.build(device, &broken, program_out);
    free(text);
    return status;
}

static void plant_compile_error(yoke_device *device)
{
    static struct yokei_gpu_driver driver;
    driver = *yokei_gpu(device)->driver;
    driver.build = build_with_an_error;
    yokei_gpu(device)->driver = &driver;
    device->cache_dir[0] = '\0';
}

/* ---- running ---- */

struct seen {
    struct verify verify;
    yoke_status status;
    json_t *report;
    json_t *lines;
};

static void keep(void *context, const struct conform_line *line)
{
    json_t *o = verify_line_json(line);
    assert_non_null(o);
    json_array_append_new(context, o);
}

static struct seen run(const char *spec, const char *op, const char *dtype, void (*opened)(yoke_device *))
{
    struct seen s = { .lines = json_array(),
                      .verify = { .spec = spec,
                                  .options = CONFORM_OPTIONS_INIT,
                                  .hang_s = 120,
                                  .opened = opened,
                                  .callback = keep } };
    s.verify.options.op = op;
    s.verify.options.dtype = dtype;
    if (opened == plant_scale_hangs) s.verify.options.variant = "generic", s.verify.hang_s = 4;
    s.verify.context = s.lines;
    s.status = verify_sweep(&s.verify);
    return s;
}

/* Write the document and read it again. */
static void write_report(struct seen *s)
{
    json_t *root = verify_json(&s->verify, s->status, yoke_last_error(), s->lines);
    assert_non_null(root);
    char *text = json_dumps(root, 0);
    json_decref(root);
    assert_non_null(text);
    s->report = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    assert_non_null(s->report);
    assert_int_equal(json_array_size(json_object_get(s->report, "lines")),
                     s->verify.summary.n_pass + s->verify.summary.n_fail + s->verify.summary.n_skip
                         + s->verify.summary.n_left_out);
}

static const char *text_of(const struct seen *s, const char *object, const char *name)
{
    const char *text = json_string_value(
        json_object_get(object ? json_object_get(s->report, object) : s->report, name));
    return text ? text : "";
}

static void a_wrong_op_is_named_with_its_case_element_and_command(void **state)
{
    (void)state;
    struct seen s = run("host", "elementwise", NULL, plant_add_wrong);
    write_report(&s);
    assert_int_equal(s.status, YOKE_OK);
    assert_int_equal(s.verify.n_crashes, 0);
    assert_string_equal(text_of(&s, NULL, "verdict"), "fail");
    assert_string_equal(text_of(&s, "first", "op"), "add");
    assert_string_equal(text_of(&s, "first", "dtype"), "f32");
    const json_t *first = json_object_get(s.report, "first"), *element = json_object_get(first, "element");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(element, "index"), 2)), 2);
    const double got = json_real_value(json_object_get(element, "got")),
                 wanted = json_real_value(json_object_get(element, "wanted"));
    assert_true(fabs(got - wanted - 1) < 1e-5);
    assert_true(json_real_value(json_object_get(element, "ratio")) > 1);
    char command[256];
    snprintf(command, sizeof command,
             "yoke verify --device host --op add --dtype f32 --variant %s --seed 1 --case %d",
             text_of(&s, "first", "variant"), (int)json_integer_value(json_object_get(first, "case")));
    assert_string_equal(text_of(&s, "first", "repeat"), command);
    assert_true(s.verify.summary.n_pass > 0); /* the other types and ops */
    assert_true(*text_of(&s, "tuning", "from") && *text_of(&s, "device", "driver")
                && *text_of(&s, "host", "kernel") && *text_of(&s, "build", "compiler"));
    json_decref(s.report);
}

static void an_op_that_kills_its_process_is_one_line(void **state)
{
    (void)state;
    struct seen s = run("host", "elementwise", NULL, plant_add_segfaults),
                sane = run("host", "elementwise", NULL, NULL);
    write_report(&s);
    assert_int_equal(s.status, YOKE_OK);
    assert_int_equal(json_array_size(json_object_get(s.report, "lines")), json_array_size(sane.lines));
    assert_int_equal(s.verify.n_crashes,
                     s.verify.summary.n_fail); /* add in f16; each variant runs in its own child process */
    assert_true(s.verify.summary.n_fail >= 1
                && s.verify.summary.n_pass + s.verify.summary.n_fail == sane.verify.summary.n_pass);
    assert_string_equal(text_of(&s, "first", "op"), "add");
    assert_string_equal(text_of(&s, "first", "dtype"), "f16");
    assert_non_null(strstr(text_of(&s, "first", "reason"), "killed by signal 11"));
    assert_true(json_integer_value(json_object_get(json_object_get(s.report, "first"), "case")) >= 1);
    json_decref(s.report);
    json_decref(sane.lines);
}

static void an_op_that_hangs_is_one_line(void **state)
{
    (void)state;
    struct seen s = run("host", "scale", "f32", plant_scale_hangs);
    write_report(&s);
    assert_int_equal(s.status, YOKE_OK);
    assert_int_equal(s.verify.summary.n_fail, 1);
    assert_int_equal(s.verify.n_crashes, 1);
    assert_non_null(strstr(text_of(&s, "first", "reason"), "--hang-seconds"));
    json_decref(s.report);
}

static void a_device_that_dies_fails_line_by_line_with_its_own_words(void **state)
{
    (void)state;
    struct seen s = run("host", "elementwise", "bf16", plant_device_lost);
    write_report(&s);
    assert_int_equal(s.status, YOKE_OK);
    assert_string_equal(text_of(&s, "first", "op"), "add");
    assert_string_equal(text_of(&s, "first", "status"), "YOKE_EBACKEND");
    assert_non_null(strstr(text_of(&s, "first", "reason"), "fell off the bus"));
    assert_true(json_is_null(json_object_get(json_object_get(s.report, "first"), "element")));
    assert_true(s.verify.summary.n_pass > 0); /* dropout and scale pass */
    json_decref(s.report);
}

static void a_device_that_kills_its_process_at_the_start_is_an_error_and_a_report(void **state)
{
    (void)state;
    struct seen s = run("host", "add", NULL, die_at_once);
    assert_int_equal(s.status, YOKE_EBACKEND);
    assert_non_null(strstr(yoke_last_error(), "killed by signal 6"));
    write_report(&s);
    assert_string_equal(text_of(&s, NULL, "verdict"), "error");
    assert_string_equal(text_of(&s, "error", "status"), "YOKE_EBACKEND");
    json_decref(s.report);
}

static void a_device_that_is_not_there_is_an_error_and_a_report(void **state)
{
    (void)state;
    struct seen s = run("hots", NULL, NULL, NULL);
    assert_int_equal(s.status, YOKE_ENODEV);
    assert_non_null(strstr(yoke_last_error(), "did you mean 'host'"));
    write_report(&s);
    assert_string_equal(text_of(&s, "error", "status"), "YOKE_ENODEV");
    assert_true(json_is_false(json_object_get(json_object_get(s.report, "device"), "opened")));
    json_decref(s.report);
}

static void a_kernel_that_does_not_compile_fails_with_the_compilers_words(void **state)
{
    (void)state;
    struct seen s = run("opencl:0", "elementwise", "f32", plant_compile_error);
    if (s.status == YOKE_ENODEV) {
        json_decref(s.lines);
        skip();
    }
    write_report(&s);
    assert_int_equal(s.status, YOKE_OK);
    assert_int_equal(s.verify.n_crashes, 0);
    assert_int_equal(s.verify.summary.n_pass, 0);
    assert_string_equal(text_of(&s, "first", "op"), "dropout"); /* the first op of its family in a model */
    assert_string_equal(text_of(&s, "first", "status"), "YOKE_ECOMPILE");
    assert_non_null(strstr(text_of(&s, "first", "reason"), "does not compile"));
    assert_non_null(strstr(text_of(&s, "first", "reason"), "no_such_type"));
    json_decref(s.report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrong_op_is_named_with_its_case_element_and_command),
        cmocka_unit_test(an_op_that_kills_its_process_is_one_line),
        cmocka_unit_test(an_op_that_hangs_is_one_line),
        cmocka_unit_test(a_device_that_dies_fails_line_by_line_with_its_own_words),
        cmocka_unit_test(a_device_that_kills_its_process_at_the_start_is_an_error_and_a_report),
        cmocka_unit_test(a_device_that_is_not_there_is_an_error_and_a_report),
        cmocka_unit_test(a_kernel_that_does_not_compile_fails_with_the_compilers_words),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
