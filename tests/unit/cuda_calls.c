/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many functions of the driver a training step calls, on CUDA, or with the argument hip on HIP. The
 * stand-in driver counts the calls. Each launch needs one call. Other calls cost the host as much time as a
 * launch, and do no work.
 */
#include "tests/unit/test.h"
#include "tests/unit/tiny_run.h"

#include <pthread.h>
#include <stdlib.h>

#include "backends/gpu/launch.h"
#include "backends/gpu/runtime/runtime.h"
#include "backends/hip/hip.h"
#include "train/trainer/trainer.h"

struct step {
    double calls, launches;
};

static struct yokei_counts counts_of(yoke_device *device)
{
    struct yokei_counts counts;
    assert_true(device->backend->device->extras->counts(device, &counts));
    return counts;
}

static struct yokei_counts train(yoke_device *device, int64_t steps)
{
    struct yokei_training t = tiny_training(device, steps);
    struct yokei_training_result result;
    const struct yokei_counts before = counts_of(device);
    assert_ok(yokei_training_run(&t, &result));
    yokei_plan_free(&t.plan);
    const struct yokei_counts after = counts_of(device);
    return (struct yokei_counts){ .launches = after.launches - before.launches,
                                  .calls = after.calls - before.calls };
}

/* The difference of two runs is that of their steps. */
static struct step step_of(yoke_device *device)
{
    enum { FEW = 2, MANY = 6 };
    train(device, FEW); /* compiles and loads the programs */
    const struct yokei_counts few = train(device, FEW), many = train(device, MANY);
    return (struct step){ (double)(many.calls - few.calls) / (MANY - FEW),
                          (double)(many.launches - few.launches) / (MANY - FEW) };
}

static struct step on_own;
static bool is_hip;

/* As `yoke train` does it: no code of the caller runs on the thread. */
static void *train_on_own(void *device)
{
    yokei_thread_set_own();
    on_own = step_of(device);
    return NULL;
}

/* HIP's grids have less than 2^32 threads along x. The launch is refused before the driver sees it. */
static void check_grid(yoke_device *device)
{
    const struct yokei_gpu_program program = { .family = "elementwise", .L = 1, .W = 1, .G = 64 };
    yoke_stream *stream;
    assert_ok(yoke_stream_create(device, &stream));
    const yoke_status status = yokei_gpu_launch(stream, &program, "scale", 1 << 26, 1, 1,
                                                YOKEI_GPU_ARGS(ARG_F(2), ARG_P(NULL), ARG_P(NULL), ARG_L(0),
                                                               ARG_L(0)));
    assert_int_equal(status, YOKE_EUNSUPPORTED);
    assert_non_null(strstr(yoke_last_error(), "has at most 4294967295 threads: divide the call"));
    assert_ok(yoke_stream_destroy(stream));
}

struct observed {
    const struct yokei_program *program;
    int n, wrong;
    int64_t launches; /* of the device when the first op was reported */
    yoke_device *device;
};

static void observe(void *context, const char *layer, const char *call, const char *op,
                    const struct yoke_cost *cost, double seconds)
{
    struct observed *o = context;
    (void)layer, (void)call;
    const struct yokei_op *planned = o->n < o->program->planner.n_ops ? &o->program->planner.ops[o->n] : NULL;
    if (!o->n) o->launches = (int64_t)counts_of(o->device).launches;
    if (!planned || strcmp(planned->name, op) != 0 || planned->bytes != cost->bytes || seconds < 0)
        o->wrong++;
    o->n++;
}

/* A profile reports all ops in their order, and the host issues many ops before the first one is reported. */
static void check_profile(yoke_device *device)
{
    struct yoke_trainer_config c = YOKE_TRAINER_CONFIG_INIT;
    struct yoke_step_result result;
    int32_t tokens[4 * 16 + 1];
    yoke_model *model;
    yoke_trainer *trainer;
    c.batch = 4, c.sequence = 16, c.seed = 3, c.clip = 1;
    for (int i = 0; i < 4 * 16 + 1; i++) tokens[i] = (i * 11 + 5) % 256;
    assert_ok(yoke_model_gpt2(&tiny, &model));
    assert_ok(yoke_trainer_create(model, device, &c, &trainer));
    struct observed o = { .program = &trainer->plan.train, .device = device };
    yoke_trainer_profile(trainer, observe, &o);
    const int64_t before = (int64_t)counts_of(device).launches;
    assert_ok(yoke_trainer_backward(trainer, tokens, tokens + 1, 0, &result));
    assert_ok(yoke_trainer_apply(trainer, 1e-3, &result));
    yoke_trainer_profile(trainer, NULL, NULL);
    assert_int_equal(o.wrong, 0);
    assert_int_equal(o.n, o.program->planner.n_ops);
    assert_true(o.launches - before > 20);
    assert_ok(yoke_trainer_destroy(trainer));
    assert_ok(yoke_model_destroy(model));
}

static void calls_of_a_step(void **state)
{
    yoke_device *device;
    pthread_t thread;
    (void)state;
    const yoke_status status = yoke_device_open(is_hip ? "hip:0" : "cuda:0", NULL, &device);
    if (status == YOKE_ENODEV && strstr(yoke_last_error(), is_hip ? "no compiler" : "NVRTC")) {
        print_message("no device: %s\n", yoke_last_error());
        skip();
    }
    assert_ok(status);
    const struct yokei_rt *rt = yokei_rt(device);
    device->annotates = false; /* notes about memory are for the stand-in alone */
    const struct step pushed = step_of(device);
    assert_int_equal(rt->calls->push_current(rt), 0);
    const struct step current = step_of(device);
    assert_int_equal(rt->calls->pop_current(rt), 0);
    assert_int_equal(pthread_create(&thread, NULL, train_on_own, device), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("%.0f launches of a step: %.2f calls; if the caller made the context current %.2f; on a "
                  "thread of Yoke's own %.2f\n",
                  on_own.launches, pushed.calls, current.calls, on_own.calls);
    assert_true(on_own.launches > 20 && on_own.launches == current.launches
                && on_own.launches == pushed.launches);
    assert_true(on_own.calls <= 1.6 * on_own.launches);
    assert_true(current.calls <= 2.8 * current.launches);
    /* HIP's device is current in all of these cases, because a thread always has a device */
    assert_true(pushed.calls <= (is_hip ? 2.8 : 4.2) * pushed.launches);
    check_profile(device);
    if (is_hip) check_grid(device);
    assert_ok(yoke_device_close(device));
}

/*
 * HIP has a current device for each thread. A thread of the caller keeps its own, and memory and queues of
 * that device are no memory and no queues of another one.
 */
static void other_device(void **state)
{
    yoke_device *device;
    yoke_stream *wrapped;
    hipStream_t stream;
    void *mine, *other, *address;
    char reason[YOKE_REASON_BYTES];
    int current = -1;
    (void)state;
    if (!is_hip || yoke_device_open("hip:1", NULL, &device)) skip();
    const struct hip_library *hip = yokei_hip_library(reason, sizeof reason);
    assert_int_equal(hip->hipSetDevice(0), 0);
    assert_ok(yoke_alloc(device, 256, &mine));
    assert_ok(yoke_free(device, mine));
    assert_int_equal(hip->hipGetDevice(&current), 0);
    assert_int_equal(current, 0);
    assert_int_equal(hip->hipMalloc(&other, 256), 0);
    assert_int_equal(hip->hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), 0);
    assert_int_equal(yoke_buffer_wrap(device, other, 256, &address), YOKE_EINVAL);
    assert_non_null(strstr(yoke_last_error(), "the buffer to wrap is of another context"));
    const struct yoke_native native = { .size = sizeof native, .queue = stream };
    assert_int_equal(yoke_stream_wrap(device, &native, &wrapped), YOKE_EINVAL);
    assert_non_null(strstr(yoke_last_error(), "the stream to wrap is of another context"));
    assert_int_equal(hip->hipStreamDestroy(stream), 0);
    assert_int_equal(hip->hipFree(other), 0);
    assert_ok(yoke_device_close(device));
}

int main(int argc, char **argv)
{
    is_hip = argc > 1 && !strcmp(argv[1], "hip");
    setenv("YOKE_EMULATE", is_hip ? "hip:gfx90a" : "cuda:9.0", 1);
    setenv("YOKE_EMULATE_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = { cmocka_unit_test(calls_of_a_step), cmocka_unit_test(other_device) };
    return cmocka_run_group_tests_name("cuda_calls", tests, make_folder, remove_test_folder);
}
