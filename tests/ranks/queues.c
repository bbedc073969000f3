/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives beside the queues of another framework, on an emulated CUDA device with few hardware channels.
 * Two communicators are used in different orders on different ranks. A foreign queue holds a channel for a
 * while.
 */
#include "tests/ranks/ranks.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"

enum { N = 5000, ROUNDS = 20, FOREIGN = 32 };

struct side {
    yoke_comm *comm;
    yoke_stream *stream;
    float *x, *y; /* [N] on the device */
    float host[N], back[N];
};

static yoke_device *device;
static struct side sides[2];

static int open_all(void)
{
    RANKS_TRY(yoke_device_open("cuda:0", NULL, &device));
    for (int s = 0; s < 2; s++) {
        struct yoke_comm_config config = YOKE_COMM_CONFIG_INIT;
        RANKS_TRY(yoke_comm_create(ranks_world, device, &config, &sides[s].comm));
        RANKS_TRY(yoke_stream_create(device, &sides[s].stream));
        RANKS_TRY(yoke_alloc(device, sizeof sides[s].host, (void **)&sides[s].x));
        RANKS_TRY(yoke_alloc(device, sizeof sides[s].host, (void **)&sides[s].y));
    }
    return 1;
}

/* Issue a chain of sums and copies to the side's stream. Each step uses the result of the one before. */
static int issue(struct side *s, yoke_stream *stream)
{
    const size_t bytes = sizeof s->host;
    for (int i = 0; i < N; i++) s->host[i] = (float)(i % 17 + ranks_rank);
    RANKS_TRY(yoke_copy_to_device(stream, s->x, s->host, bytes));
    for (int round = 0; round < 3; round++) {
        RANKS_TRY(yoke_all_reduce(s->x, s->y, N, YOKE_F32, YOKE_SUM, s->comm, stream));
        RANKS_TRY(yoke_copy(stream, s->x, s->y, bytes));
        RANKS_TRY(yoke_fill(stream, s->y, 0xff, bytes));
    }
    RANKS_TRY(yoke_copy_to_host(stream, s->back, s->x, bytes));
    return 1;
}

static int is_right(struct side *s, yoke_stream *stream)
{
    RANKS_TRY(yoke_stream_sync(stream));
    const float times = (float)(ranks_size * ranks_size);
    for (int i = 0; i < N; i++) {
        float first = 0;
        for (int r = 0; r < ranks_size; r++) first += (float)(i % 17 + r);
        if (s->back[i] != first * times) return 0;
    }
    return 1;
}

/* The ranks use the communicators in different orders. Nothing waits for a rank in between. */
static int crossed(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct side *one = &sides[(ranks_rank + round) % 2], *other = &sides[(ranks_rank + round + 1) % 2];
        if (!issue(one, one->stream) || !issue(other, other->stream)) return 0;
        if (!is_right(one, one->stream) || !is_right(other, other->stream)) return 0;
    }
    return 1;
}

/* ---- queues of another framework ---- */

static CUstream foreign[FOREIGN];
static uint32_t *word;

static void *open_word(void *unused)
{
    (void)unused;
    usleep(50000);
    __atomic_store_n(word, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A queue of another framework waits for a while, and holds its channel. Then sums on a wrapped queue. */
static int beside(void)
{
    const struct cuda_library *cu = cuda_device(device)->cu;
    CUresult (*wait)(CUstream, CUdeviceptr, uint32_t, unsigned);
    void *driver = dlopen("libcuda-emulated.so.1", RTLD_NOW | RTLD_NOLOAD), *host;
    void *symbol = driver ? dlsym(driver, "cuStreamWaitValue32_v2") : NULL;
    CUdeviceptr at;
    pthread_t thread;
    if (!symbol) return 0;
    memcpy(&wait, &symbol, sizeof wait);
    RANKS_TRY(yokei_rt_enter(device));
    int good = !cu->cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_DEVICEMAP)
               && !cu->cuMemHostGetDevicePointer_v2(&at, host, 0);
    word = host;
    *word = 0;
    for (int i = 0; i < FOREIGN && good; i++)
        good = !cu->cuStreamCreate(&foreign[i], CU_STREAM_NON_BLOCKING) && !wait(foreign[i], at, 1, 0);
    yokei_rt_leave(device);
    if (!good || pthread_create(&thread, NULL, open_word, NULL)) return 0;
    struct yoke_native native = YOKE_NATIVE_INIT;
    yoke_stream *wrapped;
    native.context = cuda_device(device)->context;
    native.device = (void *)(intptr_t)cuda_device(device)->id;
    native.queue = foreign[0];
    RANKS_TRY(yoke_stream_wrap(device, &native, &wrapped));
    for (int round = 0; round < ROUNDS && good; round++)
        good = issue(&sides[0], wrapped) && issue(&sides[1], sides[1].stream)
               && is_right(&sides[1], sides[1].stream) && is_right(&sides[0], wrapped);
    pthread_join(thread, NULL);
    RANKS_TRY(yoke_stream_destroy(wrapped));
    RANKS_TRY(yokei_rt_enter(device));
    for (int i = 0; i < FOREIGN; i++) good = !cu->cuStreamDestroy_v2(foreign[i]) && good;
    good = !cu->cuMemFreeHost(host) && good;
    yokei_rt_leave(device);
    return good;
}

static int close_all(void)
{
    for (int s = 0; s < 2; s++) {
        RANKS_TRY(yoke_comm_destroy(sides[s].comm));
        RANKS_TRY(yoke_stream_destroy(sides[s].stream));
        RANKS_TRY(yoke_free(device, sides[s].x));
        RANKS_TRY(yoke_free(device, sides[s].y));
    }
    RANKS_TRY(yoke_device_close(device));
    return 1;
}

int main(void)
{
    ranks_start();
    if (!ranks_check(open_all(), "two communicators on a device")) return ranks_end();
    ranks_check(crossed(), "the ranks use the communicators in different orders");
    ranks_check(beside(), "beside foreign queues that hold all channels for a while, and on one of them");
    ranks_check(close_all(), "all is closed");
    return ranks_end();
}
