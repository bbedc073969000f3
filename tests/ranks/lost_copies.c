/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planted errors of collectives on a device that checks the order of commands: a wait is dropped. The error
 * of the call must then name both commands, and the wait that is missing between them. The same without the
 * error passes first.
 *   lost_copies out     a sum does not wait for the stream, and copies too early from the device
 *   lost_copies in      a sum does not wait until its result has arrived, and the stream goes on too early
 * This file defines some functions of libyoke, and these definitions are found first.
 */
#include "tests/ranks/ranks.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"

enum { N = 3000 };

/* The copies that come too early race, which the thread sanitizer reports as it should. */
#if defined __SANITIZE_THREAD__
#define PLANTS 0
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define PLANTS 0
#endif
#endif
#ifndef PLANTS
#define PLANTS 1
#endif

static yoke_device *device;
static yoke_comm *comm;
static yoke_stream *stream;
static float *x, *y; /* [N] on the device */
static float back[N];

/* ---- the plants ---- */

static bool is_out;            /* the planted error, if there is one */
static atomic_bool is_planted; /* from now on */
static atomic_bool is_held, is_open;
static yoke_event *_Atomic in_event;   /* behind the copy of a result to the device */
static yoke_stream *_Atomic in_stream; /* of these copies */

static void wait_until_open(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&is_open)) usleep(500);
}

/* The stream's commands wait in the driver from here on. */
static void hold(yoke_stream *held)
{
    if (atomic_exchange(&is_held, true)) return;
    yokei_rt_enter(device);
    cuda_device(device)->cu->cuLaunchHostFunc(yokei_rt_stream(held)->queue, wait_until_open, NULL);
    yokei_rt_leave(device);
}

#define OWN(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

yoke_status yoke_event_query(yoke_event *event, bool *complete_out)
{
    const bool lies = is_out ? !atomic_load(&is_open) : event == atomic_load(&in_event);
    if (!atomic_load(&is_planted) || !lies) return OWN(yoke_event_query)(event, complete_out);
    *complete_out = true;
    return YOKE_OK;
}

yoke_status yoke_event_record(yoke_event *event, yoke_stream *at)
{
    if (at == atomic_load(&in_stream)) atomic_store(&in_event, event);
    return OWN(yoke_event_record)(event, at);
}

/* The first copy from the device that comes too early opens the gate of the stream. */
yoke_status yoke_copy_to_host(yoke_stream *at, void *to, const void *from, size_t bytes)
{
    const yoke_status status = OWN(yoke_copy_to_host)(at, to, from, bytes);
    if (is_out && at != stream && atomic_load(&is_planted)) atomic_store(&is_open, true);
    return status;
}

yoke_status yoke_copy_to_device(yoke_stream *at, void *to, const void *from, size_t bytes)
{
    if (at != stream) atomic_store(&in_stream, at);
    if (!is_out && at != stream && atomic_load(&is_planted)) hold(at);
    return OWN(yoke_copy_to_device)(at, to, from, bytes);
}

/* ---- the program ---- */

static yoke_status sum(void)
{
    static float values[N];
    for (int i = 0; i < N; i++) values[i] = (float)(i % 17 + ranks_rank);
    if (is_out && atomic_load(&is_planted)) hold(stream);
    YOKE_TRY(yoke_copy_to_device(stream, x, values, sizeof values));
    YOKE_TRY(yoke_all_reduce(x, y, N, YOKE_F32, YOKE_SUM, comm, stream));
    YOKE_TRY(yoke_copy_to_host(stream, back, y, sizeof back));
    return yoke_stream_sync(stream);
}

static int passes(void)
{
    RANKS_TRY(sum());
    for (int i = 0; i < N; i++) {
        float right = 0;
        for (int r = 0; r < ranks_size; r++) right += (float)(i % 17 + r);
        if (back[i] != right) return 0;
    }
    return 1;
}

static int is_named(void)
{
    atomic_store(&is_open, false);
    atomic_store(&is_planted, true);
    yoke_status status = sum();
    atomic_store(&is_open, true);
    for (const uint64_t begin = yokei_now_ns(); !status && yokei_now_ns() - begin < 60000000000u;) {
        usleep(1000);
        status = yoke_stream_sync(stream);
    }
    const char *text = yoke_last_error();
    if (ranks_rank == 0) printf("# %.900s\n", text);
    return status && strstr(text, "a race between streams: ") && strstr(text, " lacks a wait for stream ");
}

int main(int argc, char **argv)
{
    struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
    ranks_start();
    is_out = argc > 1 && !strcmp(argv[1], "out");
    const bool good = !yoke_device_open("cuda:0", NULL, &device)
                      && !yoke_comm_create(ranks_world, device, &config, &comm)
                      && !yoke_stream_create(device, &stream) && !yoke_alloc(device, sizeof back, (void **)&x)
                      && !yoke_alloc(device, sizeof back, (void **)&y);
    if (!ranks_check(good, "a communicator on a device")) return ranks_end();
    ranks_check(passes(), "a sum in the order of a stream");
    ranks_check(!PLANTS || is_named(),
                !PLANTS  ? "a race of copies is named # SKIP the thread sanitizer finds it first"
                : is_out ? "a copy out that does not wait for the stream is named"
                         : "a stream that does not wait for the result is named");
    yoke_comm_destroy(comm); /* the error of the device was reported before */
    return ranks_end();
}
