/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory, for backends that compute on the calling thread. */
#include "core/backend.h"
#include "core/base/base.h"

#include <stdio.h>
#include <stdlib.h>
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
