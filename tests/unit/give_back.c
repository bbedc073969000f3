/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that are freed twice, or that never existed. Every device must refuse them, and must neither touch
 * nor lose anything.
 */
#include "tests/unit/test.h"

#include "core/base/base.h"
#include <pthread.h>
#include <stdlib.h>

/* Call `test` on every device that is here, an OpenCL one with both kinds of memory. */
static void on_every_device(void (*test)(yoke_device *device))
{
    static const char *const modes[] = { "svm", "buffer" };
    struct yoke_backend_report reports[8];
    int n = 0, tested = 0;
    assert_ok(yoke_discover(reports, 8, &n));
    for (int i = 0; i < n; i++) {
        const bool is_opencl = strcmp(reports[i].name, "opencl") == 0;
        for (int d = 0; d < reports[i].n_devices; d++)
            for (int m = 0; m < (is_opencl ? 2 : 1); m++, tested++) {
                yoke_device *device;
                if (is_opencl) setenv("YOKE_OPENCL_ADDRESS", modes[m], 1);
                assert_ok(yoke_device_open(reports[i].devices[d].spec, NULL, &device));
                unsetenv("YOKE_OPENCL_ADDRESS");
                test(device);
                assert_ok(yoke_device_close(device));
            }
    }
    assert_true(tested >= 2); /* host and reference are always there */
}

static void refuse_memory(yoke_device *device)
{
    char *a, *b, *empty, local[64], inside[80];
    void *heap = malloc(256);
    uint64_t before, now;
    assert_ok(yoke_alloc(device, 1000, (void **)&a));
    assert_ok(yoke_alloc(device, 1000, (void **)&b));
    assert_ok(yoke_alloc(device, 0, (void **)&empty));
    assert_ok(yoke_device_allocated(device, &before, NULL));
    snprintf(inside, sizeof inside, "lies 64 bytes inside the allocation of 1000 bytes at %p", (void *)a);
    assert_fails(YOKE_EINVAL, inside, yoke_free(device, a + 64));
    assert_fails(YOKE_EINVAL, "lies 999 bytes inside", yoke_free(device, a + 999));
    assert_fails(YOKE_EINVAL, "never came from yoke_alloc", yoke_free(device, local));
    assert_fails(YOKE_EINVAL, "never came from yoke_alloc", yoke_free(device, heap));
    assert_fails(YOKE_EINVAL, "never came from yoke_alloc", yoke_free(device, (void *)64));
    assert_fails(YOKE_EINVAL, NULL, yoke_free(device, (void *)UINTPTR_MAX));
    /* Nothing was changed: both blocks are there, complete and counted. */
    assert_ok(yoke_device_allocated(device, &now, NULL));
    assert_int_equal(now, before);
    assert_fails(YOKE_EBUSY, "3 of its", yoke_device_close(device));
    assert_ok(yoke_free(device, a));
    assert_fails(YOKE_EINVAL, "was freed already", yoke_free(device, a));
    assert_fails(YOKE_EINVAL, "was freed already", yoke_free(device, a + 64));
    assert_ok(yoke_free(device, empty));
    assert_fails(YOKE_EINVAL, "was freed already", yoke_free(device, empty));
    assert_ok(yoke_free(device, b));
    assert_ok(yoke_free(device, NULL));
    free(heap);
}

static void memory(void **state)
{
    (void)state;
    on_every_device(refuse_memory);
}

static void refuse_objects(yoke_device *device)
{
    yoke_stream *stream;
    yoke_event *event;
    void *scratch_is_none;
    assert_ok(yoke_stream_create(device, &stream));
    assert_ok(yoke_event_create(device, &event));
    assert_ok(yoke_stream_reserve(stream, 4096));
    assert_ok(yoke_alloc(device, 16, &scratch_is_none));
    assert_fails(YOKE_EINVAL, "is no stream", yoke_stream_destroy((yoke_stream *)scratch_is_none));
    assert_fails(YOKE_EINVAL, "is no event", yoke_event_destroy((yoke_event *)scratch_is_none));
    assert_fails(YOKE_EINVAL, "is no device", yoke_device_close((yoke_device *)scratch_is_none));
    assert_ok(yoke_free(device, scratch_is_none));
    assert_ok(yoke_stream_destroy(stream));
    assert_fails(YOKE_EINVAL, "destroyed already", yoke_stream_destroy(stream));
    assert_ok(yoke_event_destroy(event));
    assert_fails(YOKE_EINVAL, "destroyed already", yoke_event_destroy(event));
}

static void objects(void **state)
{
    (void)state;
    yoke_device *device;
    void *memory_of_it;
    on_every_device(refuse_objects);
    assert_ok(yoke_device_open("reference", NULL, &device));
    assert_ok(yoke_alloc(device, 16, &memory_of_it));
    assert_fails(YOKE_EBUSY, "1 of its", yoke_device_close(device));
    assert_ok(yoke_free(device, memory_of_it));
    assert_ok(yoke_device_close(device));
    assert_fails(YOKE_EINVAL, "closed already", yoke_device_close(device));
    assert_fails(YOKE_EINVAL, "one that was closed", yoke_free(device, memory_of_it));
}

/* One device's address is none of another's. */
static void other_device(void **state)
{
    (void)state;
    yoke_device *host, *reference;
    void *a;
    assert_ok(yoke_device_open("host", NULL, &host));
    assert_ok(yoke_device_open("reference", NULL, &reference));
    assert_ok(yoke_alloc(host, 100, &a));
    assert_fails(YOKE_EINVAL, "device reference", yoke_free(reference, a));
    assert_ok(yoke_free(host, a));
    assert_ok(yoke_device_close(reference));
    assert_ok(yoke_device_close(host));
}

enum { N_THREADS = 4, N_BLOCKS = 400 };
struct racer {
    yoke_device *device;
    void **block; /* the same blocks for all */
    int n_freed;
};

static void *free_all(void *context)
{
    struct racer *r = context;
    for (int i = 0; i < N_BLOCKS; i++) r->n_freed += yoke_free(r->device, r->block[i]) == YOKE_OK;
    return NULL;
}

/* Several threads free the same blocks. Each block is freed by exactly one thread. */
static void threads(void **state)
{
    (void)state;
    yoke_device *device;
    void *block[N_BLOCKS];
    pthread_t thread[N_THREADS];
    struct racer racer[N_THREADS];
    int freed = 0;
    uint64_t now;
    assert_ok(yoke_device_open("host", NULL, &device));
    for (int i = 0; i < N_BLOCKS; i++) assert_ok(yoke_alloc(device, (size_t)i, &block[i]));
    for (int t = 0; t < N_THREADS; t++) {
        racer[t] = (struct racer){ device, block, 0 };
        assert_int_equal(pthread_create(&thread[t], NULL, free_all, &racer[t]), 0);
    }
    for (int t = 0; t < N_THREADS; t++) {
        pthread_join(thread[t], NULL);
        freed += racer[t].n_freed;
    }
    assert_int_equal(freed, N_BLOCKS);
    assert_ok(yoke_device_allocated(device, &now, NULL));
    assert_int_equal(now, 0);
    assert_ok(yoke_device_close(device));
}

/* The list itself, against a plain model: neighbours, gaps of one byte, overlaps. */
static void ranges(void **state)
{
    (void)state;
    struct yokei_live live = { 0 };
    const char *base = (const char *)(uintptr_t)0x100000;
    const void *begin;
    size_t bytes;
    assert_ok(yokei_live_add(&live, base, 64));
    assert_ok(yokei_live_add(&live, base + 64, 0)); /* the next byte, and it takes one */
    assert_ok(yokei_live_add(&live, base + 65, 1));
    assert_fails(YOKE_EINVAL, "overlap", yokei_live_add(&live, base + 63, 1));
    assert_fails(YOKE_EINVAL, "overlap", yokei_live_add(&live, base - 1, 1000));
    assert_fails(YOKE_EINVAL, "overlap", yokei_live_add(&live, base + 64, 0));
    assert_int_equal(yokei_live_remove(&live, base + 63, &begin, &bytes), YOKEI_LIVE_INSIDE);
    assert_true(begin == base && bytes == 64);
    assert_int_equal(yokei_live_remove(&live, base - 1, NULL, NULL), YOKEI_LIVE_NOT);
    assert_int_equal(yokei_live_remove(&live, base + 66, NULL, NULL), YOKEI_LIVE_NOT);
    assert_true(yokei_live_has(&live, base + 64) && !yokei_live_has(&live, base + 1));
    for (int i = 0; i < 3; i++) {
        const char *const at[] = { base, base + 64, base + 65 };
        assert_int_equal(yokei_live_remove(&live, at[i], NULL, NULL), YOKEI_LIVE_IS);
        assert_int_equal(yokei_live_remove(&live, at[i], NULL, NULL), YOKEI_LIVE_NOT);
    }
    assert_null(live.tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory),  cmocka_unit_test(objects), cmocka_unit_test(other_device),
        cmocka_unit_test(threads), cmocka_unit_test(ranges),
    };
    return cmocka_run_group_tests_name("give_back", tests, NULL, NULL);
}
