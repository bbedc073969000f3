/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that several processes share. The file that YOKE_EMULATE_SHARE names has an entry for each process,
 * with the bytes that the process uses of each device. All processes together get the memory of a device. A
 * process holds a lock on the bytes of its entry, which ends with the process, so the memory of a process
 * that was killed is free again. A lock on the beginning of the file protects the entries.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "emulate/gpu/driver.h"

enum { PROCESSES = 256, LOCK_BYTES = 64 };

#define MAGIC "yoke: memory of emulated devices"

struct table {
    char lock[LOCK_BYTES]; /* begins with MAGIC */
    struct entry {
        uint64_t used[MOST_DEVICES]; /* by the number of the device, before the program selects some */
    } entries[PROCESSES];
};

static int file = -1;
static struct table *table;
static int own; /* the index of this process's entry */

static int lock_range(int command, short type, off_t begin, off_t bytes)
{
    struct flock range = { .l_type = type, .l_whence = SEEK_SET, .l_start = begin, .l_len = bytes };
    const int result = fcntl(file, command, &range);
    /* for F_OFD_GETLK: whether another process holds a lock */
    return result ? -1 : range.l_type != F_UNLCK;
}

static void begin(void)
{
    while (lock_range(F_OFD_SETLKW, F_WRLCK, 0, LOCK_BYTES) < 0 && errno == EINTR) {}
}

static void end(void) { lock_range(F_OFD_SETLK, F_UNLCK, 0, LOCK_BYTES); }

static off_t place_of(int entry)
{
    return (off_t)offsetof(struct table, entries) + (off_t)entry * (off_t)sizeof(struct entry);
}

/* Take an entry that no living process has. */
static bool take_entry(void)
{
    for (own = 0; own < PROCESSES; own++) {
        if (lock_range(F_OFD_SETLK, F_WRLCK, place_of(own), sizeof(struct entry)) < 0) continue;
        memset(&table->entries[own], 0, sizeof table->entries[own]);
        return true;
    }
    return false;
}

/* The file is empty, or has such a table. No other file is changed. */
static bool may_use(void)
{
    struct stat is;
    char magic[sizeof MAGIC] = "";
    if (fstat(file, &is)) return false;
    if (S_ISREG(is.st_mode) && !is.st_size) return true;
    const bool has_size = S_ISREG(is.st_mode) && is.st_size == sizeof *table;
    if (has_size && pread(file, magic, sizeof magic, 0) == sizeof magic && !strcmp(magic, MAGIC)) return true;
    errno = EEXIST;
    return false;
}

enum emulate_error emulate_share_open(void)
{
    char path[4096];
    if (!emulate_settings.share || file >= 0) return EMULATE_OK;
    /* The devices of each vendor have a file of their own. */
    snprintf(path, sizeof path, "%s%s", emulate_settings.share, emulate_vendor.share_suffix);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) begin();
    const bool good = file >= 0 && may_use() && !ftruncate(file, sizeof *table);
    table = good ? mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (table != MAP_FAILED) memcpy(table->lock, MAGIC, sizeof MAGIC);
    const bool taken = table != MAP_FAILED && take_entry();
    const int reason = errno;
    if (file >= 0) end();
    if (taken) return EMULATE_OK;
    if (table != MAP_FAILED) munmap(table, sizeof *table);
    if (file >= 0) close(file);
    file = -1;
    emulate_print("the file YOKE_EMULATE_SHARE=%s, by which processes share devices, cannot be used: %s",
                  path,
                  table != MAP_FAILED ? "256 processes use it"
                  : reason == EEXIST  ? "it has other content; name a file that does not exist"
                                      : strerror(reason));
    return EMULATE_INVALID_VALUE;
}

static int device_of(const struct context *context)
{
    return emulate_settings.visible[context - emulate_contexts];
}

/* What other living processes use. */
static uint64_t others(int device)
{
    uint64_t sum = 0;
    for (int i = 0; i < PROCESSES; i++) {
        const uint64_t used = __atomic_load_n(&table->entries[i].used[device], __ATOMIC_RELAXED);
        if (i != own && used && lock_range(F_OFD_GETLK, F_WRLCK, place_of(i), sizeof(struct entry)) > 0)
            sum += used;
    }
    return sum;
}

uint64_t emulate_share_others(const struct context *context)
{
    return emulate_settings.share ? others(device_of(context)) : 0;
}

bool emulate_share_fits(const struct context *context)
{
    const uint64_t used = emulate_memory_used(context);
    if (!emulate_settings.share) return used <= emulate_settings.memory;
    const int device = device_of(context);
    begin();
    const uint64_t rest = others(device);
    const bool fits = used + rest <= emulate_settings.memory;
    if (fits) __atomic_store_n(&table->entries[own].used[device], used, __ATOMIC_RELAXED);
    end();
    if (!fits && used <= emulate_settings.memory)
        emulate_print("%s:%d: out of memory, because other processes use %llu MiB of %llu MiB",
                      emulate_vendor.word, context->ordinal, (unsigned long long)(rest >> 20),
                      (unsigned long long)(emulate_settings.memory >> 20));
    return fits;
}

void emulate_share_update(const struct context *context)
{
    if (!emulate_settings.share) return;
    const uint64_t used = context->active ? emulate_memory_used(context) : 0;
    __atomic_store_n(&table->entries[own].used[device_of(context)], used, __ATOMIC_RELAXED);
}
