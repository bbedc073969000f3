/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend that is there to be copied (backends/null). It must be found in the registry and open. Its
 * memory and streams must work. It must refuse every op.
 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "core/backend.h"

extern const struct yoke_backend yokei_backend_null;

static void is_found(void **state)
{
    struct yoke_backend_report reports[8];
    int n = 0, found = -1;
    (void)state;
    assert_ok(yoke_discover(reports, 8, &n));
    for (int i = 0; i < n; i++)
        if (!strcmp(reports[i].name, "null")) found = i;
    assert_true(found >= 0);
    assert_string_equal(reports[found].reason, "");
    assert_int_equal(reports[found].n_devices, 1);
    assert_string_equal(reports[found].devices[0].spec, "null:0");
}

static void memory_and_streams(void **state)
{
    yoke_device *device;
    yoke_stream *stream;
    yoke_event *event;
    void *a, *b, *too_large = NULL;
    uint64_t available, total, now, peak;
    bool complete = false;
    char sent[300], received[300];
    (void)state;
    for (size_t i = 0; i < sizeof sent; i++) sent[i] = (char)(7 * i + 1);
    assert_ok(yoke_device_open("null:0", NULL, &device));
    assert_fails(YOKE_ENODEV, "only one", yoke_device_open("null:1", NULL, &(yoke_device *){ NULL }));
    const struct yoke_native foreign = { .size = sizeof foreign };
    assert_fails(YOKE_EUNSUPPORTED, "has no foreign context",
                 yoke_device_wrap("null", &foreign, NULL, &(yoke_device *){ NULL }));
    assert_ok(yoke_alloc(device, sizeof sent, &a));
    assert_ok(yoke_alloc(device, sizeof sent, &b));
    assert_ok(yoke_device_memory(device, &available, &total));
    assert_true(total == 1 << 20 && available == total - 2 * sizeof sent);
    assert_fails(YOKE_ENOMEM, "are available", yoke_alloc(device, (size_t)total, &too_large));
    assert_null(yoke_host_ptr(device, a)); /* so all data goes by copies */
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_event_create(device, &event));
    assert_ok(yoke_copy_to_device(stream, a, sent, sizeof sent));
    assert_ok(yoke_copy(stream, b, a, sizeof sent));
    assert_ok(yoke_fill(stream, a, 0x5a, sizeof sent));
    assert_ok(yoke_copy_to_host(stream, received, b, sizeof sent));
    assert_ok(yoke_event_record(event, stream));
    assert_ok(yoke_stream_sync(stream));
    assert_ok(yoke_event_query(event, &complete));
    assert_true(complete);
    assert_memory_equal(received, sent, sizeof sent);
    assert_ok(yoke_copy_to_host(stream, received, a, sizeof sent));
    assert_ok(yoke_stream_sync(stream));
    for (size_t i = 0; i < sizeof received; i++) assert_int_equal(received[i], 0x5a);
    assert_ok(yoke_event_destroy(event));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_free(device, a));
    assert_ok(yoke_free(device, b));
    assert_ok(yoke_device_allocated(device, &now, &peak));
    assert_true(now == 0 && peak == 2 * sizeof sent);
    assert_ok(yoke_device_close(device));
}

/* A device whose backend has no entry of an op refuses the op, and says so. */
static void operations_are_refused(void **state)
{
    yoke_device *device;
    yoke_stream *stream;
    void *x;
    (void)state;
    assert_ok(yoke_device_open("null:0", NULL, &device));
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_alloc(device, 64, &x));
    struct yoke_scale_args args = {
        .size = sizeof args, .n = 16, .dtype = YOKE_F32, .x = x, .y = x, .alpha = 2
    };
    for (int op = 0; op < YOKE_N_OPS; op++) assert_null(yokei_backend_null.ops[op]);
    assert_fails(YOKE_EUNSUPPORTED, "scale: device null:0 does not have this operation",
                 yoke_scale(stream, &args));
    assert_fails(YOKE_EUNSUPPORTED, "scale: device null:0 does not have this operation",
                 yoke_scale_can(device, &args, NULL));
    assert_ok(yoke_free(device, x));
    assert_ok(yoke_stream_destroy(stream));
    assert_ok(yoke_device_close(device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_found),
        cmocka_unit_test(memory_and_streams),
        cmocka_unit_test(operations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
