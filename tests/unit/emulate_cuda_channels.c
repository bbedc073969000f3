/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in CUDA driver: streams that share a hardware channel. A wait for a value holds up the later
 * commands of its channel. A program that lets the value depend on one of them hangs, and the driver says so.
 */
#include "tests/unit/emulate_cuda.h"

enum { STREAMS = 40 };

static CUstream streams[STREAMS];
static uint32_t *word;     /* pinned */
static CUdeviceptr at;     /* the same word for the device */
static CUdeviceptr memory; /* 64 words */

static void begin(int n)
{
    void *host;
    start(0);
    for (int i = 0; i < n; i++) OK(cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    OK(cu.cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cu.cuMemHostGetDevicePointer_v2(&at, host, 0));
    OK(cu.cuMemAlloc_v2(&memory, 256));
    word = host;
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
}

static void open_gate(void) { __atomic_store_n(word, 1, __ATOMIC_SEQ_CST); }

/* The first two streams that share a channel, or that do not. */
static void find_pair(int n, bool shared, int *first, int *second)
{
    for (*second = 1; *second < n; ++*second)
        for (*first = 0; *first < *second; ++*first)
            if ((cu.channel(streams[*first]) == cu.channel(streams[*second])) == shared) return;
    CHECK(!"such a pair");
}

/* The planted error: the host writes the value only when a copy has ended that the wait holds up. */
static void hangs(void)
{
    int a, b;
    begin(STREAMS);
    find_pair(STREAMS, true, &a, &b);
    OK(cu.cuStreamWaitValue32_v2(streams[a], at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu.cuMemsetD32Async(memory, 7, 64, streams[b]));
    GIVES(CUDA_ERROR_LAUNCH_TIMEOUT, cu.cuStreamSynchronize(streams[b]));
    CHECK(strstr(cu.last_fault(), "both are mapped to channel"));
    CHECK(strstr(cu.last_fault(), "YOKE_EMULATE_CHANNELS=5"));
}

/* The same on two channels, and with the wait behind the other command, ends. */
static void ends(void)
{
    int a, b;
    begin(STREAMS);
    find_pair(STREAMS, false, &a, &b);
    OK(cu.cuStreamWaitValue32_v2(streams[a], at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu.cuMemsetD32Async(memory, 7, 64, streams[b]));
    OK(cu.cuStreamSynchronize(streams[b]));
    open_gate();
    OK(cu.cuCtxSynchronize());
    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    find_pair(STREAMS, true, &a, &b);
    OK(cu.cuMemsetD32Async(memory, 8, 64, streams[b]));
    OK(cu.cuStreamWaitValue32_v2(streams[a], at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu.cuStreamSynchronize(streams[b]));
    open_gate();
    OK(cu.cuCtxSynchronize());
}

/* A held command runs when the value comes, and not before. A command of the stream itself is in order. */
static void goes_on(void)
{
    int a, b;
    begin(STREAMS);
    find_pair(STREAMS, true, &a, &b);
    OK(cu.cuStreamWaitValue32_v2(streams[a], at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu.cuMemsetD32Async(memory, 7, 32, streams[a]));
    OK(cu.cuMemsetD32Async(memory + 128, 8, 32, streams[b]));
    usleep(20000);
    GIVES(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(streams[b]));
    open_gate();
    OK(cu.cuStreamSynchronize(streams[b]));
    OK(cu.cuStreamSynchronize(streams[a]));
}

/* Ending the context ends a wait that holds others up. */
static void ends_context(void)
{
    int a, b;
    begin(STREAMS);
    find_pair(STREAMS, true, &a, &b);
    OK(cu.cuStreamWaitValue32_v2(streams[a], at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu.cuMemsetD32Async(memory, 8, 64, streams[b]));
    OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

static int wanted; /* number of channels */

static void counts(void)
{
    uint32_t used = 0;
    begin(STREAMS);
    for (int i = 0; i < STREAMS; i++) {
        const int channel = cu.channel(streams[i]);
        CHECK(channel >= 0 && channel < wanted);
        used |= 1u << channel;
    }
    CHECK(wanted > 8 || used == (wanted == 32 ? ~0u : (1u << wanted) - 1));
    CHECK(cu.channel((CUstream)word) == -1);
}

static void refuses(void) { GIVES(CUDA_ERROR_INVALID_VALUE, cu.cuInit(0)); }

static void test_hangs(void **state)
{
    (void)state;
    run_case("YOKE_EMULATE_CHANNELS=5 YOKE_EMULATE_HOLD=1 CUDA_DEVICE_MAX_CONNECTIONS=1", hangs);
    run_case("YOKE_EMULATE_CHANNELS=5 YOKE_EMULATE_HOLD=1", hangs);
}

static void test_goes_on(void **state)
{
    (void)state;
    run_case("", ends);
    run_case("", goes_on);
    run_case("", ends_context);
    run_case("CUDA_DEVICE_MAX_CONNECTIONS=1", goes_on);
}

/* The mapping depends on the seed alone, and a process without a seed draws one. */
static void keep_mapping(void)
{
    begin(STREAMS);
    for (int i = 0; i < STREAMS; i++) CHECK(printf("%d ", cu.channel(streams[i])) > 0);
}

static void mapping(const char *variables, char text[400])
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    fflush(stdout);
    const int out = dup(STDOUT_FILENO);
    dup2(pipes[1], STDOUT_FILENO);
    close(pipes[1]);
    const int status = run_status(variables, keep_mapping);
    dup2(out, STDOUT_FILENO);
    close(out);
    ssize_t n = read(pipes[0], text, 399);
    close(pipes[0]);
    assert_int_equal(status, 0);
    assert_true(n >= 2 * STREAMS);
    text[n] = '\0';
}

static void test_mapping(void **state)
{
    char first[400], second[400];
    (void)state;
    static const char *const numbers[] = { "1", "2", "8", "32" };
    for (int i = 0; i < 4; i++) {
        char variables[80];
        wanted = atoi(numbers[i]);
        snprintf(variables, sizeof variables, "YOKE_EMULATE_CHANNELS=1 CUDA_DEVICE_MAX_CONNECTIONS=%s",
                 numbers[i]);
        run_case(variables, counts);
    }
    run_case("CUDA_DEVICE_MAX_CONNECTIONS=0", refuses);
    run_case("CUDA_DEVICE_MAX_CONNECTIONS=33", refuses);
    mapping("YOKE_EMULATE_CHANNELS=7", first);
    mapping("YOKE_EMULATE_CHANNELS=7", second);
    assert_string_equal(first, second);
    mapping("YOKE_EMULATE_CHANNELS=8", second);
    assert_string_not_equal(first, second);
    mapping("", first);
    mapping("", second);
    assert_string_not_equal(first, second);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_hangs), cmocka_unit_test(test_goes_on),
                                        cmocka_unit_test(test_mapping) };
    return cmocka_run_group_tests_name("emulate_cuda_channels", tests, NULL, NULL);
}
