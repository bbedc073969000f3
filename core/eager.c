/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory, and eager streams: when a call on such a stream returns, its work has ended. They are for
 * backends that compute on the calling thread. An event is incomplete only between arm and signal.
 */
#include "core/backend.h"
#include "core/base/base.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64, HUGE_PAGE = 2 << 20, MANY_PAGES = 2 * HUGE_PAGE };

/* The header in front of every allocation, in a cache line of its own. It tells yoke_free the size. */
struct header {
    size_t bytes;
};

/*
 * The bytes that this process may still take, page cache included. If a control group has a limit, the limit
 * applies.
 */
yoke_status yokei_host_memory(const yoke_device *device, uint64_t *free_out, uint64_t *total_out)
{
    unsigned long long total = 0, available = 0, most = 0, used = 0;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "re");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "MemTotal: %llu", &total);
        sscanf(line, "MemAvailable: %llu", &available);
    }
    if (f) fclose(f);
    if (!total) return yoke_fail(YOKE_EBACKEND, "device %s: cannot read /proc/meminfo", device->info.spec);
    total *= 1024, available *= 1024;
    FILE *limit = fopen("/sys/fs/cgroup/memory.max", "re"),
         *now = fopen("/sys/fs/cgroup/memory.current", "re");
    if (limit && now && fscanf(limit, "%llu", &most) == 1 && fscanf(now, "%llu", &used) == 1
        && most < total) {
        total = most;
        available = YOKE_MIN(available, most > used ? most - used : 0);
    }
    if (limit) fclose(limit);
    if (now) fclose(now);
    *free_out = available;
    *total_out = total;
    return YOKE_OK;
}

static yoke_status host_alloc(yoke_device *device, size_t bytes, void **address_out)
{
    void *block = NULL;
    const bool is_large = bytes >= MANY_PAGES;
    if (bytes > SIZE_MAX - 2 * HUGE_PAGE
        || posix_memalign(&block, is_large ? HUGE_PAGE : ALIGNMENT, bytes + ALIGNMENT)) {
        uint64_t available = 0, total = 0;
        yokei_host_memory(device, &available, &total);
        return yoke_fail(YOKE_ENOMEM, "device %s: cannot allocate %zu bytes, %llu are available",
                         device->info.spec, bytes, (unsigned long long)available);
    }
    /*
     * This is only a request. With huge pages, a training step touches hundreds of pages instead of a hundred
     * thousand.
     */
    if (is_large) madvise(block, bytes + ALIGNMENT, MADV_HUGEPAGE);
    ((struct header *)block)->bytes = bytes;
    yokei_account(device, (int64_t)bytes);
    *address_out = (char *)block + ALIGNMENT;
    return YOKE_OK;
}

static void host_free(yoke_device *device, void *address)
{
    char *block = (char *)address - ALIGNMENT;
    yokei_account(device, -(int64_t)((struct header *)block)->bytes);
    free(block);
}

static void *host_ptr(const yoke_device *device, const void *address)
{
    (void)device;
    return (void *)(uintptr_t)address;
}

const struct yoke_memory_ops yokei_host_memory_ops = { .alloc = host_alloc,
                                                       .free = host_free,
                                                       .host_ptr = host_ptr };

yoke_status yokei_eager_create(yoke_stream *stream, const struct yoke_native *native)
{
    if (!native) return YOKE_OK;
    return yoke_fail(YOKE_EUNSUPPORTED, "device %s: it has no foreign queues to wrap",
                     stream->device->info.spec);
}

void yokei_eager_destroy(yoke_stream *stream) { (void)stream; }

yoke_status yokei_eager_nothing(yoke_stream *stream)
{
    (void)stream;
    return YOKE_OK;
}

static yoke_status eager_copy(yoke_stream *stream, enum yoke_copy_kind kind, void *target, const void *source,
                              size_t bytes)
{
    (void)stream, (void)kind;
    memmove(target, source, bytes);
    return YOKE_OK;
}

static yoke_status eager_fill(yoke_stream *stream, void *target, uint8_t byte, size_t bytes)
{
    (void)stream;
    memset(target, byte, bytes);
    return YOKE_OK;
}

struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool complete;
    uint64_t completed_ns;
};

yoke_status yokei_eager_event_create(yoke_event *event)
{
    struct event *e = malloc(sizeof *e);
    if (!e) return yoke_fail(YOKE_ENOMEM, "event: no memory");
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->complete = true;
    e->completed_ns = yokei_now_ns();
    event->impl = e;
    return YOKE_OK;
}

void yokei_eager_event_destroy(yoke_event *event)
{
    struct event *e = event->impl;
    /* In a forked process a thread that exists only in the parent may count as waiting here. */
    if (yokei_made_here(&event->device->maker)) {
        pthread_cond_destroy(&e->changed);
        pthread_mutex_destroy(&e->lock);
    }
    free(e);
}

static yoke_status set(yoke_event *event, bool complete)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    e->complete = complete;
    if (complete) e->completed_ns = yokei_now_ns();
    if (complete) pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

yoke_status yokei_eager_event_record(yoke_event *event, yoke_stream *stream)
{
    (void)stream;
    return set(event, true);
}

yoke_status yokei_eager_event_arm(yoke_event *event) { return set(event, false); }
yoke_status yokei_eager_event_signal(yoke_event *event) { return set(event, true); }

yoke_status yokei_eager_event_query(yoke_event *event, bool *complete_out)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    *complete_out = e->complete;
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

yoke_status yokei_eager_event_wait(yoke_stream *stream, yoke_event *event)
{
    (void)stream;
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    while (!e->complete) pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    return YOKE_OK;
}

uint64_t yokei_eager_event_ns(const yoke_event *event)
{
    struct event *e = event->impl;
    pthread_mutex_lock(&e->lock);
    const uint64_t ns = e->complete ? e->completed_ns : 0;
    pthread_mutex_unlock(&e->lock);
    return ns;
}

const struct yoke_stream_ops yokei_eager_stream_ops = YOKEI_EAGER_STREAM_OPS(eager_copy, eager_fill);

bool yokei_is_eager(const yoke_device *device)
{
    return device->backend->stream->create == yokei_eager_create;
}
