/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in CUDA driver: faults, which end what the context can do, and failures that are asked for. */
#include "tests/unit/emulate_cuda.h"

#include <signal.h>

static CUdeviceptr fault_words;
static CUfunction fault_kernel;

static void fault_start(void)
{
    start(0);
    const uint32_t words[64] = { 0 };
    fault_kernel = kernel("add_one");
    OK(cu.cuMemAlloc_v2(&fault_words, sizeof words));
    OK(cu.cuMemcpyHtoD_v2(fault_words, words, sizeof words));
    OK(cu.name(fault_words + 128, 128, "layer 3, dx"));
}

static void check_lost(CUresult error, const char *text)
{
    GIVES(error, cu.cuCtxSynchronize());
    CUdeviceptr p;
    CUstream stream;
    size_t bytes;
    GIVES(error, cu.cuMemAlloc_v2(&p, 4));
    GIVES(error, cu.cuMemFree_v2(fault_words));
    GIVES(error, cu.cuStreamCreate(&stream, 0));
    GIVES(error, cu.cuStreamSynchronize(NULL));
    GIVES(error, add_one(fault_kernel, fault_words, 1, NULL));
    GIVES(error, cu.cuMemGetInfo_v2(&bytes, &bytes));
    if (!strstr(cu.last_fault(), text)) printf("# '%s' has no '%s'\n", cu.last_fault(), text);
    CHECK(strstr(cu.last_fault(), text));
    cu.cuDevicePrimaryCtxRelease_v2(0);
    CUcontext context;
    GIVES(error, cu.cuDevicePrimaryCtxRetain(&context, 0));
}

static void fault_overrun(void)
{
    fault_start();
    OK(add_one(fault_kernel, fault_words, 65, NULL));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "0 bytes behind the end of the 256 bytes");
}

static void fault_misaligned(void)
{
    fault_start();
    OK(add_one(fault_kernel, fault_words + 2, 1, NULL));
    check_lost(CUDA_ERROR_MISALIGNED_ADDRESS, "add_one");
}

static void fault_undefined(void)
{
    fault_start();
    OK(cu.annotate(fault_words + 132, 4, YOKE_EMULATE_UNDEFINED));
    OK(add_one(fault_kernel, fault_words, 64, NULL));
    check_lost(CUDA_ERROR_LAUNCH_FAILED, "layer 3, dx + 4");
}

static void fault_freed(void)
{
    fault_start();
    OK(cu.cuMemFree_v2(fault_words));
    OK(add_one(fault_kernel, fault_words, 1, NULL));
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    CHECK(strstr(cu.last_fault(), "that were freed"));
}

/* The same in the middle of a large allocation, whose pages the driver gives back. */
static void fault_freed_large(void)
{
    fault_start();
    CUdeviceptr p;
    OK(cu.cuMemAlloc_v2(&p, 1 << 20));
    OK(cu.cuMemsetD8Async(p, 0, 1 << 20, NULL));
    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemFree_v2(p));
    OK(add_one(fault_kernel, p + 500000, 1, NULL));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "byte 500000 of the 1048576 bytes");
}

/* A command that waits for its turn while its memory is freed. */
static bool go;

static void wait_for_go(void *data)
{
    (void)data;
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) usleep(1000);
}

static void fault_freed_early(void)
{
    fault_start();
    OK(cu.cuLaunchHostFunc(NULL, wait_for_go, NULL));
    OK(cu.cuMemsetD8Async(fault_words, 0, 4, NULL));
    OK(cu.cuMemFree_v2(fault_words));
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    CHECK(strstr(cu.last_fault(), "not allocated"));
}

static void fault_annotate(void)
{
    fault_start();
    OK(cu.cuLaunchHostFunc(NULL, wait_for_go, NULL));
    OK(cu.annotate_async(fault_words, 4, YOKE_EMULATE_DEFINED, NULL));
    OK(cu.cuMemFree_v2(fault_words));
    __atomic_store_n(&go, true, __ATOMIC_RELEASE);
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuCtxSynchronize());
    CHECK(strstr(cu.last_fault(), "yoke_emulate_annotate"));
}

static void fault_forbidden(void)
{
    fault_start();
    OK(cu.annotate_async(fault_words, 4, YOKE_EMULATE_FORBIDDEN, NULL));
    OK(cu.cuMemsetD8Async(fault_words + 4, 1, 4, NULL));
    OK(cu.annotate_async(fault_words, 4, YOKE_EMULATE_UNDEFINED, NULL));
    OK(cu.cuMemsetD8Async(fault_words, 1, 8, NULL));
    OK(cu.cuCtxSynchronize());
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.annotate(fault_words, 257, YOKE_EMULATE_UNDEFINED));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.annotate(fault_words, 4, 0));
    OK(cu.annotate(fault_words + 200, 1, YOKE_EMULATE_FORBIDDEN));
    char back[256];
    GIVES(CUDA_ERROR_ILLEGAL_ADDRESS, cu.cuMemcpyDtoH_v2(back, fault_words, 256));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "layer 3, dx + 72");
}

/* Two streams use a tensor. It ends when both have ended it, whichever comes last. */
static void two_users(CUstream stream[2])
{
    fault_start();
    OK(cu.cuCtxSynchronize());
    for (int i = 0; i < 2; i++) OK(cu.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.begin(fault_words, 64, 0, "y of layer 3", NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.begin(fault_words, 0, 1, "y of layer 3", NULL));
    GIVES(CUDA_ERROR_INVALID_VALUE, cu.begin(fault_words + 200, 64, 1, "y of layer 3", NULL));
    OK(cu.begin(fault_words, 64, 2, "y of layer 3", stream[0]));
    OK(cu.cuMemsetD8Async(fault_words, 1, 64, stream[0]));
    OK(cu.end(fault_words, 64, stream[0]));
    OK(cu.cuStreamSynchronize(stream[0]));
    OK(cu.cuMemsetD8Async(fault_words, 1, 64, stream[1]));
    OK(cu.cuStreamSynchronize(stream[1]));
}

static void fault_ended(void)
{
    CUstream stream[2];
    two_users(stream);
    OK(cu.end(fault_words, 64, stream[1]));
    OK(cu.cuMemsetD8Async(fault_words + 64, 1, 4, stream[1])); /* behind the tensor */
    OK(cu.cuStreamSynchronize(stream[1]));
    OK(add_one(fault_kernel, fault_words, 1, stream[1]));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "y of layer 3, which has ended, + 0, byte 0 of the 256 bytes");
}

static void fault_begins_early(void)
{
    CUstream stream[2];
    two_users(stream);
    OK(cu.begin(fault_words + 60, 64, 1, "x of layer 4", stream[0]));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "x of layer 4 (64 bytes at");
    CHECK(strstr(cu.last_fault(), "begins in memory that y of layer 3 still uses: 1 of its streams"));
}

static void fault_ends_twice(void)
{
    CUstream stream[2];
    two_users(stream);
    OK(cu.end(fault_words, 64, stream[1]));
    OK(cu.end(fault_words, 64, stream[1]));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "whose lifetime has not begun");
}

/* An address between two tensors is described by the one before it. */
static void fault_behind(void)
{
    fault_start();
    OK(cu.annotate(fault_words, 256, YOKE_EMULATE_FORBIDDEN));
    OK(cu.begin(fault_words, 64, 1, "y of layer 3", NULL));
    OK(cu.begin(fault_words + 128, 64, 1, "x of layer 4", NULL));
    OK(cu.cuMemsetD8Async(fault_words, 0, 64, NULL));
    OK(add_one(fault_kernel, fault_words, 17, NULL));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "0 bytes behind the end of y of layer 3");
}

static void fault_timeout(void)
{
    fault_start();
    OK(cu.cuLaunchKernel(kernel("spin"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    check_lost(CUDA_ERROR_LAUNCH_TIMEOUT, "spin");
}

static void no_memory_twice(void)
{
    fault_start(); /* the first allocation */
    CUdeviceptr p;
    GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, 4));
    OK(cu.cuMemAlloc_v2(&p, 4));
}

static void injected_address(void)
{
    fault_start();
    OK(add_one(fault_kernel, fault_words, 1, NULL));
    OK(cu.cuCtxSynchronize());
    OK(add_one(fault_kernel, fault_words, 1, NULL));
    check_lost(CUDA_ERROR_ILLEGAL_ADDRESS, "YOKE_EMULATE_FAIL");
}

static void injected_timeout(void)
{
    fault_start();
    OK(add_one(fault_kernel, fault_words, 1, NULL));
    check_lost(CUDA_ERROR_LAUNCH_TIMEOUT, "YOKE_EMULATE_FAIL");
}

static void injected_ecc(void)
{
    fault_start(); /* one copy */
    OK(cu.cuMemsetD8Async(fault_words, 0, 1, NULL));
    check_lost(CUDA_ERROR_ECC_UNCORRECTABLE, "YOKE_EMULATE_FAIL");
}

static void injected_lost(void)
{
    start(0);
    OK(cu.cuCtxSynchronize());
    check_lost(CUDA_ERROR_UNKNOWN, "device-lost");
}

static void follow_pointer(void)
{
    signal(SIGSEGV, SIG_DFL); /* a sanitizer would catch it */
    fault_start();
    *(volatile char *)(uintptr_t)fault_words = 1;
}

/* ---- the tests ---- */

static void test_faults(void **state)
{
    (void)state;
    run_case("", fault_overrun);
    run_case("", fault_misaligned);
    run_case("", fault_undefined);
    run_case("", fault_freed);
    run_case("", fault_freed_large);
    run_case("", fault_freed_early);
    run_case("", fault_annotate);
    run_case("", fault_forbidden);
    run_case("", fault_ended);
    run_case("", fault_begins_early);
    run_case("", fault_ends_twice);
    run_case("", fault_behind);
    run_case("YOKE_EMULATE_INSTRUCTIONS=100000", fault_timeout);
    const int status = run_status("", follow_pointer);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

static void test_injected(void **state)
{
    (void)state;
    run_case("YOKE_EMULATE_FAIL=out-of-memory@2,ecc@100", no_memory_twice);
    run_case("YOKE_EMULATE_FAIL=illegal-address@2", injected_address);
    run_case("YOKE_EMULATE_FAIL=launch-timeout@1", injected_timeout);
    run_case("YOKE_EMULATE_FAIL=ecc@2", injected_ecc);
    run_case("YOKE_EMULATE_FAIL=device-lost@2", injected_lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_injected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
