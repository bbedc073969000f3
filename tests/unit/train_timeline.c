/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run on one rank reports about itself: the timeline of its steps, the metrics of each step, the work
 * that counts, and the peak speed of its device.
 */
#include "tests/unit/tiny_run.h"
#include "tests/unit/timeline_check.h"

#include "core/base/base.h"
#include "train/trainer/trainer.h"

#include <sys/resource.h>

static struct yokei_training training_of(yoke_device *device, int64_t steps)
{
    struct yokei_training t = tiny_training(device, steps);
    t.micro_batch = 2;
    t.peak = YOKEI_PEAK_GIVEN;
    t.peak_flops = 1e15;
    return t;
}

/* How often the kernel has taken the processor away from this process while it had work. */
static long preemptions(void)
{
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_nivcsw;
}

static void timelines(void **state)
{
    static const char *const devices[] = { "reference", "host", "opencl:0" };
    yoke_device *device;
    struct timeline_facts facts;
    (void)state;
    for (size_t d = 0; d < YOKE_COUNT(devices); d++) {
        if (yoke_device_open(devices[d], NULL, &device)) continue;
        struct yokei_training t;
        struct yokei_training_result result;
        /*
         * A single rank does not wait, so the simulated time must be the computing time. On a busy machine
         * the kernel may take the processor away between two passes. This looks like waiting, but is not.
         * Such a run proves nothing, and the next run is tried. A thread that wakes late looks the same, and
         * the kernel does not count it, so one run alone proves nothing either.
         */
        bool waited = true;
        int n_undisturbed = 0;
        for (int trial = 0; trial < 8 && waited; trial++) {
            if (trial) yokei_plan_free(&t.plan);
            t = training_of(device, 7);
            const long before = preemptions();
            t.timeline = in_folder("trace.json");
            t.timeline_steps = 3;
            assert_ok(yokei_training_run(&t, &result));
            assert_true(result.timeline.bubble_simulated >= 0 && result.timeline.bubble_simulated < 1);
            waited = result.timeline.bubble_simulated >= 0.01;
            n_undisturbed += preemptions() == before;
        }
        if (waited && n_undisturbed < 3)
            print_message("# %s: the runs were interrupted, so the bubble is not judged\n", devices[d]);
        assert_false(waited && n_undisturbed >= 3);
        if (check_timeline(t.timeline, &facts)) fail_msg("%s", facts.problem);
        assert_int_equal(facts.n_steps, 3);
        assert_int_equal(facts.n_processes, 2);
        assert_true(result.timeline.n_steps == 3 && result.timeline.measured > 0
                    && result.timeline.compute > 0 && result.timeline.clock_error == 0);
        /* Each micro-batch has its passes in each layer. */
        assert_true(result.timeline.simulated > 0 && result.timeline.communication >= 0);
        assert_true(facts.n_simulated >= 2 * (3 + 3 + 4));
        yokei_plan_free(&t.plan);
        assert_ok(yoke_device_close(device));
    }
}

/*
 * A run that is shorter than the requested timeline is collected as far as it goes. If a file cannot be
 * written, only the timeline is lost.
 */
static void short_runs_and_bad_files(void **state)
{
    yoke_device *device;
    struct timeline_facts facts;
    struct yokei_training_result result;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = training_of(device, 2);
    t.timeline = in_folder("short.json");
    t.timeline_steps = 5;
    assert_ok(yokei_training_run(&t, &result));
    if (check_timeline(t.timeline, &facts)) fail_msg("%s", facts.problem);
    assert_int_equal(facts.n_steps, 2);
    yokei_plan_free(&t.plan);

    t = training_of(device, 4);
    t.timeline = in_folder("none/trace.json");
    t.export_to = in_folder("weights");
    assert_fails(YOKE_EIO, "none/trace.json: cannot be written", yokei_training_run(&t, &result));
    assert_int_not_equal(access(in_folder("weights"), R_OK), 0);
    t.timeline = "/dev/full"; /* a disk that fills up later */
    assert_fails(YOKE_EIO, "all else of the run is complete", yokei_training_run(&t, &result));
    assert_int_equal(access(in_folder("weights/model.safetensors"), R_OK), 0);
    yokei_plan_free(&t.plan);
    assert_ok(yoke_device_close(device));
}

/* Names that JSON cannot hold as they are, and an instruction that did not run (a step that was skipped). */
static void any_name_is_text(void **state)
{
    (void)state;
    const yoke_layer odd = { .name = "a\"b\\c\n\x01", .type = NULL },
                     bad = { .name = "\xff\xfe", .type = NULL };
    const yoke_layer *layers[] = { &odd, &bad };
    struct yokei_timeline_instruction list[] = { { .kind = YOKEI_ZERO, .layer = -1 },
                                                 { .kind = YOKEI_FORWARD },
                                                 { .kind = YOKEI_FORWARD, .layer = 1 },
                                                 { .kind = YOKEI_BACKWARD_INPUT, .layer = 1 },
                                                 { .kind = YOKEI_BACKWARD_WEIGHT, .layer = 1 },
                                                 { .kind = YOKEI_BACKWARD_INPUT },
                                                 { .kind = YOKEI_BACKWARD_WEIGHT },
                                                 { .kind = YOKEI_NORMS, .layer = -1 },
                                                 { .kind = YOKEI_AGREE, .layer = -1 },
                                                 { .kind = YOKEI_STEP, .layer = -1 } };
    enum { N = YOKE_COUNT(list) };
    struct yokei_timeline_span span[2 * N];
    for (int i = 0; i < 2 * N; i++) span[i] = (struct yokei_timeline_span){ i, i, i + 1, i + 1 };
    span[2 * N - 1] = (struct yokei_timeline_span){ NAN, NAN, NAN, NAN };
    struct yokei_timeline_rank rank = { .host = "h\"", .device = "d\\", .n = N, .list = list, .span = span };
    const struct yokei_timeline timeline = { .mesh = { .data = 1, .pipeline = 1, .tensor = 1, .chunks = 1 },
                                             .n_ranks = 1,
                                             .n_steps = 2,
                                             .first_step = 5,
                                             .layers = layers,
                                             .rank = &rank };
    struct yokei_timeline_simulation simulation;
    assert_ok(yokei_timeline_simulate(&timeline, &simulation));
    /*
     * zero, F F, B W B W, norms, agree, and the optimizer in the step that had it: 1 s each, one behind the
     * other
     */
    assert_true(fabs(simulation.summary.simulated - 10) < 1e-9);
    assert_true(fabs(simulation.summary.measured - 9.5) < 1e-9); /* the median of 10 and 9 */
    for (int i = 0; i < N; i++)
        assert_true(fabs(simulation.span[0][i].begin - i) < 1e-9
                    && fabs(simulation.span[0][i].end - (i + 1)) < 1e-9);
    assert_int_equal(simulation.schedule.rank[0].n, 5);
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    yokei_timeline_json(&timeline, &simulation, to);
    fclose(to);
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s", error.text);
    json_t *events = json_object_get(root, "traceEvents"), *event;
    size_t i;
    int n_odd = 0, n_all = 0;
    json_array_foreach(events, i, event)
    {
        n_odd += strcmp(timeline_word(json_object_get(event, "args"), "layer"), odd.name) == 0;
        n_all += strcmp(timeline_word(event, "cat"), "measured") == 0;
    }
    assert_int_equal(n_odd, 3 * 2 + 3);
    assert_int_equal(n_all, 2 * N - 1);
    json_decref(root);
    free(text);
    yokei_timeline_simulation_free(&simulation);
}

static void metrics_are_in_range(void **state)
{
    yoke_device *device;
    struct yokei_training_result result;
    char line[4000];
    int rows = 0;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    struct yokei_training t = training_of(device, 5);
    t.run_dir = in_folder("run");
    assert_ok(yokei_make_folder(t.run_dir));
    assert_ok(yokei_training_run(&t, &result));
    FILE *f = fopen(in_folder("run/metrics.jsonl"), "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *row = json_loads(line, 0, NULL), *rank = json_array_get(json_object_get(row, "ranks"), 0);
        const double mfu = timeline_number(row, "mfu"),
                     seconds = 64 / timeline_number(row, "tokens_per_second");
        assert_true(timeline_number(row, "exposed_communication_seconds") == 0
                    && timeline_number(rank, "exposed_communication_seconds") == 0);
        assert_true(timeline_number(row, "bubble") >= 0 && timeline_number(row, "bubble") < 1
                    && timeline_number(rank, "bubble") >= 0);
        /*
         * 6 P + 6 L h T per token, P without vectors and the embedding's look-up, attention for the scores
         * that count
         */
        const double flops = 64 * (6.0 * (12 * 16 * 16 + 256 * 16) + 12.0 * 16 * (16 + 1) / 2);
        assert_true(fabs(mfu * seconds * 1e15 / flops - 1) < 0.02);
        assert_true(mfu == timeline_number(rank, "mfu"));
        json_decref(row);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 5);
    yokei_plan_free(&t.plan);
    /* Without a peak there is no share of it. */
    t = training_of(device, 1);
    t.peak = YOKEI_PEAK_OFF;
    t.run_dir = in_folder("run");
    assert_ok(yokei_training_run(&t, &result));
    f = fopen(in_folder("run/metrics.jsonl"), "r");
    assert_non_null(fgets(line, sizeof line, f));
    assert_non_null(strstr(line, "\"mfu\": null"));
    fclose(f);
    yokei_plan_free(&t.plan);
    assert_ok(yoke_device_close(device));
}

/* Recomputation does not count as work of the model. */
static void recomputed_work_does_not_count(void **state)
{
    yoke_device *device;
    yoke_model *model;
    double flops[2], all[2];
    (void)state;
    assert_ok(yoke_device_open("reference", NULL, &device));
    assert_ok(yoke_model_gpt2(&tiny, &model));
    for (int again = 0; again < 2; again++) {
        struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
        yoke_trainer *trainer;
        c.batch = 2, c.sequence = 16, c.recompute = again ? "full" : "none";
        assert_ok(yoke_trainer_create(model, device, &c, &trainer));
        flops[again] = yokei_trainer_flops(trainer);
        all[again] = 0;
        for (int i = 0; i < trainer->plan.train.n; i++)
            all[again] +=
                yokei_instruction_cost(&trainer->plan.train, &trainer->plan.train.instruction[i]).flops;
        assert_ok(yoke_trainer_destroy(trainer));
    }
    assert_true(flops[0] > 0 && flops[0] == flops[1] && all[1] > all[0] && all[0] > flops[0]);
    assert_ok(yoke_model_destroy(model));
    assert_ok(yoke_device_close(device));
}

static void a_peak_is_a_speed(void **state)
{
    yoke_device *device;
    double peak = 0;
    (void)state;
    assert_ok(yoke_device_open("host", NULL, &device));
    int64_t size = 0;
    assert_ok(yoke_gemm_peak(device, YOKE_F32, &peak, &size));
    assert_true(peak > 1e6 && peak < 1e18 && size >= 256 && size <= 16384);
    uint64_t now, most;
    assert_ok(yoke_device_allocated(device, &now, &most));
    assert_int_equal(now, 0);
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timelines),
        cmocka_unit_test(short_runs_and_bad_files),
        cmocka_unit_test(any_name_is_text),
        cmocka_unit_test(metrics_are_in_range),
        cmocka_unit_test(recomputed_work_does_not_count),
        cmocka_unit_test(a_peak_is_a_speed),
    };
    return cmocka_run_group_tests_name("what a run shows", tests, make_folder, remove_test_folder);
}
