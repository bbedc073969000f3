/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that the process holds back, because the queues of CUDA do not wait for the host: order, arguments,
 * errors, the limit of the queue, and foreign queues. The device has one hardware channel.
 */
#include "tests/unit/cuda_test.h"

#include <pthread.h>
#include <stdatomic.h>

enum { N = 1024, STREAMS = 3 };

static yoke_device *device;
static yoke_stream *streams[STREAMS];
static yoke_event *gate, *other_gate, *event;
static unsigned char *d, host[N], back[N];

static const char *begin(void)
{
    device = cuda_open();
    if (!device) return "skip: no NVRTC";
    for (int i = 0; i < STREAMS; i++) WANT(!yoke_stream_create(device, &streams[i]));
    WANT(!yoke_event_create(device, &gate) && !yoke_event_create(device, &other_gate)
         && !yoke_event_create(device, &event));
    WANT(!yoke_alloc(device, 2 * N, (void **)&d));
    WANT(!yoke_fill(streams[0], d, 1, 2 * N) && !yoke_stream_sync(streams[0]));
    return NULL;
}

static const char *end(void)
{
    WANT(!yoke_event_destroy(gate) && !yoke_event_destroy(other_gate) && !yoke_event_destroy(event));
    for (int i = 0; i < STREAMS; i++) WANT(!yoke_stream_destroy(streams[i]));
    WANT(!yoke_free(device, d) && !yoke_device_close(device));
    return NULL;
}

/* The text of what was wrong, or NULL. */
#define BEGIN(wrong)             \
    const char *wrong = begin(); \
    if (wrong) return wrong

static bool holds(unsigned char byte, const unsigned char *at)
{
    if (yoke_copy_to_host(streams[2], back, at, N) || yoke_stream_sync(streams[2])) return false;
    for (int i = 0; i < N; i++)
        if (back[i] != byte) return false;
    return true;
}

/* A held op runs with the arguments that it was issued with. */
static const char *arguments(void)
{
    BEGIN(wrong);
    float one[N / 4];
    for (int i = 0; i < N / 4; i++) one[i] = 1.0f;
    WANT(!yoke_copy_to_device(streams[0], d, one, N) && !yoke_stream_sync(streams[0]));
    WANT(!yoke_event_arm(gate) && !yoke_stream_wait(streams[0], gate));
    struct yoke_scale_args args = YOKE_ARGS(scale, .dtype = YOKE_F32, .n = N / 4, .alpha = 3, .x = d, .y = d);
    const struct yokei_gpu_counts before = yokei_gpu_counts(device);
    WANT(!yoke_scale(streams[0], &args));
    /* The program was looked up at once, and not while the thread that opens the gate submits the launch. */
    const struct yokei_gpu_counts after = yokei_gpu_counts(device);
    WANT(after.compiled + after.loaded == before.compiled + before.loaded + 1);
    memset((char *)&args + sizeof args.size, 0xee, sizeof args - sizeof args.size);
    WANT(yoke_scale(streams[0], &args) == YOKE_EINVAL); /* wrong arguments are refused at once */
    const struct yoke_bias_backward_args sum = YOKE_ARGS(bias_backward, .dtype = YOKE_F32, .N = 32, .C = 8,
                                                         .dy = d, .ld = 8, .dbias = d + N);
    WANT(yoke_bias_backward(streams[0], &sum) == YOKE_ENOMEM && strstr(yoke_last_error(), "of scratch"));
    WANT(!yoke_copy_to_host(streams[0], one, d, N));
    WANT(one[0] == 1.0f && !yoke_event_signal(gate) && !yoke_stream_sync(streams[0]));
    for (int i = 0; i < N / 4; i++) WANT(one[i] == 3.0f);
    return end();
}

/* Streams that wait for events of held streams are held too. An event that is used anew is another one. */
static const char *chains(void)
{
    BEGIN(wrong);
    for (int round = 0; round < 20; round++) {
        bool complete = true;
        WANT(!yoke_fill(streams[0], d, 1, N) && !yoke_stream_sync(streams[0]));
        WANT(!yoke_event_arm(gate) && !yoke_stream_wait(streams[0], gate));
        WANT(!yoke_fill(streams[0], d, 7, N) && !yoke_event_record(event, streams[0]));
        WANT(!yoke_stream_wait(streams[1], event) && !yoke_copy(streams[1], d + N, d, N));
        /* The event is now recorded on a stream that is not held. The second stream waits for the first. */
        WANT(!yoke_event_record(event, streams[2]) && !yoke_event_sync(event));
        WANT(holds(1, d));
        WANT(!yoke_event_record(event, streams[1]) && !yoke_event_query(event, &complete) && !complete);
        WANT(!yoke_stream_flush(streams[1]) && !yoke_event_signal(gate) && !yoke_event_sync(event));
        WANT(holds(7, d + N));
        /* an event that is armed and signalled anew while a command waits for its earlier record */
        WANT(!yoke_event_arm(gate) && !yoke_stream_wait(streams[0], gate));
        WANT(!yoke_fill(streams[0], d, 9, N) && !yoke_event_record(event, streams[0]));
        WANT(!yoke_stream_wait(streams[1], event) && !yoke_copy(streams[1], d + N, d, N));
        WANT(!yoke_event_arm(event) && !yoke_event_signal(event) && !yoke_event_sync(event));
        WANT(holds(7, d + N));
        /* an event may be destroyed while commands refer to it */
        WANT(!yoke_event_destroy(event) && !yoke_event_signal(gate) && !yoke_stream_sync(streams[1]));
        WANT(holds(9, d + N) && !yoke_event_create(device, &event));
    }
    return end();
}

/* Two gates that open in the other order. With one hardware channel, a wait in the driver would hang here. */
static const char *crossed(void)
{
    BEGIN(wrong);
    WANT(!yoke_event_arm(gate) && !yoke_event_arm(other_gate));
    WANT(!yoke_stream_wait(streams[0], gate) && !yoke_fill(streams[0], d, 3, N));
    WANT(!yoke_stream_wait(streams[1], other_gate) && !yoke_fill(streams[1], d + N, 4, N));
    WANT(holds(1, d) && holds(1, d + N));
    WANT(!yoke_event_signal(other_gate) && !yoke_stream_sync(streams[1]) && holds(4, d + N) && holds(1, d));
    WANT(!yoke_event_signal(gate) && !yoke_stream_sync(streams[0]) && holds(3, d));
    return end();
}

/* An error of a held command comes with the next call on the stream, names the call, and ends with a sync. */
static const char *errors(void)
{
    bool complete;
    BEGIN(wrong);
    WANT(!yoke_event_arm(gate) && !yoke_stream_wait(streams[0], gate));
    WANT(!yoke_copy_to_device(streams[0], back, host, 64)); /* no memory of the device */
    WANT(!yoke_fill(streams[0], d, 8, N) && !yoke_event_record(event, streams[0]));
    WANT(!yoke_stream_wait(streams[1], event) && !yoke_fill(streams[1], d, 8, N));
    WANT(!yoke_event_signal(gate));
    WANT(yoke_event_query(event, &complete) == YOKE_EINVAL
         && strstr(yoke_last_error(), "yoke_copy_to_device"));
    for (int i = 0; i < 2; i++) {
        WANT(yoke_fill(streams[0], d, 8, N) == YOKE_EINVAL);
        WANT(strstr(yoke_last_error(), "yoke_copy_to_device, which had waited for an event"));
        WANT(strstr(yoke_last_error(), "no memory of this device"));
    }
    WANT(yoke_stream_sync(streams[0]) == YOKE_EINVAL && !yoke_stream_sync(streams[0]));
    WANT(yoke_stream_sync(streams[1]) == YOKE_EINVAL && strstr(yoke_last_error(), "yoke_copy_to_device"));
    WANT(holds(1, d)); /* nothing behind the error was done */
    WANT(!yoke_fill(streams[0], d, 8, N) && !yoke_stream_sync(streams[0]) && holds(8, d));
    WANT(!yoke_event_record(event, streams[0]) && !yoke_event_sync(event));
    return end();
}

static atomic_int signalled;

static void *signal_later(void *unused)
{
    (void)unused;
    usleep(100000);
    atomic_store(&signalled, 1);
    return (void *)(intptr_t)yoke_event_signal(gate);
}

/*
 * The queue is bounded. A call that finds no room blocks until the gate opens. All commands keep their order.
 */
static const char *bounded(void)
{
    enum { COMMANDS = 1500 };
    pthread_t thread;
    BEGIN(wrong);
    WANT(!yoke_event_arm(gate) && !yoke_stream_wait(streams[0], gate));
    WANT(!pthread_create(&thread, NULL, signal_later, NULL));
    for (int i = 0; i < COMMANDS; i++) {
        WANT(!yoke_fill(streams[0], d, (uint8_t)(i % 251), N));
        if (i > 1100) WANT(atomic_load(&signalled));
    }
    WANT(!yoke_stream_sync(streams[0]) && holds((COMMANDS - 1) % 251, d));
    pthread_join(thread, NULL);
    return end();
}

/* A foreign queue cannot be held back, so a call that waits for the host blocks. */
static const char *foreign(void)
{
    pthread_t thread;
    struct yoke_native native = YOKE_NATIVE_INIT;
    yoke_stream *wrapped;
    BEGIN(wrong);
    native.context = cuda_device(device)->context;
    native.device = (void *)(intptr_t)cuda_device(device)->id;
    native.queue = yokei_rt_stream(streams[1])->queue;
    WANT(!yoke_stream_wrap(device, &native, &wrapped));
    WANT(!yoke_event_arm(gate) && !yoke_stream_wait(streams[0], gate));
    WANT(!yoke_fill(streams[0], d, 5, N) && !yoke_event_record(event, streams[0]));
    atomic_store(&signalled, 0);
    WANT(!pthread_create(&thread, NULL, signal_later, NULL));
    WANT(!yoke_stream_wait(wrapped, event) && atomic_load(&signalled));
    WANT(!yoke_copy(wrapped, d + N, d, N) && !yoke_stream_sync(wrapped) && holds(5, d + N));
    pthread_join(thread, NULL);
    WANT(!yoke_stream_destroy(wrapped));
    return end();
}

static const char *(*const cases[])(void) = { arguments, chains, crossed, errors, bounded, foreign };

static void run_all(void **state)
{
    (void)state;
    static const char *const channels[] = { "1", "8" };
    for (size_t c = 0; c < YOKE_COUNT(channels); c++)
        for (size_t i = 0; i < YOKE_COUNT(cases); i++)
            cuda_in_child("CUDA_DEVICE_MAX_CONNECTIONS", channels[c], cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(run_all) };
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    setenv("YOKE_EMULATE_HOLD", "60", 1);
    return cmocka_run_group_tests_name("cuda_held", tests, NULL, NULL);
}
