/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events, memory and errors of the CUDA backend, on the stand-in driver. These tests launch no
 * kernel.
 */
#include "tests/unit/cuda_test.h"

#include <pthread.h>

#include "backends/gpu/staging.h"

enum { MIB = 1 << 20 };

static void fill_random(unsigned char *bytes, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
}

/* Copies of all kinds and of sizes around that of the slot, from pageable and from pinned memory. */
static void copies(void **state)
{
    static const size_t sizes[] = { 1, 4095, YOKEI_GPU_SLOT_BYTES, YOKEI_GPU_SLOT_BYTES + 3, 5 * MIB + 7 };
    const size_t most = 5 * MIB + 7;
    (void)state;
    CUDA_OPEN(device);
    const struct cuda_library *cu = cuda_device(device)->cu;
    yoke_stream *stream;
    unsigned char *pageable = malloc(most), *back = malloc(most), *a, *b;
    void *pinned;
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_alloc(device, most + 64, (void **)&a));
    assert_ok(yoke_alloc(device, most + 64, (void **)&b));
    assert_ok(yokei_rt_enter(device));
    assert_int_equal(cu->cuMemHostAlloc(&pinned, most, CU_MEMHOSTALLOC_PORTABLE), 0);
    yokei_rt_leave(device);
    for (size_t s = 0; s < YOKE_COUNT(sizes); s++)
        for (int way = 0; way < 4; way++) { /* bit 0: from pinned memory; bit 1: back to pinned memory */
            const size_t n = sizes[s];
            unsigned char *from = way & 1 ? pinned : pageable, *to = way & 2 ? pinned : back;
            fill_random(from, n, (uint32_t)(s * 4 + (unsigned)way));
            fill_random(pageable, n, (uint32_t)(s * 4 + (unsigned)way));
            assert_ok(yoke_fill(stream, b, 0x5a, n + 1));
            assert_ok(yoke_copy_to_device(stream, a + 3, from, n));
            assert_ok(yoke_copy(stream, b, a + 3, n));
            assert_ok(yoke_stream_sync(stream));
            memset(to, 0, n);
            assert_ok(yoke_copy_to_host(stream, to, b, n));
            assert_ok(yoke_stream_sync(stream));
            assert_memory_equal(to, pageable, n);
            assert_ok(yoke_copy_to_host(stream, to, b + n, 1));
            assert_ok(yoke_stream_sync(stream));
            assert_int_equal(to[0], 0x5a);
        }
    assert_fails(YOKE_EINVAL, "no memory of this device", yoke_copy_to_device(stream, back, pageable, 64));
    assert_fails(YOKE_EINVAL, "no memory of this device", yoke_fill(stream, back, 0, 64));
    assert_ok(yoke_stream_sync(stream));
    assert_ok(yokei_rt_enter(device));
    cu->cuMemFreeHost(pinned);
    yokei_rt_leave(device);
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_free(device, b));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
    free(pageable), free(back);
}

/*
 * A stream that waits for a host-armed event holds everything behind it back, and no call waits. Another
 * stream goes on meanwhile. The copy reads the host memory in the stream's order, so it sees what was written
 * before the signal.
 */
static void armed(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    yoke_stream *first, *second;
    yoke_event *gate, *done;
    bool complete = true;
    const size_t n = YOKEI_GPU_SLOT_BYTES + 1000;
    unsigned char *d, *host = malloc(n), *back = malloc(n);
    memset(host, 1, n);
    assert_ok(yoke_stream_create(device, &first));
    assert_ok(yoke_stream_create(device, &second));
    assert_ok(yoke_event_create(device, &gate));
    assert_ok(yoke_event_create(device, &done));
    assert_ok(yoke_event_query(gate, &complete));
    assert_true(complete);
    assert_ok(yoke_alloc(device, n, (void **)&d));
    for (int round = 0; round < 3; round++) {
        assert_ok(yoke_fill(second, d, 9, n));
        assert_ok(yoke_stream_sync(second));
        assert_ok(yoke_event_arm(gate));
        assert_ok(yoke_event_arm(gate)); /* armed twice is armed */
        assert_ok(yoke_stream_wait(first, gate));
        assert_ok(yoke_copy_to_device(first, d, host, n));
        assert_ok(yoke_event_record(done, first));
        assert_ok(yoke_event_query(gate, &complete));
        assert_false(complete);
        assert_ok(yoke_copy_to_host(second, back, d, n));
        assert_ok(yoke_stream_sync(second));
        for (size_t i = 0; i < n; i++) assert_int_equal(back[i], 9);
        assert_ok(yoke_event_query(done, &complete));
        assert_false(complete);
        assert_ok(yoke_stream_wait(second, done));
        assert_ok(yoke_copy_to_host(second, back, d, n));
        memset(host, 20 + round, n);
        assert_ok(yoke_event_signal(gate));
        assert_ok(yoke_event_signal(gate)); /* signalled twice is signalled */
        assert_ok(yoke_event_sync(done));
        assert_ok(yoke_event_query(gate, &complete));
        assert_true(complete);
        assert_ok(yoke_stream_sync(second));
        for (size_t i = 0; i < n; i++) assert_int_equal(back[i], 20 + round);
    }
    /* An event that is destroyed or recorded while it is armed lets its streams go. */
    assert_ok(yoke_event_arm(gate));
    assert_ok(yoke_stream_wait(first, gate));
    assert_ok(yoke_event_record(gate, second));
    assert_ok(yoke_stream_sync(first));
    assert_ok(yoke_event_arm(gate));
    assert_ok(yoke_stream_wait(first, gate));
    assert_ok(yoke_event_destroy(gate));
    assert_ok(yoke_stream_sync(first));
    assert_ok(yoke_event_destroy(done));
    assert_ok(yoke_free(device, d));
    assert_ok(yoke_stream_destroy(first));
    assert_ok(yoke_stream_destroy(second));
    assert_ok(yoke_device_close(device));
    free(host), free(back);
}

/* Many events, armed at once; then all are used anew. */
static void many_events(void **state)
{
    enum { N = 1100 };
    (void)state;
    CUDA_OPEN(device);
    static yoke_event *events[N];
    yoke_stream *stream;
    assert_ok(yoke_stream_create(device, &stream));
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            assert_ok(yoke_event_create(device, &events[i]));
            assert_ok(yoke_event_arm(events[i]));
            assert_ok(yoke_stream_wait(stream, events[i]));
        }
        for (int i = N; i-- > 0;) assert_ok(yoke_event_signal(events[i]));
        assert_ok(yoke_stream_sync(stream));
        for (int i = 0; i < N; i++) assert_ok(yoke_event_destroy(events[i]));
    }
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

struct worker {
    pthread_t thread;
    yoke_device *device;
    int number;
    yoke_status status;
    bool right;
};

static void *work(void *argument)
{
    enum { N = 3000 };
    struct worker *w = argument;
    unsigned char x[N], y[N], *d = NULL;
    yoke_stream *stream;
    w->right = true;
    w->status = yoke_stream_create(w->device, &stream);
    if (w->status) return NULL;
    w->status = yoke_alloc(w->device, N, (void **)&d);
    for (int r = 0; r < 100 && !w->status; r++) {
        fill_random(x, N, (uint32_t)(w->number * 1000 + r));
        w->status = yoke_copy_to_device(stream, d, x, N);
        if (!w->status) w->status = yoke_copy_to_host(stream, y, d, N);
        if (!w->status) w->status = yoke_stream_sync(stream);
        w->right = w->right && !memcmp(x, y, N);
    }
    if (d) yoke_free(w->device, d);
    const yoke_status status = yoke_stream_destroy(stream);
    if (!w->status) w->status = status;
    return NULL;
}

/* Threads that have never seen the context, each with a stream of its own. */
static void threads(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    struct worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (struct worker){ .device = device, .number = i };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].status, YOKE_OK);
        assert_true(workers[i].right);
    }
    assert_ok(yoke_device_close(device));
}

static void memory(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    char *a, *b;
    void *none;
    uint64_t left, total, used;
    assert_ok(yoke_alloc(device, 0, (void **)&a));
    assert_ok(yoke_alloc(device, 0, (void **)&b));
    assert_true(a != b);
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_null(yoke_host_ptr(device, a));
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_alloc(device, 1000, (void **)&a));
    assert_ok(yoke_device_allocated(device, &used, NULL));
    assert_int_equal(used, 1001);
    assert_ok(yoke_device_memory(device, &left, &total));
    assert_true(total == yoke_device_info(device)->memory_bytes && left <= total - used);
    assert_fails(YOKE_ENOMEM,
                 "cannot allocate 1125899906842624 bytes: ", yoke_alloc(device, (size_t)1 << 50, &none));
    assert_non_null(strstr(yoke_last_error(), "are free, and this process holds 1001 of them"));
    assert_fails(YOKE_ENODEV,
                 "cuda:9: there is one device, cuda:0; YOKE_EMULATE_DEVICES=10 emulates more of them",
                 yoke_device_open("cuda:9", NULL, (yoke_device **)&none));
    assert_non_null(strstr(yoke_device_info(device)->name, "emulated"));
    assert_non_null(strstr(yoke_device_info(device)->features, "sm_90"));
    assert_non_null(strstr(yoke_device_info(device)->features, "emulated"));
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_free(device, b));
    assert_ok(yoke_device_close(device));
}

/* A foreign context, stream and buffer, which are as they were afterwards. */
static void wrapping(void **state)
{
    (void)state;
    CUDA_OPEN(plain);
    const struct cuda_device *owner = cuda_device(plain);
    const struct cuda_library *cu = owner->cu;
    struct yoke_native native = { .size = sizeof native,
                                  .context = owner->context,
                                  .device = (void *)(intptr_t)owner->id };
    CUstream queue;
    CUdeviceptr buffer;
    CUcontext current;
    unsigned char host[400], back[400];
    fill_random(host, sizeof host, 7);
    assert_ok(yokei_rt_enter(plain));
    assert_int_equal(cu->cuStreamCreate(&queue, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(cu->cuMemAlloc_v2(&buffer, sizeof host), 0);
    yokei_rt_leave(plain);
    native.queue = queue;
    yoke_device *device, *none;
    yoke_stream *stream;
    unsigned char *foreign, *inside, *own;
    assert_ok(yoke_device_wrap("cuda", &native, NULL, &device));
    assert_ok(yoke_stream_wrap(device, &native, &stream));
    assert_ok(yoke_buffer_wrap(device, (void *)(uintptr_t)buffer, sizeof host, (void **)&foreign));
    assert_true(foreign == (void *)(uintptr_t)buffer);
    assert_fails(YOKE_EINVAL, "has 400 bytes, 401 were stated",
                 yoke_buffer_wrap(device, foreign, 401, (void **)&inside));
    assert_fails(YOKE_EINVAL, "no device memory", yoke_buffer_wrap(device, host, 4, (void **)&inside));
    assert_ok(yoke_alloc(device, sizeof host, (void **)&own));
    assert_ok(yoke_copy_to_device(stream, own, host, sizeof host));
    assert_ok(yoke_copy(stream, foreign, own, sizeof host));
    assert_ok(yoke_copy_to_host(stream, back, foreign, sizeof host));
    assert_ok(yoke_stream_sync(stream));
    assert_memory_equal(host, back, sizeof host);
    native.device = (void *)(intptr_t)77;
    assert_fails(YOKE_EINVAL, "native.device is 77", yoke_device_wrap("cuda", &native, NULL, &none));
    native.context = NULL;
    assert_fails(YOKE_EINVAL, "native.context", yoke_device_wrap("cuda", &native, NULL, &none));
    assert_ok(yoke_free(device, foreign));
    assert_ok(yoke_free(device, own));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
    assert_ok(yokei_rt_enter(plain)); /* the queue and the buffer still work */
    assert_int_equal(cu->cuMemcpyDtoHAsync_v2(back, buffer, sizeof back, queue), 0);
    assert_int_equal(cu->cuStreamDestroy_v2(queue), 0);
    assert_int_equal(cu->cuMemFree_v2(buffer), 0);
    assert_int_equal(cu->cuCtxPopCurrent_v2(&current), 0);
    assert_true(current == owner->context);
    assert_ok(yoke_device_close(plain));
}

/*
 * A child process of one that has a device open cannot use CUDA, and says so. Its probe answers all the same.
 */
static void forked(void **state)
{
    (void)state;
    CUDA_OPEN(device);
    struct yoke_backend_report reports[8];
    int n = 0, end = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    for (int i = 0; i < n; i++)
        if (!strcmp(reports[i].name, "cuda")) assert_int_equal(reports[i].n_devices, 1);
    const pid_t pid = fork();
    if (!pid) {
        yoke_device *none;
        _exit(yoke_device_open("cuda:0", NULL, &none) == YOKE_ENODEV
                      && strstr(yoke_last_error(), "used CUDA and then forked")
                  ? 0
                  : 1);
    }
    assert_true(waitpid(pid, &end, 0) == pid);
    assert_int_equal(end, 0);
    assert_ok(yoke_device_close(device));
}

static const char *hidden(void)
{
    yoke_device *device;
    WANT(yoke_device_open("cuda:0", NULL, &device) == YOKE_ENODEV);
    WANT(strstr(yoke_last_error(), "CUDA_VISIBLE_DEVICES='5' hides all devices"));
    return NULL;
}

static void hides_all(void **state)
{
    (void)state;
    cuda_in_child("CUDA_VISIBLE_DEVICES", "5", hidden);
}

/*
 * Fill and copy until the device is lost. The error must name `ops`, and nothing else. All later calls say
 * the same.
 */
static const char *lose(const char *ops)
{
    yoke_device *device = cuda_open();
    yoke_stream *stream, *idle;
    char *d, host[64] = { 0 }, words[200];
    if (!device) return "skip: no NVRTC";
    WANT(!yoke_stream_create(device, &stream) && !yoke_stream_create(device, &idle));
    WANT(!yoke_alloc(device, 4096, (void **)&d));
    yoke_status status = YOKE_OK;
    for (int i = 0; i < 20 && !status; i++) {
        status = yoke_fill(stream, d, 1, 64);
        if (!status) status = yoke_copy(stream, d + 64, d, 64);
    }
    if (!status) status = yoke_stream_sync(stream);
    WANT(status == YOKE_EBACKEND);
    snprintf(words, sizeof words, "cuda:0: %s, issued earlier, failed on the device: CUDA_ERROR_ECC", ops);
    WANT(strstr(yoke_last_error(), words) && strstr(yoke_last_error(), "The CUDA context is lost"));
    WANT(yoke_copy_to_host(idle, host, d, 64) == YOKE_EBACKEND && strstr(yoke_last_error(), words));
    WANT(yoke_stream_sync(idle) == YOKE_EBACKEND && yoke_stream_sync(stream) == YOKE_EBACKEND);
    WANT(!yoke_free(device, d));
    WANT(yoke_stream_destroy(stream) == YOKE_EBACKEND && yoke_stream_destroy(idle) == YOKE_EBACKEND);
    WANT(!yoke_device_close(device));
    return NULL;
}
static const char *lose_some(void) { return lose("yoke_fill or yoke_copy"); }

/* The user asks for exact errors. */
static const char *lose_by_fill(void)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    return lose("yoke_fill");
}
static const char *lose_by_copy(void)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    return lose("yoke_copy");
}

/* Work that an event or a wait has shown to have ended is not named, also without writes of the progress. */
static const char *lose_later(void)
{
    yoke_device *device = cuda_open();
    yoke_stream *stream, *other;
    yoke_event *event;
    bool complete = false;
    char *d;
    if (!device) return "skip: no NVRTC";
    WANT(!yoke_stream_create(device, &stream) && !yoke_stream_create(device, &other));
    WANT(!yoke_event_create(device, &event) && !yoke_alloc(device, 4096, (void **)&d));
    WANT(!yoke_fill(other, d, 1, 64) && !yoke_event_record(event, other));
    while (!complete) WANT(!yoke_event_query(event, &complete));
    WANT(!yoke_copy(stream, d + 64, d, 64));
    (void)yoke_copy(stream, d, d + 64, 64); /* fails if the device is lost by now */
    WANT(yoke_stream_sync(stream) == YOKE_EBACKEND);
    WANT(strstr(yoke_last_error(), "cuda:0: yoke_copy, issued earlier, failed on the device"));
    WANT(!strstr(yoke_last_error(), "CUDA_LAUNCH_BLOCKING"));
    return NULL;
}

/* A driver without value operations: the progress is written all the same, and errors name the ops. */
static const char *no_value_operations(void)
{
    yoke_device *device = cuda_open();
    yoke_stream *stream;
    char *d;
    if (!device) return "skip: no NVRTC";
    WANT(!yoke_stream_create(device, &stream) && !yoke_alloc(device, 4096, (void **)&d));
    for (int i = 0; i < 20; i++) WANT(!yoke_fill(stream, d, 1, 64) && !yoke_copy(stream, d + 64, d, 64));
    WANT(!yoke_stream_sync(stream));
    WANT(atomic_load(&yokei_rt(device)->no_value_writes));
    WANT(atomic_load(yokei_rt_word(yokei_rt_stream(stream)->done))
         == atomic_load(&yokei_rt_stream(stream)->group));
    WANT(!yoke_stream_destroy(stream) && !yoke_free(device, d) && !yoke_device_close(device));
    return NULL;
}

static void device_lost(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@1", lose_some);
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@12", lose_some);
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@2", lose_later);
    cuda_in_child("YOKE_EMULATE_FAIL", "value-operation@1", no_value_operations);
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@1", lose_by_fill);
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@11", lose_by_fill);
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@12", lose_by_copy);
    cuda_in_child("YOKE_EMULATE_FAIL", "ecc@40", lose_by_copy);
}

/* The driver refuses an allocation although there is memory. Later calls work. */
static const char *refused(void)
{
    yoke_device *device = cuda_open();
    void *d;
    if (!device) return "skip: no NVRTC";
    WANT(yoke_alloc(device, 4096, &d) == YOKE_ENOMEM
         && strstr(yoke_last_error(), "cannot allocate 4096 bytes"));
    WANT(!yoke_alloc(device, 4096, &d) && !yoke_free(device, d) && !yoke_device_close(device));
    return NULL;
}

/* The text says what the memory was for. */
static const char *refused_scratch(void)
{
    yoke_device *device = cuda_open();
    yoke_stream *stream;
    if (!device) return "skip: no NVRTC";
    WANT(!yoke_stream_create(device, &stream));
    WANT(yoke_stream_reserve(stream, 4096) == YOKE_ENOMEM
         && strstr(yoke_last_error(), "scratch memory of a stream: cuda:0: cannot allocate 4096 bytes"));
    WANT(!yoke_stream_reserve(stream, 4096) && !yoke_stream_destroy(stream) && !yoke_device_close(device));
    return NULL;
}

static void out_of_memory(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_FAIL", "out-of-memory@1", refused);
    cuda_in_child("YOKE_EMULATE_FAIL", "out-of-memory@1", refused_scratch);
}

/* The device is gone. The driver's own text, "unknown error", is not all that the user gets. */
static const char *gone(void)
{
    yoke_device *device = cuda_open();
    void *d;
    if (!device) return "skip: no NVRTC";
    yoke_status status = YOKE_OK;
    for (int i = 0; i < 200 && !status; i++) status = yoke_alloc(device, 64, &d);
    WANT(status == YOKE_EBACKEND && strstr(yoke_last_error(), "CUDA_ERROR_UNKNOWN (999)"));
    WANT(strstr(yoke_last_error(), "The lines 'NVRM: Xid' of dmesg, and nvidia-smi, say whether the GPU"));
    WANT(strstr(yoke_last_error(), "The CUDA context is lost"));
    WANT(yoke_alloc(device, 64, &d) == YOKE_EBACKEND && strstr(yoke_last_error(), "NVRM: Xid"));
    return NULL;
}

/* Two ranks on a device that only one process may use: the second one cannot make a context. */
static const char *exclusive(void)
{
    yoke_device *device;
    if (yoke_device_open("cuda:0", NULL, &device) == YOKE_ENODEV && strstr(yoke_last_error(), "NVRTC"))
        return "skip: no NVRTC";
    WANT(strstr(yoke_last_error(), "another process uses the device"));
    WANT(strstr(yoke_last_error(), "'exclusive process': only one process may use it, so only one rank."));
    device = cuda_open();
    WANT(device && !yoke_device_close(device));
    return NULL;
}

extern const struct yoke_backend yokei_backend_cuda;

/* A probe lists the devices. It does not load the library of matrix products, which is large. */
static const char *probe_alone(void)
{
    static struct yoke_probe probe;
    char line[1024];
    bool loaded = false;
    yokei_backend_cuda.probe(&probe);
    if (!probe.n_devices) return "skip: no NVRTC";
    FILE *maps = fopen("/proc/self/maps", "r");
    WANT(maps);
    while (fgets(line, sizeof line, maps)) loaded |= strstr(line, "libcublasLt") != NULL;
    fclose(maps);
    WANT(!loaded);
    yoke_device *device = cuda_open();
    WANT(device && strstr(yoke_device_info(device)->driver, "cuBLASLt") && !yoke_device_close(device));
    return NULL;
}

static void explained(void **state)
{
    (void)state;
    cuda_in_child("YOKE_EMULATE_FAIL", "device-lost@100", gone);
    cuda_in_child("YOKE_EMULATE_FAIL", "device-busy@1", exclusive);
    cuda_in_child("YOKE_SEED", "1", probe_alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hides_all), cmocka_unit_test(device_lost), cmocka_unit_test(out_of_memory),
        cmocka_unit_test(explained), /* first, see cuda_in_child */
        cmocka_unit_test(copies),    cmocka_unit_test(armed),       cmocka_unit_test(many_events),
        cmocka_unit_test(threads),   cmocka_unit_test(memory),      cmocka_unit_test(wrapping),
        cmocka_unit_test(forked),
    };
    setenv("YOKE_EMULATE", "cuda:9.0", 1);
    return cmocka_run_group_tests_name("cuda_stream", tests, NULL, NULL);
}
