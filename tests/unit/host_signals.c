/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals that arrive during the matrix products of the host backend. Some of oneDNN's code moves the stack
 * pointer to memory of the heap. A handler that runs there overwrites the heap. So each handler must run on
 * the stack of its thread. The library is limited to AVX2, so that this code runs on each x86-64 CPU.
 */
#include "tests/unit/test.h"

#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/time.h>
#include <yoke/yoke.h>

#include "core/base/times.h"

/* With this shape, one thread and a team run the code in question. */
enum { M = 192, N = 64, K = 256, TICKS = 300, LIMIT_SECONDS = 60 };

static char *stack_low, *stack_high; /* of the main thread */
static pthread_t main_thread;
static atomic_int ticks, n_wrong, n_elsewhere;

static void on_tick(int signal)
{
    char here;
    char *volatile address = &here;
    (void)signal;
    atomic_fetch_add(&ticks, 1);
    if (!pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&n_elsewhere, 1);
    else if (address < stack_low || address >= stack_high)
        atomic_fetch_add(&n_wrong, 1);
}

static void find_stack(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &low, &bytes), 0);
    pthread_attr_destroy(&attributes);
    stack_low = low;
    stack_high = stack_low + bytes;
    main_thread = pthread_self();
}

/* One signal per millisecond of this process's work, which any thread of the process may take. */
static void tick(bool on)
{
    const struct itimerval every = { { 0, on ? 1000 : 0 }, { 0, on ? 1000 : 0 } };
    struct sigaction action = { .sa_handler = on_tick, .sa_flags = SA_RESTART };
    assert_int_equal(sigaction(SIGPROF, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_PROF, &every, NULL), 0);
}

static void multiply(int n_threads)
{
    struct yoke_device_config config = { .size = sizeof config, .n_threads = n_threads };
    yoke_device *device;
    yoke_stream *stream;
    static float a[M * K], b[K * N], c[M * N], first[M * N];
    assert_ok(yoke_device_open("host", &config, &device));
    assert_ok(yoke_stream_create(device, &stream));
    if (strcmp(yoke_variant_name(device, "gemm", 0), "onednn")) {
        assert_ok(yoke_stream_destroy(stream));
        assert_ok(yoke_device_close(device));
        skip();
    }
    assert_ok(yoke_variant_force(device, "gemm", "onednn"));
    for (int i = 0; i < M * K; i++) a[i] = (float)(i % 17) - 8;
    for (int i = 0; i < K * N; i++) b[i] = (float)(i % 13) - 6;
    const struct yoke_gemm_args args = { .size = sizeof args,
                                         .dtype = YOKE_F32,
                                         .out_dtype = YOKE_F32,
                                         .M = M,
                                         .N = N,
                                         .K = K,
                                         .batch = 1,
                                         .trans_b = true,
                                         .a = a,
                                         .lda = K,
                                         .b = b,
                                         .ldb = K,
                                         .c = c,
                                         .ldc = N,
                                         .alpha = 1 };
    atomic_store(&ticks, 0);
    atomic_store(&n_wrong, 0);
    atomic_store(&n_elsewhere, 0);
    /* threads that the program itself has started, and that take signals */
#pragma omp parallel num_threads(n_threads)
    assert_in_range(omp_get_num_threads(), 1, n_threads);
    assert_ok(yoke_gemm(stream, &args));
    assert_ok(yoke_stream_sync(stream));
    memcpy(first, c, sizeof first);
    const double end = yokei_now() + LIMIT_SECONDS;
    int products = 0, differ = 0;
    tick(true);
    for (; atomic_load(&ticks) < TICKS && yokei_now() < end; products++) {
        if (yoke_gemm(stream, &args) || yoke_stream_sync(stream)) break;
        differ += memcmp(first, c, sizeof first) != 0;
    }
    tick(false);
    print_message(
        "%d threads: %d signals in %d products, %d handlers on a strange stack, %d in other threads\n",
        n_threads, atomic_load(&ticks), products, atomic_load(&n_wrong), atomic_load(&n_elsewhere));
    assert_int_equal(differ, 0);
    assert_int_equal(atomic_load(&n_wrong), 0);
    assert_int_equal(atomic_load(&n_elsewhere), 0);
    assert_true(atomic_load(&ticks) >= TICKS); /* one more may come before the timer is off */
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

static void one_thread(void **state)
{
    (void)state;
    multiply(1);
}

static void a_team(void **state)
{
    (void)state;
    multiply(2);
}

int main(void)
{
    setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);
    find_stack();
    const struct CMUnitTest tests[] = { cmocka_unit_test(one_thread), cmocka_unit_test(a_team) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
