/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in libamdhip64: streams, events, hardware queues, and pinned memory that is not coherent. A
 * program that assumes what HIP does not promise reads old bytes, hangs, or gets a fault that names the
 * missing wait.
 */
#include "tests/unit/emulate_hip.h"

#include <pthread.h>
#include <stdatomic.h>

/* A program that forgets to wait has a race, which the thread sanitizer reports as it should. */
#if defined __SANITIZE_THREAD__
#define FORGETS_TO_WAIT 0
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define FORGETS_TO_WAIT 0
#endif
#endif
#ifndef FORGETS_TO_WAIT
#define FORGETS_TO_WAIT 1
#endif

static hipStream_t streams[40];

static void make_streams(int n)
{
    for (int i = 0; i < n; i++) OK(hipStreamCreateWithFlags(&streams[i], hipStreamNonBlocking));
}

/* ---- order ---- */

static void missing_wait(void)
{
    void *words;
    make_streams(2);
    OK(hipMalloc(&words, 256));
    OK(hipMemsetD32Async(words, 1, 64, streams[0]));
    OK(hipStreamSynchronize(streams[0]));
    OK(hipMemsetD32Async(words, 2, 64, streams[0]));
    OK(add_one(kernel("add_one"), words, 64, streams[1]));
    GIVES(hipErrorLaunchFailure, hipDeviceSynchronize());
    CHECK(strstr(yoke_emulate_last_fault(), "a race between streams"));
    CHECK(strstr(yoke_emulate_last_fault(), "lacks a wait for stream"));
}

static void with_wait(void)
{
    void *words;
    uint32_t result[64];
    hipEvent_t event, later;
    float milliseconds;
    make_streams(2);
    OK(hipMalloc(&words, 256));
    OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    OK(hipEventCreate(&later));
    GIVES(hipErrorInvalidValue, hipEventCreateWithFlags(&later, 64));
    OK(hipMemsetD32Async(words, 2, 64, streams[0]));
    OK(hipEventRecord(event, streams[0]));
    OK(hipStreamWaitEvent(streams[1], event, 0));
    OK(add_one(kernel("add_one"), words, 64, streams[1]));
    OK(hipEventRecord(later, streams[1]));
    OK(hipEventSynchronize(later));
    OK(hipEventQuery(event));
    GIVES(hipErrorInvalidHandle, hipEventElapsedTime(&milliseconds, event, later));
    OK(hipEventRecord(later, streams[1]));
    OK(hipEventSynchronize(later));
    OK(hipEventElapsedTime(&milliseconds, later, later));
    CHECK(milliseconds == 0);
    OK(hipMemcpyDtoH(result, words, sizeof result));
    CHECK(result[63] == 3);
    OK(hipEventDestroy(event));
    OK(hipEventDestroy(later));
    GIVES(hipErrorInvalidHandle, hipEventDestroy(later));
}

/* The null stream is ordered with the blocking streams. */
static void null_stream(void)
{
    void *words;
    uint32_t result[64];
    hipStream_t blocking;
    OK(hipMalloc(&words, 256));
    OK(hipStreamCreate(&blocking));
    OK(hipMemsetD32Async(words, 4, 64, blocking));
    OK(add_one(kernel("add_one"), words, 64, NULL));
    OK(add_one(kernel("add_one"), words, 64, blocking));
    OK(hipMemcpyDtoH(result, words, sizeof result));
    CHECK(result[0] == 6);
}

static int called;
static hipError_t status_seen = hipErrorUnknown, inside = hipSuccess;

static void host_function(void *user_data)
{
    void *memory;
    called += *(int *)user_data;
    inside = hipMalloc(&memory, 16);
}

static void callback(hipStream_t stream, hipError_t status, void *user_data)
{
    CHECK(stream == streams[0]);
    status_seen = status;
    called += *(int *)user_data;
}

static void functions(void)
{
    int by = 5;
    make_streams(1);
    OK(hipLaunchHostFunc(streams[0], host_function, &by));
    OK(hipStreamAddCallback(streams[0], callback, &by, 0));
    GIVES(hipErrorInvalidValue, hipStreamAddCallback(streams[0], callback, &by, 1));
    GIVES(hipErrorInvalidValue, hipLaunchHostFunc(streams[0], NULL, &by));
    OK(hipStreamSynchronize(streams[0]));
    CHECK(called == 10 && status_seen == hipSuccess && inside == hipErrorIllegalState);
}

static void test_order(void **state)
{
    (void)state;
    if (FORGETS_TO_WAIT) run_case("", missing_wait);
    run_case("YOKE_EMULATE_DELAY_US=2000", with_wait);
    run_case("YOKE_EMULATE_DELAY_US=2000", null_stream);
    run_case("", functions);
}

/* ---- hardware queues ---- */

static uint32_t *word;
static void *word_at, *memory;

static void make_word(void)
{
    void *host;
    OK(hipHostMalloc(&host, 64, hipHostMallocCoherent));
    OK(hipHostGetDevicePointer(&word_at, host, 0));
    OK(hipMalloc(&memory, 256));
    word = host;
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
}

/* Five streams on four queues: some two of them share one. */
static void hangs(void)
{
    int first = 0, second = 1;
    make_streams(5);
    make_word();
    for (second = 1; second < 5; second++) {
        for (first = 0; first < second; first++)
            if (yoke_emulate_channel(streams[first]) == yoke_emulate_channel(streams[second])) break;
        if (first < second) break;
    }
    CHECK(second < 5);
    OK(hipStreamWaitValue32(streams[first], word_at, 1, hipStreamWaitValueGte, UINT32_MAX));
    OK(hipMemsetD32Async(memory, 7, 64, streams[second]));
    GIVES(hipErrorLaunchTimeOut, hipStreamSynchronize(streams[second]));
    CHECK(strstr(yoke_emulate_last_fault(), "both are mapped to channel"));
}

static void goes_on(void)
{
    make_streams(2);
    make_word();
    OK(hipStreamWaitValue32(streams[0], word_at, 1, hipStreamWaitValueEq, UINT32_MAX));
    GIVES(hipErrorNotSupported, hipStreamWaitValue32(streams[0], word_at, 1, hipStreamWaitValueEq, 1));
    OK(hipMemsetD32Async(memory, 7, 64, streams[0]));
    GIVES(hipErrorNotReady, hipStreamQuery(streams[0]));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(streams[0]));
    OK(hipStreamWriteValue32(streams[0], word_at, 9, 0));
    OK(hipStreamSynchronize(streams[0]));
    CHECK(__atomic_load_n(word, __ATOMIC_SEQ_CST) == 9);
}

static void queues(void)
{
    uint32_t used = 0;
    make_streams(40);
    for (int i = 0; i < 40; i++) used |= 1u << yoke_emulate_channel(streams[i]);
    CHECK(used == 15);
}

static void test_queues(void **state)
{
    (void)state;
    run_case("YOKE_EMULATE_HOLD=1", hangs);
    run_case("YOKE_EMULATE_HOLD=1 GPU_MAX_HW_QUEUES=1", hangs);
    run_case("", goes_on);
    run_case("YOKE_EMULATE_CHANNELS=1", queues);
}

/* ---- coherence ---- */

static volatile uint32_t *pinned;
static void *device;

static void make_pinned(unsigned flags)
{
    void *host;
    make_streams(1);
    OK(hipHostMalloc(&host, 8192, flags));
    OK(hipMalloc(&device, 256));
    OK(hipMemsetD32Async(device, 7, 64, streams[0]));
    OK(hipStreamSynchronize(streams[0]));
    pinned = host;
}

static hipEvent_t record(unsigned flags)
{
    hipEvent_t event;
    OK(hipEventCreateWithFlags(&event, flags | hipEventDisableTiming));
    OK(hipEventRecord(event, streams[0]));
    return event;
}

/* Wait until the stream has done all so far, without a call that synchronises. */
static void let_pass(void)
{
    const uint64_t before = yoke_emulate_counts("add_one", NULL);
    OK(add_one(kernel("add_one"), device, 64, streams[0]));
    while (yoke_emulate_counts("add_one", NULL) == before) usleep(1000);
}

static void copy_out(void)
{
    make_pinned(hipHostMallocNonCoherent);
    OK(hipMemcpyAsync((void *)pinned, device, 256, hipMemcpyDeviceToHost, streams[0]));
    let_pass();
    CHECK(pinned[0] == 0 && pinned[63] == 0); /* a program that does not wait reads old bytes */
    hipEvent_t local = record(hipEventReleaseToDevice);
    OK(hipEventSynchronize(local));
    CHECK(pinned[0] == 0); /* this event is for the device alone */
    local = record(0);
    OK(hipEventSynchronize(local));
    CHECK(pinned[0] == 0); /* and this one, with ROC_EVENT_NO_FLUSH */
    pinned[1000] = 3;      /* the host's own bytes stay */
    OK(hipStreamSynchronize(streams[0]));
    CHECK(pinned[0] == 7 && pinned[63] == 7 && pinned[64] == 0 && pinned[1000] == 3);
}

static void copy_out_event(void)
{
    make_pinned(hipHostMallocNonCoherent);
    OK(hipMemcpyAsync((void *)pinned, device, 256, hipMemcpyDeviceToHost, streams[0]));
    hipEvent_t event = record(hipEventReleaseToSystem);
    OK(hipMemcpyAsync((void *)(pinned + 64), device, 256, hipMemcpyDeviceToHost, streams[0]));
    let_pass();
    OK(hipEventSynchronize(event));
    CHECK(pinned[0] == 7 && pinned[64] == 0); /* the event covers the first copy alone */
    OK(hipStreamSynchronize(streams[0]));
    CHECK(pinned[64] == 7);
}

/* What a copy has read is what the host had written when the copy was submitted. */
static void copy_in(void)
{
    uint32_t result[64];
    make_pinned(hipHostMallocNonCoherent);
    make_word();
    for (int i = 0; i < 64; i++) pinned[i] = 1;
    OK(hipStreamWaitValue32(streams[0], word_at, 1, hipStreamWaitValueEq, UINT32_MAX));
    OK(hipMemcpyAsync(device, (void *)pinned, 256, hipMemcpyHostToDevice, streams[0]));
    for (int i = 0; i < 64; i++) pinned[i] = 2; /* too late */
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    OK(hipStreamSynchronize(streams[0]));
    OK(hipMemcpyDtoH(result, device, sizeof result));
    CHECK(result[0] == 1 && result[63] == 1 && pinned[0] == 2);
    OK(hipMemcpyAsync(device, (void *)pinned, 256, hipMemcpyHostToDevice, streams[0]));
    OK(hipStreamSynchronize(streams[0]));
    OK(hipMemcpyDtoH(result, device, sizeof result));
    CHECK(result[0] == 2);
}

static void fill_pinned(void *value)
{
    for (int i = 0; i < 64; i++) pinned[i] = *(uint32_t *)value;
}

/* A command behind a function of the program sees what the function wrote, also in another stream. */
static void copy_behind_function(void)
{
    uint32_t result[64], value = 5, other = 8;
    hipStream_t second;
    make_pinned(hipHostMallocNonCoherent);
    OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    OK(hipLaunchHostFunc(streams[0], fill_pinned, &value));
    OK(hipMemcpyAsync(device, (void *)pinned, 256, hipMemcpyHostToDevice, streams[0]));
    hipEvent_t event = record(hipEventReleaseToSystem);
    OK(hipLaunchHostFunc(streams[0], fill_pinned, &other));
    OK(hipStreamWaitEvent(second, event, 0));
    OK(add_one(kernel("add_one"), device, 64, second));
    event = record(hipEventReleaseToSystem);
    OK(hipStreamWaitEvent(second, event, 0));
    OK(hipMemcpyAsync((char *)device, (void *)pinned, 128, hipMemcpyHostToDevice, second));
    OK(hipStreamSynchronize(second));
    OK(hipMemcpyDtoH(result, device, sizeof result));
    CHECK(result[0] == 8 && result[31] == 8 && result[32] == 6 && result[63] == 6);
}

static atomic_bool has_begun, may_go_on;

static void fill_slowly(void *value)
{
    atomic_store(&has_begun, true);
    while (!atomic_load(&may_go_on)) usleep(1000);
    fill_pinned(value);
}

/* The copy is submitted while the function runs. */
static void copy_while_function_runs(void)
{
    uint32_t result[64], value = 5;
    make_pinned(hipHostMallocNonCoherent);
    OK(hipLaunchHostFunc(streams[0], fill_slowly, &value));
    while (!atomic_load(&has_begun)) usleep(1000);
    OK(hipMemcpyAsync(device, (void *)pinned, 256, hipMemcpyHostToDevice, streams[0]));
    atomic_store(&may_go_on, true);
    OK(hipStreamSynchronize(streams[0]));
    OK(hipMemcpyDtoH(result, device, sizeof result));
    CHECK(result[0] == 5 && result[63] == 5);
}

static atomic_bool has_waited;

static void *synchronize(void *stream)
{
    OK(hipStreamSynchronize(stream));
    atomic_store(&has_waited, true);
    return NULL;
}

/* Another thread's wait covers what the stream has done, and not the function that it has begun. */
static void copy_while_another_waits(void)
{
    uint32_t result[64], value = 5;
    pthread_t thread;
    make_pinned(hipHostMallocNonCoherent);
    make_word();
    OK(hipStreamWaitValue32(streams[0], word_at, 1, hipStreamWaitValueEq, UINT32_MAX));
    CHECK(!pthread_create(&thread, NULL, synchronize, streams[0]));
    usleep(20000); /* The other thread waits now. If it begins later, the case tests nothing. */
    OK(hipLaunchHostFunc(streams[0], fill_slowly, &value));
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    while (!atomic_load(&has_begun)) usleep(1000);
    for (int i = 0; i < 500 && !atomic_load(&has_waited); i++) usleep(1000);
    OK(hipMemcpyAsync(device, (void *)pinned, 256, hipMemcpyHostToDevice, streams[0]));
    atomic_store(&may_go_on, true);
    CHECK(!pthread_join(thread, NULL));
    OK(hipStreamSynchronize(streams[0]));
    OK(hipMemcpyDtoH(result, device, sizeof result));
    CHECK(result[0] == 5 && result[63] == 5);
}

static uint32_t seen;

static void look(void *unused)
{
    (void)unused;
    seen = pinned[0];
}

/* A function of the program sees what came before an event that releases to the system. */
static void function_behind_copy(void)
{
    hipStream_t second;
    make_pinned(hipHostMallocNonCoherent);
    OK(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    OK(hipMemcpyAsync((void *)pinned, device, 256, hipMemcpyDeviceToHost, streams[0]));
    OK(hipLaunchHostFunc(streams[0], look, NULL));
    hipEvent_t local = record(hipEventReleaseToDevice);
    OK(hipEventSynchronize(local));
    CHECK(seen == 0);
    OK(hipStreamWaitEvent(second, local, 0));
    OK(hipLaunchHostFunc(second, look, NULL));
    OK(hipEventRecord(local, second));
    OK(hipEventSynchronize(local));
    CHECK(seen == 0); /* no event of these two streams is for the system */
    hipEvent_t event = record(hipEventReleaseToSystem);
    OK(hipStreamWaitEvent(second, event, 0));
    OK(hipLaunchHostFunc(second, look, NULL));
    OK(hipEventRecord(local, second));
    OK(hipEventSynchronize(local));
    CHECK(seen == 7);
}

/* A query of the stream only says that the stream has ended. */
static void query(void)
{
    make_pinned(hipHostMallocNonCoherent);
    OK(hipMemcpyAsync((void *)pinned, device, 256, hipMemcpyDeviceToHost, streams[0]));
    while (hipStreamQuery(streams[0])) usleep(1000);
    CHECK(pinned[0] == 0);
    OK(hipStreamSynchronize(streams[0]));
    CHECK(pinned[0] == 7);
}

/* Bytes that the device has not released may be written back over what the host has written since. */
static void late_release(void)
{
    make_pinned(hipHostMallocNonCoherent);
    OK(hipMemcpyAsync((void *)pinned, device, 128, hipMemcpyDeviceToHost, streams[0]));
    hipEvent_t local = record(hipEventReleaseToDevice);
    OK(hipEventSynchronize(local));
    pinned[0] = pinned[32] = 9;
    OK(hipStreamSynchronize(streams[0]));
    CHECK(pinned[0] == 7 && pinned[32] == 9);
}

/* Mapped memory is coherent, and memory with other flags is not. */
static void flags(void)
{
    static const struct {
        unsigned flags, seen;
    } cases[] = { { hipHostMallocMapped, 7 },
                  { hipHostMallocPortable | hipHostMallocCoherent, 7 },
                  { hipHostMallocPortable, 0 },
                  { hipHostMallocPortable | hipHostMallocNonCoherent, 0 },
                  { hipHostMallocMapped | hipHostMallocNonCoherent, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        make_pinned(cases[i].flags);
        OK(hipMemcpyAsync((void *)pinned, device, 256, hipMemcpyDeviceToHost, streams[0]));
        let_pass();
        CHECK(pinned[0] == cases[i].seen);
        OK(hipStreamSynchronize(streams[0]));
    }
}

static void kernels(void)
{
    void *at;
    make_pinned(hipHostMallocNonCoherent);
    OK(hipHostGetDevicePointer(&at, (void *)pinned, 0));
    for (int i = 0; i < 64; i++) pinned[i] = 10;
    OK(add_one(kernel("add_one"), at, 64, streams[0]));
    while (!yoke_emulate_counts("add_one", NULL)) usleep(1000);
    CHECK(pinned[5] == 10);
    OK(hipStreamSynchronize(streams[0]));
    CHECK(pinned[5] == 11);
    pinned[5] = 20;
    OK(add_one(kernel("add_one"), at, 64, streams[0]));
    OK(hipDeviceSynchronize());
    CHECK(pinned[5] == 21 && pinned[6] == 12);
}

static void coherent(void)
{
    make_pinned(0);
    OK(hipMemcpyAsync((void *)pinned, device, 256, hipMemcpyDeviceToHost, streams[0]));
    let_pass();
    CHECK(pinned[0] == 7 && pinned[63] == 7);
}

static void test_coherence(void **state)
{
    (void)state;
    run_case("", copy_out);
    run_case("", copy_out_event);
    run_case("", copy_in);
    run_case("YOKE_EMULATE_DELAY_US=2000", copy_behind_function);
    run_case("", copy_while_function_runs);
    run_case("", copy_while_another_waits);
    run_case("", function_behind_copy);
    run_case("", query);
    run_case("", late_release);
    run_case("", flags);
    run_case("", kernels);
    run_case("", coherent);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_order), cmocka_unit_test(test_queues),
                                        cmocka_unit_test(test_coherence) };
    return cmocka_run_group_tests_name("emulate_hip_streams", tests, NULL, NULL);
}
