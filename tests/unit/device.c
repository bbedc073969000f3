/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, memory, streams and events, on every device of this machine. */
#include "tests/unit/test.h"

#include "core/backend.h"
#include "core/open/registry.h"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void discovery(void **state)
{
    (void)state;
    struct yoke_backend_report reports[8];
    int n = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    assert_true(n >= 2);
    for (int i = 0; i < n; i++) {
        assert_true((reports[i].n_devices == 0) == (reports[i].reason[0] != 0)); /* devices, or why none */
        for (int d = 0; d < reports[i].n_devices; d++) {
            assert_string_equal(reports[i].devices[d].backend, reports[i].name);
            assert_true(strncmp(reports[i].devices[d].spec, reports[i].name, strlen(reports[i].name)) == 0);
            assert_true(reports[i].devices[d].storage & (1u << YOKE_F32));
        }
    }
    assert_fails(YOKE_EINVAL, "at least one", yoke_discover(reports, 0, &n));
}

static void wrong_specs(void **state)
{
    (void)state;
    yoke_device *device = (void *)1;
    assert_fails(YOKE_ENODEV, "there are host", yoke_device_open("hots", NULL, &device));
    assert_fails(YOKE_ENODEV, "index", yoke_device_open("host:x", NULL, &device));
    assert_fails(YOKE_ENODEV, NULL, yoke_device_open("host:77", NULL, &device));
    assert_fails(YOKE_EINVAL, "NULL", yoke_device_open(NULL, NULL, &device));
    struct yoke_device_config small = { 1, 0, NULL, NULL };
    assert_fails(YOKE_EINVAL, "size", yoke_device_open("host", &small, &device));
    assert_true(device == (void *)1);
}

static void *signal_later(void *event)
{
    usleep(20000);
    return (void *)(intptr_t)yoke_event_signal(event);
}

enum { N = 1000 };

/* Pointer arithmetic on device addresses, copies of all kinds, and fills; out is at a + 100 in the end. */
static void copies(yoke_stream *stream, char *a, char *b, const uint8_t out[N])
{
    uint8_t back[N];
    assert_ok(yoke_fill(stream, a, 0xab, N));
    assert_ok(yoke_copy_to_device(stream, a + 100, out, 500));
    assert_ok(yoke_copy(stream, b + 3, a + 100, 497));
    assert_ok(yoke_copy_to_host(stream, back, b + 3, 497));
    assert_ok(yoke_stream_sync(stream));
    assert_memory_equal(back, out, 497);
    assert_ok(yoke_copy_to_host(stream, back, a, N));
    assert_ok(yoke_stream_sync(stream));
    for (int i = 0; i < N; i++) assert_int_equal(back[i], i >= 100 && i < 600 ? out[i - 100] : 0xab);
    assert_fails(YOKE_EINVAL, "NULL", yoke_copy_to_host(stream, back, NULL, 1));
}

/*
 * A fresh event is complete; a recorded one completes; one that the host armed holds the second stream back.
 */
static void events(yoke_event *event, yoke_stream *stream, yoke_stream *second, const char *a,
                   const uint8_t out[N])
{
    bool complete = false;
    uint8_t back[10];
    pthread_t thread;
    void *status;
    assert_ok(yoke_event_query(event, &complete));
    assert_true(complete);
    assert_ok(yoke_event_record(event, stream));
    assert_ok(yoke_event_sync(event));
    assert_ok(yoke_event_arm(event));
    assert_ok(yoke_event_query(event, &complete));
    assert_false(complete);
    pthread_create(&thread, NULL, signal_later, event);
    assert_ok(yoke_stream_wait(second, event));
    assert_ok(yoke_copy_to_host(second, back, a + 100, sizeof back));
    assert_ok(yoke_stream_sync(second));
    assert_ok(yoke_event_query(event, &complete));
    assert_true(complete);
    pthread_join(thread, &status);
    assert_int_equal((intptr_t)status, 0);
    assert_memory_equal(back, out, sizeof back);
}

static void exercise(const char *spec)
{
    yoke_device *device;
    yoke_stream *stream, *second;
    yoke_event *event;
    uint8_t out[N];
    char *a, *b;
    assert_ok(yoke_device_open(spec, NULL, &device));
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_stream_create(device, &second));
    assert_ok(yoke_event_create(device, &event));
    assert_ok(yoke_alloc(device, N, (void **)&a));
    assert_ok(yoke_alloc(device, N, (void **)&b));
    assert_int_equal((uintptr_t)a % 64, 0);
    for (int i = 0; i < N; i++) out[i] = (uint8_t)(i * 7 + 1);
    copies(stream, a, b, out);
    events(event, stream, second, a, out);

    /* Parents with live children stay. */
    assert_fails(YOKE_EBUSY, "5 of its", yoke_device_close(device));
    uint64_t now, peak;
    assert_ok(yoke_device_allocated(device, &now, &peak));
    assert_true(now >= 2 * N && peak >= now);
    assert_ok(yoke_stream_reserve(stream, 5000));
    uint64_t more;
    assert_ok(yoke_device_allocated(device, &more, NULL));
    assert_true(more >= now + 5000);
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_free(device, b));
    assert_ok(yoke_event_destroy(event));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_stream_destroy(second));
    assert_ok(yoke_device_allocated(device, &now, NULL));
    assert_int_equal(now, 0);
    assert_ok(yoke_device_close(device));
}

static void every_device(void **state)
{
    (void)state;
    struct yoke_backend_report reports[8];
    int n = 0, exercised = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    for (int i = 0; i < n; i++)
        for (int d = 0; d < reports[i].n_devices; d++, exercised++) exercise(reports[i].devices[d].spec);
    assert_true(exercised >= 2); /* host and reference are always there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(discovery),
        cmocka_unit_test(wrong_specs),
        cmocka_unit_test(every_device),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
