/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole runs on one rank: plans and running them again, weights in and out, learning rates, shares, and what
 * is refused.
 */
#include "tests/unit/tiny_run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sys/stat.h>
#include "core/base/base.h"
#include "parallel/balance.h"
#include "train/files/safetensors.h"
#include "train/trainer/trainer.h"

static struct yokei_training training_of(yoke_device *device) { return tiny_training(device, 6); }

/* Run, and keep the weights under a name. */
static struct yokei_training_result run(struct yokei_training *t, const char *save)
{
    struct yokei_training_result result;
    t->export_to = in_folder(save);
    assert_ok(yokei_training_run(t, &result));
    yokei_plan_free(&t->plan);
    return result;
}

static bool same_weights(const char *a, const char *b)
{
    char name[64];
    void *x, *y;
    size_t n, m;
    snprintf(name, sizeof name, "%s/model.safetensors", a);
    assert_ok(yokei_file_read(in_folder(name), 1 << 24, &x, &n));
    snprintf(name, sizeof name, "%s/model.safetensors", b);
    assert_ok(yokei_file_read(in_folder(name), 1 << 24, &y, &m));
    bool same = n == m && memcmp(x, y, n) == 0;
    free(x), free(y);
    return same;
}

static void replay(void **state)
{
    yoke_device *device;
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    struct yokei_training t = training_of(device);
    t.run_dir = in_folder("run1");
    mkdir(t.run_dir, 0777);
    struct yokei_training_result first = run(&t, "w1");
    assert_int_equal(first.steps, 6);
    assert_int_equal(first.tokens, 6 * 4 * 16);
    assert_true(isfinite(first.validation_loss) && isfinite(first.baseline_loss)
                && first.loss < first.first_loss);

    struct yokei_training again = training_of(device);
    char plan[160];
    snprintf(plan, sizeof plan, "%s/plan.json", in_folder("run1"));
    memset(&again.plan, 0, sizeof again.plan);
    assert_ok(yokei_plan_read(plan, &again.plan));
    again.replay = true;
    again.plan_path = plan;
    struct yokei_training_result second = run(&again, "w2");
    assert_true(first.loss == second.loss && first.validation_loss == second.validation_loss);
    assert_true(same_weights("w1", "w2"));

    struct yokei_training other = training_of(device);
    other.plan.seed = 4;
    run(&other, "w3");
    assert_false(same_weights("w1", "w3")); /* the comparison can fail */
    assert_ok(yoke_device_close(device));
}

/* A run with a time budget depends on the clock. Its plan records the progress, so a replay takes the same
 * steps. */
static void replay_of_a_budget(void **state)
{
    yoke_device *device;
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    struct yokei_training t = training_of(device);
    t.plan.steps = 0;
    t.plan.budget_seconds = 0.4;
    t.run_dir = in_folder("run2");
    mkdir(t.run_dir, 0777);
    struct yokei_training_result first = run(&t, "b1");
    assert_true(first.steps > 1);

    struct yokei_training again = training_of(device);
    char plan[160];
    snprintf(plan, sizeof plan, "%s/plan.json", in_folder("run2"));
    memset(&again.plan, 0, sizeof again.plan);
    assert_ok(yokei_plan_read(plan, &again.plan));
    assert_true(again.plan.n_progress > 1 && again.plan.steps == first.steps);
    again.replay = true;
    again.plan_path = plan;
    usleep(1000);
    struct yokei_training_result second = run(&again, "b2");
    assert_int_equal(first.steps, second.steps);
    assert_true(same_weights("b1", "b2"));
    assert_ok(yoke_device_close(device));
}

/* Saved weights come back as they were, and gradients are dumped under the same names. */
static void weights_in_and_out(void **state)
{
    yoke_device *device;
    struct yoke_gpt2_config read;
    struct yokei_safetensors *grads;
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    struct yokei_training t = training_of(device);
    run(&t, "in1");
    assert_ok(yokei_kind_gpt2.read(in_folder("in1"), &read));
    assert_memory_equal(&read, &tiny, sizeof read);
    struct yokei_training again = training_of(device);
    again.init = in_folder("in1");
    again.plan.steps = 1;
    again.plan.learning_rate = again.plan.min_learning_rate = 0; /* the weights do not change */
    again.dump_gradients = in_folder("grads");
    again.sample_tokens = 20;
    again.temperature = 1;
    struct yokei_training_result result = run(&again, "in2");
    assert_true(same_weights("in1", "in2"));
    assert_int_equal(result.sample_bytes, 20);
    free(result.sample);
    assert_ok(yokei_safetensors_open(in_folder("grads"), 0, &grads));
    assert_int_equal(yokei_safetensors_count(grads), yokei_kind_gpt2.n_weights(&tiny));
    for (int64_t i = 0; i < yokei_kind_gpt2.n_weights(&tiny); i++) {
        struct yokei_weight wanted;
        assert_ok(yokei_model_tensor(yokei_model_as(&yokei_kind_gpt2, &tiny), i, &wanted));
        const struct yokei_tensor *g = yokei_safetensors_find(grads, wanted.name);
        assert_non_null(g);
        assert_int_equal(g->n_dims, wanted.n_dims);
        assert_memory_equal(g->shape, wanted.shape, (size_t)wanted.n_dims * sizeof *wanted.shape);
    }
    yokei_safetensors_close(grads);
    assert_ok(yoke_device_close(device));
}

static void refused(void **state)
{
    yoke_device *device;
    struct yokei_training_result result;
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    struct yokei_training t = training_of(device);
    t.tokens = "/nonexistent/text";
    assert_fails(YOKE_EDATA, "/nonexistent/text", yokei_training_run(&t, &result));
    t = training_of(device);
    t.plan.data_hash[0] = 0;
    t.replay = true;
    t.plan_path = "p.json";
    snprintf(t.plan.data_hash, sizeof t.plan.data_hash, "0123456789abcdef");
    assert_fails(YOKE_ECONFIG, "p.json was made for other data", yokei_training_run(&t, &result));
    t = training_of(device);
    struct yokei_plan_rank two[] = { { "reference", 0.5, 2, 2, 0 }, { "reference", 0.5, 2, 2, 0 } };
    t.plan.ranks = two;
    t.plan.n_ranks = 2;
    t.replay = true;
    t.plan_path = "p.json";
    assert_fails(YOKE_ECONFIG, "is for 2 ranks", yokei_training_run(&t, &result));
    snprintf(two[0].device, sizeof two[0].device, "opencl:0");
    two[0].samples = 4;
    t.plan.n_ranks = 1;
    assert_fails(YOKE_ECONFIG, "rank 0 on opencl:0, but it is on reference", yokei_training_run(&t, &result));
    t = training_of(device);
    t.memory_limit = 1000;
    assert_fails(YOKE_ENOMEM, "training needs", yokei_training_run(&t, &result));
    yokei_plan_free(&t.plan);
    t = training_of(device);
    t.init = text_path;
    assert_fails(YOKE_EDATA, text_path, yokei_training_run(&t, &result));
    yokei_plan_free(&t.plan);
    assert_ok(yoke_device_close(device));
}

static void learning_rates(void **state)
{
    struct yokei_plan p = YOKEI_PLAN_INIT;
    (void)state;
    p.learning_rate = 1, p.min_learning_rate = 0.1, p.warmup = 10, p.steps = 100;
    assert_true(fabs(yokei_rate(&p, 1, 0) - 0.1) < 1e-12); /* a tenth of the way up */
    assert_true(yokei_rate(&p, 10, 0) == 1);
    assert_true(fabs(yokei_rate(&p, 50, 500) - 0.55) < 1e-12);
    assert_true(fabs(yokei_rate(&p, 100, 1000) - 0.1) < 1e-12);
    assert_int_equal(yokei_rate_permille(&p, false, 1, 0), 0);
    assert_int_equal(yokei_rate_permille(&p, false, 51, 1e9),
                     500); /* the progress counts steps, so the clock does not matter */
    p.budget_seconds = 20;
    assert_int_equal(yokei_rate_permille(&p, false, 51, 5), 250);
    assert_int_equal(yokei_rate_permille(&p, false, 51, 50), 1000);
    struct yokei_plan_progress progress[] = { { 1, 0 }, { 3, 400 }, { 7, 900 } };
    p.progress = progress, p.n_progress = 3;
    assert_int_equal(yokei_rate_permille(&p, true, 2, 50), 0);
    assert_int_equal(yokei_rate_permille(&p, true, 3, 50), 400);
    assert_int_equal(yokei_rate_permille(&p, true, 9, 0), 900);
}

static void shares(void **state)
{
    int64_t s[4];
    (void)state;
    yokei_balance((double[]){ 3, 1 }, 2, 8, s);
    assert_true(s[0] == 6 && s[1] == 2);
    yokei_balance((double[]){ 100, 1 }, 2, 8, s);
    assert_true(s[0] == 8 && s[1] == 0); /* one sequence there would take longer than eight here */
    yokei_balance((double[]){ 1, 1, 1 }, 3, 8, s);
    assert_true(s[0] == 3 && s[1] == 3 && s[2] == 2);
    yokei_balance((double[]){ 0, 2, 0 }, 3, 5, s);
    assert_true(s[0] == 0 && s[1] == 5 && s[2] == 0);
    /* The speeds are random. Moving one sequence to another rank must never end the step earlier. */
    struct yokei_philox_key key = yokei_philox_named(5, "speeds");
    for (uint64_t k = 0; k < 200; k++) {
        double v[4], last = 0;
        int64_t sum = 0;
        for (int r = 0; r < 4; r++) v[r] = 0.01 + yokei_uniform(key, 4 * k + (uint64_t)r);
        yokei_balance(v, 4, 37, s);
        for (int r = 0; r < 4; r++) sum += s[r], last = fmax(last, (double)s[r] / v[r]);
        assert_int_equal(sum, 37);
        for (int to = 0; to < 4; to++) assert_true((double)(s[to] + 1) / v[to] >= last * (1 - 1e-12));
    }
}

/* ---- another program changes the text while a run trains on it ---- */

enum change { TOUCHED, APPENDED, REPLACED, OVERWRITTEN, SHORTER };
struct meddler {
    enum change change;
    int64_t last_step;
};

static void put(const char *path, const char *text, size_t n, const char *mode)
{
    FILE *to = fopen(path, mode);
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, n, to), n);
    assert_int_equal(fclose(to), 0);
}

/* Called after each step. The text changes after step 3. */
static void meddle(void *context, const struct yokei_training_progress *progress)
{
    struct meddler *m = context;
    m->last_step = progress->step;
    if (progress->step != 3) return;
    switch (m->change) {
    case TOUCHED: put(text_path, "", 0, "a"), utimensat(AT_FDCWD, text_path, NULL, 0); break;
    case APPENDED: put(text_path, "more", 4, "a"); break;
    case REPLACED:
        put(in_folder("other"), "another text", 12, "w");
        assert_int_equal(rename(in_folder("other"), text_path), 0);
        break;
    case OVERWRITTEN: put(text_path, "THE", 3, "r+"); break;
    case SHORTER: assert_int_equal(truncate(text_path, 40), 0); break;
    }
}

/* Train 12 steps on a text of n bytes. */
static yoke_status train_beside(enum change change, int n, int64_t save_every, int64_t *last_step_out)
{
    static const struct timespec old[2] = { { 1000, 0 }, { 1000, 0 } };
    struct meddler meddler = { change, 0 };
    struct yokei_training_result result;
    yoke_device *device;
    char *text = malloc((size_t)n), save[600];
    for (int i = 0; i < n; i++) text[i] = (char)('a' + i * i % 23);
    put(text_path, text, (size_t)n, "w");
    free(text);
    assert_int_equal(utimensat(AT_FDCWD, text_path, old, 0), 0);
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = tiny_training(device, 12);
    snprintf(save, sizeof save, "%s-%d-%d", in_folder("save"), (int)change, n);
    t.plan.validation_share = 0.1;
    t.save = save_every ? save : NULL;
    t.save_every = save_every;
    t.progress = meddle;
    t.context = &meddler;
    const yoke_status status = yokei_training_run(&t, &result);
    yokei_plan_free(&t.plan);
    yoke_device_close(device);
    *last_step_out = meddler.last_step;
    return status;
}

static void a_text_that_changes(void **state)
{
    int64_t step;
    (void)state;
    for (enum change c = TOUCHED; c <= REPLACED; c++) {
        assert_ok(train_beside(c, 300, 4, &step));
        assert_int_equal(step, 12);
    }
    /* An epoch of 15 samples begins in step 4. */
    assert_fails(YOKE_EDATA, "another program has changed it", train_beside(OVERWRITTEN, 300, 0, &step));
    assert_true(step < 6 && strstr(yoke_last_error(), text_path));
    assert_fails(YOKE_EDATA, "it had 300 bytes, and now it has 40", train_beside(SHORTER, 300, 0, &step));
    assert_true(step < 6);
    /* an epoch that does not end: before the checkpoint, and at the end */
    assert_fails(YOKE_EDATA, "another program has changed it", train_beside(OVERWRITTEN, 9000, 5, &step));
    assert_int_equal(step, 5);
    assert_fails(YOKE_EDATA, "another program has changed it", train_beside(OVERWRITTEN, 9000, 0, &step));
    assert_int_equal(step, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay),
        cmocka_unit_test(replay_of_a_budget),
        cmocka_unit_test(weights_in_and_out),
        cmocka_unit_test(refused),
        cmocka_unit_test(learning_rates),
        cmocka_unit_test(shares),
        cmocka_unit_test(a_text_that_changes),
    };
    return cmocka_run_group_tests_name("training runs", tests, make_folder, remove_test_folder);
}
