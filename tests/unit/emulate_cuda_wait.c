/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in CUDA driver with YOKE_EMULATE_WAIT: calls that NVIDIA's driver may let wait for all work of
 * the device do wait. A program that makes such a call while a queue waits for the same thread is found.
 */
#include "tests/unit/emulate_cuda.h"

#include <pthread.h>
#include <time.h>

/* What a program makes before a stream of it waits. */
static struct {
    uint32_t *word, *pinned;
    CUdeviceptr memory;
    CUmodule module;
    CUfunction loaded, not_loaded;
    CUstream other;
} made;

static CUresult alloc(void)
{
    CUdeviceptr p;
    return cu.cuMemAlloc_v2(&p, 64);
}
static CUresult free_memory(void) { return cu.cuMemFree_v2(made.memory); }
static CUresult alloc_pinned(void)
{
    void *p;
    return cu.cuMemHostAlloc(&p, 64, 0);
}
static CUresult free_pinned(void) { return cu.cuMemFreeHost(made.pinned); }
static CUresult load(void)
{
    CUmodule module;
    return cu.cuModuleLoadData(&module, program);
}
static CUresult unload(void) { return cu.cuModuleUnload(made.module); }
static CUresult load_kernel(void) { return cu.cuFuncLoad(made.not_loaded); }
static CUresult launch(void) { return add_one(made.not_loaded, made.memory, 16, made.other); }
static CUresult launch_loaded(void) { return add_one(made.loaded, made.memory, 16, made.other); }

static const struct {
    const char *name; /* in the driver's text; NULL: the call never waits */
    CUresult (*call)(void);
} calls[] = {
    { "cuMemAlloc", alloc },
    { "cuMemFree", free_memory },
    { "cuMemHostAlloc", alloc_pinned },
    { "cuMemFreeHost", free_pinned },
    { "cuModuleLoadDataEx", load },
    { "cuModuleUnload", unload },
    { "cuFuncLoad", load_kernel },
    { "the first launch of a kernel", launch },
    { NULL, launch_loaded },
};
enum { N_CALLS = sizeof calls / sizeof *calls };
static int now; /* index of the call of this case */

/* Let a stream wait for made.word. */
static void begin(void)
{
    CUstream stream;
    start(0);
    OK(cu.cuMemHostAlloc((void **)&made.word, 64, 0));
    OK(cu.cuMemHostAlloc((void **)&made.pinned, 64, 0));
    OK(cu.cuMemAlloc_v2(&made.memory, 64));
    OK(cu.cuMemsetD8Async(made.memory, 0, 64, NULL));
    OK(cu.cuModuleLoadData(&made.module, program));
    OK(cu.cuModuleGetFunction(&made.not_loaded, made.module, "add_one"));
    made.loaded = kernel("add_one");
    OK(cu.cuFuncLoad(made.loaded));
    OK(cu.cuStreamCreate(&made.other, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuCtxSynchronize());
    *(volatile uint32_t *)made.word = 0;
    OK(cu.cuStreamWaitValue32_v2(stream, (CUdeviceptr)(uintptr_t)made.word, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *set_word(void *nothing)
{
    nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    __atomic_store_n(made.word, 1, __ATOMIC_SEQ_CST);
    return nothing;
}

/* Another thread ends the stream's wait, so the call returns, and not before. */
static void is_let_go(void)
{
    pthread_t thread;
    begin();
    const double from = seconds();
    CHECK(!pthread_create(&thread, NULL, set_word, NULL));
    OK(calls[now].call());
    const double took = seconds() - from;
    CHECK(!calls[now].name || took > 0.09);
    pthread_join(thread, NULL);
    OK(cu.cuCtxSynchronize());
}

/* Nobody else ends the wait. */
static void is_stuck(void)
{
    begin();
    if (!calls[now].name) {
        OK(calls[now].call());
        return;
    }
    GIVES(CUDA_ERROR_LAUNCH_TIMEOUT, calls[now].call());
    CHECK(strstr(cu.last_fault(), calls[now].name));
    CHECK(strstr(cu.last_fault(), "would wait for ever"));
}

/* Without the variable no call waits. */
static void does_not_wait(void)
{
    begin();
    OK(calls[now].call());
}

static void test_waits(void **state)
{
    (void)state;
    for (now = 0; now < N_CALLS; now++) {
        run_case("YOKE_EMULATE_WAIT=100", is_let_go);
        run_case("", does_not_wait);
    }
}

static void test_stuck(void **state)
{
    (void)state;
    for (now = 0; now < N_CALLS; now++) run_case("YOKE_EMULATE_WAIT=1", is_stuck);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_waits), cmocka_unit_test(test_stuck) };
    return cmocka_run_group_tests_name("emulate_cuda_wait", tests, NULL, NULL);
}
