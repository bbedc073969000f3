/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in CUDA driver: the order of commands. A program that does not wait where it must gets a fault
 * that names both commands and the missing wait, whichever command runs first. Each case runs with several
 * seeds of the random delays.
 */
#include "tests/unit/emulate_cuda.h"

#include <dirent.h>
#include <pthread.h>
#include <time.h>

enum { N = 256, SEEDS = 8 };

/* The programs below that forget to wait have races, which the thread sanitizer reports as it should. */
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

enum { EARLY = 3, NAMED = 4 };

/* A call of the driver. The program ends with NAMED if the call returns a race that the driver has named. */
static void call(CUresult result)
{
    if (!result) return;
    CHECK(result == CUDA_ERROR_LAUNCH_FAILED);
    const char *text = cu.last_fault();
    CHECK(strstr(text, "a race between streams: a "));
    CHECK(strstr(text, "and nothing orders the two commands. Stream "));
    CHECK(strstr(text, " lacks a wait for stream "));
    fflush(stdout);
    _exit(NAMED);
}

/* Two streams: the first fills, the second copies. Exits with EARLY if the copy came too early. */
static bool with_event;
static unsigned first_flags = CU_STREAM_NON_BLOCKING, second_flags = CU_STREAM_NON_BLOCKING;
static bool first_is_legacy;

static void two_streams(void)
{
    start(0);
    CUstream first = NULL, second;
    CUevent event;
    CUdeviceptr p, q;
    uint32_t back[N];
    if (!first_is_legacy) OK(cu.cuStreamCreate(&first, first_flags));
    OK(cu.cuStreamCreate(&second, second_flags));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuMemAlloc_v2(&p, sizeof back));
    OK(cu.cuMemAlloc_v2(&q, sizeof back));
    OK(cu.cuMemsetD32Async(p, 1, N, first));
    OK(cu.cuCtxSynchronize());
    bool early = false;
    for (int i = 2; i < 12; i++) {
        call(cu.cuMemsetD32Async(p, (unsigned)i, N, first));
        if (with_event) {
            OK(cu.cuEventRecord(event, first));
            OK(cu.cuStreamWaitEvent(second, event, 0));
        }
        call(cu.cuMemcpyDtoDAsync_v2(q, p, sizeof back, second));
        call(cu.cuStreamSynchronize(second));
        call(cu.cuMemcpyDtoHAsync_v2(back, q, sizeof back, second));
        for (int j = 0; j < N; j++) early = early || back[j] != (uint32_t)i;
    }
    call(cu.cuCtxSynchronize());
    fflush(stdout);
    if (early) _exit(EARLY);
}

/* Whether all seeds end so: with 0, or with NAMED. */
static void check_seeds(int wanted, bool event, unsigned first, unsigned second, bool legacy)
{
    with_event = event;
    first_flags = first;
    second_flags = second;
    first_is_legacy = legacy;
    for (int seed = 0; seed < SEEDS; seed++) {
        char variables[128];
        snprintf(variables, sizeof variables, "YOKE_EMULATE_SEED=%d YOKE_EMULATE_DELAY_US=800", seed);
        const int status = run_status(variables, two_streams);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), wanted);
    }
}

static void test_events(void **state)
{
    (void)state;
    check_seeds(0, true, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, false);
    if (!FORGETS_TO_WAIT) return;
    check_seeds(NAMED, false, CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, false);
    check_seeds(NAMED, false, 0, 0, false);
}

static void test_legacy(void **state)
{
    (void)state;
    /* A blocking stream waits for the legacy stream, and a non-blocking one does not. */
    check_seeds(0, false, 0, 0, true);
    if (FORGETS_TO_WAIT) check_seeds(NAMED, false, 0, CU_STREAM_NON_BLOCKING, true);
}

/* The other direction: the legacy stream waits for the blocking stream. Exits with EARLY if it did not. */
static void legacy_second(void)
{
    start(0);
    CUstream stream;
    CUdeviceptr p;
    uint32_t back;
    OK(cu.cuStreamCreate(&stream, first_flags));
    OK(cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuMemsetD32Async(p, 0, 1, NULL));
    OK(cu.cuCtxSynchronize());
    bool early = false;
    for (uint32_t i = 1; i < 12; i++) {
        call(cu.cuMemsetD32Async(p, i, 1, stream));
        call(cu.cuMemcpyDtoH_v2(&back, p, 4));
        early = early || back != i;
    }
    call(cu.cuCtxSynchronize());
    if (early) _exit(EARLY);
}

static void test_legacy_second(void **state)
{
    (void)state;
    for (int seed = 0; seed < SEEDS; seed++) {
        char variables[128];
        snprintf(variables, sizeof variables, "YOKE_EMULATE_SEED=%d YOKE_EMULATE_DELAY_US=800", seed);
        for (unsigned flags = 0; flags < 1 + FORGETS_TO_WAIT; flags++) {
            first_flags = flags;
            const int status = run_status(variables, legacy_second);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), flags == CU_STREAM_NON_BLOCKING ? NAMED : 0);
        }
    }
}

static uint64_t milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static volatile uint32_t go;
static volatile int called, nested;

static void wait_for_go(void *data)
{
    int n;
    (void)data;
    nested = cu.cuDeviceGetCount(&n);
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) usleep(1000);
    __atomic_add_fetch(&called, 1, __ATOMIC_RELEASE);
}

static void stream_calls(void)
{
    CUcontext context = start(0), got;
    CUstream stream;
    CUevent event, second;
    unsigned flags;
    float elapsed;
    int least, greatest;
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(least == 0 && greatest < 0);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuStreamCreate(&stream, 2));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuStreamCreate(NULL, 0));
    OK(cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest));
    OK(cu.cuStreamGetFlags(stream, &flags));
    OK(cu.cuStreamGetCtx(stream, &got));
    CHECK(flags == CU_STREAM_NON_BLOCKING && got == context);
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, 8));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuEventCreate(&event, CU_EVENT_INTERPROCESS));
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuEventCreate(&second, CU_EVENT_BLOCKING_SYNC));
    /* An event that was never recorded is complete, but has no time. */
    OK(cu.cuEventQuery(event));
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuStreamWaitEvent(stream, event, 0));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&elapsed, event, second));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitEvent(stream, event, 7));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord((CUevent)stream, stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery((CUstream)event));
}

static int count_threads(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) n += entry->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void *end_at_once(void *argument) { return argument; }

static void stream_holds(void)
{
    /* A sanitizer starts a thread of its own with the first thread. */
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, end_at_once, NULL));
    pthread_join(thread, NULL);
    const int threads = count_threads();
    start(0);
    CUstream stream, other;
    CUevent event, second, untimed;
    float elapsed;
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&other, 0));
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuEventCreate(&second, CU_EVENT_BLOCKING_SYNC));
    OK(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    /* The stream is held by a function of the host. */
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuEventSynchronize(event));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuLaunchHostFunc(stream, NULL, NULL));
    OK(cu.cuLaunchHostFunc(stream, wait_for_go, NULL));
    OK(cu.cuEventRecord(second, stream));
    OK(cu.cuEventRecord(untimed, stream));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuEventQuery(second));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuEventElapsedTime(&elapsed, event, second));
    OK(cu.cuStreamQuery(other));
    OK(cu.cuStreamQuery(NULL)); /* the legacy stream does not wait for a non-blocking one */
    CHECK(!called);
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    OK(cu.cuEventSynchronize(second));
    CHECK(called == 1 && nested == CUDA_ERROR_NOT_PERMITTED);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuEventElapsedTime_v2(&elapsed, event, second));
    CHECK(elapsed > 0);
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventElapsedTime(&elapsed, event, untimed));
    /* A destroyed stream still does what it was given. */
    go = 0;
    OK(cu.cuLaunchHostFunc(stream, wait_for_go, NULL));
    OK(cu.cuEventRecord(second, stream));
    OK(cu.cuStreamDestroy_v2(stream));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamQuery(stream));
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    OK(cu.cuEventSynchronize(second));
    CHECK(called == 2);
    OK(cu.cuEventDestroy_v2(second));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventDestroy_v2(second));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuStreamDestroy_v2(NULL));
    for (int i = 0; i < 200; i++) { /* threads end */
        OK(cu.cuStreamCreate(&stream, 0));
        OK(cu.cuEventRecord(event, stream));
        OK(cu.cuStreamDestroy_v2(stream));
    }
    OK(cu.cuStreamCreate(&stream, 0));
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
    /* The threads end with the context. */
    while (count_threads() > threads) usleep(1000);
}

static void *set_value(void *word)
{
    usleep(20000);
    __atomic_store_n((uint32_t *)word, 5, __ATOMIC_RELEASE);
    return NULL;
}

static void values(void)
{
    start(0);
    CUstream a, b;
    uint32_t *host, back;
    CUdeviceptr p;
    OK(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemHostAlloc((void **)&host, 64, 0));
    OK(cu.cuMemAlloc_v2(&p, 64));
    OK(cu.cuMemsetD8Async(p, 0, 64, a));
    OK(cu.cuStreamSynchronize(a));
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)host;
    host[0] = 0;
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitValue32_v2(a, at + 1, 5, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitValue32_v2(a, at, 5, 4));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWriteValue32_v2(a, at + 64, 5, 0));
    GIVES(CUDA_ERROR_INVALID_VALUE,
          cu.cuStreamWriteValue32_v2(a, p, 5, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
    /* The host sets the first value, and then the streams wake each other. */
    OK(cu.cuStreamWaitValue32_v2(a, at, 5, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu.cuStreamWriteValue32_v2(a, p, 0x80, 0));
    OK(cu.cuStreamWaitValue32_v2(b, p, 0x180, CU_STREAM_WAIT_VALUE_AND));
    OK(cu.cuStreamWriteValue32_v2(b, p + 4, 9, 0));
    OK(cu.cuStreamWaitValue32_v2(a, p + 4, 7, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu.cuStreamWaitValue32_v2(a, p + 4, 0, CU_STREAM_WAIT_VALUE_NOR));
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(b));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, set_value, host));
    OK(cu.cuStreamSynchronize(a));
    OK(cu.cuMemcpyDtoH_v2(&back, p + 4, 4));
    CHECK(back == 9);
    pthread_join(thread, NULL);
    /* The release of the context does not wait for a value that never comes. */
    OK(cu.cuStreamWaitValue32_v2(a, at, 77, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

/*
 * A copy from pinned memory reads it when its turn comes; a copy from other memory has read it at the
 * call.
 */
static void sources(void)
{
    start(0);
    CUstream stream;
    CUdeviceptr p;
    uint32_t *pinned, pageable = 1, back[2];
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemHostAlloc((void **)&pinned, 4, 0));
    OK(cu.cuMemAlloc_v2(&p, 8));
    *pinned = 1;
    OK(cu.cuLaunchHostFunc(stream, wait_for_go, NULL));
    OK(cu.cuMemcpyHtoDAsync_v2(p, pinned, 4, stream));
    OK(cu.cuMemcpyHtoDAsync_v2(p + 4, &pageable, 4, stream));
    *pinned = pageable = 2;
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    OK(cu.cuMemcpyDtoHAsync_v2(back, p, 8, stream));
    CHECK(back[0] == 2 && back[1] == 1);
}

/* Two devices, copies between them, and a fault that leaves the other device alone. */
static void two_devices(void)
{
    CUcontext first = start(0), second;
    CUdeviceptr p, q;
    CUevent event;
    CUstream a, b;
    uint32_t word = 4, back;
    CUfunction add = kernel("add_one");
    OK(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuMemcpyHtoDAsync_v2(p, &word, 4, a));
    OK(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuEventRecord(event, a));
    OK(cu.cuDevicePrimaryCtxRetain(&second, 1));
    OK(cu.cuCtxSetCurrent(second));
    OK(cu.cuMemAlloc_v2(&q, 4));
    OK(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    GIVES(CUDA_ERROR_INVALID_HANDLE, cu.cuEventRecord(event, b));
    GIVES(CUDA_ERROR_INVALID_HANDLE, add_one(add, p, 1, b));
    OK(cu.cuStreamWaitEvent(b, event, 0));
    OK(cu.cuMemcpyDtoDAsync_v2(q, p, 4, b));
    OK(cu.cuMemcpyDtoHAsync_v2(&back, q, 4, b));
    CHECK(back == 4);
    /* A kernel of the first device may not touch the memory of the second. */
    OK(cu.cuCtxSetCurrent(first));
    OK(add_one(add, q, 1, a));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    OK(cu.cuCtxSetCurrent(second));
    OK(cu.cuMemcpyDtoH_v2(&back, q, 4));
    CHECK(back == 4);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuEventQuery(event));
}

/* After a fault the commands that wait are not executed, and nobody waits for ever. */
static void fault_while_waiting(void)
{
    start(0);
    CUstream a, b;
    CUevent event;
    CUdeviceptr p, never;
    OK(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    /* on another channel, where the wait does not hold up the kernel */
    do OK(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    while (cu.channel(a) == cu.channel(b));
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuMemAlloc_v2(&never, 4));
    OK(cu.cuMemsetD8Async(never, 0, 4, b));
    CUfunction add = kernel("add_one");
    OK(cu.cuStreamWaitValue32_v2(b, never, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu.cuLaunchHostFunc(b, wait_for_go, NULL)); /* never called; it would not return */
    OK(cu.cuEventRecord(event, b));
    OK(add_one(add, p + 512, 1, a));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuEventSynchronize(event));
    CHECK(!called);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuDevicePrimaryCtxRelease_v2(0));
}

/* A thread that waits sleeps: it takes no processor time. */
static void sleeps(void)
{
    start(0);
    CUstream stream;
    OK(cu.cuStreamCreate(&stream, 0));
    OK(cu.cuLaunchHostFunc(stream, wait_for_go, NULL));
    pthread_t thread;
    struct timespec before, after;
    const uint64_t begin = milliseconds();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    CHECK(!pthread_create(&thread, NULL, set_value, (void *)&go));
    OK(cu.cuStreamSynchronize(stream));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    pthread_join(thread, NULL);
    CHECK(milliseconds() - begin >= 19);
    CHECK((after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec < 10000000);
}

/* Several threads of the host, each with a stream and memory of its own. */
static CUcontext shared_context;
static CUfunction shared_kernel;

static void *host_thread(void *argument)
{
    const uint32_t number = *(const uint32_t *)argument;
    OK(cu.cuCtxPushCurrent_v2(shared_context));
    for (uint32_t i = 0; i < 25; i++) {
        CUstream stream;
        CUevent event;
        CUdeviceptr p;
        uint32_t words[N], back[N];
        for (uint32_t j = 0; j < N; j++) words[j] = number * 1000 + i + j;
        OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cu.cuEventCreate(&event, 0));
        OK(cu.cuMemAlloc_v2(&p, sizeof words));
        OK(cu.cuMemcpyHtoDAsync_v2(p, words, sizeof words, stream));
        OK(add_one(shared_kernel, p, N, stream));
        OK(cu.cuEventRecord(event, stream));
        OK(cu.cuEventSynchronize(event));
        OK(cu.cuMemcpyDtoHAsync_v2(back, p, sizeof back, stream));
        for (uint32_t j = 0; j < N; j++) CHECK(back[j] == words[j] + 1);
        OK(cu.cuMemFree_v2(p));
        OK(cu.cuEventDestroy_v2(event));
        OK(cu.cuStreamDestroy_v2(stream));
    }
    return NULL;
}

static void many_threads(void)
{
    shared_context = start(0);
    shared_kernel = kernel("add_one");
    pthread_t threads[4];
    uint32_t numbers[4] = { 1, 2, 3, 4 };
    for (int i = 0; i < 4; i++) CHECK(!pthread_create(&threads[i], NULL, host_thread, &numbers[i]));
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK(cu.counts("add_one", NULL) == 100);
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

/* Two processes use the device at the same time. */
static void two_processes(void)
{
    const pid_t child = fork();
    start(0);
    CUdeviceptr p;
    uint32_t word = child ? 1000 : 2000, back;
    CUfunction add = kernel("add_one");
    OK(cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuMemcpyHtoD_v2(p, &word, 4));
    for (int i = 0; i < 50; i++) OK(add_one(add, p, 1, NULL));
    OK(cu.cuMemcpyDtoH_v2(&back, p, 4));
    CHECK(back == word + 50);
    if (!child) _exit(0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && !status);
}

static void test_streams(void **state)
{
    (void)state;
    run_case("", stream_calls);
    run_case("", stream_holds);
    run_case("YOKE_EMULATE_DELAY_US=300", values);
    run_case("", sources);
    run_case("YOKE_EMULATE_DEVICES=2", two_devices);
    run_case("", fault_while_waiting);
    run_case("", sleeps);
    run_case("", two_processes);
    run_case("", many_threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_legacy_second),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
