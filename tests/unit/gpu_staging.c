/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged copies, on two queues of the test's own that run nothing until they are asked to, and then in any
 * order that their events allow. The host memory must be read and written where the copy stands in the
 * stream's order, and not when the copy is issued. Several pieces must be in flight.
 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "backends/gpu/staging.h"

enum { MOST = 4096, MIB = 1 << 20 };
enum kind { CALL, COPY, MARK, WAIT, END };

/* A command, and all that must have run before it. */
static struct command {
    enum kind kind;
    void (*function)(void *);
    void *argument, *target;
    const void *source;
    size_t bytes;
    int after; /* WAIT: the newest MARK of this event when the command was issued; -1: none */
    bool done;
} commands[MOST];
static struct {
    int list[MOST], n, at; /* commands; those before `at` have run */
} queues[2];
static int n_commands, fails_at = -1, newest_mark[YOKEI_GPU_MARKS];
static bool
    is_unseen; /* the own queue has written to a slot, and nothing has made this visible to the host */
static struct yoke_device dev = { .info = { .spec = "test:0" } };
static struct yoke_stream stream = { .device = &dev };

static yoke_status add(enum yokei_gpu_queue queue, struct command command)
{
    if (n_commands == fails_at) return yoke_fail(YOKE_EBACKEND, "the test's queue is full");
    assert_true(n_commands < MOST);
    queues[queue].list[queues[queue].n++] = n_commands;
    commands[n_commands++] = command;
    return YOKE_OK;
}

static yoke_status call(yoke_stream *unused, enum yokei_gpu_queue queue, void (*function)(void *),
                        void *argument)
{
    (void)unused;
    assert_false(is_unseen);
    return add(queue, (struct command){ .kind = CALL, .function = function, .argument = argument });
}

static yoke_status to_device(yoke_stream *unused, void *target, const void *slot, size_t bytes)
{
    (void)unused;
    return add(YOKEI_GPU_OWN,
               (struct command){ .kind = COPY, .target = target, .source = slot, .bytes = bytes });
}

static yoke_status to_host(yoke_stream *unused, void *slot, const void *source, size_t bytes)
{
    const yoke_status status = to_device(unused, slot, source, bytes);
    is_unseen = !status;
    return status;
}

static yoke_status release(yoke_stream *unused)
{
    (void)unused;
    is_unseen = false;
    return add(YOKEI_GPU_OWN, (struct command){ .kind = MARK });
}

static yoke_status mark(yoke_stream *unused, enum yokei_gpu_queue queue, int event)
{
    (void)unused;
    if (queue == YOKEI_GPU_OWN) is_unseen = false;
    YOKE_TRY(add(queue, (struct command){ .kind = MARK }));
    newest_mark[event] = n_commands - 1;
    return YOKE_OK;
}

static yoke_status wait_for(yoke_stream *unused, enum yokei_gpu_queue queue, int event)
{
    (void)unused;
    return add(queue, (struct command){ .kind = WAIT, .after = newest_mark[event] });
}

static const struct yokei_gpu_staging_calls calls = { call, to_device, to_host, release, mark, wait_for };

/* Run the next command of a queue, if it may run now. */
static bool run_one(enum yokei_gpu_queue queue)
{
    if (queues[queue].at == queues[queue].n) return false;
    const int index = queues[queue].list[queues[queue].at];
    struct command *c = &commands[index];
    if (c->kind == WAIT && c->after >= 0 && !commands[c->after].done) return false;
    if (c->kind == CALL) c->function(c->argument);
    if (c->kind == COPY) memcpy(c->target, c->source, c->bytes);
    for (int i = 0; c->kind == END && i < index; i++) assert_true(commands[i].done);
    c->done = true;
    queues[queue].at++;
    return true;
}

/* Run all, in a random order of the two queues. A queue waits only for work that was issued before. */
static void run(uint32_t seed)
{
    for (bool moved = true; moved;) {
        seed = seed * 1664525u + 1013904223u;
        const enum yokei_gpu_queue first = seed >> 24 & 1 ? YOKEI_GPU_HOST : YOKEI_GPU_OWN;
        moved = run_one(first) || run_one(first == YOKEI_GPU_HOST ? YOKEI_GPU_OWN : YOKEI_GPU_HOST);
    }
    for (int q = 0; q < 2; q++) {
        assert_int_equal(queues[q].at, queues[q].n);
        queues[q].n = queues[q].at = 0;
    }
    n_commands = 0;
    is_unseen = false;
    for (int i = 0; i < YOKEI_GPU_MARKS; i++) newest_mark[i] = -1;
}

static struct yokei_gpu_staging staging_new(void)
{
    struct yokei_gpu_staging staging = { .next = 0 };
    for (int i = 0; i < YOKEI_GPU_SLOTS; i++) staging.slot[i] = malloc(YOKEI_GPU_SLOT_BYTES);
    for (int i = 0; i < YOKEI_GPU_MARKS; i++) newest_mark[i] = -1;
    return staging;
}

static void staging_free(struct yokei_gpu_staging *staging)
{
    for (int i = 0; i < YOKEI_GPU_SLOTS; i++) free(staging->slot[i]);
}

static void in_order(void **state)
{
    static const size_t sizes[] = { 1,
                                    4096,
                                    YOKEI_GPU_SHORT_BYTES,
                                    YOKEI_GPU_SHORT_BYTES + 1,
                                    YOKEI_GPU_SLOT_BYTES,
                                    4 * YOKEI_GPU_SLOT_BYTES + 1,
                                    9 * YOKEI_GPU_SLOT_BYTES + 5 };
    const size_t most = 9 * YOKEI_GPU_SLOT_BYTES + 6;
    char *host = malloc(most), *device = malloc(most), *back = malloc(most);
    struct yokei_gpu_staging staging = staging_new();
    (void)state;
    for (size_t s = 0; s < YOKE_COUNT(sizes); s++)
        for (uint32_t seed = 0; seed < 3; seed++) {
            const size_t n = sizes[s];
            memset(host, 1, most), memset(device, 2, most), memset(back, 3, most);
            assert_ok(yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_DEVICE, device, host, n));
            assert_ok(yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_HOST, back, device, n));
            assert_true(device[0] == 2 && back[0] == 3); /* nothing has run yet */
            for (size_t i = 0; i < n; i++)
                host[i] = (char)(i * 31 + (i >> 12)); /* the copy comes after this */
            run(seed);
            assert_memory_equal(device, host, n);
            assert_memory_equal(back, host, n);
            assert_true(device[n] == 2 && back[n] == 3);
        }
    staging_free(&staging);
    free(host), free(device), free(back);
}

/*
 * Random copies between some buffers of the host and of the device, and copies of the stream's own queue. All
 * orders in which the queues may run give the result of one copy after the other. Behind the end of the
 * stream, all that was issued before has run.
 */
static void any_order(void **state)
{
    enum { BUFFERS = 3, BYTES = 300000, STEPS = 40 };
    static unsigned char host[BUFFERS][BYTES], device[BUFFERS][BYTES], want_host[BUFFERS][BYTES],
        want_device[BUFFERS][BYTES];
    struct yokei_gpu_staging staging = staging_new();
    (void)state;
    for (uint32_t seed = 1; seed <= 12; seed++) {
        uint32_t random = seed * 2654435761u;
        for (int i = 0; i < BUFFERS; i++) {
            memset(host[i], 10 + i, BYTES), memset(device[i], 20 + i, BYTES);
            memset(want_host[i], 10 + i, BYTES), memset(want_device[i], 20 + i, BYTES);
        }
        for (int step = 0; step < STEPS; step++) {
            random = random * 1664525u + 1013904223u;
            const uint32_t a = (random >> 8) % BUFFERS, b = (random >> 16) % BUFFERS;
            const size_t n = (random >> 24) % 2 ? 1000 + (random >> 20)
                                                : YOKE_MIN(BYTES, 70000 + (random >> 14));
            enum yokei_gpu_queue end;
            switch ((random >> 28) % 4) {
            case 0:
                assert_ok(
                    yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_DEVICE, device[a], host[b], n));
                memcpy(want_device[a], want_host[b], n);
                break;
            case 1:
                assert_ok(
                    yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_HOST, host[a], device[b], n));
                memcpy(want_host[a], want_device[b], n);
                break;
            case 2:
                if (a == b) break;
                staging.own_has_moved = true;
                assert_ok(to_device(&stream, device[a], device[b], n));
                memcpy(want_device[a], want_device[b], n);
                break;
            default:
                assert_ok(yokei_gpu_stage_end(&stream, &staging, &calls, &end));
                assert_ok(add(end, (struct command){ .kind = END }));
            }
        }
        run(seed);
        assert_memory_equal(host, want_host, sizeof host);
        assert_memory_equal(device, want_device, sizeof device);
    }
    staging_free(&staging);
}

/* How many commands of a kind a queue runs while the other one stands still. */
static int runs_alone(enum yokei_gpu_queue queue, enum kind kind)
{
    int n = 0;
    while (queues[queue].at < queues[queue].n) {
        const struct command *next = &commands[queues[queue].list[queues[queue].at]];
        if (!run_one(queue)) break;
        n += next->kind == kind;
    }
    return n;
}

/*
 * While the host has not copied a single piece, the device copies as many as there are slots, within one copy
 * and in copies that follow each other. The other direction is alike. With one slot it would be one piece.
 */
static void in_flight(void **state)
{
    char *host = malloc(4 * MIB), *device = malloc(4 * MIB);
    struct yokei_gpu_staging staging = staging_new();
    enum yokei_gpu_queue end;
    (void)state;
    for (int copies = 1; copies <= 4; copies += 3) {
        const size_t n = (size_t)MIB / (size_t)copies;
        for (int i = 0; i < copies; i++) {
            assert_ok(yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_HOST, host + i * MIB,
                                      device + i * MIB, n));
            assert_ok(
                yokei_gpu_stage_end(&stream, &staging, &calls, &end)); /* as behind each chunk of a sum */
            assert_ok(add(end, (struct command){ .kind = END }));
        }
        assert_int_equal(runs_alone(YOKEI_GPU_OWN, COPY), YOKEI_GPU_SLOTS);
        run(1);
        for (int i = 0; i < copies; i++)
            assert_ok(yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_DEVICE, device + i * MIB,
                                      host + i * MIB, n));
        assert_int_equal(runs_alone(YOKEI_GPU_HOST, CALL), YOKEI_GPU_SLOTS);
        run(1);
    }
    assert_true(YOKEI_GPU_SLOTS >= 3);
    staging_free(&staging);
    free(host), free(device);
}

static void pieces(void **state)
{
    (void)state;
    assert_int_equal(yokei_gpu_piece_bytes(YOKEI_GPU_SHORT_BYTES + 1), YOKEI_GPU_PIECE_BYTES);
    assert_int_equal(yokei_gpu_piece_bytes(MIB), MIB / YOKEI_GPU_SLOTS);
    assert_int_equal(yokei_gpu_piece_bytes(MIB + 1), MIB / YOKEI_GPU_SLOTS + 4096);
    assert_int_equal(yokei_gpu_piece_bytes((size_t)100 * MIB), YOKEI_GPU_SLOT_BYTES);
}

/* A refusal of the queue comes back. With a sanitizer this also shows that nothing leaks. */
static void refusals(void **state)
{
    enum { LONG = YOKEI_GPU_PIECE_BYTES + 16 };
    static char host[LONG], device[LONG];
    (void)state;
    for (int long_copy = 0; long_copy < 2; long_copy++)
        for (fails_at = 0; fails_at < (long_copy ? 10 : 2); fails_at++) {
            struct yokei_gpu_staging staging = staging_new();
            const size_t n = long_copy ? LONG : 16;
            assert_fails(YOKE_EBACKEND, "queue is full",
                         yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_DEVICE, device, host, n));
            run(1);
            assert_fails(YOKE_EBACKEND, "queue is full",
                         yokei_gpu_stage(&stream, &staging, &calls, YOKE_COPY_TO_HOST, host, device, n));
            run(1);
            staging_free(&staging);
        }
    fails_at = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(in_order), cmocka_unit_test(any_order),
                                        cmocka_unit_test(in_flight), cmocka_unit_test(pieces),
                                        cmocka_unit_test(refusals) };
    return cmocka_run_group_tests_name("gpu_staging", tests, NULL, NULL);
}
