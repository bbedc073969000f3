/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that fork. After the parent has computed, a child may open devices of its own and compute. The
 * devices, streams, events and addresses of the parent are refused in the child, and can be destroyed there.
 * The parent goes on in all cases. A child ends by exit, as a process of Python's multiprocessing does.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"

/* The sanitizer ends a child that starts threads if the parent has threads. */
#if defined __SANITIZE_THREAD__
#define NO_THREADS_IN_CHILD 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define NO_THREADS_IN_CHILD 1
#endif
#endif
/* In a child the objects of a driver cannot be freed. With the address sanitizer these are leaks. */
#if defined __SANITIZE_ADDRESS__
#define IGNORES_LEAKS 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define IGNORES_LEAKS 1
#endif
#endif
#ifndef IGNORES_LEAKS
#define IGNORES_LEAKS 0
#endif
#ifndef NO_THREADS_IN_CHILD
#define NO_THREADS_IN_CHILD 0
#endif
#define NEEDS_THREADS_IN_CHILD()                                                       \
    if (NO_THREADS_IN_CHILD) {                                                         \
        print_message("the thread sanitizer allows no threads in a forked process\n"); \
        skip();                                                                        \
    }

enum { N = 160, LIMIT_S = 120 };

/* An open device, and what was made on it. */
struct opened {
    yoke_device *device;
    yoke_stream *stream;
    yoke_event *event;
    float *a, *b, *c; /* [N][N], device memory */
};

/* In a child the text goes to the parent's stderr, so that the test's log has it. */
static bool good(const char *what, yoke_status status)
{
    if (status) fprintf(stderr, "# process %d: %s: %s\n", (int)getpid(), what, yoke_last_error());
    return !status;
}
#define GOOD(call) good(#call, call)

static bool open_all(const char *spec, struct opened *o)
{
    struct yoke_device_config config = YOKE_DEVICE_CONFIG_INIT;
    config.n_threads = 2; /* so that there is a team, on one core too */
    *o = (struct opened){ 0 };
    return GOOD(yoke_device_open(spec, &config, &o->device))
           && GOOD(yoke_stream_create(o->device, &o->stream)) && GOOD(yoke_event_create(o->device, &o->event))
           && GOOD(yoke_alloc(o->device, N * N * 4, (void **)&o->a))
           && GOOD(yoke_alloc(o->device, N * N * 4, (void **)&o->b))
           && GOOD(yoke_alloc(o->device, N * N * 4, (void **)&o->c));
}

static bool close_all(struct opened *o)
{
    return GOOD(yoke_free(o->device, o->a)) && GOOD(yoke_free(o->device, o->b))
           && GOOD(yoke_free(o->device, o->c)) && GOOD(yoke_event_destroy(o->event))
           && GOOD(yoke_stream_destroy(o->stream)) && GOOD(yoke_device_close(o->device));
}

static struct yoke_gemm_args product(const struct opened *o)
{
    struct yoke_gemm_args g = YOKE_ARGS(gemm, .M = N, .N = N, .K = N);
    g.dtype = g.out_dtype = YOKE_F32;
    g.batch = 1;
    g.lda = g.ldb = g.ldc = N;
    g.alpha = 1;
    g.a = o->a, g.b = o->b, g.c = o->c;
    return g;
}

/* A product of matrices whose elements are 1 and 2, in a team of threads. */
static bool compute(struct opened *o)
{
    static float ones[N * N], twos[N * N], result[N * N];
    struct yoke_gemm_args g = product(o);
    struct yoke_cost cost = YOKE_COST_INIT;
    for (int i = 0; i < N * N; i++) ones[i] = 1, twos[i] = 2, result[i] = 0;
    if (!GOOD(yoke_gemm_can(o->device, &g, &cost))
        || !GOOD(yoke_stream_reserve(o->stream, cost.scratch_bytes))
        || !GOOD(yoke_copy_to_device(o->stream, o->a, ones, sizeof ones))
        || !GOOD(yoke_copy_to_device(o->stream, o->b, twos, sizeof twos)) || !GOOD(yoke_gemm(o->stream, &g))
        || !GOOD(yoke_copy_to_host(o->stream, result, o->c, sizeof result))
        || !GOOD(yoke_stream_sync(o->stream)))
        return false;
    for (int i = 0; i < N * N; i++)
        if (result[i] != 2 * N) return false;
    return true;
}

/*
 * Wait for a child, and return what waitpid says. A child that hangs is killed by a signal that it cannot
 * hold.
 */
static int end_of(pid_t child)
{
    int status = -1;
    for (int turn = 0; waitpid(child, &status, WNOHANG) == 0; turn++) {
        if (turn == LIMIT_S * 100) kill(child, SIGKILL);
        usleep(10000);
    }
    return status;
}

/* In a child: it does not outlive its parent. */
static void be_child(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

/* End a forked process by exit, as programs do. */
static void leave(bool good_end)
{
    fflush(NULL);
    if (IGNORES_LEAKS) _exit(good_end ? 0 : 1);
    exit(good_end ? 0 : 1);
}

/* Run `body` in a forked process that ends by exit, and expect it to return true. */
typedef bool body_function(void *context);

static void in_child(body_function *body, void *context)
{
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        be_child();
        leave(body(context));
    }
    const int status = end_of(child);
    if (status) fail_msg("the forked process ended with status 0x%x (9: it hung)", (unsigned)status);
}

static bool nothing(void *unused) { return !unused; }

static bool compute_alone(void *spec)
{
    struct opened o;
    return open_all(spec, &o) && compute(&o) && close_all(&o);
}

/* A process that does the same in one more forked process, whose parent has a team too. */
static bool compute_twice(void *spec)
{
    struct opened o;
    if (!open_all(spec, &o) || !compute(&o)) return false;
    const pid_t child = fork();
    if (!child) {
        be_child();
        leave(compute_alone(spec) && yoke_stream_sync(o.stream) == YOKE_EINVAL);
    }
    return !end_of(child) && compute(&o) && close_all(&o);
}

static void computes_on_host(void **state)
{
    (void)state;
    struct opened o;
    NEEDS_THREADS_IN_CHILD();
    assert_true(open_all("host", &o) && compute(&o));
    in_child(nothing, NULL);
    for (int i = 0; i < 3; i++) {
        in_child(compute_alone, "host");
        assert_true(compute(&o));
    }
    in_child(compute_twice, "host");
    assert_true(compute(&o) && close_all(&o));
}

/* ---- the parent's objects ---- */

static bool refused(const char *what, yoke_status status)
{
    char text[64];
    snprintf(text, sizeof text, "belongs to process %d", (int)getppid());
    if (status == YOKE_EINVAL && strstr(yoke_last_error(), text)
        && strstr(yoke_last_error(), "forked from it"))
        return true;
    fprintf(stderr, "# %s: %s: %s\n", what, yoke_status_name(status), yoke_last_error());
    return false;
}
#define REFUSED(call) refused(#call, call)

static bool refuses_device(const struct opened *o)
{
    const struct yoke_native native = { .size = sizeof native, .queue = (void *)(uintptr_t)o };
    uint64_t bytes;
    void *address;
    yoke_stream *stream;
    yoke_event *event;
    bool ok = REFUSED(yoke_device_memory(o->device, &bytes, &bytes));
    ok &= REFUSED(yoke_device_allocated(o->device, &bytes, &bytes));
    ok &= REFUSED(yoke_alloc(o->device, 4, &address));
    ok &= REFUSED(yoke_buffer_wrap(o->device, (void *)(uintptr_t)o, 4, &address));
    ok &= REFUSED(yoke_stream_create(o->device, &stream));
    ok &= REFUSED(yoke_stream_wrap(o->device, &native, &stream));
    ok &= REFUSED(yoke_event_create(o->device, &event));
    ok &= REFUSED(yoke_variant_force(o->device, "gemm", NULL));
    ok &= !yoke_variant_name(o->device, "gemm", 0) && REFUSED(YOKE_EINVAL);
    ok &= !yoke_host_ptr(o->device, o->a) && REFUSED(YOKE_EINVAL);
    ok &= yoke_device_info(o->device)->spec[0] && yoke_stream_device(o->stream) == o->device;
    return ok;
}

static bool refuses_stream(const struct opened *o)
{
    const struct yoke_gemm_args g = product(o);
    float value;
    bool complete;
    bool ok = REFUSED(yoke_gemm(o->stream, &g));
    ok &= REFUSED(yoke_gemm_can(o->device, &g, NULL));
    ok &= REFUSED(yoke_stream_sync(o->stream));
    ok &= REFUSED(yoke_stream_flush(o->stream));
    ok &= REFUSED(yoke_stream_reserve(o->stream, 1 << 24));
    ok &= REFUSED(yoke_copy(o->stream, o->a, o->b, 4));
    ok &= REFUSED(yoke_copy_to_device(o->stream, o->a, &value, 4));
    ok &= REFUSED(yoke_copy_to_host(o->stream, &value, o->a, 4));
    ok &= REFUSED(yoke_fill(o->stream, o->a, 0, 4));
    ok &= REFUSED(yoke_event_record(o->event, o->stream));
    ok &= REFUSED(yoke_event_arm(o->event));
    ok &= REFUSED(yoke_event_signal(o->event));
    ok &= REFUSED(yoke_event_query(o->event, &complete));
    ok &= REFUSED(yoke_event_sync(o->event));
    ok &= REFUSED(yoke_stream_wait(o->stream, o->event));
    return ok;
}

static bool refuses(void *context)
{
    struct opened *o = context;
    return refuses_device(o) && refuses_stream(o) && yoke_device_close(o->device) == YOKE_EBUSY
           && close_all(o) && yoke_stream_destroy(o->stream) == YOKE_EINVAL
           && yoke_device_close(o->device) == YOKE_EINVAL;
}

/* A thread of the parent that waits for the event, until the parent signals it. */
static atomic_int waiter_tid;
static void *wait_for_event(void *context)
{
    struct opened *o = context;
    atomic_store(&waiter_tid, (int)gettid());
    return yoke_stream_wait(o->stream, o->event) ? o : NULL;
}

static bool waiter_sleeps(void)
{
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&waiter_tid));
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = '?';
    if (f) fclose(f);
    return state == 'S';
}

static void parents_objects_are_refused(void **state)
{
    (void)state;
    static const char *const specs[] = { "host", "reference", "opencl:0" };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct opened o;
        yoke_device *none;
        if (yoke_device_open(specs[i], NULL, &none)) continue;
        assert_ok(yoke_device_close(none));
        assert_true(open_all(specs[i], &o) && compute(&o));
        in_child(nothing, NULL);
        pthread_t waiter;
        void *failed = NULL;
        const bool waits = strcmp(specs[i], "opencl:0") != 0; /* there the call would not block */
        assert_ok(yoke_event_arm(o.event));
        atomic_store(&waiter_tid, 0);
        if (waits) assert_int_equal(pthread_create(&waiter, NULL, wait_for_event, &o), 0);
        while (waits && !waiter_sleeps()) usleep(1000);
        in_child(refuses, &o);
        assert_ok(yoke_event_signal(o.event));
        if (waits) pthread_join(waiter, &failed);
        assert_null(failed);
        assert_true(compute(&o) && close_all(&o));
    }
}

/* ---- OpenCL: before these tests no process of this program has used it ---- */

static bool opencl_is_refused(void *unused)
{
    yoke_device *device;
    char text[80];
    (void)unused;
    const yoke_status status = yoke_device_open("opencl:0", NULL, &device);
    snprintf(text, sizeof text, "process %d has opened an OpenCL device and then forked", (int)getppid());
    if (status != YOKE_ENODEV || !strstr(yoke_last_error(), text)) {
        fprintf(stderr, "# %s: %s\n", yoke_status_name(status), yoke_last_error());
        return false;
    }
    return NO_THREADS_IN_CHILD || compute_alone("host");
}

static void opencl_in_child_and_parent(void **state)
{
    (void)state;
    struct opened o;
    struct yoke_backend_report reports[8];
    int n = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    int i = 0;
    while (i < n && strcmp(reports[i].name, "opencl")) i++;
    if (i == n || !reports[i].n_devices) skip();
    NEEDS_THREADS_IN_CHILD();
    in_child(compute_alone, "opencl:0"); /* the parent has not used it */
    assert_true(open_all("opencl:0", &o) && compute(&o));
    in_child(nothing, NULL);
    in_child(opencl_is_refused, NULL);
    assert_true(compute(&o));
    assert_ok(yoke_discover(reports, 8, &n)); /* this forks, and only lists */
    assert_true(reports[i].n_devices > 0);
    assert_true(close_all(&o));
}

/* ---- threads ---- */

static void *fork_here(void *unused)
{
    static int failed;
    const pid_t child = fork();
    if (!child) {
        be_child();
        leave(compute_alone("host"));
    }
    failed = end_of(child);
    return failed ? &failed : unused;
}

/* The thread that forks has no team, because another thread has computed. */
static void another_thread_forks(void **state)
{
    (void)state;
    pthread_t thread;
    void *result = NULL;
    struct opened o;
    NEEDS_THREADS_IN_CHILD();
    assert_true(open_all("host", &o) && compute(&o));
    assert_int_equal(pthread_create(&thread, NULL, fork_here, NULL), 0);
    pthread_join(thread, &result);
    assert_null(result);
    assert_true(compute(&o) && close_all(&o));
}

static bool region_is_refused(void *unused)
{
    yoke_device *device;
    (void)unused;
    return yoke_device_open("host", NULL, &device) == YOKE_ENODEV
           && strstr(yoke_last_error(), "forked inside a parallel region")
           && GOOD(yoke_device_open("reference", NULL, &device)) && GOOD(yoke_device_close(device));
}

static void fork_inside_a_region(void **state)
{
    (void)state;
    int status = -1;
    if (dlsym(RTLD_DEFAULT, "__kmpc_fork_call")) {
        print_message("LLVM's runtime of OpenMP resets itself in a forked process\n");
        skip();
    }
    struct opened o;
    assert_true(open_all("host", &o) && compute(&o));
    fflush(NULL);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 0) {
        const pid_t child = fork();
        if (!child) {
            be_child();
            _exit(region_is_refused(NULL) ? 0 : 1);
        }
        status = end_of(child);
    }
    assert_int_equal(status, 0);
    assert_true(compute(&o) && close_all(&o));
    in_child(compute_alone, "host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opencl_in_child_and_parent),  cmocka_unit_test(computes_on_host),
        cmocka_unit_test(another_thread_forks),        cmocka_unit_test(fork_inside_a_region),
        cmocka_unit_test(parents_objects_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
