/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of OpenCL devices: order, events, asynchronous errors, and several threads. */
#include "tests/unit/gpu_test.h"

#include <pthread.h>
#include <unistd.h>

enum { N = 4096 };

/*
 * A stream that waits for a host-armed event holds everything behind it back; the other stream goes on.
 * Without a cache, the launch behind the event is the first one of its kernel, which PoCL then compiles.
 */
static void armed(void **state)
{
    (void)state;
    for (size_t m = 0; m < YOKE_COUNT(gpu_modes); m++) {
        GPU_OPEN(device, gpu_modes[m], "");
        yoke_stream *first, *second;
        yoke_event *gate, *done;
        float *d, one[N], host[N];
        bool complete = true;
        for (int i = 0; i < N; i++) one[i] = 1.0f;
        assert_ok(yoke_stream_create(device, &first));
        assert_ok(yoke_stream_create(device, &second));
        assert_ok(yoke_event_create(device, &gate));
        assert_ok(yoke_event_create(device, &done));
        assert_ok(yoke_alloc(device, sizeof one, (void **)&d));
        assert_ok(yoke_copy_to_device(first, d, one, sizeof one));
        assert_ok(yoke_stream_sync(first));
        assert_ok(yoke_event_arm(gate));
        assert_ok(yoke_event_arm(gate)); /* armed twice is armed */
        assert_ok(yoke_stream_wait(first, gate));
        assert_ok(
            yoke_scale(first, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = N, .alpha = 5, .x = d, .y = d)));
        assert_ok(yoke_event_record(done, first));
        assert_ok(yoke_copy_to_host(second, host, d, sizeof host));
        assert_ok(yoke_stream_sync(second));
        for (int i = 0; i < N; i++) assert_true(host[i] == 1.0f);
        assert_ok(yoke_event_query(done, &complete));
        assert_false(complete);
        assert_ok(yoke_stream_wait(second, done));
        assert_ok(yoke_copy_to_host(second, host, d, sizeof host));
        assert_ok(yoke_event_signal(gate));
        assert_ok(yoke_event_signal(gate)); /* signalled twice is signalled */
        assert_ok(yoke_event_sync(done));
        assert_ok(yoke_stream_sync(second));
        for (int i = 0; i < N; i++) assert_true(host[i] == 5.0f);

        /* An event that is destroyed while armed lets its streams go. */
        assert_ok(yoke_event_arm(gate));
        assert_ok(yoke_stream_wait(first, gate));
        assert_ok(yoke_event_destroy(gate));
        assert_ok(yoke_stream_sync(first));
        assert_ok(yoke_event_destroy(done));
        assert_ok(yoke_free(device, d));
        assert_ok(yoke_stream_destroy(first));
        assert_ok(yoke_stream_destroy(second));
        assert_ok(yoke_device_close(device));
    }
}

/* More commands than the list of pending ones holds at first, all in order. */
static void many(void **state)
{
    (void)state;
    GPU_OPEN(device, NULL, NULL);
    yoke_stream *stream;
    float *d, host[N], x[N];
    for (int i = 0; i < N; i++) x[i] = (float)i;
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_alloc(device, sizeof x, (void **)&d));
    assert_ok(yoke_copy_to_device(stream, d, x, sizeof x));
    for (int r = 0; r < 1500; r++)
        assert_ok(yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = N,
                                                .alpha = r % 2 ? 0.5f : 2.0f, .x = d, .y = d)));
    assert_ok(yoke_copy_to_host(stream, host, d, sizeof host));
    assert_ok(yoke_stream_sync(stream));
    assert_memory_equal(host, x, sizeof x);
    assert_ok(yoke_free(device, d));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

/*
 * The library with one function replaced: the driver reports that the event of one command has failed. (A
 * real failure, by a user event with a negative status, ends the process in PoCL 3.1.)
 */
static struct opencl_library faulty;
static const struct opencl_library *sound;
static int n_looked_at, faulty_command;

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t bytes, void *value,
                                     size_t *bytes_out)
{
    cl_int error = sound->clGetEventInfo(event, what, bytes, value, bytes_out);
    if (!error && what == CL_EVENT_COMMAND_EXECUTION_STATUS && n_looked_at++ == faulty_command)
        *(cl_int *)value = CL_OUT_OF_RESOURCES;
    return error;
}

/* A command that fails after it was issued surfaces at the next sync, once, with its op's name. */
static void asynchronous_error(void **state)
{
    (void)state;
    for (faulty_command = 0; faulty_command < 3; faulty_command++) {
        static const char *const names[] = { "yoke_fill", "scale", "yoke_copy" };
        GPU_OPEN(device, NULL, "");
        yoke_stream *stream;
        float *d;
        assert_ok(yoke_stream_create(device, &stream));
        assert_ok(yoke_alloc(device, 32, (void **)&d));
        /* the first launch of a kernel that PoCL compiles awaits all commands, also those that failed */
        assert_ok(
            yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 4, .alpha = 2, .x = d, .y = d)));
        assert_ok(yoke_stream_sync(stream));
        sound = opencl_device(device)->cl;
        faulty = *sound;
        faulty.clGetEventInfo = event_info;
        n_looked_at = 0;
        assert_ok(yoke_fill(stream, d, 0, 16));
        assert_ok(
            yoke_scale(stream, &YOKE_ARGS(scale, .dtype = YOKE_F32, .n = 4, .alpha = 2, .x = d, .y = d)));
        assert_ok(yoke_copy(stream, d + 4, d, 16));
        opencl_device(device)->cl = &faulty;
        assert_fails(YOKE_EBACKEND, names[faulty_command], yoke_stream_sync(stream));
        assert_non_null(strstr(yoke_last_error(), "CL_OUT_OF_RESOURCES"));
        assert_ok(yoke_stream_sync(stream));
        opencl_device(device)->cl = sound;
        assert_ok(yoke_free(device, d));
        assert_ok(yoke_stream_destroy(stream));
        assert_ok(yoke_device_close(device));
    }
}

struct worker {
    pthread_t thread;
    yoke_device *device;
    float factor;
    yoke_status status;
    bool right;
};

/* Additions on a stream of the worker's own; all workers use the same kernel objects at the same time. */
static void *work(void *argument)
{
    struct worker *w = argument;
    yoke_stream *stream;
    float x[N], y[N], z[N];
    w->right = true;
    w->status = yoke_stream_create(w->device, &stream);
    if (w->status) return NULL;
    for (int r = 0; r < 60 && !w->status && w->right; r++) {
        for (int i = 0; i < N; i++) x[i] = w->factor * (float)i, y[i] = (float)r;
        w->status = gpu_add(stream, x, y, z, N);
        for (int i = 0; i < N; i++) w->right = w->right && z[i] == x[i] + y[i];
    }
    yoke_status status = yoke_stream_destroy(stream);
    if (!w->status) w->status = status;
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    GPU_OPEN(a, "svm", NULL);
    yoke_device *b = gpu_open("buffer", NULL);
    struct worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (struct worker){ .device = i < 2 ? a : b, .factor = (float)(i + 1) };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].status, YOKE_OK);
        assert_true(workers[i].right);
    }
    assert_int_equal(yokei_gpu_counts(a).compiled + yokei_gpu_counts(a).loaded,
                     1); /* both threads, one program */
    assert_ok(yoke_device_close(a));
    assert_ok(yoke_device_close(b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(armed),
        cmocka_unit_test(many),
        cmocka_unit_test(asynchronous_error),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests_name("gpu_stream", tests, NULL, NULL);
}
