/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that stop and resume. In every precision they must give the same bits as a run that did not stop. The
 * test also checks what is refused.
 */
#include "tests/unit/tiny_run.h"

#include <signal.h>
#include <sys/stat.h>
#include "core/base/base.h"
#include "train/checkpoint/checkpoint.h"

static struct yokei_training training_of(yoke_device *device, const char *precision)
{
    struct yokei_training t = tiny_training(device, 10);
    snprintf(t.plan.precision, sizeof t.plan.precision, "%s", precision);
    return t;
}

static yoke_status run(struct yokei_training *t, struct yokei_training_result *result)
{
    yoke_status status = yokei_training_run(t, result);
    yokei_plan_free(&t->plan);
    return status;
}

static struct yokei_training resumed(yoke_device *device, const char *path)
{
    static char folder[700];
    struct yokei_training t = training_of(device, "fp32");
    int64_t step;
    memset(&t.plan, 0, sizeof t.plan);
    assert_ok(yokei_run_resume_plan(path, folder, sizeof folder, &t.plan, &step, &t.replay));
    t.resume = t.plan_path = folder;
    return t;
}

static void count(void *context, const struct yokei_tensor_difference *d)
{
    int64_t *different = context;
    *different += d->problem ? 1 : d->n_different;
}

/*
 * Elements whose bits differ between the newest checkpoints of two folders, and whether their manifests do.
 */
static int64_t n_different(const char *a, const char *b, bool *manifests_out)
{
    struct yokei_checkpoint *x, *y;
    char p[700], q[700], text[2000];
    int64_t n = 0;
    assert_ok(yokei_checkpoint_locate(a, p, sizeof p));
    assert_ok(yokei_checkpoint_locate(b, q, sizeof q));
    assert_ok(yokei_checkpoint_open(p, 0, &x));
    assert_ok(yokei_checkpoint_open(q, 0, &y));
    assert_ok(yokei_checkpoint_compare(x, y, &n, count));
    *manifests_out = yokei_manifest_differs(&x->manifest, &y->manifest, text, sizeof text);
    yokei_checkpoint_close(x);
    yokei_checkpoint_close(y);
    return n;
}

/* 10 steps, and 5 and 5: the same weights, moments, loss scale, counters and losses. */
static void five_and_five(yoke_device *device, const char *precision, double loss_scale)
{
    char whole[600], halves[600], half[700];
    struct yokei_training_result one, first, second;
    bool manifests;
    snprintf(whole, sizeof whole, "%s-%s", in_folder("whole"), precision);
    snprintf(halves, sizeof halves, "%s-%s", in_folder("halves"), precision);
    snprintf(half, sizeof half, "%s/step-0000005", whole);
    struct yokei_training t = training_of(device, precision);
    t.plan.loss_scale = loss_scale;
    t.save = whole;
    t.save_every = 5;
    assert_ok(run(&t, &one));
    assert_true(one.steps == 10 && one.saved_step == 10);
    struct yokei_training rest = resumed(device, half);
    rest.save = halves;
    assert_ok(run(&rest, &second));
    assert_true(second.steps == 10 && second.tokens == 5 * 64 && second.loss == one.loss
                && second.validation_loss == one.validation_loss);
    assert_int_equal(n_different(whole, halves, &manifests), 0);
    assert_false(manifests);
    assert_true(n_different(half, halves, &manifests) > 1000); /* the comparison can fail */
    assert_true(manifests);
    /* Without the optimizer's moments the bits differ. So this part of the checkpoint is needed. */
    struct yokei_training cold = training_of(device, precision);
    cold.plan.loss_scale = loss_scale;
    cold.init = half;
    cold.plan.steps = 5;
    assert_ok(run(&cold, &first));
    assert_true(first.loss != one.loss);
}

static void bit_for_bit(void **state)
{
    yoke_device *device;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    five_and_five(device, "fp32", 0);
    five_and_five(device, "bf16", 0);
    /* The first steps overflow, so the number of optimizer steps and the loss scale do not follow from the
     * step number. */
    five_and_five(device, "fp16", 0x1p24);
    struct yokei_manifest m;
    char folder[700];
    snprintf(folder, sizeof folder, "%s-fp16/step-0000005", in_folder("whole"));
    assert_ok(yokei_manifest_read(folder, &m));
    assert_true(m.optimizer_step < m.step && m.loss_scale < 0x1p24 && m.loss_scale > 1);
    yokei_manifest_free(&m);
    assert_ok(yoke_device_close(device));
}

static sig_atomic_t stop;

static void stop_at_three(void *context, const struct yokei_training_progress *p)
{
    (void)context;
    if (p->step == 3) stop = 1;
}

static void asked_to_stop(void **state)
{
    yoke_device *device;
    struct yokei_training_result result;
    char whole[600], parts[600];
    bool manifests;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    snprintf(whole, sizeof whole, "%s", in_folder("unasked"));
    snprintf(parts, sizeof parts, "%s", in_folder("asked"));
    struct yokei_training t = training_of(device, "fp32");
    t.save = whole;
    assert_ok(run(&t, &result));
    t = training_of(device, "fp32");
    t.save = parts;
    t.run_dir = test_folder;
    t.stop = &stop;
    t.progress = stop_at_three;
    stop = 0;
    assert_fails(YOKE_EPREEMPTED, "saved behind step 4", run(&t, &result));
    assert_int_equal(yokei_checkpoint_newest(parts), 4);
    stop = 0;
    t = resumed(device, parts);
    t.save = parts;
    t.run_dir = test_folder;
    assert_ok(run(&t, &result));
    assert_int_equal(n_different(whole, parts, &manifests), 0);
    assert_false(manifests);
    /* The metrics of both parts are one list. */
    void *rows;
    size_t bytes;
    int lines = 0;
    assert_ok(yokei_file_read(in_folder("metrics.jsonl"), 1 << 20, &rows, &bytes));
    for (size_t i = 0; i < bytes; i++) lines += ((char *)rows)[i] == '\n';
    assert_int_equal(lines, 10);
    free(rows);
    /* Without a folder to save to nothing is promised. */
    t = training_of(device, "fp32");
    t.stop = &stop;
    stop = 1;
    assert_fails(YOKE_EABORTED, "--save was not given", run(&t, &result));
    stop = 0;
    /* A run that was over has nothing left to do. */
    t = resumed(device, parts);
    assert_ok(run(&t, &result));
    assert_true(result.steps == 10 && result.tokens == 0);
    assert_ok(yoke_device_close(device));
}

static int n_warnings;

static void warned(void *context, yoke_log_level level, const char *text)
{
    (void)context;
    n_warnings += level == YOKE_LOG_WARN && strstr(text, "was not saved, and training goes on")
                  && strstr(text, "No space left");
}

/* A full disk costs the periodic checkpoint, not the run; the last one it may not cost. */
static void full_disk(void **state)
{
    yoke_device *device;
    struct yokei_training_result result;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = training_of(device, "fp32");
    t.plan.steps = 6;
    t.save = in_folder("fullrun");
    t.save_every = 2;
    yoke_log_set(warned, NULL, YOKE_LOG_WARN);
    setenv("YOKE_SAVE_FAULT", "full=20",
           1); /* in the first of three saves; each of the others begins with room */
    assert_ok(run(&t, &result));
    assert_int_equal(n_warnings, 1);
    assert_int_equal(result.saved_step, 6);
    t = training_of(device, "fp32");
    t.plan.steps = 2;
    t.save = in_folder("fullend");
    setenv("YOKE_SAVE_FAULT", "full=0", 1);
    assert_fails(YOKE_EIO, "step 2 was not saved: ", run(&t, &result));
    assert_non_null(strstr(yoke_last_error(), "No space left on device"));
    assert_int_equal(yokei_checkpoint_newest(in_folder("fullend")), -1);
    unsetenv("YOKE_SAVE_FAULT");
    yoke_log_set(NULL, NULL, YOKE_LOG_WARN);
    assert_ok(yoke_device_close(device));
}

static void by_time(void **state)
{
    yoke_device *device;
    struct yokei_training_result result;
    struct yokei_checkpoint_entry *list;
    size_t n;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = training_of(device, "fp32");
    t.save = in_folder("time");
    t.save_every_seconds = 1e-9; /* each step takes longer */
    t.keep = 4;
    assert_ok(run(&t, &result));
    assert_ok(yokei_checkpoint_list(in_folder("time"), &list, &n));
    assert_int_equal(n, 4);
    assert_true(list[0].step == 7 && list[3].step == 10);
    free(list);
    assert_ok(yoke_device_close(device));
}

/* A resumed run has the time that is left of the budget. */
static void rest_of_a_budget(void **state)
{
    yoke_device *device;
    struct yokei_training_result first, second;
    struct yokei_manifest m;
    char folder[700];
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = training_of(device, "fp32");
    t.plan.steps = 0;
    t.plan.budget_seconds = 1;
    t.save = in_folder("budget");
    t.stop = &stop;
    t.progress = stop_at_three;
    stop = 0;
    assert_fails(YOKE_EPREEMPTED, "saved behind step 4", run(&t, &first));
    stop = 0;
    snprintf(folder, sizeof folder, "%s/step-0000004", in_folder("budget"));
    assert_ok(yokei_manifest_read(folder, &m));
    assert_true(m.seconds > 0 && m.seconds < 1 && m.plan.n_progress >= 1);
    t = resumed(device, folder);
    assert_ok(run(&t, &second));
    assert_true(second.steps > 4 && second.seconds > 0.5 * (1 - m.seconds) && second.seconds < 1.5);
    yokei_manifest_free(&m);
    assert_ok(yoke_device_close(device));
}

static void refused(void **state)
{
    yoke_device *device;
    struct yokei_training_result result;
    char other[600];
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = training_of(device, "fp32");
    t.plan.steps = 3;
    t.save = in_folder("refused");
    assert_ok(run(&t, &result));
    t = training_of(device, "fp32"); /* a new run into an old one's folder */
    t.save = in_folder("refused");
    assert_fails(YOKE_ECONFIG, "go on from it with --resume", run(&t, &result));
    snprintf(other, sizeof other, "%s", in_folder("other"));
    FILE *f = fopen(other, "w");
    for (int i = 0; i < 400; i++) fprintf(f, "another text of %d words. ", i);
    fclose(f);
    t = resumed(device, in_folder("refused"));
    t.plan.steps = 6;
    t.tokens = other;
    assert_fails(YOKE_ECONFIG, "was made for other data", run(&t, &result));
    assert_ok(yoke_device_close(device));
}

/*
 * A run never trains on the samples that it skips. A resumed run may skip more. If all of these come behind
 * the checkpoint, the bits are those of a run that has skipped them from its start.
 */
static void skips_samples(void **state)
{
    static const char *const skips[] = { "", "9,25-30", "400-500" }; /* 10 steps of 4 samples */
    char saves[3][700], again[700], half[720];
    yoke_device *device;
    struct yokei_training_result result;
    bool manifests;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    for (int i = 0; i < 3; i++) {
        struct yokei_training t = training_of(device, "fp32");
        snprintf(saves[i], sizeof saves[i], "%s-%d", in_folder("skips"), i);
        snprintf(t.plan.skip_samples, sizeof t.plan.skip_samples, "%s", i ? skips[i] : "9");
        t.save = saves[i];
        t.save_every = 5;
        assert_ok(run(&t, &result));
    }
    /* sample 9 is skipped from the start, so behind step 5 the next sample is 21 */
    snprintf(half, sizeof half, "%s/step-0000005", saves[0]);
    snprintf(again, sizeof again, "%s", in_folder("skips-again"));
    struct yokei_training rest = resumed(device, half);
    assert_string_equal(rest.plan.skip_samples, "9");
    snprintf(rest.plan.skip_samples, sizeof rest.plan.skip_samples, "%s", skips[1]);
    rest.save = again;
    assert_ok(run(&rest, &result));
    assert_int_equal(n_different(again, saves[1], &manifests), 0);
    assert_false(manifests);
    assert_true(n_different(again, saves[0], &manifests) > 1000);
    assert_true(manifests);
    struct yokei_manifest m;
    snprintf(half, sizeof half, "%s/step-0000010", again);
    assert_ok(yokei_manifest_read(half, &m));
    assert_int_equal(m.data_next_sample, 40 + 7);
    yokei_manifest_free(&m);
    /* samples behind the end of the run: the bits of a run that skips none */
    assert_int_equal(n_different(saves[2], in_folder("whole-fp32"), &manifests), 0);
    struct yokei_training bad = training_of(device, "fp32");
    snprintf(bad.plan.skip_samples, sizeof bad.plan.skip_samples, "9-3");
    assert_fails(YOKE_ECONFIG, "9-3 is no range", run(&bad, &result));
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bit_for_bit),   cmocka_unit_test(asked_to_stop),    cmocka_unit_test(full_disk),
        cmocka_unit_test(by_time),       cmocka_unit_test(rest_of_a_budget), cmocka_unit_test(refused),
        cmocka_unit_test(skips_samples),
    };
    return cmocka_run_group_tests_name("runs that go on", tests, make_folder, remove_test_folder);
}
