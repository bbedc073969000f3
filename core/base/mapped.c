/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/base.h"
#include "core/base/map_shared.h"

/*
 * A mapped file. A signal handler walks the list while other threads change it. So entries are never freed,
 * but used again. `bytes` is 0 while an entry is unused, and is written last.
 */
struct entry {
    atomic_uintptr_t begin;
    atomic_size_t bytes;
    char *path;
    struct stat stat;
    struct entry *next, *next_unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *_Atomic entries;
static struct entry *unused;

yoke_status yokei_mapped_add(const void *memory, size_t bytes, const char *path, int fd)
{
    char *copy = strdup(path);
    pthread_mutex_lock(&lock);
    struct entry *e = unused;
    if (copy && !e && (e = calloc(1, sizeof *e))) {
        e->next = atomic_load(&entries);
        atomic_store(&entries, e);
    } else if (copy && e)
        unused = e->next_unused;
    if (copy && e) {
        e->path = copy;
        if (fstat(fd, &e->stat)) memset(&e->stat, 0, sizeof e->stat);
        atomic_store(&e->begin, (uintptr_t)memory);
        atomic_store(&e->bytes, bytes);
    }
    pthread_mutex_unlock(&lock);
    if (copy && e) return YOKE_OK;
    free(copy);
    return yoke_fail(YOKE_ENOMEM, "%s: no host memory to map it", path);
}

void yokei_mapped_remove(const void *memory)
{
    pthread_mutex_lock(&lock);
    struct entry *e = atomic_load(&entries);
    while (e && (atomic_load(&e->begin) != (uintptr_t)memory || !atomic_load(&e->bytes))) e = e->next;
    if (e) {
        atomic_store(&e->bytes, 0);
        free(e->path);
        e->path = NULL;
        e->next_unused = unused;
        unused = e;
    }
    pthread_mutex_unlock(&lock);
}

/* Why a part of the file cannot be read. stat() may be called in a signal handler. */
static void explain(const struct entry *e, size_t bytes, struct yokei_lost_file *out)
{
    struct stat now;
    const bool there = stat(e->path, &now) == 0 && now.st_dev == e->stat.st_dev
                       && now.st_ino == e->stat.st_ino;
    out->had = bytes;
    out->has = there ? (size_t)now.st_size : 0;
    out->fate = !there                ? YOKEI_LOST_REPLACED
                : out->has < out->had ? YOKEI_LOST_SHORTER
                                      : YOKEI_LOST_UNREADABLE;
}

bool yokei_mapped_at(const void *address, struct yokei_lost_file *out)
{
    static const uintptr_t PAGE = 4096; /* the last page of a file is mapped as a whole */
    const uintptr_t at = (uintptr_t)address;
    for (const struct entry *e = atomic_load(&entries); e; e = e->next) {
        const size_t bytes = atomic_load(&e->bytes);
        const uintptr_t begin = atomic_load(&e->begin);
        if (!bytes || at < begin || at >= begin + (bytes + PAGE - 1) / PAGE * PAGE) continue;
        out->path = e->path;
        explain(e, bytes, out);
        return true;
    }
    return false;
}

int yokei_open_shared(const char *path, int flags)
{
    return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

yoke_status yokei_map_shared(int fd, size_t bytes, const char *what, const char *path, void **memory_out)
{
    const int error = yokei_file_reserve(fd, bytes);
    if (error)
        return yoke_fail(YOKE_EIO, "%s %s: no room for %zu bytes: %s", what, path, bytes, strerror(error));
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return yoke_fail(YOKE_EIO, "%s %s: cannot be mapped: %s", what, path, strerror(errno));
    (void)yokei_mapped_add(memory, bytes, path, fd);
    *memory_out = memory;
    return YOKE_OK;
}

void yokei_unmap_shared(const void *memory, size_t bytes)
{
    if (memory) yokei_mapped_remove(memory);
    if (memory) munmap((void *)(uintptr_t)memory, bytes);
}
