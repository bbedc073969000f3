/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged copies, on a queue of the test's own that runs nothing until it is asked to. The host memory must be
 * read and written where the copy stands in the queue's order, and not when the copy is issued.
 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "backends/gpu/staging.h"

enum { MOST = 64 };

static struct command {
    void (*function)(void *); /* NULL: copy */
    void *argument, *target;
    const void *source;
    size_t bytes;
} commands[MOST];
static int n_commands, fails_at = -1;

static yoke_status add(struct command command)
{
    if (n_commands == fails_at) return yoke_fail(YOKE_EBACKEND, "the test's queue is full");
    assert_true(n_commands < MOST);
    commands[n_commands++] = command;
    return YOKE_OK;
}

static yoke_status call(yoke_stream *stream, void (*function)(void *), void *argument)
{
    (void)stream;
    return add((struct command){ .function = function, .argument = argument });
}

static yoke_status to_device(yoke_stream *stream, void *target, const void *slot, size_t bytes)
{
    (void)stream;
    return add((struct command){ .target = target, .source = slot, .bytes = bytes });
}

static yoke_status to_host(yoke_stream *stream, void *slot, const void *source, size_t bytes)
{
    return to_device(stream, slot, source, bytes);
}

static void run(void)
{
    for (int i = 0; i < n_commands; i++)
        if (commands[i].function)
            commands[i].function(commands[i].argument);
        else
            memcpy(commands[i].target, commands[i].source, commands[i].bytes);
    n_commands = 0;
}

static void in_order(void **state)
{
    static const size_t sizes[] = { 1,
                                    4096,
                                    YOKEI_GPU_SLOT_BYTES - 1,
                                    YOKEI_GPU_SLOT_BYTES,
                                    YOKEI_GPU_SLOT_BYTES + 1,
                                    3 * YOKEI_GPU_SLOT_BYTES + 5 };
    const size_t most = 3 * YOKEI_GPU_SLOT_BYTES + 6;
    char *host = malloc(most), *device = malloc(most), *back = malloc(most);
    const struct yokei_gpu_staging staging = { malloc(YOKEI_GPU_SLOT_BYTES), call, to_device, to_host };
    struct yoke_device dev = { .info = { .spec = "test:0" } };
    struct yoke_stream stream = { .device = &dev };
    (void)state;
    for (size_t s = 0; s < YOKE_COUNT(sizes); s++) {
        const size_t n = sizes[s];
        memset(host, 1, most), memset(device, 2, most), memset(back, 3, most);
        assert_ok(yokei_gpu_stage(&stream, &staging, YOKE_COPY_TO_DEVICE, device, host, n));
        assert_ok(yokei_gpu_stage(&stream, &staging, YOKE_COPY_TO_HOST, back, device, n));
        assert_true(device[0] == 2 && back[0] == 3);                         /* nothing has run yet */
        for (size_t i = 0; i < n; i++) host[i] = (char)(i * 31 + (i >> 12)); /* the copy comes after this */
        run();
        assert_memory_equal(device, host, n);
        assert_memory_equal(back, host, n);
        assert_true(device[n] == 2 && back[n] == 3);
    }
    free(staging.slot), free(host), free(device), free(back);
}

/* A refusal of the queue comes back. With a sanitizer this also shows that nothing leaks. */
static void refusals(void **state)
{
    char slot[16], host[16] = { 0 }, device[16];
    const struct yokei_gpu_staging staging = { slot, call, to_device, to_host };
    struct yoke_device dev = { .info = { .spec = "test:0" } };
    struct yoke_stream stream = { .device = &dev };
    (void)state;
    for (fails_at = 0; fails_at < 2; fails_at++) {
        assert_fails(YOKE_EBACKEND, "queue is full",
                     yokei_gpu_stage(&stream, &staging, YOKE_COPY_TO_DEVICE, device, host, 16));
        run();
        assert_fails(YOKE_EBACKEND, "queue is full",
                     yokei_gpu_stage(&stream, &staging, YOKE_COPY_TO_HOST, host, device, 16));
        run();
    }
    fails_at = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_order), cmocka_unit_test(refusals) };
    return cmocka_run_group_tests_name("gpu_staging", tests, NULL, NULL);
}
