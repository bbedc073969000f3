/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the C library that allocate memory, with one failure on purpose. The address to which a
 * function returns tells which library has called it.
 * Preloaded: the process whose PMI_RANK is SCARCE_RANK fails its allocation number SCARCE_AT, counted from
 * its start. If the process is the command `yoke`, allocations of the command count too. At the end the
 * number of allocations is written to the file SCARCE_COUNT.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/ranks/scarce.h"

#if defined SCARCE_SANITIZED && defined __clang__

bool scarce_works(void) { return false; }
void scarce_begin(long at) { (void)at; }
bool scarce_end(void) { return false; }

#else

bool scarce_works(void) { return true; }

enum { MOST_RANGES = 32 };
static struct {
    uintptr_t begin, end;
} ranges[MOST_RANGES]; /* the code of Yoke's libraries */
static int n_ranges;
static atomic_bool counts;
static atomic_long n_seen;
static long failing;

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static char *(*next_strdup)(const char *);
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);

/* While the functions are being looked up, the loader itself may ask for a little memory. It gets this. */
static _Alignas(64) char first_bytes[8192];
static size_t n_first;
static bool is_looking;

static void *first_room(size_t bytes)
{
    const size_t at = n_first;
    n_first += (bytes + 63) / 64 * 64;
    return n_first <= sizeof first_bytes ? first_bytes + at : NULL;
}

static void look_up(void)
{
    if (next_mmap || is_looking) return;
    is_looking = true;
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
    *(void **)&next_strdup = dlsym(RTLD_NEXT, "strdup");
    *(void **)&next_mmap = dlsym(RTLD_NEXT, "mmap");
    is_looking = false;
}

static int note_library(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes, (void)unused;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    const bool is_command = !*name
                            && (!strcmp(program_invocation_short_name, "yoke")
                                || !strcmp(program_invocation_short_name, "lt-yoke"));
    if (!is_command && strncmp(name, "libyoke", 7) != 0) return 0;
    for (int i = 0; i < info->dlpi_phnum && n_ranges < MOST_RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        ranges[n_ranges].begin = info->dlpi_addr + part->p_vaddr;
        ranges[n_ranges].end = ranges[n_ranges].begin + part->p_memsz;
        n_ranges++;
    }
    return 0;
}

void scarce_begin(long at)
{
    if (!n_ranges) dl_iterate_phdr(note_library, NULL);
    failing = at;
    atomic_store(&n_seen, 0);
    atomic_store(&counts, true);
}

bool scarce_end(void)
{
    atomic_store(&counts, false);
    return failing && atomic_load(&n_seen) >= failing;
}

__attribute__((constructor)) static void begin_preloaded(void)
{
    const char *at = getenv("SCARCE_AT"), *wanted = getenv("SCARCE_RANK"), *rank = getenv("PMI_RANK");
    look_up();
    if (at && wanted && rank && !strcmp(wanted, rank)) scarce_begin(atol(at));
}

__attribute__((destructor)) static void write_count(void)
{
    const char *path = getenv("SCARCE_COUNT");
    FILE *file = n_ranges && path && atomic_exchange(&counts, false) ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld\n", atomic_load(&n_seen));
    fclose(file);
}

/* Whether this allocation fails. `caller` is the address to which the allocating function returns. */
static bool fails(const void *caller)
{
    const uintptr_t at = (uintptr_t)caller;
    look_up();
    for (int i = 0; i < n_ranges && atomic_load(&counts); i++)
        if (at >= ranges[i].begin && at < ranges[i].end) {
            if (atomic_fetch_add(&n_seen, 1) + 1 != failing) return false;
            errno = ENOMEM;
            return true;
        }
    return false;
}
#define FAILS fails(__builtin_return_address(0))

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    if (FAILS) return NULL;
    return next_malloc ? next_malloc(bytes) : first_room(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes)
{
    if (FAILS) return NULL;
    return next_calloc ? next_calloc(n, bytes) : first_room(n * bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    return FAILS ? NULL : next_realloc(memory, bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
    return FAILS ? NULL : next_aligned_alloc(alignment, bytes);
}

__attribute__((visibility("default"))) char *strdup(const char *text)
{
    return FAILS ? NULL : next_strdup(text);
}

__attribute__((visibility("default"))) void *mmap(void *at, size_t bytes, int protection, int flags, int file,
                                                  off_t offset)
{
    return FAILS ? MAP_FAILED : next_mmap(at, bytes, protection, flags, file, offset);
}

#endif
