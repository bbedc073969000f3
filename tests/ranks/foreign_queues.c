/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process preloads this library to have another framework beside it: 32 queues of the emulated CUDA device,
 * which hold their hardware channels again and again for a while. The library begins when the trainer makes
 * its first program, because the device is open then.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/base.h"
#include "parallel/program.h"

enum { QUEUES = 32, NON_BLOCKING = 1, DEVICEMAP = 2 };

static struct {
    int (*retain)(void **context, int device);
    int (*set)(void *context);
    int (*create)(void **stream, unsigned flags);
    int (*pin)(void **host, size_t bytes, unsigned flags);
    int (*address)(unsigned long long *at, void *host, unsigned flags);
    int (*sync)(void *stream);
    int (*wait)(void *stream, unsigned long long at, uint32_t value, unsigned flags);
} cu;

static bool find(const char *name, void *function_out)
{
    void *driver = dlopen("libcuda-emulated.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *symbol = driver ? dlsym(driver, name) : NULL;
    memcpy(function_out, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Hold all channels for 2 ms, leave them for 1 ms, and so on to the end of the process. */
static void *hold_channels(void *unused)
{
    void *context, *queue[QUEUES], *host;
    unsigned long long at;
    (void)unused;
    bool good = !cu.retain(&context, 0) && !cu.set(context) && !cu.pin(&host, 64, DEVICEMAP)
                && !cu.address(&at, host, 0);
    for (int i = 0; i < QUEUES && good; i++) good = !cu.create(&queue[i], NON_BLOCKING);
    _Atomic uint32_t *word = host;
    for (uint32_t value = 1; good; value++) {
        for (int i = 0; i < QUEUES && good; i++) good = !cu.wait(queue[i], at, value, 0);
        usleep(2000);
        atomic_store(word, value);
        for (int i = 0; i < QUEUES && good; i++) good = !cu.sync(queue[i]);
        usleep(1000);
    }
    return NULL;
}

static void begin(void)
{
    pthread_t thread;
    if (find("cuDevicePrimaryCtxRetain", &cu.retain) && find("cuCtxSetCurrent", &cu.set)
        && find("cuStreamCreate", &cu.create) && find("cuMemHostAlloc", &cu.pin)
        && find("cuMemHostGetDevicePointer_v2", &cu.address) && find("cuStreamWaitValue32_v2", &cu.wait)
        && find("cuStreamSynchronize", &cu.sync) && !pthread_create(&thread, NULL, hold_channels, NULL)) {
        pthread_detach(thread);
        dprintf(STDERR_FILENO, "foreign queues hold the channels\n"); /* the test looks for this line */
    }
}

yoke_status yokei_order_streams(struct yokei_program *program)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    yoke_status (*const own)(struct yokei_program *) = (yoke_status(*)(struct yokei_program *))(
        uintptr_t)dlsym(RTLD_NEXT, "yokei_order_streams");
    pthread_once(&once, begin);
    return own(program);
}
